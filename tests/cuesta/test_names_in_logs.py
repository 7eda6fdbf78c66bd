"""Dynamo looks up names of functions for its logs only when they are on, and then they are right."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._dynamo import funcname_cache

import cuesta.backend  # noqa: F401 - which puts the table in its place

set_logs: Any = torch._logging.set_logs  # pyright: ignore[reportPrivateImportUsage, reportUnknownMemberType]


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    torch._dynamo.reset()
    funcname_cache.clearcache()
    yield
    set_logs()
    torch._dynamo.reset()


def step(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


def test_nothing_is_read_for_a_log_that_is_off() -> None:
    torch.compile(step, backend="cuesta", options={"cache": False})(torch.ones(3))
    assert dict(funcname_cache.cache) == {}
    assert funcname_cache.get_funcname(__file__, step.__code__.co_firstlineno + 1) is None


@pytest.mark.parametrize("log", ["trace_call", "trace_source"])
def test_a_log_that_is_on_says_the_name(
    log: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.root.manager, "disable", logging.NOTSET)  # what runs benchmarks turns logs off
    set_logs(**{log: True})
    for module in ("symbolic_convert", "output_graph"):
        logging.getLogger(f"torch._dynamo.{module}.__{log}").addHandler(caplog.handler)
    torch.compile(step, backend="cuesta", options={"cache": False})(torch.ones(3))
    said = [record.getMessage() for record in caplog.records]
    assert any(f"{__file__}:{step.__code__.co_firstlineno + 1} in step (step)" in line for line in said), said
    assert funcname_cache.get_funcname(__file__, step.__code__.co_firstlineno + 1) == "step"
