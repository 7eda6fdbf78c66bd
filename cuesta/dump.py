"""What `options["dump"]` asks for: a folder with the text of every level, and of what is generated."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.options import OptionError, Options
from cuesta.programs.header import Header
from cuesta.versions import versions

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


class Dump:
    """A folder with the text of every level, numbered in order. Each says which stages the program still has."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.header = Header("import")
        self.number = 0

    @classmethod
    def create(cls, root: str, kind: str) -> Dump:
        """A new folder in `root`: `000_inference`, `001_forward`, … Safe under several processes.

        Errors: OptionError when it cannot be made.
        """
        base = Path(root)
        try:
            base.mkdir(parents=True, exist_ok=True)
            number = sum(1 for _ in base.iterdir())
            while True:
                folder = base / f"{number:03d}_{kind}"
                try:
                    folder.mkdir()
                    return cls(folder)
                except FileExistsError:
                    number += 1
        except OSError as error:
            raise OptionError(f"option 'dump': no folder can be made in {root!r}: {error.strerror}") from error

    def begin(self, level: str, module: ModuleOp, stages: Sequence[str]) -> None:
        """Writes the program before its first stage here; `stages` are those that are to come."""
        self.header = Header(self.header.after, self.header.done, tuple(stages))
        self._program(level, module)

    def level(self, name: str, module: ModuleOp) -> None:
        """Writes the program after the stage `name`, the next of those that were to come."""
        header = self.header.then([name])
        assert header is not None, f"{name} is not the next stage"
        self.header = header
        self._program(header.after, module)

    def before(self, module: ModuleOp, name: str) -> str:
        """Writes the program as it was before a stage that failed; gives the file's path."""
        return self.text(f"{self.number:02d}_before_{name}.mlir", self._text_of(module))

    def about(self, kind: str, options: Options) -> None:
        """Writes down what made the texts: the kind of graph, options, and versions of everything."""
        chosen = {one.name: getattr(options, one.name) for one in fields(options)}
        told = {name: value for name, value in chosen.items() if value != getattr(Options(), name)}
        said = {"kind": kind, "options": {name: _plain(value) for name, value in told.items()}, "versions": versions()}
        self.text("about.json", json.dumps(said, indent=1) + "\n")

    @contextmanager
    def failures_kept(self) -> Generator[None]:
        """The `with` block that compiles the program. What fails there is written down as `error.txt`, and says how
        the graph is packed for somebody who is to repeat it.
        """
        try:
            yield
        except Exception as error:
            self.text("error.txt", f"{type(error).__name__}: {error}\n")
            told = f"to send it: cuesta repro {shlex.quote(str(self.folder))} -o repro"
            if isinstance(error, CuestaError):
                error.add_context(note=told)
            else:
                error.add_note(told)
            raise

    def text(self, name: str, text: str) -> str:
        """Writes a file whole or not at all."""
        path = self.folder / name
        temporary = path.with_suffix(path.suffix + ".part")
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
        return str(path)

    def _program(self, name: str, module: ModuleOp) -> None:
        self.text(f"{self.number:02d}_{name}.mlir", self._text_of(module))
        self.number += 1

    def _text_of(self, module: ModuleOp) -> str:
        from cuesta.dialects.core.locations import print_text
        from cuesta.extensions import told_in_text

        return f"{self.header}{told_in_text()}{print_text(module, locations=True)}"


def _plain(value: object) -> object:
    """A value of an option as JSON has it."""
    if isinstance(value, tuple):
        return [one if isinstance(one, str) else getattr(one, "name", str(one)) for one in value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return value
