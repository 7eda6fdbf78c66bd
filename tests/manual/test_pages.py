"""Every code block of every page does what the page says: Python runs, programs verify, commands print what it says."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from manual.blocks import Block, PageError, blocks_of, without_marks
from manual.running import matches, run_page

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
QUICK = {"CONTRIBUTING.md", "deciding.md", "flow.md", "index.md"}
RUNS = {"python", "mlir", "console"}
HAS_BLOCKS = [page for page in PAGES if any(block.language in RUNS for block in blocks_of(page))]


def _marked(page: Path) -> object:
    return pytest.param(page, id=page.name, marks=() if page.name in QUICK else pytest.mark.slow)


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
@pytest.mark.usefixtures("products_are_calls")
@pytest.mark.parametrize("page", list(map(_marked, HAS_BLOCKS)))
def test_a_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    torch._dynamo.reset()
    try:
        assert run_page(page, tmp_path) >= sum(block.language in RUNS for block in blocks_of(page))
    finally:
        torch._dynamo.reset()


def test_a_new_page_has_blocks_that_run() -> None:
    without = {page.name for page in PAGES} - {page.name for page in HAS_BLOCKS}
    assert without <= {
        "CONTRIBUTING.md",
        "benchmarks.md",
        "cache.md",
        "differences.md",
        "flow.md",
        "fusion.md",
        "index.md",
        "levels.md",
        "results-constants.md",
        "results.md",
        "where-is-x.md",
    }


def run(tmp_path: Path, text: str) -> int:
    return run_page(Path("page.md"), tmp_path, text)


def test_what_blocks_share(tmp_path: Path) -> None:
    text = (
        "<!-- before: a = 1 -->\n```python\nb = a + 1\nprint(b)\n```\n<!-- printed -->\n```text\n2\n```\n"
        "<!-- file: x.mlir -->\n```mlir\nfunc.func @main() {\n  func.return\n}\n```\n"
        "```console\n$ ls .\nx.mlir\n$ cuesta-opt x.mlir \\\n  -p dce     # nothing to do\nbuiltin.module {\n…\n}\n```\n"
        "<!-- raises: ZeroDivisionError -->\n```python\nb / 0\n```\n<!-- printed -->\n```text\ndivision…zero\n```\n"
        "<!-- from: *.mlir -->\n```mlir\nfunc.func @main() {\n```\n"
        "<!-- run -->\n```mlir\nfunc.func @main(%x : tensor<2xf32>) -> tensor<2xf32> {\n  func.return %x : tensor<2xf32>\n}\n```\n"
        "<!-- inside: func.func @main(%x : tensor<2xf32>) -->\n```mlir\n"
        "%y = aten.neg.default(%x) : (tensor<2xf32>) -> tensor<2xf32>\n```\n"
        "<!-- shown: a name that there is not -->\n```python\nnowhere(…)\n```\n"
        "<!-- needs: cuesta nowhere -->\n```console\n$ cuesta nowhere\n```\n"
        "<!-- needs: cuesta inspect -->\n```console\n$ ls .\nx.mlir\n```\n"
        "```bash\nrm -rf /\n```\n"
    )
    assert run(tmp_path, text) == 12


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```python\nprint(1)\n", "a block that is never closed"),
        ("```python\nx = \n```\n", "page.md:2  is no Python"),
        ("\n```python\n\nnowhere\n```\n", "page.md:3  raises NameError"),
        ("<!-- raises: ValueError -->\n```python\n1\n```\n", "does not raise ValueError"),
        ("<!-- raises: ValueError -->\n```python\n1 / 0\n```\n", "raises ZeroDivisionError"),
        (
            "```python\nprint(1)\n```\n<!-- printed -->\n```text\n2\n```\n",
            "the page says\n2\n\n--- but this is printed:\n1",
        ),
        ("```console\nls\n```\n", "begins with a command"),
        ("```console\n$ rm -rf /\n```\n", "is no command that pages may have"),
        ("```console\n$ cuesta-opt nowhere.mlir\n```\n", "cannot read nowhere.mlir"),
        ("```mlir\nfunc.func @main() {\n```\n", "page.md"),
        ("```mlir\nfunc.func @main() {\n  %a = loops.store : f32\n  func.return\n}\n```\n", "page.md"),
        ("<!-- from: *.mlir -->\n```mlir\na\n```\n", "there is no file"),
        ("<!-- shown: -->\n```python\n1\n```\n", "does not say why"),
        ("<!-- shown: so -->\n```python\nx = = 1\n```\n", "is no Python"),
    ],
)
def test_a_page_that_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(PageError) as error:
        run(tmp_path, text)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("expected", "printed", "fits"),
    [
        ("a\nb", "a  \nb\n\n", True),
        ("a\n…\nd", "a\nb\nc\nd", True),
        ("a\n…\nd", "a\nd", True),
        ("a\n…", "a", True),
        ("a\n…", "b\na", False),
        ("a … d", "a b c d", True),
        ("a … d", "a b\nc d", False),
        ("a", "a\nb", False),
        ("…\nb", "a\nb\nc", False),
        ("(a)", "(a)", True),
        ("", "", True),
        ("", "a", False),
    ],
)
def test_what_elided_parts_stand_for(expected: str, printed: str, fits: bool) -> None:
    assert matches(expected, printed) is fits


def test_readers_see_no_marks() -> None:
    text = "A <!-- b -->\n<!-- before:\ncode\n-->\n```python\nx\n```\n<!-- printed -->\n```text\n```\n"
    assert without_marks(text) == "A <!-- b -->\n```python\nx\n```\n```text\n```\n"
    marks = [block.marks for block in blocks_of(Path("page.md"), text)]
    assert marks == [{"before": "code"}, {"printed": ""}]
    assert Block(Path("page.md"), 3, "python", "x").place == "page.md:3"
