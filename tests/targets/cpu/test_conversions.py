from __future__ import annotations

import pytest
import torch

from cuesta.targets.cpu import conversions
from tests.targets.cpu.kernels import conversion_module, run

PATTERNS_16 = torch.arange(-(2**15), 2**15).to(torch.int16)


def patterns_32() -> torch.Tensor:
    """Near every tie of bf16, and a sample of everything."""
    high = torch.arange(0, 2**16, 7, dtype=torch.int64) << 16
    near = [high + low for low in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)]
    bits = torch.cat([*near, torch.arange(0, 2**32, 99991)])
    bits = bits[: bits.numel() // 16 * 16]
    return torch.where(bits >= 2**31, bits - 2**32, bits).to(torch.int32).view(torch.float32)


@pytest.mark.parametrize("lanes", [1, 8, 16])
def test_bf16_to_f32_is_exact(lanes: int) -> None:
    x = PATTERNS_16
    got = run("k", conversion_module("k", conversions.bf16_to_f32, "i16", "float", lanes), [x], torch.float32)
    assert torch.equal(got.view(torch.int32), x.view(torch.bfloat16).float().view(torch.int32))


@pytest.mark.parametrize("lanes", [1, 8, 16])
def test_f32_to_bf16_rounds_as_eager(lanes: int) -> None:
    x = patterns_32()
    got = run("k", conversion_module("k", conversions.f32_to_bf16, "float", "i16", lanes), [x], torch.int16)
    expected = x.bfloat16()
    assert torch.equal(got.view(torch.bfloat16).isnan(), x.isnan())
    assert torch.equal(got[~x.isnan()], expected.view(torch.int16)[~x.isnan()])


@pytest.mark.parametrize("lanes", [1, 8])
def test_f16_both_ways(lanes: int) -> None:
    x = PATTERNS_16.view(torch.float16)
    wide = run("k", conversion_module("k", conversions.f16_to_f32, "half", "float", lanes), [x], torch.float32)
    torch.testing.assert_close(wide, x.float(), rtol=0, atol=0, equal_nan=True)
    y = patterns_32()
    narrow = run("k", conversion_module("k", conversions.f32_to_f16, "float", "half", lanes), [y], torch.float16)
    torch.testing.assert_close(narrow, y.half(), rtol=0, atol=0, equal_nan=True)
