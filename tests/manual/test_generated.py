"""What the manual generates: every op, stage and public name has an example, which parses, verifies, and runs."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from cuesta.dialects.aten.schemas import load_table
from cuesta.dialects.elem.table import TABLE
from cuesta.opt import run_captured
from cuesta.pipeline import STAGES
from cuesta.programs.texts import verify_text as hold_to_its_level
from manual import op_examples, public_names, stage_examples
from manual.blocks import PageError
from manual.flow_page import docstring, levels_of_stages
from manual.op_examples import OpExample, aten_program, elem_example, written_examples
from manual.programs import run_text, verify_text
from manual.reference_page import definition, reference_page
from manual.staging import contents_of, relinked
from manual.table_pages import NOT_WRITTEN, maker_of

WRITTEN = [example for level in op_examples.DIALECTS for example in written_examples(level)]


def test_every_op_has_an_example() -> None:
    assert op_examples.without_example() == []


@pytest.mark.parametrize("example", WRITTEN, ids=lambda example: example.ops[0])
def test_an_example_of_ops_runs(example: OpExample) -> None:
    found: set[str] = set()
    for module in verify_text(example.text, example.place):
        hold_to_its_level(module)
        found |= {op.name for op in module.walk()}
    assert set(example.ops) <= found
    (results,) = run_text(example.text, example.place)
    assert results


@pytest.mark.parametrize("name", TABLE)
def test_an_example_of_a_scalar_op_runs(name: str) -> None:
    assert len(run_text(elem_example(TABLE[name]), name)[0]) == 1


def test_every_overload_of_aten_has_a_call_that_verifies() -> None:
    """All in one text, each in a function of its own: one parser is enough."""
    names = [name for name in load_table()["operations"] if name not in NOT_WRITTEN]
    texts = (aten_program(name).replace("@main", f"@f{number}") for number, name in enumerate(names))
    (module,) = verify_text("".join(texts), "overloads.mlir")
    assert [op.name for op in module.walk() if op.name.startswith("aten.")] == names


def test_who_makes_an_operator() -> None:
    assert maker_of("aten.add.Tensor") == "[lowering/aten/pointwise.py]"
    assert maker_of("aten.mm.default") == "[library]"
    assert maker_of("aten.unique_consecutive.default") == "[eager]"


@pytest.mark.slow
def test_every_stage_has_an_example_that_it_changes() -> None:
    assert stage_examples.without_example() == []


def test_stages_go_down_the_levels() -> None:
    levels = list(levels_of_stages())
    assert levels[0] == ("aten", "aten") and levels[-1] == ("host", "host") and len(levels) == len(STAGES)
    assert [pair for pair in levels if pair[0] != pair[1]] == [
        ("aten", "loops"),
        ("loops", "kernel"),
        ("kernel", "host"),
    ]


@pytest.mark.parametrize("path", sorted(stage_examples.WRITTEN.glob("*.mlir")), ids=lambda path: path.stem)
def test_a_written_example_of_a_stage_is_right(path: Path) -> None:
    from tests.support.equivalence import check_example

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_example(path, path.stem)
    assert run_captured([str(path), "-p", path.stem])[0] == 0


def test_every_public_name_has_an_example() -> None:
    """A new public name, option, variable or command needs one in docs/names.md."""
    assert public_names.without_example() == []
    assert public_names.unknown() == []


def test_what_has_no_example_is_found() -> None:
    text = "### `cuesta.load`\n```python\nload\n```\n### `cuesta.package`, `cuesta.gone`\n```python\npackages\n```\n"
    assert {"cuesta.package", "cuesta.records"} <= set(public_names.without_example(text))
    assert "cuesta.load" not in public_names.without_example(text)
    assert public_names.unknown(text) == ["cuesta.gone"]
    assert public_names.unknown("### `cuesta.gone`\n<!-- needs: cuesta.gone -->\n```python\ngone\n```\n") == []


def test_definitions_stand_below_names() -> None:
    page = reference_page("### `cuesta.load`\n```python\n```\n")
    assert page.startswith("### `cuesta.load`\n\n`load(")
    names = {one.name: one for one in public_names.public_names()}
    assert "By default" not in "".join(definition(names["option dump"])) and "by default `None`" in "".join(
        definition(names["option dump"])
    )
    assert "Every graph that this process compiled" in "".join(definition(names["cuesta.records"]))
    assert definition(names["CUESTA_CACHE"]) == []


def test_links_lead_to_what_the_site_has() -> None:
    pages = {"levels.md": "# Levels\n", "level-loops.md": "# loops\n", "decisions/001-own-index-expressions.md": ""}
    text = "[a](levels.md#x) [b](../README.md) [c](decisions/) [`opt.py`](../cuesta/opt.py) [d](https://x.y/z.md) `level-loops.md`"
    assert relinked(text, "index.md", pages) == (
        "[a](levels.md#x) [b](readme.md) [c](decisions.md) `opt.py` (`cuesta/opt.py`) [d](https://x.y/z.md) [loops](level-loops.md)"
    )
    assert relinked("[a](../levels.md)", "decisions/001.md", pages) == "[a](../levels.md)"
    assert relinked("[a](docs/levels.md)", "readme.md", pages) == "[a](levels.md)"


def test_the_index_lists_every_page() -> None:
    pages = {"index.md": "", "a.md": "# A", "decisions.md": ""}
    index = "## One\n* [a](a.md)\n* [d](decisions/)\n"
    assert ":caption: One\n\na\ndecisions\n" in contents_of(index, pages)
    with pytest.raises(PageError, match=r"does not list b\.md"):
        contents_of(index, {**pages, "b.md": ""})
    with pytest.raises(PageError, match=r"lists what is not there: a\.md"):
        contents_of(index, {"index.md": "", "decisions.md": ""})


def test_what_is_indented_in_a_docstring_is_code() -> None:
    said = docstring("A law.\n\n    a -> b\n\n    c -> d\n\nMore.")
    assert said == ["A law.", "", "```text", "a -> b", "", "c -> d", "```", "", "More."]
