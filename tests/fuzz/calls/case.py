"""A random program, and how it is called, as data that is text: inputs, statements, results, sizes of each call."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from types import ModuleType
from typing import Any

from tests.fuzz.calls.scope import NAMES, names

SIZE_NAMES = ("a", "b", "c")
MODULE = "a_random_program"
"""What the functions of a program say that they are of."""


@dataclass(slots=True)
class Case:
    """A program and its calls. `inputs` is run anew, with the sizes of a call, before each."""

    inputs: list[str] = field(default_factory=list[str])
    """Statements that make the inputs out of `a`, `b` and `c`."""
    arguments: list[str] = field(default_factory=list[str])
    """What the program is given: names of the statements above."""
    owners: list[str] = field(default_factory=list[str])
    """What else is looked at afterwards: tensors that arguments are views of."""
    statements: list[str] = field(default_factory=list[str])
    results: str = "()"
    calls: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    """The values of `a`, `b` and `c`."""
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    """Of torch.compile."""
    backward: str = ""
    """Gradients: of `all` results, of the `first` alone, `twice`, with gradients of results that lie in `odd` ways or
    have a bit; empty for none.
    """
    captures: bool = False
    """Whether Dynamo captures numbers and sizes that only the data knows, in place of ending a graph before them."""
    seed: int | None = None
    packaged: bool = False
    """Whether it goes through a package, too."""

    @property
    def source(self) -> str:
        """The functions `inputs` and `program`."""
        given = "\n".join([*self.inputs, f"return [{', '.join(self.arguments)}], [{', '.join(self.owners)}]"])
        body = "\n".join([*self.statements, f"return {self.results}"])
        return (
            f"def inputs({', '.join(SIZE_NAMES)}):\n{textwrap.indent(given, '    ')}\n\n\n"
            f"def program({', '.join(self.arguments)}):\n{textwrap.indent(body, '    ')}\n"
        )

    def functions(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """`inputs` and `program`, made anew: nothing has been compiled from their code."""
        # As in a script. Dynamo asks the module that functions say they are of for what is global to them.
        module = sys.modules[MODULE] = ModuleType(MODULE)
        vars(module).update(names())
        exec(compile(self.source, f"<case {self.seed}>", "exec"), vars(module))
        return module.inputs, module.program

    def script(self) -> str:
        """A program that shows it by itself."""
        text = self.source
        used = [name for name in NAMES if re.search(rf"\b{name}\b", text)]
        imports = ["import torch"] + ["import torch.nn.functional as F"] * ("F." in text) + [""]
        imports += ["from tests.fuzz.calls.judge import show"]
        imports += [f"from tests.fuzz.calls.scope import {', '.join(used)}"] * bool(used)
        call = f"show(inputs, program, calls={self.calls}, settings={self.settings}, backward={self.backward!r}"
        call += f"{', captures=True' * self.captures}{', packaged=True' * self.packaged})"
        return "\n".join(imports) + f"\n\n\n{text}\n\n{call}  # seed {self.seed}\n"

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Case:
        """What `to_json` wrote."""
        read = json.loads(text)
        return Case(**{**read, "calls": [tuple(call) for call in read["calls"]]})
