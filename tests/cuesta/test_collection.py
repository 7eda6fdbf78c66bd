"""Python's cycle collector is still while a program is compiled, and as it was before and after."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest
import torch

from cuesta import command
from cuesta.collection import collection_paused, pause_while_compiling


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    torch._dynamo.reset()
    threshold = gc.get_threshold()
    yield
    gc.set_threshold(*threshold)
    gc.enable()


def compiled(function: Any) -> Any:
    return torch.compile(function, backend="cuesta", options={"cache": False})


def collections_in_dynamo(function: Any, *arguments: Any) -> int:
    """How often objects were collected while Dynamo traced."""
    found = 0

    def look(phase: str, _: object) -> None:
        nonlocal found
        frame = sys._getframe() if phase == "start" else None
        while frame is not None:
            if frame.f_code.co_filename.endswith("symbolic_convert.py"):
                found += 1
                return
            frame = frame.f_back

    gc.callbacks.append(look)
    try:
        function(*arguments)
    finally:
        gc.callbacks.remove(look)
    return found


@pytest.mark.slow
def test_nothing_is_collected_while_dynamo_traces() -> None:
    pause_while_compiling()
    pause_while_compiling()  # said twice, it is still once
    gc.set_threshold(50, 5, 5)
    assert collections_in_dynamo(compiled(lambda x: x.sin() + 1), torch.ones(3)) == 0
    assert gc.isenabled()
    torch._dynamo.reset()  # which forgets hooks; the first compilation of ours says it again
    assert collections_in_dynamo(compiled(lambda x: x.cos() + 1), torch.ones(3)) > 0
    assert gc.isenabled()
    assert collections_in_dynamo(compiled(lambda x: x.tan() + 1), torch.ones(3)) == 0
    assert gc.isenabled()


@pytest.mark.slow
def test_a_collector_that_is_off_stays_off_and_an_error_changes_nothing() -> None:
    pause_while_compiling()
    gc.disable()
    compiled(lambda x: x.sin() + 2)(torch.ones(3))
    assert not gc.isenabled()
    gc.enable()
    with pytest.raises(Exception, match="no_such_option"):
        torch.compile(lambda x: x + 1, backend="cuesta", options={"no_such_option": 1})(torch.ones(3))
    assert gc.isenabled()


def test_an_interrupt_at_the_end_leaves_the_collector_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes when the collection that ends a compilation is over. Dynamo's own count is not at stake."""

    def collect(_: int) -> int:
        raise KeyboardInterrupt

    pause_while_compiling()
    hooks: Any = torch._dynamo.callback.callback_handler
    hooks.run_start_callbacks(None)
    assert not gc.isenabled()
    monkeypatch.setattr(gc, "collect", collect)
    with pytest.raises(KeyboardInterrupt), torch._dynamo.config.patch(run_gc_after_compile=True):
        hooks.run_end_callbacks(None)
    assert gc.isenabled()


@pytest.mark.parametrize("afterwards", [True, False])
def test_what_is_young_is_looked_at_once(afterwards: bool) -> None:
    """Dynamo collects after it has compiled, if it is told to; all that it could look at has been looked at."""
    young: list[tuple[str, int]] = []

    def look(phase: str, details: dict[str, int]) -> None:
        if phase == "start" and details["generation"] == 1:
            file = sys._getframe(1).f_code.co_filename.rpartition("/")[2]
            young.append((file, len(gc.get_objects(0)) + len(gc.get_objects(1))))

    pause_while_compiling()
    gc.set_threshold(700, 1_000_000)  # else objects are old before we look
    gc.collect()
    gc.callbacks.append(look)
    try:
        with torch._dynamo.config.patch(run_gc_after_compile=afterwards):
            compiled(lambda x: x.sin() + 3)(torch.ones(3))
    finally:
        gc.callbacks.remove(look)
    assert [file for file, _ in young] == (["collection.py", "convert_frame.py"] if afterwards else [])
    assert not afterwards or young[1][1] < young[0][1]


@pytest.mark.parametrize("frozen", [False, True])
def test_the_first_call_looks_at_nothing_old(frozen: bool) -> None:
    """A full collection was due after most first compilations of a process: 0.3 s in the first call."""
    pause_while_compiling()
    gc.unfreeze()  # these tests are run with what torch has made frozen
    gc.collect()
    if frozen:
        gc.freeze()
    gc.set_threshold(700, 10, 3)
    try:
        for _ in range(4):
            gc.collect(1)
        assert gc.get_count()[2] > 3  # as after the import of torch
        hooks: Any = torch._dynamo.callback.callback_handler
        with torch._dynamo.config.patch(run_gc_after_compile=True):
            hooks.run_start_callbacks(None)
            hooks.run_end_callbacks(None)
        # What a program has frozen is its own: then a collection looks at what is not frozen only, and stays due.
        assert (gc.get_count()[2] > 3, gc.get_freeze_count() > 0) == (frozen, frozen)
    finally:
        gc.freeze()


def test_blocks_in_each_other_and_in_threads() -> None:
    with collection_paused():
        assert not gc.isenabled()
        with collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ValueError), collection_paused():
        raise ValueError
    assert gc.isenabled()

    inside: list[bool] = []

    def work() -> None:
        for _ in range(200):
            with collection_paused():
                inside.append(gc.isenabled())

    threads = [Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gc.isenabled() and len(inside) == 800 and not any(inside)


def test_a_command_ends_without_looking_for_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(command, "main", lambda: len(done) or done.append("main") or 3)
    monkeypatch.setattr(gc, "freeze", lambda: done.append("freeze"))
    assert command.program() == 3 and done == ["main", "freeze"]
