"""The kernels of a module for the GPU → their texts."""

from __future__ import annotations

from collections.abc import Iterable

from cuesta.dialects import kernel
from cuesta.targets.program import KernelText
from cuesta.targets.triton.emit_kernel import emit_kernel


def emit_module(kernels: Iterable[kernel.FuncOp]) -> dict[str, KernelText]:
    """Those kernels that are for the GPU, by name."""
    return {func.sym_name: emit_kernel(func) for func in kernels if func.is_for_gpu}
