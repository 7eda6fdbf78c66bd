"""The lines at the top of a dumped text: what is written is read, and what a person makes of them is taken as it is."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import cuesta
from cuesta.pipeline import STAGES, stages_named
from cuesta.programs.header import Header, read_header, split_passes

REMAINING = ("forward-stores", "loops-to-kernel{target=cpu}", "dce")


def test_what_is_written_is_read() -> None:
    header = Header("fuse-nests", 8, REMAINING)
    text = f"{header}builtin.module {{\n}}\n// remaining: nothing of the sort\n"
    assert text.splitlines()[:2] == [
        f"// cuesta {cuesta.__version__} · after fuse-nests · 8 of 11",
        "// remaining: forward-stores,loops-to-kernel{target=cpu},dce",
    ]
    read = read_header(text, first_line=5)
    assert (read.after, read.done, read.remaining, read.version) == ("fuse-nests", 8, REMAINING, cuesta.__version__)
    assert read.line == 6 and not read.other_version
    assert read_header(str(Header("pool-buffers", 11, ()))).remaining == ()


@pytest.mark.parametrize(
    ("text", "remaining", "version"),
    [
        ("", None, None),
        ("builtin.module {}\n// remaining: dce\n", None, None),
        ("// a remark\n\n// remaining:  cse , dce \n// another\n", ("cse", "dce"), None),
        ("// cuesta 9.9\n// remaining:\n", (), "9.9"),
        ("// cuesta \n", None, None),
        ("// cuesta was here\n// remaining: dce", ("dce",), None),
    ],
)
def test_what_a_person_wrote(text: str, remaining: tuple[str, ...] | None, version: str | None) -> None:
    header = read_header(text)
    assert (header.remaining, header.version) == (remaining, version)
    assert bool(header.other_version) == (version == "9.9")


def test_options_have_commas_of_their_own() -> None:
    assert split_passes("a{x=1,2 y=3},b") == ("a{x=1,2 y=3}", "b")
    assert split_passes(" ") == ()


def test_what_comes_next() -> None:
    header = Header("fuse-nests", 8, REMAINING)
    assert header.then([]) == header
    assert header.then(REMAINING[:2]) == Header("loops-to-kernel", 10, ("dce",))
    assert header.then(["dce"]) is None and Header().then(["dce"]) is None
    assert header.then([*REMAINING, "cse"]) is None


def test_a_stage_keeps_its_contract() -> None:
    """Of two stages of one pass, what comes after says which is meant; an option is the text's."""
    names = [stage.name for stage in STAGES]
    for first in range(len(STAGES) + 1):
        assert stages_named(names[first:], place="x") == STAGES[first:]
    named = stages_named(["loops-to-kernel{target=cpu}", "kernel-to-host"], place="x")
    assert [stage.name for stage in named] == ["loops-to-kernel{target=cpu}", "kernel-to-host"]
    assert named[0].begins is next(stage.begins for stage in STAGES if stage.name == "loops-to-kernel")


def test_the_version_is_that_of_the_distribution() -> None:
    project = Path(__file__).parents[3] / "pyproject.toml"
    assert tomllib.loads(project.read_text())["project"]["version"] == cuesta.__version__
