"""Random small programs out of what fusion has to cope with: views, broadcasts, reductions, gathers, pads and calls."""

from __future__ import annotations

import random
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

_SHAPES = [(4, 6), (2, 3, 4), (6,), (1, 6), (3, 1, 4), (2, 12), (24,), (5, 0), (4, 1), ()]
_SHAPES_OF_24 = [(4, 6), (2, 3, 4), (2, 12), (24,), (6, 2, 2)]
_MOST_ELEMENTS = 600

Step = Callable[[random.Random, Tensor, list[Tensor]], Tensor]


def _other(rng: random.Random, x: Tensor, pool: list[Tensor]) -> Tensor:
    fitting = [y for y in pool if _broadcasts(x, y)]
    return rng.choice(fitting)


def _broadcasts(x: Tensor, y: Tensor) -> bool:
    sizes = zip(reversed(x.shape), reversed(y.shape), strict=False)
    return all(a == b or 1 in (a, b) for a, b in sizes)


def _axis(rng: random.Random, x: Tensor) -> int:
    return rng.randrange(x.dim())


def _permuted(rng: random.Random, x: Tensor, pool: list[Tensor]) -> Tensor:
    return x.permute(rng.sample(range(x.dim()), x.dim()))


def _picked(rng: random.Random, x: Tensor, pool: list[Tensor]) -> Tensor:
    return x[torch.arange(3) % x.shape[0]]


def _added_to(rng: random.Random, x: Tensor, pool: list[Tensor]) -> Tensor:
    axis = _axis(rng, x)
    rows = torch.arange(x.shape[axis]) % 2
    return x.index_add(axis, rows, x * 0.5)


def _scattered(rng: random.Random, x: Tensor, pool: list[Tensor]) -> Tensor:
    axis = _axis(rng, x)
    index = (x > 0).long() * (x.shape[axis] - 1)
    return x.scatter_reduce(axis, index, x.abs(), rng.choice(["sum", "amax"]), include_self=rng.random() < 0.5)


def _gathered_in_rows(rng: random.Random, x: Tensor, pool: list[Tensor]) -> Tensor:
    logarithms = torch.log_softmax(x, -1)
    return logarithms.gather(-1, x.argmax(-1, keepdim=True)) + logarithms.sum(-1, keepdim=True)


def _normalised_by_channel(rng: random.Random, x: Tensor, pool: list[Tensor]) -> Tensor:
    channel = _axis(rng, x)
    others = [axis for axis in range(x.dim()) if axis != channel] or [channel]
    distance = x - x.mean(others, keepdim=True)
    return torch.relu(distance * (distance.square().mean(others, keepdim=True) + 1).rsqrt())


ANY: list[Step] = [
    lambda rng, x, pool: torch.relu(x) + 1,
    lambda rng, x, pool: x.exp(),
    lambda rng, x, pool: x + _other(rng, x, pool),
    lambda rng, x, pool: x * _other(rng, x, pool),
    lambda rng, x, pool: x.reshape(-1),
    lambda rng, x, pool: torch.where(x > 0, x, -x * 0.5),
]
WITH_AXES: list[Step] = [
    _permuted,
    lambda rng, x, pool: x.sum(_axis(rng, x), keepdim=rng.random() < 0.5),
    lambda rng, x, pool: torch.flip(x, [_axis(rng, x)]),
    lambda rng, x, pool: functional.pad(x, (rng.randint(0, 2), rng.randint(0, 2)), value=0.5),
    lambda rng, x, pool: torch.cat([x, x * 2], _axis(rng, x)),
    lambda rng, x, pool: x[..., rng.randint(0, 1) :: rng.randint(1, 2)],
    lambda rng, x, pool: x.cumsum(_axis(rng, x)),
    lambda rng, x, pool: torch.cummax(x, _axis(rng, x))[0],
]
WITH_ELEMENTS: list[Step] = [
    lambda rng, x, pool: x.amax(_axis(rng, x), keepdim=True),
    lambda rng, x, pool: x - x.mean(-1, keepdim=True),
    lambda rng, x, pool: torch.softmax(x, -1),
    lambda rng, x, pool: x.argmax(-1, keepdim=True) + x,
    _picked,
    _gathered_in_rows,
    _normalised_by_channel,
    lambda rng, x, pool: (torch.relu(x) - x.mean(-1, keepdim=True)).sum() + x,
    _added_to,
    _scattered,
]


def program(seed: int) -> tuple[Callable[..., tuple[Tensor, ...]], list[Tensor]]:
    """A function and inputs for it. It takes the same steps every time."""
    outer = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    inputs = [torch.randn(outer.choice(_SHAPES), generator=generator) for _ in range(outer.randint(1, 3))]
    steps = outer.randint(3, 12)

    def function(*arguments: Tensor) -> tuple[Tensor, ...]:
        rng = random.Random(seed)
        pool = list(arguments)
        for _ in range(steps):
            x = rng.choice(pool[-4:])
            choices = [*ANY, *(WITH_AXES if x.dim() else ()), *(WITH_ELEMENTS if x.dim() and x.numel() else ())]
            if x.numel() == 24:
                shape = rng.choice(_SHAPES_OF_24)
                choices.append(lambda rng, x, pool, shape=shape: x.reshape(shape))
            y = rng.choice(choices)(rng, x, pool)
            if y.numel() <= _MOST_ELEMENTS:
                pool.append(y)
        made = pool[len(arguments) :] or [pool[0] + 1]
        return tuple(rng.sample(made, min(len(made), rng.randint(1, 3))))

    return function, inputs


def changing_program(seed: int) -> tuple[Callable[..., tuple[Tensor, ...]], list[Tensor]]:
    """A random program that also writes to inputs, to each of them once: what it computed, or another input."""
    compute, inputs = program(seed)
    inputs += [torch.randn(x.shape, generator=torch.Generator().manual_seed(seed + 1)) for x in inputs[:2]]
    rng = random.Random(seed)
    sources = rng.sample(range(len(inputs)), len(inputs))

    def function(*arguments: Tensor) -> tuple[Tensor, ...]:
        results = [x.clone() for x in compute(*arguments)]
        values = list(arguments)
        for position, argument in enumerate(arguments):
            fitting = [x for x in [*results, arguments[sources[position]]] if x.shape == argument.shape]
            values[position] = fitting[0] if fitting else argument.flip(0) + argument if argument.dim() else -argument
        for argument, value in zip(arguments, values, strict=True):
            argument.copy_(value)
        return tuple(results[1:])

    return function, inputs
