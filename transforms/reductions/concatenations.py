"""What a nest joins along an axis: the parts of a concatenation, read off its body."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.operation import ops_of
from cuesta.dialects.core.structs import struct
from cuesta.dialects.elem.base import TableOp
from cuesta.dialects.layout import sizes_of, tensor_type_of
from cuesta.dialects.loops.surgery import stores_of

_Interval = tuple[int, int]
_Piece = tuple[int, SSAValue]


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
        shift = result - sym.dim(position[place])
        if not isinstance(shift, int):
            return None
        found.append(shift)
    return found


def _chosen_by_masks(nest: loops.NestOp, ops: Sequence[Operation]) -> list[tuple[int, int, SSAValue] | None]:
    """store (load %a[…] if %first else load %b[…] if %second else …): as above, for each load."""
    stores = stores_of(nest)
    known = (loops.LoadOp, loops.IndexOp, loops.StoreOp, elem.ConstantOp, TableOp)
    if len(stores) != 1 or stores[0].mask is not None or not all(isinstance(op, known) for op in ops):
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


__all__ = ["Concatenation", "concatenation_of", "size_along"]
