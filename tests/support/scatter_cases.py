"""Scatters for the GPU target: functions and inputs. Sums are of small integers, so that no order of adding matters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

Case = tuple[Callable[..., Any], tuple[Tensor, ...]]
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def _sums(x: Tensor, i: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    rows = i[:, 0]
    return (
        x.index_add(0, rows, v),
        x.index_put((rows - 3,), v, accumulate=True),
        x.scatter_add(0, i, v),
        x.t().contiguous().scatter_add(1, i.t().contiguous(), v.t().contiguous()),
        x.scatter_reduce(0, i, v, "sum", include_self=False),
    )


def _extremes(x: Tensor, i: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    return (
        x.scatter_reduce(0, i, v, "amax"),
        x.scatter_reduce(0, i, v, "amin"),
        x.scatter_reduce(0, i, v, "amax", include_self=False),
        x.scatter_reduce(0, i, v, "amin", include_self=False),
    )


def _assignments(x: Tensor, i: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    """Of indices that do not repeat, or of one number: what eager does is defined."""
    return (
        x.index_put((i,), v),
        x.index_copy(0, i, v),
        x.scatter(0, i[:, None].expand_as(v), v),
        x.scatter(0, i[:, None].expand_as(v) % 3, 1),
        x.index_fill(0, i % 2, 0),
    )


def _few(x: Tensor, i: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    """Of a large table little changes."""
    rows = i[:, 0]
    return (
        x.index_put((rows - 3,), v, accumulate=True),
        x.index_put((rows - 3, i[:, 1] % 5), v[:, 0], accumulate=True),
        x.scatter_add(0, i, v),
        x.t().contiguous().scatter_add(1, i[:, :3].t().contiguous(), v.t().contiguous()),
        x.scatter_reduce(0, i[:, :2], v, "sum", include_self=False),
        x.scatter_reduce(0, i, v, "amax"),
        x.scatter_reduce(0, i[:4], v, "amin", include_self=False),
        torch.ops.aten.embedding_dense_backward(v, rows, 90, 3, False),
    )


def _of_bools(x: Tensor, i: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    return (
        x.scatter_add(0, i, v),
        x.scatter_reduce(0, i, v, "amax"),
        x.scatter_reduce(0, i, v, "amin", include_self=False),
        x.index_put((i[:, 0],), v, accumulate=True),
    )


def _histogram(i: Tensor) -> tuple[Tensor, ...]:
    """Every lane adds the same number; and all to one element."""
    ones = torch.ones(i.shape, device=i.device)
    return ones.new_zeros(9).index_add(0, i, ones), ones.new_zeros(1).index_add(0, i * 0, ones)


def _joined(x: Tensor, i: Tensor) -> Tensor:
    """Producers and consumers around a scatter, and a sibling of it."""
    y = (x * 2).relu()
    z = y.new_zeros(9, x.shape[1]).index_add(0, i, y) + 1
    w = y.new_zeros(9, x.shape[1]).index_add(0, i, y * 3)
    return z * w[:, :1] + z.sum(0)


def _embedding_gradient(gradient: Tensor, i: Tensor) -> Tensor:
    return torch.ops.aten.embedding_dense_backward(gradient, i, 20, 3, False)


def _embedding(weight: Tensor, i: Tensor) -> Tensor:
    return functional.embedding(i, weight, padding_idx=3) * 2


def cases(device: str = "cpu") -> dict[str, Case]:
    """The cases by name."""
    generator = torch.Generator().manual_seed(5)

    def whole(*sizes: int, dtype: torch.dtype = torch.float32, low: int = -9) -> Tensor:
        low = 0 if dtype is torch.uint8 else low
        return torch.randint(low, 10, sizes, generator=generator).to(dtype).to(device)

    def index(high: int, *sizes: int) -> Tensor:
        return torch.randint(0, high, sizes, generator=generator).to(device)

    def distinct(high: int, count: int) -> Tensor:
        return torch.randperm(high, generator=generator)[:count].to(device)

    found: dict[str, Case] = {}
    for dtype in (*FLOATS, *INTEGERS):
        name = str(dtype).removeprefix("torch.")
        arguments = whole(7, 5, dtype=dtype), index(7, 11, 5), whole(11, 5, dtype=dtype)
        # i[:, 0] - 3 wraps around
        found[f"sums {name}"] = (_sums, arguments)
        found[f"extremes {name}"] = (_extremes, arguments)
        found[f"assignments {name}"] = (_assignments, (arguments[0], distinct(7, 4), whole(4, 5, dtype=dtype)))
        if dtype not in (torch.float64, torch.int32, torch.int64):
            found[f"few {name}"] = (_few, (whole(90, 5, dtype=dtype), index(7, 11, 5), whole(11, 5, dtype=dtype)))
    bools = whole(7, 5, low=0) > 4
    found["assignments bool"] = (_assignments, (bools, distinct(7, 4), bools[:4]))
    found["few bool"] = (_of_bools, (whole(90, 5, low=0) > 4, index(7, 11, 5), whole(11, 5, low=0) > 4))
    found["many bool"] = (_of_bools, (bools, index(7, 11, 5), whole(11, 5, low=0) > 4))
    floats = torch.randn(40, 5, generator=generator)
    floats[::7] = torch.nan
    floats[1::7] = torch.inf
    floats[2::7, ::2] = -torch.inf
    floats[3::7] = -0.0
    floats[:, 4] = -torch.nan
    special = floats.to(device)
    found["extremes of nan and infinities"] = (_extremes, (special[:9], index(9, 40, 5), special))
    found["few of nan and infinities"] = (_extremes, (floats.repeat(3, 1).to(device), index(120, 40, 5), special))
    found["histogram"] = (_histogram, (index(9, 3000),))
    found["histogram of an interval"] = (lambda x: torch.histc(x, 7, -4, 4), (special,))
    found["put"] = (lambda x, i, v: x.put(i, v, accumulate=True), (whole(6, 7), index(42, 3, 5) - 42, whole(3, 5)))
    found["joined"] = (_joined, (whole(50, 6), index(9, 50)))
    for dtype in (torch.float32, torch.bfloat16):
        gradient = whole(6, 7, 32, dtype=dtype)
        found[f"embedding gradient {dtype}"] = (_embedding_gradient, (gradient, index(20, 6, 7)))
    found["long rows"] = (lambda x, i: x.new_zeros(3, 5000).index_add(0, i, x), (whole(8, 5000), index(3, 8)))
    found["no indices"] = (lambda x, i: x.index_add(0, i, x[:0]) + 1, (whole(3, 4), index(3, 0)))
    found["one element"] = (lambda x, i: x.index_put((i,), x[0] + 1, accumulate=True), (whole(1), index(1, 1)))
    return found


BACKWARD: dict[str, Callable[..., Any]] = {
    "embedding": _embedding,
    "gather": lambda w, i: w.gather(0, i[:, :1].expand(-1, w.shape[1])) * 3,
    "indexing": lambda w, i: w[i] * 2 + w[:, None, :][i[:, 0]],
    "adaptive pooling": lambda w, i: functional.adaptive_max_pool2d(w[None], (5, 5)),
}
"""Functions of a weight [20, 32] and indices [6, 7], to be run backward."""


def backward_inputs(device: str = "cpu") -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(6)
    weight = torch.randint(-9, 10, (20, 32), generator=generator).float().to(device).requires_grad_()
    return weight, torch.randint(0, 20, (6, 7), generator=generator).to(device)
