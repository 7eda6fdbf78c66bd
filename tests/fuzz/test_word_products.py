"""Hypothesis looks for a product of bf16 or of bytes that is wrong as a nest by words: sizes, how factors lie and where
they begin, what is added, and what is done with it.

`make test` tries 12, `make test-thorough` other 100; `make fuzz` as many as it is told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, note, settings
from hypothesis import strategies as st
from torch import Tensor

import cuesta
from cuesta.targets.cpu import facts
from cuesta.testing import compare
from tests.fuzz.test_programs import COMMON, EXAMPLES

pytestmark = pytest.mark.slow

AFTER: dict[str, Callable[[Tensor], Tensor]] = {
    "nothing": lambda y: y,
    "relu": lambda y: y.relu(),
    "scaled": lambda y: y * 2 + 1,
    "wide": lambda y: y.float() * 0.5 if y.is_floating_point() else y.to(torch.float32) * 0.5,
    "turned": lambda y: y.mT.contiguous(),
    "summed": lambda y: y.sum(-1),
    "flat": lambda y: y.flatten() * 3,
    "heads": lambda y: y.unflatten(-1, (2, -1)).transpose(-2, -3) + 1,
    "part": lambda y: y[..., 1:, :8] * 2,
}


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "parts": draw(st.sampled_from(["bf16", "i8"])),
        "batch": draw(st.sampled_from([0, 0, 1, 3])),
        "rows": draw(st.integers(3, 40)),
        "columns": draw(st.sampled_from([16, 32, 48, 64, 96, 32, 20])),
        "points": draw(st.sampled_from([4, 8, 12, 64, 130, 260, 300, 7])),
        "lies": draw(st.sampled_from(["nn", "nt", "tn", "tt"])),
        "gaps": draw(st.sampled_from([0, 0, 1, 2, 4])),
        "start": draw(st.integers(0, 5)),
        "added": draw(st.booleans()),
        "after": draw(st.sampled_from(sorted(AFTER))),
        "seed": draw(st.integers(0, 1 << 30)),
    }


def factor(case: dict[str, Any], rows: int, columns: int, turned: bool) -> Tensor:
    """A matrix, or several, whose rows or columns have gaps between them, and which begins somewhere."""
    sizes = [case["batch"]] if case["batch"] and case["parts"] == "bf16" else []
    high, wide = (columns, rows) if turned else (rows, columns)
    row = wide + case["gaps"]
    elements = case["start"] + max(1, case["batch"]) * high * row
    if case["parts"] == "bf16":
        memory = torch.randn(elements).bfloat16()
    else:
        memory = torch.randint(-128, 128, (elements,), dtype=torch.int8)
    strides = [high * row, row, 1][-2 - len(sizes) :]
    found = memory.as_strided([*sizes, high, wide], strides, case["start"])
    return found.mT if turned else found


def check(case: dict[str, Any]) -> bool:
    """Compares with eager, of bytes with exact products; gives whether it is a nest."""
    note(str(case))
    torch._dynamo.reset()
    cuesta.clear_records()
    torch.manual_seed(case["seed"])
    a = factor(case, case["rows"], case["points"], case["lies"][0] == "t")
    b = factor(case, case["points"], case["columns"], case["lies"][1] == "t")
    after = AFTER[case["after"]]
    inputs = [a, b]
    if case["added"] and case["parts"] == "bf16" and not case["batch"]:
        inputs.append(torch.randn(case["columns"]).bfloat16())

    def function(a: Tensor, b: Tensor, *added: Tensor) -> Tensor:
        if case["parts"] == "i8":
            return after(torch.ops.aten._int_mm.default(a, b))
        return after(torch.addmm(added[0], a, b) if added else a @ b)

    with patch.object(facts, "facts_of_products", lambda: {"products_bf16": 1.1, "products_i8": 1.1}), torch.no_grad():
        compiled = torch.compile(function, backend="cuesta", fullgraph=True, options={"cache": False})
        actual = compiled(*inputs)
    if case["parts"] == "i8":
        assert torch.equal(actual, after((a.long() @ b.long()).int()))
        return not cuesta.records[0].library_calls
    expected, truth = function(*inputs), function(*(one.double() for one in inputs))
    found = compare("result", actual, expected, truth)
    assert found.passes, found
    return not cuesta.records[0].library_calls


def test_a_few() -> None:
    """Many are nests: otherwise these tests would say nothing."""
    found: list[bool] = []

    @settings(max_examples=12, derandomize=True, database=None, **COMMON)
    @given(cases())
    def look(case: dict[str, Any]) -> None:
        found.append(check(case))

    look()
    assert sum(found) >= len(found) // 3, f"of {len(found)} products {sum(found)} are nests"


@pytest.mark.thorough
@settings(max_examples=EXAMPLES or 100, derandomize=not EXAMPLES, print_blob=True, **COMMON)
@given(cases())
def test_many(case: dict[str, Any]) -> None:
    check(case)
