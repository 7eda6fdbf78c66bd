"""Random numbers of our own, where eager's stream is not asked for (`eager_random.py`): Philox4x32-10, one call of it
for four numbers.

A graph draws one 64-bit key from torch's default generator of the device (a call of `randint`, which advances the
generator as any call of eager's does; `torch.manual_seed` repeats it). Every draw of the graph counts on its own:

    number k · pieces + q of draw d  ←  word k of philox(key, counter = d · 2^40 + q),  q in [0, pieces)

The four numbers of a call lie a quarter of the tensor apart, so that neighbours are stored together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import IntegerType, Signedness, TensorType, f32, f64, i32, i64
from xdsl.ir import Attribute, SSAValue

from cuesta.dialects import sym
from cuesta.dialects.core.keyed_draws import BERNOULLI, DRAW, IN_A_CALL, RANDOM_KEY
from cuesta.dialects.elem import kind_of
from cuesta.dialects.layout import device_of, sizes_of, tensor_type, traits_of
from cuesta.lowering.aten import eager_random
from cuesta.lowering.aten.builder import AtenCall, LoopBuilder, Rule, compute_type, decline
from cuesta.lowering.aten.eager_random import known_number
from cuesta.lowering.aten.operands import element_of, sizes_of_value, tensor_type_of
from cuesta.lowering.aten.pointwise import broadcast_indices
from cuesta.lowering.aten.scalar import Scalar, cos, log, maximum, sin, sqrt, where

_TOGETHER = 64
"""What the number of pieces is a multiple of: each quarter begins at a vector's boundary."""
RANKED = 128
RANKED_BY_MANY = 1024
"""The longest permutations that are the ranks of random numbers, on a CPU and on a GPU; others are sorted by eager.

Source: an estimate: 2 µs on a CPU with eight lanes of i64, as eager takes; on a GPU a loop of a thousand loads from a
cache in place of the kernels of a sort.
"""
_LOW = 0xFFFFFFFF
_MANTISSAS = {"bf16": 8, "f16": 11, "f32": 24, "f64": 53}
_WORD = IntegerType(32, Signedness.UNSIGNED)

Words = tuple[Scalar, Scalar, Scalar, Scalar]
"""The words of one call, each an i64 in [0, 2^32)."""
Numbers = Callable[[Words], Sequence[Scalar]]
"""What one call gives."""
Finish = Callable[[Scalar, Sequence[sym.IndexExpr], Scalar | None], Scalar]
"""A number of the result, from what the call gave, its place, and where there is such a place."""


def _draw(
    op: AtenCall,
    builder: LoopBuilder,
    numbers: Numbers,
    group: int,
    finish: Finish = lambda number, place, mask: number,
) -> Sequence[SSAValue]:
    """The only result of a call, or its first; `group` numbers come from one call of Philox."""
    return _draw_to(tensor_type_of(op.results[0]), builder, numbers, group, finish)


def _draw_to(
    result: TensorType,
    builder: LoopBuilder,
    numbers: Numbers,
    group: int,
    finish: Finish = lambda number, place, mask: number,
) -> Sequence[SSAValue]:
    """A tensor of this type."""
    sizes = sizes_of(result)
    count = sym.product_of(sizes)
    pieces: sym.IndexExpr = 1
    if count != 1:  # one number has one place, which lanes cannot share
        pieces = sym.ceildiv(sym.ceildiv(count, group), _TOGETHER) * _TOGETHER
    key = builder.random_key(device_of(result))
    first = builder.next_draw() * DRAW
    with builder.nest([pieces], [result]) as nest:
        (piece,) = nest.indices
        seed = builder.load_raw(key, [0])
        counter = builder.index(piece) + first
        words = tuple(builder.philox(word, seed, counter) for word in range(4))
        assert len(words) == 4
        for number, value in enumerate(numbers(words)):
            if count == 1 and number:
                break
            flat = piece + number * pieces
            whole = isinstance(count, int) and isinstance(pieces, int) and (number + 1) * pieces <= count
            mask = None if whole else builder.index(flat) < builder.constant(count, i64)
            place: list[sym.IndexExpr] = list(sym.delinearize(flat, sizes)) if sizes else []
            builder.store(finish(value, place, mask), nest.handles[0], place, mask)
    return nest.results


def _pairs(words: Words) -> list[Scalar]:
    """Two numbers of 64 bits."""
    return [words[0] + words[1] * (1 << 32), words[2] + words[3] * (1 << 32)]


# -- distributions -----------------------------------------------------------------------------------------------------


def _uniform_of(element: Attribute) -> tuple[Numbers, int]:
    """Numbers in [0, 1), all of them exact in the type, and how many a call gives."""
    digits = _MANTISSAS.get(str(element))
    if digits is None:
        decline(f"uniform numbers of {element}")
    scale = 2.0**-digits
    if element == f64:
        return lambda words: [(bits & ((1 << digits) - 1)).convert(f64) * scale for bits in _pairs(words)], 2
    return lambda words: [(word & ((1 << digits) - 1)).convert(i32).convert(f32) * scale for word in words], 4


def _positive(words: Sequence[Scalar]) -> list[Scalar]:
    """f32 in (0, 1], down to 2^-33."""
    return [word.convert(_WORD).convert(f32) * 2.0**-32 + 2.0**-33 for word in words]


def _normal_of(element: Attribute) -> tuple[Numbers, int]:
    """Normal numbers with mean 0 and deviation 1, by Box and Muller's transformation, and how many a call gives."""
    if element == f64:

        def wide(words: Words) -> list[Scalar]:
            first, second = ((bits & ((1 << 53) - 1)).convert(f64) * 2.0**-53 for bits in _pairs(words))
            return list(_box_muller(first + 2.0**-54, second))

        return wide, 2
    if kind_of(element) != "f":
        decline(f"normal numbers of {element}")

    def narrow(words: Words) -> list[Scalar]:
        first, second, third, fourth = _positive(words)
        return [*_box_muller(first, second), *_box_muller(third, fourth)]

    return narrow, 4


def _box_muller(u: Scalar, v: Scalar) -> tuple[Scalar, Scalar]:
    """sqrt(-2 ln u) · (cos 2πv, sin 2πv)"""
    radius, angle = sqrt(log(u) * -2.0), v * (2 * math.pi)
    return radius * cos(angle), radius * sin(angle)


# -- rules -------------------------------------------------------------------------------------------------------------


def _by_stream(philox: Rule, eagers: Rule | None) -> Rule:
    """The rule of the stream that is asked for."""

    def lower(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
        if op.has_argument("generator") and op.argument("generator") is not None:
            decline("it has a generator of its own")
        known = traits_of(op.results[0]).eager_random
        if builder.random != "eager" and not (builder.random == "device" and known):
            return philox(op, builder)
        if eagers is None or not known:
            decline("random numbers are drawn from eager's stream")
        return eagers(op, builder)

    return lower


def _rand(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    return _draw(op, builder, *_uniform_of(element_of(op.results[0])))


def _randn(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    return _draw(op, builder, *_normal_of(element_of(op.results[0])))


def _bernoulli_of_number(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    """Whether a word is below p · 2^32."""
    p = known_number(op, "p")
    if not 0 <= p <= 1:
        decline("eager has an error for such a probability")
    element = element_of(op.results[0])
    below = _below(p)
    return _draw(op, builder, lambda words: [(word < below).convert(element) for word in words], 4)


def _below(p: float) -> int:
    """The first word that is not among those below p · 2^32."""
    return math.ceil(p * 2**32)


def _bernoulli(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    """Whether a uniform number is below the element."""
    source, element = op.tensor("self"), element_of(op.results[0])
    if kind_of(element_of(source)) != "f":
        decline("probabilities that are no floats")
    to = compute_type(element_of(source))

    def finish(number: Scalar, place: Sequence[sym.IndexExpr], mask: Scalar | None) -> Scalar:
        zero = builder.constant(0, element_of(source))
        return (number < builder.load_raw(source, place, mask, zero).convert(to)).convert(element)

    return _draw(op, builder, *_uniform_of(to), finish)


def _uniform(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    """from + u · (to − from), never rounded up to `to`."""
    low, high = known_number(op, "from"), known_number(op, "to")
    element = element_of(op.results[0])

    def finish(number: Scalar, place: Sequence[sym.IndexExpr], mask: Scalar | None) -> Scalar:
        value = (number * (high - low) + low).convert(element)
        rounded = value.convert(compute_type(element))
        return where(rounded < high, value, low) if high > low else value

    return _draw(op, builder, *_uniform_of(compute_type(element)), finish)


def _normal(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    """mean + deviation · z, where either may be a tensor that is broadcast."""
    sizes, element = sizes_of_value(op.results[0]), element_of(op.results[0])
    to = compute_type(element)
    values = [_tensor_or_number(op, name) for name in ("mean", "std")]
    for value in values:
        if not isinstance(value, SSAValue) and value < 0 and value is values[1]:
            decline("eager has an error for such a deviation")

    def finish(number: Scalar, place: Sequence[sym.IndexExpr], mask: Scalar | None) -> Scalar:
        def at(value: SSAValue | float) -> Scalar:
            if not isinstance(value, SSAValue):
                return builder.constant(float(value), to)
            where_read = broadcast_indices(sizes_of_value(value), sizes, place)
            other = builder.constant(0, element_of(value))
            return builder.load_raw(value, where_read, mask, other).convert(to)

        return number * at(values[1]) + at(values[0])

    return _draw(op, builder, *_normal_of(element), finish)


def _tensor_or_number(op: AtenCall, name: str) -> SSAValue | float:
    argument = op.argument(name)
    return argument if isinstance(argument, int | float) else op.tensor(name)


def _exponential(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    """−ln u / λ, which is never 0."""
    rate, element = known_number(op, "lambd"), element_of(op.results[0])
    if kind_of(element) != "f" or element == f64 or rate <= 0:
        decline(f"exponential numbers of {element}, with a rate of {rate}")

    def numbers(words: Words) -> list[Scalar]:
        return [maximum(log(u) * -1.0, 2.0**-25) / rate for u in _positive(words)]

    return _draw(op, builder, numbers, 4)


def _integers(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    """low + ⌊word · range / 2^32⌋; of long ranges the remainder of 63 bits."""
    low = known_number(op, "low") if op.has_argument("low") else 0
    high, element = known_number(op, "high"), element_of(op.results[0])
    extent = int(high - low)
    if extent <= 0 or kind_of(element) not in "fiu":
        decline("eager has an error for such a range, or such a type")
    if extent <= 1 << 24:

        def scaled(words: Words) -> list[Scalar]:
            values = [builder.elem("trunc_div", word * extent, builder.constant(1 << 32, i64)) for word in words]
            return [(value + int(low)).convert(element) for value in values]

        return _draw(op, builder, scaled, 4)

    def remainders(words: Words) -> list[Scalar]:
        values = [builder.elem("fmod", bits & ((1 << 63) - 1), builder.constant(extent, i64)) for bits in _pairs(words)]
        return [(value + int(low)).convert(element) for value in values]

    return _draw(op, builder, remainders, 2)


def _permutation(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    """The rank of each of so many random numbers, of equal ones the first before the second.

    All orders are equally likely, but for less than n² · 2^-64.
    """
    result = tensor_type_of(op.results[0])
    (count,), element = sizes_of(result), result.element_type
    if not isinstance(count, int) or count > (RANKED_BY_MANY if builder.traits.blocks else RANKED):
        decline("every number would be compared with all, of which there are many")
    if element not in (i32, i64, f32, f64):
        decline(f"eager has limits for permutations in {element}")
    drawn = tensor_type((count,), i64, device=device_of(result))
    (keys,) = _draw_to(drawn, builder, lambda words: [bits & ((1 << 63) - 1) for bits in _pairs(words)], 2)
    with builder.nest([count], [result]) as nest:
        (place,) = nest.indices
        key, here = builder.load_raw(keys, [place]), builder.index(place)

        def is_before(inner: Sequence[sym.IndexExpr]) -> Scalar:
            other = builder.load_raw(keys, inner)
            first = other.eq(key) & (builder.index(inner[0]) < here)
            return ((other < key) | first).convert(i64)

        builder.store(builder.reduce("sum", [count], i64, is_before).convert(element), nest.handles[0], nest.indices)
    return nest.results


# -- draws of a key ----------------------------------------------------------------------------------------------------


def _random_key(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    return [builder.fresh_key(device_of(tensor_type_of(op.results[0])))]


def _keyed_bernoulli(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    """Whether the word of a place is below p · 2^32: one number at a point, whoever reads it. Places of a row follow
    one another, and each row begins with a call of its own.
    """
    match op.arguments_attr.positional:
        case (_, tuple(), int() | float() as p, int() as number) if 0 <= p <= 1 and len(op.operands) == 1:
            (key,), below, first = op.operands, _below(p), number * DRAW
        case _:
            decline("a draw of a key takes a key, sizes, a probability and a number")
    result = tensor_type_of(op.results[0])
    sizes = sizes_of(result)
    with builder.nest(sizes, [result]) as nest:
        seed = builder.load_raw(key, [0])
        place: sym.IndexExpr = 0
        if sizes:
            padded = sym.ceildiv(sizes[-1], IN_A_CALL) * IN_A_CALL
            place = sym.linearize(nest.indices[:-1], sizes[:-1]) * padded + nest.indices[-1]
        word = builder.random_word(first, seed, builder.index(place))
        builder.store(word < below, nest.handles[0], nest.indices)
    return nest.results


RULES: dict[str, Rule] = {
    RANDOM_KEY: _random_key,
    BERNOULLI: _keyed_bernoulli,
} | {
    name: _by_stream(rule, eager_random.RULES.get(name))
    for name, rule in {
        "aten.rand.default": _rand,
        "aten.rand_like.default": _rand,
        "aten.randn.default": _randn,
        "aten.randn_like.default": _randn,
        "aten.bernoulli.default": _bernoulli,
        "aten.bernoulli.p": _bernoulli_of_number,
        "aten.uniform.default": _uniform,
        "aten.normal_functional.default": _normal,
        "aten.normal.Tensor_float": _normal,
        "aten.normal.float_Tensor": _normal,
        "aten.normal.Tensor_Tensor": _normal,
        "aten.exponential.default": _exponential,
        "aten.randint.default": _integers,
        "aten.randint.low": _integers,
        "aten.randint_like.default": _integers,
        "aten.randint_like.low_dtype": _integers,
        "aten.randperm.default": _permutation,
    }.items()
}
"""Draws of random numbers."""
