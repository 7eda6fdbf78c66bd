"""Processes that begin where the imports of torch and Dynamo end: they are forked from one that did nothing else.

Python takes 3.5 s for these imports, more than most tests that need a process of their own take for all the rest.
Nothing of ours is imported in it, no variable of the environment of ours is read yet, and no thread runs.

`Fresh` runs a script; `Piped` one that is asked and answers; what starts processes with multiprocessing's `spawn` gets
such ones where `spawning` stands in for its `get_context`.
"""

from __future__ import annotations

import atexit
import faulthandler
import multiprocessing
import os
import runpy
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType
from typing import Any

_GET_CONTEXT = multiprocessing.get_context
IMPORTED = ("torch", "torch._dynamo", "torch._functorch.aot_autograd")


@dataclass(frozen=True)
class Module:
    """A module that is a program: `python -m name`."""

    name: str


Script = Path | Module | str
"""A file, a module, or the text of a program."""


class Fresh:
    """A running process of a script; what it says, errors too, goes to `log`.

    `environment` is all of it; as Python's start does, the script sees its `arguments` as `sys.argv[1:]`.
    """

    def __init__(
        self, script: Script, arguments: Sequence[str] = (), *, environment: Mapping[str, str], log: Path
    ) -> None:
        self._log = log
        self._begin(script, arguments, environment)

    def _begin(
        self, script: Script, arguments: Sequence[str], environment: Mapping[str, str], ends: Sequence[Connection] = ()
    ) -> None:
        self._process: BaseProcess = _context().Process(
            target=_run,
            args=(script, list(arguments), dict(environment), str(self._log), *ends),
            daemon=bool(ends),  # it may wait for ever for what it is asked
        )
        self._process.start()

    @property
    def pid(self) -> int | None:
        """The number of the process."""
        return self._process.pid

    def wait(self, seconds: float) -> int | None:
        """Its exit status; None when it is still running after so many seconds."""
        self._process.join(seconds)
        return self._process.exitcode

    def kill(self) -> int | None:
        """Stops it if it runs, and gives its exit status."""
        self._process.kill()
        self._process.join()
        return self._process.exitcode

    def said(self) -> str:
        return self._log.read_text(errors="replace")


class Piped(Fresh):
    """One that reads from `stdin` and writes to `stdout`, which are streams of bytes here; errors go to `log`."""

    def __init__(
        self, script: Script, arguments: Sequence[str] = (), *, environment: Mapping[str, str], log: Path
    ) -> None:
        self._log = log
        (theirs, asked), (answered, told) = (_context().Pipe(duplex=False) for _ in range(2))
        self._begin(script, arguments, environment, (theirs, told))
        for one in (theirs, told):
            one.close()
        self.stdin = os.fdopen(os.dup(asked.fileno()), "wb")
        self.stdout = os.fdopen(os.dup(answered.fileno()), "rb")
        for one in (asked, answered):
            one.close()

    def kill(self) -> int | None:
        status = super().kill()
        self.stdout.close()
        with suppress(BrokenPipeError):  # of what was not read
            self.stdin.close()
        return status


class _Spawned:
    """What stands in for multiprocessing's context of new interpreters."""

    def Process(self, *, target: Callable[..., Any], args: Sequence[Any] = (), **settings: Any) -> BaseProcess:
        return _context().Process(target=_call, args=(dict(os.environ), target, *args), **settings)

    def __getattr__(self, name: str) -> Any:
        return getattr(_context(), name)


def spawning(method: str | None = None) -> Any:
    """In place of `multiprocessing.get_context`: what would be a new interpreter (`spawn`) begins here too."""
    return _Spawned() if method == "spawn" else _GET_CONTEXT(method)


def said_by(script: Script, *arguments: str, seconds: float = 120, environment: Mapping[str, str] | None = None) -> str:
    """What a script says that runs to its end, with more variables in its environment.

    Errors: AssertionError with what it said, when it fails or takes longer.
    """
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        process = Fresh(script, arguments, environment={**os.environ, **(environment or {})}, log=log)
        status = process.wait(seconds)
        if status is None:
            process.kill()
        said = process.said()
    assert status == 0, f"exit status {status}:\n{said}"
    return said


@cache
def _context() -> Any:
    context = _GET_CONTEXT("forkserver")
    context.set_forkserver_preload(list(IMPORTED))
    return context


def _call(environment: dict[str, str], function: Callable[..., Any], *arguments: Any) -> None:
    """In the new process: a function, with the environment of who started it."""
    os.environ.clear()
    os.environ.update(environment)
    function(*arguments)


def _run(
    script: Script,
    arguments: list[str],
    environment: dict[str, str],
    log: str,
    source: Connection | None = None,
    sink: Connection | None = None,
) -> None:
    """In the new process: what the interpreter does with a script."""
    with open(log, "wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    for end, stream in ((source, 0), (sink, 1)):
        if end is not None:
            os.dup2(end.fileno(), stream)
            end.close()
    if source is not None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - it stays open
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115
    faulthandler.enable()
    os.environ.clear()
    os.environ.update(environment)
    if environment.get("TRITON_INTERPRET") == "1":  # Triton asks for it when it is imported, which torch did
        for name in [name for name in sys.modules if name.split(".")[0] == "triton"]:
            if not name.startswith("triton._C"):
                del sys.modules[name]
    if threads := environment.get("OMP_NUM_THREADS"):
        import torch

        torch.set_num_threads(int(threads))  # OpenMP has read its variables before
    sys.argv = [str(script) if isinstance(script, Path) else "-c", *arguments]
    try:
        if isinstance(script, Path):
            runpy.run_path(str(script), run_name="__main__")
        elif isinstance(script, Module):
            runpy.run_module(script.name, run_name="__main__", alter_sys=True)
        else:
            main = ModuleType("__main__")
            sys.modules["__main__"] = main
            exec(compile(script, "<string>", "exec"), main.__dict__)
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
