"""Random words made by machine code: torch's own, and the state that torch would leave."""

from __future__ import annotations

import pytest
import torch

from cuesta.targets.cpu.jit import compile_module
from cuesta.targets.cpu.mersenne_twister import module_text
from cuesta.targets.host import random_words as runtime
from cuesta.targets.reference.random_words import random_words as by_torch

BLOCK = 624


@pytest.mark.parametrize("skipped", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1])
@pytest.mark.parametrize("count", [0, 1, 15, 16, 33, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 5001])
@pytest.mark.parametrize("bits", [32, 64])
def test_words_and_the_state_after_them(skipped: int, count: int, bits: int) -> None:
    found: list[tuple[torch.Tensor, torch.Tensor]] = []
    for draw in (runtime.random_words, by_torch):
        torch.manual_seed(7)
        torch.randn(1)  # leaves a normal number behind
        torch.rand(skipped)
        found.append((draw(count, bits), torch.default_generator.get_state()))
    (ours, our_state), (theirs, their_state) = found
    assert ours.dtype is (torch.int32 if bits == 32 else torch.int64)
    assert torch.equal(ours, theirs) and torch.equal(our_state, their_state)


def test_they_are_the_words_of_eagers_numbers() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2000)
    torch.manual_seed(3)
    assert torch.equal((runtime.random_words(2000, 32) & 0xFFFFFF).float() * 2.0**-24, expected)


def test_the_known_words_of_mt19937() -> None:
    """The reference implementation's first words, and its 10,000th, of the seed 5489 (ISO C++, [rand.predef])."""
    torch.manual_seed(5489)
    words = runtime.random_words(10_000, 32)
    assert [int(word) & 0xFFFFFFFF for word in words[[0, 1, -1]]] == [3499211612, 581869302, 4123659995]


def test_without_llvm_torch_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    expected = runtime.random_words(101, 32)
    monkeypatch.setattr(runtime, "_function", lambda: None)
    torch.manual_seed(1)
    assert torch.equal(runtime.random_words(101, 32), expected)


def test_llvm_believes_the_module() -> None:
    assert compile_module(module_text(), verify=True)


def test_words_of_other_sizes_are_refused() -> None:
    """A text may say anything, and memory is made for these."""
    with pytest.raises(ValueError, match="random words have 32 bits or 64, not 128"):
        runtime.random_words(10, 128)
    with pytest.raises(RuntimeError, match="negative dimension"):
        runtime.random_words(-1, 32)
