"""The three kinds of measurement, of one case, in this process: run time, compile time, peak memory.

Results are dictionaries of numbers, ready for JSON. Units: `…_ms` milliseconds, `…_seconds`, `…_bytes`.
"""

from __future__ import annotations

import gc
import statistics
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import torch

from benchmarks.case import Prepared
from benchmarks.memory import fresh_peak, kept_tensors, resident, rewind_peak, trim
from benchmarks.timing import copy_of, in_turns

Result = dict[str, Any]

REFUSED = "cuesta runs a graph in eager"
"""How the warning begins with which Cuesta leaves a graph to eager."""


def run_time(prepared: Prepared, sides: Sequence[str], device: str, seconds: float) -> Result:
    """Medians for eager, each compiled side and, where memory bounds the case, a copy that moves as many bytes.

    Whether Cuesta's results are right is checked first; `problem` says what is not. A side that fails is left out, and
    `errors` says why.
    """
    result: Result = {"errors": {}, "problem": None}
    steps: dict[str, Callable[[], object]] = {"eager": prepared.step(prepared.function)}
    with torch.set_grad_enabled(prepared.case.training):
        for side in sides:
            if side == "eager":
                continue
            compiled = torch.compile(prepared.function, backend=side, fullgraph=True)
            step = prepared.step(compiled)
            try:
                if side == "cuesta":
                    result |= checked(prepared, compiled)
                step()
            except Exception as error:  # noqa: BLE001 - whatever a compiler throws is its result
                result["errors"][side] = _told(error)
            else:
                steps[side] = step
        if prepared.case.bound == "memory":
            result["moved_bytes"] = prepared.bytes_moved()
            steps["copy"] = copy_of(result["moved_bytes"], device)
        synchronize = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
        samples = in_turns(steps, seconds, synchronize)
    for side, measured in samples.milliseconds.items():
        result[f"{side}_ms"] = statistics.median(measured)
        result[f"{side}_fastest_ms"] = min(measured)
    result["rounds"] = len(samples.milliseconds["eager"])
    result["disturbed_rounds"] = samples.disturbed
    result["busy"] = samples.kept_disturbed
    return result


def checked(prepared: Prepared, compiled: Callable[..., Any]) -> Result:
    """Compiles, runs once, and compares all that the call leaves behind with float64, by the measure of eager."""
    import cuesta
    from cuesta.testing import assert_close_to_float64

    def seeded(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*inputs: Any) -> Any:
            torch.manual_seed(0)
            return function(*inputs)

        return call

    # Random draws are of plain functions only: the check knows a module by its type.
    wrap = seeded if prepared.case.random else lambda function: function
    cuesta.clear_records()
    problem = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            assert_close_to_float64(
                wrap(compiled), wrap(prepared.function), prepared.inputs, gradients=prepared.case.training
            )
        except AssertionError as error:
            problem = f"wrong: {error}"
    refused = [str(warning.message) for warning in caught if str(warning.message).startswith(REFUSED)]
    if refused:
        problem = "\n".join([*(f"refused: {message}" for message in refused), *([problem] if problem else [])])
    return {"problem": problem, **_made()}


def compile_once(prepared: Prepared, side: str) -> Result:
    """The first call of the compiled function, nothing subtracted: loading the compiler, capture, compiling, one run.

    `side` may also be `capture`: AOTAutograd set up as Cuesta does, and nothing behind it.
    Requires: a fresh process.
    """
    with torch.set_grad_enabled(prepared.case.training):
        eager = prepared.step(prepared.function)
        eager()  # what eager does once in a process is no part of compiling
        start = perf_counter()
        eager()
        result: Result = {"eager_seconds": perf_counter() - start}
        backend: Any = capture_only if side == "capture" else side
        start = perf_counter()
        try:
            prepared.step(torch.compile(prepared.function, backend=backend, fullgraph=True))()
        except Exception as error:  # noqa: BLE001 - whatever a compiler throws is its result
            return {"error": _told(error)}
        result["first_call_seconds"] = perf_counter() - start
    if side == "cuesta":
        result |= _made()
    return result


def _made() -> Result:
    """What Cuesta made since the records were last cleared, and what that cost."""
    import cuesta
    from cuesta.record import records

    made = cuesta.statistics()
    return {
        "from_cache": all(record.from_cache for record in records),
        "own_seconds": made.own_seconds,
        "capture_seconds": made.capture_seconds,
        "stage_seconds": made.seconds,
        "graphs": made.graphs,
        "aten_ops": made.aten_ops,
        "kernels": made.kernels,
        "library_calls": made.library_calls,
        "fallbacks": dict(made.fallbacks),
    }


def capture_only(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """A backend that captures as Cuesta does and interprets what it got."""
    from functorch.compile import make_boxed_func  # pyright: ignore[reportPrivateImportUsage]  # documented there
    from torch._dynamo.backends.common import aot_autograd

    from cuesta.backend import Compilers
    from cuesta.options import Options

    def interpret(graph: torch.fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        return make_boxed_func(graph.forward)

    compilers = dict.fromkeys(("fw_compiler", "bw_compiler", "inference_compiler"), interpret)
    return aot_autograd(**{**Compilers(Options()).settings(), **compilers})(gm, example_inputs)


def peak_memory(prepared: Prepared, side: str, device: str) -> Result:
    """The most memory in use during steps that follow the first: inputs, what the side keeps, what a step takes.

    Requires: a fresh process in which the C library gives freed blocks back at once (`memory.ENVIRONMENT`).
    """
    inputs = prepared.tensors()
    with torch.set_grad_enabled(prepared.case.training):
        function = prepared.function
        compiled = function if side == "eager" else torch.compile(function, backend=side, fullgraph=True)
        step = prepared.step(compiled)
        try:
            for _ in range(3):
                step()
        except Exception as error:  # noqa: BLE001 - whatever a compiler throws is its result
            return {"error": _told(error)}
        if device.startswith("cuda"):
            torch.cuda.reset_peak_memory_stats()
            step()
            return {"peak_bytes": torch.cuda.max_memory_allocated()}
        _forget_gradients(prepared)
        gc.collect()
        trim()
        held = kept_tensors(inputs)
        before = resident()
        rewind_peak()
        with _no_collection():
            for _ in range(3):
                step()
                _forget_gradients(prepared)
        growth = fresh_peak() - before
    size = sum(tensor.numel() * tensor.element_size() for tensor in inputs)
    return {"input_bytes": size, "kept_bytes": held, "growth_bytes": growth, "peak_bytes": size + held + growth}


def _forget_gradients(prepared: Prepared) -> None:
    """Between steps no gradients are held, on any side."""
    if isinstance(prepared.function, torch.nn.Module):
        prepared.function.zero_grad(set_to_none=True)


@contextmanager
def _no_collection() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _told(error: Exception) -> str:
    return "".join(traceback.format_exception_only(error)).strip()[-2000:]
