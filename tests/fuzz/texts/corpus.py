"""Real programs in text: what the dumps of some forty small functions hold, at every level, for CPU and GPU."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops import while_loop
from torch.nn import functional as F
from xdsl.dialects.builtin import ModuleOp

import cuesta.compiler
from cuesta.dialects.host import is_in_pieces
from cuesta.dump import Dump
from cuesta.options import Options
from cuesta.record import CompileRecord
from cuesta.staging import run_stages
from tests.fuzz.texts import operators
from tests.support.fresh import Module, said_by
from tests.support.triton_interpreter import on_cuda

WRITING = 3600.0
"""Seconds that a process has for all texts."""


def _scatter(x: Tensor, i: Tensor) -> Tensor:
    return torch.zeros(6, 8).index_add(0, i, x).relu()


def _writes(x: Tensor, y: Tensor) -> Tensor:
    x.mul_(2).add_(y)
    return (x + 1).sum(1)


def _pooled(x: Tensor, w: Tensor) -> Tensor:
    for _ in range(4):
        x = torch.tanh((x @ w).softmax(-1) + x)
    return x


def _steps(x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    y[::2] = x[::2].t().contiguous().t() * 2
    y[1::2] = 1
    return y


def _indices(i: Tensor) -> Tensor:
    return i.abs() % 5


def _cache_at(cache: Tensor, x: Tensor, i: Tensor) -> Tensor:
    cache.index_copy_(1, i, x)
    return (cache * 2).sum(1)


def _cache_put(cache: Tensor, x: Tensor, i: Tensor) -> None:
    cache.index_put_((i % 3, i), x)


def _ranges(cache: Tensor, x: Tensor) -> Tensor:
    cache[:, 2:4].copy_(x)
    cache[1].mul_(2)
    return x.relu()


def _lists(*tensors: Tensor) -> None:
    parameters, gradients = list(tensors[:8]), list(tensors[8:])
    aten = torch.ops.aten
    aten._foreach_mul_.Scalar(gradients, 0.5)
    sums = aten._foreach_add.Scalar(aten._foreach_abs.default(gradients), 1.0)
    aten._foreach_addcdiv_.Scalar(parameters, gradients, sums)


def _bumped(cache: Tensor, other: Tensor, x: Tensor) -> Tensor:
    y = x * 2
    operators.bump(cache, y)
    first, second = operators.bump_and_sum(cache, other, y)
    return first * second + y


def _masked(x: Tensor) -> Tensor:
    return (x * 2).masked_select(x > 0).exp() + x.sum()


def _branches(x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda x: (x * 2).relu(), lambda x: x.sin() + 1, (x + 1,)) * 2


def _counted(x: Tensor) -> Tensor:
    return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, (x * 2).tanh()), (torch.tensor(0), x.relu()))[1] + 1


def _differentiable(*sizes: int) -> Tensor:
    return torch.randn(*sizes, requires_grad=True)


FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Tensor, ...]], bool]] = {
    "pointwise": (lambda x, y: (x + y).relu() * 0.5, lambda: (torch.randn(8, 16), torch.randn(8, 1)), False),
    "pointwise_dynamic": (lambda x, y: (x + y).relu() * 0.5, lambda: (torch.randn(8, 16), torch.randn(8, 1)), True),
    "softmax": (lambda x, w: torch.softmax(x @ w, -1), lambda: (torch.randn(5, 12), torch.randn(12, 37)), False),
    "softmax_dynamic": (lambda x, w: torch.softmax(x @ w, -1), lambda: (torch.randn(5, 12), torch.randn(12, 37)), True),
    "norm": (lambda x, w: F.layer_norm(x, (48,), w), lambda: (torch.randn(9, 48), torch.randn(48)), False),
    "columns": (lambda x: (x.sum(0), x.var(0)), lambda: (torch.randn(300, 24),), False),
    "argmax": (lambda x: (x.argmax(0), x.argmax(), x.amax(1)), lambda: (torch.randn(8, 16),), False),
    "cumsum": (lambda x: x.cumsum(1) * 2, lambda: (torch.randn(7, 19),), False),
    "scatter": (_scatter, lambda: (torch.randn(20, 8), torch.randint(0, 6, (20,))), False),
    "gather": (lambda x, i: x[i] * 2, lambda: (torch.randn(6, 8), torch.randint(0, 6, (20,))), False),
    "gather_dynamic": (lambda x, i: x[i] * 2, lambda: (torch.randn(6, 8), torch.randint(0, 6, (20,))), True),
    "pool": (lambda x: F.max_pool2d(F.pad(x, (1, 1, 1, 1)), 3, 2), lambda: (torch.randn(2, 3, 9, 9),), False),
    "average": (lambda x: F.avg_pool2d(x, 3, 1, 1), lambda: (torch.randn(1, 3, 8, 8),), False),
    "views": (lambda x: x.t()[1:].reshape(-1, 5).contiguous() + 1, lambda: (torch.randn(10, 7),), False),
    "views_dynamic": (lambda x: (x.t() + 1, x[:, None] * 2), lambda: (torch.randn(10, 7),), True),
    "random": (lambda x: F.dropout(x, 0.5) + torch.rand(8), lambda: (torch.randn(4, 8),), False),
    "fallback": (lambda x: x.sort(-1)[0].exp() + x.median(), lambda: (torch.randn(6, 10),), False),
    "writes": (_writes, lambda: (torch.randn(6, 10), torch.randn(10)), False),
    "arena": (_pooled, lambda: (torch.randn(64, 64), torch.randn(64, 64)), False),
    "half": (lambda x: F.gelu(x.bfloat16()).float().sum(-1), lambda: (torch.randn(6, 40),), False),
    "cat": (lambda x, y: torch.cat([x, y], 1).tanh(), lambda: (torch.randn(4, 6), torch.randn(4, 5)), False),
    "integers": (
        lambda x: (x // 3, x % 5, x.sum(), x > 2, x << 1),
        lambda: (torch.randint(-50, 50, (10, 6)),),
        False,
    ),
    "convolution": (
        lambda x, w: F.conv2d(x, w).relu(),
        lambda: (torch.randn(1, 3, 8, 8), torch.randn(4, 3, 3, 3)),
        False,
    ),
    "loss": (lambda x, t: F.cross_entropy(x, t), lambda: (torch.randn(6, 11), torch.randint(0, 11, (6,))), False),
    "assigned": (_steps, lambda: (torch.randn(8, 5),), False),
    "interpolate": (
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
        lambda: (torch.randn(1, 2, 5, 5),),
        False,
    ),
    "remainder": (
        lambda i, x: x[_indices(i)].sum(-1),
        lambda: (torch.randint(-50, 50, (12,)), torch.randn(5, 7)),
        False,
    ),
    "cache_at": (_cache_at, lambda: (torch.randn(3, 9, 8), torch.randn(3, 1, 8), torch.tensor([4])), False),
    "cache_at_dynamic": (_cache_at, lambda: (torch.randn(3, 9, 8), torch.randn(3, 2, 8), torch.tensor([4, 1])), True),
    "cache_put": (_cache_put, lambda: (torch.randn(3, 9, 8), torch.randn(4, 8), torch.randint(0, 9, (4,))), False),
    "ranges": (_ranges, lambda: (torch.randn(3, 9, 8), torch.randn(3, 2, 8)), False),
    "lists": (_lists, lambda: tuple(torch.randn(4, 6 + n % 2) for n in range(16)), False),
    "operators": (_bumped, lambda: (torch.randn(3, 9), torch.randn(5), torch.randn(3, 1)), False),
    "masked": (_masked, lambda: (torch.randn(6, 7),), False),
    "branches": (_branches, lambda: (torch.randn(6, 7),), False),
    "counted": (_counted, lambda: (torch.randn(6, 7),), False),
    "trained": (
        lambda x, w, b, t: F.cross_entropy(F.layer_norm(F.gelu(x @ w + b), (12,)), t),
        lambda: (_differentiable(6, 8), _differentiable(8, 12), _differentiable(12), torch.randint(0, 12, (6,))),
        False,
    ),
    "trained_dynamic": (
        lambda x, w: (F.dropout(torch.softmax(x @ w, -1), 0.5) * x.sum()).std(),
        lambda: (_differentiable(6, 8), _differentiable(8, 12)),
        True,
    ),
    "trained_images": (
        lambda x, w: F.max_pool2d(F.group_norm(F.conv2d(x, w, padding=1), 2).relu(), 2).mean(),
        lambda: (_differentiable(1, 3, 8, 8), _differentiable(4, 3, 3, 3)),
        False,
    ),
    "trained_rows": (
        lambda w, i: F.embedding(i, w).cumsum(0).square().sum(),
        lambda: (_differentiable(9, 4), torch.randint(0, 9, (7,))),
        False,
    ),
}
"""Each with its arguments, and whether sizes are symbols."""


def write_corpus(root: Path, every: int = 1, functions: int = 1) -> None:
    """Compiles every function, or one in so many, with dumps under `root`: for the CPU, and of the stages that a GPU's
    program has. One text in `every` is written, here and there.
    """
    Dump._program = _one_in(every)  # type: ignore[method-assign]
    for name, (function, make, dynamic) in list(FUNCTIONS.items())[::functions]:
        torch._dynamo.reset()
        torch.manual_seed(0)
        options = {"dump": str(root / name), "cache": False}
        dumps = dumps_for_cuda(root / f"{name}_on_cuda")
        with dumps, torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
            result = torch.compile(function, backend="cuesta", dynamic=dynamic, options=options)(*make())
            if isinstance(result, Tensor) and result.requires_grad:
                result.backward()


def _one_in(every: int) -> Callable[[Dump, str, ModuleOp], None]:
    whole = Dump._program

    def program(dump: Dump, name: str, module: ModuleOp) -> None:
        if zlib.crc32(f"{dump.folder.parent.name} {dump.folder.name} {name}".encode()) % every == 0:
            whole(dump, name, module)
        else:
            dump.number += 1

    return program


@contextmanager
def dumps_for_cuda(folder: Path) -> Iterator[None]:
    """In the `with` block programs are dumped a second time, as they are for a CUDA device, which need not be there."""
    original = cuesta.compiler.compile_module

    def compile_module(module: ModuleOp, options: Options, record: CompileRecord, *rest: Any) -> Any:
        if not is_in_pieces(module):  # parts that eager runs name the devices of what they make
            run_stages(on_cuda(module), options, record, Dump.create(str(folder), record.kind))
        return original(module, options, record, *rest)

    cuesta.compiler.compile_module = compile_module
    try:
        yield
    finally:
        cuesta.compiler.compile_module = original


def corpus(root: Path, every: int = 1, functions: int = 1) -> list[Path]:
    """The texts of all dumps, or what `write_corpus` takes of them, made anew in another process when `root` has none;
    of equal ones the first.
    """
    if not root.is_dir():
        root.mkdir(parents=True)
        said_by(Module("tests.fuzz.texts.corpus"), str(root), str(every), str(functions), seconds=WRITING)
    found: dict[str, Path] = {}
    for path in sorted(root.rglob("*.mlir")):
        found.setdefault(path.read_text(), path)
    return list(found.values())


if __name__ == "__main__":
    write_corpus(Path(sys.argv[1]), *map(int, sys.argv[2:]))
