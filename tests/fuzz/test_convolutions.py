"""Hypothesis looks for a convolution that is not what the nest computes which stands for it: in the reference
interpreter, and in Triton's.

`make test` tries 12, `make test-thorough` other 100; `make fuzz` as many as it is told.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, note, settings

from cuesta.targets.reference import check_equivalent
from cuesta.testing import compare
from cuesta.transforms.products import product_plans
from tests.fuzz.convolutions import Convolution, convolutions
from tests.fuzz.test_programs import COMMON, EXAMPLES
from tests.support.triton_interpreter import interpreted_cuda
from tests.targets.triton.test_convolved_products import as_tuple, calls_in, compiled, until

pytest.importorskip("triton")
pytestmark = pytest.mark.slow


@contextmanager
def taken(tile: tuple[int, int, int]) -> Iterator[None]:
    """In the `with` block every convolution that can be is computed in one nest with what is around it, in a tile."""
    choices = dict(zip(("rows", "columns", "depth"), tile, strict=True)) | {"warps": 4, "stages": 3, "group": 8}

    def estimates(*_: Any, **__: Any) -> list[tuple[float, dict[str, int]]]:
        return [(1.0, choices)]

    with (
        patch.object(product_plans, "estimates", estimates),
        patch.object(product_plans, "SURE", 0.0),
        patch.object(product_plans, "_is_in_steps", lambda *_: True),
    ):
        yield


def check(one: Convolution) -> bool:
    """Compares with what came before the nest, and with eager; gives whether there is a nest."""
    note(str(one))
    torch._dynamo.reset()
    inputs = one.inputs()
    with torch.no_grad(), taken(one.tile), interpreted_cuda() as programs:
        actual = compiled(one.function)(*copy.deepcopy(inputs))
        (program,) = programs
        before, after = until(program, "spread-rows"), until(program, "choose-products")
    check_equivalent(before, after, exact=False)
    expected, truth = one.function(*inputs), one.function(*(value.double() for value in inputs))
    for position, triple in enumerate(zip(*map(as_tuple, (actual, expected, truth)), strict=True)):
        found = compare(f"result {position}", *triple)
        assert found.passes, f"{one}: {found}"
    return not calls_in(after)


def test_a_few() -> None:
    """Most are nests: otherwise these tests would say nothing."""
    found: list[bool] = []

    @settings(max_examples=12, derandomize=True, database=None, **COMMON)
    @given(convolutions())
    def look(one: Convolution) -> None:
        found.append(check(one))

    look()
    assert sum(found) >= len(found) // 2, f"of {len(found)} convolutions {sum(found)} are nests"


@pytest.mark.thorough
@settings(max_examples=EXAMPLES or 100, derandomize=not EXAMPLES, print_blob=True, **COMMON)
@given(convolutions())
def test_many(one: Convolution) -> None:
    check(one)
