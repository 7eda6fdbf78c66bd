"""The Triton kernels of programs: their text, and whether it compiles."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import torch
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp

from cuesta.dialects import kernel
from cuesta.targets.program import KernelText
from cuesta.targets.triton.compilation import compile_kernel
from cuesta.targets.triton.emit_module import emit_module
from cuesta.transforms.reductions import when
from tests.support.triton_interpreter import to_host

HOPPER = 90


def kernels_in(module: ModuleOp) -> list[kernel.FuncOp]:
    """The kernels that stand in a program."""
    return [op for op in module.walk() if isinstance(op, kernel.FuncOp)]


def kernels_of(program: ModuleOp) -> list[kernel.FuncOp]:
    """The kernels of a program at a level above."""
    return kernels_in(to_host(program))


def texts_of(program: ModuleOp) -> list[KernelText]:
    """The texts of the kernels of a program at a level above."""
    return list(emit_module(kernels_of(program)).values())


def assert_compiles(texts: Iterable[KernelText]) -> None:
    """Every text becomes machine code for Hopper; there is one."""
    texts = list(texts)
    assert texts, "there is no kernel to compile"
    for text in texts:
        assert compile_kernel(text, HOPPER).binary[:4] == b"\x7fELF", text.source


def split_whatever_the_sizes(monkeypatch: pytest.MonkeyPatch, *, meet: bool) -> None:
    """Lets reductions of a few points be computed in parts, by programs that meet or in nests of their own."""
    monkeypatch.setattr(when, "LARGE_GPU", 8)
    monkeypatch.setattr(when, "LEAST", 4)
    monkeypatch.setattr(when, "TILE", 32)
    monkeypatch.setattr(when, "FEW_PROGRAMS", 0)
    monkeypatch.setattr(when, "WORTH", 1e9)
    monkeypatch.setattr(when, "APART", 0.0)
    monkeypatch.setattr(when, "PUT_TOGETHER", 0.0)
    monkeypatch.setattr(when, "MEET", meet)


def rms_norm(x: Tensor, w: Tensor) -> Tensor:
    """As models write it."""
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w
