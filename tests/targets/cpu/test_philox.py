"""Philox on the CPU, bit by bit as the reference interpreter has it."""

from __future__ import annotations

import pytest
import torch

from cuesta.targets.cpu.philox import philox
from cuesta.targets.reference.random_numbers import philox as reference
from tests.targets.cpu.kernels import loop_over_vectors, run


@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
@pytest.mark.parametrize("word", range(4))
def test_words(word: int, lanes: int) -> None:
    generator = torch.Generator().manual_seed(word)
    keys, counters = (torch.randint(-(2**63), 2**63 - 1, (64,), generator=generator) for _ in range(2))
    function = philox(word, lanes)
    kind = "i64" if lanes == 1 else f"<{lanes} x i64>"
    body = f"  %r = call {kind} {function.symbol}({kind} %x, {kind} %y)"
    text = function.definition + loop_over_vectors("k", "i64", "i64", lanes, body, 2)
    assert torch.equal(run("k", text, [keys, counters], torch.int64), reference(keys, counters)[word])
