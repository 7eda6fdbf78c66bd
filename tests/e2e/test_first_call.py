"""LLVM works beside Python: a compiled function waits for its machine code when it is called first."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import cuesta
from cuesta.dialects.core.extension import Extension
from cuesta.dialects.kernel import FuncOp
from cuesta.record import CompileRecord, records
from cuesta.targets.cpu import jit, machine_code
from cuesta.targets.cpu.target import CpuTarget
from cuesta.targets.target import Build


def double(x: Tensor) -> Tensor:
    return x * 2 + 1


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """LLVM does not begin before the event is set."""
    event = threading.Event()
    original = jit._emitted  # pyright: ignore[reportPrivateUsage]

    def emitted(*arguments: object) -> bytes:
        assert event.wait(30)
        return original(*arguments)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(jit, "_emitted", emitted)
    return event


def compiled_graph(options: dict[str, object] | None = None) -> tuple[Any, Tensor]:
    """The function of a graph, as AOTAutograd is given it, and an input."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    from cuesta.compiler import compile_graph
    from cuesta.options import Options

    x = torch.randn(64)
    with FakeTensorMode() as mode:
        gm = make_fx(double)(mode.from_tensor(x))
    return compile_graph(gm, CompileRecord("inference"), Options.parse(None, options or {"cache": False})), x


def test_compiling_goes_on_without_llvm_and_the_first_call_waits(held: threading.Event) -> None:
    function, x = compiled_graph()
    results: list[Tensor] = []
    threads = [threading.Thread(target=lambda: results.append(function([x])[0])) for _ in range(2)]
    for thread in threads:
        thread.start()
    threads[0].join(0.05)
    assert not results and all(thread.is_alive() for thread in threads)
    held.set()
    for thread in threads:
        thread.join()
    assert len(results) == 2 and all(torch.equal(result, double(x)) for result in results)
    arguments = [x]
    (again,) = function(arguments)
    assert torch.equal(again, double(x)) and not arguments
    assert "_complete" not in function.__code__.co_names


def test_what_llvm_refuses_is_told_by_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bytes:
        raise machine_code.MachineCodeError("no code for this")

    monkeypatch.setattr(jit, "_emitted", refuse)
    function, x = compiled_graph()
    for _ in range(2):
        with pytest.raises(machine_code.MachineCodeError, match="no code for this"):
            function([x])


def test_a_kernel_without_code_beside_others_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrapper calls one kernel's stand-in and another's machine code: the first call waits for no half of them."""

    class PartlyTarget(CpuTarget):
        name = "partly"

        def start(self, kernels: Mapping[str, FuncOp], wanted: Sequence[tuple[str, str]]) -> Build:
            build = super().start(kernels, wanted)
            first, _ = wanted[0]
            monkeypatch.setattr(build, "finish", lambda: {first: ValueError("injected")})
            return build

    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x.exp() * 2, y.cumsum(0)

    x, y = torch.randn(5, 6), torch.randn(7)
    torch._dynamo.reset()
    cuesta.clear_records()
    options: dict[str, Any] = {"extensions": [Extension("partly", targets=[PartlyTarget()])], "cache": False}
    with pytest.warns(UserWarning, match="cannot be compiled and runs in eager: injected"):
        compiled = torch.compile(function, backend="cuesta", options=options)
        torch.testing.assert_close(compiled(x, y), function(x, y))
    assert "llvm" in cuesta.records[0].seconds


def test_an_equal_graph_that_has_not_run_yet_is_not_compiled_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CUESTA_CACHE", "1")
    monkeypatch.setenv("CUESTA_CACHE_DIR", str(tmp_path))
    cuesta.clear_records()
    (first, x), (second, y) = compiled_graph({"cache": True}), compiled_graph({"cache": True})
    assert [record.from_cache for record in records] == [False, True]
    assert torch.equal(first([x])[0], double(x)) and torch.equal(second([y])[0], double(y))
