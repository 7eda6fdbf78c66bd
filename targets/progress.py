"""How far a long compilation is: stages done and kernels built, of how many. Only a terminal is told."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import perf_counter
from typing import Final

PATIENCE: Final = 2.0
"""Seconds before anything is said. Source: a definition; who waits that long begins to wonder."""
BETWEEN: Final = 0.1
"""Seconds between two lines at least."""

Progress = Callable[[int], None]
"""Is told how many are done."""


@contextmanager
def progress(total: int, of: str) -> Generator[Progress]:
    """The `with` block in which so many things are done; `of` names them: `kernels built`."""
    if total == 0 or not _is_terminal():
        yield _says_nothing
        return
    shown = _Line(total, of)
    try:
        yield shown
    finally:
        shown.clear()


def _is_terminal() -> bool:
    try:
        return sys.stderr is not None and sys.stderr.isatty()  # pyright: ignore[reportUnnecessaryComparison]
    except ValueError:  # it is closed
        return False


def _says_nothing(done: int) -> None:
    """Nobody would see it."""


class _Line:
    def __init__(self, total: int, of: str) -> None:
        self.total = total
        self.of = of
        self.began = perf_counter()
        self.last = 0.0
        self.width = 0

    def __call__(self, done: int) -> None:
        now = perf_counter()
        if now - self.began < PATIENCE or now - self.last < BETWEEN:
            return
        self.last = now
        text = f"cuesta: {done} of {self.total} {self.of}, {now - self.began:.0f} s"
        self.width = max(self.width, len(text))
        sys.stderr.write(f"\r{text}")
        sys.stderr.flush()

    def clear(self) -> None:
        """Leaves the terminal as it was."""
        if self.width:
            sys.stderr.write(f"\r{' ' * self.width}\r")
            sys.stderr.flush()
