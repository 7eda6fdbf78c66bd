"""What torch itself saves of a compiled program: `aot_compile`, and the artifacts of `torch.compiler`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from cuesta.caching.artifacts import CuestaArtifact
from cuesta.packages.graph import PackageError
from cuesta.packages.precompiled import PrecompiledGraph
from tests.support.fresh import said_by

_FUNCTION = """
import sys, torch
def function(x, w):
    return torch.nn.functional.softmax(x @ w, -1) * x.size(0)
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
    def forward(self, x):
        return self.linear(x).relu() * 2
def load(name):
    with open(f"{sys.argv[1]}/{name}", "rb") as file:
        return torch.compiler.load_compiled_function(file)
"""

_SAVING = """
x, w = torch.randn(4, 8), torch.randn(8, 8)
for name, weight in (("inference", w), ("training", w.clone().requires_grad_())):
    compiled = torch.compile(function, backend="cuesta", fullgraph=True, dynamic=False).aot_compile(((x, weight), {}))
    compiled.save_compiled_function(f"{sys.argv[1]}/{name}")
module = torch.compile(Model(), backend="cuesta", fullgraph=True, dynamic=False)
module.forward.aot_compile(((x,), {})).save_compiled_function(f"{sys.argv[1]}/module")
"""

_LOADING = """
x, w = torch.randn(4, 8), torch.randn(8, 8)
torch.testing.assert_close(load("inference")(x, w), function(x, w))
leaves = [w.clone().requires_grad_() for _ in range(2)]
for run, leaf in zip((load("training"), function), leaves):
    run(x, leaf).sin().sum().backward()
torch.testing.assert_close(leaves[0].grad, leaves[1].grad)
model = Model()
torch.testing.assert_close(load("module")(model, x), model(x))
print("xdsl" in sys.modules)
"""


def run(script: str, folder: Path, **environment: str) -> str:
    """What a script says in a process of its own."""
    return said_by(_FUNCTION + script, str(folder), environment=environment)


@pytest.mark.slow
def test_what_aot_compile_saves_another_process_loads_without_our_compiler(tmp_path: Path) -> None:
    run(_SAVING, tmp_path)
    assert run(_LOADING, tmp_path).strip() == "False"


def test_a_saved_graph_that_is_damaged_is_refused() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.sin() * 2

    saved: Any = torch.compile(function, backend="cuesta", fullgraph=True)
    compiled = saved.aot_compile(((torch.randn(5),), {}))._artifacts.compiled_fn
    data = PrecompiledGraph.serialize_compile_artifacts(compiled)
    x = torch.randn(5)
    torch.testing.assert_close(PrecompiledGraph.deserialize_compile_artifacts(data)(x)[0], function(x))
    for broken in (data[:100], data[:-30], data[:200] + b"?" + data[201:]):
        with pytest.raises(PackageError, match=r"is no package, or damaged|is damaged"):
            PrecompiledGraph.deserialize_compile_artifacts(broken)


_COMPILING = """
import cuesta
from pathlib import Path
if len(sys.argv) > 1 and (Path(sys.argv[1]) / "artifacts").exists():
    import cuesta.backend
    print(sorted(torch.compiler.load_cache_artifacts((Path(sys.argv[1]) / "artifacts").read_bytes()).artifacts))
torch.compile(function, backend="cuesta", dynamic=False)(torch.ones(3, 8), torch.ones(8, 8))
print(cuesta.records[-1].from_cache)
(Path(sys.argv[1]) / "artifacts").write_bytes(torch.compiler.save_cache_artifacts()[0])
"""


@pytest.mark.slow
def test_artifacts_of_torch_hold_our_programs(tmp_path: Path) -> None:
    def said(cache: str) -> list[str]:
        return run(_COMPILING, tmp_path, CUESTA_CACHE="1", CUESTA_CACHE_DIR=str(tmp_path / cache)).splitlines()

    assert said("one") == ["False"]
    assert said("two") == ["['cuesta']", "True"]


def test_an_artifact_that_is_damaged_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUESTA_CACHE", "1")
    monkeypatch.setenv("CUESTA_CACHE_DIR", str(tmp_path))
    with pytest.warns(UserWarning, match=r"an artifact is damaged and left out: its checksum is wrong"):
        CuestaArtifact("0" * 64, b"cuesta graph 6\n" + b"0" * 64 + b"\nx").populate_cache()
    assert list(tmp_path.iterdir()) == []
