"""Families of operations for the GPU target: functions and inputs, small enough for Triton's interpreter."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Case = tuple[Callable[..., Any], tuple[Tensor, ...]]


def _unary(x: Tensor) -> tuple[Tensor, ...]:
    return (
        x.sin(), x.cos(), x.tan(), x.tanh(), x.exp(), x.expm1(), x.floor(), x.ceil(), x.trunc(), x.round(), x.erf(),
        x.neg(), x.sign(), x.abs(), x.atan(), x.sinh(), x.cosh(), x.asinh(), torch.sigmoid(x), x.square(), x.erfc(),
    )  # fmt: skip


def _positive(x: Tensor) -> tuple[Tensor, ...]:
    return (
        x.sqrt(), x.rsqrt(), x.reciprocal(), x.log(), x.log2(), x.log10(), x.log1p(), x.exp2(), x.lgamma(), x.asin(),
        x.acos(), x.atanh(), (x + 1).acosh(),
    )  # fmt: skip


def _incomplete_gamma(a: Tensor, x: Tensor) -> tuple[Tensor, ...]:
    return torch.igamma(a, x), torch.igammac(a, x)


def special(x: Tensor) -> tuple[Tensor, ...]:
    """Functions of positive numbers whose formulas are our own."""
    s = torch.special
    return (
        torch.i0(x), s.i0e(x), s.i1(x), s.i1e(x), s.erfcx(x), s.ndtri(x / 9), s.log_ndtr(-x), torch.polygamma(3, x),
        s.modified_bessel_k0(x), s.modified_bessel_k1(x), s.scaled_modified_bessel_k0(x), s.spherical_bessel_j0(x),
        s.scaled_modified_bessel_k1(x),
    )  # fmt: skip


def by_bits(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """Numbers as their bits."""
    exponents = y.to(torch.int32)
    return (torch.nextafter(x, y), *torch.frexp(x), torch.ldexp(x, exponents), x.view(torch.int32) + 1)


def _binary(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return (
        x + y, x - y, x * y, x / y, torch.atan2(x, y), x.abs() ** y, torch.fmod(x, y), torch.remainder(x, y),
        torch.copysign(x, y), torch.where(x > y, x, y), torch.maximum(x, y), torch.minimum(x, y), x < y, x == y,
    )  # fmt: skip


def _integers(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return (
        x // y, x % y, x * y, x - y, torch.maximum(x, y), x & y, x | y, x ^ y, ~x, x < y, x.abs(), x.sum(), x.amax(0),
        torch.fmod(x, y), x.float() / y, torch.gcd(x, y), torch.lcm(x, y),
    )  # fmt: skip


def _bools(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    return a & b, a | b, a ^ b, ~a, a < b, a == b, a.sum(), a.any(), a.all(0)


def _casts(x: Tensor) -> tuple[Tensor, ...]:
    kinds = torch.int32, torch.uint8, torch.int8, torch.bool, torch.bfloat16, torch.half, torch.double, torch.long
    return tuple(x.to(kind) for kind in kinds)


def _arg_reductions(x: Tensor) -> tuple[Tensor, ...]:
    return x.argmax(0), x.argmin(1), x.argmax(), *x.max(1), *x.min(0)


def _norms(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
    rms = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * weight
    return F.layer_norm(x, weight.shape, weight, bias), rms, x.norm(dim=1), *torch.std_mean(x, 1), x.var(0)


def _images(x: Tensor) -> tuple[Tensor, ...]:
    return (
        F.max_pool2d(x, 3, 1, 1), F.avg_pool2d(x, 2), F.batch_norm(x, None, None, training=True), F.group_norm(x, 3),
        F.pad(x, (1, 2, 3, 4)), x.permute(0, 2, 3, 1).contiguous(), x.mean((0, 2)), x.flip(1)[..., ::2],
    )  # fmt: skip


def _softmaxes(x: Tensor) -> tuple[Tensor, ...]:
    return x.softmax(-1), x.softmax(0), x.log_softmax(1), x.logsumexp(1)


def _indexing(x: Tensor, i: Tensor) -> tuple[Tensor, ...]:
    return x[i], x.index_select(0, i), x.gather(0, i[:, None].expand(-1, x.size(1))), torch.cat([x, x[:2]], 0), x.tril()


def _cumulative(x: Tensor) -> tuple[Tensor, ...]:
    return x.cumsum(1), x.cumsum(0), x.flip(1).cumsum(1).flip(1), *x.cummax(1)


def cases(device: str = "cpu") -> dict[str, Case]:
    """Every family by name, the same numbers at every call."""
    generator = torch.Generator().manual_seed(0)

    def normal(*sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.randn(sizes, generator=generator).to(dtype).to(device)

    def integer(low: int, high: int, *sizes: int, dtype: torch.dtype = torch.int64) -> Tensor:
        return torch.randint(low, high, sizes, generator=generator).to(dtype).to(device)

    found: dict[str, Case] = {
        "positive": (_positive, (normal(100).abs().clamp(0.01, 0.99),)),
        "bools": (_bools, (normal(20, 30) > 0, normal(20, 30) > 0)),
        "casts": (_casts, (normal(100) * 20,)),
        "indexing": (_indexing, (normal(9, 11), integer(-9, 9, 7).abs() % 9)),
        "images": (_images, (normal(2, 6, 13, 10),)),
        "embedding": (lambda w, i: F.embedding(i, w) * 2, (normal(20, 16), integer(0, 20, 6, 7))),
        "cross entropy": (F.cross_entropy, (normal(20, 30), integer(0, 30, 20))),
        "transposed": (lambda x, y: x.t() + y, (normal(70, 50), normal(50, 70))),
        "broadcast": (lambda x, y: x * y[:, None] + y, (normal(7, 5, 5), normal(5))),
        "empty": (lambda x: (x * 2, x.sum(0), x.sum(1)), (normal(0, 5),)),
        "one number": (lambda x: (x * 2 + 1, x.sum()), (normal(),)),
        "negative zero": (lambda x: (-x, x * -1.0, x.abs()), (normal(10) * 0,)),
        "not a number": (
            lambda x: (x.amax(0), x.argmax(0), x.argmin(1), torch.maximum(x, -x), x.softmax(1), x.sum(0)),
            (normal(20, 30).where(normal(20, 30) < 1.5, torch.tensor(torch.nan, device=device)),),
        ),
    }
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        name = str(dtype).removeprefix("torch.")
        found[f"unary {name}"] = (_unary, (normal(100, dtype=dtype),))
        found[f"binary {name}"] = (_binary, (normal(100, dtype=dtype), normal(100, dtype=dtype)))
        found[f"softmaxes {name}"] = (_softmaxes, (normal(33, 65, dtype=dtype),))
        found[f"norms {name}"] = (_norms, tuple(normal(*s, dtype=dtype) for s in ((17, 65), (65,), (65,))))
        found[f"arg-reductions {name}"] = (_arg_reductions, (normal(17, 65, dtype=dtype),))
        found[f"cumulative {name}"] = (_cumulative, (normal(7, 33, dtype=dtype),))
    for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        least = 0 if dtype is torch.uint8 else -50
        values = integer(least, 50, 20, 6, dtype=dtype), integer(1, 9, 20, 6, dtype=dtype)
        found[f"integers {str(dtype).removeprefix('torch.')}"] = (_integers, values)
    for dtype in (torch.float32, torch.float64):
        found[f"special {str(dtype).removeprefix('torch.')}"] = (special, (normal(100, dtype=dtype).abs() * 3 + 0.01,))
    found["incomplete gamma"] = (_incomplete_gamma, (normal(100).abs() * 15 + 0.1, normal(100).abs() * 15))
    found["bits"] = (by_bits, (normal(100) * 9, normal(100) * 30))
    return found


BACKWARD = {
    "layer norm": lambda x, w: F.layer_norm(F.gelu(x), (65,), w, w),
    "softmax": lambda x, w: (x * w).softmax(-1),
    "swiglu": lambda x, w: F.silu(x) * w,
    "pooling": lambda x, w: F.avg_pool1d((x * w)[None], 5),
    "cross entropy": lambda x, w: F.cross_entropy(x * w, torch.arange(17, device=x.device)),
}
"""Functions of x [17, 65] and w [65], to be run backward as well."""


def ends_in_a_device_assertion(program: str, message: str) -> None:
    """Checks that a process says "so far so good", and then dies of an assertion on its device with a message."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert "so far so good" in done.stdout, done.stderr
    assert done.returncode != 0
    assert message in done.stdout + done.stderr
    assert "device-side assert" in done.stderr
