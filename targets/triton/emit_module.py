"""The kernels of a module for the GPU → one Python text that defines them."""

from __future__ import annotations

from collections.abc import Iterable

from cuesta.dialects import kernel
from cuesta.targets.program import KernelText
from cuesta.targets.triton.emit_kernel import emit_kernel

HEADER = """\
import triton
import triton.language as tl
from triton.language.extra import libdevice

from cuesta.targets.triton import device_functions as functions
"""


def is_for_gpu(func: kernel.FuncOp) -> bool:
    """Whether a kernel was scheduled for the GPU."""
    return func.schedule.choices.get("target") == "cuda"


def emit_module(kernels: Iterable[kernel.FuncOp]) -> dict[str, KernelText]:
    """Those kernels that are for the GPU, by name."""
    return {func.sym_name: emit_kernel(func) for func in kernels if is_for_gpu(func)}


def module_text(kernels: Iterable[KernelText]) -> str:
    """One text that defines all the kernels."""
    return "\n\n".join([HEADER, *(one.source for one in kernels)])
