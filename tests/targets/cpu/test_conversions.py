from __future__ import annotations

import pytest
import torch

from cuesta.targets.cpu.bf16 import bf16_rounding
from cuesta.targets.cpu.features import HostFeatures, describe, host_features
from tests.targets.cpu.kernels import loop_over_vectors, run


def patterns_32() -> torch.Tensor:
    """Near every tie of bf16, and a sample of everything."""
    high = torch.arange(0, 2**16, 7, dtype=torch.int64) << 16
    near = [high + low for low in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)]
    bits = torch.cat([*near, torch.arange(0, 2**32, 99991)])
    bits = bits[: bits.numel() // 96 * 96]
    return torch.where(bits >= 2**31, bits - 2**32, bits).to(torch.int32).view(torch.float32)


def rounded(x: torch.Tensor, lanes: int, features: HostFeatures) -> torch.Tensor:
    function = bf16_rounding(lanes, features)
    source, target = ("float", "i16") if lanes == 1 else (f"<{lanes} x float>", f"<{lanes} x i16>")
    body = f"  %r = call {target} {function.symbol}({source} %x)"
    loop = loop_over_vectors("k", "float", "i16", lanes, body)
    return run("k", "\n".join([*sorted(function.declarations), function.definition, loop]), [x], torch.int16)


@pytest.mark.parametrize("lanes", [1, 6, 8, 16, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 32, 48))])
@pytest.mark.parametrize("portable", [False, True])
def test_f32_to_bf16_rounds_as_eager(lanes: int, portable: bool) -> None:
    x = patterns_32()
    features = describe("x86_64-unknown-linux-gnu", {"sse2": True}) if portable else host_features()
    got = rounded(x, lanes, features)
    expected = x.bfloat16()
    assert torch.equal(got.view(torch.bfloat16).isnan(), x.isnan())
    assert torch.equal(got[~x.isnan()], expected.view(torch.int16)[~x.isnan()])


@pytest.mark.parametrize("lanes", [8, 16])
def test_normal_numbers_alone_round_as_eager(lanes: int) -> None:
    """What takes the short way on machines that have the instruction."""
    x = patterns_32()
    x = x[x.abs() >= 2.0**-126]
    x = x[: x.numel() // 16 * 16].contiguous()
    assert torch.equal(rounded(x, lanes, host_features()), x.bfloat16().view(torch.int16))
