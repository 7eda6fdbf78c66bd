"""A process that compiles cases for a CUDA device, checks them, and measures them when it is told that it is alone.

Units: milliseconds, unless it says otherwise.
"""

from __future__ import annotations

import contextlib
import copy
import statistics
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from itertools import cycle
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from benchmarks.case import Case, Prepared, Step
from benchmarks.contraction_cases import contraction_cases
from benchmarks.gpu import MODES
from benchmarks.gpu_cases import kernel_cases, model_cases
from benchmarks.host_time import host_times
from benchmarks.random_programs import Program
from benchmarks.timing import copy_of, in_turns

ROUNDS = 15
WARM_UP = 2
FLUSHED = 2**28
"""Bytes that are written before each sample: more than the second-level cache holds."""
AHEAD = 3_000_000
"""Cycles for which the device is kept busy before each sample, so that the host has issued all of it by then."""
CAPTURED = 4
"""Calls after which a graph is captured, for any side: one that compiles, one or two that warm up, one that captures.

Source: from reading both.
"""
SAMPLED_SECONDS = 20.0
"""After these, no further round of samples is begun."""
MODEL_SECONDS = 0.25
ERROR = 600
"""The most characters of an error's text."""

LARGE = 2**32
"""Bytes of inputs: a check in f64 takes up to sixteen times as many."""

Result = dict[str, Any]


class Worker:
    """What it holds: the cases it has compiled, ready to be measured."""

    def __init__(self, sides: tuple[str, ...], texts: str | None) -> None:
        self.sides = sides
        self.cases: Mapping[str, Case] = {**kernel_cases(), **contraction_cases(), **model_cases()}
        self.ready: dict[str, tuple[Prepared, dict[str, Step]]] = {}
        self.moving: dict[str, dict[str, Step]] = {}
        """By case, the steps of sides with CUDA graphs on inputs that lie elsewhere at every call."""
        self.texts = Path(texts) if texts else None
        torch._dynamo.config.recompile_limit = 1000  # cases share code, and what was compiled is kept
        torch._dynamo.config.accumulated_recompile_limit = 10_000
        if self.texts:
            self.texts.mkdir(parents=True, exist_ok=True)
            _keep_texts(self.texts)

    def warm_up(self) -> None:
        """Imports and starts what every compiler needs once in a process."""
        for side in self.sides:
            compiled(lambda x: x + 1, side)(torch.ones(8, device="cuda"))
        torch.cuda.synchronize()

    def compile(self, name: str) -> Result:
        """Makes a case, compiles it with every side, and checks what Cuesta gives."""
        import cuesta

        case = self.cases[name] if name in self.cases else Program.parse(name).case()
        prepared = Prepared(case, "cuda")
        result: Result = {"errors": {}}
        steps: dict[str, Step] = {"eager": prepared.step(prepared.function)}
        with torch.set_grad_enabled(case.training), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            steps["eager"]()
            torch.cuda.synchronize()
            for side in self.sides:
                cuesta.clear_records()
                try:
                    function, steps[side], result[f"{side}_compile_seconds"] = _first_step(prepared, side)
                    if side.endswith("-graphs"):
                        self.moving.setdefault(name, {})[f"{side}-moving"] = moving_step(prepared, function)
                    if side == "cuesta":
                        made = cuesta.statistics()
                        result |= {"kernels": made.kernels, "library_calls": made.library_calls}
                        result |= {"fallbacks": dict(made.fallbacks), "stage_seconds": made.seconds}
                    _check(prepared, function, side)
                except AssertionError as error:
                    result["errors"][side] = f"wrong: {error}"[:ERROR]
                except Exception as error:  # noqa: BLE001 - whatever a compiler throws is its result
                    steps.pop(side, None)
                    result["errors"][side] = f"{type(error).__name__}: {error}"[:ERROR]
        if name in self.moving:
            _forget(prepared, steps)
        if case.bound == "memory":
            result["bytes"] = prepared.bytes_moved()
        self.ready[name] = prepared, steps
        torch.cuda.empty_cache()
        return result

    def compile_more(self, side: str, name: str) -> Result:
        """Compiles a case with one more side, and checks what Cuesta gives. Requires: as `measure`."""
        prepared, steps = self.ready[name]
        with torch.set_grad_enabled(prepared.case.training), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function, step, seconds = _first_step(prepared, side)
            _check(prepared, function, side)
        steps[side] = step
        return {f"{side}_compile_seconds": seconds}

    def measure(self, name: str) -> Result:
        """The time of every side of a case. Requires: nobody else uses the device."""
        prepared, steps = self.ready.pop(name)
        moved = None
        with torch.set_grad_enabled(prepared.case.training):
            if isinstance(prepared.function, torch.nn.Module):
                samples = in_turns(steps, MODEL_SECONDS, torch.cuda.synchronize).milliseconds
                if moving := self.moving.pop(name, None):
                    _forget(prepared, moving)
                    samples |= in_turns(moving, MODEL_SECONDS, torch.cuda.synchronize).milliseconds
            elif prepared.case.bound == "memory":
                moved = prepared.bytes_moved()
                samples = device_times({**steps, "copy": copy_of(moved, "cuda")})
            else:
                samples = device_times(steps)
        result = {f"{side}_ms": statistics.median(times) for side, times in samples.items()}
        if moved:
            result["copy_bandwidth"] = moved / (result["copy_ms"] * 1e-3)
        del prepared, steps
        torch.cuda.empty_cache()
        return result


def _first_step(prepared: Prepared, side: str) -> tuple[Callable[..., Any], Step, float]:
    """The function as a side compiles it, its step, and the seconds that the first one took."""
    function = compiled(prepared.function, side)
    step = prepared.step(function)
    start = perf_counter()
    step()
    torch.cuda.synchronize()
    return function, step, perf_counter() - start


def moving_step(prepared: Prepared, function: Callable[..., Any]) -> Step:
    """As `prepared.step`, with inputs that lie elsewhere than those of the call before, as those of users do."""
    other = copy.copy(prepared)
    other.inputs = tree_map(lambda one: one.clone() if isinstance(one, torch.Tensor) else one, prepared.inputs)
    steps = cycle([prepared.step(function), other.step(function)])
    return lambda: next(steps)()


def _forget(prepared: Prepared, steps: Mapping[str, Step]) -> None:
    """Compiles all sides anew: a capture remembers inputs that lay elsewhere, and copies them, as those were with which
    the check called one of the sides.
    """
    torch._dynamo.reset()
    with torch.set_grad_enabled(prepared.case.training), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in steps.values():
            for _ in range(CAPTURED):
                step()
    torch.cuda.synchronize()


def _check(prepared: Prepared, function: Callable[..., Any], side: str) -> None:
    """Holds what Cuesta made to what the case computes in f64. Which of a library's convolutions round to TF32 depends
    on the layout that they are given, and is no business of ours: none does here. What is too large for that is held to
    eager's result, to a ten-thousandth of its largest number.

    Errors: AssertionError.
    """
    if not side.startswith("cuesta"):
        return
    if sum(tensor.nbytes for tensor in prepared.tensors()) > LARGE:
        steps = (prepared.step(side)() for side in (function, prepared.function))
        for ours, expected in zip(*map(tree_leaves, steps), strict=True):
            if expected is None:
                continue
            assert ours.shape == expected.shape and ours.dtype == expected.dtype, f"{ours.shape}, not {expected.shape}"
            error, largest = (float(one.detach().abs().max()) for one in (ours - expected, expected))
            assert error <= 1e-4 * largest, f"{error} beside eager, whose largest number is {largest}"
        return
    from cuesta.testing import assert_close_to_float64

    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        assert_close_to_float64(function, prepared.function, prepared.inputs, gradients=prepared.case.training)


def compiled(function: Callable[..., Any], side: str) -> Callable[..., Any]:
    """A function as a side compiles it: `cuesta`, `inductor`, with a mode behind it (`cuesta-graphs`)."""
    backend, *mode = side.split("-")
    return torch.compile(function, backend=backend, mode=MODES[mode[0]] if mode else None, dynamic=False)


def _keep_texts(folder: Path) -> None:
    """Writes every kernel's text to a file of this process."""
    from cuesta.targets.triton import build

    emit_kernel = build.emit_kernel
    path = folder / f"kernels-{torch.multiprocessing.current_process().pid}.txt"

    def kept(func: Any) -> Any:
        kernel = emit_kernel(func)
        with path.open("a") as file:
            file.write(f"# warps {kernel.warps}\n{kernel.source}\n")
        return kernel

    build.emit_kernel = kept


def device_times(sides: Mapping[str, Step], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Milliseconds on the device by side and round, in turns, with cold caches and no idle moment before; of what takes
    seconds, as many rounds as there is time for, one at least.
    """
    flushed = torch.empty(FLUSHED, dtype=torch.int8, device="cuda")
    names = list(sides)
    found: dict[str, list[float]] = {name: [] for name in names}
    begin = perf_counter()
    for number in range(rounds + WARM_UP):
        if number > WARM_UP and perf_counter() - begin > SAMPLED_SECONDS:
            break
        first = number % len(names)
        for name in names[first:] + names[:first]:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            flushed.zero_()
            torch.cuda._sleep(AHEAD)
            start.record()
            sides[name]()
            end.record()
            torch.cuda.synchronize()
            if number >= WARM_UP:
                found[name].append(start.elapsed_time(end))
    return found


# --- What a launch costs the host -------------------------------------------------------------------------------------


def launch_costs(sides: tuple[str, ...]) -> Result:
    """Microseconds of the host per kernel launch, everything that goes with one included (its output's memory, say).

    From chains of two lengths, so that what a call costs once drops out.
    """
    import cuesta

    def chain(length: int) -> Callable[[torch.Tensor], torch.Tensor]:
        def function(x: torch.Tensor) -> torch.Tensor:
            for step in range(length):
                x = x.softmax(step % 2) * 3.0
            return x

        return function

    x = torch.randn(64, 64, device="cuda")
    found: Result = {}
    with torch.no_grad():
        for side in ("eager", *sides):
            torch._dynamo.reset()
            seconds: list[float] = []
            kernels: list[int] = []
            for length in (4, 40):
                cuesta.clear_records()
                function = chain(length) if side == "eager" else compiled(chain(length), side)
                function(x)
                kernels.append(cuesta.statistics().kernels if side == "cuesta" else length)
                seconds.append(_host_seconds(lambda function=function: function(x)))
            more = kernels[1] - kernels[0]
            found[side] = {"us_per_step": (seconds[1] - seconds[0]) * 1e6 / 36, "us_of_4": seconds[0] * 1e6}
            if more:
                found[side]["us_per_launch"] = (seconds[1] - seconds[0]) * 1e6 / more
            found[side]["kernels"] = kernels
    return found


def _host_seconds(call: Step) -> float:
    """Until a call returns; the device never falls so far behind that the host has to wait."""
    samples: list[float] = []
    for _ in range(30):
        torch.cuda.synchronize()
        start = perf_counter()
        for _ in range(5):
            call()
        samples.append((perf_counter() - start) / 5)
    torch.cuda.synchronize()
    return statistics.median(samples)


# --- The process ------------------------------------------------------------------------------------------------------


def serve(connection: Connection, sides: tuple[str, ...], texts: str | None) -> None:
    """Answers requests (verb, case) until there are no more."""
    worker = Worker(sides, texts)
    worker.warm_up()
    connection.send({})
    verbs: dict[str, Callable[[str], Result]] = {
        "compile": worker.compile,
        **{
            f"compile {side}-{mode}": partial(worker.compile_more, f"{side}-{mode}") for side in sides for mode in MODES
        },
        "measure": worker.measure,
        "launch costs": lambda _: launch_costs(sides),
        "host times": lambda _: host_times(sides, compiled, "cuda"),
    }
    answer(connection, verbs)


def answer(connection: Connection, verbs: Mapping[str, Callable[[str], Result]]) -> None:
    """Answers requests (verb, case) until there are no more, or nobody asks any longer."""
    with contextlib.suppress(EOFError):
        while (request := connection.recv()) is not None:
            verb, name = request
            try:
                connection.send(verbs[verb](name))
            except Exception as error:  # noqa: BLE001 - told, and the next case is tried
                connection.send({"error": f"{type(error).__name__}: {error}"[:ERROR]})
