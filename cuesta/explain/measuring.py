"""How long the steps of a program take, one by one, and the whole of it.

On a CPU each step is a call between two readings of a clock. On CUDA a step is between two events, while the device is
kept busy in front of them, so that no step waits for Python; events add about a microsecond.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter, perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

import torch

from cuesta.dialects.core.entry import entry_function, written_arguments
from cuesta.explain.timed_writer import CALL, TICK, TOCK

if TYPE_CHECKING:
    from cuesta.explain.watch import Watched

RUNS: Final = 15
"""Of each program at most; fewer where they would take longer than `SECONDS`."""
FEWEST: Final = 3
WARM: Final = 2
SECONDS: Final = 0.25
"""For the steps of one program, and for its whole."""
SPIN: Final = 40_000_000
"""Clocks that a CUDA device is kept busy before the first step: some 20 ms, in which Python has called hundreds."""


@dataclass(frozen=True)
class Measured:
    """Times of a program. Units: µs."""

    steps: dict[int, float] = field(default_factory=dict[int, float])
    """Medians, by the numbers of the steps."""
    whole: float | None = None
    runs: int = 0
    clock: str = ""
    peak_bytes: int | None = None
    why: str = ""
    """Why nothing was measured."""


class _Clock:
    """The readings of a CPU's clock."""

    def __init__(self) -> None:
        self.times: dict[int, list[float]] = {}
        self.started = 0

    def tick(self, step: int) -> None:
        self.started = perf_counter_ns()

    def tock(self, step: int) -> None:
        self.times.setdefault(step, []).append((perf_counter_ns() - self.started) / 1e3)

    def begin(self) -> None:
        """Before a run."""

    def end(self) -> None:
        """After one."""


class _CudaClock(_Clock):
    """Events of a CUDA device."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device = device
        self.pending: list[tuple[int, Any, Any]] = []

    def begin(self) -> None:
        torch.cuda.synchronize(self.device)
        torch.cuda._sleep(SPIN)  # pyright: ignore[reportPrivateUsage]  # what PyTorch's own tests keep a device busy by

    def tick(self, step: int) -> None:
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        self.pending.append((step, first, last))
        first.record()

    def tock(self, step: int) -> None:
        self.pending[-1][2].record()

    def end(self) -> None:
        torch.cuda.synchronize(self.device)
        for step, first, last in self.pending:
            self.times.setdefault(step, []).append(first.elapsed_time(last) * 1e3)
        self.pending.clear()


def measure(watched: Watched) -> Measured:
    """Times a program that has run, on what it last ran on. What it writes to is copied first.

    Where it cannot be run again, that says why.
    """
    function, arguments = watched.function, watched.arguments
    namespace = getattr(function, "__globals__", {})
    if function is None or CALL not in namespace:
        return Measured(why="the program has no text that runs step by step")
    if arguments is None:
        return Measured(why="the program has not run")
    device = _device_of(arguments, watched)
    clock = _CudaClock(device) if device.type == "cuda" else _Clock()
    namespace[TICK], namespace[TOCK] = clock.tick, clock.tock
    module = watched.module
    written = () if module is None else written_arguments(entry_function(module))
    try:
        with torch.no_grad():
            whole = _repeat(lambda: function(_fresh(arguments, written)), device)
            steps = _steps(namespace[CALL], arguments, written, clock)
    except (RuntimeError, IndexError, ValueError, TypeError) as error:  # what its operators raise
        return Measured(why=f"it cannot be run again: {error}")
    medians = {step: statistics.median(times[WARM:] or times) for step, times in clock.times.items()}
    how = "CUDA events" if device.type == "cuda" else "perf_counter"
    return Measured(medians, whole, steps, how, _peak(function, arguments, written, device))


def _steps(
    function: Callable[[list[Any]], Any], arguments: Sequence[Any], written: Sequence[int], clock: _Clock
) -> int:
    """Runs step by step; gives how often, but for the first times."""
    deadline = perf_counter() + SECONDS
    runs = 0
    while runs < WARM + RUNS and (runs < WARM + FEWEST or perf_counter() < deadline):
        given = _fresh(arguments, written)
        clock.begin()
        function(given)
        clock.end()
        runs += 1
    return runs - WARM


def _repeat(call: Callable[[], Any], device: torch.device) -> float:
    """The median time of a call in µs, each waited for."""
    times: list[float] = []
    deadline = perf_counter() + SECONDS
    while len(times) < WARM + RUNS and (len(times) < WARM + FEWEST or perf_counter() < deadline):
        start = perf_counter_ns()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append((perf_counter_ns() - start) / 1e3)
    return statistics.median(times[WARM:])


def repeat(call: Callable[[], Any], device: torch.device) -> float:
    """As `_repeat`: the median time of a call in µs, each waited for."""
    return _repeat(call, device)


def _fresh(arguments: Sequence[Any], written: Sequence[int]) -> list[Any]:
    given = list(arguments)
    for position in written:
        if isinstance(given[position], torch.Tensor):
            given[position] = given[position].clone()
    return given


def _peak(
    function: Callable[[list[Any]], Any], arguments: Sequence[Any], written: Sequence[int], device: torch.device
) -> int | None:
    if device.type != "cuda":
        return None
    given = _fresh(arguments, written)
    torch.cuda.synchronize(device)
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    function(given)
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before


def _device_of(arguments: Sequence[Any], watched: Watched) -> torch.device:
    tensors = [one.device for one in arguments if isinstance(one, torch.Tensor)]
    others = [one for one in tensors if one.type != "cpu"]
    return (others or tensors or [torch.device(watched.traced.device or "cpu")])[0]
