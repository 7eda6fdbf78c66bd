"""The programs that seeded faults are put into: functions of PyTorch, and what they are called with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

Named = tuple[Callable[..., Any], tuple[Any, ...]]


def _random(*sizes: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed)).to(dtype)


def mlp() -> Named:
    """A layer, its norm, and what follows: views, a bias, a reduction."""

    def run(x: Any, w: Any, b: Any, g: Any) -> Any:
        y = functional.gelu(x @ w + b)
        y = functional.layer_norm(y, (y.shape[-1],), g)
        return torch.softmax(y, -1), y.reshape(-1).sum()

    return run, (_random(6, 16), _random(16, 24, seed=1), _random(24, seed=2), _random(24, seed=3))


def attention() -> Named:
    """Heads as views, a mask, a softmax over rows, and the way back."""

    def run(q: Any, k: Any, v: Any) -> Any:
        q, k, v = (one.view(2, 5, 4, 8).transpose(1, 2) for one in (q, k, v))
        scores = (q @ k.transpose(-1, -2)) / 8**0.5
        kept = torch.ones(5, 5, dtype=torch.bool).tril()
        weights = torch.softmax(scores.masked_fill(~kept, float("-inf")), -1)
        return (weights @ v).transpose(1, 2).reshape(2, 5, 32) * 1.5

    return run, (_random(2, 5, 32), _random(2, 5, 32, seed=1), _random(2, 5, 32, seed=2))


def views() -> Named:
    """Reads through views: a flip, a transpose, a padding, a slice."""

    def run(x: Any, y: Any, z: Any) -> Any:
        a = x.t().flip(0)[1:, ::2]
        b = functional.pad(y, (1, 2), value=0.5).t().reshape(-1)
        c = torch.nn.functional.embedding(z, y).permute(2, 0, 1)
        return a * 2 + 1, b.exp(), x.transpose(0, 1).reshape(3, -1).sum(1), c + 1

    return run, (_random(4, 6), _random(3, 5, seed=1), torch.tensor([[0, 1, 2, 1], [2, 2, 0, 1]]))


def norms() -> Named:
    """Statistics of rows, used again: stages of one nest."""

    def run(x: Any) -> Any:
        y = torch.log_softmax(x, -1)
        z = x - x.mean(-1, keepdim=True)
        return y, z * (z.square().mean(-1, keepdim=True) + 1e-5).rsqrt(), x.amax(-1), x.var(-1)

    return run, (_random(7, 33),)


def halves() -> Named:
    """bf16, which is rounded on the way out."""

    def run(x: Any, y: Any) -> Any:
        z = (x * y + x).sigmoid()
        return z * y, (z + 1).sum(-1)

    return run, (_random(8, 16, dtype=torch.bfloat16), _random(8, 16, seed=1, dtype=torch.bfloat16))


def constants() -> Named:
    """Scalars that laws apply to."""

    def run(x: Any, n: Any) -> Any:
        y = torch.neg(torch.neg(x)) * 1.0 + torch.where(x > 0, x, x) / 2.0
        return torch.maximum(y, y) - (0.0 - x), n * 0 + n - n * 2, (n.bitwise_not()).bitwise_not() + 1

    return run, (_random(5, 7), torch.arange(12).reshape(3, 4))


def scatter() -> Named:
    """Sums by an index, cumulative functions, a gather."""

    def run(x: Any, index: Any) -> Any:
        y = torch.zeros(40, 8).index_add(0, index, x * 0.5)
        return y, x.cumsum(0), x.gather(0, index.clamp(0, 11)[:, None].expand(12, 8))

    return run, (_random(12, 8), torch.arange(12) * 3 % 11)


def large_scatter() -> Named:
    """A scatter whose start is large enough to be a kernel of its own."""

    def run(x: Any, index: Any) -> Any:
        return torch.zeros(40000, 8).index_add(0, index, x)

    return run, (_random(12, 8), torch.arange(12) * 3001 % 40000)


def windows() -> Named:
    """Windows with padding: masks that hold in most of what loops run over."""

    def run(x: Any) -> Any:
        return functional.max_pool2d(x, 3, 2, 1), functional.avg_pool2d(x, 2)

    return run, (_random(1, 1, 30, 30),)


def updates() -> Named:
    """Inputs that are written to."""

    def run(state: Any, x: Any, count: Any) -> Any:
        state.mul_(0.9).add_(x * 0.1)
        count.add_(1)
        return (state + x).relu() * 2, x @ x.t()

    return run, (_random(6, 6), _random(6, 6, seed=1), torch.zeros(6, 6))


def chain() -> Named:
    """Kernels between products: buffers that take one another's place, and one arena."""

    def run(x: Any, w: Any) -> Any:
        a = torch.softmax(x @ w, -1)
        b = a.sum(0, keepdim=True) + a.amax(1, keepdim=True)
        c = b.sum(0) * b.prod(0)
        d = (b - c).exp().sum(1)
        return (a.t() @ b) @ w, d, c

    return run, (_random(16, 16), _random(16, 16, seed=1))


def long_sum() -> Named:
    """A sum over so much that it is taken in parts."""

    def run(x: Any) -> Any:
        return x.sum(), x.argmax(), x.mean()

    return run, (_random(512, 1024),)


def rows() -> Named:
    """A product of one row, and what is done with it."""

    def run(x: Any, w: Any, b: Any) -> Any:
        return functional.silu(x @ w.t() + b)

    return run, (_random(1, 64), _random(96, 64, seed=1), _random(96, seed=2))


def integers() -> Named:
    """Quotients and remainders of integers, casts."""

    def run(n: Any, x: Any) -> Any:
        cut = (x * 10).to(torch.int32).to(torch.float32) + 1
        return n // 3 + n % 5, n.div(2, rounding_mode="trunc"), cut, n.to(torch.float32) / 3, n.sum()

    return run, (torch.arange(-20, 20).reshape(4, 10), _random(4, 10))


def twice() -> Named:
    """The same sum from two places, and a value that is used by several."""

    def run(x: Any, y: Any) -> Any:
        a, b = (x + y).exp().sum(-1), (x - y).exp().sum(-1)
        return a * b, (x + y).exp(), a - (x * 2).sum(-1)

    return run, (_random(6, 9), _random(6, 9, seed=1))


def matrices() -> Named:
    """Products that biases and other products are added to."""

    def run(x: Any, w: Any, b: Any, u: Any) -> Any:
        return torch.addmm(b, x, w).relu() + 1, x @ w + u @ w

    return run, (_random(8, 8), _random(8, 8, seed=1), _random(8, seed=2), _random(8, 8, seed=3))


def parts_on_gpu() -> Named:
    """Rows so long, and so few, that programs meet."""

    def run(x: Any) -> Any:
        return torch.softmax(x, -1)

    return run, (_random(2, 65536),)


def flipped_product() -> Named:
    """A library's call reads what strides cannot say."""
    return lambda x, w: x.flip(0) @ w, (_random(4, 5), _random(5, 3, seed=1))


def extremes() -> Named:
    """An extreme whose place nobody asks for."""
    return lambda x: torch.max(x, -1)[0] * 2, (_random(6, 9),)


def padded() -> Named:
    """What was computed, and then padded."""
    return lambda x, y: functional.pad(x * y, (1, 2), value=0.5).exp(), (_random(4, 5), _random(4, 5, seed=1))


def transposed_sums() -> Named:
    """A reduction along rows, and one that reads it along columns."""

    def run(x: Any) -> Any:
        y = x - x.mean(-1, keepdim=True)
        return torch.softmax(y.t(), -1), y

    return run, (_random(5, 5),)


def gathered() -> Named:
    """One logarithm of each row."""

    def run(x: Any, index: Any) -> Any:
        return torch.log_softmax(x, -1).gather(-1, index)

    return run, (_random(6, 11), (torch.arange(6) * 3 % 11)[:, None])


def powers() -> Named:
    """A square."""
    return lambda x, y: (x ** torch.full((4, 5), 2.0)) * y + 1, (_random(4, 5), _random(4, 5, seed=1))


def foldable() -> Named:
    """Constants that meet when nests are fused."""
    return lambda x: torch.full((4, 5), 2.0) - torch.full((4, 5), 3.0) + x, (_random(4, 5),)


def two_exponentials() -> Named:
    """Two exponentials in stages of one nest, which are not the same."""

    def run(x: Any, y: Any) -> Any:
        s = (x + y).exp().sum(-1, keepdim=True)
        return (x - y).exp() / s, (x + y).exp() / s

    return run, (_random(6, 9), _random(6, 9, seed=1))


def wide() -> Named:
    """So many points that programs share them."""
    return lambda x: x.exp() + 1, (_random(1000, 133),)


def padded_view() -> Named:
    """A padding of what is read through a view."""
    return lambda x: functional.pad(x.t(), (1, 2), value=0.5).exp(), (_random(4, 5),)


def padded_sum() -> Named:
    """A padding of what is as cheap to compute again as to read."""
    return lambda x: functional.pad(x * 2, (1, 2), value=0.5) + 1, (_random(4, 5),)


def shared_product() -> Named:
    """A product that another is added to, and that is read besides."""

    def run(x: Any, w: Any, u: Any) -> Any:
        a = x @ w
        return torch.addmm(a, u, w), a.exp(), a

    return run, (_random(5, 5), _random(5, 5, seed=1), _random(5, 5, seed=2))


def negative_maximum() -> Named:
    """The greatest of negative numbers."""
    return lambda x: (-x.abs() - 1).amax(-1), (_random(6, 21),)


def narrow_padded() -> Named:
    """Padding of so little that it is read one by one."""
    return lambda x: functional.pad(x, (1, 1), value=0.5) + x.sum(), (_random(3, 1),)


def choices() -> Named:
    """One value or another."""
    return lambda x, y: torch.where(x > y, x * 2, y - 1), (_random(4, 9), _random(4, 9, seed=1))


def hyperbolic() -> Named:
    """tanh."""
    return lambda x: torch.tanh(x) * 3, (_random(4, 32),)


def scaled() -> Named:
    """A division by a constant."""
    return lambda x: x / 3.0 + 1, (_random(4, 9),)


def scatter_into() -> Named:
    """Sums by an index, into an input."""

    def run(state: Any, index: Any, x: Any) -> Any:
        state.index_add_(0, index, x)
        return x + 1

    return run, (_random(7, 4), torch.arange(5) * 3 % 7, _random(5, 4, seed=1))


def sliced() -> Named:
    """A part of every row."""
    return lambda x: x[:, :3] + 1, (_random(4, 6),)


def running() -> Named:
    """Sums of a row so far."""
    return lambda x: x.cumsum(-1) * 2, (_random(4, 400),)


def two_products() -> Named:
    """Products with one factor in common."""
    return lambda x, y, z: (x * y).exp() + x * z, (_random(4, 6), _random(4, 6, seed=1), _random(4, 6, seed=2))


def equal_results() -> Named:
    """The same twice, for a caller who may write to either."""
    return lambda x: (x.exp() + 1, x.exp() + 1), (_random(4, 6),)


def turned_product() -> Named:
    """A product that is read last by who writes it, turned, into as much memory."""
    return lambda x, w, v: (x @ w).t().exp().contiguous() @ v, (_random(6, 6), _random(6, 6, seed=1), _random(6, 6))


def turned_state() -> Named:
    """An input that is written with what it held, turned."""

    def run(state: Any) -> Any:
        state.copy_(state.t() + 1)
        return ()

    return run, (_random(6, 6),)


def sums_of_sums_on_gpu() -> Named:
    """Launches of one kernel, each of which needs the one before."""

    def run(x: Any) -> Any:
        for _ in range(4):
            x = x.cumsum(0).cumsum(1)
        return x

    return run, (_random(8, 8),)


def read_after_update() -> Named:
    """An input that is written to, and what it held, which a product reads."""

    def run(state: Any, x: Any) -> Any:
        new = state * 0.5 + x
        y = new.softmax(0) @ state
        state.copy_(new)
        return y

    return run, (_random(6, 6), _random(6, 6, seed=1))


def alias_of_product() -> Named:
    """A product that is read under another shape, after another buffer was made."""

    def run(x: Any, w: Any, v: Any) -> Any:
        y = (x @ w).t()
        z = v @ y
        return z, z.softmax(-1) @ y

    return run, (_random(6, 6), _random(6, 6, seed=1), _random(6, 6, seed=2))


def product_read_twice() -> Named:
    """A product that a kernel reads, and a call after it."""

    def run(x: Any, w: Any) -> Any:
        y = x @ w
        z = y.exp()
        return z @ w, y @ z

    return run, (_random(6, 6), _random(6, 6, seed=1))


PROGRAMS: dict[str, Callable[[], Named]] = {
    name: made
    for name, made in list(globals().items())
    if getattr(made, "__annotations__", {}).get("return") == "Named" and not name.startswith("_")
}
"""By name."""
