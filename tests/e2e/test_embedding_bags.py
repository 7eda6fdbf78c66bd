"""Bags of embeddings, compiled for the CPU: loops that begin and end where the data says."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

import cuesta


def bags(indices: torch.Tensor, weight: torch.Tensor, offsets: torch.Tensor, **named: Any) -> torch.Tensor:
    return functional.embedding_bag(indices, weight, offsets, **named) * 2


def compiled(function: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(function, backend="cuesta", fullgraph=True)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("width", [1, 3, 16, 40])
@pytest.mark.covering
def test_bags_of_many_lengths(mode: str, width: int) -> None:
    """Empty ones too, at both ends."""
    torch.manual_seed(0)
    weight, indices = torch.randn(50, width), torch.randint(50, (60,))
    offsets = torch.tensor([0, 0, 1, 1, 18, 20, 37, 60, 60])
    named_ones: tuple[dict[str, Any], ...] = ({}, {"padding_idx": 7}, {"include_last_offset": True})
    for named in named_ones if width in (3, 16) else named_ones[:1]:
        with torch.no_grad():
            actual = compiled(bags)(indices, weight, offsets, mode=mode, **named)
            torch.testing.assert_close(actual, bags(indices, weight, offsets, mode=mode, **named))
        assert not cuesta.records[-1].fallbacks and not cuesta.records[-1].library_calls


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_gradients(mode: str) -> None:
    torch.manual_seed(0)
    weight, indices = torch.randn(50, 5, requires_grad=True), torch.randint(50, (60,))
    offsets = torch.tensor([0, 0, 1, 1, 18, 20, 37, 60])
    for named in ({}, {"padding_idx": 7}):
        gradients = [
            torch.autograd.grad(function(indices, weight, offsets, mode=mode, **named).square().sum(), weight)[0]
            for function in (compiled(bags), bags)
        ]
        torch.testing.assert_close(*gradients)


def test_an_index_out_of_range() -> None:
    """Also where the loop that would find it is narrowed; not where no bag has it."""
    function, weight, offsets = compiled(bags), torch.randn(5, 3), torch.tensor([0, 1, 3])
    last = {"include_last_offset": True}
    with torch.no_grad():
        function(torch.tensor([0, 1, 2, 9]), weight, offsets, **last)
        for indices in ([0, 1, 5, 0], [-1, 0, 0, 0]):
            with pytest.raises(IndexError):
                function(torch.tensor(indices), weight, offsets, **last)
