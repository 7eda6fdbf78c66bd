"""The memory-bound workloads on a CUDA device: about 64 Mi elements each, well beyond any cache of the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.case import Case
from benchmarks.fused import pointwise_chain, swiglu, transposed_add

ELEMENTS = 2**26
SQUARE = 8192, 8192
IMAGES = 32, 128, 128, 128
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
SOFTMAX_COLUMNS = (128, 1024, 4096, 32768, 65535, 400_000)

Make = Callable[[torch.dtype], tuple[Callable[..., Any], tuple[Tensor, ...]]]


def normal(*size: int, dtype: torch.dtype, gradient: bool = False) -> Tensor:
    return torch.randn(size, device="cuda", dtype=dtype).requires_grad_(gradient)


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * weight


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x, weight.shape, weight, bias)


def batch_norm_train(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.batch_norm(x, None, None, weight, bias, training=True)


def batch_norm_eval(x: Tensor, mean: Tensor, variance: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.relu(F.batch_norm(x, mean, variance, weight, bias))


def rows(columns: int, *, gradient: bool = False, vectors: int = 0) -> Callable[[torch.dtype], tuple[Tensor, ...]]:
    """A matrix of so many columns, and vectors as long as its rows."""

    def make(dtype: torch.dtype) -> tuple[Tensor, ...]:
        x = normal(ELEMENTS // columns, columns, dtype=dtype, gradient=gradient)
        return x, *(normal(columns, dtype=dtype, gradient=gradient) for _ in range(vectors))

    return make


def shaped(*size: int, gradient: bool = False, vectors: int = 0) -> Callable[[torch.dtype], tuple[Tensor, ...]]:
    """A tensor, and vectors as long as its dimension 1."""

    def make(dtype: torch.dtype) -> tuple[Tensor, ...]:
        x = normal(*size, dtype=dtype, gradient=gradient)
        return x, *(normal(size[1], dtype=dtype).abs().requires_grad_(gradient) for _ in range(vectors))

    return make


def labelled(columns: int, *, gradient: bool = False) -> Callable[[torch.dtype], tuple[Tensor, ...]]:
    def make(dtype: torch.dtype) -> tuple[Tensor, ...]:
        (x,) = rows(columns, gradient=gradient)(dtype)
        return x, torch.randint(0, columns, (x.size(0),), device="cuda")

    return make


def looked_up(*, gradient: bool) -> Callable[[torch.dtype], tuple[Tensor, ...]]:
    def make(dtype: torch.dtype) -> tuple[Tensor, ...]:
        table = normal(16384, 1024, dtype=dtype, gradient=gradient)
        return table, torch.randint(0, 16384, (65536,), device="cuda")

    return make


FORWARD: dict[str, tuple[Callable[..., Any], Callable[[torch.dtype], tuple[Tensor, ...]]]] = {
    **{f"softmax {n}": (lambda x: x.softmax(-1), rows(n)) for n in SOFTMAX_COLUMNS},
    **{f"log-softmax {n}": (lambda x: x.log_softmax(-1), rows(n)) for n in SOFTMAX_COLUMNS},
    "layer norm 1024": (layer_norm, rows(1024, vectors=2)),
    "layer norm 4096": (layer_norm, rows(4096, vectors=2)),
    "layer norm 4M": (lambda x: F.layer_norm(x, x.shape[1:]), rows(2**22)),
    "rms norm 4096": (rms_norm, rows(4096, vectors=1)),
    "rms norm 16384": (rms_norm, rows(16384, vectors=1)),
    "group norm": (lambda x, w, b: F.group_norm(x, 32, w, b), shaped(*IMAGES, vectors=2)),
    "instance norm": (F.instance_norm, shaped(*IMAGES)),
    "batch norm train": (batch_norm_train, shaped(*IMAGES, vectors=2)),
    "batch norm eval": (batch_norm_eval, shaped(*IMAGES, vectors=4)),
    "sum over all": (lambda x: x.sum(), shaped(*SQUARE)),
    "sum over rows": (lambda x: x.sum(1), shaped(*SQUARE)),
    "sum over columns": (lambda x: x.sum(0), shaped(*SQUARE)),
    "sum over the middle": (lambda x: x.sum(1), shaped(64, 1024, 1024)),
    "sum over 16": (lambda x: x.sum(1), rows(16)),
    "maximum over columns": (lambda x: x.amax(0), shaped(*SQUARE)),
    "norm of 65535": (lambda x: torch.linalg.vector_norm(x, dim=1), rows(65535)),
    "argmax over rows": (lambda x: x.argmax(1), shaped(*SQUARE)),
    "argmax over columns": (lambda x: x.argmax(0), shaped(*SQUARE)),
    "cumsum 1024": (lambda x: x.cumsum(1), rows(1024)),
    "cumsum 8192": (lambda x: x.cumsum(1), shaped(*SQUARE)),
    "max pool 2x2": (lambda x: F.max_pool2d(x, 2), shaped(*IMAGES)),
    "max pool 5x5 stride 1": (lambda x: F.max_pool2d(x, 5, 1, 2), shaped(*IMAGES)),
    "max pool 3x3 with indices": (lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), shaped(*IMAGES)),
    "max pool 3x3 stride 2": (lambda x: F.max_pool2d(x, 3, 2, 1), shaped(*IMAGES)),
    "max pool 4x4 stride 1": (lambda x: F.max_pool2d(x, 4, 1), shaped(*IMAGES)),
    "average pool 3x3": (lambda x: F.avg_pool2d(x, 3, 1, 1), shaped(*IMAGES)),
    "average pool 11x11": (lambda x: F.avg_pool2d(x, 11), shaped(*IMAGES)),
    "transposed add": (transposed_add, lambda dtype: tuple(normal(*SQUARE, dtype=dtype) for _ in range(2))),
    "permuted": (lambda x: x.permute(0, 2, 3, 1).contiguous() * 2, shaped(*IMAGES)),
    "permuted rows of 65535": (lambda x: x.permute(1, 0, 2).contiguous() * 2, shaped(16, 64, 65535)),
    "part of every row": (lambda x: x[:, 1:] * 2, rows(4096)),
    "rolled": (lambda x: x.roll(3, 1) * 2, rows(4096)),
    "cat and relu": (lambda x, y: F.relu(torch.cat((x, y), 1)) * 2, lambda d: (*rows(1000)(d), *rows(1000)(d))),
    "cross entropy 4096": (F.cross_entropy, labelled(4096)),
    "cross entropy 32768": (F.cross_entropy, labelled(32768)),
    "embedding": (lambda table, i: F.embedding(i, table) * 2, looked_up(gradient=False)),
    "pointwise chain": (pointwise_chain, lambda dtype: tuple(normal(ELEMENTS, dtype=dtype) for _ in range(2))),
    "gelu": (F.gelu, shaped(*SQUARE)),
    "swiglu": (swiglu, rows(8192)),
    "add 65535": (lambda x, y: x + y, lambda d: (*rows(65535)(d), *rows(65535)(d)[0][:1])),
}

TRAINING: dict[str, tuple[Callable[..., Any], Callable[[torch.dtype], tuple[Tensor, ...]]]] = {
    "layer norm 4096, trained": (layer_norm, rows(4096, gradient=True, vectors=2)),
    "rms norm 4096, trained": (rms_norm, rows(4096, gradient=True, vectors=1)),
    "group norm, trained": (lambda x, w, b: F.group_norm(x, 32, w, b), shaped(*IMAGES, gradient=True, vectors=2)),
    "instance norm, trained": (F.instance_norm, shaped(*IMAGES, gradient=True)),
    "batch norm, trained": (batch_norm_train, shaped(*IMAGES, gradient=True, vectors=2)),
    "softmax 4096, trained": (lambda x: x.softmax(-1), rows(4096, gradient=True)),
    "softmax 65535, trained": (lambda x: x.softmax(-1), rows(65535, gradient=True)),
    "cross entropy 32768, trained": (F.cross_entropy, labelled(32768, gradient=True)),
    "embedding, trained": (lambda table, i: F.embedding(i, table) * 2, looked_up(gradient=True)),
    "gelu, trained": (F.gelu, rows(8192, gradient=True)),
    "max pool 3x3 stride 2, trained": (lambda x: F.max_pool2d(x, 3, 2, 1), shaped(*IMAGES, gradient=True)),
}


def _case(name: str, function: Callable[..., Any], make: Make | Any, dtype: torch.dtype, training: bool) -> Case:
    return Case(name, lambda: (function, make(dtype)), training=training, bound="memory")


def kernel_cases() -> dict[str, Case]:
    """Every memory-bound case by name: `softmax 1024 bf16`."""
    found: dict[str, Case] = {}
    for short, dtype in DTYPES.items():
        for training, table in ((False, FORWARD), (True, TRAINING)):
            for name, (function, make) in table.items():
                full = f"{name} {short}"
                found[full] = _case(full, function, make, dtype, training)
    return found


def model_cases() -> dict[str, Case]:
    """The models of the examples, forward and with backward: `bert f32 forward`."""
    from examples.models import MODELS

    found: dict[str, Case] = {}
    for short, dtype in DTYPES.items():
        for name, model in MODELS.items():
            for kind in ("forward", "training"):
                make = model.training if kind == "training" else model.inference
                full = f"{name} {short} {kind}"
                found[full] = Case(
                    full, lambda make=make, dtype=dtype: make(dtype=dtype, device="cuda"), training=kind == "training"
                )
    return found
