"""Random draws on the CPU, compiled and in eager by turns: eager's numbers to the bit, and eager's state after each."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import pytest
import torch
import torch.utils.checkpoint
from torch import Tensor
from torch.nn import functional

from tests.support.differential import compiled_of

SIZES = ((3,), (255,), (256,), (311,), (312,), (624,), (625,), (17, 40), (5, 7, 31), (1,), (0, 3))
TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
Draw = Callable[[], Tensor]


def a_draw(rng: random.Random) -> Draw:
    """One draw, of those that are generated and those that are not."""
    sizes, dtype, p = rng.choice(SIZES), rng.choice(TYPES), rng.choice((0.0, 0.1, 0.5, rng.random()))
    low, extent = rng.randint(-99, 99), rng.choice((1, 2, 7, 1 << 20, (1 << 28) - 1, 1 << 28, 1 << 40))
    draws: tuple[Draw, ...] = (
        lambda: torch.rand(sizes, dtype=dtype),
        lambda: torch.rand_like(torch.ones(sizes, dtype=dtype)),
        lambda: torch.empty(sizes, dtype=dtype).bernoulli_(p),
        # What is left is divided by 1 − p in eager, and multiplied by 1 / (1 − p) by PyTorch's own decomposition.
        lambda: functional.dropout(torch.ones(sizes), p, True) != 0,
        lambda: torch.empty(sizes, dtype=dtype).uniform_(),
        lambda: torch.randint(low, low + extent, sizes),
        lambda: torch.randn(sizes, dtype=dtype),
        lambda: torch.rand(sizes).transpose(0, -1) + 0,
    )
    return rng.choice(draws)


def check_seed(seed: int) -> None:
    """Some programs of some draws each, the same ones in eager between them."""
    torch._dynamo.reset()
    rng = random.Random(seed)
    programs: list[tuple[Callable[[], tuple[Tensor, ...]], Draw]] = []
    for _ in range(2):
        draws = [a_draw(rng) for _ in range(rng.randint(1, 4))]
        programs.append((lambda draws=draws: tuple(draw() for draw in draws), a_draw(rng)))
    found: list[list[Tensor]] = []
    compiled = [compiled_of(program) for program, _ in programs]
    for functions in ([program for program, _ in programs], compiled):
        torch.manual_seed(seed)
        numbers: list[Tensor] = []
        for _ in range(2):
            for function, (_, between) in zip(functions, programs, strict=True):
                numbers += [*function(), torch.default_generator.get_state(), between()]
        found.append(numbers)
    for number, (theirs, ours) in enumerate(zip(*found, strict=True)):
        assert theirs.dtype is ours.dtype and torch.equal(theirs, ours), f"seed {seed}, result {number}"


@pytest.mark.parametrize("seed", range(4))
def test_a_few_draws(seed: int) -> None:
    check_seed(seed)


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.thorough if seed >= 116 else ()) for seed in range(100, 140)]
)
def test_more_draws(seed: int) -> None:
    check_seed(seed)


def test_programs_in_threads_share_no_numbers() -> None:
    program, drawn = compiled_of(lambda: torch.rand(1000, dtype=torch.float64)), list[Tensor]()
    program()
    torch.manual_seed(2)

    def run() -> None:
        drawn.extend(program() for _ in range(50))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.manual_seed(2)
    expected = torch.rand(4 * 50, 1000, dtype=torch.float64)
    assert sorted(one.tolist() for one in drawn) == sorted(expected.tolist())


def test_forks_of_the_generator_and_checkpoints() -> None:
    """`fork_rng` and checkpoints take the state and put it back: around programs and inside of them."""
    program, x = compiled_of(lambda x: functional.dropout(x, 0.3, True) * 2), torch.ones(40, 50)
    torch.manual_seed(9)
    first = program(x)
    torch.manual_seed(9)
    with torch.random.fork_rng():
        assert torch.equal(program(x), first)
    assert torch.equal(program(x), first)

    leaf, seen = x.clone().requires_grad_(), list[Tensor]()

    def block(x: Tensor) -> Tensor:
        y = program(x)
        seen.append(y.detach())
        return y.sin()

    torch.utils.checkpoint.checkpoint(block, leaf, use_reentrant=False).sum().backward()
    assert len(seen) == 2 and torch.equal(*seen)
