"""Hypothesis looks for a convolution, or a gradient of one, that is not what the nest computes which stands for it: in
the reference interpreter, on a processor and for a GPU, and in Triton's.

`make test` tries a few of each form, `make test-thorough` more; `make fuzz` as many as it is told.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp

from cuesta.context import make_context
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.layout import sizes_of, tensor_type_of
from cuesta.targets.reference import check_equivalent
from cuesta.targets.reference import run as run_reference
from cuesta.testing import compare
from cuesta.transforms.products import fuse_products
from cuesta.transforms.products.fuse_products import FuseProductsPass
from tests.fuzz.convolution_forms import FORMS, Form, forms
from tests.fuzz.test_programs import COMMON, EXAMPLES
from tests.support.triton_interpreter import run
from tests.targets.triton.test_convolved_products import calls_in, captured, until

pytest.importorskip("triton")
pytestmark = pytest.mark.slow
TILE = {"rows": 16, "columns": 16, "depth": 16, "warps": 4, "stages": 2, "group": 8}


def in_order(program: ModuleOp, inputs: list[Tensor]) -> list[Tensor]:
    """Inputs in the order in which a program takes them; of equal sizes, the first ones first."""
    left, found = list(inputs), list[Tensor]()
    for one in entry_block(program).args:
        sizes = sizes_of(tensor_type_of(one))
        found.append(left.pop(next(place for place, value in enumerate(left) if tuple(value.shape) == sizes)))
    return found


def nested(one: Form, inputs: list[Tensor]) -> tuple[ModuleOp, ModuleOp] | None:
    """The program before and after its convolution is a nest, for a GPU; None where it is one in the first place."""

    def tiles(sizes: object, batch: int, bits: int, *_: Any) -> list[tuple[float, dict[str, int]]]:
        return [(1.0, {**TILE, **({"tf32": 1} if bits == 32 else {})})]

    before = until(captured(one.function, inputs), "spread-rows")
    after = before.clone()
    with patch.object(fuse_products, "estimates", tiles):
        FuseProductsPass(tf32_convolutions=True).apply(make_context(), after)
    after.verify()
    assert not calls_in(after)
    return (before, after) if calls_in(before) else None


def check(one: Form, *, interpret: bool) -> bool:
    """Compares with what came before the nest, and with eager; gives whether there is a nest."""
    note(str(one))
    inputs = one.inputs()
    found = nested(one, inputs)
    if found is None:
        return False
    before, after = found
    check_equivalent(before, after, exact=False)
    expected, truth = one.function(*inputs), one.function(*(value.double() for value in inputs))
    arguments = in_order(before, inputs)
    actual = run(after, arguments) if interpret else run_reference(after, arguments)
    for position, triple in enumerate(zip(actual, expected, truth, strict=True)):
        result = compare(f"result {position}", *triple)
        assert result.passes, f"{one}: {result}"
    return True


@pytest.mark.parametrize("name", FORMS)
def test_every_form_is_a_nest_that_means_the_same(name: str) -> None:
    found: list[bool] = []

    @settings(max_examples=8, derandomize=True, database=None, **COMMON)
    @given(forms(name))
    def look(one: Form) -> None:
        found.append(check(one, interpret=False))

    look()
    assert sum(found) > len(found) // 2, f"of {len(found)} {sum(found)} are nests"


@pytest.mark.parametrize("name", FORMS)
def test_numerics_of_every_form(name: str) -> None:
    @settings(max_examples=3, derandomize=True, database=None, **COMMON)
    @given(forms(name))
    def look(one: Form) -> None:
        check(one, interpret=True)

    look()


@pytest.mark.thorough
@settings(max_examples=EXAMPLES or 150, derandomize=not EXAMPLES, print_blob=True, **COMMON)
@given(st.sampled_from(FORMS).flatmap(forms))
def test_many(one: Form) -> None:
    check(one, interpret=True)
