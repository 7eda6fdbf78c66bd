"""What `CUESTA_LOG` tells, records as a table, entries of PyTorch's structured trace, and progress on a terminal."""

from __future__ import annotations

import io
import json
import logging
import sys

import pytest
import torch
from torch import Tensor

import cuesta
from cuesta import logs
from cuesta.options import OptionError
from cuesta.targets import progress as progresses
from cuesta.targets.progress import progress


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    torch._dynamo.reset()
    monkeypatch.delenv(logs.VARIABLE, raising=False)


def two_kernels(x: Tensor) -> Tensor:
    return (torch.tanh(x) @ x).exp().sum(0) * torch.softmax(x, -1)


def told(topic: str, text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(f"cuesta: {topic}: ")]


def test_what_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(logs.VARIABLE, " fusion, schedule ,recompiles,time")
    compiled = torch.compile(two_kernels, backend="cuesta", dynamic=False)
    compiled(torch.rand(8, 8))
    first = capsys.readouterr().err
    kernels = cuesta.records[-1].kernels
    assert len(told("schedule", first)) == kernels
    assert all("#kernel.schedule<" in line and "test_logs.py:" in line for line in told("schedule", first))
    assert told("fusion", first) and all(" stay apart: " in line for line in told("fusion", first))
    assert told("recompiles", first) == []
    (line,) = told("time", first)
    assert line.startswith(f"cuesta: time: inference, {kernels} kernels: ") and " ms of ours (" in line
    compiled(torch.rand(9, 9))
    (line,) = told("recompiles", capsys.readouterr().err)
    assert "size mismatch" in line


def test_nobody_asks(capsys: pytest.CaptureFixture[str]) -> None:
    torch.compile(two_kernels, backend="cuesta")(torch.rand(8, 8))
    assert "cuesta" not in capsys.readouterr().err


def test_an_unknown_topic_names_those_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(logs.VARIABLE, "fallbacks,speed")
    known = "CUESTA_LOG names fallbacks, fusion, schedule, recompiles, time, not speed"
    with pytest.raises(OptionError, match=known):
        logs.topics()
    with pytest.raises(Exception, match=known):
        torch.compile(torch.sin, backend="cuesta")(torch.rand(3))


def test_records_print_as_a_table() -> None:
    cuesta.clear_records()
    torch.compile(two_kernels, backend="cuesta")(torch.rand(8, 8))
    head, row = str(cuesta.records).splitlines()
    assert head.split()[:4] == ["graph", "how", "ATen", "ops"]
    one = cuesta.records[0]
    counts = [one.aten_ops, one.kernels, one.library_calls, 0]
    assert row.split()[:7] == ["0", "inference", "compiled", *map(str, counts)]
    cuesta.clear_records()
    assert len(str(cuesta.records).splitlines()) == 1 and list(cuesta.records) == []


def test_entries_of_the_structured_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[str, str]] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            artifact = getattr(record, "metadata", {}).get("artifact")
            if artifact is not None and artifact["name"].startswith("cuesta_"):
                written.append((artifact["name"], str(record.payload)))  # type: ignore[attr-defined]

    trace = logging.getLogger("torch.__trace")
    monkeypatch.setattr(trace, "handlers", [Kept()])
    torch.compile(lambda x: two_kernels(x) + torch.special.airy_ai(x), backend="cuesta")(torch.rand(8, 8))
    found = dict(written)
    assert list(found) == ["cuesta_aten", "cuesta_host", "cuesta_wrapper", "cuesta_record"]
    assert "aten.tanh.default" in found["cuesta_aten"] and "test_logs.py" in found["cuesta_aten"]
    assert "host.launch" in found["cuesta_host"] and "def call(args)" in found["cuesta_wrapper"]
    record = json.loads(found["cuesta_record"])
    assert record["kernels"] == cuesta.records[-1].kernels
    assert record["fallbacks"] == {"aten.special_airy_ai.default": 1}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progresses, "PATIENCE", 0.0)
    monkeypatch.setattr(progresses, "BETWEEN", 0.0)
    for stream, seen in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress(3, "kernels built") as tell:
            tell(2)
        assert ("\rcuesta: 2 of 3 kernels built, 0 s" in stream.getvalue()) == seen
        assert stream.getvalue().endswith("\r") == seen  # the line is wiped


def test_a_short_compilation_shows_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    with progress(2, "kernels built") as tell:
        tell(1)
    assert stream.getvalue() == ""


def test_a_stream_that_is_closed_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress(2, "kernels built") as tell:
        tell(1)
    assert stream.closed
