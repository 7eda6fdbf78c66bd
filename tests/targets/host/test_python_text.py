"""Arguments of library calls, as text that Python reads back as the same value."""

from __future__ import annotations

import math

import pytest
import torch

from cuesta.dialects.aten import DType, Operand
from cuesta.targets.host.python_text import Names, argument_text, identifier


@pytest.mark.parametrize("part", [1.5, -0.0, math.inf, -math.inf, math.nan])
def test_numbers_are_read_back(part: float) -> None:
    for number in (part, complex(part, 1.0), complex(1.0, part), complex(part, part)):
        again = eval(argument_text(number, []))
        assert type(again) is type(number) and repr(again) == repr(number)


def test_a_call_s_arguments() -> None:
    text = argument_text((Operand(1), 2, None, DType("float32")), ["x", "y"])
    assert eval(text, {"torch": torch, "y": 7}) == [7, 2, None, torch.float32]


def test_names_are_taken_once() -> None:
    taken = Names({"add_2", "class"})
    assert [identifier("add", taken) for _ in range(4)] == ["add", "add_1", "add_3", "add_4"]
    assert [identifier(hint, taken) for hint in ("class", "1", "a.b", "", "add_3")] == [
        "v_class",
        "v_1",
        "a_b",
        "v_",
        "add_3_1",
    ]
    many = [identifier("view", taken) for _ in range(20_000)]  # a search from 1 on would take a minute
    assert len(set(many)) == len(many)
