"""What an extension brings and never returns is stopped, named, and leaves nothing behind; a target that goes wrong."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

import cuesta
from cuesta.dialects import elem
from cuesta.dialects.core import deadline
from cuesta.dialects.core.devices import CPU
from cuesta.dialects.core.extension import After, Extension
from cuesta.dialects.kernel import FuncOp
from cuesta.opt import run_captured
from cuesta.targets.cpu.target import CpuTarget
from cuesta.targets.target import Build

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    cuesta.clear_records()


def spin(*_: object) -> Any:
    number = 0
    while True:
        number += 1  # the line where all of them are stopped


STOPPED_IN = {f"{__file__}:{line}" for line in range(spin.__code__.co_firstlineno, spin.__code__.co_firstlineno + 4)}


class EndlessPass(ModulePass):
    name = "endless"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        spin()


class EndlessPattern(RewritePattern):
    """Nothing."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: elem.TableOp, rewriter: PatternRewriter, /) -> None:
        spin()


class EndlessTarget(CpuTarget):
    name = "endless"

    def __init__(self, *methods: str) -> None:
        for method in methods:
            setattr(self, method, spin)


class EndlessBuildTarget(CpuTarget):
    name = "endless"

    def __init__(self, method: str) -> None:
        self.method = method

    def start(self, kernels: Mapping[str, FuncOp], wanted: Sequence[tuple[str, str]]) -> Build:
        build = super().start(kernels, wanted)
        setattr(build, self.method, spin)
        return build


class ChoosingTarget(CpuTarget):
    name = "choosing"
    traits = replace(CPU, chooser=spin)


def softmax_like(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    weights = torch.special.i0(a.exp()).exp()
    return weights.sum(0), weights.amax(1)


x = torch.linspace(-2, 2, 12).view(3, 4)

ENDLESS: dict[str, tuple[Extension, str, str]] = {
    "lowering": (Extension("bad", lowerings={"aten.i0.default": spin}), "spin", "stage: aten-to-loops"),
    "pass": (Extension("bad", passes=[After("fuse-nests", EndlessPass)]), "endless", "stage: endless"),
    "rule": (Extension("bad", rules=[EndlessPattern()]), "EndlessPattern", "stage: canonicalize"),
    "move": (Extension("bad", fusions=[spin]), "spin", "stage: fuse-nests"),
    "chooser": (Extension("bad", schedules=[spin]), "spin", "stage: loops-to-kernel"),
    "target's chooser": (Extension("bad", targets=[ChoosingTarget()]), "spin", "stage: loops-to-kernel"),
    **{
        f"target.{method}": (Extension("bad", targets=[EndlessTarget(method)]), "endless", "")
        for method in ("obstacle", "key_lines", "facts", "prepare", "start", "call")
    },
    **{
        f"build.{method}": (Extension("bad", targets=[EndlessBuildTarget(method)]), "endless", "")
        for method in ("begin", "native", "finish", "code")
    },
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_what_never_returns_is_named(kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUESTA_CACHE", "1")
    monkeypatch.setenv("CUESTA_CACHE_DIR", str(tmp_path))
    bad, name, where = ENDLESS[kind]
    options: dict[str, Any] = {"extensions": [bad], "extension_seconds": 0.1}
    with pytest.raises(BackendCompilerFailed) as caught:
        torch.compile(softmax_like, backend="cuesta", options=options)(x)
    text = str(caught.value)
    assert f"extension 'bad': {name} ({__file__}:" in text
    assert "did not return within 0.1 s, and was stopped at " in text
    assert any(place in text for place in STOPPED_IN)
    assert where in text
    assert "without it: CUESTA_EXTENSIONS=-bad in the environment" in text
    assert not list(tmp_path.rglob("*.graph"))
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(softmax_like, backend="cuesta")(x), softmax_like(x))


def test_in_another_thread() -> None:
    """The backward pass, which autograd's thread compiles."""
    bad = Extension("bad", lowerings={"aten.cos.default": spin})
    source = torch.randn(4, requires_grad=True)
    options: dict[str, Any] = {"extensions": [bad], "extension_seconds": 0.1, "cache": False}
    failures: list[Exception] = []

    def run() -> None:
        try:
            torch.compile(torch.sin, backend="cuesta", options=options)(source).sum().backward()
        except Exception as error:  # noqa: BLE001 - said below
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    (failure,) = failures
    assert "extension 'bad': spin" in str(failure) and "aten.cos.default" in str(failure)


def test_cuesta_opt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, program = tmp_path / "mine.py", tmp_path / "program.mlir"
    program.write_text("builtin.module {\n  func.func @main() {\n    func.return\n  }\n}\n")
    source = inspect.getsource(EndlessPass).replace("spin()", "while True: op")
    mine.write_text(
        "from cuesta.extend import Context, Extension, ModuleOp, ModulePass\n"
        f"{source}\nmine = Extension('mine', passes=[EndlessPass])\n"
    )
    monkeypatch.setenv("CUESTA_EXTENSION_SECONDS", "0.1")
    status, _, err = run_captured(["--load", str(mine), str(program), "-p", "endless"])
    assert status == 1
    assert f"extension 'mine': endless ({mine}:2) did not return within 0.1 s, and was stopped at {mine}:6" in err
    assert "without it: CUESTA_EXTENSIONS=-mine" in err


def test_nobody_watches_without_extensions(monkeypatch: pytest.MonkeyPatch) -> None:
    def enter(*_: object) -> None:
        raise AssertionError("nobody need watch")

    monkeypatch.setattr(deadline.InTime, "__enter__", enter)
    torch.testing.assert_close(torch.compile(softmax_like, backend="cuesta")(x), softmax_like(x))


# -- targets that go wrong otherwise -----------------------------------------------------------------------------------


def raises(*_: object) -> Any:
    raise LookupError("no such thing")


@pytest.mark.parametrize(
    ("method", "does", "message"),
    [
        ("start", raises, "raised LookupError: no such thing, at"),
        ("call", raises, "raised LookupError: no such thing, at"),
        ("facts", raises, "raised LookupError: no such thing, at"),
        ("start", lambda *_: None, "gives None for WrongTarget.start()"),
        ("call", lambda *_: 3, "gives 3 for WrongTarget.call()"),
        ("queue", lambda *_: 3, "gives 3 for WrongTarget.queue()"),
        ("key_lines", lambda *_: None, "gives None for WrongTarget.key_lines()"),
    ],
)
def test_a_target_that_goes_wrong_is_named(
    method: str, does: Callable[..., Any], message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class WrongTarget(CpuTarget):
        name = "wrong"

    target = WrongTarget()
    setattr(target, method, does)
    monkeypatch.setenv("CUESTA_CACHE", "1")
    monkeypatch.setenv("CUESTA_CACHE_DIR", str(tmp_path))
    options: dict[str, Any] = {"extensions": [Extension("bad", targets=[target])]}
    with pytest.raises(BackendCompilerFailed) as caught:
        torch.compile(softmax_like, backend="cuesta", options=options)(x)
    text = str(caught.value)
    assert "CuestaError: extension 'bad': wrong (" in text
    assert message in text
    assert "without it: CUESTA_EXTENSIONS=-bad" in text
