"""`cuesta repro`: the folder runs, shows the same error, and holds no weights unless it is asked to."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed

from cuesta.command import main
from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic
from cuesta.programs.kept_inputs import read_inputs
from cuesta.replaying.repro import like_weights, pack_model
from cuesta.transforms.algebra.canonicalize import CanonicalizePass

MODEL = """
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU())
inputs = (torch.arange(8.0).reshape(2, 4),)
"""


def fails(self: object, context: object, module: object) -> None:
    raise CuestaError(Diagnostic("a law that does not hold", op_name="elem.mul"))


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    torch._dynamo.reset()
    monkeypatch.setattr(CanonicalizePass, "apply", fails)
    yield
    torch._dynamo.reset()


def run_script(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as ended, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["run.py"])
        runpy.run_path(str(folder / "run.py"), run_name="__main__")
    said = capsys.readouterr()
    return ended.value.code, said.out, said.err


@pytest.mark.usefixtures("broken")
def test_a_stage_that_fails_under_torch_compile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    levels = tmp_path / "levels"
    model = torch.nn.Linear(4, 8)
    compiled = torch.compile(lambda x: torch.sin(model(x)), backend="cuesta", options={"dump": str(levels)})
    with pytest.raises(BackendCompilerFailed) as caught, torch.no_grad():
        compiled(torch.ones(2, 4))
    said = f"to send it: cuesta repro {levels / '000_inference'} -o repro"
    assert said in str(caught.value) and "repeat: cuesta-opt" in str(caught.value)
    assert "a law that does not hold" in (levels / "000_inference" / "error.txt").read_text()

    folder = tmp_path / "repro"
    assert main(["repro", str(levels), "-o", str(folder)]) == 0
    assert "repeats it" in capsys.readouterr().out
    names = {path.name for path in folder.iterdir()}
    assert names >= {"fx.py", "00_aten.mlir", "about.json", "error.txt", "run.py", "README.md"}
    assert any(name.endswith("_before_canonicalize.mlir") for name in names)
    readme = (folder / "README.md").read_text()
    assert "the last stage after which the program was good: `hoist-invariants`" in readme
    assert "random ones of the types that the first text declares, seed 0" in readme
    assert torch.__version__.partition("+")[0] in readme and "a law that does not hold" in readme
    status, _, err = run_script(folder, capsys)
    assert status == 1 and "a law that does not hold" in err and "stage: canonicalize" in err


@pytest.mark.usefixtures("broken")
def test_a_stage_that_fails_of_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    folder = tmp_path / "repro"
    assert main(["repro", str(tmp_path / "model.py"), "-o", str(folder)]) == 0
    assert "CuestaError: " in capsys.readouterr().out
    kept = read_inputs(folder)
    (x,) = [value for at, value in enumerate(kept.values) if at not in kept.weights]
    assert torch.equal(x, torch.arange(8.0).reshape(2, 4))
    assert [path.name for path in sorted(folder.glob("*.mlir"))] == ["00_aten.mlir", "21_hoist-invariants.mlir"]
    assert run_script(folder, capsys)[0] == 1


def test_a_model_that_does_not_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    torch.manual_seed(0)
    weight = torch.nn.Linear(4, 8).weight.detach()
    for name, options in (("plain", []), ("whole", ["--weights"]), ("random", ["--random"])):
        folder = tmp_path / name
        assert main(["repro", str(tmp_path / "model.py"), "-o", str(folder), *options]) == 0
        assert "nothing failed here" in capsys.readouterr().out
        status, out, _ = run_script(folder, capsys)
        assert status == 0 and "ok   result 0" in out
        assert not (folder / "error.txt").exists()
        if name == "random":
            assert "random inputs, seed 0" in out and not (folder / "inputs").exists()
            continue
        kept = read_inputs(folder)
        (found,) = [one for one in kept.values if one.shape == (8, 4)]
        assert torch.equal(found, weight) == (name == "whole")
        assert weight.min() <= found.min() and found.max() <= weight.max()
        if name == "plain":
            data = b"".join(path.read_bytes() for path in (folder / "inputs").glob("*.npy"))
            assert weight[0].numpy().tobytes() not in data
    assert json.loads((tmp_path / "plain" / "about.json").read_text())["packed with"]["cuesta"]


def test_training_and_several_graphs(tmp_path: Path) -> None:
    def broken_in_two(x: torch.Tensor) -> torch.Tensor:
        y = (x * 2).sin()
        torch._dynamo.graph_break()
        return y.cos()

    with pytest.raises(ValueError, match="none of the 2 graphs fails, or is wrong: say with --graph"):
        pack_model(broken_in_two, (torch.ones(3),), tmp_path / "x")
    with pytest.raises(ValueError, match="no graph 2: they are numbered from 0 to 1"):
        pack_model(broken_in_two, (torch.ones(3),), tmp_path / "x", graph=2)
    case = pack_model(broken_in_two, (torch.ones(3),), tmp_path / "x", graph=1)
    assert "cos" in case.files["00_aten.mlir"]
    model = torch.nn.Linear(3, 3)
    case = pack_model(model, (torch.ones(2, 3),), tmp_path / "y", training=True, graph=1)
    assert case.about["kind"] == "backward" and model.weight.grad is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{}/nowhere", "-o", "{}/x"], "there is no folder"),
        (["{}", "-o", "{}/x"], "holds the dumps of these graphs: none"),
        (["{}", "-o", "{}/x", "--training"], "--training and --graph are for a Python file"),
        (["{}/graph", "-o", "{}"], "is there already, and is no empty folder"),
        (["{}/bad.py", "-o", "{}/x"], "bad.py defines no 'model' and no 'fn'"),
        (["{}/nothing.py", "-o", "{}/x"], "no graph was captured"),
    ],
)
def test_bad_use(tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    (tmp_path / "bad.py").write_text("x = 1")
    (tmp_path / "nothing.py").write_text("fn = lambda: 3\ninputs = ()")
    (tmp_path / "graph").mkdir()
    (tmp_path / "graph" / "00_aten.mlir").write_text("module")
    if "none" in message:
        (tmp_path / "graph" / "00_aten.mlir").unlink()
    assert main(["repro", *(one.replace("{}", str(tmp_path)) for one in arguments)]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "x").exists() and not list(tmp_path.glob(".*"))


def test_inputs_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    graph = tmp_path / "graph"
    (graph / "inputs").mkdir(parents=True)
    (graph / "00_aten.mlir").write_text("")
    (graph / "inputs" / "inputs.json").write_text("{")
    assert main(["repro", str(graph), "-o", str(tmp_path / "out")]) == 0
    assert "The inputs that were kept cannot be read" in (tmp_path / "out" / "README.md").read_text()


def test_weights_of_every_kind() -> None:
    shared = torch.randn(4, 4)
    values = [
        torch.randn(3, 5).bfloat16(),
        torch.randint(-3, 9, (50,)),
        torch.rand(100) < 0.3,
        torch.full((4,), 7),
        torch.randn(6, dtype=torch.complex64),
        torch.tensor(2.0).expand(3),
        torch.empty(0),
        torch.tensor(1.5),
        shared[:2],
        shared[1:],
        "name",
        torch.randn(5),
    ]
    found = like_weights(values, frozenset(range(11)), 0)
    for before, after in zip(values[:8], found, strict=False):
        assert isinstance(before, torch.Tensor) and isinstance(after, torch.Tensor)
        assert (before.dtype, before.shape, before.stride()) == (after.dtype, after.shape, after.stride())
        if before.numel() > 1 and not before.is_complex() and before.dtype is not torch.bool:
            assert before.min() <= after.min() and after.max() <= before.max()
    assert torch.equal(found[8][1], found[9][0])
    assert found[10] == "name" and torch.equal(found[11], values[11])
