"""Code that does not return in time is stopped, and only there."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from cuesta.dialects.core import deadline
from cuesta.dialects.core.blame import blame, blame_late
from cuesta.dialects.core.deadline import InTime, Overran, allowing, seconds_allowed
from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.dialects.core.extension import Extension
from cuesta.extensions import seconds_for

pytestmark = pytest.mark.slow


def spin(seconds: float = 60.0) -> float:
    """Steps of Python for so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
    return end


def nothing_arrives(seconds: float = 0.05) -> None:
    """Steps in which an exception that is on its way would arrive."""
    spin(seconds)
    assert threading.get_ident() not in deadline._watch.blocks  # pyright: ignore[reportPrivateUsage]


def test_what_does_not_return_is_stopped() -> None:
    start = time.monotonic()
    with pytest.raises(Overran), allowing(0.1), InTime():
        spin()
    assert 0.1 <= time.monotonic() - start < 30
    nothing_arrives()


def test_what_returns_is_left_alone() -> None:
    with allowing(0.05):
        for _ in range(3):
            with InTime():
                spin(0.01)
            spin(0.1)
    nothing_arrives()


def test_only_the_thread_that_is_late_is_stopped() -> None:
    stopped: list[str] = []

    def run(seconds: float, end: float) -> None:
        try:
            with allowing(seconds), InTime():
                spin(end)
        except Overran:
            stopped.append(threading.current_thread().name)

    threads = [
        threading.Thread(target=run, args=arguments, name=name)
        for name, arguments in {"late": (0.1, 60), "other": (30, 0.5), "late, too": (0.2, 60)}.items()
    ]
    for thread in threads:
        thread.start()
    spin(0.3)
    for thread in threads:
        thread.join()
    assert sorted(stopped) == ["late", "late, too"]


def test_the_outermost_block_counts() -> None:
    with allowing(30.0), InTime():
        with allowing(0.01), InTime():
            spin(0.2)
        spin(0.1)
    with pytest.raises(Overran), allowing(0.1), InTime():
        while True:
            with allowing(30.0), InTime():
                spin(0.001)
    nothing_arrives()


def test_seconds_may_have_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def enter(*_: object) -> None:
        raise AssertionError("nobody need watch")

    monkeypatch.setattr(deadline._watch, "enter", enter)  # pyright: ignore[reportPrivateUsage]
    with allowing(float("inf")), InTime():
        spin(0.01)


def test_what_catches_everything_is_stopped_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "_AGAIN", 0.05)
    caught: list[BaseException] = []
    with pytest.raises(Overran), allowing(0.1), InTime():
        try:
            spin()
        except BaseException as error:  # noqa: BLE001 - what one should not write
            caught.append(error)
        spin()
    assert len(caught) == 1
    nothing_arrives(0.2)


def test_what_waits_where_python_stops_nothing_is_told(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(deadline, "_AGAIN", 0.05)
    mine = Extension("mine")
    with pytest.raises(CuestaError, match=r"did not return within 0\.1 s"), allowing(0.1), blame(spin, owner=mine):
        time.sleep(0.6)  # the exception arrives when this returns
    assert (
        f"cuesta: extension 'mine': spin ({__file__}:{spin.__code__.co_firstlineno}) has not returned for 0.1 s, and "
        f"waits where it cannot be stopped: {__file__}:"
    ) in (told := capfd.readouterr().err)
    assert "without it: CUESTA_EXTENSIONS=-mine" in told
    nothing_arrives(0.2)


# -- races -------------------------------------------------------------------------------------------------------------


class Sending:
    """A lock; before it is taken for the first time, the exception is sent: the code has just returned."""

    def __init__(self, lock: Any, block: InTime) -> None:
        self.lock, self.block = lock, block

    def __enter__(self) -> None:
        if not self.block.sent:
            self.block.sent = 1
            deadline._send(self.block.thread, Overran)  # pyright: ignore[reportPrivateUsage]
        self.lock.__enter__()

    def __exit__(self, *arguments: object) -> None:
        self.lock.__exit__(*arguments)


def test_an_exception_that_comes_when_the_code_has_returned_goes_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    watch: Any = deadline._watch  # pyright: ignore[reportPrivateUsage]
    block, lock = InTime(), watch.lock
    with block:
        monkeypatch.setattr(watch, "lock", Sending(lock, block))
        found = 1
    monkeypatch.undo()
    assert block.sent == 1 and found == 1
    assert not lock.locked()
    nothing_arrives()


def test_one_that_comes_before_the_end_of_the_block_has_begun_is_said() -> None:
    """Between the last step of the code and the first of leaving, as when an operation of torch ends late."""
    mine, held = Extension("mine"), []

    def run() -> None:
        block = blame(spin, owner=mine)
        block.__enter__()
        held.append(block)
        spin()  # and it goes past what `with blame` would do at its end

    message = r"extension 'mine': spin \(.*\) did not return within 0\.1 s"
    with pytest.raises(CuestaError, match=message), blame_late(), allowing(0.1):
        try:
            run()
        finally:
            held.clear()  # as the frame lets go of it
    nothing_arrives()


def test_one_in_the_first_step_of_leaving_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(*_: object) -> None:
        raise Overran

    mine = Extension("mine")
    monkeypatch.setattr(InTime, "__exit__", leave)
    with pytest.raises(CuestaError, match="did not return within 60 s"), blame(spin, owner=mine):
        pass
    monkeypatch.undo()
    nothing_arrives()


def test_code_that_takes_about_as_long_as_it_may() -> None:
    """Whoever is first: a result, or an error that says so; and nothing comes later."""
    mine, outcomes = Extension("mine"), {"returned": 0, "stopped": 0}

    def run(seconds: float) -> None:
        try:
            with blame_late(), blame(spin, owner=mine):
                spin(seconds)
            outcomes["returned"] += 1
        except CuestaError as error:
            assert "did not return within 0.004 s" in str(error)
            outcomes["stopped"] += 1

    with allowing(0.004):
        for number in range(240):
            run(0.001 + 0.00003 * (number % 200))
    assert outcomes["returned"] + outcomes["stopped"] == 240 and outcomes["returned"]
    nothing_arrives()


def test_a_child_process_watches_for_itself() -> None:
    script = """
import os
from cuesta.dialects.core.deadline import InTime, Overran, allowing

with allowing(60.0), InTime():
    pass
child = os.fork()
if child == 0:
    try:
        with allowing(0.1), InTime():
            while True:
                pass
    except Overran:
        os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "7\n", done.stderr


# -- how long ----------------------------------------------------------------------------------------------------------


def test_the_environment_has_the_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    assert seconds_for() == seconds_allowed() == deadline.SECONDS
    assert seconds_for(5.0) == 5.0
    monkeypatch.setenv("CUESTA_EXTENSION_SECONDS", "7.5")
    assert seconds_for(5.0) == 7.5
    for wrong in ("soon", "0", "-3", "nan", ""):
        monkeypatch.setenv("CUESTA_EXTENSION_SECONDS", wrong)
        with pytest.raises(CuestaError, match=f"must be a number of seconds above 0, or inf, not '{wrong}'"):
            seconds_for()


@pytest.mark.parametrize("exception", [ValueError, KeyboardInterrupt])
def test_other_exceptions_pass(exception: type[BaseException]) -> None:
    raising: Callable[[], None]

    def raising() -> None:
        raise exception("as it is")

    with pytest.raises(exception, match="as it is"), InTime():
        raising()
    nothing_arrives()
