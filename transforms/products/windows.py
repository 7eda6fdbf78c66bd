"""Convolutions as products of matrices.

    y[n, o, p] = Σ_k x[n, c, p · step + a · gap − margin] · w[o, c, a]

where k counts the elements (c, a) of a window, in the order in which they lie in memory. A row of the one factor is a
window, of which there is one for each point p of each image n, and a column of the other one the weight of a channel o.
Beyond an image is its margin, in which every element is 0: nothing is read there. Windows may overlap: the rows of the
one factor are no matrix in memory, and it is never made. Nothing is decided here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from xdsl.ir import SSAValue

from cuesta.dialects import loops, sym
from cuesta.dialects.core.structs import struct
from cuesta.dialects.layout import sizes_of, strides_of, tensor_type_of
from cuesta.dialects.loops.surgery import Substitution, loads_of, stores_of

CONVOLUTION: Final = "aten.convolution.default"
VECTOR = 128
"""Bits that one access of a lane has at most.

Source: a definition: NVIDIA's loads and stores have 8 to 128 bits.
"""


@struct
class Windows:
    """How a convolution is a product: where the factors of each element of its result lie."""

    result: tuple[int, ...]
    """The sizes of what it gives: images, channels, and places along each axis."""
    steps: tuple[int, ...]
    """From a window to the next one along each axis."""
    gaps: tuple[int, ...]
    """From an element of a window to the next one along each axis."""
    margins: tuple[int, ...]
    """How far before the first element of an image the first window begins, along each axis."""
    places: tuple[int, ...]
    """The sizes of an image, along each axis."""
    window: tuple[int, ...]
    """The sizes of a window, along each axis."""
    order: tuple[int, ...]
    """The axes of the weight that the points of a sum count, the last one fastest: 1 is the channels."""
    lengths: tuple[int, ...]
    """How long these are."""
    run: int
    """So many elements of a sum lie side by side in both factors, and begin at a multiple of as many."""

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows, which are windows; columns, which are channels of the result; and the points of each sum."""
        images, channels, *places = self.result
        return images * math.prod(places), channels, math.prod(self.lengths)

    def left(self, dims: Sequence[sym.IndexExpr], k: sym.IndexExpr) -> list[sym.IndexExpr]:
        """The index in the images of the factor number `k` of an element."""
        _, channel, *within = self._of_point(k)
        moved = zip(dims[2:], self.steps, within, self.gaps, self.margins, strict=True)
        return [dims[0], channel, *(p * step + a * gap - margin for p, step, a, gap, margin in moved)]

    def limits(self, index: Sequence[sym.IndexExpr]) -> list[tuple[sym.IndexExpr, int, bool, bool]]:
        """Of an index that `left` gives, the places that may be none of an image, with the size of that axis, and
        whether they may lie before its first element, and beyond its last.
        """
        found: list[tuple[sym.IndexExpr, int, bool, bool]] = []
        for axis, size in enumerate(self.places):
            last = (self.result[axis + 2] - 1) * self.steps[axis] + (self.window[axis] - 1) * self.gaps[axis]
            before, beyond = self.margins[axis] > 0, last - self.margins[axis] >= size
            if before or beyond:
                found.append((index[axis + 2], size, before, beyond))
        return found

    @property
    def times_read(self) -> float:
        """How often an element of an image is read, about."""
        rows, _, points = self.sizes
        return rows * points / (self.result[0] * self.channels * math.prod(self.places))

    @property
    def overlap(self) -> bool:
        """Whether windows share elements, leave some out between their own, or reach beyond the images."""
        lists = zip(self.window, self.steps, self.gaps, self.margins, strict=True)
        return any(size > step or (size > 1 and gap > 1) or margin > 0 for size, step, gap, margin in lists)

    @property
    def channels(self) -> int:
        """Of an image."""
        return math.prod(self.lengths) // math.prod(self.window)

    @property
    def lies_along_places(self) -> bool:
        """Whether it is along an axis of the images that elements lie side by side, and not along channels."""
        return bool(self.order) and self.order[-1] > 1

    def right(self, dims: Sequence[sym.IndexExpr], k: sym.IndexExpr) -> list[sym.IndexExpr]:
        """The index in the weight of the factor number `k` of an element."""
        return [dims[1], *self._of_point(k)[1:]]

    def _of_point(self, k: sym.IndexExpr) -> list[sym.IndexExpr]:
        """Which element of a weight the point `k` of a sum is; of the channels that the result has, nothing."""
        found: list[sym.IndexExpr] = [0] * len(self.result)
        for axis, index in zip(self.order, sym.delinearize(k, self.lengths), strict=True):
            found[axis] = index
        return found

    def element(self, row: sym.IndexExpr, column: sym.IndexExpr) -> list[sym.IndexExpr]:
        """The index in the result of a row and a column."""
        image, *places = sym.delinearize(row, (self.result[0], *self.result[2:]))
        return [image, column, *places]

    def indices(self, weights: Sequence[int], sizes: Sequence[int]) -> list[sym.IndexExpr]:
        """Of a domain whose points number the elements of the result, axis k with the weight `weights[k]`: its indices
        for a row (dim 0) and a column (dim 1).
        """
        number = sym.linearize(self.element(sym.dim(0), sym.dim(1)), self.result)
        rows, columns, _ = self.sizes
        made = (number // weight % size for weight, size in zip(weights, sizes, strict=True))
        return [sym.simplify(one, (rows, columns)) for one in made]


def windows_of(call: loops.ExternOp) -> Windows | str:
    """How a convolution is a product that matrix units do well; or why it is none.

    Its elements lie along the channels of the result, as the windows lie in the images. Requires: a call of
    `CONVOLUTION` on tensors.
    """
    arguments = call.arguments_attr.positional
    if len(arguments) != 9:
        return "its arguments are not all given by position"
    stride, padding, dilation, transposed, _, groups = arguments[3:]
    image, weight, result = (tensor_type_of(one) for one in (call.operands[0], call.operands[1], call.results[0]))
    every = [tuple(one for one in sizes_of(kind) if isinstance(one, int)) for kind in (image, weight, result)]
    if len({len(sizes_of(kind)) for kind in (image, weight, result)}) > 1:
        return "it is of one image, without a batch"
    rank = len(sizes_of(image))
    if any(len(one) < rank for one in every) or any(0 in one for one in every):
        return "it has no points, or so many as only the call knows"
    if transposed is not False or groups != 1:
        return "it is transposed" if transposed is not False else "it has groups"
    if arguments[2] is not None:
        return "the library adds its bias"
    _, sizes, made = every
    window = sizes[2:]
    lists = [tuple(one) for one in (stride, padding, dilation) if isinstance(one, list | tuple)]
    if len(lists) < 3 or any(len(one) != rank - 2 for one in lists):
        return "its arguments are no numbers for each axis"
    steps = tuple(one for one in lists[0] if isinstance(one, int))
    margins, gaps = (tuple(one for one in given if isinstance(one, int)) for given in lists[1:])
    if any(len(one) < rank - 2 for one in (steps, margins, gaps)):
        return "its arguments are no numbers for each axis"
    of_image, of_weight = strides_of(image), strides_of(weight)
    axes = [axis for axis in range(1, rank) if sizes[axis] > 1]
    strides = [stride for axis in axes if isinstance(stride := of_image[axis], int)]
    if len(strides) < len(axes):
        return "only the call knows how its images lie"
    # Along an axis of one place, what lies side by side is no question.
    flat = [every[0][axis] == 1 for axis in axes]
    order = [axis for _, _, axis in sorted(zip(flat, strides, axes, strict=True), reverse=True)]
    if order and of_image[order[-1]] != 1:
        return "the elements of a window do not lie side by side"
    if order and of_weight[order[-1]] != 1:
        return "its weight does not lie as its images do"
    if order and order[-1] > 1 and gaps[order[-1] - 2] != 1:
        return "its windows have gaps, and their elements do not lie side by side"
    lengths = tuple(sizes[axis] for axis in order)
    run = _run(call, steps, margins, order, lengths)
    return Windows(made, steps, gaps, margins, every[0][2:], window, tuple(order), lengths, run)


def _run(
    call: loops.ExternOp, steps: Sequence[int], margins: Sequence[int], order: Sequence[int], lengths: Sequence[int]
) -> int:
    """The `run` of windows whose points go along `order`, the last one of which lies side by side."""
    if not order:
        return 1
    last = order[-1]
    found = [lengths[-1], *([steps[last - 2], margins[last - 2]] if last > 1 else [])]
    for value in call.operands[:2]:
        kind = tensor_type_of(value)
        axes = [axis for axis, size in enumerate(sizes_of(kind)) if size != 1 and axis != last]
        found += [stride for axis in axes if isinstance(stride := strides_of(kind)[axis], int)]
    return math.gcd(*found)


def lies_across(
    windows: Windows, result: SSAValue, nest: loops.NestOp, indices: Sequence[sym.IndexExpr], vector: int
) -> bool:
    """Whether a nest with these indices for rows and columns stores something that lies neither along the columns,
    which are channels, nor along the places of an image, in whole vectors of so many elements; or reads something as
    large that does neither, beside the `result` of the convolution.
    """
    large = math.prod(windows.result)
    images, columns, *places = windows.result
    points = math.prod(places)
    # Three values that are no indices of the nest stand for the image, the place and the column.
    substitution = Substitution((nest.results[0], nest.handles[0], result))
    own = (sym.dim(0) * points + sym.dim(1), sym.dim(2))
    sizes = (images, points, columns)
    for variable, index in zip(nest.induction_variables, indices, strict=True):
        substitution.set_index(variable, sym.simplify(sym.substitute(index, own), sizes))
    for op in (*loads_of(nest), *stores_of(nest)):
        tensor = op.target if isinstance(op, loops.StoreOp) else op.source
        is_load = isinstance(op, loops.LoadOp)
        if tensor is result or (is_load and _points(tensor) < large):
            continue
        at = substitution.expressions(op.map.results, op.indices)
        along, step = _step(tensor, at, sizes, 1), _step(tensor, at, sizes, 2)
        if step != 1 and not (is_load and step == 0) and (along != 1 or points % vector):
            return True
    return False


def _step(
    tensor: SSAValue, index: Sequence[sym.IndexExpr], sizes: tuple[sym.IndexExpr, ...], axis: int
) -> sym.IndexExpr | None:
    """How far the address of an element goes for each step along an axis; None where that is no number."""
    address: sym.IndexExpr = 0
    for one, stride in zip(index, strides_of(tensor_type_of(tensor)), strict=True):
        address = address + one * stride
    if any(k >= len(sizes) for k in getattr(address, "dims", ())):
        return None  # an index made of data
    return sym.coefficient(sym.simplify(address, sizes), axis)


def _points(tensor: SSAValue) -> int:
    return math.prod(size for size in sizes_of(tensor_type_of(tensor)) if isinstance(size, int))


def reads_in_order(nest: loops.NestOp, windows: Windows) -> bool:
    """Whether what a nest reads, point by point of a factor, lies side by side along the last of the axes of a window,
    or does not vary along it; and, of windows that overlap, begins where the vectors of the factor would.
    """
    if not windows.order:
        return False
    substitution = Substitution(nest.induction_variables)
    for load in loads_of(nest):
        index = substitution.expressions(load.map.results, load.indices)
        step = _step(load.source, index, nest.sizes, windows.order[-1])
        if step == 0:
            continue
        if step != 1 or (windows.overlap and side_by_side(load.source, windows.run) < windows.run):
            return False
    return True


def side_by_side(tensor: SSAValue, run: int) -> int:
    """Of elements that lie side by side in memory, how many begin at a multiple of as many: a divisor of `run`."""
    kind = tensor_type_of(tensor)
    axes = zip(sizes_of(kind), strides_of(kind), strict=True)
    return math.gcd(run, *(step for size, step in axes if size != 1 and isinstance(step, int) and step != 1))


__all__ = ["CONVOLUTION", "VECTOR", "Windows", "lies_across", "reads_in_order", "side_by_side", "windows_of"]
