"""`x.view(dtype)`: the bits of one type read as another."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import cuesta
from tests.support.differential import check

X = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
BYTES = torch.arange(127, dtype=torch.uint8)


@pytest.mark.parametrize("dynamic", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    ("function", "x"),
    [
        (lambda x: x.view(torch.int32) + 1, X),
        (lambda x: (x * 2).t().view(torch.int32) ^ 3, X),
        (lambda x: x.view(torch.int16) + 1, X),
        (lambda x: (x + 1).view(torch.uint8) + 1, X),
        (lambda x: x.view(torch.float64) * 2, X),
        (lambda x: x.view(torch.int64) >> 3, X.bfloat16()),
        (lambda x: x.double().view(torch.int16)[:, 1::2] + 1, X),
        (lambda x: x.view(torch.float8_e4m3fn).float() + 1, BYTES),
        (lambda x: x.to(torch.float8_e5m2).view(torch.uint8) >> 4, X),
        (lambda x: x[0, 0].view(torch.int32) + 1, X),
        (lambda x: (x.view(torch.int32) & -65536).view(torch.float32) * 2, X),
    ],
)
@pytest.mark.covering
def test_bits_as_another_type(function: Callable[[Tensor], Tensor], x: Tensor, dynamic: bool) -> None:
    torch._dynamo.reset()
    cuesta.clear_records()
    result = torch.compile(function, backend="cuesta", dynamic=dynamic, options={"verify": "each"})(x)
    expected = function(x)
    assert (result.dtype, result.stride()) == (expected.dtype, expected.stride()) and torch.equal(result, expected)
    assert cuesta.records[-1].kernels == 1 and not cuesta.records[-1].fallbacks


def test_a_view_that_nothing_reads_is_eagers() -> None:
    """It costs nothing there; a kernel would copy."""
    torch._dynamo.reset()
    cuesta.clear_records()
    check(lambda x: (x @ x.t()).view(torch.int32), X)
    assert cuesta.records[0].fallbacks == {"aten.view.dtype": 1} and not cuesta.records[0].kernels


WRITTEN: dict[str, Callable[[Tensor], tuple[Tensor, ...]]] = {
    "as another type": lambda v: (v.view(1, -1), v[:1]),
    "as both types": lambda v: (v.view(torch.uint8)[1:], v.unfold(0, 1, 2)),
    "that and its views": lambda v: (v, v[1:], v.view(-1, 1).squeeze(-1)),
    "a detached one": lambda v: (v.detach(), v[1:]),
}


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("dynamic", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["static", "dynamic"])
@pytest.mark.covering
def test_views_of_bits_that_were_written_to_share_their_memory(name: str, dynamic: bool) -> None:
    """86001847: AOTAutograd reads the bits anew for each of them, and each was computed in memory of its own."""

    def function(x: Tensor) -> tuple[Tensor, ...]:
        v = (x % 8).view(torch.float8_e4m3fn)
        v[1:2] = v[:1].clone()
        return WRITTEN[name](v)

    torch._dynamo.reset()
    results = torch.compile(function, backend="cuesta", dynamic=dynamic)(BYTES)
    expected = function(BYTES)
    assert len({one.untyped_storage()._cdata for one in results}) == 1
    for ours, theirs in zip(results, expected, strict=True):
        assert (ours.stride(), ours.storage_offset()) == (theirs.stride(), theirs.storage_offset())
        assert torch.equal(ours.view(torch.uint8), theirs.view(torch.uint8))


def test_what_is_no_number_is_eagers() -> None:
    torch._dynamo.reset()
    check(lambda x: ((x > 0).view(torch.uint8) + 1, x.view(torch.uint8).view(torch.float32) + 1), X)


@pytest.mark.parametrize("mode", ["trunc", "floor"])
def test_division_in_half_precision_is_a_program_that_verifies(mode: str) -> None:
    """Its quotients are rounded through their bits, which `elem.bitcast` did not allow for 16 of them."""
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda x, y: torch.div(x, y, rounding_mode=mode), backend="cuesta", options={"verify": "each"}
    )
    for dtype in (torch.float16, torch.bfloat16):
        x, y = X.to(dtype) * 9, X.flip(0).to(dtype)
        assert torch.equal(compiled(x, y), torch.div(x, y, rounding_mode=mode))
