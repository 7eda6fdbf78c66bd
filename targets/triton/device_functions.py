"""What emitted kernels call: combinations of reductions, random words. Imported only where Triton is."""

# pyright: basic, reportGeneralTypeIssues=false
# (the language of these functions is Triton's, whose values have no Python types)

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def add(a, b):
    """The sum."""
    return a + b


@triton.jit
def upper_half(x):
    """x cut off to the 8 bits of mantissa that bf16 has: the upper half of f32; no number becomes infinite."""
    return (x.to(tl.int32, bitcast=True) & -65536).to(tl.float32, bitcast=True)


@triton.jit
def pieces(x):
    """Three pieces of bf16 whose sum is x, exactly where |x| >= 2^-109: 24 bits of mantissa are three times 8. Of what
    is no number the first is no number, and the others are NaN.
    """
    first = upper_half(x)
    rest = x - first
    second = rest.to(tl.bfloat16)
    return first.to(tl.bfloat16), second, (rest - second.to(tl.float32)).to(tl.bfloat16)


@triton.jit
def multiply_in_pieces(a, b, start):
    """start + a · b, of tiles of f32, by six of the nine products of their pieces; the others are below 2^-24 of it.

    Matrix units cut off what they add up, which is little for the points of one tile; from tile to tile f32 adds. Small
    products come first. Where a factor is no number they are NaN, and count as nothing: what the sum is, the product of
    the first pieces says.
    """
    a1, a2, a3 = pieces(a)
    b1, b2, b3 = pieces(b)
    small = tl.dot(a3, b1)
    small = tl.dot(a2, b2, small)
    small = tl.dot(a1, b3, small)
    small = tl.dot(a2, b1, small)
    small = tl.dot(a1, b2, small)
    small = tl.where(small == small, small, 0.0)
    return start + tl.dot(a1, b1, small)


@triton.jit
def rolled(n):
    """n, as a number that nobody knows who compiles: grids have one axis. LLVM writes out all rounds of a loop that has
    16 or fewer, and a product of tiles takes seconds to compile then, to no avail.
    """
    return n + tl.program_id(1)


@triton.jit
def logaddexp(a, b):
    """log(exp a + exp b)"""
    greater, lesser = maximum(a, b), minimum(a, b)
    return tl.where(a == b, a + 0.6931471805599453, greater + libdevice.log1p(libdevice.exp(lesser - greater)))


@triton.jit
def last_argmax(a, i, b, j):
    """The greater and its index; NaN is the greatest, of equals the later point."""
    earlier = tl.where(a == a, b < a, b == b)
    return tl.where(earlier, a, b), tl.where(earlier, i, j)


@triton.jit
def last_argmin(a, i, b, j):
    """The lesser and its index; NaN is the least, of equals the later point."""
    earlier = tl.where(a == a, b > a, b == b)
    return tl.where(earlier, a, b), tl.where(earlier, i, j)


@triton.jit
def divide(a, b, inverse):
    """a / b, given the nearest number to 1/b, which is normal: the quotient of the remainder is added, if there is one.

    Correctly rounded (P. Markstein, IBM J. Res. Dev. 34, 1990), but for |a| < 2^-100: the remainder may be denormal.
    """
    quotient = a * inverse
    rest = tl.fma(quotient, b * -1.0, a)
    better = tl.fma(rest, inverse, quotient)
    # A zero keeps its sign; of an infinite quotient there is no remainder.
    return tl.where((rest != 0.0) & (better == better), better, quotient)


@triton.jit
def divide_by_shared(a, b):
    """a / b of many a and one b: as `divide` wherever the reciprocal is far from what is no normal number."""
    if (tl.abs(b) >= 7.9e-31) & (tl.abs(b) <= 1.26e30):  # 2^-100, 2^100
        quotient = divide(a, b, tl.div_rn(1.0, b))
    else:
        quotient = tl.div_rn(a, b)
    return quotient


@triton.jit
def divide_by_two(a, first, second, is_first):
    """a / b of many a, where b is one of two numbers, the first where `is_first`: as `divide_by_shared`."""
    least, most = tl.minimum(tl.abs(first), tl.abs(second)), tl.maximum(tl.abs(first), tl.abs(second))
    if (least >= 7.9e-31) & (most <= 1.26e30):
        inverse = tl.where(is_first, tl.div_rn(1.0, first), tl.div_rn(1.0, second))
        quotient = divide(a, tl.where(is_first, first, second), inverse)
    else:
        quotient = tl.div_rn(a, tl.where(is_first, first, second))
    return quotient


@triton.jit
def divide_by_rows(a, b):
    """a / b of many a for each b: as `divide`, with b brought to where its reciprocal is far from what is no normal
    number. A quotient that is no normal number, over a b beyond 2^100, is rounded twice.
    """
    size = tl.abs(b)
    scale = tl.where(size > 1.26e30, 5.421010862427522e-20, tl.where(size < 7.9e-31, 1.8446744073709552e19, 1.0))
    scaled = b * scale  # by 2^-64 or 2^64
    return divide(a, scaled, tl.div_rn(1.0, scaled)) * scale


@triton.jit
def divide_each(a, b):
    """a / b, correctly rounded. The device's division of a zero goes through a subroutine, for which the whole warp
    waits, and what was rectified or masked is half zeros: another number, 2^-100, is divided in its place, and 0 times
    that quotient is ±0, or NaN where b is 0 or NaN.
    """
    zero = a == 0.0
    quotient = tl.div_rn(tl.where(zero, 7.888609052210118e-31, a), b)
    return tl.where(zero, a * quotient, quotient)


@triton.jit
def multiply(a, b):
    """The product."""
    return a * b


@triton.jit
def gcd(a, b):
    """The greatest common divisor, as `targets/cpu/integer_functions.py` has it, one factor of two in a step: as many
    steps as two numbers have bits. The shared factors of two are those of the lowest bit of either.
    """
    x = tl.abs(a).to(tl.core.get_int_dtype(a.dtype.primitive_bitwidth, signed=False), bitcast=True)
    y = tl.abs(b).to(x.dtype, bitcast=True)
    both = x | y
    shared = both & (0 - both)
    u, v = tl.where(x == 0, y, x), tl.where(x == 0, x, y)
    for _ in range(2 * a.dtype.primitive_bitwidth):
        even = (u & 1) == 0
        u = tl.where(even & (u != 0), u >> 1, u)
        odd = (v & 1) == 1
        low, high = tl.minimum(u, v), tl.maximum(u, v)
        v = tl.where(~even, tl.where(odd, (high - low) >> 1, v >> 1), v)
        u = tl.where(~even & odd, low, u)
    return (u * shared).to(a.dtype, bitcast=True)


@triton.jit
def either(a, b):
    """a or b."""
    return a | b


@triton.jit
def both(a, b):
    """a and b."""
    return a & b


@triton.jit
def maximum(a, b):
    """The greater, NaN if either is."""
    return tl.maximum(a, b, tl.PropagateNan.ALL)


@triton.jit
def minimum(a, b):
    """The lesser, NaN if either is."""
    return tl.minimum(a, b, tl.PropagateNan.ALL)


@triton.jit
def argmax(a, i, b, j):
    """The greater and its index; NaN is the greatest, of equals the lower index."""
    a_nan, b_nan = a != a, b != b
    equal = (a == b) | (a_nan & b_nan)
    first = ((a > b) & (b == b)) | (a_nan & (b == b)) | (equal & (i < j))
    return tl.where(first, a, b), tl.where(first, i, j)


@triton.jit
def argmin(a, i, b, j):
    """The lesser and its index; NaN is the least, of equals the lower index."""
    a_nan, b_nan = a != a, b != b
    equal = (a == b) | (a_nan & b_nan)
    first = ((a < b) & (b == b)) | (a_nan & (b == b)) | (equal & (i < j))
    return tl.where(first, a, b), tl.where(first, i, j)


@triton.jit
def argmax_last_nan(a, i, b, j):
    """The greater and its index; NaN is the greatest, of several the one with the higher index; of equals the lower."""
    first = (a > b) | ((a != a) & ((b == b) | (i > j))) | ((a == b) & (i < j))
    return tl.where(first, a, b), tl.where(first, i, j)


@triton.jit
def same(a, b):
    """Whether they are equal, or both NaN."""
    return (a == b) | ((a != a) & (b != b))


@triton.jit
def later_argmax(a, i, b, j, nowhere):
    """`argmax` where j is greater than i, or i is nowhere."""
    better = (~(b <= a) & (a == a)) | (i == nowhere)
    return tl.where(better, b, a), tl.where(better, j, i)


@triton.jit
def later_argmin(a, i, b, j, nowhere):
    """`argmin` where j is greater than i, or i is nowhere."""
    better = (~(b >= a) & (a == a)) | (i == nowhere)
    return tl.where(better, b, a), tl.where(better, j, i)


@triton.jit
def welford(mean_a, square_a, count_a, mean_b, square_b, count_b):
    """The moments of two parts together."""
    count = count_a + count_b
    share = tl.where(count == 0, 0.0, count_b / count)
    delta = mean_b - mean_a
    return mean_a + delta * share, square_a + square_b + delta * delta * count_a * share, count


@triton.jit
def welford_step(mean, square, count, value):
    """The moments with one more value."""
    count = count + 1
    delta = value - mean
    mean = mean + delta / count
    return mean, square + delta * (value - mean), count


@triton.jit
def welford_step_masked(mean, square, count, value, mask):
    """The same where the mask is true."""
    new_mean, new_square, new_count = welford_step(mean, square, count, value)
    return tl.where(mask, new_mean, mean), tl.where(mask, new_square, square), tl.where(mask, new_count, count)


@triton.jit
def philox(key, counter, word: tl.constexpr):
    """One of the four words of Philox4x32-10, as an i64."""
    return _words(key, counter, 10)[word].to(tl.int64)


@triton.jit
def _words(key, counter, rounds: tl.constexpr):
    """The four words of Philox4x32 with so many rounds, for a counter that is an i64."""
    low = (counter & 0xFFFFFFFF).to(tl.uint32)
    zero = low * 0
    return tl.philox(key, low, (counter >> 32).to(tl.uint32), zero, zero, rounds)


@triton.jit
def random_word(key, place, first: tl.constexpr):
    """The word of a place, as an i64: number place mod 4 of those of Philox4x32-7 for first + place div 4."""
    a, b, c, d = _words(key, (place >> 2) + first, 7)
    which = place & 3
    return tl.where(which < 2, tl.where(which == 0, a, b), tl.where(which == 2, c, d)).to(tl.int64)


@triton.jit
def random_words(key, calls, first: tl.constexpr, dim: tl.constexpr):
    """The words of a block of places, of which four follow one another along a dimension: `calls` is a block with the
    places div 4, a quarter as long there.
    """
    a, b, c, d = _words(key, calls.to(tl.int64) + first, 7)
    words = tl.join(tl.join(a, c), tl.join(b, d))
    if len(calls.shape) == 1:
        joined = tl.reshape(words, [calls.shape[0] * 4])
    elif dim == 0:
        joined = tl.reshape(tl.permute(words, (0, 2, 3, 1)), [calls.shape[0] * 4, calls.shape[1]])
    else:
        joined = tl.reshape(words, [calls.shape[0], calls.shape[1] * 4])
    return joined.to(tl.int64)


@triton.jit
def _round_to_float8(x, mantissa: tl.constexpr, bias: tl.constexpr, half: tl.constexpr):
    """The magnitude of x below the largest exponent as a float of 8 bits: rounded to nearest, ties to even.

    `half` is just below half a unit of what is cut off. Below the least normal number, adding 2^(23 - mantissa) units
    of it leaves the rounded multiple in the low bits.
    """
    bits = tl.abs(x).to(tl.int32, bitcast=True)
    shift: tl.constexpr = 23 - mantissa
    odd = (bits >> shift) & 1
    normal = (bits + ((bias - 127) << 23) + half + odd) >> shift
    magic: tl.constexpr = (127 + shift + 1 - bias) << 23
    sum = bits.to(tl.float32, bitcast=True) + tl.full([], magic, tl.int32).to(tl.float32, bitcast=True)
    small = sum.to(tl.int32, bitcast=True) - magic
    return tl.where(bits < ((128 - bias) << 23), small, normal), bits


@triton.jit
def _with_sign(magnitude, x):
    return (magnitude | ((x.to(tl.int32, bitcast=True) >> 24) & 0x80)).to(tl.uint8)


@triton.jit
def to_e4m3(x, overflow: tl.constexpr):
    """f32 as torch converts it. The format has no infinity: what is beyond 464 gets the bits `overflow`."""
    magnitude, bits = _round_to_float8(x, 3, 7, 0x7FFFF)
    magnitude = tl.where(bits > 0x7F800000, 0x7F, tl.where(bits > 0x43E80000, overflow, magnitude))
    return _with_sign(magnitude, x).to(tl.float8e4nv, bitcast=True)


@triton.jit
def to_e5m2(x):
    """f32 as torch converts it: infinity from 61440 on."""
    magnitude, bits = _round_to_float8(x, 2, 15, 0xFFFFF)
    magnitude = tl.where(bits > 0x7F800000, 0x7F, tl.where(bits >= 0x47800000, 0x7C, magnitude))
    return _with_sign(magnitude, x).to(tl.float8e5, bitcast=True)


@triton.jit
def meet(count, group, part, groups: tl.constexpr, members: tl.constexpr, patience: tl.constexpr):
    """What a program that comes to its group's meeting does next: 0, its part; 1, its part and those that were left;
    2, nothing, because it has left its own to the last of the group. See `emit_meet.py`.
    """
    seen = tl.atomic_add(count + group, 1, sem="acq_rel") + 1
    met = tl.where((seen % 65536 == members) & (seen >= 65536), 1, 0)
    waited = 0
    while (seen % 65536 != members) & (waited < patience):
        seen = tl.atomic_add(count + group, 0, sem="acquire")
        waited += 1
    if seen % 65536 != members:
        tl.atomic_xchg(count + groups + group * members + part, 1, sem="relaxed")
        met = 2
        # The last one to come does the parts of those who left before it came, and of nobody else.
        if tl.atomic_add(count + group, 65536, sem="acq_rel") % 65536 == members:
            taken = tl.atomic_cas(count + groups + group * members + part, 1, 2, sem="acq_rel")
            met = tl.where(taken == 1, 0, 2)
    return met


@triton.jit
def turn(drawn, parts: tl.constexpr, ahead: tl.constexpr):
    """Which part a program has, and whether it is to reduce it: so many are, before the first is to be finished, and
    from then on one is to be reduced for each that is finished. See `emit_meet.py`.
    """
    number = tl.atomic_add(drawn, 1, sem="relaxed")
    later = number - ahead
    in_turns = (later >= 0) & (later < 2 * (parts - ahead))
    reads = (later < 0) | (in_turns & (later % 2 == 0))
    part = tl.where(in_turns, later // 2 + tl.where(reads, ahead, 0), tl.where(later < 0, number, number - parts))
    return reads, part


@triton.jit
def arrive(count, group):
    """Tells those who wait for a group that one more of its parts is reduced."""
    tl.atomic_add(count + group, 1, sem="release")


@triton.jit
def wait(count, group, members: tl.constexpr):
    """Until all parts of a group are reduced, by programs that have begun."""
    seen = tl.atomic_add(count + group, 0, sem="acquire")
    while seen < members:
        seen = tl.atomic_add(count + group, 0, sem="acquire")


@triton.jit
def take(count, group, part, groups: tl.constexpr, members: tl.constexpr):
    """Whether this program is to do a part: it was left, and nobody else has taken it."""
    return tl.atomic_cas(count + groups + group * members + part, 1, 2, sem="acq_rel") == 1


@triton.jit
def outside(report, element, size, bad):
    """Tells the host of an element that is not there, where `bad` is true: which one, and how many there are."""
    nothing = bad.to(tl.int64) * 0
    tl.store(report + nothing, element + nothing, mask=bad)
    tl.store(report + 1 + nothing, size + nothing, mask=bad)
