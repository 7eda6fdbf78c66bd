"""What PyTorch's own capture leaves behind, as a witness: it excuses what it does itself, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.fuzz.calls.case import Case
from tests.fuzz.calls.judge import judge, verdict_with
from tests.fuzz.calls.witnesses import decomposed, with_kernels
from tests.fuzz.test_calls import case_with

SCALED = "torch._foreach_mul_([z, z.to(torch.float8_e4m3fn)], 0.5)"
VERSIONS = Case(
    ["z = distributed(numbers(6, torch.float32, c), 0)"], ["z"], [], [SCALED, "v = F.elu(z.sum())"], "(v, v.T)",
    [(1, 1, 2)],
)  # fmt: skip
"""41018479: of what a DTensor is made of, a view counts changes with its base wherever AOTAutograd traced it."""


def test_what_aot_eager_ends_before_is_asked_of_it_with_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it leaves behind is no excuse for anything else. Our own parts count apart since."""
    assert verdict_with(VERSIONS, "aot_eager").aspects == {"error"}
    ours, theirs = verdict_with(VERSIONS, "cuesta"), verdict_with(VERSIONS, with_kernels)
    assert ours.problems == () and theirs.problems == ("output[1]._local_tensor version: True, eager False",)
    assert judge(VERSIONS).kind == "right"
    compile = torch.compile

    def doubled(run: Any, backend: Any, **settings: Any) -> Callable[..., Any]:
        compiled = compile(run, backend=backend, **settings)
        return (lambda z: [one * 2 for one in compiled(z)]) if backend == "cuesta" else compiled

    monkeypatch.setattr(torch, "compile", doubled)
    assert judge(VERSIONS).kind == "finding"


def test_a_checkpoint_that_draws_without_a_gradient() -> None:
    """130000609: as above; `aot_eager` refuses such a checkpoint (torch 2.13)."""
    draws = "v = checkpoint(lambda x: F.dropout(x, 0.5) * x, y, use_reentrant=False)"
    inputs = ["x = distributed(numbers(20, torch.float32), None)"]
    case = Case(inputs, ["x"], [], ["y = x.sin()", draws], "(v, y, y.detach())", [(1, 1, 1)])
    assert "output[2]._local_tensor version" in verdict_with(case, with_kernels).aspects
    assert judge(case).kind == "right"


def test_eight_bits_are_computed_in_32_where_eager_has_no_kernel() -> None:
    statements = [
        "v = (x * 0.5).to(torch.float8_e4m3fn)",
        "w = [v.clone(), v.t()]",
        "torch._foreach_mul_(w, 3)",
        "w[1].t()[:1].fill_(1)",
    ]
    case = Case(["x = numbers(6, torch.float32, a, b)"], ["x"], [], statements, "(w, v.float())", [(3, 4, 1)])
    assert verdict_with(case, "aot_eager").aspects == verdict_with(case, "cuesta").aspects == {"error"}
    assert verdict_with(case, with_kernels).kind == "right" and judge(case).kind == "capture"


def _no_kernel(x: Tensor) -> Tensor:
    raise NotImplementedError("\"mul_cpu\" not implemented for 'Float8_e4m3fn'")


@pytest.mark.parametrize(
    ("ours", "theirs", "aot_eager", "kind"),
    [
        (lambda x: x * 2, lambda x: x * 2, _no_kernel, "capture"),
        (lambda x: x * 3, lambda x: x * 2, _no_kernel, "finding"),
        (lambda x: x * 2, lambda x: x * 2, lambda x: x, "finding"),
        (lambda x: x * 2, _no_kernel, _no_kernel, "finding"),
        (_no_kernel, lambda x: x * 2, lambda x: x, "finding"),
    ],
    ids=["the same", "other numbers", "where nothing is lacking", "no witness", "an error of ours"],
)
def test_a_witness_excuses_what_it_does_itself(
    ours: Any, theirs: Any, aot_eager: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    backends: dict[Any, Any] = {"cuesta": ours, with_kernels: theirs, "aot_eager": aot_eager, "eager": lambda x: x}
    monkeypatch.setattr(torch, "compile", lambda _, backend, **__: backends[backend])
    assert judge(case_with(results="x + 1")).kind == kind


def test_all_is_to_be_the_same_where_eager_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_with("y = x[5]", results="x + 1")
    for other, kind in ((1, "capture"), (2, "finding")):
        aot_eager = lambda x, n=other: x + n  # noqa: E731
        compile = lambda _, backend, n=aot_eager, **__: (lambda x: x + 1) if backend == "cuesta" else n  # noqa: E731
        monkeypatch.setattr(torch, "compile", compile)
        assert judge(case).kind == kind


def test_a_witness_may_differ_by_as_much_as_graphs_nudged_where_eager_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """81012618: a hook that torch 2.11's Dynamo registers where eager refuses it, beside numbers of 16 bits."""
    graph = lambda x: torch.exp(x.sin() * 30 - 30)  # noqa: E731
    case = case_with("y = x[5]", results="x + 1")
    for digits, kind in ((1, "capture"), (4000, "finding")):
        factors = {"cuesta": 1 + digits * 2e-6}

        def compile(_: Any, backend: Any, factors: Any = factors, **__: Any) -> Any:
            run = graph if isinstance(backend, str) else backend(graph, None)
            return lambda x: run(x) * factors.get(backend, 1)

        monkeypatch.setattr(torch, "compile", compile)
        assert judge(case).kind == kind


def test_a_witness_may_differ_by_as_much_as_eager_nudged(monkeypatch: pytest.MonkeyPatch) -> None:
    """e^(30 sin x) has a digit less than its argument: what is off may be off so much from the witness's."""
    case = case_with("v = torch.exp(x.sin() * 30 - 30)", results="v")
    for digits, kind in ((1, "capture"), (4000, "finding")):
        factors = {"cuesta": 2 + digits * 2e-6, "aot_eager": 2, "eager": 1}
        compile = lambda run, backend, all=factors, **_: lambda x: run(x) * all[backend]  # noqa: E731
        monkeypatch.setattr(torch, "compile", compile)
        assert judge(case).kind == kind


@pytest.mark.parametrize(("factor", "kind"), [(2, "capture"), (3, "finding")])
def test_a_call_in_which_a_witness_fails_is_asked_of_it_alone(
    factor: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """91002018: it compiles each call, but not one after the other, of sizes that change."""

    def compile(run: Any, backend: Any, **_: Any) -> Callable[..., Any]:
        called: list[int] = []

        def call(x: Tensor) -> Tensor:
            called.append(x.numel())
            if backend not in ("cuesta", "eager") and len(called) > 1:
                raise TypeError("only integer tensors")
            return run(x) * {"cuesta": factor, "eager": 1}.get(backend, 2)

        return call

    monkeypatch.setattr(torch, "compile", compile)
    assert judge(case_with("v = x + 1", results="v", calls="3 4")).kind == kind


OVERWRITTEN = Case(
    ["x = numbers(3, torch.float32, a)", "y = numbers(1, torch.bfloat16, a).requires_grad_()"], ["x", "y"], [],
    ["v = y.roll(1, -1)", "w = F.mse_loss(v.clamp(-2, 2).float(), x)", "torch._dynamo.graph_break()", "v.add_(v)",
     "u = w * 2"],
    "x * y", [(3, 1, 1)], {}, "all",
)  # fmt: skip
"""81018432: what a compiler saves of `w`, of which nobody wants the gradient, is written to by a later graph."""


def test_what_pytorchs_partitioner_saves_may_be_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    assert verdict_with(OVERWRITTEN, "aot_eager").kind == "right"
    assert verdict_with(OVERWRITTEN, "cuesta").aspects == verdict_with(OVERWRITTEN, decomposed).aspects == {"error"}
    assert judge(OVERWRITTEN).kind == "capture"
    compile = torch.compile
    for wrong in (lambda made: made * 2, lambda made: 1 // 0):
        broken = lambda run, backend, n=wrong, **settings: (  # noqa: E731
            (lambda *given: n(compile(run, backend=backend, **settings)(*given)))
            if backend == "cuesta"
            else compile(run, backend=backend, **settings)
        )
        monkeypatch.setattr(torch, "compile", broken)
        assert judge(OVERWRITTEN).kind == "finding"
