"""Processes of one job compile each graph once: who comes second waits, and finds the program in the cache.

The ranks of a distributed job compile the same graphs at the same time. The first one locks a file that is named by the
key, and the others wait until it is done. The lock goes with the process that holds it, however that ends. Nobody waits
for ever: after a while a process compiles for itself, says so, and waits for nobody any more.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cuesta.caching.files import PART, RefusedError, check_folder, make_folder

try:
    import fcntl
except ImportError:  # a system without such locks: everybody compiles for himself
    fcntl = None

WAIT_SECONDS = 120.0
"""How long a process waits in all for programs that others compile.

Source: a bound against waiting for a process that is stopped; graphs of models take seconds, on a GPU a minute.
"""
_POLL_SECONDS = 0.02
"""Source: a bound against what looking costs; the least that a compilation takes."""

_waited = 0.0
"""For how long this process has waited in vain."""


def in_a_job() -> bool:
    """Whether other processes are likely to compile the same graphs now: those of a distributed job."""
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        return dist.get_world_size() > 1
    return os.environ.get("WORLD_SIZE", "1").strip() not in ("", "1")


@contextmanager
def turn(path: Path) -> Iterator[bool]:
    """The `with` block in which this process alone makes the file `path`; whether another had its turn before and ended
    it, so that the file is there now, or will not be. (Who is killed in its turn leaves the lock behind: the next one
    has its turn, and the others wait for that.)

    Where nothing can be locked, and when a wait was too long, the block runs all the same.
    """
    lock = None if fcntl is None else path.with_name(f"{path.name}.lock{PART}")
    held, waited = None, False
    try:
        if lock is not None:
            with suppress(OSError, RefusedError):  # of a folder that is no good, the cache itself tells
                held, waited = _locked(lock)
        yield waited
    finally:
        if held is not None and lock is not None:
            with suppress(OSError):
                lock.unlink(missing_ok=True)  # while it is locked: who opened it before sees that it is gone
            os.close(held)


def _locked(lock: Path) -> tuple[int | None, bool]:
    """The lock's file, open, or None when it was not to be had in time; and whether one who had it first ended his turn
    in order.

    Errors: OSError, RefusedError.
    """
    global _waited
    assert fcntl is not None
    make_folder(lock.parent)
    check_folder(lock.parent)
    start, waited, held = time.monotonic(), False, None
    while True:
        file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(file, lock):
                kept, file = file, -1
                return kept, waited and _identity(kept) != held
            waited = True  # its turn is over, and its file gone
        except BlockingIOError:
            waited, held = True, _identity(file)
            if (in_all := _waited + time.monotonic() - start) > WAIT_SECONDS:
                _waited = in_all
                warnings.warn(
                    "cuesta: another process of this job is still compiling a graph, after this one has waited "
                    f"{in_all:.0f} s in all: it is compiled here, too",
                    stacklevel=2,
                )
                return None, True
            time.sleep(_POLL_SECONDS)
        finally:
            if file >= 0:
                os.close(file)


def _identity(file: int) -> tuple[int, int, int]:
    """Which file an open one is, also beside one of later that got its number."""
    found = os.fstat(file)
    return found.st_dev, found.st_ino, found.st_ctime_ns


def _is_at(file: int, path: Path) -> bool:
    """Whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


__all__ = ["WAIT_SECONDS", "in_a_job", "turn"]
