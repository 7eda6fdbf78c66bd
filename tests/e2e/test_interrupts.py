"""An interrupt, or a fork, at any moment of compiling and of first calls: everything is as it was, and goes on."""

from __future__ import annotations

import gc
import os
import random
import select
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

import cuesta
from cuesta.compiler import compile_graph
from cuesta.dialects.core.extension import NONE, active
from cuesta.lowering.capture import whole_operators
from cuesta.options import Options
from cuesta.record import CompileRecord
from cuesta.targets.cpu import jit

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="signals and forks are those of POSIX")


OURS = frozenset(("cuesta.compiler", "cuesta.finishing", "cuesta.targets.host.runtime"))


class Interrupt:
    """What Ctrl-C does, by an alarm, so many seconds after we have begun to compile a graph, or to wait for LLVM.

    PyTorch's own capture does not take interrupts well: one in some hundred leaves a mode on, or ends the process.
    One that would come there waits until we are at work again.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, _: int, frame: FrameType | None) -> None:
        if not is_ours(frame):
            signal.setitimer(signal.ITIMER_REAL, 2e-4)
        elif self.seconds:
            signal.setitimer(signal.ITIMER_REAL, self.seconds)
            self.seconds = 0.0
        else:
            raise KeyboardInterrupt

    def stops(self, function: Callable[[], object]) -> bool:
        """Whether it came while the function ran."""
        before = signal.signal(signal.SIGALRM, self)
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, 2e-4)
                function()
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            return True
        finally:
            signal.signal(signal.SIGALRM, before)
        return False


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """OpenMP's threads stay behind in a fork."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def program(x: Tensor, number: float) -> Tensor:
    rows = torch.arange(20) % 7
    return torch.softmax(F.gelu(x + number) @ x.T, -1).sum(0) * 2 + x.T[rows].sum(1, keepdim=True)


def is_ours(frame: FrameType | None) -> bool:
    """Whether we were called, and have not returned: nothing of PyTorch's capture runs but what called us."""
    while frame is not None:
        name, code = str(frame.f_globals.get("__name__")), frame.f_code
        if code is OurPart.__call__.__code__ or (name in OURS and code.co_name in ("compile_graph", "complete")):
            return True
        frame = frame.f_back
    return False


class OurPart:
    """Compiling and calling a graph that AOTAutograd gave."""

    def __init__(self, x: Tensor, number: float) -> None:
        self.x = x
        with FakeTensorMode() as mode:
            self.gm = make_fx(lambda x: program(x, number))(mode.from_tensor(x))
        self.function: Callable[[list[Tensor]], Any] | None = None

    def __call__(self) -> Tensor:
        if self.function is None:
            self.function = compile_graph(self.gm, CompileRecord("inference"), Options.parse(None, {"cache": True}))
        return self.function([self.x])[0]


class Whole:
    """`torch.compile`, and a call."""

    def __init__(self, x: Tensor, number: float) -> None:
        torch._dynamo.reset()
        self.x = x
        self.function = torch.compile(lambda x: program(x, number), backend="cuesta", dynamic=False)

    def __call__(self) -> Tensor:
        return self.function(self.x)


@pytest.mark.parametrize(
    ("part", "rounds"),
    [
        (OurPart, 12),
        pytest.param(Whole, 12, marks=pytest.mark.slow),
        pytest.param(OurPart, 1000, marks=[pytest.mark.slow, pytest.mark.thorough]),
        pytest.param(Whole, 1000, marks=[pytest.mark.slow, pytest.mark.thorough]),
    ],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # an interrupt within a finalizer
def test_an_interrupt_leaves_everything_as_it_was(
    part: type[OurPart | Whole], rounds: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CUESTA_CACHE", "1")
    monkeypatch.setenv("CUESTA_CACHE_DIR", str(tmp_path))
    chosen, came, longest = random.Random(0), 0, 0.05
    x = torch.randn(64, 64, dtype=torch.float64)
    part(x, -1.0)()  # all is imported
    kernels = cuesta.records[-1].kernels
    for number in range(rounds):
        expected = program(x, number)
        compiled = part(x, number)
        cuesta.clear_records()
        came += Interrupt(chosen.uniform(1e-6, longest)).stops(compiled)
        for _ in range(2):
            torch.testing.assert_close(compiled(), expected)
        assert gc.isenabled() and active() is NONE and not whole_operators._kept
        assert {record.kernels for record in cuesta.records} == {kernels}, "there is none of what was not compiled"
    assert came > rounds / 4
    assert {path.suffix for path in (tmp_path / "graphs").iterdir()} == {".graph"}


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """LLVM does not begin before the event is set."""
    event = threading.Event()
    original = jit._emitted  # pyright: ignore[reportPrivateUsage]

    def emitted(*arguments: Any) -> bytes:
        assert event.wait(30)
        return original(*arguments)

    monkeypatch.setattr(jit, "_emitted", emitted)
    return event


def unfinished(x: Tensor) -> Callable[[list[Tensor]], Any]:
    """A compiled graph that was not called yet."""
    part = OurPart(x, 1.0)
    return compile_graph(part.gm, CompileRecord("inference"), Options.parse(None, {"cache": False}))


def test_a_first_call_that_was_interrupted_while_it_waited_is_made_again(held: threading.Event) -> None:
    x = torch.randn(16, 16)
    function, arguments = unfinished(x), [x]
    for _ in range(3):
        assert Interrupt(0.02).stops(lambda: function(arguments)) and arguments
    held.set()
    torch.testing.assert_close(function(arguments)[0], program(x, 1.0))


def test_a_lock_of_llvm_that_an_interrupt_left_taken_is_given_back(held: threading.Event) -> None:
    """llvmlite takes its lock in Python, where an interrupt may come right after."""
    x, lock = torch.randn(16, 16), jit._lock_of_llvm()  # pyright: ignore[reportPrivateUsage]
    function = unfinished(x)
    lock.acquire()
    held.set()
    torch.testing.assert_close(function([x])[0], program(x, 1.0))
    assert not lock._is_owned()


def in_child(function: Callable[[], object]) -> str:
    """What a function raises in a process that is forked here; nothing if all is well. A lock that a thread of another
    test happens to hold at the fork is nobody's: who hangs is asked once more. One of ours would be held again.
    """
    said = in_one_child(function)
    return in_one_child(function) if said == HANGS else said


HANGS = "it hangs"


def in_one_child(function: Callable[[], object]) -> str:
    """As `in_child`, once."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # there are other threads: that is the question
        child = os.fork()
    if child == 0:
        said = ""
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - nothing of this process is to go on here
            said = repr(error)[:500]
        os.write(writing, said.encode() or b"-")
        os._exit(0)
    os.close(writing)
    try:
        if select.select([reading], [], [], 20)[0]:
            return os.read(reading, 1000).decode().removeprefix("-")
        os.kill(child, signal.SIGKILL)
        return HANGS
    finally:
        os.close(reading)
        os.waitpid(child, 0)


def test_a_process_forked_before_the_first_call_builds_for_itself(held: threading.Event) -> None:
    x = torch.randn(16, 16)
    expected, function = program(x, 1.0), unfinished(x)

    def call() -> None:
        held.set()
        torch.testing.assert_close(function([x])[0], expected)

    waiting = threading.Thread(target=function, args=([x],))  # it has the locks of a first call
    waiting.start()
    time.sleep(0.05)
    assert in_child(call) == ""
    call()
    waiting.join()
    assert in_child(call) == "", "and one that is forked later has the code"


@pytest.mark.slow
def test_processes_forked_while_llvm_is_at_work() -> None:
    x = torch.randn(64, 64)
    expected = program(x, 1.0)
    for number in range(20):
        function = unfinished(x)
        time.sleep(0.003 * number)
        assert in_child(lambda function=function: torch.testing.assert_close(function([x])[0], expected)) == ""
        torch.testing.assert_close(function([x])[0], expected)
