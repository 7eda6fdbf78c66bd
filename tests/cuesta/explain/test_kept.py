"""Explanations that are kept: the same program is not compiled again, and of another nothing is taken."""

from __future__ import annotations

import functools
import gc
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._guards import TracingContext

from cuesta import compiler, observing
from cuesta.command import main
from cuesta.explain import looking
from cuesta.explain.explaining import explain
from cuesta.explain.model import Explanation, Machine
from cuesta.explain.reading import UnreadableError, read

X = torch.arange(12.0).reshape(3, 4)


def tangent(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x) * 2


def another_line(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x) * 2


def branching(x: torch.Tensor) -> torch.Tensor:
    y = torch.tanh(x) * 2
    return y.exp() if y.sum() > 0 else y.cos()


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of explanations."""
    monkeypatch.setenv("CUESTA_CACHE", "1")
    monkeypatch.setenv("CUESTA_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "explained"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many ops each graph had that was compiled."""
    found: list[int] = []
    fresh: Callable[..., Any] = compiler._compile_fresh  # pyright: ignore[reportPrivateUsage]

    def counted(gm: torch.fx.GraphModule, *others: Any) -> Any:
        found.append(len(gm.graph.nodes))
        return fresh(gm, *others)

    monkeypatch.setattr(compiler, "_compile_fresh", counted)
    return found


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many nodes each graph had that ran in eager, since what became of it was kept."""
    found: list[int] = []
    in_eager: Callable[[torch.fx.GraphModule], Any] = looking._in_eager  # pyright: ignore[reportPrivateUsage]

    def counted(gm: torch.fx.GraphModule) -> Any:
        found.append(len(gm.graph.nodes))
        return in_eager(gm)

    monkeypatch.setattr(looking, "_in_eager", counted)
    return found


def kept(function: Any, *inputs: Any, **chosen: Any) -> Explanation:
    return explain(function, *inputs, **{"time": False, "texts": False, "keep": True, **chosen})


def test_the_second_time_nothing_is_compiled(shelf: Path, compiled: list[int]) -> None:
    first = kept(tangent, X, time=True, texts=True)
    assert len(compiled) == 1 and len(list(shelf.iterdir())) == 1 and not first.kept_since
    second = kept(tangent, X, time=True, texts=True, name="again")
    assert len(compiled) == 1
    assert second.kept_since and second.graphs[0].kernels[0].measured_us == first.graphs[0].kernels[0].measured_us
    assert replace(second, kept_since="", name=first.name) == first
    kept(tangent, X, time=True, texts=True, fresh=True)
    assert len(compiled) == 2


@pytest.mark.slow
def test_a_step_of_training_is_found_again(shelf: Path, compiled: list[int]) -> None:
    model, x = torch.nn.Linear(4, 3), torch.randn(2, 4)
    first, second = (kept(model, x, training=True) for _ in range(2))
    assert len(compiled) == 2 and [one.kind for one in second.graphs] == ["forward", "backward"]
    assert replace(second, kept_since="") == first and model.weight.grad is None


@pytest.mark.slow
def test_another_question_is_another_answer(shelf: Path, compiled: list[int]) -> None:
    kept(tangent, X)
    kept(tangent, X.repeat(2, 1))
    kept(tangent, X, texts=True)
    kept(tangent, X, options={"checks": "calls"})
    moved = kept(another_line, X)
    assert len(compiled) == 5
    assert [one.text for one in moved.graphs[0].sources] == ["return torch.tanh(x) * 2"]
    assert moved.graphs[0].sources[0].line == another_line.__code__.co_firstlineno + 1


@pytest.mark.slow
def test_a_program_that_goes_on_otherwise_is_found_out(shelf: Path, compiled: list[int]) -> None:
    first, again = (kept(branching, X) for _ in range(2))
    assert len(compiled) == len(first.graphs) == 2
    assert again.kept_since and again.breaks == first.breaks != ()
    other = kept(branching, -X)
    assert len(compiled) == 4 and not other.kept_since
    assert other.graphs[1].kernels[0].operators == ("aten.cos.default",)
    assert kept(branching, -X).kept_since


def test_what_is_one_graph_does_not_run_again(shelf: Path, ran: list[int]) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh())
    for function, inputs in ((tangent, (X,)), (functools.partial(torch.add, X, alpha=2), (X,)), (model, (X,))):
        first, again = (kept(function, *inputs) for _ in range(2))
        assert again.kept_since and replace(again, kept_since="") == first and not ran
    compiled = torch.compile(tangent, backend="cuesta")
    torch.testing.assert_close(compiled(X), tangent(X))
    assert observing.observing() is None and gc.isenabled()
    assert TracingContext.try_get() is None and not torch.compiler.is_compiling()


@pytest.mark.slow
def test_what_may_go_on_runs(shelf: Path, ran: list[int]) -> None:
    def hooked(_: torch.nn.Module, __: object, result: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return result.exp()

    @torch._dynamo.disable(recursive=False)
    def uncompiled(x: torch.Tensor) -> torch.Tensor:
        return tangent(x)

    model = torch.nn.Linear(4, 3)
    model.register_forward_hook(hooked)
    for number, function in enumerate((branching, uncompiled, model), 1):
        first, again = (kept(function, X) for _ in range(2))
        assert again.kept_since and replace(again, kept_since="") == first
        assert len(ran) >= number
    trained = [kept(torch.nn.Tanh(), X.clone().requires_grad_(), training=True) for _ in range(2)]
    assert trained[1].kept_since and [one.kind for one in trained[1].graphs] == ["forward", "backward"]


def test_what_is_damaged_is_not_taken(shelf: Path, compiled: list[int]) -> None:
    kept(tangent, X)
    (file,) = shelf.iterdir()
    sound = file.read_bytes()
    for wrong in (sound[:-40], sound.replace(b"tanh", b"sinh"), b"cuesta graph 6\n" + sound, b""):
        file.write_bytes(wrong)
        with pytest.warns(UserWarning, match="is not used .*the model is explained afresh"):
            assert not kept(tangent, X).kept_since
        assert file.read_bytes() != wrong
    assert len(compiled) == 5


@pytest.mark.slow
def test_what_others_can_write_is_not_taken(shelf: Path, compiled: list[int]) -> None:
    kept(tangent, X)
    (file,) = shelf.iterdir()
    file.chmod(0o666)
    with pytest.warns(UserWarning, match="others can write to it"):
        assert not kept(tangent, X).kept_since
    moved = file.rename(shelf.parent / "elsewhere")
    file.symlink_to(moved)
    with pytest.warns(UserWarning, match="it is a link"):
        assert not kept(tangent, X).kept_since
    shelf.chmod(0o777)
    with pytest.warns(UserWarning, match="nothing is taken from"):
        assert not kept(tangent, X).kept_since
    assert len(compiled) == 4


def test_what_failed_is_not_kept(shelf: Path) -> None:
    def fails(x: torch.Tensor) -> torch.Tensor:
        raise ValueError(torch.tanh(x).shape)

    assert kept(fails, X).unseen
    assert not shelf.exists()


def test_the_command_keeps_and_says_so(
    shelf: Path, compiled: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model.py").write_text("import torch\nfn, inputs = torch.tanh, (torch.ones(5),)\n", encoding="utf-8")
    printed: list[str] = []
    for arguments, count, said in (([], 1, False), ([], 1, True), (["--fresh"], 2, False)):
        assert main(["explain", str(tmp_path / "model.py"), "--width", "200", *arguments]) == 0
        assert len(compiled) == count
        printed.append(capsys.readouterr().out)
        assert ("kept since" in printed[-1]) == said
    again = printed[1].splitlines()
    since = next(number for number, line in enumerate(again) if "kept since" in line)
    assert [*again[:since], *again[since + 1 :]] == printed[0].splitlines()


def test_json_reads_back() -> None:
    told = Explanation("f", "1", "2", False, (), (Machine("cpu", "a", 1.0, None, "so", (("f32", 2.0),)),), whole_us=3.5)
    data = json.loads(json.dumps(told.to_json()))
    assert read(Explanation, data) == told
    for name, wrong in (("name", 3), ("graphs", {}), ("machines", [1]), ("training", "no"), ("whole_us", "3")):
        with pytest.raises(UnreadableError, match=name):
            read(Explanation, {**data, name: wrong})
    with pytest.raises(UnreadableError, match="other fields"):
        read(Explanation, {**data, "more": 1})
