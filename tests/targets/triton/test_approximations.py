"""Approximations of functions: each row's, measured against float64, and where `torch.compile` uses them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from cuesta.dialects import elem
from cuesta.targets.program import KernelText
from cuesta.targets.triton import compilation
from cuesta.testing import assert_close_to_float64
from cuesta.transforms.accuracy.relax_accuracy import LIMITS
from tests.support import approximations
from tests.support.triton_interpreter import interpreted_cuda, on_cuda, parse, run
from tests.support.triton_kernels import assert_compiles, texts_of

pytest.importorskip("triton")


@pytest.mark.slow  # the interpreter takes seconds for a kernel
@pytest.mark.parametrize(("name", "precision"), approximations.CASES)
def test_the_error_is_what_the_row_says(name: str, precision: str) -> None:
    module = on_cuda(parse(approximations.program_of(name, precision)))
    (result,) = run(module, approximations.operands_of(name))
    approximations.check(name, precision, result)


def test_every_approximation_is_below_a_quarter_of_a_unit() -> None:
    assert len(approximations.CASES) >= 14
    for name, precision in approximations.CASES:
        assert elem.TABLE[name].approximations[precision].error < LIMITS.get(precision, LIMITS["f16"])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("function", [F.gelu, lambda x: F.gelu(x, approximate="tanh"), F.silu, lambda x: x.softmax(-1)])
def test_whole_functions(function: Callable[..., Any], dtype: torch.dtype) -> None:
    x = torch.cat([torch.linspace(-9, 9, 4000), torch.randn(96)]).reshape(64, 64).to(dtype)
    with interpreted_cuda() as programs:
        assert_close_to_float64(torch.compile(function, backend="cuesta", fullgraph=True), function, [x])
    assert len(programs) == 1


def kernel_of(name: str, precision: str) -> KernelText:
    (text,) = texts_of(on_cuda(parse(approximations.program_of(name, precision))))
    return text


@pytest.mark.slow
@pytest.mark.parametrize(("name", "precision"), approximations.CASES)
def test_they_compile_for_both_vendors(name: str, precision: str) -> None:
    text = kernel_of(name, precision)
    assert_compiles([text])
    assert "gfx942" in compilation.amd_assembly(text, "gfx942")


@pytest.mark.slow
def test_exact_functions_do_not_flush_denormal_numbers() -> None:
    """Of an approximation's text the quick division does, which never comes to one."""
    quick = kernel_of("sigmoid", "bf16")
    exact = replace(quick, source=quick.source.replace("quick.sigmoid", "libdevice.exp"))
    assert "quick" not in exact.source
    ptx = compilation._compiled(exact, ("cuda", 90, 32), aligned=True).asm["ptx"]
    assert re.search(r"\bfma\.rn\.f32", ptx)
    assert not re.search(r"\b(add|mul|fma)\S*\.ftz", ptx)
    assert "div.approx.ftz" in compilation._compiled(quick, ("cuda", 90, 32), aligned=True).asm["ptx"]
