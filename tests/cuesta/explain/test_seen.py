"""What a run looked at is found out, and every change of it is noticed; what nobody can vouch for is refused."""

from __future__ import annotations

import io
import json
import os
import random
import socket
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from cuesta.explain import seen as seen_module
from cuesta.explain import witness as witness_module
from cuesta.explain.seen import Seen, UnreadableSeenError, names_in
from cuesta.explain.unseeded import follows
from cuesta.explain.witness import UnvouchedError, Witness, witnessed


@pytest.fixture
def old(tmp_path: Path) -> Callable[..., Path]:
    """Makes files as if the process that is witnessed had begun a while later."""

    def make(name: str, content: str = "a") -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, encoding="utf-8")
        return path

    return make


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this process has loaded is another test's; and files may have been written just now."""
    monkeypatch.setattr(witness_module._Told, "loaded", lambda told: None)  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(sys, "path_importer_cache", {})
    monkeypatch.setattr(witness_module, "TICK_NS", -(10**12))


def witness_of(run: Callable[[], object]) -> Witness:
    with witnessed() as found, found.file_runs():
        run()
    return found


def seen_of(run: Callable[[], object]) -> Seen:
    return witness_of(run).seen()


def refused(run: Callable[[], object]) -> str:
    with pytest.raises(UnvouchedError) as error:
        seen_of(run)
    return str(error.value)


# -- what changes is noticed -------------------------------------------------------------------------------------------


def keeping_times(path: Path, content: str) -> None:
    """Writes other contents of the same length, with the same times."""
    before = path.stat()
    path.write_text(content, encoding="utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def test_a_file_that_is_read(old: Callable[..., Path]) -> None:
    path = old("data.txt")
    seen = seen_of(path.read_text)
    assert str(path) in seen.contents and seen.changed() is None
    keeping_times(path, "b")
    assert seen.changed() == str(path)
    path.write_text("a", encoding="utf-8")
    assert seen.changed() is None
    path.unlink()
    assert seen.changed() == str(path)


def test_a_file_that_is_installed(old: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = old("site/package.py")
    monkeypatch.setattr(seen_module, "installed_folders", lambda: (f"{path.parent}{os.sep}",))
    seen = seen_of(path.read_text)
    assert str(path) in seen.stats and str(path) not in seen.contents
    for change in (lambda: os.utime(path, (1, 1)), lambda: path.write_text("ab"), path.unlink):
        assert seen_of(lambda: path.exists()).changed() is None and seen.changed() is None
        change()
        assert seen.changed() == str(path)
        if path.exists():
            seen = seen_of(path.read_text)


def test_a_file_that_is_large(old: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witness_module, "LARGE", 0)
    path = old("weights")
    seen = seen_of(path.read_text)
    assert str(path) in seen.stats and seen.changed() is None
    time.sleep(0.02)  # longer than a file system's clock takes to tick
    keeping_times(path, "b")
    assert seen.changed() == str(path)


def test_what_is_asked_for(old: Callable[..., Path], tmp_path: Path) -> None:
    here, away, link, twin = old("here"), tmp_path / "away", tmp_path / "link", old("twin", "b")
    link.symlink_to(here)
    questions: list[tuple[Callable[[], object], Callable[[], object], Path]] = [
        (away.exists, away.touch, away),
        (lambda: os.path.isfile(tmp_path / "none"), (tmp_path / "none").mkdir, tmp_path / "none"),
        (lambda: os.access(tmp_path / "no", os.R_OK), (tmp_path / "no").touch, tmp_path / "no"),
        (lambda: os.path.getsize(here), lambda: keeping_times(here, "b"), here),
        (lambda: os.path.isdir(tmp_path / "none"), (tmp_path / "none").rmdir, tmp_path / "none"),
        (lambda: os.path.realpath(link), lambda: (link.unlink(), link.symlink_to(twin)), link),
    ]
    for ask, change, path in questions:
        seen = seen_of(ask)
        assert seen.changed() is None
        change()
        assert seen.changed() == str(path)


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    def opens() -> None:
        with pytest.raises(FileNotFoundError):
            (tmp_path / "away").open()

    seen = seen_of(opens)
    assert str(tmp_path / "away") in seen.absent and seen.changed() is None
    (tmp_path / "away").touch()
    assert seen.changed() == str(tmp_path / "away")


def test_a_folder_that_is_listed(old: Callable[..., Path], tmp_path: Path) -> None:
    old("folder/one")
    folder = tmp_path / "folder"
    for listing in (lambda: os.listdir(folder), lambda: list(os.scandir(folder)), lambda: list(folder.glob("*"))):
        seen = seen_of(listing)
        (folder / "__pycache__").mkdir()
        assert str(folder) in seen.listed and seen.changed() is None
        (folder / "two").touch()
        assert seen.changed() == str(folder)
        (folder / "two").unlink()
        (folder / "__pycache__").rmdir()


def test_a_folder_of_modules(tmp_path: Path) -> None:
    for name, counts in (("notes.txt", False), ("LICENSE", False), ("one.py", True), ("two.cpython-311.so", True)):
        before = names_in(str(tmp_path), importable=True)
        (tmp_path / name).touch()
        assert (names_in(str(tmp_path), importable=True) != before) == counts
    before = names_in(str(tmp_path), importable=True)
    (tmp_path / "package").mkdir()
    assert names_in(str(tmp_path), importable=True) != before


def test_modules_that_would_be_found_first(
    old: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old("late/mine.py", "x = 1")
    (tmp_path / "early").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path / name) for name in ("none", "early", "late")])
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def imports() -> None:
        import mine  # pyright: ignore[reportMissingImports]

        assert mine.x == 1

    seen = seen_of(imports)
    assert str(tmp_path / "late" / "mine.py") in seen.contents and seen.changed() is None
    (tmp_path / "early" / "mine.py").touch()
    assert seen.changed() == str(tmp_path / "early")
    (tmp_path / "early" / "mine.py").unlink()
    (tmp_path / "none").mkdir()
    assert seen.changed() == str(tmp_path / "none")


def test_json(old: Callable[..., Path], tmp_path: Path) -> None:
    path = old("data.txt")
    (tmp_path / "link").symlink_to(path)

    def run() -> None:
        path.read_text()
        os.listdir(tmp_path)
        for name in ("link", "away", "."):
            os.path.realpath(tmp_path / name)

    seen = seen_of(run)
    data: dict[str, Any] = json.loads(json.dumps(seen.to_json()))
    assert Seen.from_json(data) == seen and len(seen) >= 5
    for name, wrong in (
        ("contents", {"/": {"a": 1}}), ("stats", {"/": {"a": [1]}}), ("stats", {"/": {"a": [1, 2, "3"]}}),
        ("absent", 1), ("absent", [1]), ("present", {"a": "b"}), ("links", {"a": None}),
        ("listed", {"a": ["b"]}), ("importable", []),
    ):  # fmt: skip
        with pytest.raises(UnreadableSeenError):
            Seen.from_json({**data, name: wrong})
    for wrong in ({**data, "more": 1}, {}, None, []):
        with pytest.raises(UnreadableSeenError):
            Seen.from_json(wrong)


# -- what nobody can vouch for -----------------------------------------------------------------------------------------


def test_other_processes_networks_and_inputs(old: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    fifo = old("one").with_name("fifo")
    os.mkfifo(fifo)
    there = socket.create_server(("127.0.0.1", 0))

    def reads_fifo() -> None:
        os.close(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK))

    monkeypatch.setattr(sys, "stdin", io.StringIO("three\n"))
    for run, why in (
        (lambda: subprocess.run(["true"], check=True), "another process"),
        (lambda: os.system("true"), "another process"),
        (lambda: socket.create_connection(there.getsockname()).close(), "network"),
        (lambda: socket.getaddrinfo("localhost", 80), "network"),
        (lambda: sqlite3.connect(":memory:").close(), "database"),
        (lambda: sys.stdin.readline(), "standard input"),
        (lambda: next(iter(sys.stdin), ""), "standard input"),
        (lambda: Path("/proc/self/environ").read_bytes(), "read /proc/self/environ"),
        (reads_fifo, "is no file"),
    ):
        assert why in refused(run)
    there.close()
    witness = Witness()
    witness.told("builtins.input", ("",))
    assert witness.why


def test_numbers_without_a_seed() -> None:
    assert "random" in refused(random.random)
    assert "random" in refused(lambda: np.random.rand(3))
    assert "random" in refused(lambda: [random.random() for _ in range(5000)])
    before = random.getstate()[1]
    random.seed(5)
    assert not follows(before, random.getstate()[1])

    def seeded() -> None:
        random.seed(3)
        np.random.seed(3)
        assert random.random() == pytest.approx(0.2379646) and np.random.rand(700).shape == (700,)

    assert seen_of(seeded).changed() is None
    assert seen_of(lambda: os.urandom(3)).changed() is None


def test_files_that_are_written_too(old: Callable[..., Path], tmp_path: Path) -> None:
    path = old("data.txt")

    def writes_and_reads() -> None:
        (tmp_path / "new").write_text("a")
        (tmp_path / "new").read_text()

    def renames_and_reads() -> None:
        os.rename(path, tmp_path / "moved")
        (tmp_path / "moved").read_text()
        os.rename(tmp_path / "moved", path)

    def reads_and_appends() -> None:
        path.read_text()
        with path.open("a") as file:
            file.write("")

    assert "which it had written" in refused(writes_and_reads)
    assert "which it had written" in refused(renames_and_reads)
    assert "read and wrote" in refused(reads_and_appends)
    assert str(tmp_path) not in str(seen_of(lambda: (tmp_path / "log").write_text("a")))


def test_what_changes_meanwhile(old: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = old("data.txt")
    for look, change in (
        (path.read_text, lambda: path.write_text("ab")),
        (path.read_text, path.unlink),
        ((tmp_path / "away").exists, (tmp_path / "away").touch),
        (lambda: os.listdir(tmp_path), (tmp_path / "more").touch),
    ):
        witness = witness_of(look)
        change()
        with pytest.raises(UnvouchedError, match=r"changed meanwhile|other names"):
            witness.seen()
    monkeypatch.setattr(witness_module, "TICK_NS", 10**12)
    path = old("data.txt")
    assert "a moment before" in refused(path.read_text)


def test_sources_that_read_behind_pythons_back(
    old: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in ("from safetensors.torch import load_file", "import ctypes", "import torch; torch.export.load('a')"):
        path = old("model.py", text)
        assert "may read files by" in refused(path.read_text)
        assert seen_of(path.exists).changed() is None
    assert seen_of(old("notes.txt", "of safetensors").read_text).changed() is None


def test_what_was_loaded(old: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules and libraries, whoever read them."""
    monkeypatch.undo()
    module, library = old("mine.py", "x = 1"), old("libmine.so")
    witness = witness_of(lambda: None)
    monkeypatch.setattr(witness_module, "_mapped", list)
    modules = {"mine": SimpleNamespace(__file__=str(module)), "os": os}
    process = SimpleNamespace(modules=modules, path_importer_cache={}, base_prefix=sys.base_prefix)
    monkeypatch.setattr(witness_module, "sys", process)
    with pytest.raises(UnvouchedError, match="may have been loaded already"):
        witness.seen()
    monkeypatch.setattr(witness_module, "BEFORE_NS", -(10**12))
    monkeypatch.setattr(witness_module, "TICK_NS", -(10**12))
    seen = witness.seen()
    assert str(module) in seen.contents and seen.changed() is None and os.__file__ in seen.stats
    module.write_text("x = 2", encoding="utf-8")
    assert seen.changed() == str(module)
    monkeypatch.setattr(witness_module, "_mapped", lambda: [str(library)])
    with pytest.raises(UnvouchedError, match=r"libmine\.so may read files by itself"):
        witness.seen()


def test_this_process_says_what_is_in_its_memory() -> None:
    found = list(witness_module._mapped())  # pyright: ignore[reportPrivateUsage]
    known = witness_module._is_known_library  # pyright: ignore[reportPrivateUsage]
    assert torch.get_num_threads() and any("libtorch" in path and known(path) for path in found)
    assert any("python" in path for path in found)
    site = next(one for one in seen_module.installed_folders() if "site-packages" in one)
    assert known(f"{site}torch/lib/libx.so") and not known(f"{site}other/libx.so") and not known("/home/libx.so")
    assert not known(f"{site}PIL/_imagingft.cpython-311-x86_64-linux-gnu.so")


def test_afterwards_nobody_looks(old: Callable[..., Path]) -> None:
    before = (os.stat, os.lstat, os.access, sys.stdin)
    path = old("data.txt")
    witness = witness_of(lambda: None)
    path.read_text()
    os.stat(path)
    assert str(path) not in str(witness.seen()) and (os.stat, os.lstat, os.access, sys.stdin) == before
    with pytest.raises(ZeroDivisionError):
        witness_of(lambda: 1 / 0)
    assert (os.stat, os.lstat, os.access, sys.stdin) == before
    assert witness_module._witness is None  # pyright: ignore[reportPrivateUsage]


def test_questions_are_answered_as_ever(old: Callable[..., Path]) -> None:
    path = old("data.txt")

    def asks() -> None:
        assert stat.S_ISREG(os.stat(path, follow_symlinks=False).st_mode) and os.access(path, mode=os.R_OK)
        assert os.stat in os.supports_follow_symlinks
        with pytest.raises(TypeError):
            os.stat(3.5)  # type: ignore[arg-type]
        with pytest.raises(FileNotFoundError):
            os.lstat(path.with_name("away"))

    seen_of(asks)
