"""Texts that messages name: there to be read, in one place, and not more and more of them."""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path

import pytest

from cuesta.targets.cpu import jit, machine_code
from cuesta.targets.library import LibraryTarget
from cuesta.targets.reports import MOST, kept
from examples.extensions import c_target


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def reports(tmp_path: Path) -> list[Path]:
    return list(tmp_path.glob("*/*"))


def test_the_same_texts_lie_in_one_place(tmp_path: Path) -> None:
    first = kept({"a.mlir": "α", "error.txt": "why"})
    assert {path.name: path.read_text("utf-8") for path in first.iterdir()} == {"a.mlir": "α", "error.txt": "why"}
    assert kept({"a.mlir": "α", "error.txt": "why"}) == first
    assert kept({"a.mlir": "α", "error.txt": "another"}) != first
    (first / "a.mlir").unlink()
    assert (kept({"a.mlir": "α", "error.txt": "why"}) / "a.mlir").read_text("utf-8") == "α"
    assert len(reports(tmp_path)) == 2
    assert first.parent.stat().st_mode & 0o777 == 0o700


def test_the_newest_stay(tmp_path: Path) -> None:
    places = [kept({"a": str(number)}) for number in range(MOST)]
    for age, place in enumerate(places):
        os.utime(place, (1e9 + age, 1e9 + age))
    assert kept({"a": "0"}) == places[0]  # asked for again, it is new again
    new = kept({"a": "new"})
    assert set(reports(tmp_path)) == {*places, new} - {places[1]}


def test_threads_that_report_the_same(tmp_path: Path) -> None:
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(kept({"a": "b" * 100_000}))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert {(place / "a").read_text() for place in set(found)} == {"b" * 100_000}


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="modes say nothing here")
@pytest.mark.parametrize("how", ["writable by others", "a link", "a file"])
def test_a_folder_that_may_be_somebody_elses_is_not_used(tmp_path: Path, how: str) -> None:
    theirs = tmp_path / f"cuesta-reports-{os.geteuid()}"
    if how == "a link":
        (tmp_path / "elsewhere").mkdir()
        theirs.symlink_to(tmp_path / "elsewhere")
    elif how == "a file":
        theirs.touch()
    else:
        theirs.mkdir()
        theirs.chmod(0o777)
    place = kept({"a": "b"})
    assert (place / "a").read_text() == "b"
    assert theirs not in place.parents
    assert not theirs.is_dir() or not list(theirs.iterdir())


def test_compilers_that_refuse_a_text_again_and_again_leave_one(tmp_path: Path) -> None:
    (target,) = c_target.extension.targets
    assert isinstance(target, LibraryTarget)
    for _ in range(3):
        with pytest.raises(machine_code.MachineCodeError, match="text: "):
            jit.compile_module("define i64 @f() {\n  ret i64 %nothing\n}\n")
        if target.obstacle("cpu") is None:
            with pytest.raises(Exception, match="refuses the text of a program"):
                target.compile("no C at all")
    assert len(reports(tmp_path)) == 1 + (target.obstacle("cpu") is None)
