"""Hypothesis looks for a product of matrices that is wrong, or less accurate than eager's, however it is said: as
machine code, with sizes that only the call knows, and as a contraction for a GPU, in Triton's interpreter.

`make test` tries a few of each form, `make test-thorough` more; `make fuzz` as many as it is told.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cuesta.lowering.schedule import contract_sums
from cuesta.targets.cpu import facts
from cuesta.testing import compare
from cuesta.transforms.products import product_plans
from cuesta.transforms.products.tiles import ALONE, Around
from tests.fuzz.product_forms import BATCHED, MATRICES, Form, forms
from tests.fuzz.test_convolution_forms import TILE
from tests.fuzz.test_programs import COMMON, EXAMPLES
from tests.support.triton_interpreter import interpreted_cuda
from tests.support.triton_kernels import texts_of

pytest.importorskip("triton")
pytestmark = pytest.mark.slow
NAMES = [*MATRICES, *BATCHED]
ON_CPU = (torch.float32, torch.bfloat16, torch.float16)
NARROW = (torch.bfloat16, torch.float16)


def as_machine_code(one: Form, *, dynamic: bool) -> None:
    """Compares what runs on this machine with eager."""
    torch._dynamo.reset()
    inputs = one.inputs()
    compiled = torch.compile(one.function, backend="cuesta", dynamic=dynamic)
    actual, expected = compiled(*inputs), one.function(*inputs)
    truth = one.function(*(value.double() for value in inputs))
    assert actual.shape == expected.shape and actual.dtype == expected.dtype
    result = compare(str(one), actual, expected, truth)
    assert result.passes, f"{one}: {result}"


def tiles(
    sizes: object, batch: int, bits: int, machine: object, around: Around = ALONE, **__: Any
) -> list[tuple[float, dict[str, int]]]:
    """One tile, which takes no time."""
    return [(1e-9, {**TILE, **({around.precision: 1} if around.precision else {})})]


def as_contraction(one: Form) -> int:
    """Compares what a GPU would run, with every product that something is done with a nest in tiles, with eager; gives
    how many there are.
    """
    inputs = one.inputs()
    with (
        patch.object(product_plans, "estimates", tiles),
        patch.object(product_plans, "formed", tiles),
        patch.object(product_plans, "_of_library", lambda *_: 1e9),
        patch.object(product_plans, "_is_in_steps", lambda *_: True),
        patch.object(contract_sums, "estimates", tiles),
        interpreted_cuda() as programs,
        torch.no_grad(),
    ):
        actual = torch.compile(one.function, backend="cuesta", dynamic=False)(*inputs)
        texts = [text.source for program in programs for text in texts_of(program)]
    expected, truth = one.function(*inputs), one.function(*(value.double() for value in inputs))
    assert actual.shape == expected.shape and actual.dtype == expected.dtype
    # Triton's interpreter cuts f32 off when it makes bf16 of it.
    result = compare(str(one), actual, expected, truth, ulps=8.0 if one.dtype == torch.bfloat16 else 4.0)
    assert result.passes, f"{one}: {result}"
    return sum("tl.dot" in text for text in texts)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_machine_code_is_as_accurate_as_eager(name: str, dynamic: bool) -> None:
    @settings(max_examples=3, derandomize=True, database=None, **COMMON)
    @given(forms(name, ON_CPU))
    def look(one: Form) -> None:
        as_machine_code(one, dynamic=dynamic)

    look()


WIDE = {"wide_bf16": 6.0, "wide_f16": 6.0}
"""Facts of a processor whose library has no kernels for 16 bits."""


@pytest.mark.parametrize("name", NAMES)
def test_products_made_of_f32_are_as_accurate_as_eager(name: str) -> None:
    @settings(max_examples=2, derandomize=True, database=None, **COMMON)
    @given(forms(name, NARROW), st.booleans())
    def look(one: Form, dynamic: bool) -> None:
        as_machine_code(one, dynamic=dynamic)

    with patch.object(facts, "facts_of_wide_products", lambda: WIDE):
        look()


@pytest.mark.parametrize("name", NAMES)
def test_contractions_are_as_accurate_as_eager(name: str) -> None:
    @settings(max_examples=3, derandomize=True, database=None, **COMMON)
    @given(forms(name, NARROW))
    def look(one: Form) -> None:
        as_contraction(one)

    look()


def test_there_are_contractions() -> None:
    """Of sizes that a tile has, each product that something is done with, and each sum by hand of 16 bits, is one."""
    for name in NAMES:
        lies = ("plain", "plain", "plain")
        one = Form(name, "relu", 2, 33, 40, 17, lies, torch.bfloat16, 0)
        assert as_contraction(one) == (name != "by hand in f32"), name


@pytest.mark.thorough
@settings(max_examples=EXAMPLES or 100, derandomize=not EXAMPLES, print_blob=True, **COMMON)
@given(st.sampled_from(NAMES).flatmap(lambda name: forms(name, ON_CPU)), st.booleans())
def test_many_as_machine_code(one: Form, dynamic: bool) -> None:
    as_machine_code(one, dynamic=dynamic)


@pytest.mark.thorough
@settings(max_examples=EXAMPLES or 100, derandomize=not EXAMPLES, print_blob=True, **COMMON)
@given(st.sampled_from(NAMES).flatmap(lambda name: forms(name, NARROW)), st.booleans())
def test_many_made_of_f32(one: Form, dynamic: bool) -> None:
    with patch.object(facts, "facts_of_wide_products", lambda: WIDE):
        as_machine_code(one, dynamic=dynamic)


@pytest.mark.thorough
@settings(max_examples=EXAMPLES or 100, derandomize=not EXAMPLES, print_blob=True, **COMMON)
@given(st.sampled_from(NAMES).flatmap(lambda name: forms(name, NARROW)))
def test_many_as_contractions(one: Form) -> None:
    as_contraction(one)
