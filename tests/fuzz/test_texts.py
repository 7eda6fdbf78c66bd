"""A sample of what `make fuzz-texts` does: edited texts run, or are refused by name; nothing else may come of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fuzz.texts.corpus import corpus
from tests.fuzz.texts.search import search

RUNS = int(os.environ.get("FUZZ_TEXTS", "90"))


@pytest.mark.slow
@pytest.mark.parametrize("runs", [RUNS // 2, pytest.param(RUNS, marks=pytest.mark.thorough)])
def test_edited_texts_do_no_harm(runs: int, tmp_path: Path) -> None:
    """The first half of them; all by `make test-thorough`."""
    texts = corpus(tmp_path / "corpus")
    report = search(texts, runs, seed=2026, folder=tmp_path / "edited")
    assert not report.findings, report.text()
    assert report.verdicts["ran"] > runs // 20, report.text()
    assert report.verdicts["ran on cuda"] > runs // 20, report.text()
    assert report.verdicts["refused (load)"] > runs // 10, report.text()
