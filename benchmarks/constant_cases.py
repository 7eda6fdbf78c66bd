"""Small cases on which a constant of a schedule, or of fusion, decides something: named by what they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True, slots=True)
class Input:
    """A tensor to be made: normal numbers, or, with a limit, integers from 0 up to it."""

    sizes: tuple[int, ...]
    dtype: torch.dtype
    limit: int = 0

    def make(self, device: str, *, empty: bool) -> Tensor:
        """The tensor; `empty` says that its values do not matter."""
        if empty:
            return torch.empty(self.sizes, dtype=self.dtype, device=device)
        if self.limit:
            return torch.randint(0, self.limit, self.sizes, device=device)
        return torch.randn(self.sizes, device=device, dtype=self.dtype)


@dataclass(frozen=True, slots=True)
class Case:
    """A function of tensors, for inference."""

    function: Callable[..., Any]
    takes: tuple[Input, ...]
    unknown: tuple[int, ...] = ()
    """The dimensions of every input whose sizes only the call knows."""
    fused: bool = False
    """Whether products are done in one nest with what surrounds them, as `max-autotune` may find to be best."""

    def inputs(self, device: str, *, empty: bool = False) -> Sequence[Tensor]:
        """Its inputs, the same at every call."""
        torch.manual_seed(2024)
        found = [one.make(device, empty=empty) for one in self.takes]
        for tensor in found:
            for dimension in self.unknown:
                torch._dynamo.mark_dynamic(tensor, dimension)
        return found


def f32(*sizes: int) -> Input:
    return Input(sizes, torch.float32)


def bf16(*sizes: int) -> Input:
    return Input(sizes, torch.bfloat16)


def numbers(*sizes: int, limit: int) -> Input:
    return Input(sizes, torch.int64, limit)


def scattered(rows: int) -> Callable[[Tensor, Tensor], Tensor]:
    """Rows added up by number."""
    return lambda x, i: x.new_zeros(rows, x.size(1)).index_add(0, i, x)


def layer_norm_backward(gradient: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
    mean = x.mean(-1, keepdim=True)
    scale = torch.rsqrt(x.var(-1, unbiased=False, keepdim=True) + 1e-5)
    sizes, wanted = [x.size(-1)], [True, True, True]
    return torch.ops.aten.native_layer_norm_backward(gradient, x, sizes, mean, scale, weight, weight, wanted)


def normal_columns(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.batch_norm(x, None, None, weight, bias, training=True)


def batch_norm(x: Tensor, mean: Tensor, variance: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.relu(F.batch_norm(x, mean, variance.abs(), weight, bias))


def row_norm(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[1:])


def chain(length: int) -> Callable[[Tensor, Tensor], Tensor]:
    def function(x: Tensor, y: Tensor) -> Tensor:
        for step in range(length):
            x = torch.sin(x) * y + step
        return x

    return function


def several_of_a_row(x: Tensor) -> Tensor:
    z = x.log_softmax(-1)
    return sum((z[:, k] for k in range(6)), x[:, 0])


def shared_with_bias(x: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    z = ((x + bias).abs() * 2 - 1) * x + bias
    return z.sum(-1), z.transpose(0, 2).contiguous()


def shared_by_nine(x: Tensor) -> tuple[Tensor, ...]:
    y = torch.exp(x) * 2 + 1
    return tuple((y * j).sum(-1) if j % 2 else y - j for j in range(9))


def convolutions(x: Tensor, first: Tensor, second: Tensor) -> Tensor:
    y = F.relu(F.conv2d(x, first, padding=1))
    z = F.relu(F.conv2d(y, second, padding=1))
    z = F.conv2d(z, second, padding=1)
    return F.conv2d(F.relu(z + y), second, padding=1).mean((2, 3))


def convolutions_given_out(x: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    y = F.conv2d(F.relu(F.conv2d(x, first, padding=1)), second, padding=1)
    y = F.conv2d(F.relu(y), second, padding=1)
    return F.conv2d(F.relu(y), second, padding=1), y.view(-1)


CPU: dict[str, Case] = {
    "pointwise": Case(lambda x, y: torch.tanh(x) * y, (f32(2048, 1024), f32(2048, 1024))),
    "rows looked up": Case(lambda t, i: F.embedding(i, t) * 2, (f32(5000, 256), numbers(8192, limit=5000))),
    "transposed gather": Case(
        lambda x, t, i: x.t()[:, :1000] + t.gather(0, i),
        (f32(2000, 1000), f32(500, 1000), numbers(1000, 1000, limit=500)),
    ),
    "transposed add": Case(lambda a, b: a + b.t(), (f32(2048, 2048), f32(2048, 2048))),
    "channels first": Case(lambda x: x.permute(0, 3, 1, 2).contiguous() * 2, (f32(16, 56, 56, 64),)),
    "middle of 64": Case(lambda x: x.sum(1), (f32(64, 64, 512),)),
    "middle of 4": Case(lambda x: x.sum(1), (f32(8192, 64, 4),)),
    "sums of 8": Case(lambda x: x.sum(-1), (f32(1 << 17, 8),)),
    "sums of 12": Case(lambda x: x.sum(-1), (f32(1 << 17, 12),)),
    "weighted sums of 6": Case(lambda x, w: (x[:, None] * w[:, None]).sum(-1), (f32(50000, 6), f32(6))),
    "64 columns": Case(lambda x: x.sum(0), (f32(32768, 64),)),
    "512 columns": Case(lambda x: x.sum(0), (f32(4096, 512),)),
    "1024 columns": Case(lambda x: x.sum(0), (f32(2048, 1024),)),
    "8192 columns": Case(lambda x: x.sum(0), (f32(256, 8192),)),
    "columns of sines": Case(
        lambda x, y: torch.sin(torch.exp(torch.sin(torch.exp(x) * y) * y) + y).sum(0), (f32(512, 1024), f32(512, 1024))
    ),
    "columns of exponentials": Case(
        lambda x, y: (torch.exp(x) * y + torch.sigmoid(y)).sum(0), (f32(1024, 1024), f32(1024, 1024))
    ),
    "columns three ways": Case(lambda x: (x.sum(0), x.amax(0), (x * x).mean(0)), (f32(1500, 512),)),
    "few columns three ways": Case(lambda x: (x.sum(0), x.amax(0), (x * x).mean(0)), (f32(1500, 64),)),
    "wide scatter": Case(scattered(100), (f32(500, 4096), numbers(500, limit=100))),
    "narrow scatter": Case(scattered(400), (f32(20000, 16), numbers(20000, limit=400))),
    "scatter": Case(scattered(200), (f32(5000, 64), numbers(5000, limit=200))),
    "rows of some length": Case(lambda x: (torch.exp(x) * x).sum(-1), (f32(40, 300),), unknown=(1,)),
    "sum of some length": Case(lambda x: x.exp().sum(), (f32(1 << 20),), unknown=(0,)),
    "sum of some rows": Case(lambda x: x.exp().sum(), (f32(2048, 1024),), unknown=(0, 1)),
    "average pool 4x4": Case(lambda x: F.avg_pool2d(x, 4), (f32(16, 16, 56, 56),)),
    "average pool 5x5": Case(lambda x: F.avg_pool2d(x, 5), (f32(16, 16, 56, 56),)),
    "average pool 7x7": Case(lambda x: F.avg_pool2d(x, 7), (f32(16, 16, 56, 56),)),
    "padded": Case(lambda x: F.pad(x, (1, 1, 1, 1)) * 2, (f32(16, 64, 56, 56),)),
    "sum": Case(lambda x: x.sum(), (f32(2048, 1024),)),
    "sums of 12 rows": Case(lambda x: x.exp().sum(1), (f32(12, 100000),)),
    "sums of 20 rows": Case(lambda x: x.exp().sum(1), (f32(20, 100000),)),
    "softmax": Case(lambda x: x.softmax(-1), (f32(2048, 1024),)),
    "softmax 12000": Case(lambda x: x.softmax(-1), (f32(128, 12000),)),
    "softmax 24000": Case(lambda x: x.softmax(-1), (f32(64, 24000),)),
    "batch norm": Case(batch_norm, (f32(16, 64, 56, 56), *[f32(64)] * 4)),
    "shared exponential": Case(lambda x: (x.exp().sum(-1), x.exp() * 2, x.exp().amax(0)), (f32(2048, 1024),)),
    "shared product": Case(
        lambda x, y: ((x * y * 2).sum(-1), (x * y * 2).t().contiguous()), (f32(1024, 1024), f32(1024, 1024))
    ),
    "layer norm backward": Case(layer_norm_backward, (f32(2048, 1024), f32(2048, 1024), f32(1024))),
    "nine products": Case(lambda x, *ys: tuple(x * y for y in ys), (f32(512, 1024), *[f32(512, 1024)] * 9)),
    "channels of 300000": Case(lambda x: x - x.mean((0, 2), keepdim=True), (f32(300, 16, 1000),)),
    "channels of 100000": Case(lambda x: x - x.mean((0, 2), keepdim=True), (f32(100, 32, 1000),)),
    "8 sums 5600 products": Case(lambda x, y: x.sum(-1, keepdim=True) * y, (f32(8, 100000), f32(8, 700))),
    "8 sums 3200 products": Case(lambda x, y: x.sum(-1, keepdim=True) * y, (f32(8, 100000), f32(8, 400))),
    "six of a row": Case(several_of_a_row, (f32(512, 2048),)),
    "6 and their bias": Case(shared_with_bias, (f32(6, 256, 256), f32(256, 256))),
    "12 and their bias": Case(shared_with_bias, (f32(12, 256, 256), f32(256, 256))),
    "700 exponential columns": Case(
        lambda x, y: (torch.exp(x) * y, (torch.exp(x) * y).sum(0)), (f32(1024, 700), f32(1024, 700))
    ),
    "convolutions": Case(convolutions, (f32(4, 16, 32, 32), f32(16, 16, 3, 3), f32(16, 16, 3, 3))),
    "convolutions given out": Case(convolutions_given_out, (f32(4, 16, 32, 32), f32(16, 16, 3, 3), f32(16, 16, 3, 3))),
}
"""For a processor: a few megabytes each."""


def rows(columns: int, make: Callable[..., Input] = f32) -> Input:
    """2²⁴ elements in rows."""
    return make(2**24 // columns, columns)


def images(make: Callable[..., Input] = f32) -> Input:
    """Of no large cache line: 112 × 112."""
    return make(16, 64, 112, 112)


def products_of_five(a: Tensor, b: Tensor, c: Tensor, d: Tensor, e: Tensor) -> Tensor:
    z = a * b + c * d + e
    return z / z.square().sum(-1, keepdim=True).sqrt()


def exponentials(count: int) -> Callable[[Tensor], Tensor]:
    """Rows of exponentials of exponentials, made to length 1."""

    def function(x: Tensor) -> Tensor:
        for step in range(count):
            x = torch.exp(-x * step) * 0.5
        return x / x.square().sum(-1, keepdim=True).sqrt()

    return function


GPU: dict[str, Case] = {
    "scaled rows of 1000": Case(lambda x, y: x * y[:, None], (rows(1000), f32(2**24 // 1000))),
    "parts of rows of 301": Case(lambda x: x[:, 1:] * 2, (rows(301),)),
    "parts of rows of 701": Case(lambda x: x[:, 1:] * 2, (rows(701),)),
    "padded rows of 250": Case(lambda x: F.pad(x, (0, 2)) * 2, (rows(250),)),
    "logsumexp 5000": Case(lambda x: x.logsumexp(-1), (rows(5000),)),
    "logsumexp 65535": Case(lambda x: x.logsumexp(-1), (rows(65535),)),
    "softmax 65536": Case(lambda x: x.softmax(-1), (f32(1024, 65536),)),
    "softmax 65535 in 256 rows bf16": Case(lambda x: x.softmax(-1), (bf16(256, 65535),)),
    "sums of 4 rows of 262144": Case(lambda x: x.sum(-1), (f32(4, 262144),)),
    "softmax 65535": Case(lambda x: x.softmax(-1), (f32(1024, 65535),)),
    "softmax in 1000 rows of 200": Case(lambda x: x.softmax(-1), (f32(1000, 200),)),
    "softmax in 132 rows": Case(lambda x: x.softmax(-1), (f32(132, 32768),)),
    "softmax of some length": Case(lambda x: x.softmax(-1), (rows(1000),), unknown=(0, 1)),
    "softmax backward": Case(
        lambda g, y: torch.ops.aten._softmax_backward_data(g, y, -1, torch.float32), (rows(4096), rows(4096))
    ),
    "cumsum 4096": Case(lambda x: x.cumsum(1), (rows(4096),)),
    "cumsum 8192": Case(lambda x: x.cumsum(1), (rows(8192),)),
    "layer norm 256": Case(row_norm, (rows(256),)),
    "layer norm 400000": Case(row_norm, (rows(400_000),)),
    "norm of two": Case(lambda x, y: F.layer_norm(x * y, x.shape[1:]) + x - y, (f32(1024, 16384), f32(1024, 16384))),
    "batch norm trained": Case(normal_columns, (f32(32, 128, 64, 64), f32(128), f32(128))),
    "cross entropy 32768": Case(F.cross_entropy, (f32(1024, 32768), numbers(1024, limit=32768))),
    "16 columns": Case(lambda x: x.sum(0), (rows(16),)),
    "4001 columns": Case(lambda x: x.sum(0), (f32(20000, 4001),)),
    "middle of 12": Case(lambda x: x.sum(1), (f32(16384, 12, 64),)),
    "middle of 24": Case(lambda x: x.sum(1), (f32(16384, 24, 64),)),
    "middle of 128": Case(lambda x: x.sum(1), (f32(1024, 128, 128),)),
    "layer norm backward 2100x1024": Case(layer_norm_backward, (f32(2100, 1024), f32(2100, 1024), f32(1024))),
    "layer norm backward 4096x1024": Case(layer_norm_backward, (f32(4096, 1024), f32(4096, 1024), f32(1024))),
    "layer norm backward 16384x4096": Case(layer_norm_backward, (f32(16384, 4096), f32(16384, 4096), f32(4096))),
    "layer norm backward 65536x512": Case(layer_norm_backward, (f32(65536, 512), f32(65536, 512), f32(512))),
    "layer norm backward 2048x16384": Case(layer_norm_backward, (f32(2048, 16384), f32(2048, 16384), f32(16384))),
    "products of five": Case(products_of_five, (f32(2048, 4096),) * 5),
    "five exponentials": Case(exponentials(5), (f32(2048, 4096),)),
    "eight exponentials": Case(exponentials(8), (f32(2048, 4096),)),
    "average pool 15x15": Case(lambda x: F.avg_pool2d(x, 15), (images(),)),
    "average pool 5x5 stride 1": Case(lambda x: F.avg_pool2d(x, 5, 1), (images(),)),
    "max pool 3x3 stride 1": Case(lambda x: F.max_pool2d(x, 3, 1), (images(),)),
    "max pool 3x3 stride 2": Case(lambda x: F.max_pool2d(x, 3, 2, 1), (images(),)),
    "max pool 5x5 and where": Case(lambda x: F.max_pool2d(x, 5, 2, return_indices=True), (images(),)),
    "max pool of 57x57": Case(lambda x: F.max_pool2d(x, 3, 1), (f32(64, 64, 57, 57),)),
    "small max pool": Case(lambda x: F.max_pool2d(x, 3, 1), (f32(4, 32, 64, 64),)),
    "max pool 3x3 of 20x200 bf16": Case(lambda x: F.max_pool2d(x, 3, 1), (bf16(64, 64, 20, 200),)),
    "max pool of volumes": Case(lambda x: F.max_pool3d(x, 3, 1), (f32(4, 16, 32, 64, 64),)),
    "product": Case(lambda a, b: F.relu(a @ b), (bf16(4096, 4096), bf16(4096, 4096)), fused=True),
    "nine large products": Case(lambda x, *ys: tuple(x * y for y in ys), (f32(2048, 1024), *[f32(2048, 1024)] * 9)),
    "shared by nine": Case(shared_by_nine, (f32(2048, 2048),)),
}
"""For a GPU: 2²⁴ elements and more, which take longer than a launch."""

CASES: dict[str, Case] = {**CPU, **GPU}
