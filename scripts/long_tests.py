#!/usr/bin/env python
"""Writes tests/support/long_tests.txt: the tests that take turns (tests/support/turns.py), of what pytest said.

TURN=all make test PYTEST_ARGS="--durations=0 --durations-min=0.05" > suite.txt; scripts/long_tests.py suite.txt
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

LONG = Path(__file__).parents[1] / "tests" / "support" / "long_tests.txt"
SECONDS = 0.3
"""From when on a test is long: the mean of its parameters, on a slow machine.

Source: a definition.
"""
ALWAYS = {"tests/fuzz/test_calls.py::test_what_was_found"}
"""Tests that run in every turn however long they are: wrong results that a search found, one of which came back and was
not seen for three landings.

Source: a choice.
"""
_LINE = re.compile(r"([\d.]+)s (?:call|setup|teardown)\s+(\S.*)")


def long_tests(said: str) -> list[str]:
    """The tests, without parameters, that are long by pytest's report of durations."""
    seconds: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for line in said.splitlines():
        if found := _LINE.match(line):
            seconds[found[2].partition("[")[0]][found[2]] += float(found[1])
    long = {test for test, each in seconds.items() if sum(each.values()) / len(each) >= SECONDS}
    return sorted(long - ALWAYS)


def main(path: str) -> None:
    """Reads the report and writes the list."""
    found = long_tests(Path(path).read_text(encoding="utf-8"))
    head = f"# Tests of {SECONDS} s or more, the mean of their parameters: written by scripts/long_tests.py.\n"
    LONG.write_text(head + "".join(f"{test}\n" for test in found), encoding="utf-8")
    print(f"{len(found)} tests are long")


if __name__ == "__main__":
    main(sys.argv[1])
