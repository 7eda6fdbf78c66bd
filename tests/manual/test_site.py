"""`make docs` builds, a warning being an error; and the notebook runs as a script does."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cuesta.pipeline import STAGES

pytestmark = pytest.mark.slow


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")
def test_the_site_has_no_warnings(tmp_path: Path) -> None:
    pytest.importorskip("sphinx")
    from manual.__main__ import build

    pages = tmp_path / "pages"
    assert build(tmp_path / "site", pages=pages, builder="dummy") == 0
    flow = (pages / "flow.md").read_text(encoding="utf-8")
    assert flow.count("(stage-") == len(STAGES) and "<!-- generated" not in flow
    assert "<!-- before" not in (pages / "readme.md").read_text(encoding="utf-8")
    assert "(op-kernel.contract)=" in (pages / "level-kernel.md").read_text(encoding="utf-8")


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")
def test_the_site_is_written(tmp_path: Path) -> None:
    pytest.importorskip("sphinx")
    from manual.__main__ import build

    assert build(tmp_path / "site", pages=tmp_path / "pages") == 0
    index = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert "level-kernel.html" in index and "decisions.html" in index


@pytest.mark.filterwarnings("ignore")
def test_the_notebook_runs() -> None:
    pytest.importorskip("marimo")
    from examples.slope import app

    torch._dynamo.reset()
    _, names = app.run()
    assert torch.equal(names["again"], names["result"])
