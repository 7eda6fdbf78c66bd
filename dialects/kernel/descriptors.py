"""Factors of contractions that hardware can load by a tensor descriptor: `descriptors = 1` in a kernel's schedule.

    kernel.contract (%k = 0 to 200 lanes 64 dim 2) {
      %1 = kernel.load %a[%i * 200 + %k] : vector<128x1x64xbf16>
    →
    a descriptor of %a: 1000 rows of 200 elements, 200 apart, of which 128 by 64 are loaded at a time

A descriptor says where a tensor of up to three dimensions lies; a load says which corner of a tile it wants. Elements
beyond the sizes are 0 and touch no memory, so no mask is needed. It is made anew by each launch, from the address.

Source: the PTX ISA, `cp.async.bulk.tensor`; `cuTensorMapEncodeTiled` of the CUDA driver says what it asks for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects.builtin import FixedBitwidthType
from xdsl.ir import Block, BlockArgument, SSAValue

from cuesta.dialects import sym
from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic
from cuesta.dialects.core.structs import struct
from cuesta.dialects.elem import scalar_of
from cuesta.dialects.kernel.access import LoadOp
from cuesta.dialects.kernel.contract import ContractOp
from cuesta.dialects.kernel.function import FuncOp, ProgramIdOp
from cuesta.dialects.kernel.shapes import shape_of
from cuesta.dialects.kernel.structure import LoopOp
from cuesta.dialects.kernel.within import WithinOp
from cuesta.dialects.sym.nodes import sum_of_terms

ALIGNMENT = 16
"""Bytes that addresses and strides are multiples of.

Source: a definition (CUDA): `cuTensorMapEncodeTiled`.
"""
LONGEST = 256
"""Elements of a tile along a dimension, at most.

Source: a definition (CUDA): `cuTensorMapEncodeTiled`.
"""
MOST_SIZE, MOST_STRIDE = 1 << 31, 1 << 40
"""Elements of a dimension and bytes of a stride, below which they stay; a corner is a number of 32 bits.

Source: a definition (CUDA): `cuTensorMapEncodeTiled`, and the coordinates of `cp.async.bulk.tensor`.
"""


@struct
class Descriptor:
    """Where a tensor lies, and the tile that is loaded at a time; the last dimension is contiguous.

    Units: `offset` and `strides` in elements; `strides` are of all dimensions but the last.
    """

    pointer: int
    """The number of the kernel's argument."""
    bits: int
    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]


@struct
class Described:
    """A load by a descriptor: the corner of its tile."""

    descriptor: Descriptor
    lane: LoopOp
    """The loop, of one tile, whose first point is the corner along the axis that is not summed."""
    points_last: bool
    """Whether the axis that is summed is the contiguous one."""
    around: sym.IndexExpr | None
    """Over the load's indices: the corner along the first of three dimensions."""


def described_loads(func: FuncOp) -> dict[LoadOp, Described]:
    """The loads of a kernel that are done by descriptors, as its schedule asks for; none where it does not.

    A factor that is something else than an element as it lies is none of them. A kernel without programs loads
    nothing: no descriptor says a size of 0.
    Errors: CuestaError where a factor is such an element, but cannot be loaded so, or no factor is.
    """
    found: dict[LoadOp, Described] = {}
    if not func.schedule.choices.get("descriptors") or func.launched == 0:
        return found
    for op in func.walk():
        if not isinstance(op, ContractOp):
            continue
        for factor in op.factors:
            load = factor.owner
            if not isinstance(load, LoadOp):
                continue
            one = described(func, op, load)
            if isinstance(one, str):
                raise CuestaError(Diagnostic.on(load, f"its kernel's schedule asks for descriptors, but {one}"))
            found[load] = one
    if not found:
        message = "its schedule asks for descriptors, but no factor of a contraction is an element as it lies"
        raise CuestaError(Diagnostic.on(func, message))
    return found


def descriptors_of(described: Mapping[LoadOp, Described]) -> list[Descriptor]:
    """The descriptors that a launch of a kernel with these loads makes, in the order of its parameters."""
    return list(dict.fromkeys(one.descriptor for one in described.values()))


def described(func: FuncOp, op: ContractOp, load: LoadOp) -> Described | str:
    """The descriptor by which a factor of a contraction can be loaded, or why none can."""
    scalar = scalar_of(load.result.type)
    bits = scalar.bitwidth if isinstance(scalar, FixedBitwidthType) else 0
    if load.rest:
        return "it is loaded under a condition"
    if isinstance(load.prev_op, WithinOp):
        return "its address is checked"
    if not isinstance(load.pointer, BlockArgument) or load.pointer not in func.inputs:
        return "it is no element of an input"
    variable = op.induction_variables[0]
    if variable not in load.indices:
        return "it is the same for all points"
    lanes = [index for index in load.indices if index is not variable and shape_of(index)]
    if len(lanes) != 1:
        return "it does not vary along one axis of a tile beside the points"
    loop = lanes[0].owner.parent_op() if isinstance(lanes[0].owner, Block) else None
    if not isinstance(loop, LoopOp) or lanes[0] is not loop.induction_variables[-1] or not _is_one_tile(loop):
        return "its axis beside the points is no loop of one tile"
    places = load.indices.index(variable), load.indices.index(lanes[0])

    def size_of(place: int) -> int | None:
        operand = load.indices[place]
        size = func.schedule.grid[operand.owner.axis] if isinstance(operand.owner, ProgramIdOp) else None
        return size if isinstance(size, int) else None

    tile = Tile(load.offset, places, (_end(func, op), _end(func, loop)), (op.lanes, loop.lanes))
    found = descriptor_for(tile, func.body.args.index(load.pointer), bits, size_of)
    if isinstance(found, str):
        return found
    descriptor, points_last, around = found
    return Described(descriptor, loop, points_last, around)


@struct
class Tile:
    """What a step of a contraction loads of a factor. Of pairs the first is about the axis that is summed, the other
    about the one beside it.
    """

    address: sym.IndexExpr
    """In elements, over dimensions that may be anything."""
    axes: tuple[int, int]
    """Two of them."""
    ends: tuple[int | None, int | None]
    """One past the last point along each, over all programs; None where that is no number."""
    lanes: tuple[int, int]


def descriptor_for(
    tile: Tile, pointer: int, bits: int, size_of: Callable[[int], int | None]
) -> tuple[Descriptor, bool, sym.IndexExpr | None] | str:
    """The descriptor by which tiles can be loaded from argument `pointer`, whether the axis that is summed is the
    contiguous one, and which one along the first of three dimensions a tile is; or why there is none.

    `size_of` says how many values another dimension of the address has, where that is the same for a program.
    """
    steps = [step for axis in tile.axes if isinstance(step := sym.coefficient(tile.address, axis), int)]
    if len(steps) < 2:
        return "its address is no multiple of the point"
    rest = tile.address - steps[0] * sym.dim(tile.axes[0]) - steps[1] * sym.dim(tile.axes[1])
    if set(tile.axes) & sym.dims_of(rest):
        return "its address is no multiple of the point"
    ends = [end for end in tile.ends if end is not None]
    if len(ends) < 2:
        return "how many elements there are only the call knows"
    if steps[0] != 1 and steps[1] != 1:
        return "its elements do not lie side by side along either axis"
    last = 0 if steps[0] == 1 else 1
    sizes, strides, box = [ends[1 - last], ends[last]], [steps[1 - last]], [tile.lanes[1 - last], tile.lanes[last]]
    outer = _around(rest, size_of)
    if isinstance(outer, str):
        return outer
    offset, stride, count, around = outer
    if around is not None:
        sizes, strides, box = [count, *sizes], [stride, *strides], [1, *box]
    width = bits // 8
    if any(one * bits % (8 * ALIGNMENT) for one in (*strides, offset)):
        return f"it lies {strides} elements apart, from {offset} on, which are no multiples of {ALIGNMENT} bytes"
    if not all(0 < one * width < MOST_STRIDE for one in strides) or not all(0 < one < MOST_SIZE for one in sizes):
        return f"it has sizes {sizes} and strides {strides}, which no descriptor says"
    if max(box) > LONGEST or box[-1] * width < ALIGNMENT:
        return f"a tile of {box} is not loaded at once"
    return Descriptor(pointer, bits, offset, tuple(sizes), tuple(strides), tuple(box)), last == 0, around


def _is_one_tile(loop: LoopOp) -> bool:
    lower = loop.lowers.results[-1]
    trips = [upper - lower for upper in sym.alternatives(loop.uppers.results[-1])]
    return any(isinstance(trip, int) and trip <= loop.lanes for trip in trips)


def _program_ranges(func: FuncOp, operands: Sequence[SSAValue]) -> list[int] | None:
    """How many values coordinates of the program have; None where one is something else, or only the call knows."""
    found: list[int] = []
    for operand in operands:
        size = func.schedule.grid[operand.owner.axis] if isinstance(operand.owner, ProgramIdOp) else None
        if not isinstance(size, int):
            return None
        found.append(size)
    return found


def _end(func: FuncOp, loop: LoopOp) -> int | None:
    """One past the last point of a loop's last axis, over all programs; None where that is no number."""
    uppers = sym.alternatives(loop.uppers.results[-1])
    numbers = [upper for upper in uppers if isinstance(upper, int)]
    if numbers:
        return min(numbers)
    ranges = _program_ranges(func, loop.operands)
    if ranges is None:
        return None
    ends = [end for upper in uppers if (end := sym.bounds(upper, ranges)[1]) is not None]
    return min(ends) if len(ends) == len(uppers) else None


def _around(
    rest: sym.IndexExpr, size_of: Callable[[int], int | None]
) -> tuple[int, int, int, sym.IndexExpr | None] | str:
    """What of an address is the same for a tile: an offset, and perhaps a multiple of a stride, how many there are of
    that, and which it is.
    """
    if isinstance(rest, int):
        return rest, 0, 1, None
    stride = math.gcd(*(factor for _, factor in rest.terms))
    which = sum_of_terms({monomial: factor // stride for monomial, factor in rest.terms}, 0)
    dims = sym.dims_of(rest)
    ranges = [1] * (max(dims, default=-1) + 1)
    for dim in dims:
        size = size_of(dim)
        if size is None:
            return "where its tile begins is no number of a program"
        ranges[dim] = size
    low, high = sym.bounds(which, ranges)
    if low is None or high is None or low < 0 or sym.symbols_of(rest):
        return "where its tile begins has no known bounds"
    return rest.constant, stride, high + 1, which


__all__ = ["Described", "Descriptor", "Tile", "described", "described_loads", "descriptor_for", "descriptors_of"]
