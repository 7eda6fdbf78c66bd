"""Nests that do the same to different parts of tensors: one kernel, and the same results."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from cuesta.dialects.core.locations import print_text
from tests.support.triton_interpreter import interpreted_cuda, to_host

STEPS, ROWS, WIDTH = 6, 4, 16


def recurrent(x: Tensor, weight: Tensor) -> Tensor:
    """A gated cell, step by step: each reads its part of the input."""
    state = torch.zeros(ROWS, WIDTH)
    states: list[Tensor] = []
    for step in range(STEPS):
        gates = x[step] + state @ weight
        keep, new = gates[:, :WIDTH].sigmoid(), gates[:, WIDTH:].tanh()
        state = keep * state + (1 - keep) * new
        states.append(state)
    return torch.stack(states)


def of_what_was_made(x: Tensor, weight: Tensor) -> Tensor:
    """Parts of a buffer of the program's own, which others may take over once nobody reads it."""
    made = torch.softmax(x.reshape(STEPS * ROWS, 2 * WIDTH) @ weight.t(), -1)
    sums = [(made[8 * part : 8 * part + 8] * (part + 2)).cumsum(-1) @ weight for part in range(3)]
    return torch.cat([one.relu() - one.mean(-1, keepdim=True) for one in sums])


CASES: list[tuple[Callable[[Tensor, Tensor], Tensor], int]] = [(recurrent, STEPS - 2), (of_what_was_made, 2)]


@pytest.mark.slow  # between edits the text tests of `share-slices` say so of smaller programs
@pytest.mark.parametrize(("function", "alike"), CASES)
def test_results_are_as_of_kernels_of_their_own(function: Callable[[Tensor, Tensor], Tensor], alike: int) -> None:
    torch.manual_seed(0)
    inputs = torch.randn(STEPS, ROWS, 2 * WIDTH), torch.randn(WIDTH, 2 * WIDTH)
    truth = function(*inputs)
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(function, backend="cuesta")(*inputs), truth, rtol=1e-4, atol=1e-5)
    with interpreted_cuda() as programs:
        found = torch.compile(function, backend="cuesta")(*inputs)
        text = print_text(to_host(programs[0]))
    torch.testing.assert_close(found, truth, rtol=1e-4, atol=1e-5)
    launches = Counter(re.findall(r"host.launch @(\w+)\(", text))
    assert max(launches.values()) >= alike, text


def test_a_program_without_parts_has_no_views() -> None:
    def layers(x: Tensor, weight: Tensor) -> Tensor:
        for _ in range(3):
            x = torch.tanh(x @ weight) + x.mean(-1, keepdim=True)
        return x

    with interpreted_cuda(run_it=False) as programs:
        torch.compile(layers, backend="cuesta")(torch.randn(8, 16), torch.randn(16, 16))
    text = print_text(to_host(programs[0]))
    assert "host.reinterpret" not in text
