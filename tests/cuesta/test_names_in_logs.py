"""Dynamo looks up names of functions for its logs only when they are on, and then they are right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch._dynamo import funcname_cache

import cuesta.backend  # noqa: F401 - which puts the table in its place
from tests.support.fresh import said_by


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    torch._dynamo.reset()
    funcname_cache.clearcache()
    yield
    torch._dynamo.reset()


def step(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


def test_nothing_is_read_for_a_log_that_is_off() -> None:
    torch.compile(step, backend="cuesta", options={"cache": False})(torch.ones(3))
    assert dict(funcname_cache.cache) == {}
    assert funcname_cache.get_funcname(__file__, step.__code__.co_firstlineno + 1) is None


LOGGED = """
import sys, logging, torch
from torch._dynamo import funcname_cache
import cuesta.backend

said = []
log = sys.argv[1]

class Keep(logging.Handler):
    def emit(self, record):
        said.append(record.getMessage())

def step(x):
    return x.sin() + 1

torch._logging.set_logs(**{log: True})
for module in ("symbolic_convert", "output_graph"):
    logging.getLogger(f"torch._dynamo.{module}.__{log}").addHandler(Keep())
torch.compile(step, backend="cuesta", options={"cache": False})(torch.ones(3))
line = step.__code__.co_firstlineno + 1
assert any(f"{__file__}:{line} in step (step)" in one for one in said), said
assert funcname_cache.get_funcname(__file__, line) == "step"
"""


@pytest.mark.slow
@pytest.mark.parametrize("log", ["trace_call", "trace_source"])
def test_a_log_that_is_on_says_the_name(log: str, tmp_path: Path) -> None:
    """In a process of its own: whoever ran before may have turned logs off."""
    script = tmp_path / "logged.py"
    script.write_text(LOGGED)
    said_by(script, log)
