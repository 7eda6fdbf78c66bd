"""Edits of a program as data: what is printed afterwards parses, so that more of them come to the later checks."""

from __future__ import annotations

import random
from collections.abc import Callable

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter

from cuesta.context import make_context
from cuesta.dialects import kernel, sym
from cuesta.dialects.aten.arguments import CallArguments
from cuesta.dialects.core.locations import CuestaParser, print_text
from cuesta.dialects.layout import contiguous_strides, device_of, is_tensor_type, sizes_of, strides_of, tensor_type

_NUMBERS = (0, 1, 2, 3, 5, 7, 8, 16, 64, 100, 1000, 4096, 1 << 20, 80_000_000)
_KINDS = ("sum", "prod", "maximum", "minimum", "any", "all", "argmax", "argmin", "welford", "assign", "logaddexp")


def mutate(text: str, chooser: random.Random) -> str:
    """The program with one to three edits; the text itself when it does not parse or print."""
    try:
        module = CuestaParser(make_context(), text, "text").parse_module()
        for _ in range(chooser.choice((1, 1, 2, 3))):
            for _ in range(20):
                if chooser.choice(_EDITS)(module, chooser):
                    break
        return print_text(module, locations=True)
    except Exception:  # noqa: BLE001 - an edit that cannot be written down is none
        return text


def _ops(module: ModuleOp) -> list[Operation]:
    return [op for op in module.walk() if op is not module]


def _changed(number: int, chooser: random.Random) -> int:
    return chooser.choice((number + 1, number - 1, number * 2, number // 2, number + 64, chooser.choice(_NUMBERS)))


def _expression(module: ModuleOp, chooser: random.Random) -> bool:
    """An index expression: an address, a bound, a size, an offset."""
    places = [(op, key) for op in _ops(module) for key, attr in op.properties.items() if isinstance(attr, sym.MapAttr)]
    if not places:
        return False
    op, key = chooser.choice(places)
    attr = op.properties[key]
    assert isinstance(attr, sym.MapAttr)
    if not attr.results:
        return False
    results = list(attr.results)
    at = chooser.randrange(len(results))
    old = results[at]
    dims = [sym.dim(k) for k in range(attr.num_dims)]
    other = chooser.choice(dims) if dims else chooser.choice(_NUMBERS)
    edits: list[Callable[[], sym.IndexExpr]] = [
        lambda: old + chooser.choice((1, -1, 4, -4, 64, -64, 4096, 1 << 20, 1 << 61)),
        lambda: old * chooser.choice((2, 3, 16, -1, 1 << 30)),
        lambda: old // chooser.choice((2, 3)),
        lambda: old % chooser.choice((2, 7, 64)),
        lambda: old + other,
        lambda: old - other,
        lambda: other,
        lambda: chooser.choice(_NUMBERS),
        lambda: sym.maximum(old, other),
        lambda: sym.minimum(old, other),
        lambda: old * other,
        lambda: sym.symbol(chooser.choice(("s0", "s77", "s27"))) + old,
    ]
    results[at] = chooser.choice(edits)()
    op.properties[key] = sym.MapAttr.get(attr.num_dims, tuple(results))
    return True


def _integer(module: ModuleOp, chooser: random.Random) -> bool:
    """An integer: lanes, an offset, a size of scratch memory, an axis."""
    places = [(op, key) for op in _ops(module) for key, attr in op.properties.items() if isinstance(attr, IntegerAttr)]
    if not places:
        return False
    op, key = chooser.choice(places)
    attr = op.properties[key]
    assert isinstance(attr, IntegerAttr)
    op.properties[key] = IntegerAttr(_changed(attr.value.data, chooser), attr.type)
    return True


def _kind(module: ModuleOp, chooser: random.Random) -> bool:
    places = [op for op in _ops(module) if isinstance(op.properties.get("kind"), StringAttr)]
    if not places:
        return False
    chooser.choice(places).properties["kind"] = StringAttr(chooser.choice(_KINDS))
    return True


def _operand(module: ModuleOp, chooser: random.Random) -> bool:
    """An operand becomes another value of its type, or any value."""
    ops = [op for op in _ops(module) if op.operands]
    if not ops:
        return False
    op = chooser.choice(ops)
    at = chooser.randrange(len(op.operands))
    values = _values(module)
    old = op.operands[at]
    same = [value for value in values if value.type == old.type and value is not old]
    if not same:
        alike = [value for value in values if isinstance(value.type, type(old.type))]
        same = alike if chooser.random() < 0.3 else []
    if not same:
        return False
    op.operands[at] = chooser.choice(same)
    return True


def _values(module: ModuleOp) -> list[SSAValue]:
    found: list[SSAValue] = []
    for op in _ops(module):
        found += op.results
        found += [argument for region in op.regions for block in region.blocks for argument in block.args]
    return found


def _other_type(old: TensorType, chooser: random.Random, types: list[Attribute]) -> Attribute:
    if chooser.random() < 0.3:
        return chooser.choice(types)
    sizes, strides = list(sizes_of(old)), list(strides_of(old))
    kind = chooser.randrange(5)
    if kind <= 2 and sizes:
        at = chooser.randrange(len(sizes))
        size = sizes[at]
        sizes[at] = _changed(size, chooser) if isinstance(size, int) else chooser.choice((size * 2, size + 1, 4))
        strides = list(contiguous_strides(sizes)) if chooser.random() < 0.7 else strides
    elif kind == 3 and strides:
        at = chooser.randrange(len(strides))
        stride = strides[at]
        strides[at] = _changed(stride, chooser) if isinstance(stride, int) else stride * 2
    elements = [one.element_type for one in types if is_tensor_type(one)]
    element = chooser.choice(elements) if kind == 4 else old.element_type
    return tensor_type(sizes, element, strides, device_of(old))


def _type(module: ModuleOp, chooser: random.Random) -> bool:
    """The type of a tensor, wherever the value is used; or of all tensors of that type."""
    values = [value for value in _values(module) if is_tensor_type(value.type)]
    if not values:
        return False
    value = chooser.choice(values)
    old = value.type
    assert is_tensor_type(old)
    new = _other_type(old, chooser, [one.type for one in values])
    for one in values:
        if one is value or (one.type == old and (_belongs(one, value) or chooser.random() < 0.1)):
            Rewriter.replace_value_with_new_type(one, new)
    _fit_signature(module)
    return True


def _belongs(one: SSAValue, value: SSAValue) -> bool:
    """Whether one is a handle of the nest whose result the other is, or both are results of one op."""
    owner = value.owner
    if not isinstance(owner, Operation):
        return one.owner is owner and False
    return one.owner is owner or any(one in region.blocks[0].args for region in owner.regions if region.blocks)


def _fit_signature(module: ModuleOp) -> None:
    from xdsl.dialects.builtin import FunctionType

    for op in module.body.ops:
        kind = op.properties.get("function_type")
        if isinstance(kind, FunctionType) and op.regions and (block := op.regions[0].first_block) is not None:
            last = block.last_op
            outputs = [operand.type for operand in last.operands] if last is not None else kind.outputs.data
            op.properties["function_type"] = FunctionType.from_lists([one.type for one in block.args], list(outputs))


def _schedule(module: ModuleOp, chooser: random.Random) -> bool:
    """The grid of a kernel, or a choice."""
    places = [op for op in module.body.ops if isinstance(op, kernel.FuncOp)]
    if not places:
        return False
    func = chooser.choice(places)
    grid, choices = list(func.schedule.grid), dict(func.schedule.choices)
    if grid and chooser.random() < 0.7:
        at = chooser.randrange(len(grid))
        size = grid[at]
        grid[at] = _changed(size, chooser) if isinstance(size, int) else chooser.choice((size + 1, size * 2, 7, 0))
    elif func.is_for_gpu:
        name = chooser.choice(("index", "index", "group", "reversed", "warps", "stages", "whole"))
        choices[name] = chooser.choice((0, 1, 2, 3, 4, 8, 32, 64))
    else:
        choices[chooser.choice(("parallel", "unroll", "grain"))] = chooser.choice((0, 1, 2, 3, 4, 8, 100))
    func.properties["schedule"] = kernel.ScheduleAttr.of(tuple(grid), **choices)
    return True


def _calls(module: ModuleOp, chooser: random.Random) -> bool:
    """An argument of a call."""
    places = [op for op in _ops(module) if isinstance(op.properties.get("arguments"), CallArguments)]
    if not places:
        return False
    op = chooser.choice(places)
    attr = op.properties["arguments"]
    assert isinstance(attr, CallArguments)

    def changed(argument: object) -> object:
        if isinstance(argument, tuple):
            return tuple(changed(element) for element in argument)
        if isinstance(argument, bool):
            return not argument
        if isinstance(argument, int):
            return chooser.choice((argument + 1, argument - 1, argument * 2, argument + 64, argument))
        if isinstance(argument, float):
            return chooser.choice((argument * 2, -argument, float("nan"), argument))
        return argument

    positional = tuple(changed(argument) for argument in attr.positional)
    keywords = tuple((name, changed(argument)) for name, argument in attr.keywords)
    op.properties["arguments"] = CallArguments.of(positional, keywords)  # pyright: ignore[reportArgumentType]
    return True


def _moved(module: ModuleOp, chooser: random.Random) -> bool:
    """An op erased, doubled, or moved to another place of its block."""
    ops = [op for op in _ops(module) if op.parent is not None and op.parent.parent_op() is not module]
    if not ops:
        return False
    op = chooser.choice(ops)
    block = op.parent
    assert block is not None
    others = [other for other in block.ops if other is not op]
    if not others:
        return False
    other = chooser.choice(others)
    kind = chooser.randrange(3)
    if kind == 0 and not any(result.first_use for result in op.results):
        op.detach()
        op.erase()
    elif kind == 1:
        block.insert_op_before(op.clone(), other)
    else:
        op.detach()
        block.insert_op_before(op, other)
    return True


def _removed_property(module: ModuleOp, chooser: random.Random) -> bool:
    """A property that may be there or not: wrap, pure, dim, updates, a schedule, a mask."""
    places = [
        (op, key)
        for op in _ops(module)
        for key in op.properties
        if key in ("wrap", "pure", "dim", "updates", "schedule", "eviction")
    ]
    if not places:
        return False
    op, key = chooser.choice(places)
    if isinstance(op, kernel.FuncOp) and key == "schedule":
        return False
    del op.properties[key]
    return True


_EDITS: tuple[Callable[[ModuleOp, random.Random], bool], ...] = (
    _expression,
    _expression,
    _expression,
    _expression,
    _integer,
    _integer,
    _kind,
    _operand,
    _operand,
    _operand,
    _type,
    _type,
    _type,
    _schedule,
    _schedule,
    _calls,
    _calls,
    _moved,
    _removed_property,
)
