"""Products of bf16 and of int8 on the CPU, as layers have them, with what is around them. They are in no mean.

    make bench ARGS="--kinds run --sets products"

A fact of the machine says whether they are nests (`targets/cpu/facts.py`, `products_bf16` and `products_i8`).
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


def of_layer(rows: int, columns: int, points: int) -> Case:
    def inputs() -> tuple[Tensor, ...]:
        return narrow(rows, points), narrow(columns, points), narrow(columns), narrow(rows, columns)

    return row(f"layer-bf16-{rows}x{columns}x{points}", layer, inputs, bound="arithmetic")


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
)
