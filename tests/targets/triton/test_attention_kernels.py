"""Attention that never stores its scores, as a kernel with `kernel.fold`: by Triton's interpreter against float64."""

from __future__ import annotations

import pytest

from cuesta.targets.reference import random_inputs
from cuesta.targets.reference import run as run_reference
from cuesta.testing import compare
from tests.support.attention_kernels import Attention
from tests.support.triton_interpreter import on_cuda, parse, run

pytest.importorskip("triton")

CASES = {
    "causal": Attention(),
    "bias": Attention(causal=False, bias=True),
    "partial tiles of keys": Attention(queries=32, keys=41, causal=False),
    "partial tiles everywhere": Attention(queries=19, keys=37, bias=True),
    "more keys than lanes of queries": Attention(rows=16, tile=32, keys=70, queries=40),
    "few lanes of a head": Attention(head=24, lanes=32, keys=37, element="bf16"),
    "f32": Attention(queries=20, keys=21, head=24, lanes=32, element="f32"),
    "no key": Attention(keys=0, causal=False),
    "64 bits": Attention(queries=19, keys=21, index=64),
}


@pytest.mark.slow  # the interpreter takes seconds for a kernel
@pytest.mark.parametrize("name", CASES)
def test_numerics(name: str) -> None:
    case = CASES[name]
    module = parse(case.program)
    inputs = random_inputs(module)
    expected, truth = run_reference(module, inputs), run_reference(module, inputs, precise=True)
    (actual,) = run(on_cuda(module), inputs)
    ulps = 8.0 if case.element == "bf16" else 4.0  # Triton's interpreter cuts f32 off when it makes bf16 of it
    found = compare(name, actual, expected[0], truth[0], factor=3.0, ulps=ulps)
    assert found.passes, str(found)
