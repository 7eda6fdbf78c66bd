"""Timing in turns, so that a slow moment of the machine hits all sides alike; and the machine's copy bandwidth."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import torch

SAMPLE_SECONDS = 0.003
"""One sample is at least this long, so that the clock weighs little."""
FEWEST_ROUNDS, MOST_ROUNDS = 7, 200
PATIENCE = 3
"""How many times the rounds may be repeated because others had the processor."""
TOLERATED_WAIT = 0.02
"""The part of a sample that its threads may have waited for a processor."""
LARGE_COPY = 2**29
"""Bytes of the tensor whose copy shows what memory does without caches."""


def events_in_turns(
    calls: Mapping[str, Callable[[], object]], rounds: int, repeats: int = 1, untimed: int = 0
) -> dict[str, list[float]]:
    """Milliseconds of a call of each side on a CUDA device, by round, between two events: `repeats` calls after some
    `untimed` ones. The side that begins changes from round to round.
    """
    times: dict[str, list[float]] = {side: [] for side in calls}
    sides = list(calls)
    for number in range(rounds):
        for side in sides[number % len(sides) :] + sides[: number % len(sides)]:
            for _ in range(untimed):
                calls[side]()
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            for _ in range(repeats):
                calls[side]()
            end.record()
            torch.cuda.synchronize()
            times[side].append(begin.elapsed_time(end) / repeats)
    return times


@dataclass(frozen=True, slots=True)
class Samples:
    """What was measured: milliseconds per call, by side and round."""

    milliseconds: dict[str, list[float]]
    disturbed: int
    """Rounds in which a thread of ours had to wait for a processor. They are left out, unless too few are left."""
    kept_disturbed: bool


def in_turns(
    sides: Mapping[str, Callable[[], object]],
    seconds: float,
    synchronize: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = perf_counter,
) -> Samples:
    """Samples every side, in turns, for about `seconds` each, longer if the machine is busy with other work.

    Before each sample its side is called once untimed: what the side before left in the caches is not its business.
    The side that begins changes from round to round. With another clock than the wall's, the processor's, nobody is
    waited for: what others do is not in its times.
    """
    repeats: dict[str, int] = {}
    costs: dict[str, float] = {}
    for name, call in sides.items():
        _sample(call, 2, synchronize, clock)
        costs[name] = _sample(call, 3, synchronize, clock)[0]
        repeats[name] = max(1, math.ceil(SAMPLE_SECONDS / costs[name]))
    # One round costs every side its sample and its untimed call.
    round_seconds = sum(costs[name] * (repeats[name] + 1) for name in sides)
    wanted = min(MOST_ROUNDS, max(FEWEST_ROUNDS, int(seconds * len(sides) / round_seconds)))
    names = list(sides)
    clean: list[dict[str, float]] = []
    disturbed: list[dict[str, float]] = []
    for number in range(PATIENCE * wanted):
        first = number % len(names)
        measured: dict[str, float] = {}
        quiet = True
        for name in names[first:] + names[:first]:
            sides[name]()
            taken, waited = _sample(sides[name], repeats[name], synchronize, clock)
            measured[name] = taken * 1e3
            quiet &= clock is not perf_counter or waited <= TOLERATED_WAIT * taken * repeats[name]
        (clean if quiet else disturbed).append(measured)
        if len(clean) == wanted:
            break
    enough = len(clean) >= FEWEST_ROUNDS
    chosen = clean if enough else clean + disturbed
    return Samples({name: [one[name] for one in chosen] for name in names}, len(disturbed), not enough)


def _sample(
    call: Callable[[], object], repeats: int, synchronize: Callable[[], None], clock: Callable[[], float]
) -> tuple[float, float]:
    """Seconds per call, and the seconds in all that threads of this process waited for a processor meanwhile."""
    synchronize()
    waited = _waited()
    start = clock()
    for _ in range(repeats):
        call()
    synchronize()
    taken = max(clock() - start, 1e-9)
    return taken / repeats, _waited() - waited


def _waited() -> float:
    """Seconds that this process's threads were ready to run and did not; 0 where the system does not tell."""
    total = 0
    for thread in Path("/proc/self/task").glob("*/schedstat"):
        try:
            total += int(thread.read_text().split()[1])
        except (OSError, IndexError):  # it has just ended, or the kernel keeps no such count
            continue
    return total * 1e-9


def copy_of(moved: int, device: str = "cpu") -> Callable[[], object]:
    """A `copy_` that moves so many bytes: half of them read, half of them written."""
    source = torch.ones(max(1, moved // 8), device=device)
    target = torch.zeros_like(source)
    return lambda: target.copy_(source)


def large_copy_bandwidth(device: str = "cpu") -> float:
    """Bytes read and written per second by a copy too large for the caches we know of."""
    synchronize = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
    samples = in_turns({"copy": copy_of(2 * LARGE_COPY, device)}, 0.5, synchronize)
    return 2 * LARGE_COPY / (statistics.median(samples.milliseconds["copy"]) * 1e-3)
