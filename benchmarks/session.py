"""Which process measures what: workers are started with caches of their own, and their results gathered."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.memory import ENVIRONMENT
from benchmarks.worker import MARK

ROOT = Path(__file__).resolve().parent.parent

Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Session:
    """What all measurements of one call of the benchmark share."""

    sides: tuple[str, ...]
    """The compilers to compare with eager: `cuesta`, and `inductor` where it can run."""
    device: str
    seconds: float
    """Sampling time of each side of a run."""
    inductor_cache: Path
    """A folder per case, where a run finds what a cold start of TorchInductor left: its run time does not depend on
    that."""

    def run(self, cases: Sequence[str]) -> Iterator[tuple[str, Result]]:
        """Run times. All sides of a case are measured in one process, in turns.

        With TorchInductor, each case gets a process of its own; without, they share one.
        """
        groups = [[case] for case in cases] if "inductor" in self.sides else [list(cases)]
        for group in groups:
            yield from self._work("run", group, ("eager", *self.sides), _caches(self.inductor_cache / group[0]))

    def compile(self, case: str, *, capture: bool) -> Result:
        """For each side a cold start (fresh process, empty caches) and a warm one (fresh process, the same caches)."""
        found: Result = {}
        for side in (*self.sides, *(("capture",) if capture else ())):
            with tempfile.TemporaryDirectory(prefix="cuesta-bench-") as temporary:
                caches = Path(temporary)
                if side == "inductor" and not (self.inductor_cache / case).exists():
                    caches = self.inductor_cache / case  # for `run` to use
                starts = {"cold": self._one("compile", case, side, _caches(caches))}
                if side != "capture" and "error" not in starts["cold"]:
                    starts["warm"] = self._one("compile", case, side, _caches(caches))
            found[side] = starts
        return found

    def memory(self, case: str) -> Result:
        """The peak of each side, each in a process of its own."""
        sides = ("eager", *self.sides)
        environment = {**ENVIRONMENT, **_caches(self.inductor_cache / case)}
        return {side: self._one("memory", case, side, environment) for side in sides}

    def _one(self, kind: str, case: str, side: str, environment: Mapping[str, str]) -> Result:
        ((_, result),) = self._work(kind, [case], [side], environment)
        return result

    def _work(
        self, kind: str, cases: Sequence[str], sides: Sequence[str], environment: Mapping[str, str]
    ) -> Iterator[tuple[str, Result]]:
        """The results of the cases, as they come. A case that kills the worker is told, and the rest go on."""
        pending = list(cases)
        while pending:
            command = [sys.executable, "-m", "benchmarks.worker", kind, "--sides", *sides, "--device", self.device]
            command += ["--seconds", str(self.seconds), "--cases", *pending]
            with (
                tempfile.TemporaryFile("w+") as errors,
                subprocess.Popen(
                    command,
                    cwd=ROOT,
                    env={**os.environ, **environment},
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                ) as worker,
            ):
                assert worker.stdout is not None
                for line in worker.stdout:
                    if line.startswith(MARK):
                        result = json.loads(line.removeprefix(MARK))
                        pending.remove(case := result.pop("case"))
                        yield case, result
                worker.wait()
                errors.seek(0)
                said = errors.read()[-3000:].strip()
            if pending:
                yield pending.pop(0), {"error": f"the process died with status {worker.returncode}: {said}"}


def _caches(folder: Path) -> dict[str, str]:
    """The environment that keeps every cache of a process in one folder."""
    names = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "CUESTA_CACHE_DIR": "cuesta", "TRITON_CACHE_DIR": "triton"}
    return {variable: str(folder / name) for variable, name in names.items()}
