"""Graphs that AOTAutograd cannot capture run in eager, and leave nothing of torch's as an error left it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.exc import BackendCompilerFailed, SkipFrame
from torch._functorch.eager_transforms import jvp

import cuesta
from cuesta import aot_autograd
from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic
from cuesta.in_eager import UNCAPTURED, left_as_found, why_uncaptured
from tests.support.differential import difference

_C: Any = getattr(torch, "_C")  # noqa: B009  # most of it has no types
SAID = f"cuesta runs a graph in eager: {UNCAPTURED}"


def compiled(function: Callable[..., Any], **settings: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(function, backend="cuesta", **settings)


def derived(x: Tensor) -> tuple[Tensor, ...]:
    torch.ops.aten._foreach_sub_.List([x], [x], alpha=2)
    value, derivative = torch.func.jvp(lambda x: x.sin() * x, (x,), (x,))  # pyright: ignore[reportAssignmentType]
    return derivative, value, torch.eye(x.shape[0])


def part(size: int) -> Tensor:
    x = torch.arange(6.0 * size).reshape(3, size, 2)[..., 1]
    torch._dynamo.mark_dynamic(x, 1)
    return x


def test_what_cannot_be_captured_runs_in_eager() -> None:
    """66001540: the derivative by a part of a tensor, of sizes that change."""
    function = compiled(derived)
    with pytest.warns(UserWarning, match=SAID):
        results = function(part(5))
    for size in (5, 7):
        results = function(part(size))
        assert not any(map(difference, results, derived(part(size))))
    _has_its_settings()


def test_without_sizes_that_change_it_is_compiled() -> None:
    function, count = compiled(derived), len(cuesta.records)
    results = function(torch.arange(30.0).reshape(3, 5, 2)[..., 1])
    assert not any(map(difference, results, derived(part(5)))) and len(cuesta.records) > count


def _has_its_settings() -> None:
    """Whether whoever calls torch next finds it as it was."""
    assert torch.func.jvp(torch.sin, (torch.zeros(2),), (torch.ones(2),))[1].eq(1).all()
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        pass
    assert _C._functorch.get_dynamic_layer_stack_depth() == 0 and torch.is_grad_enabled()
    assert not torch.is_autocast_enabled("cpu")


def _enter(name: str) -> None:
    """What a graph of Dynamo's enters, node by node."""
    functorch: Any = _C._functorch
    match name:
        case "jvp":
            _C._enter_dual_level()
            functorch._jvp_increment_nesting()
        case "grad":
            functorch._grad_increment_nesting()
            functorch.set_inplace_requires_grad_allowed(True)
        case "vmap":
            functorch._vmap_increment_nesting(3, "error")
        case "functionalize":
            functorch._func_increment_nesting(True)
        case "hooks":
            _C._autograd._saved_tensors_hooks_disable("not here")
        case "autocast":
            torch.amp.autocast_mode._enter_autocast("cpu", torch.float16, True, None)
        case _:
            _C._set_grad_enabled(False)
            _C._set_fwd_grad_enabled(False)


NAMES = ("jvp", "grad", "vmap", "functionalize", "hooks", "autocast", "no gradients")


@pytest.mark.parametrize("names", [*[(name,) for name in NAMES], ("vmap", "jvp", "grad"), NAMES], ids="+".join)
def test_an_error_leaves_torch_as_it_was(names: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="it"), left_as_found():
        for name in names:
            _enter(name)
        raise ValueError("it")
    _has_its_settings()


def test_what_was_so_before_stays() -> None:
    hooks: Any = _C._autograd

    def inside(x: Tensor) -> Tensor:
        with pytest.raises(ValueError), left_as_found():
            hooks._saved_tensors_hooks_enable()
            _enter("vmap")
            raise ValueError
        assert hooks._saved_tensors_hooks_get_disabled_error_message()
        return x.sin()

    assert jvp(torch.func.grad(inside), (torch.tensor(0.0),), (torch.tensor(1.0),))[0] == 1
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(ValueError), left_as_found():
        _enter("autocast")
        raise ValueError
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.get_autocast_dtype("cpu") == torch.bfloat16
    _has_its_settings()


def test_without_an_error_all_stays_as_the_graph_made_it() -> None:
    with torch.no_grad(), left_as_found():
        _C._set_grad_enabled(True)
        assert torch.is_grad_enabled()


def test_an_error_of_a_graph_in_eager_is_eagers() -> None:
    """And the next program may call `jvp`: of the graph, nothing is left."""

    def function(x: Tensor, places: Tensor) -> Tensor:
        x.expand(2, 3)[0].add_(1)  # which is why it runs in eager
        return torch.func.jvp(lambda x: x[places] * x, (x,), (x,))[1]

    with pytest.warns(UserWarning, match="one number in memory"):
        run = compiled(function)
        run(torch.ones(3), torch.tensor([0, 1, 2]))
    with pytest.raises(IndexError):
        run(torch.ones(3), torch.tensor([0, 1, 5]))
    _has_its_settings()


@pytest.mark.parametrize("name", ["copy_what_is_resolved", "view_what_may_be_seen"])
def test_an_error_of_an_analysis_is_no_error_of_the_program(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(gm: Any) -> None:
        raise ZeroDivisionError("a fault of ours")

    monkeypatch.setattr(f"cuesta.lowering.capture.dynamo_graph.{name}", broken)
    with pytest.warns(UserWarning, match=rf"{SAID}: ZeroDivisionError: a fault of ours \[test_uncaptured.py:\d+\]"):
        assert compiled(lambda x: x + 1)(torch.ones(2)).eq(2).all()


def test_an_error_of_a_look_for_what_is_lost_is_none_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuesta.lowering.capture.lost_in_views._LOST", [lambda gm: 1 // 0])
    with pytest.warns(UserWarning, match="ZeroDivisionError"):
        assert compiled(lambda x: x + 1)(torch.ones(2)).eq(2).all()


def test_an_error_of_the_compiler_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stages and generated code do is no capture."""

    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("a fault of ours")

    monkeypatch.setattr("cuesta.compiler.compile_graph", broken)
    with pytest.raises(BackendCompilerFailed, match="a fault of ours"):
        compiled(lambda x: x + 1)(torch.ones(2))


def test_what_dynamo_answers_goes_on_to_it() -> None:
    from torch._subclasses.fake_tensor import DataDependentOutputException

    diagnostic = CuestaError(Diagnostic("no"))
    for error in (SkipFrame(), DataDependentOutputException(torch.ops.aten.nonzero.default), MemoryError(), diagnostic,
                  UserWarning("it")):  # fmt: skip
        assert why_uncaptured(error) is None
    assert why_uncaptured(ValueError("\nit is\nnot")) == f"{UNCAPTURED}: ValueError: it is"


def test_an_unforeseen_error_is_one_in_these_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `pyproject.toml` says: faults of ours do not hide."""
    monkeypatch.setattr(aot_autograd, "captured", lambda *_: 1 // 0)
    with pytest.raises(BackendCompilerFailed, match=UNCAPTURED):
        compiled(lambda x: x + 1)(torch.ones(2))
