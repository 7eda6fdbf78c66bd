"""`cuesta run`: any text of a dump runs again, on kept inputs or random ones, and what is wrong with it shows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from cuesta.command import main
from cuesta.options import OptionError, Options
from cuesta.programs.inputs_of import copies_of
from cuesta.programs.kept_inputs import read_inputs, write_inputs
from cuesta.replaying.replay import text_in, texts_in


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(50, 8)
        self.linear = torch.nn.Linear(8, 16)

    def forward(self, tokens: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        count.add_(1)
        return torch.softmax(torch.nn.functional.gelu(self.linear(self.table(tokens))), -1)


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch._dynamo.reset()
    folder = tmp_path_factory.mktemp("dump") / "levels"
    options = {"dump": str(folder), "dump_inputs": True}
    compiled = torch.compile(Model(), backend="cuesta", options=options)
    with torch.no_grad():
        compiled(torch.arange(28).reshape(4, 7), torch.zeros(3))
        compiled(torch.ones(4, 7, dtype=torch.int64), torch.zeros(3))
    return folder


def ran(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = main(["run", *map(str, arguments)])
    out, err = capsys.readouterr()
    return status, out, err


def test_inputs_are_those_of_the_first_call(dump: Path) -> None:
    kept = read_inputs(dump / "000_inference")
    tokens = next(one for one in kept.values if one.dtype is torch.int64)
    assert torch.equal(tokens.flatten(), torch.arange(28))
    counts = [one for one in kept.values if one.shape == (3,)]
    assert torch.equal(counts[0], torch.zeros(3))  # as it was before the graph wrote to it
    shapes = {tuple(one.shape) for at, one in enumerate(kept.values) if at in kept.weights}
    assert shapes == {(50, 8), (16, 8), (16,)}


def test_a_dump_says_what_made_it(dump: Path) -> None:
    said = json.loads((dump / "000_inference" / "about.json").read_text())
    assert said["kind"] == "inference" and said["options"]["dump_inputs"] is True
    assert said["versions"]["torch"] == torch.__version__.partition("+")[0] or "+" in said["versions"]["torch"]


def test_the_whole_dump(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = ran(capsys, dump, "--check", "--time")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith(f"{text_in(dump)}  after import, ") and lines[0].endswith(" stages to come")
    assert lines[1] == f"inputs of {dump / '000_inference' / 'inputs'}"
    assert "time: median " in out and "µs" in out
    assert lines[-2].startswith("ok   result 0: max error ") and lines[-1].startswith("ok   argument ")


@pytest.mark.parametrize("stage", ["fuse-nests", "loops-to-kernel", "pool-buffers"])
def test_from_a_text_in_between(dump: Path, capsys: pytest.CaptureFixture[str], stage: str) -> None:
    (text,) = (dump / "000_inference").glob(f"*_{stage}.mlir")
    status, out, _ = ran(capsys, text, "--random", "--seed", 3, "--check")
    assert status == 0
    assert "random inputs, seed 3" in out and "integers in [0, 49], an index of an axis of 50" in out


def test_as_far_as_a_stage(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = next((dump / "000_inference").glob("*_aten-to-loops.mlir"))
    status, out, _ = ran(capsys, text, "--until", "fuse-nests", "--check")
    assert status == 0
    assert "FAIL" not in out and out.count("ok   ") == 2


def test_an_edit_that_changes_results_is_seen(
    dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import cuesta.transforms.algebra.canonicalize as canonicalize
    from cuesta.dialects import elem
    from cuesta.dialects.core.operation import replace_all_uses

    original = canonicalize.CanonicalizePass.apply

    def wrong(self: object, context: object, module: object) -> None:
        original(self, context, module)  # type: ignore[arg-type]
        for op in module.walk():  # type: ignore[attr-defined]
            if op.name == "elem.erf":
                op.parent.insert_op_before(new := elem.make("tanh", op.operands[0]), op)
                replace_all_uses(op.results[0], new.results[0])

    monkeypatch.setattr(canonicalize.CanonicalizePass, "apply", wrong)
    status, out, err = ran(capsys, dump, "--check", "--until", "canonicalize")
    assert not err
    assert status == 1 and "FAIL result 0" in out
    status, out, _ = ran(capsys, dump, "--check")
    assert status == 1 and "FAIL result 0: max error " in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{}/000_inference", "--until", "fuse-nets"], "there is no stage 'fuse-nets', did you mean 'fuse-nests'?"),
        (
            ["{}/000_inference/16_fuse-nests.mlir", "--until", "cse"],
            "the stage 'cse' is past: the program stands after",
        ),
        (["{}", "--until", "tune-kernels"], "the stage 'tune-kernels' is not among those of this program"),
        (["{}", "--until", "dce", "--time"], "what is interpreted is not timed"),
        (["{}", "--size", "s0=3"], "kept inputs have sizes of their own"),
        (["{}", "--random", "--size", "s0=x"], "--size s0=x: a size is said as s0=7"),
        (["{}", "--inputs", "{}"], "holds no inputs"),
        (["{}/nowhere"], "there is no "),
        (["{}/000_inference/inputs"], "holds no text of a program"),
    ],
)
def test_bad_use(dump: Path, capsys: pytest.CaptureFixture[str], arguments: Sequence[str], message: str) -> None:
    status, _, err = ran(capsys, *(one.replace("{}", str(dump)) for one in arguments))
    assert status == 1
    assert err.startswith("cuesta run: ") and message in err


def test_inputs_of_another_program_are_refused(dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "other.mlir"
    text.write_text("func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  func.return %x : tensor<4xf32>\n}\n")
    status, _, err = ran(capsys, text, "--inputs", dump / "000_inference")
    assert status == 1 and "the inputs: @main takes 1 arguments, got 5" in err


def test_random_inputs_have_the_sizes_of_kept_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kind = "tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>"
    symbols = "attributes {sym.symbols = #sym.symbols<s0 in [2, inf], s1 in [2, inf]>}"
    text = tmp_path / "00_aten.mlir"
    text.write_text(
        f"func.func @main(%x: {kind}) -> {kind} {symbols} {{\n  %e = aten.exp.default(%x) : ({kind}) -> {kind}\n"
        f"  func.return %e : {kind}\n}}\n"
    )
    write_inputs([torch.ones(3, 17)], tmp_path / "inputs")
    assert ran(capsys, text, "--random")[1].splitlines()[2] == "  sizes: s0 = 3, s1 = 17"
    status, out, _ = ran(capsys, text, "--random", "--size", "s1=4", "--check")
    assert status == 0 and "  sizes: s0 = 3, s1 = 4" in out
    status, _, err = ran(capsys, text, "--random", "--size", "s1=1")
    assert status == 1 and "s1 is to be 1, but @main says that it is in [2, inf]" in err


def test_a_program_that_raises_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "gather.mlir"
    text.write_text("""func.func @main(%x: tensor<4xf32>, %i: tensor<3xi64>) -> tensor<3xf32> {
  %r = aten.index_select.default(%x, 0, %i) : (tensor<4xf32>, tensor<3xi64>) -> tensor<3xf32>
  func.return %r : tensor<3xf32>
}
""")
    write_inputs([torch.ones(4), torch.tensor([0, 9, 1])], tmp_path / "inputs")
    for options in ([], ["--check"], ["--until", "aten-to-loops"]):
        status, _, err = ran(capsys, text, *options)
        assert status == 1 and "the program raises IndexError: " in err and "--size chooses sizes" in err
    assert ran(capsys, text, "--random", "--check")[0] == 0


def test_several_graphs_are_told_apart(dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("000_forward", "001_backward"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "00_aten.mlir").write_text("")
        (tmp_path / name / "01_before_cse.mlir").write_text("")
    status, _, err = ran(capsys, tmp_path)
    assert status == 1 and "say which of 000_forward, 001_backward" in err
    assert [one.name for one in texts_in(tmp_path / "000_forward")] == ["00_aten.mlir"]


def test_inputs_are_kept_beside_a_dump_only() -> None:
    with pytest.raises(OptionError, match="give the option 'dump' too"):
        Options.parse(None, {"dump_inputs": True})


def test_copies_share_what_their_originals_share() -> None:
    base = torch.arange(6.0)
    a, b, c = copies_of([base[:4], base[2:], 3])
    a[2] = 9
    assert b[0] == 9 and base[2] == 2 and c == 3
