"""Products of bf16, f16 and int8 on the CPU, as layers have them, with what is around them, and convolutions of 16
bits. They are in no mean.

    make bench ARGS="--kinds run --sets products"

Facts of the machine say whether they are nests or are made of f32 (`targets/cpu/facts.py`: `products_bf16`,
`products_i8`, `wide_bf16`, `wide_f16`).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.case import Case
from benchmarks.fused import row


def narrow(*size: int) -> Tensor:
    return torch.randn(size).bfloat16()


def small(*size: int) -> Tensor:
    return torch.randint(-128, 128, size, dtype=torch.int8)


def layer(x: Tensor, weight: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
    return F.relu(F.linear(x, weight, bias)) + residual


def quantised(x: Tensor, weight: Tensor, scales: Tensor, bias: Tensor) -> Tensor:
    """Rows are quantised as they come, and columns were."""
    largest = x.abs().amax(-1, keepdim=True).clamp(min=1e-6) / 127
    q = (x / largest).round().to(torch.int8)
    return (torch.ops.aten._int_mm.default(q, weight.t()) * (largest * scales) + bias).bfloat16()


def of_layer(rows: int, columns: int, points: int, dtype: torch.dtype = torch.bfloat16) -> Case:
    def inputs() -> tuple[Tensor, ...]:
        sizes = ((rows, points), (columns, points), (columns,), (rows, columns))
        return tuple(torch.randn(size).to(dtype) for size in sizes)

    name = "bf16" if dtype == torch.bfloat16 else "f16"
    return row(f"layer-{name}-{rows}x{columns}x{points}", layer, inputs, bound="arithmetic")


def convolved(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.relu(F.conv2d(x, weight, bias, padding=weight.shape[-1] // 2))


def of_convolution(images: int, channels: int, size: int, window: int, dtype: torch.dtype) -> Case:
    def inputs() -> tuple[Tensor, ...]:
        sizes = ((images, channels, size, size), (64, channels, window, window), (64,))
        return tuple(torch.randn(one).to(dtype) for one in sizes)

    name = "bf16" if dtype == torch.bfloat16 else "f16"
    where = f"{images}x{channels}x{size}x{size}"
    return row(f"convolution-{name}-{where}-by-{window}", convolved, inputs, bound="arithmetic")


def of_bytes(rows: int, columns: int, points: int) -> Case:
    def inputs() -> tuple[Tensor, ...]:
        return torch.randn(rows, points), small(columns, points), torch.rand(columns), torch.randn(columns)

    return row(f"layer-int8-{rows}x{columns}x{points}", quantised, inputs, bound="arithmetic")


def of_batch(batch: int, rows: int, columns: int, points: int) -> Case:
    def inputs() -> tuple[Tensor, ...]:
        return narrow(batch, rows, points), narrow(batch, points, columns)

    return row(f"batch-bf16-{batch}x{rows}x{columns}x{points}", torch.bmm, inputs, bound="arithmetic")


LAYERS = ((8, 1024, 1024), (32, 1024, 1024), (128, 512, 512), (512, 512, 512), (512, 1024, 1024), (64, 64, 64))

CASES: tuple[Case, ...] = (
    *(of_layer(*sizes) for sizes in LAYERS),
    *(of_bytes(*sizes) for sizes in LAYERS),
    of_batch(256, 32, 32, 32),
    of_batch(48, 128, 128, 64),
    of_batch(48, 256, 256, 64),
    *(of_layer(*sizes, dtype=torch.float16) for sizes in ((8, 1024, 1024), (128, 512, 512))),
    *(of_convolution(2, 64, 28, 3, dtype) for dtype in (torch.bfloat16, torch.float16)),
    *(of_convolution(2, 3, 64, 7, dtype) for dtype in (torch.bfloat16, torch.float16)),
)
