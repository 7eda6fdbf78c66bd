"""A number that is known, and is no integer of the type that it becomes: LLVM leaves it open; it is as on x86, eager's.

Found by the fuzzer (86006112): `((x - x) + (2**63 - 1)).float().to(torch.int8)`.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import cuesta  # noqa: F401  # the backend

INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]


@pytest.mark.parametrize("number", [2.0**63, -(2.0**70), 2.0**31, -3e9, float("inf"), float("nan"), 300.0, -129.0])
def test_known_numbers(number: float) -> None:
    def function(x: Tensor) -> list[Tensor]:
        return [(torch.zeros_like(x) + number).to(dtype) for dtype in INTEGERS]

    x = torch.zeros(3)
    expected = function(x)
    torch._dynamo.reset()
    for ours, theirs in zip(torch.compile(function, backend="cuesta")(x), expected, strict=True):
        assert torch.equal(ours, theirs), theirs.dtype


def test_as_it_was_found() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        large = ((x - x) + (2**63 - 1)).float()
        return large.to(torch.int8), large.to(torch.int32)

    x = torch.tensor(3)
    for ours, theirs in zip(torch.compile(function, backend="cuesta")(x), function(x), strict=True):
        assert torch.equal(ours, theirs)
