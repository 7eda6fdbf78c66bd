"""A compiler with a fault that is known: bisection names it. All of them: `make bench-bisect`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from cuesta.bisecting.bisect import bisect
from cuesta.bisecting.judging import how_they_differ, inputs_for, run
from cuesta.bisecting.kernels import how_compiled_differs
from cuesta.bisecting.stages import run_stage
from cuesta.bisecting.subjects import Subject
from cuesta.command import main
from cuesta.pipeline import default_stages, stages_of
from cuesta.programs.inputs_of import InputsError
from tests.support.seeded import captured, found_by_bisection, is_right_rewrite, is_right_stage
from tests.support.seeded_faults import FAULTS, faults_named
from tests.support.seeding import Fault
from tests.support.text import parse


def _parameters() -> list[object]:
    return [
        pytest.param(fault, id=fault.name, marks=() if fault.quick else pytest.mark.thorough)
        for fault in FAULTS
        if fault.device == "cpu"
    ]


@pytest.mark.parametrize("fault", _parameters())
def test_fault_is_named(fault: Fault) -> None:
    found = found_by_bisection(fault, seconds=60.0)  # it is done long before, wherever it runs
    assert found is not None
    assert is_right_stage(fault, found), found.stage
    assert is_right_rewrite(fault, found), str(found.rewrite)
    if fault.quick:
        assert found.ops <= 6, str(found.reduced)
    with fault.in_force():
        inputs = inputs_for(found.reduced, found.inputs)
        if found.kind == "kernel":
            assert how_compiled_differs(found.reduced, inputs), "the smaller program does not show it"
        elif found.kind == "wrong":
            after = found.reduced.clone()
            stages = (*(stages_of(fault.stage) if fault.program.endswith(".mlir") else ()), *default_stages())
            run_stage(after, next(one for one in stages if one.label == found.stage))
            assert how_they_differ(run(found.reduced, inputs), run(after, inputs), None)


@pytest.mark.thorough
@pytest.mark.parametrize("fault", [one for one in FAULTS if one.device == "cuda"], ids=lambda one: one.name)
def test_fault_of_a_gpu_is_named(fault: Fault) -> None:
    found = found_by_bisection(fault, seconds=30.0)
    assert found is not None
    assert is_right_rewrite(fault, found), str(found.rewrite)


def test_there_are_enough_faults_of_many_kinds() -> None:
    assert len(FAULTS) >= 30
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert len({fault.stage for fault in FAULTS}) >= 15
    kinds = {fault.kind for fault in FAULTS}
    assert {"a wrong constant", "a dropped mask", "a swapped operand", "an off-by-one tail", "a race"} <= kinds
    assert {"a wrong alias", "a lost cast", "a wrong stride", "a wrong identity of a reduction"} <= kinds


def test_a_right_compiler_is_not_accused() -> None:
    module, inputs = captured("gathered")
    assert bisect(Subject("gathered", module, default_stages(), inputs), seconds=5.0) is None


TEXT = """\
func.func @main(%x : tensor<4x5xf32>) -> tensor<5x4xf32> {
  %y = loops.view %x by (d0, d1) -> (d1, d0) : tensor<4x5xf32> to tensor<5x4xf32>
  %z = loops.view %y by (d0, d1) -> (4 - d0, d1) : tensor<5x4xf32> to tensor<5x4xf32>
  %r = loops.extern pure "aten.exp.default"(%z) : (tensor<5x4xf32>) -> tensor<5x4xf32>
  func.return %r : tensor<5x4xf32>
}
"""


@contextmanager
def _fault(name: str) -> Iterator[None]:
    (fault,) = faults_named(name)
    with fault.in_force():
        yield


def test_command_writes_a_text_that_repeats_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, small = tmp_path / "program.mlir", tmp_path / "wrong.mlir"
    program.write_text(TEXT)
    with _fault("copy-of-source"):
        assert main(["bisect", str(program), "-o", str(small), "--seconds", "3"]) == 1
    out = capsys.readouterr().out
    assert "wrong after materialize-views" in out
    assert "rewrite: materialize (transforms/views/materialize_views.py:" in out
    text = small.read_text()
    assert text.startswith('// RUN: cuesta-opt %s -p "materialize-views"')
    with _fault("copy-of-source"):
        assert main(["bisect", str(small), "-o", str(tmp_path / "again.mlir"), "--seconds", "1"]) == 1
    assert main(["bisect", str(small), "-o", str(tmp_path / "none.mlir")]) == 0
    assert not (tmp_path / "none.mlir").exists()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["again.mlir", "program.mlir", "wrong.mlir"]


def test_command_refuses_what_is_no_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bisect", str(tmp_path / "nothing.mlir")]) == 1
    assert "nothing.mlir" in capsys.readouterr().err
    bad = tmp_path / "bad.mlir"
    bad.write_text("func.func @main() {\n  loops.nonsense\n}\n")
    assert main(["bisect", str(bad)]) == 1
    assert "bad.mlir:2" in capsys.readouterr().err
    model = tmp_path / "model.py"
    model.write_text("fn = lambda x: x\n")
    assert main(["bisect", str(model)]) == 1
    assert "defines no 'inputs'" in capsys.readouterr().err
    assert main(["bisect", str(model), "--inputs", str(tmp_path)]) == 1
    assert "defines its inputs itself" in capsys.readouterr().err


def test_a_stage_that_fails_is_named_with_who_raised() -> None:
    module, inputs = captured("chain")
    fault = Fault(
        "fails", "a crash", "cuesta.transforms.loops.reuse_across_stages:_Nest.keep", "sizes = (*self.nest.sizes",
        "sizes = (*self.nest.nothing", "chain", "reuse-across-stages", ("_Nest.keep",),
    )  # fmt: skip
    with fault.in_force():
        found = bisect(Subject("", module, default_stages(), inputs), seconds=3.0)
    assert found is not None
    assert (found.kind, found.stage) == ("crash", "reuse-across-stages")
    assert found.rewrite is not None and found.rewrite.name == "_Nest.keep"


def test_inputs_that_do_not_fit_are_refused() -> None:
    module, _ = captured("gathered")
    with pytest.raises(InputsError, match="cannot be run on its inputs: input 0 is of type"):
        bisect(Subject("it", module, stages_of("dce"), [None, None]), seconds=1.0)


def test_one_tensor_for_two_is_a_difference() -> None:
    text = """
    func.func @main(%x : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
      %y = aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %z = aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
      func.return %y, %z : tensor<4xf32>, tensor<4xf32>
    }"""
    inputs = [torch.randn(4)]
    two, one, given = (
        run(parse(text.replace("return %y, %z", f"return {returned}")), inputs)
        for returned in ("%y, %z", "%y, %y", "%x, %z")
    )
    assert how_they_differ(two, two, None) is how_they_differ(one, two, None) is how_they_differ(one, one, None) is None
    assert how_they_differ(two, one, None) == "results 0 and 1 are one tensor"
    assert how_they_differ(two, given, two) == "result 0 is the argument 0, not a tensor of its own"


def test_races_and_aliases_are_among_the_faults() -> None:
    kinds = [fault.kind for fault in FAULTS]
    assert kinds.count("a race") >= 4 and kinds.count("a wrong alias") >= 4
