"""Processes that would compile one graph at once: one does, the others wait, and none for ever."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import torch

import cuesta
from cuesta.caching import turns
from cuesta.caching.files import PART
from cuesta.caching.turns import turn
from tests.support.differential import compiled_of
from tests.support.ranks import run_together

pytestmark = pytest.mark.skipif(turns.fcntl is None, reason="locks are those of POSIX")


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_waited", 0.0)


def hold(path: Path, pipe: Connection) -> None:
    """Has its turn until it is told to end."""
    with turn(path):
        pipe.send("mine")
        pipe.recv()


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[tuple[BaseProcess, Connection]]:
    """A process that has its turn, and the pipe that ends it."""
    context = multiprocessing.get_context("fork")
    pipe, other = context.Pipe()
    process = context.Process(target=hold, args=(tmp_path / "key.graph", other))
    process.start()
    try:
        assert pipe.poll(30) and pipe.recv() == "mine"
        yield process, pipe
    finally:
        process.kill()
        process.join()


def test_nobody_waits_where_nobody_is(tmp_path: Path) -> None:
    for _ in range(2):
        with turn(tmp_path / "folder" / "key.graph") as waited:
            assert not waited
            assert [path.name for path in (tmp_path / "folder").iterdir()] == [f"key.graph.lock{PART}"]
    assert not list((tmp_path / "folder").iterdir())


def test_who_comes_second_waits(tmp_path: Path, holder: tuple[BaseProcess, Connection]) -> None:
    _, pipe = holder
    with turn(tmp_path / "other.graph") as waited:
        assert not waited
    start = time.monotonic()
    threading.Timer(0.2, pipe.send, ["end"]).start()
    with turn(tmp_path / "key.graph") as waited:
        assert waited and 0.2 <= time.monotonic() - start < 20


def test_a_turn_ends_with_its_process(tmp_path: Path, holder: tuple[BaseProcess, Connection]) -> None:
    process, _ = holder
    pid = process.pid
    assert pid is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", lambda seconds: os.kill(pid, signal.SIGKILL))  # while somebody waits
        with turn(tmp_path / "key.graph") as waited:
            assert not waited, "nobody has ended a turn: there will be no file"
    assert not list(tmp_path.iterdir())


def test_a_process_that_is_stopped_is_not_waited_for_long(
    tmp_path: Path, holder: tuple[BaseProcess, Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once in vain is enough: at the next graph nobody waits at all."""
    monkeypatch.setattr(turns, "WAIT_SECONDS", 0.2)
    with (
        pytest.warns(UserWarning, match="has waited 0 s in all: it is compiled"),
        turn(tmp_path / "key.graph") as waited,
    ):
        assert waited
    start = time.monotonic()
    with pytest.warns(UserWarning, match="compiled here, too"), turn(tmp_path / "key.graph"):
        assert time.monotonic() - start < 0.1


def test_what_raises_ends_its_turn(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), turn(tmp_path / "key.graph"):
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())
    with turn(tmp_path / "key.graph") as waited:
        assert not waited


@pytest.mark.parametrize("what", ["link", "fifo", "file"])
def test_nothing_there_stops_anybody(tmp_path: Path, what: str) -> None:
    lock = tmp_path / f"key.graph.lock{PART}"
    if what == "link":
        lock.symlink_to(tmp_path / "elsewhere")
    elif what == "fifo":
        os.mkfifo(lock)
    else:
        (tmp_path / "no_folder").write_text("")
    folder = tmp_path / "no_folder" if what == "file" else tmp_path
    with turn(folder / "key.graph") as waited:
        assert not waited
    assert not (tmp_path / "elsewhere").exists()


def test_a_job_compiles_with_a_cache_that_others_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a job of two, this process alone is here: it compiles at once, and its program is kept before it ever runs."""
    monkeypatch.setenv("CUESTA_CACHE", "1")
    monkeypatch.setenv("CUESTA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("WORLD_SIZE", "2")
    torch._dynamo.reset()
    cuesta.clear_records()
    x = torch.randn(4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(compiled_of(lambda x: x.sin() * 3)(x), x.sin() * 3)
    assert [path.suffix for path in (tmp_path / "graphs").iterdir()] == [".graph"]
    assert "wait" in cuesta.records[-1].seconds


@pytest.mark.slow
def test_two_ranks_compile_once(tmp_path: Path) -> None:
    environment = {"CUESTA_CACHE": "1", "CUESTA_CACHE_DIR": str(tmp_path)}
    ended = run_together("tests/support/rank_cases.py", 2, "cpu", "once", seconds=60, environment=environment)
    assert [one.code for one in ended] == [0, 0], ended[0].said + ended[1].said
    assert all(path.suffix == ".graph" for path in (tmp_path / "graphs").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("when", ["compiling", "writing"])
def test_a_rank_that_is_killed_in_the_middle_of_a_shared_compile(when: str, tmp_path: Path) -> None:
    """The two others go on: one compiles, the other takes its program. What was half-written nobody takes."""
    case = f"death_while_{when}"
    environment = {"CUESTA_CACHE": "1", "CUESTA_CACHE_DIR": str(tmp_path)}
    ended = run_together("tests/support/rank_cases.py", 3, "cpu", case, seconds=90, environment=environment)
    said = "\n".join(one.said for one in ended)
    assert sorted(one.code for one in ended) == [-signal.SIGKILL, 0, 0], said
    assert sorted(line for line in said.splitlines() if line in ("compiled", "loaded")) == ["compiled", "loaded"], said
    left = sorted(path.suffix for path in (tmp_path / "graphs").iterdir())
    assert left == ([".graph"] if when == "compiling" else [".graph", PART]), "the lock is gone"
