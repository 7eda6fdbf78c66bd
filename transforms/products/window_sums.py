"""Gradients of the weights of convolutions as products of matrices.

    w[g · O + o, c, a] = Σ_(n, p) y[n, g · O + o, p] · x[n, g · C + c, p · step + a · gap − margin]

Of a plain convolution y is the gradient of the result, and x the images; of a transposed one it is the other way round.
Nothing is decided here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from cuesta.dialects import sym
from cuesta.dialects.core.structs import struct
from cuesta.dialects.layout import contiguous_strides

Limit: TypeAlias = tuple[sym.IndexExpr, int, bool, bool]
"""An expression, a size, and whether it may be below 0, and not below the size: then nothing is there."""


@struct
class WindowSums:
    """How the gradient of a convolution's weight is a product: a row is a channel o, a column the element (c, a) of a
    window, and a point a place p of an image n.
    """

    result: tuple[int, ...]
    """The sizes of the weight: channels, channels of a group, and the window."""
    given: tuple[int, ...]
    """The sizes of y."""
    image: tuple[int, ...]
    """The sizes of x."""
    steps: tuple[int, ...]
    gaps: tuple[int, ...]
    margins: tuple[int, ...]
    groups: int
    order: tuple[int, ...]
    """The axes of the weight that a column counts, the last one fastest."""
    factors: tuple[str, str]
    """The names of y and x in the call."""

    unmeasured = "it is the gradient of a weight"
    is_turned = False
    overlap = True
    lies_along_places = False
    run = 1

    @property
    def channels(self) -> int:
        """Of a group of x."""
        return self.result[1]

    @property
    def places(self) -> tuple[int, ...]:
        """Along each axis of x."""
        return self.image[2:]

    @property
    def times_read(self) -> float:
        """How often an element of the left factor is read: it has each of its own once."""
        return 1.0

    @property
    def batch(self) -> tuple[int, ...]:
        """The axes of the products of matrices that it is, where there are several."""
        return (self.groups,) if self.groups > 1 else ()

    @property
    def domain(self) -> tuple[int, ...]:
        """The batch, the rows and the columns."""
        return (*self.batch, self.result[0] // self.groups, math.prod(self.result[1:]))

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows, columns and the points of each sum."""
        rows, columns = self.domain[-2:]
        return rows, columns, self.given[0] * math.prod(self.given[2:])

    def _of_point(self, k: sym.IndexExpr) -> Sequence[sym.IndexExpr]:
        """The image and the place that the point `k` of a sum is."""
        return sym.delinearize(k, (self.given[0], *self.given[2:]))

    def left(self, dims: Sequence[sym.IndexExpr], k: sym.IndexExpr) -> list[sym.IndexExpr]:
        """The index in y of the factor number `k` of an element."""
        image, *places = self._of_point(k)
        return [image, dims[0], *places]

    def right(self, dims: Sequence[sym.IndexExpr], k: sym.IndexExpr) -> list[sym.IndexExpr]:
        """The index in x of the factor number `k` of an element."""
        image, *places = self._of_point(k)
        channel = dims[1]
        if self.groups > 1:
            channel = dims[0] // (self.result[0] // self.groups) * self.result[1] + channel
        moved = zip(places, self.steps, dims[2:], self.gaps, self.margins, strict=True)
        return [image, channel, *(p * step + a * gap - margin for p, step, a, gap, margin in moved)]

    def limits(self, dims: Sequence[sym.IndexExpr], k: sym.IndexExpr) -> tuple[list[Limit], list[Limit], list[Limit]]:
        """Of the factor number `k` of an element, nothing of both; nothing of y; and what may be no place of x."""
        found: list[Limit] = []
        index = self.right(dims, k)
        for axis, size in enumerate(self.places):
            last = (self.given[axis + 2] - 1) * self.steps[axis] + (self.result[axis + 2] - 1) * self.gaps[axis]
            before, beyond = self.margins[axis] > 0, last - self.margins[axis] >= size
            if before or beyond:
                found.append((index[axis + 2], size, before, beyond))
        return [], [], found

    def stored(self, dims: Sequence[sym.IndexExpr]) -> list[Limit]:
        """Every point is an element of the result."""
        return []

    def element(self, dims: Sequence[sym.IndexExpr]) -> list[sym.IndexExpr]:
        """The index in the result of a point of the domain."""
        *batch, row, column = dims
        if batch:
            row = batch[0] * (self.result[0] // self.groups) + row
        found: list[sym.IndexExpr] = [row, *[0] * (len(self.result) - 1)]
        sizes = [self.result[axis] for axis in self.order]
        for axis, index in zip(self.order, sym.delinearize(column, sizes), strict=True):
            found[axis] = index
        return found

    def indices(self, weights: Sequence[int], sizes: Sequence[int]) -> list[sym.IndexExpr]:
        """As of `Windows`."""
        element = self.element([sym.dim(axis) for axis in range(len(self.domain))])
        return indices_of(element, self.result, self.domain, False, weights, sizes)


def indices_of(
    element: Sequence[sym.IndexExpr],
    result: Sequence[int],
    domain: Sequence[int],
    is_cut: bool,
    weights: Sequence[int],
    sizes: Sequence[int],
) -> list[sym.IndexExpr]:
    """Of a nest whose points number the elements of a result of these sizes, axis k with the weight `weights[k]`: its
    indices for the `element` of a point of a domain; `is_cut` where not every point has one.
    """
    number = sym.linearize(element, result)
    own = dict(zip(zip(contiguous_strides(result), result, strict=True), element, strict=True))
    made = (
        # As it stands: of a point without an element it may be too large.
        own[weight, size] if is_cut and (weight, size) in own else number // weight % size
        for weight, size in zip(weights, sizes, strict=True)
    )
    return [sym.simplify(one, domain) for one in made]


__all__ = ["Limit", "WindowSums", "indices_of"]
