"""The shapes of tiles: which lane axes a value varies along.

Dimension k of a vector belongs to the k-th lane axis around it, the outermost first; where the value does not vary the
dimension is 1, and dimensions of 1 at the end are left out. So `vector<64xf32>` varies along the outer axis,
`vector<1x128xf32>` along the inner, `vector<64x128xf32>` along both, and a scalar along none.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TypeAlias

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, SSAValue

from cuesta.dialects.core.interning import Memo

Shape: TypeAlias = tuple[int, ...]


_shapes = Memo[int, tuple[Attribute, Shape]](4096)
"""By the ids of vector types, which stay taken as long as the types are held here: `shaped` makes each but once."""


def shape_of_type(value_type: Attribute) -> Shape:
    """The shape of a vector type; () for a scalar."""
    if type(value_type) is not VectorType:
        return ()
    found = _shapes.get(id(value_type))
    if found is None:
        found = _shapes.keep(id(value_type), (value_type, tuple(value_type.get_shape())))
    return found[1]


def shape_of(value: SSAValue) -> Shape:
    """The shape of a value."""
    return shape_of_type(value.type)


@lru_cache(maxsize=4096)
def shaped(scalar: Attribute, shape: Shape) -> Attribute:
    """The vector of that shape, or the scalar type itself; dimensions of 1 at the end are dropped."""
    while shape and shape[-1] == 1:
        shape = shape[:-1]
    return VectorType(scalar, shape) if shape else scalar


@lru_cache(maxsize=4096)
def join(a: Shape, b: Shape) -> Shape:
    """The shape that varies along all axes that a or b varies along.

    Errors: ValueError when they disagree about the lanes of an axis.
    """
    if len(a) < len(b):
        a, b = b, a
    common = tuple(max(left, right) for left, right in zip(a, b, strict=False))
    if any(min(left, right) not in (1, size) for left, right, size in zip(a, b, common, strict=False)):
        raise ValueError(f"the shapes {a} and {b} do not fit")
    return common + a[len(b) :]


def joint_shape(values: Iterable[SSAValue]) -> Shape:
    """The shape that varies along all axes that one of the values varies along. Errors: as `join`."""
    shape: Shape = ()
    for value in values:
        other = shape_of_type(value.type)
        if other and other != shape:
            shape = join(shape, other)
    return shape


def spreads_to(source: Shape, target: Shape) -> bool:
    """Whether a value of the shape `source` can be repeated to fill `target`."""
    try:
        return join(source, target) == target
    except ValueError:
        return False


__all__ = ["Shape", "join", "joint_shape", "shape_of", "shape_of_type", "shaped", "spreads_to"]
