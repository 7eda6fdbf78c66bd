"""How much of the database is run, and the table of what became of it: `build/conformance.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

TABLE = Path(__file__).parents[2] / "build" / "conformance.json"
PROPERTY = "conformance"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--conformance",
        choices=("first", "all"),
        default="first",
        help="the first samples of each operator in float32 and one other dtype, or all samples in all dtypes",
    )


def wants_everything(config: pytest.Config) -> bool:
    """Whether `--conformance=all` was given. The option is there only when this folder is named on the command line."""
    return config.getoption("conformance", "first") == "all"


class TableWriter:
    """Gathers what the tests recorded, on the process that all reports come to."""

    def __init__(self) -> None:
        self.rows: dict[str, object] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            for name, value in report.user_properties:
                if name == PROPERTY:
                    row = cast("dict[str, Any]", value)
                    self.rows[row["name"]] = {"passed": report.passed, **row}

    def pytest_sessionfinish(self) -> None:
        if self.rows:
            TABLE.parent.mkdir(exist_ok=True)
            TABLE.write_text(json.dumps(dict(sorted(self.rows.items())), indent=1) + "\n")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if len(self.rows) > 100:
            loops, mixed, eager = self._counts()
            terminalreporter.write_line(
                f"operators: {loops} wholly in loops and library calls, {mixed} partly in eager, {eager} wholly; "
                f"see {TABLE}"
            )

    def _counts(self) -> tuple[int, int, int]:
        rows = [row for row in self.rows.values() if isinstance(row, dict) and row.get("graphs")]
        fallen = [row for row in rows if row["fallbacks"] or row["refused"]]
        eager = sum(1 for row in fallen if not row["kernels"] and not row["library_calls"])
        return len(rows) - len(fallen), len(fallen) - eager, eager


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(TableWriter())
