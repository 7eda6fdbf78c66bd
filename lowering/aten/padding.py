"""Padding with what lies near the border: mirrored, or the border itself. (`constant_pad_nd` is in `indexing`.)

A row is written in three stretches, so that its middle is a copy; the other dims take their index from an expression.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from cuesta.dialects import sym
from cuesta.lowering.aten.builder import AtenCall, LoopBuilder, Rule, decline
from cuesta.lowering.aten.operands import element_of, sizes_of_value
from cuesta.lowering.aten.scatters import Scatter, Update, scatter, zeros

PlaceOf = Callable[[sym.IndexExpr, sym.IndexExpr], sym.IndexExpr]
"""Which element of a dim of some size stands for a position, which may lie outside."""


def _mirrored(position: sym.IndexExpr, size: sym.IndexExpr) -> sym.IndexExpr:
    """|p|, and on the other side 2 (size − 1) − p."""
    inside = sym.maximum(position, -position)
    return sym.minimum(inside, (size - 1) * 2 - inside)


def _border(position: sym.IndexExpr, size: sym.IndexExpr) -> sym.IndexExpr:
    """The nearest."""
    return sym.maximum(sym.minimum(position, size - 1), 0)


def _padding_of(op: AtenCall) -> list[tuple[sym.IndexExpr, sym.IndexExpr]]:
    """What is added before and after each of the padded dims, the outermost first."""
    pad = op.indices("padding")
    return [(pad[k], pad[k + 1]) for k in range(len(pad) - 2, -1, -2)]


def _pad(place_of: PlaceOf) -> Rule:
    def lower(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
        source, pads = op.tensor("self"), _padding_of(op)
        sizes, result_sizes = sizes_of_value(source), sizes_of_value(op.results[0])
        width, before, after = sizes[-1], *pads[-1]
        rank, outer = len(sizes), len(sizes) - len(pads)
        if not all(isinstance(pad, int) and pad >= 0 for pad in pads[-1]):
            return _pad_by_expression(op, builder, place_of)
        with builder.nest(result_sizes[:-1], [op.results[0].type]) as nest:
            row = list(nest.indices)
            for dim in range(outer, rank - 1):
                row[dim] = sym.simplify(place_of(row[dim] - pads[dim - outer][0], sizes[dim]), result_sizes)
            for length, start, in_the_middle in (
                (before, 0, False),
                (width, before, True),
                (after, width + before, False),
            ):
                if length == 0:
                    continue
                with builder.loop([length]) as (along,):
                    position = along + start
                    column = along if in_the_middle else place_of(position - before, width)
                    value = builder.load_raw(source, [*row, column])
                    builder.store(value, nest.handles[0], [*nest.indices, position])
        return nest.results

    return lower


def _pad_by_expression(op: AtenCall, builder: LoopBuilder, place_of: PlaceOf) -> Sequence[SSAValue]:
    source, pads = op.tensor("self"), _padding_of(op)
    sizes = sizes_of_value(source)
    outer = len(sizes) - len(pads)
    with builder.nest(sizes_of_value(op.results[0]), [op.results[0].type]) as nest:
        place = list(nest.indices)
        for dim, (before, _) in enumerate(pads, start=outer):
            place[dim] = place_of(place[dim] - before, sizes[dim])
        builder.store(builder.load_raw(source, place), nest.handles[0], nest.indices)
    return nest.results


def _pad_backward(place_of: PlaceOf) -> Rule:
    """Every element of the gradient is added to the element that stood for it."""

    def lower(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
        gradient, pads = op.tensor("grad_output"), _padding_of(op)
        sizes = sizes_of_value(op.results[0])
        outer = len(sizes) - len(pads)
        if 0 in sizes:
            decline("a source without elements")

        def update(kept: Sequence[sym.IndexExpr], inner: Sequence[sym.IndexExpr]) -> Update:
            place = [
                place_of(position - before, size)
                for position, (before, _), size in zip(inner, pads, sizes[outer:], strict=True)
            ]
            return Update([*kept, *place], builder.load_raw(gradient, [*kept, *inner]))

        domain = sizes_of_value(gradient)[outer:]
        initial = zeros(element_of(gradient), builder)
        return scatter(op, builder, Scatter(range(outer, len(sizes)), domain, "sum", initial, update))

    return lower


RULES: dict[str, Rule] = {
    f"aten.{name}_pad{rank}d{suffix}.default": rule
    for name, place_of in (("reflection", _mirrored), ("replication", _border))
    for suffix, rule in (("", _pad(place_of)), ("_backward", _pad_backward(place_of)))
    for rank in (1, 2, 3)
}
"""Padding by reflection and replication, and its derivatives."""
