"""The numbers that laws are tried on: all of a type, if they are few; else the special ones and many others."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor
from xdsl.ir import Attribute

from cuesta.dialects import elem
from cuesta.dialects.aten.dtypes import dtype_to_type
from cuesta.targets.reference.numerics import dtype_of
from cuesta.transforms.algebra.law import least_normal_exponent, value_bits

TYPES: dict[str, tuple[Attribute, ...]] = {
    "f": tuple(map(dtype_to_type, ("bfloat16", "float16", "float32", "float64"))),
    "i": tuple(map(dtype_to_type, ("int8", "int16", "int32", "int64"))),
    "u": tuple(map(dtype_to_type, ("uint8", "uint16", "uint32", "uint64"))),
    "b": (dtype_to_type("bool"),),
}
"""The types of each kind."""

CHUNK = 1 << 20
_PAIRS_WITH_ALL = 24
_RANDOM = 1 << 16
_SIGNED = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True, eq=False)
class Numbers:
    """Numbers of one type: many, and the special ones among them, those that matter most first."""

    many: Tensor
    special: Tensor
    complete: bool
    """Whether `many` are all there are."""


@cache
def numbers_of(scalar: Attribute) -> Numbers:
    """The numbers that laws are tried on in a type."""
    dtype = dtype_of(scalar)
    kind = elem.kind_of(scalar)
    if kind == "b":
        both = torch.tensor([False, True])
        return Numbers(both, both, complete=True)
    special = _special_floats(scalar) if kind == "f" else _special_integers(scalar)
    width = dtype.itemsize * 8
    if width <= 16:
        half = 1 << (width - 1)
        bits = torch.arange(-half, half, dtype=_SIGNED[width // 8])
        return Numbers(bits.view(dtype), special, complete=True)
    generator = torch.Generator().manual_seed(width)
    bits = torch.randint(-(1 << 62), 1 << 62, (_RANDOM,), generator=generator)
    bits = (bits * 2 + torch.randint(0, 2, bits.shape, generator=generator)).to(_SIGNED[width // 8])
    if kind == "u" and width == 64:
        bits = bits & ((1 << 63) - 1)  # torch does not compute with more; z3 does
    others = [special, bits.view(dtype)]
    if kind == "f":
        normal = torch.randn(_RANDOM, generator=generator, dtype=torch.float64)
        others += [normal.to(dtype), (normal * 16).round().to(dtype), (normal * 2.0**20).to(dtype)]
    else:
        others.append(torch.randint(0, 100, (_RANDOM,), generator=generator).to(dtype))
    return Numbers(torch.cat(others), special, complete=False)


def _special_floats(scalar: Attribute) -> Tensor:
    """Zeros, infinities, NaN, the least and greatest numbers, denormals, powers of two, and what lies beside them."""
    bits, least, greatest = value_bits(scalar)
    normal = least_normal_exponent(scalar)
    largest = math.ldexp(2.0 - math.ldexp(1.0, 1 - bits), greatest)
    positive = [0.0, 1.0, math.inf, math.ldexp(1.0, least), math.ldexp(1.0, normal), largest, 2.0, 3.0, 0.5, 1 / 3]
    positive += [math.ldexp(1.0, normal) - math.ldexp(1.0, least), math.ldexp(3.0, least), math.ldexp(1.0, greatest)]
    ulp = math.ldexp(1.0, 1 - bits)
    positive += [1 + ulp, 1 - ulp / 2, 10.0, 7.0, 5.0, math.pi, math.ldexp(1.0, bits), math.ldexp(1.0, bits) - 1, 100.0]
    positive += [math.ldexp(1.0, exponent) for exponent in range(least, greatest + 1)]
    both = [math.nan, *(sign * number for number in positive for sign in (1.0, -1.0))]
    return torch.tensor(both, dtype=torch.float64).to(dtype_of(scalar))


def _special_integers(scalar: Attribute) -> Tensor:
    """Zero, the least and the greatest, powers of two, and what lies beside them."""
    dtype = dtype_of(scalar)
    width = dtype.itemsize * 8
    signed = elem.kind_of(scalar) == "i"
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << min(width, 63)) - 1)
    found = [0, 1, -1, low, high, 2, -2, 3, low + 1, high - 1, 5, 7, 10]
    found += [sign * (1 << power) + beside for power in range(width) for sign in (1, -1) for beside in (0, -1, 1)]
    kept = list(dict.fromkeys(number for number in found if low <= number <= high))
    return torch.tensor(kept, dtype=torch.int64).to(dtype)


def combinations(columns: Sequence[Numbers], count: int) -> Iterator[list[Tensor]]:
    """About `count` combinations of one number of each column, in pieces; all of them, if they are not many more.

    Else: all combinations of special numbers as far as there is room, the most special of each with all of the others,
    and random ones.
    """
    total = math.prod(len(column.many) for column in columns)
    if total <= 1.7 * count:
        yield from _product([column.many for column in columns])
        return
    room = max(2, int((count / 4) ** (1 / len(columns))))
    yield from _product([_most(column.special, room) for column in columns])
    if len(columns) == 2:
        one, other = columns
        most = max(2, min(_PAIRS_WITH_ALL, count // (4 * max(len(one.many), len(other.many)))))
        yield from _product([_most(one.special, most), other.many])
        yield from _product([one.many, _most(other.special, most)])
    generator = torch.Generator().manual_seed(count)
    for start in range(0, max(count // 2, 1), CHUNK):
        size = min(CHUNK, count // 2 - start)
        drawn = [torch.randint(0, len(column.many), (max(size, 1),), generator=generator) for column in columns]
        yield [pick(column.many, index) for column, index in zip(columns, drawn, strict=True)]


def _most(values: Tensor, count: int) -> Tensor:
    """At most so many: the first half, and of the others some all over the list."""
    if len(values) <= count:
        return values
    first = count - count // 2
    rest = torch.linspace(first, len(values) - 1, count - first).long()
    return pick(values, torch.cat([torch.arange(first), rest]))


def _product(columns: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    sizes = [len(column) for column in columns]
    for start in range(0, math.prod(sizes), CHUNK):
        index = torch.arange(start, min(start + CHUNK, math.prod(sizes)))
        found: list[Tensor] = []
        for column in reversed(columns):
            found.append(pick(column, index % len(column)))
            index = index // len(column)
        yield found[::-1]


def pick(values: Tensor, index: Tensor) -> Tensor:
    """`values[index]`, also of dtypes that torch cannot index."""
    dtype = values.dtype
    if dtype in (torch.uint16, torch.uint32, torch.uint64):
        return values.view(_SIGNED[dtype.itemsize])[index].view(dtype)
    return values[index]
