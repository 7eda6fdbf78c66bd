"""Elements that lie side by side and that one lane loads, or stores, one by one: as one access of a vector.

    a = tl.load(x + i * 4)
    b = tl.load(x + i * 4 + 1)
    →
    pair = tl.load((x + i * 4)[:, None] + tl.arange(0, 2)[None, :])
    a, b = tl.split(pair)

Exact; nothing is read or written that was not. It needs the first of them to lie where vectors do, for every lane, and
all of them to have one mask. Stores need neither where what all lanes store lies together: then the elements change
threads, so that neighbouring threads store neighbours. What is loaded is loaded with the first, what is stored with the
last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type
from xdsl.ir import Attribute, Operation, SSAValue

from cuesta.dialects import elem, kernel
from cuesta.dialects.core.structs import struct
from cuesta.dialects.elem import kind_of, scalar_of
from cuesta.dialects.kernel.shapes import shape_of
from cuesta.targets.triton.emit_places import pointers_to_columns
from cuesta.targets.triton.emit_types import bits_of
from cuesta.targets.triton.emit_within import is_checked

if TYPE_CHECKING:
    from cuesta.targets.triton.emit_kernel import KernelEmitter

_VECTOR = 16
"""Bytes that one access of a thread has at most."""
_WIDTHS = (8, 4, 2)
_BYTES: Mapping[type[Attribute], int] = {Float16Type: 2, BFloat16Type: 2, Float32Type: 4, Float64Type: 8}

Access = kernel.LoadOp | kernel.StoreOp


@struct(eq=False)
class Neighbours:
    """Ops of one kind, one for each of a vector's elements, in the order of those."""

    ops: tuple[Access, ...]
    at: Access
    """Where the text goes: with the first of the loads, the last of the stores."""


def neighbours_in(emitter: KernelEmitter, ops: Sequence[Operation]) -> dict[Operation, Neighbours]:
    """The accesses of a block that go together."""
    groups: dict[object, dict[int, Access]] = {}
    stores: dict[object, dict[int, Access]] = {}
    if emitter.rank != 1:
        return {}
    for op in ops:
        if not isinstance(op, kernel.LoadOp | kernel.StoreOp) or isinstance(op.offset, int) or is_checked(op):
            continue
        is_load = isinstance(op, kernel.LoadOp)
        if op.pointer in (emitter.written if is_load else emitter.read) or len(_shape(op)) != 1:
            continue
        eviction = op.eviction if is_load else None
        constant = op.offset.constant
        key = (is_load, op.pointer, op.offset - constant, tuple(op.indices))
        groups.setdefault((*key, tuple(op.rest), eviction), {}).setdefault(constant, op)
        if not is_load:
            stores.setdefault(key, {}).setdefault(constant, op)
    order = {op: place for place, op in enumerate(ops)} if groups else {}
    found: dict[Operation, Neighbours] = {}
    vectors = [(group, constants) for group in groups.values() for constants in _vectors(group)]
    vectors += [(group, constants) for group in stores.values() for constants in _runs(group)]
    for group, constants in vectors:
        members = tuple(group[constant] for constant in constants)
        if any(member in found for member in members):
            continue
        choose = min if isinstance(members[0], kernel.LoadOp) else max
        together = Neighbours(members, choose(members, key=order.__getitem__))
        found.update(dict.fromkeys(members, together))
    return found


def _shape(op: Access) -> Sequence[int]:
    return shape_of(op.result if isinstance(op, kernel.LoadOp) else op.value)


def _vectors(group: Mapping[int, Access]) -> list[range]:
    """The constants that make up vectors: as wide as can be, from the first on."""
    if len(group) < 2:
        return []
    first = next(iter(group.values()))
    width = _width(first)
    steps = _steps(first)
    widths = [n for n in _WIDTHS if 0 < width * n <= _VECTOR and all(step % n == 0 for step in steps)]
    return _covered(group, lambda constant: (n for n in widths if constant % n == 0))


def _runs(group: Mapping[int, Access]) -> list[range]:
    """The constants of as many neighbours as there are from lane to lane."""
    first = next(iter(group.values()))
    widths = [n for n in _WIDTHS if n in _steps(first) and _width(first)]
    return _covered(group, lambda constant: widths)


def _covered(group: Mapping[int, Access], widths: Callable[[int], Iterable[int]]) -> list[range]:
    found: list[range] = []
    end: int | None = None
    for constant in sorted(group):
        if end is not None and constant < end:
            continue
        for n in widths(constant):
            if all(k in group for k in range(constant, constant + n)):
                end = constant + n
                found.append(range(constant, end))
                break
    return found


def _steps(access: Access) -> list[int]:
    """The factors in an address."""
    assert not isinstance(access.offset, int)
    return [factor for _, factor in access.offset.terms]


def _width(access: Access) -> int:
    """The bytes of an element in memory; 0 for what is not put together."""
    scalar = scalar_of((access.result if isinstance(access, kernel.LoadOp) else access.value).type)
    if kind_of(scalar) in "iu":
        return bits_of(scalar) // 8
    return _BYTES.get(type(scalar), 0)


def load_together(emitter: KernelEmitter, together: Neighbours, texts: Sequence[str], rest: str) -> None:
    """Loads a vector and names its elements; `texts` are those of the loads one by one, which are known from here on,
    and `rest` the text of the arguments after the address.
    """
    width, lanes = len(together.ops), _shape(together.ops[0])[0]
    pointers = pointers_to_columns(emitter, together.ops[0], width)
    name = emitter.vectors[together] = emitter.fresh("vector")
    emitter.line(f"{name} = tl.load({pointers}{rest})")
    names = [emitter.fresh(op.results[0].name_hint or "v") for op in together.ops]
    _split(emitter, name, lanes, names)
    for op, own, text in zip(together.ops, names, texts, strict=True):
        emitter.names[op.results[0]], emitter.real[op.results[0]] = own, (lanes,)
        emitter.scopes[-1].known[text] = own


def store_together(emitter: KernelEmitter, together: Neighbours, masks: Sequence[str | None]) -> None:
    """Stores a vector; `masks` are the texts of each element's."""
    lanes = _shape(together.ops[0])[0]
    mask = f", mask={_mask_of_block(masks, lanes)}" if any(masks) else ""
    values = tuple(op.operands[0] for op in together.ops)
    value = emitter.together.stored_name(values) if emitter.together is not None else None
    pointers = pointers_to_columns(emitter, together.ops[0], len(values))
    emitter.line(f"tl.store({pointers}, {value or joined(emitter, values, lanes)}{mask})")


def _mask_of_block(masks: Sequence[str | None], lanes: int) -> str:
    """A mask for every column. Made of conditions, which every thread can compute for whatever elements it stores."""
    column = f"tl.arange(0, {len(masks)})[None, :]"
    true = f"tl.full([{lanes}, 1], True, tl.int1)"
    texts = [true if mask is None else f"tl.broadcast_to({mask}, [{lanes}])[:, None]" for mask in masks]
    found = texts[-1]
    for place in reversed(range(1, len(texts))):
        if masks[place - 1] != masks[place]:
            found = f"tl.where({column} < {place}, {texts[place - 1]}, {found})"
    return found


def _spread(emitter: KernelEmitter, value: SSAValue, lanes: int) -> str:
    owner = value.owner
    text = emitter.constant(owner) if isinstance(owner, elem.ConstantOp) else emitter.name(value)
    return emitter.spread(text, emitter.real_of(value), (lanes,))


def _split(emitter: KernelEmitter, name: str, lanes: int, names: Sequence[str]) -> None:
    """The columns of a block: those at even places, and those at odd ones, which are split again."""
    width = len(names)
    if width == 2:
        emitter.line(f"{names[0]}, {names[1]} = tl.split({name})")
        return
    even, odd = emitter.fresh("even"), emitter.fresh("odd")
    emitter.line(f"{even}, {odd} = tl.split(tl.reshape({name}, [{lanes}, {width // 2}, 2]))")
    _split(emitter, even, lanes, names[0::2])
    _split(emitter, odd, lanes, names[1::2])


def joined(emitter: KernelEmitter, values: Sequence[SSAValue], lanes: int) -> str:
    """The text of a block of neighbours that are computed one by one."""
    return _joined([_spread(emitter, value, lanes) for value in values], lanes)


def _joined(values: Sequence[str], lanes: int) -> str:
    if len(values) == 1:
        return values[0]
    text = f"tl.join({_joined(values[0::2], lanes)}, {_joined(values[1::2], lanes)})"
    return text if len(values) == 2 else f"tl.reshape({text}, [{lanes}, {len(values)}])"


__all__ = ["Neighbours", "joined", "load_together", "neighbours_in", "store_together"]
