"""Nests that join tensors along an axis: the parts of a concatenation, read off a body; and such a nest, written."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import i64
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.operation import ops_of
from cuesta.dialects.core.structs import struct
from cuesta.dialects.elem.base import TableOp
from cuesta.dialects.layout import device_of, element_type_of, sizes_of, tensor_type, tensor_type_of
from cuesta.dialects.loops.writing import BodyWriter

MOST_SELECTED = 4
"""So many parts are told apart by masks, which consumers can inline; more are written one after another.

Source: a choice, for `aten.cat` too (`lowering/aten/indexing.py`).
"""

_Interval = tuple[int, int]


@struct
class Concatenation:
    """A tensor that is parts side by side along an axis. Their sizes there are numbers; all have one element type."""

    axis: int
    parts: tuple[SSAValue, ...]

    def starts(self) -> list[int]:
        """Where each part begins, and where the last one ends."""
        found = [0]
        for part in self.parts:
            found.append(found[-1] + size_along(part, self.axis))
        return found


def size_along(tensor: SSAValue, axis: int) -> int:
    """The size of a tensor along an axis. Requires: it is a number."""
    size = sizes_of(tensor_type_of(tensor))[axis]
    assert isinstance(size, int), "a part's size is a number"
    return size


def concatenation_of(nest: loops.NestOp) -> Concatenation | None:
    """What a nest joins; None where it does anything else. A copy is a concatenation of one part, along its only
    axis of several points or else its second.

    Two ways of writing one are known: a value chosen by masks at each point, and a loop for each part. Near misses: a
    part is converted, transposed, or read in part; something lies between two; a mask says something else.
    """
    if len(nest.results) != 1 or nest.operands:
        return None
    ops = ops_of(nest.body)
    if ops and all(isinstance(op, loops.ForOp) for op in ops):
        pieces = [_written_by(nest, op) for op in ops if isinstance(op, loops.ForOp)]
    else:
        pieces = _chosen_by_masks(nest, ops)
    return _side_by_side(nest, [one for one in pieces if one is not None]) if pieces and None not in pieces else None


def _side_by_side(nest: loops.NestOp, pieces: Sequence[tuple[int, int, SSAValue]]) -> Concatenation | None:
    """The parts in order, if together they are all of the result, each once, and agree but for the one size."""
    axes = {axis for axis, _, _ in pieces}
    if len(axes) != 1:
        return None
    (axis,) = axes
    sizes, end = sizes_of(tensor_type_of(nest.results[0])), 0
    ordered = sorted(pieces, key=lambda piece: piece[1])
    for _, start, part in ordered:
        shape = sizes_of(tensor_type_of(part))
        along = shape[axis]
        if start != end or not isinstance(along, int) or (*sizes[:axis], along, *sizes[axis + 1 :]) != tuple(shape):
            return None
        end += along
    return Concatenation(axis, tuple(part for _, _, part in ordered)) if end == sizes[axis] else None


def _written_by(nest: loops.NestOp, loop: loops.ForOp) -> tuple[int, int, SSAValue] | None:
    """for (%k : n) { store load %part[%i, %k, %j], %o[%i, %k + start, %j] }: the axis, the start, and the part."""
    ops = ops_of(loop.body)
    if len(ops) != 2 or len(loop.sizes) != 1:
        return None
    load, store = ops
    if not isinstance(load, loops.LoadOp) or not isinstance(store, loops.StoreOp) or load.rest:
        return None
    if store.value is not load.result or store.mask is not None:
        return None
    axis = _axis_of(store, loop.induction_variables[0])
    around = list(nest.induction_variables)
    if axis is None or axis > len(around):
        return None
    places = [*around[:axis], loop.induction_variables[0], *around[axis:]]
    if _shifts(load, places) != [0] * len(places) or (shifts := _shifts(store, places)) is None:
        return None
    if sizes_of(tensor_type_of(load.source))[axis] != loop.sizes[0] or any(shifts[:axis] + shifts[axis + 1 :]):
        return None
    return axis, shifts[axis], load.source


def _axis_of(store: loops.StoreOp, variable: SSAValue) -> int | None:
    for axis, result in enumerate(store.map.results):
        if any(store.indices[dim] is variable for dim in sym.dims_of(result)):
            return axis
    return None


def _shifts(access: loops.LoadOp | loops.StoreOp, places: Sequence[SSAValue]) -> list[int] | None:
    """How far from these indices, one for each axis, an access lies; None where it is no such shift."""
    if len(access.map.results) != len(places):
        return None
    position = {index: dim for dim, index in enumerate(access.indices)}
    found: list[int] = []
    for result, place in zip(access.map.results, places, strict=True):
        if place not in position:
            return None
        own = sym.dim(position[place])
        shift = 0 if result is own else result - own
        if not isinstance(shift, int):
            return None
        found.append(shift)
    return found


def _chosen_by_masks(nest: loops.NestOp, ops: Sequence[Operation]) -> list[tuple[int, int, SSAValue] | None]:
    """store (load %a[…] if %first else load %b[…] if %second else …): as above, for each load."""
    known = (loops.LoadOp, loops.IndexOp, loops.StoreOp, elem.ConstantOp, TableOp)
    stores = [op for op in ops if isinstance(op, loops.StoreOp)]
    if len(stores) != 1 or not isinstance(stores[0].value.owner, loops.LoadOp) or stores[0].mask is not None:
        return []
    if not all(isinstance(op, known) for op in ops):
        return []
    places = list(nest.induction_variables)
    if _shifts(stores[0], places) != [0] * len(places):
        return []
    found: list[tuple[int, int, SSAValue] | None] = []
    free = None  # the axis that masks speak of
    value = stores[0].value
    while isinstance(load := value.owner, loops.LoadOp):
        shifts = _shifts(load, places)
        if shifts is None:
            return []
        if not load.rest:
            masked = [axis for axis, shift in enumerate(shifts) if shift]
            axis = free if free is not None else (masked[0] if masked else _usual_axis(nest))
            found.append(_piece(nest, load, shifts, axis, None))
            return found
        within = _interval(load.rest[0], places)
        if within is None:
            return []
        axis, interval = within
        if free not in (None, axis):
            return []
        free = axis
        found.append(_piece(nest, load, shifts, axis, interval))
        value = load.rest[1]
    return found if isinstance(value.owner, elem.ConstantOp) else []


def _usual_axis(nest: loops.NestOp) -> int:
    return min(1, len(nest.sizes) - 1)


def _piece(
    nest: loops.NestOp, load: loops.LoadOp, shifts: Sequence[int], axis: int, interval: _Interval | None
) -> tuple[int, int, SSAValue] | None:
    if not shifts or any(shift for one, shift in enumerate(shifts) if one != axis):
        return None
    start, along = -shifts[axis], sizes_of(tensor_type_of(load.source))[axis]
    size = nest.sizes[axis]
    if not isinstance(along, int) or not isinstance(size, int):
        return None
    if interval is not None and (start, start + along) != (max(interval[0], 0), min(interval[1], size)):
        return None
    return axis, start, load.source


_FAR = 1 << 62
"""Beyond every index.

Source: a definition.
"""


def _interval(mask: SSAValue, places: Sequence[SSAValue]) -> tuple[int, _Interval] | None:
    """The axis, and from where to where a mask is true: `%i >= a`, `%i < b`, or both."""
    op = mask.owner
    if not isinstance(op, TableOp):
        return None
    name = op.row.name
    if name == "and":
        left, right = (_interval(one, places) for one in op.operands)
        if left is None or right is None or left[0] != right[0]:
            return None
        return left[0], (max(left[1][0], right[1][0]), min(left[1][1], right[1][1]))
    if name not in ("ge", "lt"):
        return None
    index, bound = (one.owner for one in op.operands)
    if not isinstance(index, loops.IndexOp) or not isinstance(bound, elem.ConstantOp):
        return None
    variable = index.indices[0] if len(index.indices) == 1 and index.map.results == (sym.dim(0),) else None
    number = bound.value
    if variable not in places or not isinstance(number, int):
        return None
    axis = places.index(variable)
    return axis, ((number, _FAR) if name == "ge" else (-_FAR, number))


def join(pieces: Sequence[Sequence[SSAValue]], axis: int, before: loops.NestOp) -> Sequence[SSAValue]:
    """A nest that joins tensors along an axis, several at each place, before another nest: the result for the first of
    each piece, and so on. Requires: sizes along the axis are numbers.
    """
    starts = [0]
    for piece in pieces:
        starts.append(starts[-1] + size_along(piece[0], axis))
    around = sizes_of(tensor_type_of(pieces[0][0]))
    sizes = [*around[:axis], starts[-1], *around[axis + 1 :]]
    outs = [tensor_type(sizes, element_type_of(one), device=device_of(tensor_type_of(one))) for one in pieces[0]]
    many = len(pieces) > MOST_SELECTED
    made = loops.NestOp.build([*sizes[:axis], *sizes[axis + 1 :]] if many else sizes, outs)
    made.location = before.location
    if many:
        _write_one_after_the_other(made, pieces, starts, axis)
    else:
        _choose_by_masks(made, pieces, starts, axis)
    Rewriter.insert_op(made, InsertPoint.before(before))
    return made.results


def _write_one_after_the_other(
    made: loops.NestOp, pieces: Sequence[Sequence[SSAValue]], starts: Sequence[int], axis: int
) -> None:
    outer = made.induction_variables
    for piece, start in zip(pieces, starts, strict=False):
        loop = loops.ForOp.build([size_along(piece[0], axis)])
        loop.location = made.location
        made.body.add_op(loop)
        places = [*outer[:axis], loop.induction_variables[0], *outer[axis:]]
        writer = BodyWriter(loop.body, made)
        for source, handle in zip(piece, made.handles, strict=True):
            _store(writer, writer.load(source, places), handle, places, _shifted(places, axis, start))


def _choose_by_masks(
    made: loops.NestOp, pieces: Sequence[Sequence[SSAValue]], starts: Sequence[int], axis: int
) -> None:
    writer, places = BodyWriter(made.body, made), made.induction_variables
    index = writer.number(sym.dim(0), [places[axis]], i64)
    values: list[SSAValue] = [writer.constant(0, element_type_of(one)) for one in pieces[0]]
    for number in reversed(range(len(pieces))):
        masks = [writer.make("ge", index, writer.constant(starts[number], i64))] if number else []
        if number + 1 < len(pieces):
            masks.append(writer.make("lt", index, writer.constant(starts[number + 1], i64)))
        mask = masks[0] if len(masks) == 1 else writer.make("and", *masks)
        there = _shifted(places, axis, -starts[number])
        values = [
            writer.add(loops.LoadOp.build(source, there, places, mask, other))
            for source, other in zip(pieces[number], values, strict=True)
        ]
    for value, handle in zip(values, made.handles, strict=True):
        _store(writer, value, handle, places, _shifted(places, axis, 0))


def _shifted(places: Sequence[SSAValue], axis: int, shift: int) -> list[sym.IndexExpr]:
    return [sym.dim(k) + shift if k == axis else sym.dim(k) for k in range(len(places))]


def _store(
    writer: BodyWriter, value: SSAValue, handle: SSAValue, places: Sequence[SSAValue], target: list[sym.IndexExpr]
) -> None:
    store = loops.StoreOp.build(value, handle, target, places)
    store.location = writer.location
    writer.block.add_op(store)


__all__ = ["MOST_SELECTED", "Concatenation", "concatenation_of", "join", "size_along"]
