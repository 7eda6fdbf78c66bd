"""For every stage of the compiler a program that it changes, from its examples in tests/filecheck/."""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cuesta.opt import run_captured, split_input
from cuesta.pipeline import STAGES
from cuesta.programs.header import split_passes

ROOT = Path(__file__).resolve().parent.parent
FILECHECK = ROOT / "tests" / "filecheck"
WRITTEN = Path(__file__).parent / "examples" / "stages"
"""Examples for stages that have no room in tests/filecheck/, one file each, written like those."""
NO_EXAMPLE = {
    "tune-kernels": "It measures on a device; what it leaves is a `schedule` on a nest.",
    "measure-layouts": "It measures on a device, as `tune-kernels` does, how images of convolutions are to lie.",
    "measure-parts": "It measures on a device, as `tune-kernels` does, whether reductions are in parts.",
    "measure-unsure": "It measures on a device, as `tune-kernels` does, where the model of costs is not sure.",
    "lend-arguments": "It is about operators of users: `tests/transforms/test_lend_arguments.py` has programs.",
}

_RUN = re.compile(r"^// RUN: cuesta-opt (.*?)(?:\|.*)?$", re.MULTILINE)


@dataclass(frozen=True)
class StageExample:
    """A program before and after a pass."""

    file: str
    """From the root of the repository."""
    command: str
    """The options of cuesta-opt, less the file."""
    before: str
    after: str


@cache
def example_of(pass_name: str) -> StageExample | None:
    """An example of a pass that it changes, a short one; None where there is none. What is written for the manual comes
    first, then files that say that the pass fires; near misses and edges last.
    """
    written = WRITTEN / f"{pass_name}.mlir"
    rooms = [path for path in FILECHECK.glob(f"*/**/{pass_name}") if path.is_dir()]
    files = [written] if written.exists() else sorted(file for room in rooms for file in room.glob("*.mlir"))
    candidates = [candidate for file in files for candidate in _candidates_in(file, pass_name)]
    for candidate in sorted(candidates, key=lambda one: (one.is_edge, len(one.program))):
        if (found := candidate.run()) is not None:
            return found
    return None


def without_example() -> list[str]:
    """The passes of the pipeline that no example shows, and that `NO_EXAMPLE` does not excuse: none."""
    passes = dict.fromkeys(stage.name.partition("{")[0] for stage in STAGES)
    return [name for name in passes if name not in NO_EXAMPLE and example_of(name) is None]


@dataclass(frozen=True)
class _Candidate:
    """A program that a pass may change."""

    file: Path
    options: tuple[str, ...]
    without_passes: tuple[str, ...]
    program: str

    @property
    def is_edge(self) -> bool:
        """Whether the file's name says that it is about edges, or about what does not fire."""
        return re.search("edge|miss|refused|wrong|again|identity", self.file.stem) is not None

    def run(self) -> StageExample | None:
        """What the pass makes of the program; None when it changes nothing, or refuses it."""
        with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
            file.write(self.program)
            file.flush()
            refused, before, _ = run_captured([file.name, *self.without_passes])
            status, after, _ = run_captured([file.name, *self.options])
        if refused or status or before == after:
            return None
        command = " ".join(shlex.quote(word) for word in self.options)
        return StageExample(self.file.relative_to(ROOT).as_posix(), command, before, after)


def _candidates_in(file: Path, pass_name: str) -> Iterator[_Candidate]:
    text = file.read_text(encoding="utf-8")
    for run in _RUN.finditer(text):
        words = [word for word in shlex.split(run[1]) if word not in ("%s", "--split-input-file", "--trace-rewrites")]
        at = next((number for number, word in enumerate(words) if word in ("-p", "--passes")), None)
        if at is None or len(split_passes(words[at + 1])) != 1 or words[at + 1].partition("{")[0] != pass_name:
            continue
        for chunk in split_input(text):
            # CHECK lines mean nothing here.
            lines = [line for line in chunk.text.splitlines() if not line.lstrip().startswith("//")]
            program = "\n".join(lines).strip() + "\n"
            if len(program) > 1:
                yield _Candidate(file, tuple(words), (*words[:at], *words[at + 2 :]), program)
