"""The documents name files that exist: paths in backticks, and links, in the README, CONTRIBUTING and docs/."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
CODE = (
    "benchmarks",
    "cuesta",
    "dialects",
    "examples",
    "lowering",
    "manual",
    "scripts",
    "targets",
    "tests",
    "transforms",
)
FOLDERS = (*CODE, "docs")
NAMES = {path.name for folder in CODE for path in (ROOT / folder).rglob("*.py")}
GENERATED = ("fx.py",)
"""What compiling writes into the folder of a dump."""
SUFFIXES = (".py", ".md", ".mlir", ".json", ".toml")

_QUOTED = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)\s#]+(?:\.md|\.py|/))(?:#[^)]*)?\)")


def named(document: Path) -> list[str]:
    """The paths that a document names in backticks: from the root, or the name of a module alone."""
    found: list[str] = []
    for line in document.read_text(encoding="utf-8").splitlines():
        for text in _QUOTED.findall(line):
            if not re.fullmatch(r"[\w./-]+", text) or (not text.endswith(SUFFIXES) and not text.endswith("/")):
                continue
            if ("/" in text.rstrip("/") and text.partition("/")[0] in FOLDERS) or (
                text.endswith(".py") and "/" not in text and text not in GENERATED
            ):
                found.append(text)
    return found


def missing(document: Path) -> list[str]:
    """What the document names that is not there. A decision may name what was there when it was taken."""
    links = [link for link in _LINK.findall(document.read_text(encoding="utf-8")) if "://" not in link]
    paths = [] if document.parent.name == "decisions" else named(document)
    return [
        *(path for path in paths if not ((ROOT / path).exists() if "/" in path else path in NAMES)),
        *(link for link in links if not (document.parent / link).exists()),
    ]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_a_document_names_is_there(document: Path) -> None:
    assert missing(document) == []


def test_the_search_finds_what_there_is(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text(
        "`cuesta/opt.py`, `pipeline.py` and `nowhere.py`; `dialects/gone.py`; `a.b`; `docs/`; [here](gone.md)\n"
    )
    assert named(document) == ["cuesta/opt.py", "pipeline.py", "nowhere.py", "dialects/gone.py"]
    assert missing(document) == ["nowhere.py", "dialects/gone.py", "gone.md"]
