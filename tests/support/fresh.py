"""Processes that begin where the imports of torch and Dynamo end: they are forked from one that did nothing else.

Python takes 3.5 s for these imports, more than most tests that need a process of their own take for all the rest.
Nothing of ours is imported in it, no variable of the environment of ours is read yet, and no thread runs.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType
from typing import Any

IMPORTED = ("torch", "torch._dynamo", "torch._functorch.aot_autograd")


class Fresh:
    """A running process. `script` is a file, or the text of a program; what it says, errors too, goes to `log`.

    `environment` is all of it; as Python's start does, the script sees its `arguments` as `sys.argv[1:]`.
    """

    def __init__(
        self, script: Path | str, arguments: Sequence[str] = (), *, environment: Mapping[str, str], log: Path
    ) -> None:
        self._log = log
        self._process: BaseProcess = _context().Process(
            target=_run, args=(script, list(arguments), dict(environment), str(log))
        )
        self._process.start()

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


def said_by(
    script: Path | str, *arguments: str, seconds: float = 120, environment: Mapping[str, str] | None = None
) -> str:
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
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(IMPORTED))
    return context


def _run(script: Path | str, arguments: list[str], environment: dict[str, str], log: str) -> None:
    """In the new process: what the interpreter does with a script."""
    with open(log, "wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - it stays open
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)
    if threads := environment.get("OMP_NUM_THREADS"):
        import torch

        torch.set_num_threads(int(threads))  # OpenMP has read its variables before
    sys.argv = [str(script) if isinstance(script, Path) else "-c", *arguments]
    try:
        if isinstance(script, Path):
            runpy.run_path(str(script), run_name="__main__")
        else:
            main = ModuleType("__main__")
            sys.modules["__main__"] = main
            exec(compile(script, "<string>", "exec"), main.__dict__)
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
