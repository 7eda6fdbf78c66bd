"""What tests of the benchmarks share."""

from __future__ import annotations

import multiprocessing

import pytest

from tests.support.fresh import spawning


@pytest.fixture
def spawned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of a benchmark begin where the imports of torch end."""
    monkeypatch.setattr(multiprocessing, "get_context", spawning)
