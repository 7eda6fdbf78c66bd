"""`elem.fma`, a row of an extension (`examples/extensions/elem_row.py`), in Triton: interpreted, and compiled."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import cuesta
from cuesta.dialects import kernel, sym
from cuesta.targets.program import KernelText
from cuesta.targets.triton.compilation import amd_assembly, compile_kernel
from cuesta.targets.triton.emit_module import emit_module
from examples.extensions import elem_row
from tests.support.triton_interpreter import ask, interpreted_cuda, to_host

pytestmark = pytest.mark.slow

triton = pytest.importorskip("triton")

HOPPER, AMD = 90, "gfx942"


def kernel_of(dtype: torch.dtype, count: int) -> tuple[KernelText, int]:
    """The one kernel that `addcmul` becomes on a CUDA device with the example in force, and its number of programs."""
    options: dict[str, Any] = {"extensions": [elem_row.extension], "cache": False}
    with interpreted_cuda(run_it=False) as programs:
        torch.compile(torch.addcmul, backend="cuesta", options=options)(*torch.zeros(3, count, dtype=dtype))
    with cuesta.extended(elem_row.extension):
        functions = [op for op in to_host(programs[0]).body.ops if isinstance(op, kernel.FuncOp)]
        (text,) = emit_module(functions).values()
    programs_of_it = sym.product_of(functions[0].schedule.grid)
    assert isinstance(programs_of_it, int)
    return text, programs_of_it


def call(text: KernelText, programs: int, x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """What the kernel makes of its inputs, by Triton's interpreter."""
    *_, out = ask("kernel", text, programs, [x, a, b, torch.full_like(x, torch.nan)])
    return out


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("count", [1, 33, 5000])
def test_it_is_interpreted(dtype: torch.dtype, count: int) -> None:
    text, programs = kernel_of(dtype, count)
    assert "tl.fma(" in text.source
    x, a, b = torch.randn(3, count, dtype=dtype)
    torch.testing.assert_close(call(text, programs, x, a, b), torch.addcmul(x, a, b))


def test_it_is_what_its_row_means() -> None:
    """NaN, infinities and zeros of both signs go where a · b + c takes them."""
    special = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, -0.0, 1.0, -2.5])
    x, a, b = (one.flatten() for one in torch.meshgrid(special, special, special, indexing="ij"))
    text, programs = kernel_of(torch.float32, len(x))
    actual, expected = call(text, programs, x, a, b), a * b + x
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(actual.signbit()[~expected.isnan()], expected.signbit()[~expected.isnan()])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_it_compiles(dtype: torch.dtype) -> None:
    text, _ = kernel_of(dtype, 5000)
    assert compile_kernel(text, HOPPER).binary[:4] == b"\x7fELF"
    assert AMD in (assembly := amd_assembly(text, AMD))
    assert "v_fma" in assembly or "v_pk_fma" in assembly
