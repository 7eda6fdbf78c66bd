"""Programs for CUDA devices on a machine without one: the client of `triton_server.py`, and how programs get there."""

from __future__ import annotations

import atexit
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch
from xdsl.dialects.builtin import ModuleOp

import cuesta.compiler
from benchmarks.on_cuda import on_cuda
from cuesta.context import make_context
from cuesta.dialects.core.locations import CuestaParser, print_text
from cuesta.lowering.capture import keyed_draws, recomputed_scores
from cuesta.pipeline import STAGES, remaining_stages, run_pipeline
from cuesta.record import CompileRecord
from cuesta.saved_results import strides_of_results
from cuesta.targets.reference import random_inputs
from cuesta.targets.reference import run as run_reference
from cuesta.targets.reference.program import run_and_write
from cuesta.testing import compare
from tests.support.fresh import Piped
from tests.support.pickling import dumps


class InterpreterError(RuntimeError):
    """The interpreter raised an error; the text is its own."""


@cache
def _server() -> Piped:
    log = Path(tempfile.mkdtemp(prefix="cuesta-interpreter-")) / "log"
    atexit.register(shutil.rmtree, log.parent, ignore_errors=True)
    interpreted = {**os.environ, "TRITON_INTERPRET": "1"}
    return Piped(Path(__file__).with_name("triton_server.py"), environment=interpreted, log=log)


def restart() -> None:
    """Ends the server, which an exception has left in the middle of an answer; the next request starts another one."""
    if _server.cache_info().currsize:
        _server().kill()
        _server.cache_clear()


def ask(action: str, *request: Any) -> Any:
    """One request to the server."""
    server = _server()
    body = dumps((action, *request))
    server.stdin.write(len(body).to_bytes(8, "little") + body)
    server.stdin.flush()
    header = server.stdout.read(8)
    assert header, f"the interpreter's process ended:\n{server.said()[-3000:]}"
    kind, answer = pickle.loads(server.stdout.read(int.from_bytes(header, "little")))
    if kind == "error":
        raise InterpreterError(answer)
    return answer


def parse(text: str) -> ModuleOp:
    return CuestaParser(make_context(), text, "<test>").parse_module()


def to_host(module: ModuleOp) -> ModuleOp:
    """A copy of a program, taken down to the `host` level."""
    module = module.clone()
    run_pipeline(make_context(), module, remaining_stages(module, STAGES), verify_each=True)
    return module


def run(module: ModuleOp, arguments: Sequence[Any]) -> list[Any]:
    """The results of a program at any level, through Triton's interpreter."""
    return ask("run", print_text(to_host(module)), list(arguments))


def seeded(fault: str) -> Callable[[ModuleOp, Sequence[Any]], list[Any]]:
    """What runs programs at `host` through the interpreter, of a compiler with a fault of `seeded_faults.py`."""
    return lambda module, arguments: ask("run_seeded", fault, print_text(module), _copies(arguments))


@contextmanager
def interpreted_cuda(*, run_it: bool = True, lowered: bool = False, both: bool = False) -> Iterator[list[ModuleOp]]:
    """In the `with` block, `torch.compile(..., backend="cuesta")` compiles for a CUDA device and interprets that.

    Gives the programs that were compiled, at the `aten` level. Without `run_it` they are not interpreted: the reference
    interpreter says what comes of them: of the program as it was captured, or, if `lowered`, of its kernels. If `both`,
    it says so as well, and the two give the same to the bit.
    """
    original = cuesta.compiler.compile_module
    programs: list[ModuleOp] = []

    def compile_module(module: ModuleOp, options: Any, record: CompileRecord, *rest: Any) -> Any:
        moved = on_cuda(module)
        programs.append(moved)
        kernels = to_host(moved)
        host = print_text(kernels)
        if run_it or lowered:
            record.result_strides = strides_of_results(kernels)

        def call(arguments: list[Any]) -> list[Any]:
            taken = [value.detach() if isinstance(value, torch.Tensor) else value for value in arguments]
            arguments.clear()
            if not run_it:
                return list(run_reference(kernels if lowered else module, taken))
            meant = list(run_reference(kernels if lowered else module, _copies(taken))) if both else None
            found = ask("run", host, taken)
            if meant is not None:
                torch.testing.assert_close(found, meant, rtol=0, atol=0, equal_nan=True)
            return found

        return call

    units, keys = recomputed_scores.has_matrix_units, keyed_draws.has_keys
    torch._dynamo.reset()
    cuesta.compiler.compile_module = compile_module
    recomputed_scores.has_matrix_units = lambda device: True
    keyed_draws.has_keys = lambda device, random: random != "eager"
    try:
        yield programs
    finally:
        cuesta.compiler.compile_module = original
        recomputed_scores.has_matrix_units, keyed_draws.has_keys = units, keys
        torch._dynamo.reset()


def check(module: ModuleOp, inputs: Sequence[Any] | None = None, *, factor: float = 3.0, ulps: float = 4.0) -> None:
    """Checks that a program gives on a CUDA device what it means, and writes to its arguments what it means to, by the
    measure of a run that rounds nothing.

    The program is at the level `aten` or `loops`, and on the CPU; `inputs` are random by default.
    Errors: AssertionError naming the result that is off.
    """
    inputs = random_inputs(module) if inputs is None else inputs
    expected = _joined(run_and_write(module, _copies(inputs)))
    truth = _joined(run_and_write(module, _copies(inputs), precise=True))
    actual = _joined(ask("run_and_write", print_text(to_host(on_cuda(module))), _copies(inputs)))
    assert len(actual) == len(expected)
    for position, (ours, reference, true) in enumerate(zip(actual, expected, truth, strict=True)):
        found = compare(f"result {position}", ours, reference, true, factor=factor, ulps=ulps)
        assert found.passes, str(found)


def _joined(effects: tuple[list[Any], list[Any]]) -> list[Any]:
    results, written = effects
    return [*results, *written]


def _copies(inputs: Sequence[Any]) -> list[Any]:
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]


__all__ = ["InterpreterError", "ask", "check", "interpreted_cuda", "on_cuda", "parse", "restart", "run", "to_host"]
