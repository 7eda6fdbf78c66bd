"""Code of extensions has so long to return: what does not is stopped where it is, by an exception in its own thread.

    with InTime():
        rule(op, builder)  # Overran, raised in the rule, when it takes longer

One thread watches over all others. It is started when the first block is entered, and sleeps while none is late. An
exception from outside may land between any two steps of its thread, so: it is sent only while the block is entered,
under a lock that leaving takes too; what was sent and did not arrive yet is taken back on leaving. One that arrives
between the last step of the code and the first of leaving goes past the block: whoever enters blocks catches `Overran`
once more further out, and calls `left_late`.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from threading import Condition, Lock, Thread, get_ident
from time import monotonic
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from cuesta.dialects.core.setting import setting

if TYPE_CHECKING:
    from collections.abc import Generator

SECONDS: Final = 60.0
"""How long code of an extension may run, unless somebody says otherwise. It is not measured: people wait no longer."""

_PATIENCE: Final = 1.0
"""Seconds in which we look for a moment when the code is not in a function of the compiler's, before we do without."""
_STEP: Final = 0.005
_AGAIN: Final = 1.0
"""Seconds until code that has caught the exception, or has not met it yet, is sent another."""
_TOLD_AFTER: Final = 3
"""How many are sent before we say that it waits where Python stops nothing."""
_OURS: Final = frozenset(("cuesta", "xdsl", "torch", "contextlib"))

_seconds: Final[ContextVar[float]] = ContextVar("extension_seconds", default=SECONDS)


class Overran(BaseException):
    """Raised in code that runs for too long. No `Exception`, which such code may catch in its endless loop."""


@contextmanager
def allowing(seconds: float) -> Generator[None]:
    """The `with` block in which code of extensions may run for so long."""
    with setting(_seconds, seconds):
        yield


def seconds_allowed() -> float:
    """How long code of an extension may run here."""
    return _seconds.get()


class InTime:
    """The `with` block in which something runs that is to return within `seconds`; of blocks inside of one another, the
    outermost counts.

    Errors: Overran, from wherever the code is.
    """

    __slots__ = ("due", "entered", "seconds", "sent", "thread")

    def __init__(self) -> None:
        self.seconds = seconds_allowed()
        self.thread = get_ident()
        self.entered = self.due = 0.0
        self.sent = 0

    def told(self, place: str) -> str:
        """What to say of code that waits, at a line of its author's, where Python stops nothing."""
        return f"has not returned for {self.seconds:g} s, and waits where it cannot be stopped: {place}"

    def __enter__(self) -> Self:
        if self.seconds < inf and self.thread not in _watch.blocks:  # only a thread itself puts its block there
            self.entered = monotonic()
            self.due = self.entered + self.seconds
            try:
                _watch.enter(self)
            except BaseException:  # an interrupt: nobody would leave the block
                self.leave()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def leave(self) -> None:
        """Nothing is sent from now on, nor arrives."""
        while True:
            try:
                _watch.leave(self)
                return
            except Overran:  # the code had returned; and there is but one on its way at a time
                continue


def left_late() -> InTime | None:
    """The block of this thread that an exception was for, which went past its end. It is left now, if it was not."""
    block = _watch.late.pop(get_ident(), None)
    if block is not None:
        block.leave()
    return block


class _Watch:
    """All blocks that are entered, by thread, and the thread that watches over them."""

    def __init__(self) -> None:
        self.blocks: dict[int, InTime] = {}
        self.late: dict[int, InTime] = {}
        """The last block of each thread that an exception was sent to."""
        # As a block this is one step of Python's, in which nothing arrives; a Condition's is several.
        self.lock = Lock()
        self.changed = Condition(self.lock)
        self.wakes = inf
        self.thread: Thread | None = None

    def enter(self, block: InTime) -> None:
        with self.lock:
            self.blocks[block.thread] = block
            self.late.pop(block.thread, None)
            if self.thread is None or not self.thread.is_alive():
                self.thread = Thread(target=self.run, name="cuesta watch", daemon=True)
                self.thread.start()
            elif block.due < self.wakes:
                self.changed.notify()

    def leave(self, block: InTime) -> None:
        with self.lock:
            if self.blocks.get(block.thread) is block:
                del self.blocks[block.thread]
        if block.sent:
            _send(block.thread, None)

    def run(self) -> None:
        with self.lock:
            while True:
                self.wakes = min((block.due for block in self.blocks.values()), default=inf)
                self.changed.wait(None if self.wakes == inf else max(self.wakes - monotonic(), 0.0))
                frames: dict[int, FrameType] = {}
                for block in list(self.blocks.values()):
                    if monotonic() >= block.due:
                        frames = frames or sys._current_frames()  # pyright: ignore[reportPrivateUsage]  # documented
                        self.stop(block, frames.get(block.thread))
                del frames

    def stop(self, block: InTime, frame: FrameType | None) -> None:
        """Sends an exception to code that is late, when the moment is good."""
        if frame is None:  # the thread has ended, without leaving
            del self.blocks[block.thread]
            return
        now = monotonic()
        module = str(frame.f_globals.get("__name__", ""))
        patient = now < block.entered + block.seconds + _PATIENCE
        if module in _LEAVING or (patient and module.partition(".")[0] in _OURS):
            block.due = now + _STEP
            return
        self.late[block.thread] = block
        _send(block.thread, Overran)
        block.sent += 1
        block.due = now + _AGAIN
        if block.sent == _TOLD_AFTER:
            print(f"cuesta: {block.told(place_in_their_code(frame))}", file=sys.stderr, flush=True)


_watch: Final = _Watch()
_LEAVING: Final = frozenset((__name__, "contextlib", "cuesta.dialects.core.blame"))
"""Modules of what enters and leaves blocks: what is sent there would be none of the code's doing."""

if hasattr(os, "register_at_fork"):  # a child has neither our thread nor, perhaps, an open lock
    os.register_at_fork(after_in_child=_watch.__init__)


def place_in_their_code(frame: FrameType | None) -> str:
    """The innermost line, from a frame outwards, that an author can change; empty when there is none."""
    while frame is not None and not is_theirs(frame):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def is_theirs(frame: FrameType) -> bool:
    """Whether a line belongs neither to the compiler nor to what it builds upon, nor to Python."""
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return package not in _OURS and (package == "__main__" or package not in sys.stdlib_module_names)


def _send(thread: int, error: type[BaseException] | None) -> None:
    """Has an exception raised in a thread, at its next step; None takes back what has not been raised yet."""
    import ctypes

    send: Any = ctypes.pythonapi.PyThreadState_SetAsyncExc
    send(ctypes.c_ulong(thread), None if error is None else ctypes.py_object(error))


__all__ = ["SECONDS", "InTime", "Overran", "allowing", "is_theirs", "left_late", "seconds_allowed"]
