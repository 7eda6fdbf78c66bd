"""Philox4x32, the counter-based random numbers of `elem.philox` and `elem.random_word`."""

from __future__ import annotations

import torch
from torch import Tensor

from cuesta.dialects.elem.ops import PHILOX_ROUNDS, WORD_ROUNDS

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF


def philox(key: Tensor, counter: Tensor, rounds: int = PHILOX_ROUNDS) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The four words for keys and counters of int64 after so many rounds, each in [0, 2^32); the upper half of the
    counter is 0.

    Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).
    """
    k0, k1 = key & _LOW, _high(key)
    c0, c1 = counter & _LOW, _high(counter)
    c2 = c3 = counter * 0
    for _ in range(rounds):
        first, second = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = _high(second) ^ c1 ^ k0, second & _LOW, _high(first) ^ c3 ^ k1, first & _LOW
        k0, k1 = (k0 + _WEYL[0]) & _LOW, (k1 + _WEYL[1]) & _LOW
    return c0, c1, c2, c3


def random_word(key: Tensor, place: Tensor, first: int) -> Tensor:
    """The word of each place: number `place mod 4` of those for the counter `first + place div 4`."""
    words = philox(key, (place >> 2) + first, WORD_ROUNDS)
    result = words[3]
    for word in range(3):
        result = torch.where(place & 3 == word, words[word], result)
    return result


def _high(value: Tensor) -> Tensor:
    """The upper 32 bits, of a product too that wrapped around: int64 holds its bits."""
    return (value >> 32) & _LOW
