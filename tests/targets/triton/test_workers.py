"""The processes that compile: how many, what they share, and what becomes of a kernel when one is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuesta.targets.program import KernelText, MachineCode
from cuesta.targets.triton import build, workers
from cuesta.targets.triton.compilation import compile_kernel
from cuesta.targets.triton.workers import Job, Pool, RemoteError, WorkerDiedError

pytest.importorskip("triton")
pytestmark = pytest.mark.slow

HOPPER = 90


def kernel(number: int, text: str = "tl.load(x) + {number}.0") -> KernelText:
    """A kernel that takes Triton no time worth mentioning."""
    source = f"@triton.jit\ndef add_{number}(x, o):\n    tl.store(o, {text.format(number=number)})\n"
    return KernelText(f"add_{number}", source, (("x", "*fp32"), ("o", "*fp32")), 1, False)


def jobs(*numbers: int) -> list[Job]:
    return [Job(kernel(number), HOPPER) for number in numbers]


def refuse(kernel: KernelText, architecture: int) -> MachineCode:
    raise AssertionError(f"{kernel.name} was to be compiled by a worker")


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    monkeypatch.setenv("CUESTA_COMPILE_WORKERS", "1")
    found = Pool()
    yield found
    found.close()


def is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_few_kernels_need_no_worker(pool: Pool) -> None:
    few = jobs(1, 2)
    pool.start(few).finish(compile_kernel)
    assert all(job.code is not None and job.code.binary[:4] == b"\x7fELF" for job in few)
    assert not pool.all


def test_a_worker_helps_is_kept_and_gives_the_same_code(pool: Pool) -> None:
    many = jobs(1, 2, 3)
    batch = pool.start(many)
    while batch.unfinished:  # nobody helps the worker
        time.sleep(0.01)
    batch.finish(refuse)
    for job in many:
        assert job.code == compile_kernel(job.kernel, HOPPER)
    (worker,) = pool.all
    assert pool.idle == [worker]
    again = jobs(4, 5)
    pool.start(again).finish(compile_kernel)  # one of the two is for the worker, which is warm
    assert all(job.code is not None for job in again)
    assert pool.all == [worker] and worker.process.poll() is None


def test_what_triton_raises_comes_from_a_worker_too(pool: Pool) -> None:
    wrong = [Job(kernel(number, "tl.load(y) + {number}.0"), HOPPER) for number in range(3)]
    batch = pool.start(wrong)
    while batch.unfinished:
        time.sleep(0.01)
    for job in wrong:
        assert isinstance(job.error, RemoteError) and "y is not defined" in str(job.error)
        with pytest.raises(Exception, match="y is not defined"):
            compile_kernel(job.kernel, HOPPER)


WAITS = """
import json, pathlib, sys, time
sys.path[:] = json.loads(sys.argv[1])
from cuesta.targets.triton.worker import READY, receive, send
send(sys.stdout.buffer, READY)
pathlib.Path({path!r}).write_text(receive(sys.stdin.buffer)["kernel"]["name"])
time.sleep(600)
"""


def test_a_worker_killed_in_the_middle_of_a_compile(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "taken"
    with monkeypatch.context() as patch:
        patch.setattr(workers, "_START", WAITS.format(path=str(path)))
        batch = pool.start(many := jobs(1, 2, 3))
        while not path.exists() or not path.read_text():
            time.sleep(0.01)
    (worker,) = pool.all
    taken = path.read_text()
    os.kill(worker.process.pid, signal.SIGKILL)
    batch.finish(compile_kernel)
    assert all(job.code is not None and job.code.name == job.kernel.name for job in many)
    assert taken == "add_1"
    (other,) = pool.all
    assert other is not worker and other.process.poll() is None


DIES = """
import json, os, sys
sys.path[:] = json.loads(sys.argv[1])
from cuesta.targets.triton.worker import READY, receive, send
send(sys.stdout.buffer, READY)
receive(sys.stdin.buffer)
os.kill(os.getpid(), 9)
"""


def test_a_kernel_at_which_workers_die_ends_nothing_else(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_START", DIES)
    batch = pool.start(many := jobs(1, 2, 3))
    while batch.unfinished:
        time.sleep(0.01)
    for job in many:
        assert isinstance(job.error, WorkerDiedError) and "status -9" in str(job.error)


@pytest.mark.parametrize(
    "start",
    [
        "1 / 0",
        *(
            pytest.param(start, marks=pytest.mark.slow)
            for start in ("print('some other program')", "import os; os.kill(os.getpid(), 9)")
        ),
    ],
)
def test_workers_that_do_not_even_start_are_no_kernels_fault(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, start: str, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(workers, "_START", start)

    def no_worker_is_left() -> bool:
        end = time.monotonic() + 30
        while pool.all and time.monotonic() < end:
            time.sleep(0.005)
        return not pool.all

    def compiled(kernel: KernelText, architecture: int) -> MachineCode:
        no_worker_is_left()
        return MachineCode(kernel.name, b"", 0, 1, 2)

    for _ in range(5):
        batch = pool.start(many := jobs(1, 2, 3))
        batch.finish(compiled)
        assert [job.code and job.code.name for job in many] == ["add_1", "add_2", "add_3"]
        assert no_worker_is_left()
    assert pool.false_starts == 3, "it is not tried for ever"


def test_no_process_can_be_started(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_more(*arguments: object, **options: object) -> None:
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", no_more)
    batch = pool.start(many := jobs(1, 2, 3))
    batch.finish(lambda kernel, architecture: MachineCode(kernel.name, b"", 0, 1, 2))
    assert [job.code and job.code.name for job in many] == ["add_1", "add_2", "add_3"]


def test_the_number_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUESTA_COMPILE_WORKERS", "many")
    with pytest.raises(ValueError, match="CUESTA_COMPILE_WORKERS is a whole number, not 'many'"):
        _ = Pool().limit
    monkeypatch.setenv("CUESTA_COMPILE_WORKERS", "0")
    none = Pool()
    batch = none.start(three := jobs(1, 2, 3))
    assert not none.all
    batch.finish(lambda kernel, architecture: MachineCode(kernel.name, b"", 0, 1, 2))
    assert all(job.code for job in three)


LEAVES = """
import os, sys
sys.path[:0] = {path!r}
from cuesta.targets.triton.workers import pool
pool().prepare(2)
print(*[worker.process.pid for worker in pool().all], flush=True)
{then}
"""


@pytest.mark.parametrize("then", ["", "raise SystemExit(3)", "os.kill(os.getpid(), 9)", "os._exit(0)", "1 / 0"])
def test_no_worker_outlives_its_process(then: str) -> None:
    script = LEAVES.format(path=[path for path in sys.path if path], then=then)
    environment = {**os.environ, "CUESTA_COMPILE_WORKERS": "2"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, timeout=60)
    processes = [int(word) for word in done.stdout.split()]
    assert len(processes) == 2, done.stderr
    end = time.monotonic() + 30
    while any(map(is_running, processes)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(is_running, processes))


def test_a_copy_of_the_process_has_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUESTA_COMPILE_WORKERS", "1")
    monkeypatch.setattr(workers, "_pool", None)
    original = workers.pool()
    original.prepare(1)
    child = os.fork()
    if child == 0:  # no assertion leaves a copy of pytest running
        os._exit(0 if workers._pool is None and workers.pool() is not original and not workers.pool().all else 1)
    assert os.waitpid(child, 0)[1] == 0
    (worker,) = original.all
    assert worker.process.poll() is None
    original.close()
    assert worker.process.poll() == 0


def test_a_worker_needs_no_torch() -> None:
    script = (
        f"import sys; sys.path[:0] = {[path for path in sys.path if path]!r}\n"
        "import triton, cuesta.targets.triton.compilation, cuesta.targets.triton.worker\n"
        "sys.exit('torch' in sys.modules or 'xdsl' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], timeout=60).returncode == 0


def test_names_and_comments_make_no_other_kernel() -> None:
    one, other = kernel(1), kernel(1)
    renamed = KernelText(
        "add_7", "# model.py:3\n" + other.source.replace("add_1", "add_7"), other.signature, other.warps, other.asserts
    )
    assert build.content_of(one) == build.content_of(renamed)
    assert build.content_of(one) != build.content_of(kernel(2))
