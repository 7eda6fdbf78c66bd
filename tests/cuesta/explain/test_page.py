"""The page as a file: it needs nothing else, what a program says cannot break it, and it is whole or not there."""

from __future__ import annotations

import base64
import gzip
import json
import re
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest

from cuesta.explain import page as pages
from cuesta.explain.model import Explanation, Graph, LevelText, SourceLine
from cuesta.explain.page import page, write_page

HOSTILE = "</script><!-- {{data}} {{script}} ]]> & \" ' \u2028"


def explanation(name: str = "model.py") -> Explanation:
    level = LevelText("fx", "capture", "python", HOSTILE)
    graph = Graph(0, "inference", "compiled", sources=(SourceLine(HOSTILE, 1, HOSTILE),), levels=(level,))
    return Explanation(name, "0", "2", False, (graph,), whole_us=float("nan"))


def data_of(text: str) -> str:
    found = re.search(r'<script type="text/plain" id="data">([A-Za-z0-9+/=]*)</script>', text)
    assert found is not None
    return gzip.decompress(base64.b64decode(found[1])).decode()


def test_the_page_holds_the_explanation() -> None:
    assert json.loads(data_of(page(explanation()))) == explanation().to_json()


def test_what_the_program_says_reaches_the_page_packed_or_escaped() -> None:
    text = page(explanation(HOSTILE))
    assert text.count("</script>") == 2  # of the data and of the script, which are ours
    assert "<title>&lt;/script&gt;&lt;!-- {{data}} {{script}}" in text
    assert json.loads(data_of(text))["graphs"][0]["levels"][0]["text"] == HOSTILE


def test_it_asks_for_nothing_else() -> None:
    text = page(explanation())
    addresses = set(re.findall(r"\w+://[\w./]+", text))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, which nobody fetches
    assert not re.search(r"<link|@import|url\((?!#)|\bsrc=|\bimport\(|fetch\(|XMLHttpRequest|innerHTML|eval\(", text)


def test_every_file_of_ours_is_in_it() -> None:
    files = {one.name for one in (resources.files("cuesta.explain") / "web").iterdir()}
    assert files == {*pages._SCRIPTS, "page.html", "page.css"}


def test_a_name_that_is_no_text_is_written() -> None:
    assert "<title>a?b" in page(explanation("a\udcffb"))


def test_a_page_is_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    assert write_page(explanation(), path) == path
    before = path.read_text(encoding="utf-8")
    broken = replace(explanation(), graphs=(object(),))  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        write_page(broken, path)
    assert path.read_text(encoding="utf-8") == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        write_page(explanation(), tmp_path / "nowhere" / "page.html")
