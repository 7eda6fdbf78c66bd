"""What bisection finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from cuesta.bisecting.rewrites import Rewrite


@dataclass(frozen=True)
class Finding:
    """What was found: where it went wrong, what of it, and a small program that shows it."""

    kind: str
    """`wrong` or `crash`, of a stage; `kernel`, of machine code; `compile`, when no code could be made."""
    stage: str
    """The stage, or the target whose machine code is wrong."""
    problem: str
    """How results differ, or the error."""
    rewrite: Rewrite | None
    reduced: ModuleOp
    """The program before the stage, made smaller; with a wrong kernel, a program that launches it alone."""
    inputs: Sequence[Any] | None = None
    """What the small program has to be run on; None for random inputs."""
    ops: int = 0
    """Of the small program."""
    kernel: str = ""
    suspects: Sequence[str] = ()
    """The functions of the compiler that run whenever it shows, and hardly when it does not; the likeliest first."""
    seconds: float = 0.0
    tried: int = 0
    """How many programs were tried to make it smaller."""


Report = Callable[[str], object]
"""Is told what is being done."""

__all__ = ["Finding", "Report"]
