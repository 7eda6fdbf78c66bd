"""Arguments of library calls, as text that Python reads back as the same value."""

from __future__ import annotations

import math

import pytest
import torch

from cuesta.dialects.aten import DType, Operand
from cuesta.targets.host.python_text import argument_text


@pytest.mark.parametrize("part", [1.5, -0.0, math.inf, -math.inf, math.nan])
def test_numbers_are_read_back(part: float) -> None:
    for number in (part, complex(part, 1.0), complex(1.0, part), complex(part, part)):
        again = eval(argument_text(number, []))
        assert type(again) is type(number) and repr(again) == repr(number)


def test_a_call_s_arguments() -> None:
    text = argument_text((Operand(1), 2, None, DType("float32")), ["x", "y"])
    assert eval(text, {"torch": torch, "y": 7}) == [7, 2, None, torch.float32]
