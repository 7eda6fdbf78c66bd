"""What a step costs the host: from the call until it returns, without waiting for the device.

Units: microseconds, unless it says otherwise.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter

import torch

from benchmarks.case import Step
from benchmarks.training_models import Sizes, forward_backward, made

Compile = Callable[[Callable[..., object], str], Callable[..., object]]
"""What a side makes of a function: `compile(function, side)`."""
Times = dict[str, dict[str, float]]
"""By row and side."""

WARM_UP = 5
"""Steps of each side before its time counts; the first ones compile.

Source: torch compiles at the first step, and once more if it sees something change; nothing is left after the third.
"""
ROUNDS = 200
"""Samples of each side, one step each.

Source: a bound against the time that measuring takes: the longest step takes a few milliseconds.
"""

SMALL: Mapping[str, Sizes] = {
    "mlp": Sizes(layers=8, width=64, batch=8),
    "gpt2": Sizes(layers=1, width=64, batch=2, sequence=32, heads=2),
}
"""Models so small that the device is done long before the host is."""


def host_samples(sides: Mapping[str, Step], between: Callable[[], object], rounds: int = ROUNDS) -> dict[str, float]:
    """The median time until a step returns, by side. The sides take turns, and the one that begins changes.

    `between` is called before each step, untimed: it waits for the device, so that no step finds a full queue.
    """
    names = list(sides)
    samples: dict[str, list[float]] = {name: [] for name in names}
    for number in range(WARM_UP + rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            between()
            start = perf_counter()
            sides[name]()
            taken = perf_counter() - start
            if number >= WARM_UP:
                samples[name].append(taken * 1e6)
    between()
    return {name: statistics.median(taken) for name, taken in samples.items()}


def host_times(sides: Sequence[str], compiled: Compile, device: str, rounds: int = ROUNDS) -> Times:
    """The host's time for a forward pass without autograd, and for a training step (forward, loss, backward) with
    autograd's part in it, of eager and `sides`: by model and kind (`mlp training step`).
    """
    found: Times = {}
    for name, sizes in SMALL.items():
        model, inputs = made(name, sizes, device)
        between = partial(_rest, model, device)
        torch._dynamo.reset()
        functions = {side: model if side == "eager" else compiled(model, side) for side in ("eager", *sides)}
        with torch.no_grad():
            unlabelled = {key: value for key, value in inputs.items() if key != "labels"}
            forward = {side: partial(function, **unlabelled) for side, function in functions.items()}
            found[f"{name} forward"] = host_samples(forward, between, rounds)
        training = {side: partial(forward_backward, function, inputs) for side, function in functions.items()}
        found[f"{name} training step"] = host_samples(training, between, rounds)
    return found


def _rest(model: torch.nn.Module, device: str) -> None:
    """What is not counted as a part of a step."""
    model.zero_grad(set_to_none=True)
    if device != "cpu":
        torch.cuda.synchronize()
