"""Convolutions as products of matrices.

    y[n, o, p] = Σ_k x[n, c, p · step + a · gap − margin] · w[o, c, a]

where k counts the elements (c, a) of a window, in the order in which they lie in memory. A row of the one factor is a
window, of which there is one for each point p of each image n, and a column of the other one the weight of a channel o.
Beyond an image is its margin, in which every element is 0: nothing is read there. Windows may overlap: the rows of the
one factor are no matrix in memory, and it is never made. With groups it is a batch of such products: channels
g · C + c of the images give channels g · O + o.

Turned, which is a transposed convolution and the gradient of the images of a plain one, every place of an image gives
to a window, so that a place p of the result gathers from places i with i · step + a · gap − margin = p:

    y[n, o, p] = Σ_(c, a) x[n, c, (p + margin − a · gap) / step] · w[c, o, a], over the a for which that is whole

Which these are depends on p mod step alone. Places p = q · step + r with the same r are a product of their own, with
the elements a = first(r) + b · apart of a window, b = 0, 1, …; all r are a batch. Nothing is decided here.
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
from cuesta.transforms.products.window_sums import Limit, WindowSums, indices_of

CONVOLUTION: Final = "aten.convolution.default"
GRADIENTS: Final = "aten.convolution_backward.default"
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

    groups: int = 1
    is_turned: bool = False
    """Whether places of an image give to windows, and do not gather from them."""
    factors: tuple[str, str] = ("input", "weight")
    """The names of the images and the weight in the call."""
    unmeasured: str = ""
    """What it is, if the estimate of what it takes was fitted to others."""

    @property
    def classes(self) -> tuple[int, ...]:
        """Along each axis, how many sorts of places differ in the elements of a window that they gather from."""
        return self.steps if self.is_turned else (1,) * len(self.steps)

    @property
    def apart(self) -> tuple[int, ...]:
        """From an element of a window to the next one that gives to the same place, along each axis, turned."""
        return tuple(step // math.gcd(step, gap) for step, gap in zip(self.steps, self.gaps, strict=True))

    @property
    def batch(self) -> tuple[int, ...]:
        """The axes of the products of matrices that it is, where there are several."""
        return tuple(size for size in (self.groups, *self.classes) if size > 1)

    @property
    def rows(self) -> tuple[int, ...]:
        """The axes that a row counts: images, and places along each axis, of one class each."""
        places = (-(-size // count) for size, count in zip(self.result[2:], self.classes, strict=True))
        return (self.result[0], *places)

    @property
    def domain(self) -> tuple[int, ...]:
        """The batch, the rows, and the columns, which are channels of the result."""
        return (*self.batch, math.prod(self.rows), self.result[1] // self.groups)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows, columns and the points of each sum."""
        rows, columns = self.domain[-2:]
        return rows, columns, math.prod(self.lengths)

    def left(self, dims: Sequence[sym.IndexExpr], k: sym.IndexExpr) -> list[sym.IndexExpr]:
        """The index in the images of the factor number `k` of an element."""
        channel, within = self._of_point(k)
        if self.groups > 1:
            channel = dims[1] // (self.result[1] // self.groups) * self.channels + channel
        moved = zip(dims[2:], self.steps, within, self.gaps, self.margins, strict=True)
        if not self.is_turned:
            return [dims[0], channel, *(p * step + a * gap - margin for p, step, a, gap, margin in moved)]
        return [dims[0], channel, *self._given_by(dims[2:], within)]

    def _given_by(self, places: Sequence[sym.IndexExpr], within: Sequence[sym.IndexExpr]) -> list[sym.IndexExpr]:
        """Turned, the places of an image that give to places, by the `within`-th elements of windows that do."""
        found: list[sym.IndexExpr] = []
        first = [self._element(axis, place, 0) for axis, place in enumerate(places)]
        for axis, (place, b) in enumerate(zip(places, within, strict=True)):
            step, gap, margin = self.steps[axis], self.gaps[axis], self.margins[axis]
            back = b * (gap // math.gcd(step, gap))
            # (p + margin) mod step is the first element where windows have no gaps; what is divided is never negative.
            less = 0 if gap == 1 else -(-(self.apart[axis] - 1) * gap // step)
            number = place + margin if gap == 1 else place + margin - first[axis] * gap + less * step
            found.append(number // step - less - back)
        return found

    def _element(self, axis: int, place: sym.IndexExpr, b: sym.IndexExpr) -> sym.IndexExpr:
        """Turned, along an axis the `b`-th element of windows that gives to a place."""
        common, apart = math.gcd(self.steps[axis], self.gaps[axis]), self.apart[axis]
        if apart == 1:
            return b
        number = (place + self.margins[axis]) // common * pow(self.gaps[axis] // common, -1, apart)
        return number % apart + b * apart

    def limits(self, dims: Sequence[sym.IndexExpr], k: sym.IndexExpr) -> tuple[list[Limit], list[Limit], list[Limit]]:
        """Of the factor number `k` of an element, what may be no element of a window; of images alone, what may be no
        place of one; and nothing of weights alone.
        """
        index = self.left(dims, k)
        places: list[Limit] = []
        for axis, size in enumerate(self.places):
            window, step, gap, margin = self.window[axis], self.steps[axis], self.gaps[axis], self.margins[axis]
            last = self.rows[axis + 1] * self.classes[axis] - 1
            before, beyond = margin > 0, last * step + (window - 1) * gap - margin >= size
            if self.is_turned:
                before, beyond = margin < (window - 1) * gap, (last + margin) // step >= size
            if before or beyond:
                places.append((index[axis + 2], size, before, beyond))
        if not self.is_turned:
            return [], places, []
        elements: list[Limit] = []
        _, within = self._of_point(k)
        for axis, size in enumerate(self.window):
            common = math.gcd(self.steps[axis], self.gaps[axis])
            if size % self.apart[axis]:
                elements.append((self._element(axis, dims[axis + 2], within[axis]), size, False, True))
            if common > 1:
                elements.append(((dims[axis + 2] + self.margins[axis]) % common, 1, False, True))
        return elements, places, []

    def stored(self, dims: Sequence[sym.IndexExpr]) -> list[Limit]:
        """What may be no element of the result, of an index that `element` gives."""
        sizes = zip(dims[2:], self.result[2:], self.classes, strict=True)
        return [(place, size, False, True) for place, size, count in sizes if size % count]

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
        """Of a group of an image."""
        return dict(zip(self.order, self.lengths, strict=True)).get(1, 1)

    @property
    def lies_along_places(self) -> bool:
        """Whether it is along an axis of the images that elements lie side by side, and not along channels."""
        return bool(self.order) and self.order[-1] > 1

    def right(self, dims: Sequence[sym.IndexExpr], k: sym.IndexExpr) -> list[sym.IndexExpr]:
        """The index in the weight of the factor number `k` of an element."""
        channel, within = self._of_point(k)
        if not self.is_turned:
            return [dims[1], channel, *within]
        elements = (self._element(axis, place, b) for axis, (place, b) in enumerate(zip(dims[2:], within, strict=True)))
        group, own = 0, dims[1]
        if self.groups > 1:
            columns = self.result[1] // self.groups
            group, own = own // columns * self.channels, own % columns
        return [group + channel, own, *elements]

    def _of_point(self, k: sym.IndexExpr) -> tuple[sym.IndexExpr, list[sym.IndexExpr]]:
        """The channel, of a group, and the element of a window that the point `k` of a sum is."""
        found: list[sym.IndexExpr] = [0] * len(self.result)
        for axis, index in zip(self.order, sym.delinearize(k, self.lengths), strict=True):
            found[axis] = index
        return found[1], found[2:]

    def element(self, dims: Sequence[sym.IndexExpr]) -> list[sym.IndexExpr]:
        """The index in the result of a point of the domain."""
        *batch, row, column = dims
        image, *places = sym.delinearize(row, self.rows)
        if self.groups > 1:
            column = batch.pop(0) * (self.result[1] // self.groups) + column
        for axis, count in enumerate(self.classes):
            if count > 1:
                places[axis] = places[axis] * count + batch.pop(0)
        return [image, column, *places]

    def indices(self, weights: Sequence[int], sizes: Sequence[int]) -> list[sym.IndexExpr]:
        """Of a domain whose points number the elements of the result, axis k with the weight `weights[k]`: its indices
        for a point of this one.
        """
        element = self.element([sym.dim(axis) for axis in range(len(self.domain))])
        return indices_of(element, self.result, self.domain, bool(self.stored(element)), weights, sizes)


@struct
class _Convolution:
    """What a call says of a convolution: how its windows lie."""

    steps: tuple[int, ...]
    margins: tuple[int, ...]
    gaps: tuple[int, ...]
    is_transposed: bool
    groups: int


def _convolution_of(call: loops.ExternOp) -> _Convolution | str:
    arguments = call.arguments_attr.positional
    if len(arguments) != (9 if call.overload == CONVOLUTION else 11):
        return "its arguments are not all given by position"
    if len({len(sizes_of(tensor_type_of(value))) for value in (call.operands[0], call.tensor("weight"))}) > 1:
        return "it is of one image, without a batch"
    rank = len(sizes_of(tensor_type_of(call.operands[0])))
    first = 3 if call.overload == CONVOLUTION else 4
    *given, transposed, _, groups = arguments[first : first + 6]
    lists = [tuple(one) for one in given if isinstance(one, list | tuple)]
    if len(lists) < 3 or any(len(one) != rank - 2 for one in lists):
        return "its arguments are no numbers for each axis"
    steps, margins, gaps = (tuple(one for one in every if isinstance(one, int)) for every in lists)
    if any(len(one) < rank - 2 for one in (steps, margins, gaps)) or not isinstance(groups, int):
        return "its arguments are no numbers for each axis"
    return _Convolution(steps, margins, gaps, transposed is True, groups)


def windows_of(call: loops.ExternOp, which: int = 0) -> Windows | WindowSums | str:
    """How a convolution is a product, or gradient number `which` of one; or why it is none.

    Requires: a call of `CONVOLUTION`, or of `GRADIENTS` that gives that one alone, on tensors.
    """
    found = _convolution_of(call)
    if isinstance(found, str):
        return found
    image_name, weight_name = ("input", "weight") if call.overload == CONVOLUTION else ("grad_output", "weight")
    if which == 1:
        places, moved = ("input", "grad_output") if found.is_transposed else ("grad_output", "input")
        image_name, weight_name = places, moved
    values = call.tensor(image_name), call.tensor(weight_name), call.results[which]
    image, weight, result = (tensor_type_of(one) for one in values)
    every = [tuple(one for one in sizes_of(kind) if isinstance(one, int)) for kind in (image, weight, result)]
    rank = len(sizes_of(image))
    if len(sizes_of(result)) != rank or any(len(one) < rank for one in every) or any(0 in one for one in every):
        return "it has no points, or so many as only the call knows"
    if any(not isinstance(stride, int) for kind in (image, weight) for stride in strides_of(kind)):
        return "only the call knows how its images lie"
    if which == 1:
        return WindowSums(
            every[2], every[0], every[1], found.steps, found.gaps, found.margins, found.groups,
            _by_memory(strides_of(result), every[2]), (image_name, weight_name),
        )  # fmt: skip
    turned = found.is_transposed == (call.overload == CONVOLUTION)
    is_plain = call.overload == CONVOLUTION and not turned and found.groups == 1
    lengths_of = [every[0][1] // found.groups, *every[1][2:]]
    if turned:
        apart = [step // math.gcd(step, gap) for step, gap in zip(found.steps, found.gaps, strict=True)]
        lengths_of[1:] = [-(-size // one) for size, one in zip(lengths_of[1:], apart, strict=True)]
    of_image, of_weight = strides_of(image), strides_of(weight)
    axes = [axis for axis in range(1, rank) if lengths_of[axis - 1] > 1]
    # Along an axis of one place, what lies side by side is no question.
    strides = [(every[0][axis] == 1, stride) for axis in axes if isinstance(stride := of_image[axis], int)]
    order = [axis for _, axis in sorted(zip(strides, axes, strict=True), reverse=True)]
    if is_plain and order and (reason := _out_of_order(order[-1], of_image, of_weight, found.gaps)) is not None:
        return reason
    lengths = tuple(lengths_of[axis - 1] for axis in order)
    run = _run(values[:1] if turned else values[:2], found.steps, found.margins, order, lengths)
    return Windows(
        every[2], found.steps, found.gaps, found.margins, every[0][2:], every[1][2:], tuple(order), lengths,
        run if not turned or order[-1:] == [1] else 1, found.groups, turned, (image_name, weight_name),
        "" if is_plain else _what_it_is(call, turned),
    )  # fmt: skip


def _what_it_is(call: loops.ExternOp, is_turned: bool) -> str:
    if call.overload == GRADIENTS:
        return "it is the gradient of images"
    return "it is transposed" if is_turned else "it has groups"


def _out_of_order(
    last: int, of_image: Sequence[sym.IndexExpr], of_weight: Sequence[sym.IndexExpr], gaps: Sequence[int]
) -> str | None:
    """Why the elements of windows along their last axis in memory are no vectors."""
    if of_image[last] != 1:
        return "the elements of a window do not lie side by side"
    if of_weight[last] != 1:
        return "its weight does not lie as its images do"
    if last > 1 and gaps[last - 2] != 1:
        return "its windows have gaps, and their elements do not lie side by side"
    return None


def _by_memory(strides: Sequence[sym.IndexExpr], sizes: Sequence[int]) -> tuple[int, ...]:
    """The axes but for the first, those with the longest steps in memory first."""
    known = [(stride if isinstance(stride, int) else 0, -axis) for axis, stride in enumerate(strides)][1:]
    return tuple(-axis for _, axis in sorted(known, reverse=True) if sizes[-axis] > 1)


def _run(
    values: Sequence[SSAValue],
    steps: Sequence[int],
    margins: Sequence[int],
    order: Sequence[int],
    lengths: Sequence[int],
) -> int:
    """The `run` of windows whose points go along `order`, the last one of which lies side by side in `values`."""
    if not order:
        return 1
    last = order[-1]
    found = [lengths[-1], *([steps[last - 2], margins[last - 2]] if last > 1 else [])]
    for value in values:
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


__all__ = [
    "CONVOLUTION",
    "GRADIENTS",
    "VECTOR",
    "Windows",
    "lies_across",
    "reads_in_order",
    "side_by_side",
    "windows_of",
]
