"""Which elements two tensors of one memory have in common."""

from __future__ import annotations

import random

import torch

from cuesta.lowering.capture.memory_ranges import meet_now


def test_tensors_meet_where_a_place_is_in_both() -> None:
    draw, places = random.Random(3), torch.arange(1200)
    found = 0
    for _ in range(3000):
        a, b = (
            places.as_strided(
                [draw.randint(0 if draw.random() < 0.1 else 1, 5) for _ in range(rank)],
                [draw.choice([0, 1, 1, 2, 3, 4, 5, 8, 12, 20, 60]) for _ in range(rank)],
                draw.randint(0, 40),
            )
            for rank in (draw.randint(0, 4), draw.randint(0, 4))
        )
        common = not set(a.reshape(-1).tolist()).isdisjoint(b.reshape(-1).tolist())
        assert meet_now(a, b) == meet_now(b, a) == common, (a.shape, a.stride(), b.shape, b.stride())
        found += common
    assert 300 < found < 2700


def test_large_tensors_that_interlace_are_soon_found_to_be_apart() -> None:
    x = torch.empty(4096, 64, 130, device="meta")
    assert not meet_now(x[..., :64], x[..., 65:129])
    assert not meet_now(x[..., ::2], x[..., 1::2])
    assert meet_now(x[..., :64], x[..., 63:127])
    assert meet_now(x[:, :, :64], x[:, :, :64].transpose(1, 2))
