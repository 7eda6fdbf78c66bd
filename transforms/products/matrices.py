"""How the matrix of a product lies in memory, seen through the nest that makes it: a matrix of int8 that is converted
and scaled is read as int8.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from xdsl.ir import SSAValue

from cuesta.dialects import loops, sym
from cuesta.dialects.core.structs import struct
from cuesta.dialects.layout import sizes_of, strides_of, tensor_type_of
from cuesta.dialects.loops.analysis import byte_width
from cuesta.dialects.loops.split_axes import divisors_of
from cuesta.dialects.loops.surgery import loads_of, through_views
from cuesta.transforms.products.products import Product, static


@struct
class Matrix:
    """The right factor of a product, as it would be read: point by point of a sum, and column by column."""

    along: str
    """Whether neighbours in memory are the points of a sum (`points`) or the columns (`columns`); else nothing."""
    width: int
    """The bytes of the narrowest element that is read at each point of each column."""
    step: int
    """From one row of what lies along the columns to the next, in elements; 0 where that is not one number."""
    read: int
    """The bytes of all that is read at each point of each column."""
    made: int
    """The bytes that are written first, if it stays a call: the whole matrix where a nest makes it, else 0."""
    group: int
    """How many points in a row share what is read for all of them, a scale; 0 where that is no question."""


def matrix_of(product: Product) -> Matrix:
    """How the right factor lies, through its producer if that is one of the product's."""
    *batch, points, columns = static(sizes_of(tensor_type_of(product.right)))
    sizes = (*batch, points, columns)
    k, j = len(batch), len(batch) + 1
    source, indices = through_views(product.right, [sym.dim(axis) for axis in range(len(sizes))])
    indices = tuple(sym.simplify(index, sizes) for index in indices)
    nest = product.producers.get(source)
    if nest is None:
        addresses = [(byte_width(source), _address(source, indices, sizes))]
    else:
        place = dict[SSAValue, sym.IndexExpr](zip(nest.induction_variables, indices, strict=True))
        addresses = [
            (byte_width(load.source), _address(load.source, _indices(load, place), sizes)) for load in loads_of(nest)
        ]
    group = 0
    divisors = set[sym.IndexExpr]().union(*(divisors_of(address, k) for _, address in addresses))
    if (
        len(divisors) == 1
        and isinstance(divisor := divisors.pop(), int)
        and 1 < divisor < points > 0 == points % divisor
    ):
        group, sizes, r = divisor, (*sizes, points // divisor, divisor), len(sizes) + 1
        images = [sym.dim(axis) for axis in range(len(sizes))]
        images[k] = sym.dim(r - 1) * divisor + sym.dim(r)
        addresses = [(width, sym.simplify(sym.substitute(one, images), sizes)) for width, one in addresses]
        k = r
    strides = [
        (width, sym.coefficient(address, k), sym.coefficient(address, j))
        for width, address in addresses
        if {k, j} <= sym.dims_of(address) | {axis for axis in (k, j) if sizes[axis] == 1}
    ]
    count = math.prod(batch) * points * columns
    made = count * byte_width(product.right) if nest is not None else 0
    read = count * sum(width for width, _, _ in strides)
    width = min((width for width, _, _ in strides), default=byte_width(product.right))
    steps = {along_k for _, along_k, _ in strides}
    step = steps.pop() if len(steps) == 1 else 0
    along = ""
    if strides and all(along_k == 1 for _, along_k, _ in strides):
        along = "points"
    elif strides and all(along_j == 1 for _, _, along_j in strides):
        along = "columns"
    return Matrix(along, width, step if isinstance(step, int) else 0, read, made, group)


def _indices(load: loops.LoadOp, place: Mapping[SSAValue, sym.IndexExpr]) -> tuple[sym.IndexExpr, ...]:
    """Where a load of a pointwise nest reads at a point. Requires: no index made of data."""
    dims = [place[index] for index in load.indices]
    return tuple(sym.substitute(result, dims) for result in load.map.results)


def _address(source: SSAValue, indices: tuple[sym.IndexExpr, ...], sizes: tuple[int, ...]) -> sym.IndexExpr:
    address: sym.IndexExpr = 0
    for index, stride in zip(indices, strides_of(tensor_type_of(source)), strict=True):
        address = address + index * stride
    return sym.simplify(address, sizes)


__all__ = ["Matrix", "matrix_of"]
