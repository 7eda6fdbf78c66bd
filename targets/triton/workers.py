"""Processes that compile kernels side by side. They are started when there is enough to compile, and kept.

    CUESTA_COMPILE_WORKERS=N    at most N; otherwise one less than there are processors, and at most 16; 0 for none

A worker is a fresh process (`worker.py`), not a copy of this one: copies of a process that uses CUDA are broken. The
process that asks compiles too, while it waits. When a worker is killed, a new one compiles the kernel that it was at; a
kernel at which two die cannot be compiled.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cuesta.targets.program import KernelText, MachineCode
from cuesta.targets.progress import progress
from cuesta.targets.triton.worker import READY, code_of, receive, request, send

FEW = 2
"""So many kernels are compiled here, unless there are workers already."""
MOST_WORKERS = 16
_MOST_DEATHS = 2
_MOST_FALSE_STARTS = 3
"""After so many workers that never were ready, no more are started: something is wrong that is no kernel's fault."""
_SECONDS_TO_END = 2.0
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from cuesta.targets.triton.worker import serve; serve()"
)


class WorkerDiedError(Exception):
    """The processes that were to compile a kernel ended before they had."""


class FalseStartError(Exception):
    """A worker ended before it was ready."""


class RemoteError(Exception):
    """What Triton raised in a worker; the text begins with its type."""


class Worker:
    """One process. At most one thread talks to it at a time."""

    def __init__(self) -> None:
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
        command = [sys.executable, "-c", _START, json.dumps([str(path) or os.getcwd() for path in sys.path])]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self.ready = False

    def compile(self, kernel: KernelText, architecture: int) -> MachineCode:
        """The machine code of a kernel.

        Errors: RemoteError; FalseStartError and WorkerDiedError, after which the worker is of no use.
        """
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            if not self.ready:
                self.ready = receive(self.process.stdout) == READY
            if not self.ready:
                self.process.kill()
                raise FalseStartError
            send(self.process.stdin, request(kernel, architecture))
            answer = receive(self.process.stdout)
        except (OSError, ValueError) as error:  # the pipe is broken, or was closed at exit
            answer = None
            reason = f": {error}"
        else:
            reason = ""
        if answer is None:
            self.process.kill()
            status = self.process.wait()
            raise WorkerDiedError(f"the process that compiled it ended with status {status}{reason}")
        if "error" in answer:
            raise RemoteError(": ".join(answer["error"]))
        return code_of(answer)

    def close_pipes(self) -> None:
        """Lets the process end when it has done what it does."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


@dataclass(eq=False)
class Job:
    """A kernel to be compiled, and in the end its code or an error."""

    kernel: KernelText
    architecture: int
    code: MachineCode | None = None
    error: Exception | None = None


class Batch:
    """Jobs that several compile: `finish` joins in, and returns when all are done."""

    def __init__(self, pool: Pool, jobs: Sequence[Job]) -> None:
        self.pool = pool
        self.waiting = deque(jobs)
        self.total = self.unfinished = len(jobs)
        self.changed = threading.Condition()

    def take(self) -> Job | None:
        """The next job, if there is one."""
        try:
            return self.waiting.popleft()
        except IndexError:
            return None

    def put_back(self, job: Job) -> None:
        """Somebody else is to do a job."""
        with self.changed:
            self.waiting.append(job)
            self.changed.notify_all()

    def end(self, job: Job, code: MachineCode | None = None, error: Exception | None = None) -> None:
        """A job is done."""
        job.code, job.error = code, error
        with self.changed:
            self.unfinished -= 1
            self.changed.notify_all()

    def work(self, worker: Worker) -> None:
        """Has a worker do jobs while there are any; when it dies, another one, which begins with what it was at."""
        while (job := self.take()) is not None:
            for deaths in range(1, _MOST_DEATHS + 1):
                try:
                    self.end(job, worker.compile(job.kernel, job.architecture))
                    break
                except RemoteError as error:
                    self.end(job, error=error)
                    break
                except FalseStartError:
                    self.pool.false_starts += 1
                    self.pool.forget(worker)
                    self.put_back(job)
                    return
                except WorkerDiedError as error:
                    fresh = self.pool.replacement(worker)
                    if fresh is None or deaths == _MOST_DEATHS:
                        self.end(job, error=error)
                    if fresh is None:
                        return
                    worker = fresh
        self.pool.give_back(worker)

    def finish(self, compile_here: Callable[[KernelText, int], MachineCode]) -> None:
        """Compiles here what no worker has begun, and waits for the rest."""
        try:
            with progress(self.total, "kernels built") as tell:
                while self.unfinished:
                    tell(self.total - self.unfinished)
                    self.advance(compile_here)
        finally:
            self.waiting.clear()  # after a KeyboardInterrupt, nobody waits for the rest

    def advance(self, compile_here: Callable[[KernelText, int], MachineCode]) -> None:
        """Does a job, or waits until some job is done, where all have been begun."""
        job = self.take()
        if job is None:
            with self.changed:
                if self.unfinished and not self.waiting:
                    self.changed.wait()
            return
        try:
            self.end(job, compile_here(job.kernel, job.architecture))
        except Exception as error:  # noqa: BLE001  # Triton raises all kinds; who asked decides what it means
            self.end(job, error=error)


class Pool:
    """The workers of this process: all of them, and those that are idle."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.all: list[Worker] = []
        self.idle: list[Worker] = []
        self.closed = False
        self.false_starts = 0

    @property
    def limit(self) -> int:
        """How many workers there may be.

        Errors: ValueError for a CUESTA_COMPILE_WORKERS that is no number.
        """
        asked = os.environ.get("CUESTA_COMPILE_WORKERS", "").strip()
        if not asked:
            return min(MOST_WORKERS, _processors() - 1) if sys.executable else 0
        if not (asked.isascii() and asked.isdigit()):
            raise ValueError(f"the environment variable CUESTA_COMPILE_WORKERS is a whole number, not {asked!r}")
        return int(asked)

    def start(self, jobs: Sequence[Job]) -> Batch:
        """Has workers begin with jobs, if there are enough for that to pay."""
        batch = Batch(self, jobs)
        helpers = len(jobs) - 1 if len(jobs) > FEW or self.idle else 0
        for _ in range(min(helpers, self.limit)):
            worker = self.borrow()
            if worker is None:
                break
            threading.Thread(target=batch.work, args=(worker,), daemon=True, name="cuesta compile worker").start()
        return batch

    def prepare(self, count: int) -> None:
        """Starts workers, up to so many in all: they get ready while the program at hand is still far from compiled."""
        borrowed = [self.borrow() for _ in range(min(count, self.limit) - len(self.all))]
        for worker in borrowed:
            if worker is not None:
                self.give_back(worker)

    def borrow(self) -> Worker | None:
        """A worker for one thread: an idle one, or one more; None when there may not or cannot be one more."""
        with self.lock:
            if self.idle:
                return self.idle.pop()
            return self._one_more() if len(self.all) < self.limit else None

    def give_back(self, worker: Worker) -> None:
        """It is idle again."""
        with self.lock:
            self.idle.append(worker)

    def replacement(self, dead: Worker) -> Worker | None:
        """Another worker in place of one that died; None when there cannot be one."""
        self.forget(dead)
        with self.lock:
            return self._one_more()

    def forget(self, dead: Worker) -> None:
        """A worker is no more."""
        dead.close_pipes()
        dead.process.wait()
        with self.lock:
            if dead in self.all:
                self.all.remove(dead)

    def _one_more(self) -> Worker | None:
        if self.closed or self.false_starts >= _MOST_FALSE_STARTS:
            return None
        try:
            worker = Worker()
        except OSError:  # no more processes, or no memory for one
            return None
        self.all.append(worker)
        return worker

    def close(self) -> None:
        """Ends all workers: those that are idle by their own hand, unless it takes too long."""
        with self.lock:
            self.closed = True
            workers, idle = self.all, self.idle
            self.all, self.idle = [], []
        for worker in workers:
            if worker in idle:
                worker.close_pipes()
            else:
                worker.process.kill()
        for worker in workers:
            try:
                worker.process.wait(_SECONDS_TO_END)
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_pool: Pool | None = None


def pool() -> Pool:
    """The pool of this process. It has no workers yet when it is made."""
    global _pool
    if _pool is None:
        _pool = Pool()
        atexit.register(_pool.close)
    return _pool


def _after_fork() -> None:
    """The workers are the parent's: this process has none, and does not hold their pipes open."""
    global _pool
    if _pool is not None:
        for worker in _pool.all:
            worker.close_pipes()
        atexit.unregister(_pool.close)
        _pool = None


_register: Callable[..., Any] | None = getattr(os, "register_at_fork", None)
if _register is not None:
    _register(after_in_child=_after_fork)
