"""`loops.join`: what it means at every level, and that nothing is copied for it."""

from __future__ import annotations

import pytest
import torch
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

import cuesta
from cuesta.bisecting.kernels import launches_what_it_returns
from cuesta.context import make_context
from cuesta.dialects import host
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.locations import CuestaParser, print_text
from cuesta.dialects.levels import LOOPS
from cuesta.pipeline import STAGES, remaining_stages, run_pipeline
from cuesta.targets.reference import run as run_reference

PROGRAM = """
func.func @main(%x : tensor<6x8xf32>) -> (RESULTS) {
  %h = loops.nest (%i : 6, %j : 3) outs(%o : PART3) {
    %a = loops.load %x[%i, %j] : tensor<6x8xf32>
    loops.store %a, %o[%i, %j] : PART3
  }
  %t = loops.nest (%i : 6, %j : 5) outs(%o : PART5) {
    %a = loops.load %x[%i, %j + 3] : tensor<6x8xf32>
    %b = elem.neg %a : f32
    loops.store %b, %o[%i, %j] : PART5
  }
  %y = loops.join %h, %t along 1 : PART3, PART5 to tensor<6x8xf32>
  %z = loops.nest (%i : 6, %j : 8) outs(%o : tensor<6x8xf32>) {
    %a = loops.load %y[%i, %j] : tensor<6x8xf32>
    %b = elem.exp %a : f32
    loops.store %b, %o[%i, %j] : tensor<6x8xf32>
  }
  func.return RETURNED : RESULTS
}
"""
PART = "tensor<6x{}xf32, #aten.layout<strides = [8, 1]>>"


def program(returned: str) -> ModuleOp:
    """Of `%y`, the joined tensor, and `%z`, what reads it, those that are returned."""
    text = PROGRAM.replace("RESULTS", ", ".join(["tensor<6x8xf32>"] * len(returned.split(","))))
    text = text.replace("RETURNED", returned).replace("PART3", PART.format(3)).replace("PART5", PART.format(5))
    return CuestaParser(make_context(), text, "<test>").parse_module()


def expected(x: torch.Tensor) -> dict[str, torch.Tensor]:
    y = torch.cat([x[:, :3], -x[:, 3:]], 1)
    return {"%y": y, "%z": y.exp()}


@pytest.mark.parametrize("returned", ["%y", "%z", "%y, %z"])
def test_it_means_the_same_at_every_level(returned: str, tmp_path: object) -> None:
    module = program(returned)
    module.verify()
    x = torch.randn(6, 8)
    wanted = [expected(x)[name] for name in returned.split(", ")]
    stages = remaining_stages(module, STAGES)
    for stage in stages:
        text = print_text(module)
        assert print_text(CuestaParser(make_context(), text, "<again>").parse_module()) == text
        for found, value in zip(run_reference(module, [x]), wanted, strict=True):
            torch.testing.assert_close(found, value)
        run_pipeline(make_context(), module, [stage], verify_each=True)
    for found, value in zip(run_reference(module, [x]), wanted, strict=True):
        torch.testing.assert_close(found, value)
    path = f"{tmp_path}/program.mlir"
    with open(path, "w") as file:
        file.write(print_text(program(returned)))
    for validate in ("off", "stages", "kernels"):
        for found, value in zip(cuesta.load(path, options={"validate": validate})(x), wanted, strict=True):
            torch.testing.assert_close(found, value)


def test_parts_are_written_in_their_places() -> None:
    module = program("%y")
    run_pipeline(make_context(), module, remaining_stages(module, STAGES))
    ops = list(entry_block(module).ops)
    (whole,) = (op for op in ops if isinstance(op, host.AllocOp))
    parts = [op for op in ops if isinstance(op, host.ReinterpretOp)]
    assert [(part.source, part.offset) for part in parts] == [(whole.result, 0), (whole.result, 3)]
    written = [op.operands[-1] for op in ops if isinstance(op, host.LaunchOp)]
    assert written == [part.results[0] for part in parts], "no launch beside those of the nests, no call"
    assert not any(isinstance(op, host.ExternOp) for op in ops)
    assert launches_what_it_returns(module), "who looks for a wrong kernel takes parts for what is written"


def test_an_argument_is_written_by_parts() -> None:
    """What an argument becomes is joined first: every read of it means what it held before."""
    text = print_text(program("%y, %z")).replace(
        "-> (tensor<6x8xf32>, tensor<6x8xf32>)",
        "-> (tensor<6x8xf32>, tensor<6x8xf32>) attributes {aten.writes_to = [0]}",
    )
    text = text.replace("func.return %y, %z", "func.return %z, %y")
    module = CuestaParser(make_context(), text, "<test>").parse_module()
    run_pipeline(make_context(), module, remaining_stages(module, STAGES), verify_each=True)
    x = torch.randn(6, 8)
    wanted, given = expected(x), x.clone()
    (z,) = run_reference(module, [given])
    torch.testing.assert_close(z, wanted["%z"])
    torch.testing.assert_close(given, wanted["%y"])


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("along 1", "along 2", "has no axis 2"),
        ("along 1", "along 0", "is no part of"),
        (f"{PART.format(5)} to tensor<6x8xf32>", f"{PART.format(5)} to tensor<6x9xf32>", "is no part of"),
        (
            f"%t along 1 : {PART.format(3)}, {PART.format(5)}",
            f"%h along 1 : {PART.format(3)}, {PART.format(3)}",
            "have 6",
        ),
    ],
)
def test_wrong_parts(old: str, new: str, why: str) -> None:
    text = print_text(program("%y"))
    assert text.count(old) == 1
    text = text.replace(old, new).replace("func.return %y : tensor<6x8xf32>", "func.return %x : tensor<6x8xf32>")
    text = text[: text.index("  %z =")] + text[text.index("  func.return") :]
    module = CuestaParser(make_context(), text, "<test>").parse_module()
    with pytest.raises(VerifyException, match=why):
        module.verify()


def test_what_is_joined_is_the_result_of_a_nest_for_that_alone() -> None:
    module = program("%y")
    assert not [why for rule in LOOPS.rules for _, why in rule(module)]
    text = print_text(module).replace("func.return %y : tensor<6x8xf32>", f"func.return %h : {PART.format(3)}")
    text = text.replace("-> (tensor<6x8xf32>)", f"-> ({PART.format(3)})")
    other = CuestaParser(make_context(), text, "<test>").parse_module()
    found = [why for rule in LOOPS.rules for _, why in rule(other)]
    assert found == ["joins what is not the result of a nest, or has other users"]
