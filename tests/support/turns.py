"""What takes long takes turns: of the tests that `long_tests.txt` names, `make test` runs a sixth, another one
whenever the changelog has changed, and `make test-thorough` the others.

The suite has twenty minutes on two cores, also on slow ones. Who names a file or a test gets all of it. What
`make test-fast` runs has one minute: nothing that is long, and of many parameters the first, the last and some between.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

TURNS = 6
"""Of how many tests one runs.

Source: 2076 s on two cores of a Zen 3 without turns, of which two thirds are in tests of half a second or more, and
four fifths in those of 0.3 s. With three turns of the former all of CI took 1429 s there, with four 1223 s (1162 and
1248 s in two rounds since, of 1200).
"""
NOBODY = -1
"""A turn that no test has.

Source: a definition.
"""
FEW = 3
"""Of how many parameters a test runs where it is nobody's turn.

Source: of 5,257 tests these leave 2,388, of 1,697 functions.
"""
LONG = Path(__file__).with_name("long_tests.txt")
CHANGELOG = Path(__file__).resolve().parents[2] / "CHANGELOG.md"


def turn_of(text: bytes, asked: str | None) -> int | None:
    """Whose turn it is at a changelog; what `TURN` says instead, if anything; None where all run (`TURN=all`), and
    nobody's where none do (`TURN=none`, as `make test-fast` says).

    Errors: `pytest.UsageError` where it says something else.
    """
    if not asked:
        return zlib.crc32(text) % TURNS
    if asked in ("all", "none"):
        return None if asked == "all" else NOBODY
    if asked not in map(str, range(TURNS)):
        raise pytest.UsageError(f"TURN={asked}: all, none, or a number below {TURNS}")
    return int(asked)


def whose_turn(arguments: Sequence[str]) -> int | None:
    """The turn of a run of pytest with these arguments; None where every test runs."""
    if any("::" in one or one.endswith((".py", ".mlir")) for one in arguments):
        return None
    return turn_of(CHANGELOG.read_bytes(), os.environ.get("TURN"))


def take_turns(items: Iterable[pytest.Item], turn: int | None) -> None:
    """Marks as `thorough` what is long and whose turn it is not."""
    if turn is None:
        return
    if turn == NOBODY:
        take_few(items := list(items))
    long = {line for line in LONG.read_text(encoding="utf-8").splitlines() if not line.startswith("#")}
    for item in items:
        if item.nodeid.partition("[")[0] in long and zlib.crc32(item.nodeid.encode()) % TURNS != turn:
            item.add_marker(pytest.mark.thorough)


def take_few(items: Iterable[pytest.Item]) -> None:
    """Marks as `thorough` all but a few, evenly spread, of those that are one test with other parameters, of such as
    would run.
    """
    same: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("thorough") is None:
            same.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for every in same.values():
        last = len(every) - 1
        kept = {last * k // (FEW - 1) for k in range(FEW)}
        for position, item in enumerate(every):
            if position not in kept:
                item.add_marker(pytest.mark.thorough)
