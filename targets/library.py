"""Targets that write source text, of which a compiler makes a shared library: one for each program.

class CTarget(LibraryTarget):
    name, devices, suffix, command = "c", ("cpu",), ".c", "cc -shared -x c - -o {out}"

    def kernel_text(self, func, sites): …         # refuses by `fail` what it cannot write
    def run_text(self, run, kernels): …           # a function of the run's name that calls the kernels
    def program_text(self, texts, first_site): …  # all of it, and what goes before
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic
from cuesta.targets.program import BoundSite, SharedLibrary
from cuesta.targets.reports import kept
from cuesta.targets.target import Build, Code, Run, Target

if TYPE_CHECKING:
    from cuesta.dialects.kernel import FuncOp


class LibraryTarget(Target, ABC):
    """Subclasses write text. The function of a run takes addresses and symbols, and gives what `Target.call` says."""

    suffix = ".txt"
    """What files of the text end in."""
    command: str
    """The compiler, which finds the text on its standard input and writes the library to the path `{out}`."""

    @abstractmethod
    def kernel_text(self, func: FuncOp, sites: list[BoundSite]) -> str:
        """The text of one kernel. What can fail appends to `sites`; how many there are then, added to the program's
        `first_site`, is its error code.

        Errors: CuestaError for what cannot be written: the kernel then runs through the stand-in.
        """

    @abstractmethod
    def run_text(self, run: Run, kernels: Mapping[str, FuncOp]) -> str:
        """The text of one run."""

    @abstractmethod
    def program_text(self, texts: Sequence[str], first_site: int) -> str:
        """The whole text, of the texts of kernels and then of runs."""

    def compile(self, text: str) -> bytes:
        """The library. Errors: CuestaError, with what the compiler says."""
        with tempfile.TemporaryDirectory(prefix="cuesta-") as folder:
            path = Path(folder, "kernels.so")
            command = [part.replace("{out}", str(path)) for part in self.command.split()]
            made = subprocess.run(command, input=text, text=True, capture_output=True, check=False)
            if not made.returncode:
                return path.read_bytes()
        name = f"kernels{self.suffix}"
        path = kept({name: text}) / name
        said = "\n  ".join((made.stderr.strip() or f"exit status {made.returncode}").splitlines()[:10])
        raise CuestaError(Diagnostic(f"{command[0]} refuses the text of a program, {path}:\n  {said}"))

    def obstacle(self, device: str) -> str | None:
        """The compiler may not be there."""
        compiler = self.command.split()[0]
        return None if shutil.which(compiler) else f"{device}: the target {self.name} needs `{compiler}` on the PATH"

    def key_lines(self) -> Sequence[str]:
        """Which compiler it is, and how it is called. Processors are in every key."""
        return (self.command, _version(self.command.split()[0]))

    def start(self, kernels: Mapping[str, FuncOp], wanted: Sequence[tuple[str, str]]) -> Build:
        """Writes the kernels."""
        return _LibraryBuild(self, kernels, wanted)


@cache
def _version(compiler: str) -> str:
    if shutil.which(compiler) is None:
        return ""
    return subprocess.run([compiler, "--version"], text=True, capture_output=True, check=False).stdout


class _LibraryBuild(Build):
    def __init__(self, target: LibraryTarget, kernels: Mapping[str, FuncOp], wanted: Sequence[tuple[str, str]]) -> None:
        self.target = target
        self.kernels = kernels
        self.sites: list[BoundSite] = []
        self.written: dict[str, str] = {}
        self.failures: dict[str, Exception] = {}
        for name in dict.fromkeys(name for name, _ in wanted):
            try:
                self.written[name] = target.kernel_text(kernels[name], self.sites)
            except CuestaError as error:
                self.failures[name] = error

    def texts(self) -> Mapping[str, str]:
        return {f"kernels{self.target.suffix}": self.target.program_text([*self.written.values()], 0)}

    def finish(self) -> Mapping[str, Exception]:
        return self.failures

    def code(self, runs: Sequence[Run], sites: list[BoundSite]) -> Code:
        texts = [*self.written.values(), *(self.target.run_text(run, self.kernels) for run in runs)]
        library = self.target.compile(self.target.program_text(texts, len(sites)))
        sites += self.sites
        return Code(libraries=(SharedLibrary(library, tuple(run.function for run in runs)),))
