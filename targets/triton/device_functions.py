"""What emitted kernels call: combinations of reductions, as Triton functions. Imported only where Triton is."""

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
def multiply(a, b):
    """The product."""
    return a * b


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
