"""`examples/extensions/c_target.py`: a target from outside, which emits C."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import cuesta
from cuesta.extend import extended
from cuesta.testing import assert_close_to_float64
from examples.extensions import c_target
from examples.models import MODELS
from tests.support.demo_models import of_demo

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")]


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    cuesta.clear_records()
    torch.manual_seed(0)


def through_c(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    chosen: dict[str, Any] = {"extensions": [c_target.extension], "cache": False, **options}
    return torch.compile(function, backend="cuesta", options=chosen, dynamic=False)


def index_add(x: Tensor, i: Tensor) -> Tensor:
    return torch.zeros(10, 6).index_add(0, i, x).relu()


CASES: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "softmax": (lambda x: torch.softmax(F.gelu(x), -1), (torch.randn(5, 130),)),
    "columns": (lambda x: (x.sum(0), x.var(0), x.amax(0)), (torch.randn(70, 9),)),
    "argmax": (lambda x: (x.argmax(1), x.argmin(), x.amin()), (torch.randn(4, 70),)),
    "argmax of NaN": (lambda x: x.argmax(1), (torch.tensor([[1.0, torch.nan, torch.nan], [-torch.inf] * 3]),)),
    "cumsum": (lambda x: x.cumsum(1) * 2, (torch.randn(3, 50),)),
    "scatter": (index_add, (torch.randn(50, 6), torch.randint(0, 10, (50,)))),
    "pool": (lambda x: F.max_pool2d(x, 3, 2, padding=1), (torch.randn(2, 3, 11, 11),)),
    "integers": (lambda x: (x // 3, x % 5, x.sum(), x > 2, ~x, x << 2), (torch.randint(-50, 50, (20, 30)),)),
    "bools": (lambda x: ((x > 0).any(1), (x > -3).all(0), ~(x > 0)), (torch.randn(6, 7),)),
    "constants": (lambda x: torch.where(x > 0, torch.inf, x * -(2**63)).nan_to_num(), (torch.randn(9),)),
    "f16": (lambda x: (x * 2 + 1).relu(), (torch.randn(40).half(),)),
    "no elements": (lambda x: (x.exp() + 1, x.sum(0)), (torch.randn(0, 4),)),
    "rank 0": (lambda x: x.exp() + 1, (torch.tensor(0.5),)),
}


@pytest.mark.parametrize("name", CASES)
def test_programs_are_right(name: str) -> None:
    function, inputs = CASES[name]
    torch.testing.assert_close(through_c(function)(*inputs), function(*inputs))
    (record,) = cuesta.records
    assert record.kernels and not record.fallbacks and "c" in record.seconds and "llvm" not in record.seconds


def test_sizes_that_only_the_call_knows() -> None:
    def function(x: Tensor) -> Tensor:
        return (x.exp().sum(1, keepdim=True) + x).transpose(0, 1).contiguous()

    options: dict[str, Any] = {"extensions": [c_target.extension], "cache": False}
    compiled = torch.compile(function, backend="cuesta", options=options, dynamic=True)
    for sizes in ((3, 5), (70, 2)):
        x = torch.randn(sizes)
        torch.testing.assert_close(compiled(x), function(x))
    assert len(cuesta.records) == 1


def test_a_model_learns() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Softmax(-1))
    with extended(c_target.extension):
        assert_close_to_float64(torch.compile(model, backend="cuesta"), model, [torch.randn(40, 6)])
    assert {"c" in record.seconds for record in cuesta.records} == {True}


def test_an_index_that_is_out_of_range_raises_more_than_once() -> None:
    take = through_c(lambda x, i: x[i] * 2)
    x = torch.randn(4, 3)
    for bad in (9, -5):
        with pytest.raises(IndexError, match=rf"index {bad} is out of bounds for dimension with size 4 \(.*\.py:\d+\)"):
            take(x, torch.tensor([1, bad]))
    torch.testing.assert_close(take(x, torch.tensor([-1, 3])), x[[-1, 3]] * 2)


def test_what_has_no_spelling_is_named_and_runs_through_the_interpreter(tmp_path: Path) -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return (x.bfloat16() * 2).sort(-1).values.float().exp(), y.exp()

    x, y = torch.randn(4, 5), torch.randn(6)
    with pytest.warns(UserWarning, match="runs in eager: .*C has no type for bf16 here"):
        results = through_c(function, dump=str(tmp_path))(x, y)
    torch.testing.assert_close(results, function(x, y))
    assert cuesta.records[0].kernels, "the rest is C"
    (text,) = tmp_path.glob("*/kernels.c")
    assert "int64_t run_0(" not in text.read_text() and "expf(" in text.read_text()


def test_programs_are_kept_and_are_those_of_the_extension(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUESTA_CACHE", "1")
    monkeypatch.setenv("CUESTA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("cuesta.caching.key.sources_on_disk", lambda: "as they are")
    monkeypatch.setattr("cuesta.caching.key.loaded_sources", lambda: "as they are")
    x = torch.randn(7, 8)

    def function(x: Tensor) -> Tensor:
        return x.sin() * 3

    def run(**options: Any) -> Tensor:
        torch._dynamo.reset()
        return torch.compile(function, backend="cuesta", options=options)(x)

    expected = run(extensions=[c_target.extension])
    assert torch.equal(run(extensions=[c_target.extension]), expected)
    torch.testing.assert_close(run(), expected)
    assert [record.from_cache for record in cuesta.records] == [False, True, False]


def test_a_compiler_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    x = torch.randn(4)
    with pytest.warns(UserWarning, match="no target for the device cpu: the target c needs `cc` on the PATH"):
        torch.testing.assert_close(through_c(torch.exp)(x), x.exp())


def test_what_the_compiler_says_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(c_target.SPELLINGS, "sin", "sinus({a}")
    with pytest.raises(Exception, match=r"cc refuses the text of a program, .*kernels\.c:\n +.*\n?.*expected"):
        through_c(torch.sin)(torch.randn(4))


@pytest.mark.parametrize(("name", "step"), of_demo())
def test_the_models_of_the_demo(name: str, step: str) -> None:
    case = MODELS[name]
    model, inputs = case.inference() if step == "inference" else case.training()
    with extended(c_target.extension), torch.set_grad_enabled(step == "training"):
        compiled = torch.compile(model, backend="cuesta", fullgraph=True, options={"cache": False})
        assert_close_to_float64(compiled, model, inputs)
    assert cuesta.records
    assert all("c" in record.seconds and "llvm" not in record.seconds for record in cuesta.records)
