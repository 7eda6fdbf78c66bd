"""Numbers in f16 and bf16: as torch has them, at every boundary there is."""

from __future__ import annotations

import math

import pytest
import torch
from xdsl.dialects.builtin import BFloat16Type, Float16Type, f32, f64
from xdsl.ir import Attribute

from cuesta.dialects.core.rounding import half_bits, rounded
from cuesta.lowering.aten.builder import round_number

NARROW = [(Float16Type(), torch.float16), (BFloat16Type(), torch.bfloat16)]


def doubles(dtype: torch.dtype) -> torch.Tensor:
    """Every number of a type of 16 bits, the middles between neighbours, what is one double beside them,
    and of what is half a float beside some.
    """
    all_bits = torch.arange(1 << 15, dtype=torch.int32).to(torch.int16)
    numbers = all_bits.view(dtype).double()
    numbers = numbers[numbers.isfinite()]
    middles = (numbers[1:] + numbers[:-1]) / 2
    beyond = numbers[-1] + (numbers[-1] - numbers[-2]) / 2  # what is rounded to infinity begins here
    ends = torch.cat([numbers, middles, beyond.reshape(1), torch.tensor([1e-60, 1e39, 1e300, math.inf])]).double()
    infinity = torch.tensor(math.inf, dtype=torch.float64)
    floats = ends.float().double()
    far = [floats * (1 + sign * 2.0**-power) for sign in (-1, 1) for power in (24, 25, 26, 40)]
    near = [torch.nextafter(ends, infinity), torch.nextafter(ends, -infinity)]
    values = torch.cat([ends, *near, *[each[place::7] for place, each in enumerate(far)]])
    return torch.cat([values, -values])


@pytest.mark.slow
@pytest.mark.parametrize(("scalar", "dtype"), NARROW)
def test_as_torch_rounds(scalar: Attribute, dtype: torch.dtype) -> None:
    values = doubles(dtype)
    expected = values.to(dtype)
    ours = torch.tensor([rounded(value, scalar) for value in values.tolist()], dtype=torch.float64)
    assert torch.equal(ours, expected.double())
    bits = torch.tensor([half_bits(value, scalar) for value in values.tolist()]).to(torch.int16)
    assert torch.equal(bits, expected.view(torch.int16))


def test_what_is_rounded_once_would_be_another_number() -> None:
    """Just beyond the middle between two of f16: torch comes back to the even one, by way of f32."""
    value = 4.723668098449708e-05
    assert torch.full((), value, dtype=torch.float16).item() == rounded(value, Float16Type()) == 4.7206878662109375e-05
    assert round_number(value, Float16Type()) == 4.7206878662109375e-05


def test_other_types() -> None:
    assert rounded(0.1, f64) == 0.1
    assert rounded(0.1, f32) == torch.tensor(0.1, dtype=torch.float32).item()
    assert rounded(1e39, f32) == math.inf and rounded(-1e39, f32) == -math.inf
    assert math.copysign(1, rounded(-0.0, f32)) == -1
    for scalar, dtype in NARROW:
        assert math.isnan(rounded(math.nan, scalar))
        assert half_bits(math.nan, scalar) == torch.tensor(math.nan, dtype=dtype).view(torch.int16).item()
        assert half_bits(-0.0, scalar) == 0x8000
    assert round_number(7, f32) == 7 and round_number(2049, Float16Type()) == 2048.0
