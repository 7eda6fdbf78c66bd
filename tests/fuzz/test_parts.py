"""Random programs of parts: what is cut, joined, padded, interleaved, shares its inputs and is kept, and its gradients.

`jam-parts` makes one point of what parts do, and computes there what they read; each program is compared with eager,
and so are its gradients.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from cuesta.transforms.fusion import jam_parts

_LONGEST = 24
"""Sizes up to which a tensor is made longer."""


def _expression(rng: random.Random, known: list[Tensor]) -> str:
    """One operator on what is known, that shapes allow."""
    while True:
        first, second, dim = rng.randrange(len(known)), rng.randrange(len(known)), rng.randrange(2)
        x, y, a, b = f"x{first}", f"x{second}", known[first], known[second]
        rows, columns = a.shape
        half, alike, short = a.shape[dim] // 2, a.shape == b.shape, a.shape[dim] <= _LONGEST
        even, apart = a.shape[dim] % 2 == 0, columns % 2 == 0
        choices = [
            (True, f"{x}.sigmoid()"),
            (True, f"{x} * {x}.sum({dim}, keepdim=True) * 0.1"),
            (True, f"torch.roll({x}, {half}, {dim})"),
            (alike, f"{x} * {y}"),
            (alike, f"{x} + {y}.exp().clamp(max=3)"),
            (even, f"{x}.chunk(2, {dim})[{rng.randrange(2)}]"),
            (a.shape[dim] % 3 == 0, f"{x}.chunk(3, {dim})[{rng.randrange(3)}]"),
            (half > 0, f"{x}[..., ::2]" if dim else f"{x}[1::2]"),
            (alike and short, f"torch.cat(({x}, {y}), {dim})"),
            (short, f"torch.cat((-{x}, {x}.relu()), {dim})"),
            (short, f"F.pad({x}, ({columns}, 0))" if dim else f"F.pad({x}, (0, 0, 0, {rows}))"),
            (alike and columns <= _LONGEST, f"torch.stack(({x}, {y}), -1).flatten(-2)"),
            (apart, f"torch.cat((-{x}[:, {columns // 2}:], {x}[:, :{columns // 2}]), 1) * {x}.sin()"),
            (apart, f"torch.stack(({x}[:, 1::2].sigmoid(), {x}[:, 1::2]), -1).flatten(-2)"),
            (
                alike and even,
                f"torch.slice_scatter({x}, {y}.narrow({dim}, 0, {half}).cos(), {dim}, {half}, {2 * half})",
            ),
        ]
        possible, text = rng.choice(choices)
        if possible:
            return text


def program(seed: int) -> tuple[str, list[Tensor]]:
    """The text of a function of two tensors, and two."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    sizes = rng.choice((2, 4, 6, 12, 16)), rng.choice((4, 8, 16, 24, 48))
    inputs = [torch.randn(sizes), torch.randn(sizes)]
    known, lines = list(inputs), ["def f(x0, x1):"]
    for _ in range(rng.randint(4, 10)):
        text = _expression(rng, known)
        lines.append(f"    x{len(known)} = {text}")
        scope = {f"x{k}": one for k, one in enumerate(known)}
        known.append(eval(text, {"torch": torch, "F": functional, **scope}))
    kept = [f"x{k}" for k in range(2, len(known) - 1) if rng.random() < 0.2]
    return "\n".join([*lines, f"    return {', '.join([f'x{len(known) - 1}', *kept])},", ""]), inputs


def results(function: Any, inputs: list[Tensor]) -> list[Tensor | None]:
    """What it gives, and the gradients of all that, by tangents that are the same each time."""
    leaves = [one.clone().requires_grad_() for one in inputs]
    found = function(*leaves)
    torch.manual_seed(1)
    tangents = [torch.randn_like(one) for one in found]
    gradients = torch.autograd.grad(found, leaves, tangents, allow_unused=True)
    return [*(one.detach() for one in found), *gradients]


def checked(seed: int) -> None:
    text, inputs = program(seed)
    scope: dict[str, Any] = {"torch": torch, "F": functional}
    exec(text, scope)
    torch._dynamo.reset()
    compiled = torch.compile(scope["f"], backend="cuesta", fullgraph=True, dynamic=False)
    for found, expected in zip(results(compiled, inputs), results(scope["f"], inputs), strict=True):
        if found is None or expected is None:
            assert found is expected, text
            continue
        scale = max(1.0, float(expected.abs().max()))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5 * scale, msg=lambda said: f"{text}{said}")


def test_random_programs_of_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the first ones many have parts with something in common."""
    jammed = list[Any]()
    candidates = jam_parts._Jamming.candidates

    def noted(self: Any, nest: Any) -> Iterator[Any]:
        for one in candidates(self, nest):
            jammed.append(one)
            yield one

    monkeypatch.setattr(jam_parts._Jamming, "candidates", noted)
    for seed in range(12):
        checked(seed)
    assert len(jammed) > 10


@pytest.mark.thorough
@pytest.mark.parametrize("seeds", [range(start, start + 50) for start in range(12, 412, 50)])
def test_many_random_programs_of_parts(seeds: range) -> None:
    for seed in seeds:
        checked(seed)
