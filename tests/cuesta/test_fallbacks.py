"""What is said of fallbacks: those that cost something, once, and only if somebody asks."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

import cuesta
from cuesta import fallbacks, logs
from cuesta.fallbacks import MEASURED_CALLS, WARM_CALLS, Fallback, watching

ENOUGH = WARM_CALLS + MEASURED_CALLS
X = torch.rand(400, 400)


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    torch._dynamo.reset()
    monkeypatch.delenv(logs.VARIABLE, raising=False)
    fallbacks._told.clear()


def expensive(x: Tensor) -> Tensor:
    """Airy's function is a fallback, and all that this costs; the product of matrices is a library's on purpose."""
    return torch.special.airy_ai(x * 2) + (x[:8, :8] @ x[:8, :8]).sum()


def cheap(x: Tensor) -> Tensor:
    """The fallback has one element, everything else a product of matrices."""
    return torch.special.airy_ai(x[0, 0]) + x @ x @ x


def test_what_costs_something_is_named_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(logs.VARIABLE, "fallbacks")
    for _ in range(2):  # two graphs
        torch._dynamo.reset()
        compiled = torch.compile(expensive, backend="cuesta")
        for _ in range(4 * ENOUGH):
            torch.testing.assert_close(compiled(X), expensive(X))
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "runs in eager" in line]
    assert line.startswith("cuesta: aten.special_airy_ai.default runs in eager: ")
    assert "(" in line and " ms, inference); options=" in line and "mm" not in line


def test_what_costs_nothing_is_not(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(logs.VARIABLE, "fallbacks")
    x, compiled = torch.rand(1200, 1200), torch.compile(cheap, backend="cuesta")
    for _ in range(ENOUGH):
        compiled(x)
    assert cuesta.records[-1].fallbacks and "runs in eager" not in capsys.readouterr().err


def test_nobody_asks(capsys: pytest.CaptureFixture[str]) -> None:
    compiled = torch.compile(expensive, backend="cuesta")
    for _ in range(ENOUGH):
        compiled(X)
    assert "runs in eager" not in capsys.readouterr().err


def test_a_listener_is_told_the_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a graph from the cache, and of backward passes."""
    monkeypatch.setenv("CUESTA_CACHE", "1")
    monkeypatch.setenv("CUESTA_CACHE_DIR", str(tmp_path))
    for from_cache in (False, True):
        torch._dynamo.reset()
        cuesta.clear_records()
        told: list[Fallback] = []
        x = X.clone().requires_grad_()
        with watching(told.append):
            compiled = torch.compile(lambda x: torch.polygamma(25, x.detach()).sum() + x.sum(), backend="cuesta")
            for _ in range(ENOUGH + 1):
                compiled(x).backward()
        assert cuesta.records and all(record.from_cache == from_cache for record in cuesta.records)
        assert [(one.overload, one.kind) for one in told] == [("aten.polygamma.default", "forward")]
        assert 0.01 < told[0].share <= 1 and told[0].milliseconds <= told[0].whole
