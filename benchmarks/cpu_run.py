"""Random programs measured on the CPU, each in a process that may be killed: what `make bench-search` asks.

On one thread the clock is the processor time of the process, which other users of the machine do not add to; on several
it is the wall's. What is slow is measured twice, and the better time of both is believed.

Units: milliseconds, unless it says otherwise.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import tempfile
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from time import perf_counter, process_time
from typing import Any

import torch

from benchmarks.case import Prepared, Step
from benchmarks.gpu import Row, better
from benchmarks.random_programs import Program
from benchmarks.timing import copy_of, in_turns

SECONDS = 0.1
"""For the samples of each side."""
BETWEEN = 2**22
"""Bytes that are moved before each call whose cost is told: what the second-level cache holds, and more."""
STARTING = 120
"""Seconds in which a process has to say that it is ready."""
LINE = 200
"""The most characters of a line that tells of progress."""
ERROR = 600
"""The most characters of an error's text."""


class Run:
    """Rows of programs by line, as those of `gpu.Run`: `eager_ms`, `cuesta_ms`, `inductor_ms`, `copy_ms`;
    `call_ms` is what any compiled function costs to call.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.rows: dict[str, Row] = {}
        self.start = perf_counter()
        self._process: Any = None
        self._folder = tempfile.TemporaryDirectory(prefix="cuesta-bench-", ignore_cleanup_errors=True)
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{self._folder.name}/inductor"

    def told(self, text: str) -> None:
        """Progress."""
        print(f"[{perf_counter() - self.start:5.0f} s] {text}", flush=True)

    def measure(self, lines: Sequence[str]) -> None:
        """Measures programs, one after the other. One that takes too long has a row that says so."""
        for line in lines:
            row = self.rows[line] = self._answer(line)
            against, problem = better(row), row.get("error") or row.get("unsuitable") or row["errors"] or ""
            self.told(f"{'-' if against is None else f'{against:.2f}'}  {line}  {problem}".replace("\n", " ")[:LINE])

    def _answer(self, line: str) -> Row:
        if self._process is None or not self._process.is_alive():
            self.stop()
            context = multiprocessing.get_context("spawn")
            self.pipe: Connection
            self.pipe, other = context.Pipe()
            sides = ("cuesta",) if self.options.skip_inductor else ("inductor", "cuesta")
            self._process = context.Process(
                target=serve, args=(other, sides, self.options.threads, self.options.below), daemon=True
            )
            self._process.start()
            other.close()
            if not self.pipe.poll(STARTING):
                self.stop()
                return {"error": f"no process was ready in {STARTING} s"}
            self.pipe.recv()
        try:
            self.pipe.send(line)
            stage, until = "eager", perf_counter() + self.options.program_seconds
            while self.pipe.poll(max(0.0, until - perf_counter())):
                answer = self.pipe.recv()
                if not isinstance(answer, str):
                    return answer
                stage = answer
            self.stop()
            return {"error": f"it took longer than {self.options.program_seconds} s; at last: {stage}"}
        except (EOFError, OSError):
            self.stop()
            return {"error": "the process died"}

    def stop(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None


def serve(connection: Connection, sides: tuple[str, ...], threads: int, below: float) -> None:
    """Answers lines with rows until there are no more."""
    torch.set_num_threads(threads)
    for side in sides:  # what a compiler does once in a process is no part of the first program's time
        torch.compile(lambda x: x + 1, backend=side)(torch.ones(8))
    calls = {training: call_cost(training, threads) for training in (False, True)}
    connection.send({})
    while (line := connection.recv()) is not None:
        try:
            training = "train" in Program.parse(line).marks
            row = row_of(line, sides, threads, below, connection.send)
            connection.send(row | {"call_ms": calls[training]})
        except Exception as error:  # noqa: BLE001 - told, and the next program is tried
            connection.send({"error": f"{type(error).__name__}: {error}"[:ERROR]})


def call_cost(training: bool, threads: int) -> float:
    """What a call of a compiled function costs beside eager, where data has taken the caches from Python: twice as much
    as where it has not.
    """
    prepared = Prepared(Program.parse("f32 8 train | relu" if training else "f32 8 | relu").case("cpu"))
    sides = {"eager": prepared.function, "cuesta": torch.compile(prepared.function, backend="cuesta")}
    steps = {side: prepared.step(function) for side, function in sides.items()}
    copy = copy_of(BETWEEN)

    def after_a_copy(step: Step) -> Step:
        return lambda: (copy(), step())

    with torch.set_grad_enabled(training):
        times = _times({side: after_a_copy(step) for side, step in steps.items()}, threads)
    return max(0.0, times["cuesta_ms"] - times["eager_ms"])


def row_of(line: str, sides: Sequence[str], threads: int, below: float, told: Callable[[str], None]) -> Row:
    """What a program takes on every side, and what is wrong with what Cuesta gives. `unsuitable` says why eager cannot
    run it; then there is nothing else. What is done next is `told`, for who waits in vain.
    """
    torch._dynamo.reset()
    prepared = Prepared(Program.parse(line).case("cpu"))
    steps: dict[str, Step] = {"eager": prepared.step(prepared.function)}
    result: Row = {"errors": {}}
    with torch.set_grad_enabled(prepared.case.training), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            steps["eager"]()
        except (RuntimeError, TypeError, IndexError, ValueError) as error:
            return {"unsuitable": f"{type(error).__name__}: {error}"[:ERROR]}
        for side in sides:
            told(f"compiling and comparing {side}")
            _compile(prepared, side, steps, result)
        told("measuring")
        moved = prepared.bytes_moved()
        steps["copy"] = copy_of(moved)
        result["bytes"] = moved
        result |= _times(steps, threads)
        # Only a time that repeats is believed: of each side the better one.
        if (found := better(result)) is not None and found < below:
            again = _times(steps, threads)
            result |= {key: min(value, result[key]) for key, value in again.items()}
    return result


def _compile(prepared: Prepared, side: str, steps: dict[str, Step], result: Row) -> None:
    """Adds the step of a side, if it has one; what Cuesta gives is compared with float64."""
    import cuesta
    from cuesta.testing import assert_close_to_float64

    cuesta.clear_records()
    function = torch.compile(prepared.function, backend=side, dynamic=False)
    step, start = prepared.step(function), perf_counter()
    try:
        step()
        result[f"{side}_compile_seconds"] = perf_counter() - start
        steps[side] = step
        if side == "cuesta":
            made = cuesta.statistics()
            result |= {"kernels": made.kernels, "library_calls": made.library_calls}
            result["fallbacks"] = dict(made.fallbacks)
            assert_close_to_float64(function, prepared.function, prepared.inputs, gradients=prepared.case.training)
    except AssertionError as error:
        result["errors"][side] = f"wrong: {error}"[:ERROR]
    except Exception as error:  # noqa: BLE001 - whatever a compiler throws is its result
        result["errors"][side] = f"{type(error).__name__}: {error}"[:ERROR]


def _times(steps: dict[str, Step], threads: int) -> Row:
    samples = in_turns(steps, SECONDS, clock=process_time if threads == 1 else perf_counter)
    return {f"{side}_ms": statistics.median(times) for side, times in samples.milliseconds.items()}
