"""Eager's random numbers on the CPU, generated: its words by a call of ours, and what it makes of each in nests.

    number k of f32      ←  the lower 24 bits of word k, times 2^-24; of 16 bits: that, rounded, and 0 for 1, or with
                            torch 2.11 as many lower bits as the type has digits
    number k of f64      ←  the lower 53 bits of words 2k (above) and 2k + 1, times 2^-53
    bernoulli(p) k       ←  whether such a number of f64 is below p, whatever the type of the result
    integer k in [a, b)  ←  a + word k mod (b − a), for ranges below 2^28

Source: ATen's `core/TransformationHelper.h` and `core/DistributionsHelper.h`; compared with eager's numbers to the bit.
Everything else is left to eager: normal numbers, which come from approximations of its own, probabilities in tensors,
which it checks one by one, results that are not contiguous, which it fills in the order of memory.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import f32, f64, i32, i64
from xdsl.ir import Attribute, SSAValue

from cuesta.dialects import sym
from cuesta.dialects.elem import kind_of
from cuesta.dialects.layout import is_contiguous, tensor_type_of
from cuesta.lowering.aten.builder import AtenCall, LoopBuilder, Rule, decline
from cuesta.lowering.aten.operands import element_of, sizes_of_value
from cuesta.lowering.aten.scalar import Scalar, fmod, shift_left, shift_right, where

LEAST = 256
"""Elements of a draw that is generated. Reading and writing the generator's state takes 2 µs, in which eager draws some
700 uniform numbers, or 250 of `bernoulli`. Source: measured on one processor of a Sapphire Rapids."""
_LOW = 0xFFFFFFFF
_DROPPED = {"f16": 13, "bf16": 16}
"""Bits of f32 that a type has not. (Multiples of 2^-24 have no others where numbers of f16 are denormal.)"""
_DIGITS = {"f16": 11, "bf16": 8}
_LONG_RANGE = 1 << 28
"""The first range for which eager takes two words."""


def _draw(
    op: AtenCall, builder: LoopBuilder, element: Attribute, number: Callable[[Scalar], Scalar]
) -> Sequence[SSAValue]:
    """The result of a call: `number` of each i32, or of each i64 of two words, the first of them in the lower half."""
    result = op.results[0]
    kind, sizes = tensor_type_of(result), sizes_of_value(result)
    count = sym.product_of(sizes)
    if not is_contiguous(kind):
        decline("random numbers are drawn in the order of memory")
    if isinstance(count, int) and count < LEAST:
        decline(f"reading and writing the generator's state costs more than {count} random numbers")
    words = builder.random_words(count, element)
    with builder.nest(sizes, [result.type]) as nest:
        place = sym.linearize(nest.indices, sizes)
        builder.store(number(builder.load_raw(words, [place])), nest.handles[0], nest.indices)
    return nest.results


def _bits_of_pair(pair: Scalar, bits: int) -> Scalar:
    """The lower bits of the number of 64 that eager makes of two words, the first one above."""
    return shift_left(pair & ((1 << (bits - 32)) - 1), 32) | (shift_right(pair, 32) & _LOW)


def known_number(op: AtenCall, name: str) -> float:
    """An argument that is a number. Declines one that is only known at run time."""
    value = op.argument(name)
    if not isinstance(value, int | float):
        decline(f"{name} is only known at run time")
    return value


def _rounded(builder: LoopBuilder, value: Scalar, dropped: int) -> Scalar:
    """A number of f32 in [0, 1) without its last bits, rounded to the nearest, of two to the even one. In whole
    numbers: fusion leaves out casts that only round, but this is eager's number.
    """
    bits = builder.bitcast(value, i32)
    up = (shift_right(bits, dropped) & 1) + ((1 << (dropped - 1)) - 1)
    return builder.bitcast((bits + up) & -(1 << dropped), f32)


@functools.cache
def _are_rounded() -> bool:
    """Whether the torch at hand rounds numbers of f32 to 16 bits; torch 2.11 takes lower bits of each word."""
    import torch
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    with unset_fake_temporarily():
        narrow, wide = (
            torch.rand(8, dtype=dtype, device="cpu", generator=torch.Generator().manual_seed(0))
            for dtype in (torch.bfloat16, torch.float32)
        )
        return torch.equal(narrow, wide.to(torch.bfloat16))


def _rand(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    element = element_of(op.results[0])
    if element == f64:
        return _draw(op, builder, i64, lambda pair: _bits_of_pair(pair, 53).convert(f64) * 2.0**-53)
    if element != f32 and str(element) not in _DROPPED:
        decline(f"uniform numbers of {element}")

    def number(word: Scalar) -> Scalar:
        if element != f32 and not _are_rounded():
            digits = _DIGITS[str(element)]
            return (word & ((1 << digits) - 1)).convert(f32) * 2.0**-digits
        value = (word & ((1 << 24) - 1)).convert(f32) * 2.0**-24
        if element == f32:
            return value
        rounded = _rounded(builder, value, _DROPPED[str(element)])
        return where(rounded.eq(1), 0, rounded)

    return _draw(op, builder, i32, number)


def _uniform(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    if (known_number(op, "from"), known_number(op, "to")) != (0, 1):
        decline("eager multiplies and adds with one rounding")
    return _rand(op, builder)


def _bernoulli(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    p = known_number(op, "p")
    if not 0 <= p <= 1:
        decline("eager has an error for such a probability")
    below, element = math.ceil(p * 2**53), element_of(op.results[0])
    return _draw(op, builder, i64, lambda pair: (_bits_of_pair(pair, 53) < below).convert(element))


def _integers(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    low = int(known_number(op, "low")) if op.has_argument("low") else 0
    extent, element = int(known_number(op, "high")) - low, element_of(op.results[0])
    if extent <= 0 or kind_of(element) not in "iu":
        decline("eager has an error for such a range, or such a type")
    if extent >= _LONG_RANGE:
        decline("remainders of 64 bits without a sign")
    return _draw(op, builder, i32, lambda word: (fmod(word.convert(i64) & _LOW, extent) + low).convert(element))


RULES: dict[str, Rule] = {
    "aten.rand.default": _rand,
    "aten.rand_like.default": _rand,
    "aten.uniform.default": _uniform,
    "aten.bernoulli.p": _bernoulli,
    "aten.randint.default": _integers,
    "aten.randint.low": _integers,
    "aten.randint_like.default": _integers,
    "aten.randint_like.low_dtype": _integers,
}
"""Draws of eager's numbers."""
