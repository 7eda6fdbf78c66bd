"""Frames have ranges for a profiler where somebody may look at them; the setting that decides it is nobody else's."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from threading import Event, Thread
from types import CodeType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.codegen import PyCodegen
from torch._dynamo.convert_frame import register_bytecode_hook
from torch._dynamo.exc import BackendCompilerFailed

from cuesta.backend import cuesta

SETTINGS: Any = torch._dynamo.config
OPTIONS = {"options": {"cache": False}}


@pytest.fixture
def ranges() -> Iterator[dict[str, list[bool]]]:
    """Of each frame that is compiled, by its name: whether it has ranges, every time. At the end the setting is as it
    was.
    """
    torch._dynamo.reset()
    assert SETTINGS._is_default("record_runtime_overhead")
    found: dict[str, list[bool]] = {}

    def look(code: CodeType, new_code: CodeType) -> None:
        found.setdefault(code.co_name, []).append("record_pregraph_bytecode_enter" in new_code.co_names)

    handle = register_bytecode_hook(look)
    yield found
    handle.remove()
    torch._dynamo.reset()
    assert is_as_before()


def is_as_before() -> bool:
    return SETTINGS.record_runtime_overhead is True and SETTINGS._is_default("record_runtime_overhead")


def ours(x: Tensor) -> Tensor:
    return x.sin() + 1


def theirs(x: Tensor) -> Tensor:
    return x.cos() + 1


def in_two(x: Tensor) -> Tensor:
    y = x.sin()
    torch._dynamo.graph_break()
    return y + 1


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    return torch.compile(function, backend="cuesta", **OPTIONS, **options)


def test_a_frame_has_no_ranges(ranges: dict[str, list[bool]]) -> None:
    x = torch.ones(3)
    call = compiled(ours)
    assert torch.equal(call(x), ours(x))
    assert ranges == {"ours": [False]} and is_as_before()
    with torch.profiler.profile() as profile:
        call(x)
    names = [event.name for event in profile.events() or ()]
    assert "Pregraph bytecode" not in names
    assert "AOTDispatcher Runtime Wrapper Prologue" in names, "what is asked when a call is made is there"


def test_nor_has_one_that_is_compiled_again_or_in_parts(ranges: dict[str, list[bool]]) -> None:
    call, parts = compiled(ours), compiled(in_two)
    for size in (3, 4, 5):
        assert torch.equal(call(torch.ones(size)), ours(torch.ones(size)))
        assert is_as_before()
    parts(torch.ones(3))
    assert ranges.pop("ours") == [False, False]
    assert [one for some in ranges.values() for one in some] == [False, False]


def test_one_that_eager_runs_has_none(ranges: dict[str, list[bool]], monkeypatch: Any) -> None:
    monkeypatch.setattr("cuesta.lowering.capture.lost_in_views.lost", lambda _: "for a test")
    with pytest.warns(UserWarning, match="runs a graph in eager: for a test"):
        compiled(ours)(torch.ones(3))
    assert ranges == {"ours": [False]} and is_as_before()


def test_other_backends_have_theirs(ranges: dict[str, list[bool]]) -> None:
    compiled(ours)(torch.ones(3))
    torch.compile(theirs, backend="eager")(torch.ones(3))
    assert ranges == {"ours": [False], "theirs": [True]}


def test_who_profiles_the_first_call_has_them(ranges: dict[str, list[bool]]) -> None:
    with torch.profiler.profile() as profile:
        compiled(ours)(torch.ones(3))
    assert ranges == {"ours": [True]}
    assert "Pregraph bytecode" in [event.name for event in profile.events() or ()]


@pytest.mark.parametrize("said", [True, False])
def test_who_says_it_has_what_he_says(said: bool, ranges: dict[str, list[bool]]) -> None:
    before = SETTINGS._make_closure_patcher(record_runtime_overhead=said)()
    try:
        compiled(ours)(torch.ones(3))
        assert SETTINGS.record_runtime_overhead is said
    finally:
        before()
    assert ranges == {"ours": [said]}


def test_an_error_of_the_backend_changes_nothing(ranges: dict[str, list[bool]], monkeypatch: Any) -> None:
    monkeypatch.setattr("cuesta.backend.compiled_by", lambda *_: 1 // 0)
    with pytest.raises(BackendCompilerFailed):
        compiled(ours)(torch.ones(3))
    assert is_as_before()


def test_an_error_after_it_changes_nothing(ranges: dict[str, list[bool]], monkeypatch: Any) -> None:
    seen: list[bool] = []

    def fails(self: Any, name: str) -> None:
        seen.append(bool(SETTINGS.record_runtime_overhead))
        raise ZeroDivisionError

    monkeypatch.setattr(PyCodegen, "make_call_generated_code", fails)
    with pytest.raises(Exception, match="ZeroDivisionError"):
        compiled(ours)(torch.ones(3))
    assert seen == [False] and is_as_before()


def test_compilations_in_each_other(ranges: dict[str, list[bool]]) -> None:
    """A backend around ours compiles something else, before ours is called, between two calls, and after."""

    def around(gm: Any, inputs: Any) -> Any:
        compiled(first)(torch.ones(2))
        assert is_as_before()
        for _ in range(2):  # as for the parts of a module in DistributedDataParallel
            made = cuesta(gm, inputs, options={"cache": False})
            torch.compile(theirs, backend="eager")(torch.ones(len(ranges)))
        compiled(last)(torch.ones(2))
        return made

    def first(x: Tensor) -> Tensor:
        return x * 2

    def last(x: Tensor) -> Tensor:
        return x * 3

    torch.compile(ours, backend=around)(torch.ones(3))
    assert ranges == {"first": [False], "theirs": [True, True], "last": [True], "ours": [False]}, ranges


def test_other_threads_see_nothing(ranges: dict[str, list[bool]], monkeypatch: Any) -> None:
    """One asks, and sets what it finds, while a frame of ours is halfway; one compiles for another backend."""
    halfway, go_on = Event(), Event()
    make = PyCodegen.make_call_generated_code
    found: list[Any] = []

    def waits(self: Any, name: str) -> None:
        if not halfway.is_set():
            halfway.set()
            assert go_on.wait(30)
        make(self, name)

    def asks() -> None:
        assert halfway.wait(30)
        value = SETTINGS.record_runtime_overhead
        found.extend([bool(value), value == 1, repr(value), pickle.loads(pickle.dumps(value)), copy.deepcopy(value)])
        go_on.set()
        torch.compile(theirs, backend="eager")(torch.ones(3))

    monkeypatch.setattr(PyCodegen, "make_call_generated_code", waits)
    thread = Thread(target=asks)
    thread.start()
    compiled(ours)(torch.ones(3))
    thread.join()
    assert found == [True, True, "True", True, True] and type(found[3]) is type(found[4]) is bool
    assert ranges == {"ours": [False], "theirs": [True]}


def test_what_is_set_meanwhile_stays(ranges: dict[str, list[bool]], monkeypatch: Any) -> None:
    """By another thread, say, with torch 2.11, whose settings are the process's."""
    make = PyCodegen.make_call_generated_code

    def sets(self: Any, name: str) -> None:
        make(self, name)
        SETTINGS.record_runtime_overhead = False

    unset = SETTINGS._make_closure_patcher(record_runtime_overhead=True)()
    unset()
    monkeypatch.setattr(PyCodegen, "make_call_generated_code", sets)
    compiled(ours)(torch.ones(3))
    assert SETTINGS.record_runtime_overhead is False
    unset()


def test_without_a_frame_nothing_is_done(ranges: dict[str, list[bool]]) -> None:
    x = torch.ones(3)
    run = cuesta(torch.fx.symbolic_trace(lambda x: (ours(x),)), [x], options={"cache": False})
    assert torch.equal(run(x)[0], ours(x))
    assert is_as_before()
