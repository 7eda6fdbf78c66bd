"""A sample of what `make fuzz-texts` does: edited texts run, or are refused by name; nothing else may come of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fuzz.texts.corpus import corpus
from tests.fuzz.texts.search import search

RUNS = int(os.environ.get("FUZZ_TEXTS", "60"))


@pytest.mark.slow
@pytest.mark.parametrize(("every", "functions"), [(16, 3), pytest.param(1, 1, marks=pytest.mark.thorough)])
def test_edited_texts_do_no_harm(every: int, functions: int, tmp_path: Path) -> None:
    """Of one text in 16 of every third function, because writing 3,400 takes longer than judging 60; of all by
    `make test-thorough`.
    """
    texts = corpus(tmp_path / "corpus", every, functions)
    report = search(texts, RUNS, seed=2028, folder=tmp_path / "edited")
    assert not report.findings, report.text()
    assert report.verdicts["ran"] > RUNS // 20, report.text()
    assert report.verdicts["ran on cuda"] > RUNS // 20, report.text()
    assert report.verdicts["refused (load)"] > RUNS // 10, report.text()
