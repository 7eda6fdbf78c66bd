"""The fused workloads: what a compiler wins by moving bytes once. One row each, at the end.

Most tensors are of 16 to 25 MiB: larger than the caches that a core has to itself, smaller than the 32 MiB above which
the C library asks the kernel for fresh pages at every allocation, which would be measured on all sides alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.case import Bound, Case

ROWS, COLUMNS = 4096, 1024


def normal(*size: int, dtype: torch.dtype = torch.float32, gradient: bool = False) -> Tensor:
    return torch.randn(size).to(dtype).requires_grad_(gradient)


# --- Pointwise --------------------------------------------------------------------------------------------------------


def gelu_affine(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    y = x * scale + shift
    return F.gelu(y, approximate="tanh") * torch.sigmoid(y)


def pointwise_chain(x: Tensor, y: Tensor) -> Tensor:
    for step in range(8):
        x = torch.where(x > y, x * 0.75 + y, y * 0.5 - x)
        x = x.abs().clamp(max=4.0) - 0.125 * step
    return x


def swiglu(x: Tensor) -> Tensor:
    gate, up = x.chunk(2, dim=-1)
    return F.silu(gate) * up


def rotary(query: Tensor, key: Tensor, cosine: Tensor, sine: Tensor) -> tuple[Tensor, Tensor]:
    def rotate_half(x: Tensor) -> Tensor:
        first, second = x.chunk(2, dim=-1)
        return torch.cat((-second, first), dim=-1)

    return query * cosine + rotate_half(query) * sine, key * cosine + rotate_half(key) * sine


def rotary_tables(positions: int, size: int) -> tuple[Tensor, Tensor]:
    frequencies = 10000.0 ** (-torch.arange(0, size, 2) / size)
    angles = torch.arange(positions)[:, None] * frequencies
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def transposed_add(a: Tensor, b: Tensor) -> Tensor:
    return a + b.T


def concatenate(a: Tensor, b: Tensor, scale: Tensor) -> Tensor:
    return F.relu(torch.cat((a, b), dim=1)) * scale


def window_partition(x: Tensor) -> Tensor:
    """Swin's shifted windows."""
    batch, height, width, channels = x.shape
    x = torch.roll(x, shifts=(-3, -3), dims=(1, 2))
    x = x.view(batch, height // 7, 7, width // 7, 7, channels)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, 49, channels)


def gather_rows(table: Tensor, rows: Tensor, scale: Tensor) -> Tensor:
    return torch.tanh(table.index_select(0, rows) * scale)


def tiny(a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    y = F.relu(a + b) * c
    return y, y.sum(-1)


# --- Normalisation and softmax ----------------------------------------------------------------------------------------


def layer_norm_residual(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x + residual, weight.shape, weight, bias)


def rms_norm_residual(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    hidden = x + residual
    return hidden, hidden * torch.rsqrt(hidden.square().mean(-1, keepdim=True) + 1e-6) * weight


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x, weight.shape, weight, bias)


def group_norm_silu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.silu(F.group_norm(x, 32, weight, bias))


def batch_norm_relu_train(x: Tensor, mean: Tensor, variance: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.relu(F.batch_norm(x, mean, variance, weight, bias, training=True))


def batch_norm_relu_eval(x: Tensor, mean: Tensor, variance: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.relu(F.batch_norm(x, mean, variance, weight, bias, training=False))


def images(*, gradient: bool = False) -> tuple[Tensor, ...]:
    channels = 64
    x = normal(32, channels, 56, 56, gradient=gradient)
    statistics = torch.zeros(channels), torch.ones(channels)
    return x, *statistics, normal(channels, gradient=gradient), normal(channels, gradient=gradient)


def softmax(x: Tensor) -> Tensor:
    return x.softmax(-1)


def log_softmax(x: Tensor) -> Tensor:
    return x.log_softmax(-1)


def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1]) + mask
    return scores.softmax(-1) @ value


# --- Reductions, scans, windows ---------------------------------------------------------------------------------------


def column_sum(x: Tensor) -> Tensor:
    return x.sum(0)


def full_sum(x: Tensor) -> Tensor:
    return x.sum()


def row_norm(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x, dim=1)


def top1_accuracy(logits: Tensor, labels: Tensor) -> Tensor:
    return (logits.argmax(-1) == labels).float().mean()


def running_sum(x: Tensor) -> Tensor:
    return x.cumsum(-1)


def max_pool(x: Tensor) -> Tensor:
    return F.max_pool2d(x, 3, stride=2, padding=1)


def average_pool(x: Tensor) -> Tensor:
    return F.avg_pool2d(x, 3, stride=1, padding=1)


def large_average_pool(x: Tensor) -> Tensor:
    return F.avg_pool2d(x, 11, 1, 5)


def large_max_pool(x: Tensor) -> Tensor:
    return F.max_pool2d(x, 11, 1, 5)


# --- Training ---------------------------------------------------------------------------------------------------------


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits, labels)


def logits_and_labels(*, gradient: bool = False) -> tuple[Tensor, Tensor]:
    vocabulary = 50257  # GPT-2's: a multiple of nothing
    return normal(128, vocabulary, gradient=gradient), torch.randint(0, vocabulary, (128,))


def embedding_layer_norm(tokens: Tensor, words: Tensor, positions: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    embedded = F.embedding(tokens, words) + positions[: tokens.shape[1]]
    return F.layer_norm(embedded, weight.shape, weight, bias)


def embedding_inputs() -> tuple[Tensor, ...]:
    vocabulary, hidden, batch, length = 8192, 512, 16, 512
    tokens = torch.randint(0, vocabulary, (batch, length))
    words, positions = normal(vocabulary, hidden, gradient=True), normal(length, hidden, gradient=True)
    return tokens, words, positions, normal(hidden, gradient=True), normal(hidden, gradient=True)


def dropout_residual_layer_norm(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(F.dropout(x, 0.1) + residual, weight.shape, weight, bias)


def mlp(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, target: Tensor) -> Tensor:
    return F.mse_loss(F.linear(F.gelu(F.linear(x, w1, b1)), w2, b2), target)


def mlp_inputs() -> tuple[Tensor, ...]:
    hidden = 256
    layers = (
        normal(4 * hidden, hidden) * hidden**-0.5,
        normal(4 * hidden),
        normal(hidden, 4 * hidden) * 0.5 * hidden**-0.5,
        normal(hidden),
    )
    return normal(1024, hidden), *(tensor.requires_grad_() for tensor in layers), normal(1024, hidden)


RATE, BETA1, BETA2, EPSILON, DECAY = 1e-3, 0.9, 0.999, 1e-8, 0.01


def adamw(
    parameters: Sequence[Tensor], gradients: Sequence[Tensor], first: Sequence[Tensor], second: Sequence[Tensor]
) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """One step, all values new; the state is that after ten steps."""
    means = [m * BETA1 + g * (1 - BETA1) for m, g in zip(first, gradients, strict=True)]
    squares = [v * BETA2 + g * g * (1 - BETA2) for v, g in zip(second, gradients, strict=True)]
    correction = math.sqrt(1 - BETA2**10)
    updated = [
        p * (1 - RATE * DECAY) - RATE / (1 - BETA1**10) * m / (v.sqrt() / correction + EPSILON)
        for p, m, v in zip(parameters, means, squares, strict=True)
    ]
    return updated, means, squares


def adamw_in_place(
    parameters: Sequence[Tensor], gradients: Sequence[Tensor], first: Sequence[Tensor], second: Sequence[Tensor]
) -> None:
    """The same, written over the old values, as optimizers do."""
    for state, new in zip((parameters, first, second), adamw(parameters, gradients, first, second), strict=True):
        for tensor, value in zip(state, new, strict=True):
            tensor.copy_(value)


def adamw_state() -> tuple[list[Tensor], ...]:
    """Forty parameters of a small transformer: matrices and vectors, 2.1 million numbers."""
    hidden = 160
    sizes = [(hidden, 4 * hidden), (4 * hidden, hidden), (hidden, hidden), (hidden,), (4 * hidden,)] * 8
    parameters = [normal(*size) for size in sizes]
    gradients = [normal(*size) for size in sizes]
    return parameters, gradients, [0.1 * g for g in gradients], [0.1 * g * g for g in gradients]


def row(
    name: str,
    function: Callable[..., Any],
    inputs: Callable[[], tuple[Any, ...]],
    *,
    training: bool = False,
    bound: Bound = "memory",
    random: bool = False,
) -> Case:
    return Case(name, lambda: (function, inputs()), training=training, bound=bound, random=random)


def matrix(*, gradient: bool = False) -> Tensor:
    return normal(ROWS, COLUMNS, gradient=gradient)


def columns(*, gradient: bool = False) -> Tensor:
    return normal(COLUMNS, gradient=gradient)


CASES: tuple[Case, ...] = (
    row("gelu-affine", gelu_affine, lambda: (matrix(), columns(), columns())),
    row("pointwise-chain", pointwise_chain, lambda: (matrix(), matrix())),
    row("swiglu-bf16", swiglu, lambda: (normal(ROWS, 4 * COLUMNS, dtype=torch.bfloat16),)),
    row("rotary", rotary, lambda: (normal(4, 12, 1024, 64), normal(4, 4, 1024, 64), *rotary_tables(1024, 64))),
    row("transposed-add", transposed_add, lambda: (normal(2048, 2048), normal(2048, 2048))),
    row("cat-relu-scale", concatenate, lambda: (normal(ROWS, 384), normal(ROWS, 640), columns())),
    row("swin-windows", window_partition, lambda: (normal(8, 56, 56, 192),)),
    row("gather-tanh", gather_rows, lambda: (matrix(), torch.randperm(ROWS), columns())),
    row("softmax", softmax, lambda: (matrix(),)),
    row("log-softmax", log_softmax, lambda: (matrix(),)),
    row("layer-norm-residual", layer_norm_residual, lambda: (matrix(), matrix(), columns(), columns())),
    row("layer-norm-bf16", layer_norm, lambda: tuple(t.bfloat16() for t in (normal(8192, 1024), columns(), columns()))),
    row("rms-norm-residual", rms_norm_residual, lambda: (matrix(), matrix(), columns())),
    row("group-norm-silu", group_norm_silu, lambda: (normal(16, 64, 64, 64), normal(64), normal(64))),
    row("batch-norm-train-relu", batch_norm_relu_train, images),
    row("batch-norm-eval-relu", batch_norm_relu_eval, images),
    row("column-sum", column_sum, lambda: (matrix(),)),
    row("full-sum", full_sum, lambda: (matrix(),)),
    row("row-norm", row_norm, lambda: (matrix(),)),
    row("top1-accuracy", top1_accuracy, lambda: (matrix(), torch.randint(0, COLUMNS, (ROWS,)))),
    row("cumsum", running_sum, lambda: (matrix(),)),
    row("max-pool", max_pool, lambda: (normal(16, 64, 56, 56),)),
    row("average-pool", average_pool, lambda: (normal(16, 64, 56, 56),)),
    row("cross-entropy", cross_entropy, logits_and_labels),
    row("cross-entropy-training", cross_entropy, lambda: logits_and_labels(gradient=True), training=True),
    row("batch-norm-relu-training", batch_norm_relu_train, lambda: images(gradient=True), training=True),
    row("embedding-layer-norm-training", embedding_layer_norm, embedding_inputs, training=True),
    row(
        "dropout-layer-norm-training",
        dropout_residual_layer_norm,
        lambda: (matrix(gradient=True), matrix(gradient=True), columns(gradient=True), columns(gradient=True)),
        training=True,
        random=True,
        bound="arithmetic",  # the random numbers
    ),
    row("adamw", adamw, adamw_state),
    row("adamw-in-place", adamw_in_place, adamw_state),
    row(
        "attention-unfused",
        attention,
        lambda: (*(normal(4, 8, 256, 64) for _ in range(3)), torch.full((256, 256), -math.inf).triu(1)),
        bound="arithmetic",
    ),
    row("mlp-training", mlp, mlp_inputs, training=True, bound="arithmetic"),
    row("tiny", tiny, lambda: (normal(16, 16), normal(16, 16), normal(16)), bound="overhead"),
)

LARGE_WINDOWS: tuple[Case, ...] = (
    row("large-average-pool", large_average_pool, lambda: (normal(4, 32, 128, 128),)),
    row("large-max-pool", large_max_pool, lambda: (normal(4, 32, 128, 128),)),
)
"""Windows of 121 elements. They are in no mean: nobody else does them row by row, and they would flatter it."""
