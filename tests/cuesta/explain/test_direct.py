"""The direct way to a kept explanation: taken when nothing has changed, without torch, and never otherwise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import cuesta.caching.cache
from cuesta.command import main
from cuesta.explain import direct as direct_module
from cuesta.explain.direct import SESSION, Direct, environment_of, is_of_processor, name_of
from cuesta.explain.kept import Shelf
from cuesta.explain.model import Explanation, Machine
from cuesta.explain.seen import Seen
from cuesta.explain.witness import UnvouchedError, Witness

TOLD = Explanation("", "1", "2", False, (), kept_since="2026-11-25 09:59")
GRAPH = "a" * 64


class _Vouching(Witness):
    """A witness who says what it is told to."""

    def __init__(self, found: Seen | str) -> None:
        super().__init__()
        self.found = found

    def seen(self) -> Seen:
        if isinstance(self.found, str):
            raise UnvouchedError(self.found)
        return self.found


@pytest.fixture
def direct(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Direct:
    """A place with an explanation on the shelf beside it."""
    monkeypatch.setattr(cuesta.caching.cache, "_warned", set())
    monkeypatch.setattr(direct_module, "hash_of_sources", lambda: "sources")
    shelf = Shelf(tmp_path / "cache" / "explained", 2**20)
    monkeypatch.setattr(Shelf, "load", lambda shelf, name: SimpleNamespace(graphs=(name,), explanation=TOLD))
    return Direct(tmp_path / "cache" / "unchanged", 2**20, shelf, "b" * 64, "sources")


def test_it_is_shown_until_something_changes(direct: Direct, tmp_path: Path) -> None:
    assert direct.load("model.py") is None
    assert direct.keep([GRAPH], TOLD, _Vouching(Seen(absent=(str(tmp_path / "away"),)))) == ""
    assert direct.load("model.py") == replace(TOLD, name="model.py", not_run=True)
    (tmp_path / "away").touch()
    assert direct.load("model.py") is None
    (tmp_path / "away").unlink()
    assert direct.load("model.py") is not None


def test_what_cannot_be_vouched_for_leaves_nothing(direct: Direct, monkeypatch: pytest.MonkeyPatch) -> None:
    def keeps(**changed: Any) -> str:
        asked: dict[str, Any] = {"graphs": [GRAPH], "explanation": TOLD, "witness": _Vouching(Seen()), **changed}
        assert direct.keep([GRAPH], TOLD, _Vouching(Seen())) == "" and direct.path.exists()
        why = direct.keep(**asked)
        assert direct.path.exists() == (why == "")
        return why

    assert keeps() == ""
    assert keeps(witness=_Vouching("it used the network")) == "it used the network"
    assert keeps(graphs=[]) and keeps(explanation=replace(TOLD, breaks=(Any,)))
    assert keeps(explanation=replace(TOLD, machines=(Machine("cuda:0", "H100", None, None, ""),)))
    assert direct.keep([GRAPH], TOLD, _Vouching(Seen())) == ""
    monkeypatch.setattr(direct_module, "hash_of_sources", lambda: "edited")
    assert direct.keep([GRAPH], TOLD, _Vouching(Seen())) and not direct.path.exists()


def test_of_another_device_nothing_is_shown(direct: Direct, monkeypatch: pytest.MonkeyPatch) -> None:
    assert direct.keep([GRAPH], TOLD, _Vouching(Seen())) == ""
    gpu = replace(TOLD, machines=(Machine("cuda:0", "H100", None, None, ""),))
    monkeypatch.setattr(Shelf, "load", lambda shelf, name: SimpleNamespace(graphs=(name,), explanation=gpu))
    assert direct.load("model.py") is None and not is_of_processor(gpu) and is_of_processor(TOLD)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    assert not is_of_processor(TOLD)


def test_other_graphs_are_another_explanation(direct: Direct, monkeypatch: pytest.MonkeyPatch) -> None:
    assert direct.keep([GRAPH, "c" * 64], TOLD, _Vouching(Seen())) == ""
    assert direct.load("model.py") is None
    monkeypatch.setattr(Shelf, "load", lambda shelf, name: None)
    assert direct.keep([GRAPH], TOLD, _Vouching(Seen())) == "" and direct.load("model.py") is None


def test_what_is_damaged_is_not_taken(direct: Direct, tmp_path: Path) -> None:
    assert direct.keep([GRAPH], TOLD, _Vouching(Seen(contents={"/a/b": "c"}))) == ""
    sound = direct.path.read_bytes()
    from cuesta.caching.sealed import sealed

    first, data = b"cuesta unchanged 1\n", json.loads(sound.split(b"\n", 2)[2])
    for wrong in (
        sound[:-4], sound.replace(b"/a", b"/c"), b"cuesta graph 6\n" + sound, b"", sealed(first, []),
        sealed(first, {**data, "name": "c" * 64}), sealed(first, {**data, "graphs": []}),
        sealed(first, {**data, "graphs": ["../x"]}), sealed(first, {**data, "seen": {}}),
        sealed(first, {**data, "x": 1}),
    ):  # fmt: skip
        direct.path.write_bytes(wrong)
        with pytest.warns(UserWarning, match="is not used .*the file is run again"):
            assert direct.load("model.py") is None
        assert not direct.path.exists()
    direct.path.write_bytes(sound)
    direct.path.chmod(0o666)
    with pytest.warns(UserWarning, match="others can write to it"):
        assert direct.load("model.py") is None
    direct.path.symlink_to(tmp_path)
    with pytest.warns(UserWarning, match="it is a link"):
        assert direct.load("model.py") is None
    direct.folder.chmod(0o777)
    with pytest.warns(UserWarning, match="nothing is taken from"):
        assert direct.load("model.py") is None


def test_entries_are_bounded(direct: Direct) -> None:
    small = replace(direct, limit=1500)
    for number in range(9):
        one = replace(small, name=f"{number}" * 64)
        assert one.keep([GRAPH], TOLD, _Vouching(Seen())) == "" and one.path.exists()
    assert sum(path.stat().st_size for path in direct.folder.iterdir()) <= 1500
    large = Seen(absent=tuple(f"/{number}" for number in range(1000)))
    assert small.keep([GRAPH], TOLD, _Vouching(large)) and not small.path.exists()
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in direct.folder.iterdir())
    assert direct.folder.stat().st_mode & 0o777 == 0o700


def test_the_name_says_who_asks_what_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {"file": "model.py", "asked": (False, "x=1"), "main": "cuesta", "sources": "s"}
    plain = name_of(**asked)
    assert name_of(**asked) == plain
    others = ("file", "a.py"), ("asked", (True, "x=1")), ("asked", (False,)), ("main", "b"), ("sources", "t")
    for name, other in others:
        assert name_of(**{**asked, name: other}) != plain
    for place, value in (
        ("sys.version", "4.0"),
        ("sys.executable", "/other"),
        ("sys.path", ["/other"]),
        ("sys.warnoptions", ["error"]),
        ("sys.pycache_prefix", "/other"),
        ("os.uname", lambda: ("Linux", "host2", "6", "1", "x86_64")),
        ("os.sched_getaffinity", lambda number: {7}),
        ("os.cpu_count", lambda: 777),
        ("os.geteuid", lambda: 12345),
        ("os.getcwd", lambda: "/other"),
        ("os.listdir", lambda path: ["nvidia0"]),
        ("os.environ", {**os.environ, "MODEL_WIDTH": "3"}),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(place, value)
            assert name_of(**asked) != plain, place
    with monkeypatch.context() as patched:
        patched.setattr("os.environ", {**os.environ, "COLUMNS": "77", "SHLVL": "9", "NO_COLOR": "1"})
        assert name_of(**asked) == plain
    assert environment_of({"A": "1"}) != environment_of({"A": "2"}) != environment_of({"A": "2", "B": ""})
    assert environment_of({"A": "1", **dict.fromkeys(SESSION, "x")}) == environment_of({"A": "1"})


def test_a_process_that_has_torch_goes_no_direct_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUESTA_CACHE", "1")
    monkeypatch.setenv("CUESTA_CACHE_DIR", str(tmp_path))
    (tmp_path / "model.py").touch()
    file = str(tmp_path / "model.py")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", file, raising=False)
    assert Direct.of(file, ()) is None
    with monkeypatch.context() as patched:
        patched.delitem(sys.modules, "torch")
        assert Direct.of(file, ()) is not None and Direct.of(f"{file}x", ()) is None
        for name, value in (("CUESTA_CACHE", "0"), ("TORCH_LOGS", "graph"), ("CUESTA_LOG", "time")):
            with monkeypatch.context() as inner:
                inner.setenv(name, value)
                assert Direct.of(file, ()) is None
        patched.setattr(sys.modules["__main__"], "__file__", None)
        assert Direct.of(file, ()) is None


def test_fresh_runs_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loads: list[str] = []

    class _Fake:
        ours = ()

        def load(self, file: str) -> Explanation:
            loads.append(file)
            return replace(TOLD, name="from the shelf", not_run=True)

        def keep(self, *given: object) -> str:
            return ""

    monkeypatch.setenv("CUESTA_CACHE", "0")
    monkeypatch.setattr(Direct, "of", lambda file, asked: _Fake())
    file = tmp_path / "model.py"
    file.write_text("import torch\nprint('it ran')\nfn, inputs = torch.tanh, (torch.ones(5),)\n", encoding="utf-8")
    main(["explain", str(file), "--no-time"])
    told = capsys.readouterr().out
    assert "from the shelf" in told and "the file was not run again" in told and "it ran" not in told
    assert loads == [str(file)]
    assert main(["explain", str(file), "--no-time", "--fresh"]) == 0
    told = capsys.readouterr().out
    assert "it ran" in told and "not run again" not in told and loads == [str(file)]


MODEL = """
import argparse, os, sys
import layers, torch

assert len(sys.argv) == 1 and os.path.isabs(__file__)
argparse.ArgumentParser().parse_args()
with open(os.path.join(os.path.dirname(__file__), "width.txt")) as file:
    width = int(file.read())
if os.path.exists(os.path.join(os.path.dirname(__file__), "wider")):
    width *= 2
names = sorted(os.listdir(os.path.join(os.path.dirname(__file__), "parts")))
model, inputs = layers.Tangent(len(names)), (torch.ones(width, width),)
"""
LAYERS = """
import torch

class Tangent(torch.nn.Module):
    def __init__(self, times):
        super().__init__()
        self.times = times

    def forward(self, x):
        return torch.tanh(x) * self.times
"""
PROGRAM = """
import sys
from cuesta.command import main

status = main(sys.argv[1:])
print("torch" in sys.modules, file=sys.stderr)
sys.exit(status)
"""
CHANGES = """
import os, sys
from pathlib import Path

sys.modules["__main__"].__file__ = sys.argv[1]
from cuesta.explain.direct import Direct

here = Path(sys.argv[2])

def unchanged(*options):
    direct = Direct.of(str(here / "model.py"), (False, True, True, *options))
    return direct is not None and direct.load("model.py") is not None

assert unchanged()
for path, old, new in (
    ("model.py", "width *= 2", "width *= 3"),
    ("layers.py", "tanh", "sinh"),
    ("width.txt", "8", "9"),
):
    text, stat = (here / path).read_text(), (here / path).stat()
    (here / path).write_text(text.replace(old, new))
    os.utime(here / path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert (here / path).stat().st_size == stat.st_size and not unchanged(), path
    (here / path).write_text(text)
    assert unchanged(), path
for path in ("wider", "parts/three", "torch.py", "argparse.py"):
    (here / path).touch()
    assert not unchanged(), path
    (here / path).unlink()
    assert unchanged(), path
assert not unchanged("checks=calls")
os.environ["MODEL"] = "large"
assert not unchanged()
del os.environ["MODEL"]
sys.path.insert(0, "/elsewhere")
assert not unchanged()
del sys.path[0]
assert unchanged() and "torch" not in sys.modules
"""


@pytest.mark.slow
def test_the_command_shows_what_it_kept_without_torch(tmp_path: Path) -> None:
    here = tmp_path / "project"
    (here / "parts").mkdir(parents=True)
    for name, text in (("model", MODEL), ("layers", LAYERS), ("program", PROGRAM), ("changes", CHANGES)):
        (here / f"{name}.py").write_text(text, encoding="utf-8")
    (here / "width.txt").write_text("8", encoding="utf-8")
    for name in ("one", "two"):
        (here / "parts" / name).touch()
    environment = {
        **os.environ, "CUESTA_CACHE": "1", "CUESTA_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": os.pathsep.join([str(here), *(path for path in sys.path if path)]),
    }  # fmt: skip
    environment.pop("CUESTA_LOG", None)

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *command], env=environment, capture_output=True, text=True, check=True, cwd=tmp_path
        )

    def explained(name: str) -> tuple[dict[str, Any], str, subprocess.CompletedProcess[str]]:
        html, told = tmp_path / f"{name}.html", tmp_path / f"{name}.json"
        arguments = ("--no-time", "--width", "200", "--json", str(told), "--html", str(html))
        done = run(str(here / "program.py"), "explain", str(here / "model.py"), *arguments)
        return json.loads(told.read_text(encoding="utf-8")), html.read_text(encoding="utf-8"), done

    first, again = explained("first"), explained("again")
    assert first[2].stderr.split()[-1] == "True" and again[2].stderr.split() == ["False"]
    assert "the file was not run again" in again[2].stdout
    since = again[0]["kept_since"]
    assert since and again[0] == {**first[0], "kept_since": since, "not_run": True}
    lines = again[2].stdout.splitlines()
    assert [*lines[:1], *lines[3:]] == first[2].stdout.splitlines()
    assert len(again[1]) > 10_000
    run(str(here / "changes.py"), str(here / "program.py"), str(here))
