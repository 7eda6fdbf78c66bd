"""Floats of 8 bits, on the GPU and the CPU: loads, stores, moves and casts, bit by bit as torch has them."""

from __future__ import annotations

import re

import pytest
import torch
from torch import Tensor

import cuesta
from cuesta.dialects import host
from tests.support.triton_interpreter import interpreted_cuda, to_host
from tests.support.triton_kernels import assert_compiles, texts_of

pytest.importorskip("triton")
pytestmark = pytest.mark.slow

DTYPES = [
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
]


def values() -> Tensor:
    """All of f16, ties between neighbours of either format and what is next to them, and what overflows."""
    halves = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(torch.float16).float()
    eights = torch.cat([torch.arange(256, dtype=torch.uint8).view(dtype).float() for dtype in DTYPES])
    eights = eights[eights.isfinite()].sort().values
    ties = (eights[1:] + eights[:-1]) / 2
    near = torch.cat([ties, ties.nextafter(torch.tensor(torch.inf)), ties.nextafter(torch.tensor(-torch.inf))])
    special = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, 1e30, -1e30, 448, 464, 465, 480, 61440, 65536])
    tiny = torch.tensor([1e-40, -1e-40, 2.0**-9, 2.0**-10, 2.0**-17, 2.0**-16])
    return torch.cat([halves, near, special, tiny])


def same_bits(ours: Tensor, theirs: Tensor) -> bool:
    """All NaN are one: how a device writes it is its own business."""
    number = ~theirs.float().isnan()
    return torch.equal(ours.float().isnan(), ~number) and torch.equal(
        ours.view(torch.uint8)[number], theirs.view(torch.uint8)[number]
    )


def narrow(x: Tensor) -> tuple[Tensor, ...]:
    return tuple(x.to(dtype) for dtype in DTYPES)


def wide(x: Tensor) -> tuple[Tensor, ...]:
    return x.float(), x.to(torch.bfloat16), x.half(), x.double(), x.float() * 2 + 1


def moved(x: Tensor) -> tuple[Tensor, ...]:
    return x.clone(), x.t().contiguous(), x[1:, ::2].clone(), x.view(-1).float()


def placed(x: Tensor) -> tuple[Tensor, ...]:
    """What puts elements into other tensors, gathers them, and makes some of numbers; `x` has 16 columns."""
    rows = torch.tensor([1, -1], device=x.device)
    put, part = x.clone(), x.clone()
    if x.dtype is not torch.float8_e8m0fnu:  # which eager puts nowhere
        put[:, rows] = x[:, :2]
    part[2:4] = x[:2]
    part[-1] = x[0]
    joined = torch.cat([x, x[:1]]), torch.stack([x, x], -1), torch.cat([x[:, :1]] * 6, 1)
    gathered = x[rows], x.index_select(1, rows.abs()), torch.nn.functional.pad(x, (1, 2), value=1.5)
    made = torch.full((3,), 0.3, dtype=x.dtype, device=x.device), torch.zeros_like(x), x.new_full((2,), torch.nan)
    return put, part, *joined, *gathered, *made


@pytest.mark.parametrize("run_it", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_casts_to_them(run_it: bool) -> None:
    x = values()
    with interpreted_cuda(run_it=run_it, lowered=True):
        compiled = torch.compile(narrow, backend="cuesta", fullgraph=True)
        for source in (x, x.double(), x.bfloat16()):
            assert all(same_bits(*pair) for pair in zip(compiled(source), narrow(source), strict=True))


@pytest.mark.parametrize(
    ("dtype", "run_it"),
    [
        pytest.param(
            dtype, run_it, id=f"{dtype}-{run_it}", marks=() if run_it or dtype in DTYPES[:2] else pytest.mark.thorough
        )
        for dtype in DTYPES
        for run_it in (False, True)
    ],
)
def test_casts_from_them_and_moves(dtype: torch.dtype, run_it: bool) -> None:
    x = torch.arange(256, dtype=torch.uint8).view(dtype)
    with interpreted_cuda(run_it=run_it, lowered=True) as programs:
        for function, given in ((wide, x), (moved, x.view(8, 32)), (placed, x.view(16, 16))):
            results = torch.compile(function, backend="cuesta", fullgraph=True)(given)
            for ours, theirs in zip(results, function(given), strict=True):
                assert ours.dtype is theirs.dtype and ours.stride() == theirs.stride()
                if theirs.element_size() == 1:
                    assert same_bits(ours, theirs)
                else:
                    torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)
    assert len(programs) == 3
    for program in programs:
        assert not any(isinstance(op, host.ExternOp) for op in to_host(program).walk())


@pytest.mark.slow
def test_they_compile() -> None:
    with interpreted_cuda(run_it=False) as programs:
        torch.compile(narrow, backend="cuesta", fullgraph=True)(torch.randn(100))
        for dtype in DTYPES:
            torch.compile(wide, backend="cuesta", fullgraph=True)(torch.randn(100).to(dtype))
            torch.compile(placed, backend="cuesta", fullgraph=True)(torch.randn(16, 16).to(dtype))
    assert len(programs) == 1 + 2 * len(DTYPES)
    for program in programs:
        assert_compiles(texts_of(program))


@pytest.mark.parametrize("verify", ["boundaries", "each"])
def test_casts_to_them_on_the_cpu(verify: str) -> None:
    torch._dynamo.reset()
    x = values()
    compiled = torch.compile(narrow, backend="cuesta", fullgraph=True, options={"verify": verify})
    for source in (x, x.double(), x.bfloat16(), torch.arange(-600, 600), x > 1):
        cuesta.clear_records()
        assert all(same_bits(*pair) for pair in zip(compiled(source), narrow(source), strict=True))
        assert cuesta.records and not cuesta.records[-1].fallbacks


@pytest.mark.parametrize("dtype", DTYPES)
def test_casts_from_them_and_moves_on_the_cpu(dtype: torch.dtype) -> None:
    x = torch.arange(256, dtype=torch.uint8).view(dtype)
    for function, given in ((wide, x), (moved, x.view(8, 32)), (padded, x), (placed, x.view(16, 16))):
        torch._dynamo.reset()
        cuesta.clear_records()
        results = torch.compile(function, backend="cuesta", fullgraph=True)(given)
        for ours, theirs in zip(results, function(given), strict=True):
            assert ours.dtype is theirs.dtype and ours.stride() == theirs.stride()
            if theirs.element_size() == 1 and theirs.is_floating_point():
                assert same_bits(ours, theirs)
            else:
                torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)
        assert not cuesta.records[-1].fallbacks


def padded(x: Tensor) -> tuple[Tensor, ...]:
    """Loads of which some are masked, and casts to other kinds of numbers."""
    finite = torch.where(x.float().isfinite(), x.float(), 1)
    return torch.nn.functional.pad(x.float(), (2, 3)), finite.to(torch.int32), x.bool(), x.to(torch.float8_e5m2)


def test_what_eager_alone_computes_stays_eagers() -> None:
    x = torch.randn(9).to(torch.float8_e4m3fn)

    def function(x: Tensor) -> tuple[Tensor, ...]:
        return x.float() + 1, x * x, x == x

    compiled = torch.compile(function, backend="cuesta", fullgraph=True)
    for ours, theirs in zip(compiled(x), function(x), strict=True):
        assert torch.equal(ours.float(), theirs.float())


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_that_they_cannot_hold(dtype: torch.dtype) -> None:
    """Eager refuses those beyond the range."""
    for number in (-0.0, -1.5, 240.0, 241.0, 448.0, 449.0, 57344.0, 57345.0, 1e30, torch.inf, -torch.inf):
        torch._dynamo.reset()
        compiled = torch.compile(lambda x: torch.full_like(x, number), backend="cuesta", fullgraph=True)  # noqa: B023
        x = torch.zeros(3, dtype=torch.uint8).view(dtype)
        try:
            expected = torch.full_like(x, number)
        except RuntimeError as error:
            with pytest.raises(RuntimeError, match=re.escape(str(error))):
                compiled(x)
        else:
            assert torch.equal(compiled(x).view(torch.uint8), expected.view(torch.uint8))
