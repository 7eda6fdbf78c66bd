"""Native functions as functions of Python's: what they take, who may run meanwhile, and what they keep alive."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from cuesta.targets.cpu import jit, machine_code, python_calls
from cuesta.targets.cpu.python_calls import emit_function, entry, python_function, with_shared
from cuesta.targets.program import NativeFunction

BODIES: dict[str, tuple[Sequence[str], str]] = {
    "add": (("%a", "%b"), "  %c = add i64 %a, %b\n  ret i64 %c\n"),
    "none": ((), "  ret i64 -1\n"),
    "wait": (
        ("%until",),
        """\
  %place = inttoptr i64 %until to ptr
  br label %again
again:
  %seen = load atomic i64, ptr %place seq_cst, align 8
  %done = icmp ne i64 %seen, 0
  br i1 %done, label %over, label %again
over:
  ret i64 %seen
""",
    ),
}


class Code:
    """What the machine code's memory lives as long as."""

    def __init__(self, functions: Sequence[NativeFunction]) -> None:
        text = with_shared("\n".join(emit_function(name, *BODIES[name]) for name in BODIES))
        self.loaded = machine_code.load_object(
            jit.compile_module(text, verify=True), [*BODIES, *filter(None, {one.entry for one in functions})]
        )

    def function(self, native: NativeFunction) -> Callable[..., int]:
        return python_function(native, self.loaded.symbols, self)


def native_of(name: str) -> NativeFunction:
    return NativeFunction(name, len(BODIES[name][0]), entry())


@pytest.fixture(params=["of Python", "through ctypes"])
def functions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[..., int]]:
    if request.param == "through ctypes":
        monkeypatch.setattr(python_calls, "has_python", lambda: False)
    native = [native_of(name) for name in BODIES]
    assert all((one.entry is None) == (request.param == "through ctypes") for one in native)
    code = Code(native)
    return {one.name: code.function(one) for one in native}


def test_integers_of_64_bits(functions: dict[str, Any]) -> None:
    add = functions["add"]
    assert add(40, 2) == 42 and add(-5, 2) == -3 and add(2**63 - 1, 0) == 2**63 - 1
    assert add(2**64 - 1, 2) == 1 and add(-(2**63), 0) == -(2**63)
    assert functions["none"]() == -1


@pytest.mark.parametrize("given", [(1,), (1, 2, 3), (1, "2"), (1.0, 2), (None, 2), (2**64, 0)])
def test_other_arguments(given: tuple[Any, ...]) -> None:
    native = native_of("add")
    add = Code([native]).function(native)
    with pytest.raises((TypeError, OverflowError)):
        add(*given)
    assert add(1, 2) == 3


def test_it_is_a_function_that_is_built_into_python() -> None:
    native = native_of("add")
    function = Code([native]).function(native)
    assert type(function) is type(len) and function.__name__ == "add"


def test_the_code_lives_as_long_as_its_functions() -> None:
    native = native_of("add")
    code = Code([native])
    function, alive = code.function(native), weakref.ref(code)
    del code
    gc.collect()
    assert alive() is not None and function(1, 2) == 3
    del function
    gc.collect()
    assert alive() is None


def test_nothing_grows(functions: dict[str, Any]) -> None:
    add = functions["add"]
    for _ in range(3):
        before = sys.getrefcount(None)
        for _ in range(1000):
            add(2**40, 2**41)
        grown = sys.getrefcount(None) - before
    assert abs(grown) < 100
    assert sys.getrefcount(add) < 10


def test_other_threads_run_meanwhile(functions: dict[str, Any]) -> None:
    until = torch.zeros(1, dtype=torch.int64)
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(functions["wait"](until.data_ptr())))
    thread.start()
    time.sleep(0.05)
    assert thread.is_alive() and not found
    until[0] = 7
    thread.join(10)
    assert found == [7]


AT_THE_END = """
import sys, threading, time
from cuesta.targets.cpu import jit, machine_code
from cuesta.targets.cpu.python_calls import emit_function, python_function, with_shared
from cuesta.targets.program import NativeFunction

native = NativeFunction("add", 2, "cuesta.call")
text = with_shared(emit_function("add", ("%a", "%b"), "  %c = add i64 %a, %b\\n  ret i64 %c\\n"))
code = machine_code.load_object(jit.compile_module(text), [native.name, native.entry])
add = python_function(native, code.symbols, code)

def work():
    while True:
        add(1, 2)

for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
print("done")
"""


@pytest.mark.slow
def test_a_process_may_end_while_threads_call() -> None:
    """Python ends such a thread where it comes back from a native function: out of the middle of ours."""
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", AT_THE_END], capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_where_python_has_no_such_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_calls, "has_python", lambda: False)
    torch._dynamo.reset()
    x = torch.randn(5)
    assert entry() is None
    function = torch.compile(lambda x: torch.sin(x) * 2, backend="cuesta", options={"cache": False})
    for _ in range(2):
        torch.testing.assert_close(function(x), torch.sin(x) * 2)
