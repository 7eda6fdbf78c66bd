"""Which functions of the compiler are suspected: those that run when a fault shows, and not when it does not.

A reduction tries many programs, some of which show the fault. A function's score is Ochiai's: of n programs that show
it, in how many it ran, over the geometric mean of n and of all in which it ran.
Source: Abreu, Zoeteweij, van Gemund, On the Accuracy of Spectrum-based Fault Localization, 2007.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from cuesta.bisecting.states import Frame, functions_run


@dataclass
class Noted:
    """One program that was tried."""

    shows: bool = False
    ops: frozenset[str] = frozenset()
    """The names of the ops in it, where somebody wants to know which is suspected."""


class Spectrum:
    """What ran when."""

    def __init__(self) -> None:
        self.shown = 0
        self.when_shown = Counter[Frame]()
        self.when_not = Counter[Frame]()
        self.ops_when_shown = Counter[str]()
        self.ops_when_not = Counter[str]()

    @contextmanager
    def of_run(self) -> Generator[Noted]:
        """The `with` block in which the compiler runs on one program."""
        noted = Noted()
        functions = functions_run()
        try:
            with functions:
                yield noted
        finally:
            self.shown += noted.shows
            (self.when_shown if noted.shows else self.when_not).update(functions.names())
            (self.ops_when_shown if noted.shows else self.ops_when_not).update(noted.ops)

    def score_of_op(self, name: str) -> float:
        """The score of the ops of a name."""
        count = self.ops_when_shown[name]
        return count / math.sqrt(self.shown * (count + self.ops_when_not[name])) if count else 0.0

    def likeliest(self, most: int = 5) -> list[str]:
        """The functions of the highest scores; of equals those that are called last, as names sort."""
        scores = {
            one: count / math.sqrt(self.shown * (count + self.when_not[one])) for one, count in self.when_shown.items()
        }
        ranked = sorted(scores, key=lambda one: (-scores[one], one.file, one.line))
        return [str(one) for one in ranked[:most]]


__all__ = ["Noted", "Spectrum"]
