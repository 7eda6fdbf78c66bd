"""View-like ops: each becomes `loops.view` by the map from an index of the result to one of the source."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from cuesta.dialects import sym
from cuesta.dialects.layout import sizes_of, strided_view
from cuesta.lowering.aten import view_maps as maps
from cuesta.lowering.aten.builder import AtenCall, LoopBuilder, Rule, decline
from cuesta.lowering.aten.operands import Sizes, dim_argument, sizes_of_value, tensor_type_of

MapOf = Callable[[AtenCall, Sizes, Sizes], Sequence[sym.IndexExpr]]
"""From the call, the source's sizes and the result's sizes to the source's index, over the dims of the result."""


def _one_view(map_of: MapOf) -> Rule:
    def lower(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
        source = op.operands[0]
        result = tensor_type_of(op.results[0])
        return [builder.view(source, map_of(op, sizes_of_value(source), tuple(sizes_of(result))), result)]

    return lower


def _one_copied_view(map_of: MapOf) -> Rule:
    """For ops whose result is a copy in eager: a view that could alias its source, which may be an input, is copied."""

    def lower(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
        source, result = op.operands[0], tensor_type_of(op.results[0])
        sizes = tuple(sizes_of(result))
        indices = map_of(op, sizes_of_value(source), sizes)
        view_map = sym.MapAttr.get(len(sizes), tuple(indices))
        if strided_view(view_map, tensor_type_of(source), sizes) is None:
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
    **{f"aten.{name}": _same for name in ("detach.default", "alias.default", "lift_fresh.default", "view.dtype")},
}
"""Every view-like overload. What reads the bits as another type (`view_as_real`) has no row."""
