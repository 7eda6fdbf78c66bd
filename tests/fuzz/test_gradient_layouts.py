"""Gradients of every layout, as random calls give them: those by inputs are eager's. (What runs long is
`python -m tests.fuzz.gradient_layouts 0 1000`.)
"""

from __future__ import annotations

import pytest

from tests.fuzz.gradient_layouts import look

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.every(2)
def test_a_few(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    look(seed, monkeypatch.setattr)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(100, 160))
def test_more(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    look(seed, monkeypatch.setattr)
