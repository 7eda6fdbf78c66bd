"""A lock that a forked process does not find taken."""

from __future__ import annotations

import os
from threading import Lock


class ProcessLock:
    """A lock for each process: the thread that has it when a process is forked does not exist there, to release it.

    with lock.here: ...
    """

    def __init__(self) -> None:
        self._locks: dict[int, Lock] = {}

    @property
    def here(self) -> Lock:
        """This process's."""
        return self._locks.setdefault(os.getpid(), Lock())
