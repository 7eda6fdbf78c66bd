"""Python's cycle collector stays still while a program is compiled.

A compiler makes many objects, nearly all of which live on; a full collection in a process with torch in it takes 0.2 s
and finds nothing. Most of the objects are Dynamo's, which traces before it asks a backend; so the whole compilation is
covered, by the hook that PyTorch has for its beginning and its end.

After the end, Dynamo collects what is young itself (`run_gc_after_compile`). It is done a moment earlier, while the
collector is still: else the collector looked at all new objects as soon as it may, and Dynamo at those that are left.
And the collector counts anew: the new objects are many, so it would look at all that a process has, in 0.3 s, at the
first moment that it may, which is in the first call.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

_lock = Lock()
_paused = 0
"""How many compilations and `with` blocks hold the collector still, in all threads."""
_was_enabled = False
"""What the first of them found."""
_compiling = False


@contextmanager
def collection_paused() -> Iterator[None]:
    """Keeps the collector still in a `with` block. Blocks may lie in each other, and in several threads at a time."""
    held = False
    try:
        _pause()
        held = True
        yield
    finally:
        if held:
            _go_on()


def pause_while_compiling() -> None:
    """From now on the collector is still from when Dynamo begins to compile until it ends, and while a backward pass is
    compiled later. `torch._dynamo.reset()` forgets that, until it is said again.

    Before Dynamo is imported there is nothing to hook into, and nothing is done.
    """
    callbacks = sys.modules.get("torch._dynamo.callback")
    if callbacks is not None and _begin not in callbacks.callback_handler.start_callbacks:
        callbacks.callback_handler.register_start_callback(_begin)
        callbacks.callback_handler.register_end_callback(_end)


def _begin(_: Any) -> None:
    """Dynamo calls this once, for compilations in all threads that overlap."""
    global _compiling
    if not _compiling:
        _compiling = True
        _pause()


def _end(_: Any) -> None:
    """When the last of them ends; of one during which we were told to `pause_while_compiling`, too."""
    global _compiling
    if _compiling:
        _compiling = False
        try:
            if _paused == 1 and _was_enabled and _collected_afterwards():
                gc.collect(1)
                _count_anew()
        finally:  # an interrupt during a collection comes right after it
            _go_on()


def _count_anew() -> None:
    """No generation counts what has been made so far. What a program has frozen stays frozen."""
    if gc.get_freeze_count() == 0:
        try:
            gc.freeze()  # moves objects without looking at them, and sets every count to zero
        finally:
            gc.unfreeze()


def _collected_afterwards() -> bool:
    """Whether Dynamo is going to collect what is young."""
    config = sys.modules.get("torch._dynamo.config")
    return bool(getattr(config, "run_gc_after_compile", False))


def _pause() -> None:
    global _paused, _was_enabled
    with _lock:
        if _paused == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _paused += 1


def _go_on() -> None:
    global _paused
    with _lock:
        _paused -= 1
        if _paused == 0 and _was_enabled:
            gc.enable()


__all__ = ["collection_paused", "pause_while_compiling"]
