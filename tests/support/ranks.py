"""Several processes that run one script together, as `torchrun` has them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from tests.support.fresh import Fresh

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Ended:
    """How a process ended, and what it said."""

    code: int
    said: str


def run_together(
    script: str, processes: int, *arguments: str, seconds: float, environment: Mapping[str, str] | None = None
) -> list[Ended]:
    """Runs a script of the repository in so many processes, which find one another by a file (`CUESTA_MEETING`).

    Errors: AssertionError, with what they said, when they have not all ended in time; then all are stopped.
    """
    with tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder) / f"{rank}.log" for rank in range(processes)]
        running: list[Fresh] = []
        try:
            for rank, log in enumerate(logs):
                named = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(processes)}
                whole = {**_environment(), **(environment or {}), **named, "CUESTA_MEETING": f"{folder}/meeting"}
                running.append(Fresh(ROOT / script, arguments, environment=whole, log=log))
            deadline = monotonic() + seconds
            codes = [one.wait(max(0.0, deadline - monotonic())) for one in running]
        finally:
            ends = [one.kill() for one in running]
        ended = [Ended(end or 0, one.said()) for one, end in zip(running, ends, strict=True)]
    assert None not in codes, f"not all ended in {seconds:g} s:\n" + "\n".join(one.said[-3000:] for one in ended)
    return ended


def torchrun(script: str, processes: int, *arguments: str, seconds: float) -> Ended:
    """Runs a script of the repository under `torchrun`. Errors: TimeoutExpired; then all are stopped."""
    command = [sys.executable, "-P", "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    process = subprocess.Popen(
        [*command, str(ROOT / script), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=_environment(),
    )
    try:
        said, _ = process.communicate(timeout=seconds)
    finally:
        process.terminate()  # it stops those that it started
        process.wait()
    return Ended(process.returncode, said.decode(errors="replace"))


def _environment() -> Mapping[str, str]:
    """One thread a process: they share the cores."""
    return {**os.environ, "OMP_NUM_THREADS": "1"}
