from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from cuesta.targets.cpu import jit, machine_code, openmp

# Every element counts how often it was visited; the parts are recorded as (begin, end) in order of begin.
KERNEL = """
define internal void @visit(ptr %args, i64 %begin, i64 %end) {
entry:
  %counts = load ptr, ptr %args
  %starts.place = getelementptr ptr, ptr %args, i64 1
  %starts = load ptr, ptr %starts.place
  %start = getelementptr i64, ptr %starts, i64 %begin
  store i64 %end, ptr %start
  br label %loop
loop:
  %i = phi i64 [%begin, %entry], [%next, %loop]
  %p = getelementptr i64, ptr %counts, i64 %i
  %old = load i64, ptr %p
  %new = add i64 %old, 1
  store i64 %new, ptr %p
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}
define void @run(ptr %args, i64 %n, i64 %grain) {
  call void @cuesta.parallel_for(ptr @visit, ptr %args, i64 %n, i64 %grain)
  ret void
}
define internal void @inner(ptr %args, i64 %begin, i64 %end) {
  %n.place = getelementptr i64, ptr %args, i64 2
  %n = load i64, ptr %n.place
  call void @cuesta.parallel_for(ptr @visit, ptr %args, i64 %n, i64 1)
  ret void
}
define void @nested(ptr %args, i64 %n, i64 %grain) {
  call void @cuesta.parallel_for(ptr @inner, ptr %args, i64 1, i64 1)
  ret void
}
"""


def load(threads: bool | None = None) -> machine_code.LoadedModule:
    return machine_code.load_object(
        jit.compile_module(openmp.parallel_for_text(threads) + KERNEL, verify=True), ["run", "nested"]
    )


def visit(loaded: machine_code.LoadedModule, n: int, grain: int, entry: str = "run") -> list[tuple[int, int]]:
    counts, ends = torch.zeros(n + 1, dtype=torch.int64), torch.full((n + 1,), -1)
    arguments = (ctypes.c_int64 * 3)(counts.data_ptr(), ends.data_ptr(), n)
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(loaded.symbols[entry])
    function(ctypes.addressof(arguments), n, grain)
    assert counts[:n].eq(1).all()
    assert counts[n] == 0
    return [(begin, int(end)) for begin, end in enumerate(ends) if end >= 0]


SECOND_RUNTIME = """
import ctypes, shutil, sys
import torch
from cuesta.targets.cpu import libraries
def path_of(address):
    for line in open("/proc/self/maps"):
        low, high = (int(word, 16) for word in line.split()[0].split("-"))
        if low <= address < high:
            return line.split(maxsplit=5)[5].strip()
own = path_of(libraries.address_in(libraries.torch_library(), "GOMP_parallel"))
other = shutil.copy(own, sys.argv[1])
ctypes.CDLL(other)
assert any(other in line for line in open("/proc/self/maps"))
assert path_of(libraries.library_addresses()["GOMP_parallel"]) == own
"""


@pytest.mark.slow
@pytest.mark.skipif(not openmp.has_threads() or sys.platform != "linux", reason="this torch has no libgomp")
def test_a_second_runtime_in_the_process_is_not_ours() -> None:
    # A name that sorts before that of torch's: the runtimes in the process were looked through in order.
    other = Path(f"/dev/shm/cuesta-{os.getpid()}-libgomp.so.1")
    try:
        command = [sys.executable, "-c", SECOND_RUNTIME, str(other)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    finally:
        other.unlink(missing_ok=True)


@pytest.fixture()
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.skipif(not openmp.has_threads(), reason="this torch has no libgomp")
@pytest.mark.usefixtures("two_threads")
def test_parts_are_contiguous_and_near_equal() -> None:
    loaded = load()
    assert visit(loaded, 10, 1) == [(0, 5), (5, 10)]
    assert visit(loaded, 11, 1) == [(0, 6), (6, 11)]
    assert visit(loaded, 11, 10) == [(0, 6), (6, 11)]
    assert visit(loaded, 2, 1) == [(0, 1), (1, 2)]


@pytest.mark.skipif(not openmp.has_threads(), reason="this torch has no libgomp")
@pytest.mark.usefixtures("two_threads")
def test_set_num_threads_is_honoured_at_run_time() -> None:
    loaded = load()
    torch.set_num_threads(1)
    assert visit(loaded, 10, 1) == [(0, 10)]
    torch.set_num_threads(3)
    assert visit(loaded, 10, 1) == [(0, 4), (4, 7), (7, 10)]
    assert visit(loaded, 10, 5) == [(0, 5), (5, 10)]


@pytest.mark.skipif(not openmp.has_threads() or sys.platform != "linux", reason="this torch has no libgomp")
@pytest.mark.usefixtures("two_threads")
def test_no_thread_ends_as_a_loop_has_fewer_parts() -> None:
    """libgomp ends those that a smaller team has no use for, and starts them again for the next that has."""
    loaded = load()
    torch.set_num_threads(4)
    assert len(visit(loaded, 8, 1)) == 4
    threads = set(os.listdir("/proc/self/task"))
    for _ in range(3):
        assert visit(loaded, 10, 5) == [(0, 5), (5, 10)]
        assert len(visit(loaded, 8, 1)) == 4
    assert set(os.listdir("/proc/self/task")) == threads


@pytest.mark.usefixtures("two_threads")
def test_small_loops_and_nested_loops_run_here() -> None:
    loaded = load()
    assert visit(loaded, 10, 10) == [(0, 10)]
    assert visit(loaded, 1, 1) == [(0, 1)]
    assert visit(loaded, 0, 1) == []
    visit(loaded, 10, 1, "nested")


def test_the_serial_form() -> None:
    loaded = load(threads=False)
    assert visit(loaded, 10, 1) == [(0, 10)]
    assert visit(loaded, 0, 1) == []
