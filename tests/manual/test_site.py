"""`make docs` builds, a warning being an error; and the notebook runs as a script does."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.slow


def test_the_site_builds(tmp_path: Path) -> None:
    pytest.importorskip("sphinx")
    from manual.__main__ import build

    assert build(tmp_path / "site", pages=tmp_path / "pages") == 0
    index = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert "level-kernel.html" in index and "decisions.html" in index
    flow = (tmp_path / "site" / "flow.html").read_text(encoding="utf-8")
    assert flow.count('id="stage-') >= 40 and "<!-- generated" not in flow
    assert "<!-- before" not in (tmp_path / "site" / "readme.html").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore")
def test_the_notebook_runs() -> None:
    pytest.importorskip("marimo")
    from examples.slope import app

    torch._dynamo.reset()
    _, names = app.run()
    assert torch.equal(names["again"], names["result"])
