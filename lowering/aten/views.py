"""View-like ops: each becomes `loops.view` by the map from an index of the result to one of the source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xdsl.dialects.builtin import IntegerType, Signedness, i64
from xdsl.ir import Attribute, Operation, SSAValue

from cuesta.dialects import elem, sym
from cuesta.dialects.aten import AtenOp, CallOp
from cuesta.dialects.func import ReturnOp
from cuesta.dialects.layout import sizes_of, strided_view
from cuesta.lowering.aten import view_maps as maps
from cuesta.lowering.aten.builder import AtenCall, LoopBuilder, Rule, decline
from cuesta.lowering.aten.library_calls import is_library_call
from cuesta.lowering.aten.operands import Sizes, dim_argument, sizes_of_value, tensor_type_of
from cuesta.lowering.aten.scalar import Scalar, shift_left, shift_right
from cuesta.lowering.aten.storages import keeping_storage

MapOf = Callable[[AtenCall, Sizes, Sizes], Sequence[sym.IndexExpr]]
"""From the call, the source's sizes and the result's sizes to the source's index, over the dims of the result."""


def _one_view(map_of: MapOf) -> Rule:
    def lower(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
        source = op.operands[0]
        result = tensor_type_of(op.results[0])
        return [builder.view(source, map_of(op, sizes_of_value(source), tuple(sizes_of(result))), result)]

    return lower


def _one_copied_view(map_of: MapOf) -> Rule:
    """For ops whose result is a copy in eager: a view that could alias its source, which may be an input, is copied.
    (Without an element any view could.)
    """

    def lower(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
        source, result = op.operands[0], tensor_type_of(op.results[0])
        sizes = tuple(sizes_of(result))
        indices = map_of(op, sizes_of_value(source), sizes)
        view_map = sym.MapAttr.get(len(sizes), tuple(indices))
        if 0 not in sizes and strided_view(view_map, tensor_type_of(source), sizes) is None:
            return [builder.view(source, indices, result)]
        with builder.nest(sizes, [result]) as nest:
            builder.store(builder.load_raw(source, indices), nest.handles[0], nest.indices)
        return nest.results

    return lower


def _same(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    source, result = op.operands[0], tensor_type_of(op.results[0])
    if tensor_type_of(source).element_type != result.element_type:
        decline("the bits are read as another type")
    return [builder.view(source, maps.dims(len(result.get_shape())), result)]


def _detached(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    """The same, but a call where it is returned: autograd would take a view for a tensor with the gradient of its base.
    (What it may be a view for is `alias` by now: `detach_what_is_seen`.)
    """
    if any(isinstance(use.operation, ReturnOp) for use in op.results[0].uses):
        decline("the caller gets it, and it is no view")
    return _same(op, builder)


def _as_other_type(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    """The same bits read as another type: as many numbers, or several along the last dim for one.

    What the caller gets is a view of eager's, as its memory is the source's; so is what only libraries read, which
    costs nothing.
    """
    source, result = op.operands[0], tensor_type_of(op.results[0])
    old, new = tensor_type_of(source).element_type, result.element_type
    if old == new:
        return _same(op, builder)
    widths = elem.bits_of(old), elem.bits_of(new)
    if None in widths:
        decline("bools and complex numbers are not read as bits")
    if any(not isinstance(user, AtenOp | CallOp) for user in _users(op, _is_view)):
        decline("the caller gets it or a view of it, and its memory with it")
    users = list(_users(op, _is_alias))
    if all(is_library_call(user.overload) for user in users if isinstance(user, AtenOp | CallOp)):
        decline("nobody reads it but a library")
    with builder.nest(sizes_of(result), [result]) as nest:
        value = _read_as(builder, source, nest.indices, new)
        builder.store(value, nest.handles[0], nest.indices)
    return nest.results


def _users(op: AtenCall, is_name: Callable[[AtenCall], bool]) -> Iterator[Operation]:
    """Who uses the result, under whatever name: some calls give their first operand another."""
    for use in (use for result in op.results for use in result.uses):
        user = use.operation
        if isinstance(user, AtenOp | CallOp) and use.index == 0 and is_name(user):
            yield from _users(user, is_name)
        else:
            yield user


def _is_alias(call: AtenCall) -> bool:
    return call.overload in ("aten.alias.default", "aten.detach.default")


def _is_view(call: AtenCall) -> bool:
    return call.schema is not None and call.schema.is_view


def _read_as(builder: LoopBuilder, source: SSAValue, indices: Sequence[sym.IndexExpr], to: Attribute) -> Scalar:
    old = elem.bits_of(tensor_type_of(source).element_type)
    new = elem.bits_of(to)
    assert old is not None and new is not None
    *outer, last = indices or (0,)
    if old == new:
        return builder.bitcast(builder.load_raw(source, indices), to)
    # The first of several lies lowest.
    bits, part = _unsigned(max(old, new)), min(old, new)
    if new < old:
        raw = builder.load_raw(source, [*outer, last // (old // new)])
        place = builder.index(last % (old // new) * new, i64)
        whole = raw if raw.type == bits else builder.bitcast(raw, bits)
        piece = builder.convert(shift_right(whole, builder.convert(place, bits)), _unsigned(new))
        return piece if to == piece.type else builder.bitcast(piece, to)
    whole = builder.constant(0, bits)
    for k in range(new // old):
        raw = builder.load_raw(source, [*outer, last * (new // old) + k])
        piece = raw if raw.type == _unsigned(old) else builder.bitcast(raw, _unsigned(old))
        whole = whole | shift_left(builder.convert(piece, bits), k * part)
    return whole if to == bits else builder.bitcast(whole, to)


def _unsigned(width: int) -> IntegerType:
    return IntegerType(width, Signedness.UNSIGNED)


def _unbind(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    source = op.operands[0]
    rank = len(sizes_of_value(source))
    dim = dim_argument(op, "dim", rank)
    return [builder.view(source, maps.selected(rank, dim, k), result.type) for k, result in enumerate(op.results)]


def _pieces(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    """split, split_with_sizes, chunk: consecutive pieces of one dim, whose sizes the results say."""
    source = op.operands[0]
    rank = len(sizes_of_value(source))
    dim = dim_argument(op, "dim", rank)
    values: list[SSAValue] = []
    start: sym.IndexExpr = 0
    for result in op.results:
        indices = maps.dims(rank)
        indices[dim] = sym.dim(dim) + start
        values.append(builder.view(source, indices, result.type))
        start = start + sizes_of_value(result)[dim]
    return values


def _rules(rules: dict[str, MapOf]) -> dict[str, Rule]:
    return {f"aten.{name}": _one_view(map_of) for name, map_of in rules.items()}


RULES: dict[str, Rule] = {
    **_rules(
        {
            "view.default": maps.view_map,
            "_unsafe_view.default": maps.view_map,
            "reshape.default": maps.view_map,
            "_reshape_alias.default": maps.view_map,
            "view_as.default": maps.view_map,
            "flatten.using_ints": maps.view_map,
            "unflatten.int": maps.view_map,
            "permute.default": maps.permute_map,
            "transpose.int": maps.transpose_map,
            "swapaxes.default": maps.transpose_map,
            "t.default": maps.reverse_dims_map,
            "numpy_T.default": maps.reverse_dims_map,
            "movedim.intlist": maps.movedim_map,
            "movedim.int": maps.movedim_map,
            "expand.default": maps.expand_map,
            "expand_as.default": maps.expand_map,
            "broadcast_to.default": maps.expand_map,
            "unsqueeze.default": maps.unsqueeze_map,
            "squeeze.default": maps.squeeze_map,
            "squeeze.dim": maps.squeeze_map,
            "squeeze.dims": maps.squeeze_map,
            "slice.Tensor": maps.slice_map,
            "narrow.default": maps.narrow_map,
            "select.int": maps.select_map,
            "diagonal.default": maps.diagonal_map,
            "unfold.default": maps.unfold_map,
        }
    ),
    "aten.flip.default": _one_copied_view(maps.flip_map),
    "aten.roll.default": _one_copied_view(maps.roll_map),
    "aten.repeat.default": _one_copied_view(maps.repeat_map),
    **{
        f"aten.{name}": _pieces
        for name in ("split.Tensor", "split_with_sizes.default", "chunk.default", "unsafe_split.Tensor")
    },
    "aten.unsafe_split_with_sizes.default": _pieces,
    "aten.unsafe_chunk.default": _pieces,
    "aten.unbind.int": _unbind,
    **{f"aten.{name}": _same for name in ("alias.default", "lift_fresh.default")},
    "aten.detach.default": _detached,
    "aten.view.dtype": keeping_storage(_as_other_type),
}
"""Every view-like overload. What takes complex numbers apart (`view_as_real`) has no row."""
