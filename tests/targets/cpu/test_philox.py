"""Philox on the CPU, bit by bit as the reference interpreter has it."""

from __future__ import annotations

import pytest
import torch

from cuesta.dialects.elem.ops import WORD_ROUNDS
from cuesta.targets.cpu.emit_types import splat_integer
from cuesta.targets.cpu.philox import philox, random_word
from cuesta.targets.reference.random_numbers import philox as reference
from cuesta.targets.reference.random_numbers import random_word as reference_word
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


@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
@pytest.mark.parametrize("first", [0, 1 << 40, (1 << 32) - 3])
def test_the_word_of_a_place(first: int, lanes: int) -> None:
    keys = torch.randint(-(2**63), 2**63 - 1, (64,), generator=torch.Generator().manual_seed(1))
    places = torch.arange(64) + 5
    function = random_word(lanes)
    kind = "i64" if lanes == 1 else f"<{lanes} x i64>"
    start = splat_integer(first, lanes)
    body = f"  %r = call {kind} {function.symbol}({kind} %x, {kind} %y, {kind} {start})"
    text = function.definition + loop_over_vectors("k", "i64", "i64", lanes, body, 2)
    found = run("k", text, [keys, places], torch.int64)
    assert torch.equal(found, reference_word(keys, places, first))
    for k, place in enumerate(places.tolist()):
        words = reference(keys[k], torch.tensor(first + place // 4), WORD_ROUNDS)
        assert int(found[k]) == int(words[place % 4])


def test_words_of_seven_rounds_are_random() -> None:
    """Of one key, each bit is set half of the time, and neighbours know nothing of one another, nor do keys that differ
    in one bit: by six deviations of a coin.
    """
    places = torch.arange(1 << 16)
    rows = [reference_word(torch.tensor(key), places, 1 << 40) for key in (12345, 12344, 12345 + (1 << 32))]
    bits = torch.stack([(row[:, None] >> torch.arange(32)) & 1 for row in rows]).double() * 2 - 1
    count = places.numel()
    assert float(bits.sum(1).abs().max()) < 6 * count**0.5
    for k in (1, 2, 4):
        assert float((bits[0, k:] * bits[0, :-k]).sum(0).abs().max()) < 6 * count**0.5, k
    assert all(float((bits[0] * bits[k]).sum(0).abs().max()) < 6 * count**0.5 for k in (1, 2))
    for one, other in ((0, 1), (3, 17), (15, 16)):
        assert abs(float((bits[0, :, one] * bits[0, :, other]).sum())) < 6 * count**0.5, (one, other)
