"""`cuesta diff`: what is the same, whatever it is called, and what is said of what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuesta.command import main
from cuesta.context import make_context
from cuesta.pipeline import STAGES, run_pipeline
from cuesta.replaying.diffing import Difference, compare_programs, lines_of
from tests.support.text import parse

PROGRAM = """
func.func @main(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %a = aten.mul.Tensor(%x, 2.0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = aten.exp.default(%y) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %c = aten.add.Tensor(%a, %b, alpha = 3) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %d = aten._softmax.default(%c, -1, false) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return %d : tensor<4x8xf32>
}
"""


def between(before: str, after: str) -> Difference:
    return compare_programs(parse(before), parse(after))


def report(difference: Difference) -> str:
    return "\n".join([difference.summary(), *lines_of(difference)])


def test_other_names_and_locations_are_no_difference() -> None:
    renamed = PROGRAM
    for old in "abcdxy":
        renamed = renamed.replace(f"%{old}", f"%other_{old}")
    difference = between(PROGRAM, renamed)
    assert difference.is_empty and difference.summary() == "the same program"


@pytest.mark.parametrize(
    ("old", "new", "summary", "said"),
    [
        ("aten.exp.default(%y)", "aten.exp.default(%x)", "5 kept, 1 changed", "aten.exp.default: operand 0: %y → %x"),
        ("alpha = 3", "alpha = 4", "5 kept, 1 changed", "~ %c = aten.add.Tensor: arguments: #aten.arguments<"),
        ("aten.exp.default", "aten.sin.default", "5 kept, 1 added, 1 removed", "+ aten.sin.default"),
        ("%d :", "%c :", "5 kept, 1 changed", "~ func.return: operand 0: %d → %c"),
    ],
)  # fmt: skip
def test_what_one_edit_changes(old: str, new: str, summary: str, said: str) -> None:
    """One edit is one difference: what reads a changed op is not changed itself."""
    found = report(between(PROGRAM, PROGRAM.replace(old, new)))
    if "sin" in new:  # nothing says that this is the other
        assert found.startswith("4 kept, 1 changed, 1 added, 1 removed")
        assert "~ %c = aten.add.Tensor: operand 1: another %b" in found
    else:
        assert found.startswith(summary)
    assert said in found


def test_another_order() -> None:
    lines = PROGRAM.splitlines()
    lines[2], lines[3] = lines[3], lines[2]
    difference = between(PROGRAM, "\n".join(lines))
    assert difference.summary() == "5 kept, 1 moved"


def test_what_is_gone_and_what_is_new() -> None:
    more = PROGRAM.replace("  %d =", "  %n = aten.neg.default(%c) : (tensor<4x8xf32>) -> tensor<4x8xf32>\n  %d =")
    assert between(PROGRAM, more).summary() == "6 kept, 1 added"
    assert between(more, PROGRAM).summary() == "6 kept, 1 removed"


def test_fusion_moves_ops_from_nest_to_nest() -> None:
    module = parse(PROGRAM)
    names = [stage.name for stage in STAGES]
    run_pipeline(make_context(), module, STAGES[: names.index("fuse-nests")])
    before = module.clone()
    run_pipeline(make_context(), module, STAGES[names.index("fuse-nests") :][:1])
    difference = compare_programs(before, module)
    found = report(difference)
    assert difference.counts["moved"] >= 2 and difference.travels
    assert "- %c = loops.nest (4, 8): " in found and "now in %d = loops.nest (4)" in found
    assert "    ~ loops.reduce (8)" in found
    assert "\033" not in found and "\033[36m>" in "\n".join(lines_of(difference, colours=True))


def test_every_stage_of_a_program_adds_up() -> None:
    """Whatever a stage does, each op after it is kept, moved, changed or added, and each before it was there."""
    module = parse(PROGRAM)
    left_out = ("tune-kernels", "link-pieces", "lend-arguments")
    for stage in STAGES:
        if stage.name in left_out:
            continue
        before = module.clone()
        run_pipeline(make_context(), module, [stage])
        counts = compare_programs(before, module).counts
        both = counts["kept"] + counts["moved"] + counts["changed"]
        assert both + counts["added"] == sum(1 for _ in module.walk()) - 1, stage.name
        assert both + counts["removed"] == sum(1 for _ in before.walk()) - 1, stage.name
        assert compare_programs(module.clone(), module).is_empty


def files(folder: Path) -> None:
    texts = {"00_aten": PROGRAM, "01_cse": PROGRAM.replace("%a", "%z"), "02_dce": PROGRAM.replace("2.0", "4.0")}
    for name, text in texts.items():
        (folder / f"{name}.mlir").write_text(text)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files(tmp_path)
    assert main(["diff", str(tmp_path)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out == ["00_aten  6 ops", "01_cse   the same program", "02_dce   5 kept, 1 changed"]
    for pair in (["0", "2"], ["02"], ["dce"], ["aten", "dce"]):
        assert main(["diff", str(tmp_path), *pair]) == 0
        out = capsys.readouterr().out
        assert "_dce.mlir: 5 kept, 1 changed" in out and "aten.mul.Tensor: arguments" in out
    paths = [str(tmp_path / name) for name in ("00_aten.mlir", "02_dce.mlir")]
    assert main(["diff", *paths, "--every"]) == 0
    assert "= %d = aten._softmax.default" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{}", "7"], "has no text '7': `cuesta diff "),
        (["{}", "dcee"], "has no text 'dcee': did you mean 'dce'? `cuesta diff "),
        (["{}", "{}"], " is a dump: of it and "),
        (["{}", "0"], "00_aten is the first text: nothing comes before it"),
        (["{}", "0", "1", "2"], "two texts of a dump are compared"),
        (["{}/00_aten.mlir"], "two texts are compared"),
        (["{}/00_aten.mlir", "{}/none.mlir"], "there is no "),
    ],
)
def test_bad_use(tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    files(tmp_path)
    assert main(["diff", *(one.replace("{}", str(tmp_path)) for one in arguments)]) == 1
    assert message in capsys.readouterr().err


def test_a_text_that_does_not_parse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files(tmp_path)
    (tmp_path / "02_dce.mlir").write_text(PROGRAM.replace("aten.exp.default(", "aten.exp.default["))
    assert main(["diff", str(tmp_path), "2"]) == 1
    assert "02_dce.mlir:4" in capsys.readouterr().err
