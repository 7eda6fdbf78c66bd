"""Kernels in PyTorch's profiler: under names that say what they are and which lines of the model they come from."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

import cuesta
from cuesta.targets.host.profiled import range_name
from cuesta.targets.program import Label
from tests.support.differential import compiled_of


def ranges(function: Any, *inputs: Tensor) -> tuple[Any, list[str]]:
    """What a call gives, and our ranges in it."""
    with profile(activities=[ProfilerActivity.CPU]) as found:
        result = function(*inputs)
    return result, [event.name for event in found.events() or () if event.name.startswith("cuesta")]


def program(x: Tensor, weight: Tensor) -> Tensor:
    y = torch.softmax(x, -1)
    return torch.tanh(y @ weight)


FIRST = program.__code__.co_firstlineno
SOFTMAX, TANH = f"(test_profiles.py:{FIRST + 1})", f"(test_profiles.py:{FIRST + 2})"


def test_a_kernel_has_a_range_with_its_name_and_its_line() -> None:
    x, weight = torch.randn(8, 16), torch.randn(16, 4)
    compiled = compiled_of(program)
    plain = compiled(x, weight)
    result, found = ranges(compiled, x, weight)
    assert torch.equal(result, plain)
    assert found[0] == "cuesta: graph"
    assert [name.rpartition(" ")[2] for name in found[1:]] == [SOFTMAX, TANH]
    assert "softmax" in found[1] and "tanh" in found[2]


def test_the_first_call_may_be_the_one_that_is_looked_at() -> None:
    x, weight = torch.randn(8, 16), torch.randn(16, 4)
    result, found = ranges(compiled_of(program), x, weight)
    assert torch.allclose(result, program(x, weight), atol=1e-6)
    assert [name.rpartition(" ")[2] for name in found[1:]] == [SOFTMAX, TANH]


def test_nothing_is_left_when_the_profiler_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = torch.randn(8, 16), torch.randn(16, 4)
    compiled = compiled_of(program)
    ranges(compiled, x, weight)
    asked: list[str] = []
    monkeypatch.setattr(torch.profiler, "record_function", lambda name: asked.append(name))
    assert torch.allclose(compiled(x, weight), program(x, weight), atol=1e-6)
    assert asked == []


def test_parts_that_eager_stands_between_have_ranges() -> None:
    def chosen(x: Tensor) -> Tensor:
        return torch.exp((x * 2)[x > 0])

    result, found = ranges(compiled_of(chosen), x := torch.randn(64))
    assert torch.allclose(result, chosen(x))
    assert len(found) == 3


def test_a_program_from_the_cache_names_the_lines_of_the_graph_at_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUESTA_CACHE", "1")
    monkeypatch.setenv("CUESTA_CACHE_DIR", str(tmp_path / "cache"))
    names: list[str] = []
    for number, blank in enumerate((0, 7)):
        file = tmp_path / f"model_{number}.py"
        file.write_text("import torch\n" + "\n" * blank + "def f(x):\n    return torch.softmax(x, -1)\n")
        spec = importlib.util.spec_from_file_location(file.stem, file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, file.stem, module)
        spec.loader.exec_module(module)
        torch._dynamo.reset()
        compiled = torch.compile(module.f, backend="cuesta")
        compiled(torch.ones(4, 8))
        _, found = ranges(compiled, torch.ones(4, 8))
        names.append(found[1])
    assert cuesta.records[-1].from_cache
    assert names[0].endswith("(model_0.py:3)")
    assert names[1].endswith("(model_1.py:10)")


def test_a_name_ends() -> None:
    label = Label("run_0", ("a_0", "b_1"), tuple(f"/long/way/to/model.py:{line}" for line in (1, 2, 2, 3, 4)))
    assert range_name(label) == "cuesta: a_0, b_1 (model.py:1, model.py:2, model.py:3, …)"
    assert range_name(Label("run_0", ("a_0",))) == "cuesta: a_0"
