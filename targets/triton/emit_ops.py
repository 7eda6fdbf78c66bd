"""How each op of a kernel becomes Triton text: the table `EMITTERS`; every other op is a row of `elem`'s table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import Float32Type
from xdsl.ir import Attribute, Operation

from cuesta.dialects import elem, kernel
from cuesta.dialects.core.diagnostics import fail
from cuesta.dialects.core.locations import format_origin
from cuesta.dialects.elem import kind_of, scalar_of
from cuesta.dialects.elem.work import SHARING
from cuesta.dialects.kernel.contract import Eight
from cuesta.dialects.kernel.shapes import Shape, joint_shape, shape_of
from cuesta.targets.triton.emit_contract import accumulate, emit_contract
from cuesta.targets.triton.emit_fold import emit_fold
from cuesta.targets.triton.emit_index import operand_text
from cuesta.targets.triton.emit_neighbours import load_together, store_together
from cuesta.targets.triton.emit_places import pointer_to
from cuesta.targets.triton.emit_random import emit_random_word
from cuesta.targets.triton.emit_row_loads import row_load
from cuesta.targets.triton.emit_scan import running
from cuesta.targets.triton.emit_types import convert_text, dtype_text, is_double, is_narrow_float
from cuesta.targets.triton.emit_within import mask_of_check, within

if TYPE_CHECKING:
    from cuesta.targets.triton.emit_kernel import KernelEmitter


_LARGEST_POWER = 125
"""Of 2, for a divisor and its reciprocal. Triton takes a denormal literal for an f64."""


def spelling(row: elem.Row, scalar: Attribute) -> str:
    """The Triton template of a row for operands of a type: by kind, `d` for f64 where that differs from `f`."""
    if not isinstance(row.triton, Mapping):
        return row.triton
    kind = kind_of(scalar)
    if is_double(scalar) and "d" in row.triton:
        kind = "d"
    return row.triton[kind]


def quotient_by_constant(op: elem.TableOp) -> str | None:
    """The template of a division of f32 by a constant whose reciprocal is a normal number: no division."""
    owner = op.operands[-1].owner
    if op.row.name != "div" or not isinstance(owner, elem.ConstantOp):
        return None
    scalar, divisor = scalar_of(owner.result.type), float(owner.value)
    if not isinstance(scalar, Float32Type) or not 2.0**-_LARGEST_POWER <= abs(divisor) <= 2.0**_LARGEST_POWER:
        return None
    inverse = elem.constant(1 / divisor, scalar).value
    is_power_of_two = abs(math.frexp(divisor)[0]) == 0.5
    if op.precision is not None or is_power_of_two:
        return f"{{a}} * {inverse!r}"
    return f"functions.divide({{a}}, {{b}}, {inverse!r})"


def quotient_of_tile(emitter: KernelEmitter, op: elem.TableOp) -> str | None:
    """The template of a division of a tile of f32: by one number, one of two, or one for each row, one division for all
    of them; else one that zeros among them do not slow down.
    """
    if op.row.name != "div" or not isinstance(scalar_of(op.operands[0].type), Float32Type):
        return None
    if isinstance(op.operands[1].owner, elem.ConstantOp):  # whose reciprocal is no normal number
        return None
    dividend, divisor = (emitter.real_of(operand) for operand in op.operands)
    dividends, divisors = math.prod(dividend), math.prod(divisor)
    if dividends <= 1:
        return None
    functions = "functions" if op.precision is None else "quick"
    if not divisor:
        return f"{functions}.divide_by_shared({{a}}, {{b}})"
    if (two := emitter.of_two_rows.get(op.operands[1])) is not None:
        return f"{functions}.divide_by_two({{a}}, {two.first}, {two.second}, {two.is_first})"
    if op.precision is not None:
        return None
    return f"functions.divide_{'by_rows' if divisors * SHARING <= dividends else 'each'}({{a}}, {{b}})"


def emit_table_op(emitter: KernelEmitter, op: Operation) -> None:
    """An op of `elem`'s table: its template, or that of the approximation which its precision allows. What is narrower
    than f32 is computed in f32.
    """
    if not isinstance(op, elem.TableOp):
        fail(op, "the Triton target has no spelling for this op")
    if emitter.whole and _holds(emitter, op):
        emitter.true.add(op.results[0])
        emitter.define(op, "tl.full([], True, tl.int1)", ())
        return
    scalar = scalar_of(op.operands[0].type)
    texts = emitter.operands(op)
    narrow = is_narrow_float(scalar)
    if narrow:
        texts = [f"tl.cast({text}, tl.float32)" for text in texts]
    template = spelling(op.row, scalar) if op.precision is None else op.row.approximations[op.precision].triton
    template = quotient_by_constant(op) or quotient_of_tile(emitter, op) or template
    text = template.format(**dict(zip("abc", texts, strict=False)))
    if narrow and op.row.result != "bool":
        text = f"({text}).to({dtype_text(scalar)})"
    emitter.define(op, text, emitter.joint([emitter.real_of(operand) for operand in op.operands]))


def _holds(emitter: KernelEmitter, op: elem.TableOp) -> bool:
    """Whether a condition holds at all points of the program."""
    assert emitter.whole is not None
    return op in emitter.whole.conditions or (op.row.name == "and" and emitter.true.issuperset(op.operands))


def _convert(emitter: KernelEmitter, op: Operation) -> None:
    source = op.operands[0]
    (text,) = emitter.operands(op)
    text = convert_text(text, source.type, op.results[0].type)
    if text == emitter.names.get(source):
        emitter.names[op.results[0]], emitter.real[op.results[0]] = text, emitter.real_of(source)
    else:
        emitter.define(op, text, emitter.real_of(source))


def _bitcast(emitter: KernelEmitter, op: Operation) -> None:
    (text,) = emitter.operands(op)
    text = f"{text}.to({dtype_text(op.results[0].type)}, bitcast=True)"
    emitter.define(op, text, emitter.real_of(op.operands[0]))


def _dot(emitter: KernelEmitter, op: Operation) -> None:
    """The parts of the words one after the other: no kernel of ours needs it to be quick."""
    assert isinstance(op, elem.DotOp)
    a, b = emitter.operands(op)
    if op.parts == "bf16":
        low = [f"({word} << 16).to(tl.float32, bitcast=True)" for word in (a, b)]
        high = [f"({word} & -65536).to(tl.float32, bitcast=True)" for word in (a, b)]
        text = f"{' * '.join(low)} + {' * '.join(high)}"
    else:
        products = [f"(({a} >> {8 * part}) & 255) * (({b} << {24 - 8 * part}) >> 24)" for part in range(4)]
        text = " + ".join(products)
    emitter.define(op, text, emitter.joint([emitter.real_of(operand) for operand in op.operands]))


def _philox(emitter: KernelEmitter, op: Operation) -> None:
    assert isinstance(op, elem.PhiloxOp)
    key, counter = emitter.operands(op)
    real = emitter.joint([emitter.real_of(operand) for operand in op.operands])
    emitter.define(op, f"functions.philox({key}, {counter}, {op.word})", real)


def _select(emitter: KernelEmitter, op: Operation) -> None:
    condition, on_true, on_false = (emitter.name(operand) for operand in op.operands)
    if op.operands[0] in emitter.true:
        emitter.names[op.results[0]], emitter.real[op.results[0]] = on_true, emitter.real_of(op.operands[1])
        return
    if all(isinstance(operand.owner, elem.ConstantOp) for operand in op.operands[1:]):
        owner = op.operands[1].owner
        assert isinstance(owner, elem.ConstantOp)
        on_true = emitter.constant(owner)
    real = emitter.joint([emitter.real_of(operand) for operand in op.operands])
    emitter.define(op, f"tl.where({condition}, {on_true}, {on_false})", real)


def _broadcast(emitter: KernelEmitter, op: Operation) -> None:
    """Triton broadcasts where it is needed."""
    source, result = op.operands[0], op.results[0]
    emitter.names[result] = emitter.name(source)
    emitter.real[result] = emitter.real_of(source)
    if source in emitter.true:
        emitter.true.add(result)


def _program_id(emitter: KernelEmitter, op: Operation) -> None:
    assert isinstance(op, kernel.ProgramIdOp)
    emitter.names[op.result] = emitter.coordinate(op.axis)


def _pick(emitter: KernelEmitter, op: Operation) -> None:
    """A chain of choices: there is no array of what a kernel is given."""
    assert isinstance(op, kernel.PickOp)
    program = emitter.coordinate(op.axis)
    first, *others = (emitter.names[pointer] for pointer in op.operands)
    name = emitter.names[op.result] = emitter.fresh(op.result.name_hint or "picked")
    emitter.line(f"{name} = {first}")
    for number, other in enumerate(others, 1):
        emitter.line(f"{name} = tl.where({program} == {number}, {other}, {name})")


def _loop(emitter: KernelEmitter, op: Operation) -> None:
    assert isinstance(op, kernel.LoopOp)
    for result, (name, real) in zip(op.results, emitter.loop(op), strict=True):
        emitter.names[result], emitter.real[result] = name, real


def _index(emitter: KernelEmitter, op: Operation) -> None:
    assert isinstance(op, kernel.IndexOp)
    text, real = emitter.index(op.offset, op.indices)
    emitter.define(op, f"tl.cast({text}, {dtype_text(op.result.type)})", real)


def _bound(emitter: KernelEmitter, op: Operation) -> None:
    """An assertion that the device checks; what is out of range goes on as index 0."""
    assert isinstance(op, kernel.BoundOp)
    value = emitter.name(op.operands[0])
    real = emitter.real_of(op.operands[0])
    size = operand_text(op.size, ())
    signed = kind_of(op.operands[0].type) == "i"
    if not signed:
        value = emitter.bind(f"{value}.to(tl.int64)", "v")
    lowest = f"0 - {size}" if op.wrap else "0"
    good = emitter.bind(f"({value} >= {lowest}) & ({value} < {size})", "in_range")
    if not op.is_checked:
        where = format_origin(op.location)
        message = f"index out of bounds for dimension with size {size}" + (f" ({where})" if where else "")
        typed = shape_of(op.operands[0])
        masks = emitter.active(typed if emitter.has_products else (*real, *(emitter.padded(typed)[len(real) :])))
        checked = f"{good} | ~({' & '.join(masks)})" if masks else good
        emitter.asserts = True
        emitter.line(f"tl.device_assert({checked}, {message!r})")
    position = f"tl.where({value} < 0, {value} + {size}, {value})" if op.wrap else value
    emitter.define(op, f"tl.where({good}, {position}, 0).to({emitter.integer})", real)


def address_text(
    emitter: KernelEmitter, op: kernel.LoadOp | kernel.MemoryWriteOp, typed: Shape
) -> tuple[str, str | None, Shape]:
    """The pointer's text, the mask's, and the shape of what is accessed."""
    text, real = emitter.index(op.offset, op.indices)
    pointer = pointer_to(emitter, op)
    mask = op.rest[0] if op.rest and op.rest[0] not in emitter.true else None
    values = [real, emitter.padded(typed)] + ([emitter.real_of(mask)] if mask is not None else [])
    if isinstance(op, kernel.MemoryWriteOp):
        values.append(emitter.real_of(op.value))
    wanted = emitter.joint(values)
    masks = emitter.active(joint_shape(op.operands) if emitter.has_products else wanted)
    if mask is not None:
        condition = emitter.name(mask)
        masks = [condition, *masks]
    if (inside := mask_of_check(emitter, op, text)) is not None:
        masks = [inside, *masks]
    if isinstance(op, kernel.LoadOp) and emitter.in_factor and not masks:
        wanted = real  # what all points of a step share is read once for them
    return emitter.spread(pointer, real, wanted), " & ".join(masks) or None, wanted


def _load(emitter: KernelEmitter, op: Operation) -> None:
    assert isinstance(op, kernel.LoadOp)
    of_row = None if emitter.hoisting.loops else row_load(emitter, op)
    if of_row is not None:
        emitter.define(op, *of_row)
        return
    if op in emitter.neighbours and _load_together(emitter, op):
        return
    text, spelled, real = _load_text(emitter, op)
    if op.pointer not in emitter.written:
        emitter.define(op, text, real, spelled)
        return
    key = text.removeprefix("tl.load(").removesuffix(")")
    for scope in emitter.scopes:
        stored = scope.stored.get(key)
        if stored is not None:
            emitter.names[op.result] = emitter.name(stored)
            emitter.real[op.result] = emitter.real_of(stored)
            return
    if op.pointer in emitter.dirty:
        emitter.barrier()
    name = emitter.names[op.result] = emitter.fresh(op.result.name_hint or "v")
    emitter.real[op.result] = real
    emitter.line(f"{name} = {spelled}")


def _load_text(emitter: KernelEmitter, op: kernel.LoadOp) -> tuple[str, str, Shape]:
    """The text that names a loaded value, how it is to be written, and its shape."""
    pointer, mask, real = address_text(emitter, op, shape_of(op.result))
    arguments = [pointer]
    if mask is not None:
        arguments.append(f"mask={mask}")
    if op.other is not None and mask is not None:
        owner = op.other.owner
        other = emitter.constant(owner) if isinstance(owner, elem.ConstantOp) else emitter.name(op.other)
        arguments.append(f"other={emitter.spread(other, emitter.real_of(op.other), real)}")
    elif mask is not None and (emitter.zero_masked or op in emitter.inside):
        arguments.append("other=0.0" if isinstance(scalar_of(op.result.type), Eight) else "other=0")
    text = f"tl.load({', '.join(arguments)})"
    if guards := emitter.hoisting.guards(text, len(emitter.scopes) - 1):
        arguments[1:2] = [f"mask={' & '.join([*guards, *([] if mask is None else [mask])])}"]
    if _has_ones(emitter, op, mask):
        arguments.append("other=1")
    if op.eviction is not None:
        arguments.append(f'eviction_policy="{op.eviction}"')
    return text, f"tl.load({', '.join(arguments)})", real


def _has_ones(emitter: KernelEmitter, op: kernel.LoadOp, mask: str | None) -> bool:
    """Whether a load gives 1 where its lanes are inactive."""
    if mask is None or op.other is not None or emitter.zero_masked or emitter.in_factor or op in emitter.inside:
        return False
    return emitter.one_masked and kind_of(op.result.type) == "f"


def _load_together(emitter: KernelEmitter, op: kernel.LoadOp) -> bool:
    """Whether a load is done as one of a vector; it is, with the vector's first."""
    together = emitter.neighbours[op]
    if op is not together.at:
        return op.result in emitter.names
    loads = [load for load in together.ops if isinstance(load, kernel.LoadOp)]
    texts = [_load_text(emitter, load)[0] for load in loads]
    _, mask, real = address_text(emitter, loads[0], shape_of(op.result))
    if len(real) != 1 or any(text in scope.known for text in texts for scope in emitter.scopes):
        return False
    rest = _mask_of_vector(emitter, op, mask)
    if op.other is not None and mask is not None:
        owner = op.other.owner
        other = emitter.constant(owner) if isinstance(owner, elem.ConstantOp) else emitter.name(op.other)
        column = emitter.real_of(op.other)
        rest += f", other={f'({other})[:, None]' if column else f'tl.broadcast_to({other}, {[*real, len(loads)]})'}"
    elif emitter.zero_masked and mask is not None:
        rest += ", other=0"
    elif _has_ones(emitter, op, mask):
        rest += ", other=1"
    if op.eviction is not None:
        rest += f', eviction_policy="{op.eviction}"'
    load_together(emitter, together, texts, rest)
    return True


def _mask_of_vector(emitter: KernelEmitter, op: kernel.LoadOp, mask: str | None) -> str:
    """The argument that masks all elements of a vector alike."""
    if mask is None:
        return ""
    varies = bool(emitter.active(shape_of(op.result)))
    varies = varies or any(emitter.real_of(value) for value in op.rest[:1])
    return f", mask=({mask})[:, None]" if varies else f", mask={mask}"


def _store(emitter: KernelEmitter, op: Operation) -> None:
    assert isinstance(op, kernel.StoreOp)
    pointer, mask, _ = address_text(emitter, op, shape_of(op.value))
    arguments = [pointer] if mask is None else [pointer, f"mask={mask}"]
    if not emitter.stores:
        return
    if op in emitter.neighbours:
        together = emitter.neighbours[op]
        if op is together.at:
            masks = [address_text(emitter, one, shape_of(op.value))[1] for one in together.ops]
            store_together(emitter, together, masks)
        emitter.dirty.add(op.pointer)
        emitter.scopes[-1].stored[", ".join(arguments)] = op.value
        return
    owner = op.value.owner
    value = emitter.constant(owner) if isinstance(owner, elem.ConstantOp) else emitter.name(op.value)
    emitter.line(f"tl.store({', '.join([pointer, value, *arguments[1:]])})")
    emitter.dirty.add(op.pointer)
    emitter.scopes[-1].stored[", ".join(arguments)] = op.value


def _add(emitter: KernelEmitter, op: Operation) -> None:
    """A sum, unless it is what a product begins from."""
    if not accumulate(emitter, op):
        emit_table_op(emitter, op)


COMBINED = {"assign": "{value}", "sum": "{old} + {value}", "prod": "{old} * {value}"}


def _combine(emitter: KernelEmitter, op: Operation) -> None:
    """Read, change, write; all that other threads stored before is seen, and all that comes after sees this."""
    from cuesta.targets.triton.emit_accumulate import take_in

    assert isinstance(op, kernel.CombineOp)
    if take_in(emitter, op):
        return
    pointer, mask, _ = address_text(emitter, op, shape_of(op.value))
    owner = op.value.owner
    value = emitter.constant(owner) if isinstance(owner, elem.ConstantOp) else emitter.name(op.value)
    masked = "" if mask is None else f", mask={mask}"
    for scope in emitter.scopes:
        scope.stored.clear()
    emitter.barrier()
    if op.kind != "assign":
        old = emitter.fresh("old")
        emitter.line(f"{old} = tl.load({pointer}{masked})")
        row = COMBINED.get(op.kind, f"functions.{op.kind}({{old}}, {{value}})")
        value = row.format(old=old, value=value)
    emitter.line(f"tl.store({pointer}, {value}{masked})")
    emitter.dirty.add(op.pointer)


_ATOMICS = {"sum": "atomic_add", "maximum": "atomic_max", "minimum": "atomic_min"}


def _atomic(emitter: KernelEmitter, op: Operation) -> None:
    """One change for every active lane; who comes first is open, and nothing else waits for it."""
    assert isinstance(op, kernel.AtomicOp)
    pointer, mask, _ = address_text(emitter, op, shape_of(op.value))
    owner = op.value.owner
    value = emitter.constant(owner) if isinstance(owner, elem.ConstantOp) else emitter.name(op.value)
    masked = "" if mask is None else f", mask={mask}"
    if op.kind == "assign_any":
        emitter.line(f"tl.store({pointer}, {value}{masked})")
    else:
        emitter.line(f'tl.{_ATOMICS[op.kind]}({pointer}, {value}{masked}, sem="relaxed")')


def _local(emitter: KernelEmitter, op: Operation) -> None:
    fail(op, "the Triton target has no scratch memory")


EMITTERS: dict[type[Operation], Callable[[KernelEmitter, Operation], None]] = {
    elem.AddOp: _add,
    elem.BitcastOp: _bitcast,
    elem.ConvertOp: _convert,
    elem.DotOp: _dot,
    elem.PhiloxOp: _philox,
    elem.RandomWordOp: emit_random_word,
    elem.SelectOp: _select,
    kernel.AtomicOp: _atomic,
    kernel.BoundOp: _bound,
    kernel.BroadcastOp: _broadcast,
    kernel.CombineOp: _combine,
    kernel.ContractOp: emit_contract,
    kernel.FoldOp: emit_fold,
    kernel.ForOp: _loop,
    kernel.IndexOp: _index,
    kernel.LoadOp: _load,
    kernel.LocalOp: _local,
    kernel.PickOp: _pick,
    kernel.ProgramIdOp: _program_id,
    kernel.ReduceOp: _loop,
    kernel.RunningOp: running,
    kernel.ScanOp: _loop,
    kernel.StoreOp: _store,
    kernel.WithinOp: within,
}
