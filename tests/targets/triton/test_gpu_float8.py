"""Floats of 8 bits on a CUDA device: casts bit by bit as torch's own."""

from __future__ import annotations

import pytest
import torch

from tests.targets.triton.test_float8 import DTYPES, moved, narrow, placed, same_bits, values, wide

pytestmark = pytest.mark.gpu


def test_casts_to_them() -> None:
    compiled = torch.compile(narrow, backend="cuesta", fullgraph=True)
    x = values().cuda()
    for source in (x, x.double(), x.bfloat16()):
        assert all(same_bits(*pair) for pair in zip(compiled(source), narrow(source), strict=True))


@pytest.mark.parametrize("dtype", DTYPES)
def test_casts_from_them_and_moves(dtype: torch.dtype) -> None:
    x = torch.arange(256, dtype=torch.uint8, device="cuda").view(dtype)
    cases = [(wide, x), (moved, x.view(8, 32))]
    if dtype is not torch.float8_e8m0fnu:  # which eager cannot join on a GPU
        cases.append((placed, x.view(16, 16)))
    for function, given in cases:
        results = torch.compile(function, backend="cuesta", fullgraph=True)(given)
        for ours, theirs in zip(results, function(given), strict=True):
            assert ours.dtype is theirs.dtype and ours.stride() == theirs.stride()
            assert torch.equal(ours.double().nan_to_num(7.0), theirs.double().nan_to_num(7.0))
