"""Searches in a sorted row: as many halvings as the longest search needs, for every value alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from cuesta.lowering.aten.builder import AtenCall, LoopBuilder, Rule, compute_type, decline
from cuesta.lowering.aten.operands import element_of, sizes_of_value
from cuesta.lowering.aten.scalar import Scalar, minimum, shift_right, where

LONGEST = 1 << 16
"""The longest row: every halving is a load of its own in the text."""


def _search(table_name: str, values_name: str, *, several_rows: bool) -> Rule:
    def lower(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
        table, values = op.tensor(table_name), op.tensor(values_name)
        sorter = op.tensor("sorter") if op.has_argument("sorter") and op.argument("sorter") is not None else None
        if element_of(table) != element_of(values):
            decline("the row and the values are of different types")
        side = op.argument("side") if op.has_argument("side") else None
        right = op.boolean("right") or side == "right"
        *outer, length = sizes_of_value(table)
        if outer and not several_rows:
            decline("there are several rows, which eager refuses")
        if not isinstance(length, int) or not 0 < length <= LONGEST:
            decline(f"a search among {length}")
        sizes = sizes_of_value(op.results[0])
        to = compute_type(element_of(table))
        with builder.nest(sizes, [op.results[0].type]) as nest:
            value = builder.load(values, nest.indices, to)
            row = nest.indices[:-1] if outer else []

            def goes_on(place: Scalar) -> Scalar:
                """Whether the value belongs after an element. Not equal to `<`: a NaN belongs after everything."""
                at = [*row, builder.bound(place, length, wrap=False)]
                if sorter is not None:
                    at = [*row, builder.bound(builder.load(sorter, at), length, wrap=False)]
                found = builder.load(table, at, to)
                return ~(found > value) if right else ~(found >= value)

            builder.store(_halve(builder, length, goes_on), nest.handles[0], nest.indices)
        return nest.results

    return lower


def _halve(builder: LoopBuilder, length: int, goes_on: Callable[[Scalar], Scalar]) -> Scalar:
    """Eager's search, step by step: it shows when the row is not sorted."""
    start, end = builder.constant(0, i64), builder.constant(length, i64)
    for _ in range(length.bit_length()):
        active = start < end
        middle = start + shift_right(end - start, 1)
        after = goes_on(minimum(middle, length - 1)) & active
        start, end = where(after, middle + 1, start), where(after | ~active, end, middle)
    return start


RULES: dict[str, Rule] = {
    "aten.bucketize.Tensor": _search("boundaries", "self", several_rows=False),
    "aten.searchsorted.Tensor": _search("sorted_sequence", "self", several_rows=True),
}
"""Searches."""
