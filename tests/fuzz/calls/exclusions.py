"""Differences that are no fault of a compiler's: each has a reason with a name."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.fuzz.calls import scope
from tests.fuzz.calls.case import Case

RANDOM = ("rand", "dropout", "bernoulli", "rrelu", "normal_", "uniform_")


def random_values(statement: str) -> set[str]:
    """The values that a statement draws random numbers for, or reads to do so."""
    return set(re.findall(r"\bv\d+\b", statement)) if any(word in statement for word in RANDOM) else set()


def _draws_for_nobody(case: Case, what: str) -> bool:
    drawing = [statement for statement in case.statements if any(word in statement for word in RANDOM)]
    if len(drawing) > 1 and re.search(r"(normal|uniform|bernoulli)_\(", "\n".join(drawing[1:])):
        return "random state" in what  # the first numbers are written over
    drawn = {name for statement in case.statements for name in random_values(statement)}
    returned = set(re.findall(r"\bv\d+\b", case.results))
    return bool(drawn - returned) and all(one.startswith("random state") for one in what.splitlines())


def _draws_on_a_gpu(case: Case, what: str) -> bool:
    drawn = scope.DEVICE != "cpu" and any(word in case.source for word in RANDOM)
    return drawn and all(re.search(r" values: |^random state of the device", one) for one in what.splitlines())


EXCLUDED: tuple[tuple[str, Callable[[Case, str], bool]], ...] = (
    # torch.cond traces its branches with Dynamo in eager, too, where a size becomes a symbol.
    ("eager's torch.cond refuses a condition that is a symbol", lambda case, what: "eager Unsupported" in what),
    # PyTorch takes operators for pure that draw numbers (`eliminate_dead_code` of AOTAutograd's graphs).
    ("random numbers that nobody reads are not drawn", _draws_for_nobody),
    # docs/decisions/010-random-numbers.md
    ("random numbers on a GPU are our own", _draws_on_a_gpu),
    # It is computed, in memory of its own; in eager it is a view of what it was made of.
    (
        "what has the negative bit is a result of its own",
        lambda case, what: (
            "_neg_view(" in case.source
            and all(re.search(r" (shares memory with|begins|is|strides|version): ", one) for one in what.splitlines())
        ),
    ),
    # Its columns lie one after the other in eager; torch's fake says rows (torch 2.13).
    (
        "torch's fake of nonzero has other strides than eager's nonzero",
        lambda case, what: "nonzero()" in case.source and all(" strides: " in one for one in what.splitlines()),
    ),
    # docs/differences.md
    (
        "torch's fake of what an index finds has other strides than eager's",
        lambda case, what: (
            re.search(r"\bv\d+\[v\d+|[xyz]\[v\d+", case.source) is not None
            and all(re.search(r" (strides|version): ", one) for one in what.splitlines())
        ),
    ),
    # docs/differences.md
    (
        "torch's fake of a complex angle has other strides than eager's",
        lambda case, what: (
            "angle()" in case.source
            and "complex" in case.source
            and all(re.search(r" (strides|version): ", one) for one in what.splitlines())
        ),
    ),
)
"""The reason, and whether it holds for a case and what was found."""


def reason(case: Case, what: str) -> str:
    """Why a difference does not count; empty if it does."""
    return next((name for name, holds in EXCLUDED if holds(case, what)), "")
