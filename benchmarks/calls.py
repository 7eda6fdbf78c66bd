"""What a call of a small compiled graph takes: beside eager, Dynamo's floor, and each short cut left out.

The floor is the same function compiled by a backend that gives out results which it has: Dynamo's own share, which is
the same for all backends. All sides of a row are called in turns, and a row is the median and the least of the rounds,
in microseconds. `--parts` takes the call of one graph apart, from the machine code outwards.
"""

from __future__ import annotations

import argparse
import functools
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from time import perf_counter
from types import FunctionType
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from cuesta import backend, short_calls
from cuesta.targets.cpu import python_calls
from cuesta.targets.cpu.target import CpuTarget

Call = Callable[[], object]
CALLS = 200
"""Calls of a round. Source: 2 to 40 ms, less than others have a processor for before it is ours again."""
FLOOR, INDUCTOR = "floor", "inductor"
LEFT_OUT = ("short calls", "Python's functions", "scratch memory", "bare frames")
"""The short cuts. `without short calls` is a side that does without one; `before` does without all."""
WITHOUT = "without "


def update(cache: Tensor, place: Tensor, values: Tensor) -> None:
    """A static cache's update."""
    cache.index_copy_(1, place, values)


def pointwise(x: Tensor) -> Tensor:
    """A function of a few numbers."""
    return torch.sin(x) * 2 + 1


class Mlp(nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Rows of 16 numbers to rows of 4."""
        return self.second(torch.relu(self.first(x)))


def own(function: Callable[..., Any]) -> FunctionType:
    """The function with code of its own: Dynamo keeps what it has compiled by code, for all backends together."""
    assert isinstance(function, FunctionType)
    return FunctionType(function.__code__.replace(), function.__globals__, function.__name__)


def with_nothing(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """A backend whose functions compute once, and then give that out."""
    known: list[Any] = []

    def call(*args: Any) -> Any:
        if not known:
            known.append(gm.forward(*args))
        return known[0]

    return call


@contextmanager
def without(*left_out: str) -> Iterator[None]:
    """Compiles without these short cuts."""
    nothing: Any = nullcontext()
    with (
        mock.patch.object(short_calls, "READ", {}) if LEFT_OUT[0] in left_out else nothing,
        mock.patch.object(python_calls, "has_python", lambda: False) if LEFT_OUT[1] in left_out else nothing,
        mock.patch.object(CpuTarget, "scratch", 0) if LEFT_OUT[2] in left_out else nothing,
        mock.patch.object(backend, "leave_out_ranges", lambda: None) if LEFT_OUT[3] in left_out else nothing,
    ):
        yield


def compiled(function: Any, side: str) -> Any:
    """A function or a model as a side calls it, which is compiled at the first call."""
    if side == "eager":
        return function
    if side in (FLOOR, INDUCTOR):
        return torch.compile(function, backend=with_nothing if side == FLOOR else side)
    return torch.compile(function, backend="cuesta", options={"cache": False})


def of_update(side: str) -> Call:
    """An update of 16 MB."""
    cache, place, values = torch.zeros(1, 1024, 4096), torch.tensor([3]), torch.randn(1, 1, 4096)
    function = compiled(own(update), side)
    return functools.partial(function, cache, place, values)


def of_pointwise(side: str) -> Call:
    """A function of 16 numbers."""
    return functools.partial(compiled(own(pointwise), side), torch.randn(16))


def of_mlp(side: str) -> Call:
    """Inference."""
    kind = type("Mlp", (Mlp,), {"forward": own(Mlp.forward)})
    return functools.partial(compiled(kind(), side), torch.randn(8, 16))


def of_step(side: str) -> Call:
    """A training step: forward, a sum, backward."""
    call = of_mlp(side)
    return lambda: call().sum().backward()  # type: ignore[attr-defined]


ROWS: Mapping[str, tuple[Callable[[str], Call], bool]] = {
    "update of a 16 MB cache": (of_update, False),
    "16 numbers": (of_pointwise, False),
    "two layers, inference": (of_mlp, False),
    "two layers, training step": (of_step, True),
}
"""And whether there are gradients."""


def measured(row: str, sides: Sequence[str], rounds: int) -> Mapping[str, tuple[float, float]]:
    """The median and the least microseconds of a call, of each side."""
    make, gradients = ROWS[row]
    with torch.set_grad_enabled(gradients):
        calls: dict[str, Call] = {}
        for side in sides:
            left_out = LEFT_OUT if side == "before" else (side.removeprefix(WITHOUT),)
            with without(*left_out):
                calls[side] = make(side)
                for _ in range(20):
                    calls[side]()
        return timed(calls, rounds)


def timed(calls: Mapping[str, Call], rounds: int) -> Mapping[str, tuple[float, float]]:
    """The median and the least microseconds of each, in turns."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = perf_counter()
            for _ in range(CALLS):
                call()
            found[name].append((perf_counter() - start) / CALLS * 1e6)
    return {name: (statistics.median(times), min(times)) for name, times in found.items()}


def parts(rounds: int) -> Mapping[str, tuple[float, float]]:
    """The update, from the machine code outwards: each part calls those before it."""
    made: list[Any] = []
    shortened = short_calls.Shortening.shortened

    def kept(self: short_calls.Shortening, whole: Callable[..., Any]) -> Callable[..., Any]:
        made.append(shortened(self, whole))
        return made[-1]

    with torch.no_grad(), mock.patch.object(short_calls.Shortening, "shortened", kept):
        call = of_update("ours")
        for _ in range(3):
            call()
        assert isinstance(call, functools.partial)
        cache, place, values = given = call.args  # Dynamo gives them in this order, and the run is given the cache last
        short = made[0]
        boxed, whole = short.__globals__["boxed"], short.__globals__["whole"]
        run = boxed.__globals__["run_0"]
        addresses = [one.data_ptr() for one in (place, values, cache)]
        return timed(
            {
                "the run, checks and copies": lambda: run(*addresses),
                "our wrapper": lambda: boxed([*given]),
                "a short call": lambda: short(*given),
                "AOTAutograd's wrapper": lambda: whole(*given),
                "the user's call": call,
            },
            rounds,
        )


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=list(ROWS), metavar="ROW")
    parser.add_argument("--sides", nargs="+", default=["eager", FLOOR, "before", "ours"], metavar="SIDE",
                        help=f"also {INDUCTOR}, {', '.join(repr(WITHOUT + one) for one in LEFT_OUT)}")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no-ranges", action="store_true", help="torch._dynamo.config.record_runtime_overhead = False")
    parser.add_argument("--parts", action="store_true", help="take the call of one graph apart")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    if chosen.no_ranges:
        torch._dynamo.config.record_runtime_overhead = False
    if chosen.parts:
        for name, (median, least) in parts(chosen.rounds).items():
            print(f"{name:28} {median:7.2f} ({least:.2f})")
        return
    print(f"{'µs: median (least)':26}" + "".join(f"{side:>20}" for side in chosen.sides))
    for row in chosen.rows:
        # A training step has no floor: results that are there already have no gradients.
        sides = [side for side in chosen.sides if side != FLOOR or not ROWS[row][1]]
        found = measured(row, sides, chosen.rounds)
        shown = (f"{found[side][0]:.2f} ({found[side][1]:.2f})" if side in found else "" for side in chosen.sides)
        print(f"{row:26}" + "".join(f"{one:>20}" for one in shown), flush=True)


if __name__ == "__main__":
    main()
