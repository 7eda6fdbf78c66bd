"""Differences that are no fault of a compiler's: each has a reason with a name."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.calls.case import Case

EXCLUDED: tuple[tuple[str, Callable[[Case, str], bool]], ...] = ()
"""The reason, and whether it holds for a case and what was found."""


def reason(case: Case, what: str) -> str:
    """Why a difference does not count; empty if it does."""
    return next((name for name, holds in EXCLUDED if holds(case, what)), "")
