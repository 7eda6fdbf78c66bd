"""Philox against known answers, and against an implementation in whole numbers."""

from __future__ import annotations

import random

import torch

from cuesta.targets.reference.random_numbers import philox

LOW = (1 << 32) - 1


def whole(key: int, counter: int) -> tuple[int, ...]:
    k, c = [key & LOW, key >> 32], [counter & LOW, counter >> 32, 0, 0]
    for _ in range(10):
        first, second = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(second >> 32) ^ c[1] ^ k[0], second & LOW, (first >> 32) ^ c[3] ^ k[1], first & LOW]
        k = [(k[0] + 0x9E3779B9) & LOW, (k[1] + 0xBB67AE85) & LOW]
    return tuple(c)


def signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def test_the_known_answer() -> None:
    """Random123's `kat_vectors`: philox4x32 10, counter and key 0."""
    zero = torch.zeros(1, dtype=torch.int64)
    words = [int(word) for word in philox(zero, zero)]
    assert words == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def test_any_key_and_counter() -> None:
    source = random.Random(0)
    keys = [source.getrandbits(64) for _ in range(50)] + [0, (1 << 64) - 1]
    counters = [source.getrandbits(64) for _ in range(50)] + [(1 << 64) - 1, 1]
    words = philox(torch.tensor([signed(k) for k in keys]), torch.tensor([signed(c) for c in counters]))
    expected = [whole(k, c) for k, c in zip(keys, counters, strict=True)]
    assert [tuple(point) for point in torch.stack(words, 1).tolist()] == expected
