"""What eager has no kernel for, and ours computes: neither right nor a finding."""

from __future__ import annotations

import pytest
import torch

from tests.fuzz.calls.case import Case
from tests.fuzz.calls.judge import judge, verdict_with
from tests.fuzz.test_calls import case_with


def of_bytes(*statements: str, results: str, calls: str) -> Case:
    case = case_with(*statements, results=results, calls=calls)
    case.inputs.append("b = (x * 0.5).to(torch.float8_e4m3fn)")
    case.arguments.append("b")
    return case


BEYOND: dict[str, Case] = {
    "41003294": of_bytes(results="b.flip(0)", calls="1 3"),
    "after an update": of_bytes("x.mul_(2)", results="b.flip(0)", calls="3 1"),
}


@pytest.mark.parametrize("name", BEYOND)
def test_what_eager_has_no_kernel_for_is_beyond_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = judge(BEYOND[name])
    assert verdict.kind == "beyond eager" and "not implemented for 'Float8_e4m3fn'" in verdict.what
    monkeypatch.setattr(torch, "compile", lambda run, **_: lambda x, b: run(x, b) if len(x) == 1 else x)
    kinds = verdict_with(BEYOND[name], "broken").kind
    assert kinds == "beyond eager", "there is nothing to compare it with"
    monkeypatch.setattr(torch, "compile", lambda run, **_: run)
    assert verdict_with(BEYOND[name], "broken").kind == "refused"


NO_KERNEL = "\"flip_cpu\" not implemented for 'Float8_e4m3fn'"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (NotImplementedError(NO_KERNEL), "beyond eager"),
        (RuntimeError(NO_KERNEL), "finding"),
        (NotImplementedError("flip is not implemented"), "finding"),
        (NotImplementedError(f"of a subclass: {NO_KERNEL}"), "finding"),
        (IndexError("out of range"), "finding"),
    ],
    ids=str,
)
def test_only_a_kernel_that_is_not_there_is_beyond_eager(
    error: Exception, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = case_with(f"raise {type(error).__name__}({str(error)!r})", results="x")
    monkeypatch.setattr(torch, "compile", lambda run, **_: lambda x: x)
    assert verdict_with(case, "broken").kind == kind


def test_a_finding_of_another_call_is_one_where_eager_has_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    case = of_bytes(results="b.flip(0)", calls="3 1")
    monkeypatch.setattr(torch, "compile", lambda run, **_: lambda x, b: b + 1 if len(x) == 1 else b)
    assert verdict_with(case, "broken").kind == "finding"
