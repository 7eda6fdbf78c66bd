"""Text in, function out: what a dump holds runs again, at every level, and an edited text does what the edit says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from xdsl.utils.exceptions import ParseError

import cuesta
from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.options import OptionError


def layer(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.softmax(torch.relu(x @ weight) * 0.5, dim=-1)


@pytest.fixture(scope="module")
def dumped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("dump")
    torch.compile(layer, backend="cuesta", options={"dump": str(root)})(*arguments())
    (folder,) = root.iterdir()
    return folder


def arguments() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(5, 12, generator=generator), torch.randn(12, 37, generator=generator)


@pytest.mark.slow
def test_every_level_runs_again_with_the_same_bits(dumped: Path) -> None:
    files = sorted(dumped.glob("*.mlir"))
    assert len(files) > 10
    results = [cuesta.load(file)(*arguments())[0] for file in files]
    torch.testing.assert_close(results[0], layer(*arguments()))
    assert all(torch.equal(result, results[0]) for result in results)


def test_an_edit_is_obeyed(dumped: Path, tmp_path: Path) -> None:
    fused = max(dumped.glob("*_dce.mlir"))
    text = fused.read_text()
    assert text.count("elem.constant 0.5") == 1
    edited = tmp_path / "edited.mlir"
    edited.write_text(text.replace("elem.constant 0.5", "elem.constant 2.0"))
    x, weight = arguments()
    torch.testing.assert_close(cuesta.load(edited)(x, weight)[0], torch.softmax(torch.relu(x @ weight) * 2.0, dim=-1))


def test_the_schedule_can_be_edited(dumped: Path, tmp_path: Path) -> None:
    text = next(dumped.glob("*_loops-to-kernel.mlir")).read_text()
    edited = tmp_path / "serial.mlir"
    assert "schedule #kernel.schedule<grid = [5]" in text
    edited.write_text(text.replace("unroll = 1", "unroll = 2").replace("parallel = 0", "parallel = 1"))
    torch.testing.assert_close(cuesta.load(edited)(*arguments())[0], layer(*arguments()))


def test_it_goes_on_where_the_dump_was_made(dumped: Path, tmp_path: Path) -> None:
    """The line that names the stages is obeyed: as it was written, without it, edited, and in spite of it."""
    file = max(dumped.glob("*_dce.mlir"))
    _, _, text = file.read_text().split("\n", 2)
    first, remaining = file.read_text().splitlines()[:2]
    assert "split-index-sets" in remaining
    edited, root = tmp_path / "edited.mlir", tmp_path / "dump"
    for number, (lines, options, expected) in enumerate(
        (
            ([first, remaining], {}, remaining.removeprefix("// remaining: ")),
            ([], {"pipeline": "cse,loops-to-kernel,kernel-to-host"}, "cse,loops-to-kernel,kernel-to-host"),
            ([first, remaining.replace("split-index-sets,", "dce,")], {}, "dce,unroll-loops,kernel-to-host"),
            ([first, remaining], {"pipeline": "loops-to-kernel,kernel-to-host"}, "loops-to-kernel,kernel-to-host"),
        )
    ):
        edited.write_text("\n".join([*lines, text]))
        function = cuesta.load(edited, options={**options, "dump": str(root / str(number))})
        torch.testing.assert_close(function(*arguments())[0], layer(*arguments()))
        folder = root / str(number) / "000_loaded"
        texts = [path.read_text() for path in sorted(folder.glob("*.mlir"))]
        assert expected in texts[0].splitlines()[1]
        assert len(texts) == len(texts[0].splitlines()[1].split(",")) + 1, "one text a stage, and the one before"
        if lines:
            after = " · after dce · "
            assert texts[0].splitlines()[0].partition(after)[2].split()[0] == first.partition(after)[2].split()[0]
        assert texts[-1].splitlines()[1] == "// remaining:"


def test_what_the_header_says_and_somebody_else_does_not(dumped: Path, tmp_path: Path) -> None:
    file = dumped / "00_aten.mlir"
    with pytest.raises(OptionError, match=r"option 'relax_accuracy': .*00_aten.mlir says on line 2 which stages"):
        cuesta.load(file, options={"relax_accuracy": True})
    with pytest.raises(OptionError, match=r"option 'mode': .* says on line 2"):
        cuesta.load(file, options={"mode": "max-autotune"})
    text = file.read_text()
    edited = tmp_path / "edited.mlir"
    edited.write_text(text.replace("fuse-nests", "fuse-nets"))
    with pytest.raises(CuestaError, match=r"edited.mlir:2  there is no pass fuse-nets, did you mean fuse-nests\?"):
        cuesta.load(edited)


def test_a_text_of_another_version_says_so(dumped: Path, tmp_path: Path) -> None:
    old = tmp_path / "old.mlir"
    said = rf"the text was written by cuesta 0\.0\.1, and this is {re.escape(cuesta.__version__)}"
    text = (dumped / "00_aten.mlir").read_text().replace(f"cuesta {cuesta.__version__}", "cuesta 0.0.1", 1)
    old.write_text(text)
    with pytest.warns(UserWarning, match=f"old.mlir: {said}"):
        function = cuesta.load(old)
    torch.testing.assert_close(function(*arguments())[0], layer(*arguments()))
    for edit, error in (
        (("aten.mm.default", "aten.mm.nothing"), (ParseError, CuestaError)),
        (("fuse-nests", "melt-nests"), CuestaError),
    ):
        old.write_text(text.replace(*edit))
        with pytest.warns(UserWarning, match=said), pytest.raises(error, match=said):
            cuesta.load(old)


def test_wrong_numbers_of_arguments_are_told(dumped: Path) -> None:
    with pytest.raises(TypeError, match="takes 2 arguments, got 1"):
        cuesta.load(dumped / "00_aten.mlir")(torch.zeros(5, 12))


def test_bad_text_is_told_with_its_place(tmp_path: Path) -> None:
    broken = tmp_path / "broken.mlir"
    broken.write_text("func.func @main(%x : tensor<4xf32>) -> tensor<4xf32> {\n  func.return %y : tensor<4xf32>\n}\n")
    with pytest.raises(ParseError, match="%y is used but not defined"):
        cuesta.load(broken)
    broken.write_text(
        "func.func @main(%x : tensor<4xf32>) -> tensor<4xf32> {\n"
        "  %y = loops.view %x by (d0) -> (d0, d0) : tensor<4xf32> to tensor<4xf32>\n"
        "  func.return %y : tensor<4xf32>\n}\n"
    )
    with pytest.raises(CuestaError, match=r"broken.mlir:2"):
        cuesta.load(broken)


ARENA = """
kernel.func @widen(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f64>) schedule #kernel.schedule<grid = [20]> {
  %i = kernel.program_id 0
  %a = kernel.load %x[19 - %i] : f32
  %b = elem.convert %a : f32 to f64
  kernel.store %b, %o[%i] : f64
}
kernel.func @narrow(%x : !kernel.ptr<f64>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [20]> {
  %i = kernel.program_id 0
  %a = kernel.load %x[19 - %i] : f64
  %b = elem.convert %a : f64 to f32
  %c = elem.add %b, %b : f32
  kernel.store %c, %o[%i] : f32
}
host.func @main(%x : tensor<4x5xf32>) -> (tensor<20xf32>, tensor<10xf64>) {
  %arena = host.alloc : tensor<320xui8>
  %a = host.place %arena at 0 : tensor<320xui8> to tensor<20xf64>
  host.launch @widen(%x, %a) : tensor<4x5xf32>, tensor<20xf64>
  %c = host.place %arena at 192 : tensor<320xui8> to tensor<20xf32>
  host.launch @narrow(%a, %c) : tensor<20xf64>, tensor<20xf32>
  %v = host.reinterpret %c offset 0 : tensor<20xf32> to tensor<2x10xf32>
  %b = host.place %arena at 0 : tensor<320xui8> to tensor<20xf64>
  host.launch @widen(%v, %b) : tensor<2x10xf32>, tensor<20xf64>
  %w = host.reinterpret %b offset 10 : tensor<20xf64> to tensor<10xf64>
  %d = host.alloc : tensor<20xf32>
  host.launch @narrow(%b, %d) : tensor<20xf64>, tensor<20xf32>
  host.free %arena, %c : tensor<320xui8>, tensor<20xf32>
  %m = host.extern pure "aten.clone.default"(%w) : (tensor<10xf64>) -> tensor<10xf64>
  host.return %d, %m : tensor<20xf32>, tensor<10xf64>
}
"""


def test_buffers_in_an_arena(tmp_path: Path) -> None:
    file = tmp_path / "arena.mlir"
    file.write_text(ARENA)
    x = torch.randn(4, 5)
    d, m = cuesta.load(file)(x)
    assert torch.equal(d, x.flatten() * 4) and torch.equal(m, x.flatten().flip(0)[10:].double() * 2)


ADD = """\
func.func @main(%x : tensor<4x5xf32>, %n : !sym.int<s0>,
    %y : tensor<?x5xf32, #aten.layout<sizes = [s0, 5], strides = [5, 1]>>) -> tensor<4x5xf32> {
  %z = loops.nest (%i : 4, %j : 5) outs(%o : tensor<4x5xf32>) {
    %a = loops.load %x[%i, %j] : tensor<4x5xf32>
    loops.store %a, %o[%i, %j] : tensor<4x5xf32>
  }
  func.return %z : tensor<4x5xf32>
}
"""


def test_arguments_are_what_the_text_says(tmp_path: Path) -> None:
    """Machine code reads memory as the text says it lies there: anything else would be garbage."""
    file = tmp_path / "add.mlir"
    file.write_text(ADD)
    function, x, y = cuesta.load(file), torch.randn(4, 5), torch.randn(3, 5)
    assert torch.equal(function(x, 3, y)[0], x)
    for arguments, message in (
        ((x.double(), 3, y), r"add.mlir: argument 0 of @main is tensor<4x5xf32>: got torch.float64 on cpu"),
        ((x[:3], 3, y), r"argument 0 .* got size \(3, 5\)"),
        ((x.flatten(), 3, y), r"argument 0 .* got size \(20,\)"),
        ((x.t().contiguous().t(), 3, y), r"got strides \(1, 4\); `.contiguous\(\)` makes a copy"),
        ((3, 3, y), "argument 0 .* got a int"),
        ((x, x, y), "argument 1 of @main is !sym.int<s0>: got a Tensor"),
        ((x, 2, y), r"argument 2 .* got size \(3, 5\)"),
    ):
        with pytest.raises(TypeError, match=message):
            function(*arguments)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"\x7fELF\x00\xff", "bad.mlir  is not text"),
        (b"  \n", "there is no program here: the text is empty"),
        (b"// nothing but this\n", "there is no program here: the text is empty"),
        (b"builtin.module {\n  func.func @main() {\n", "the text ends before its program does"),
        (b"func.func @other() {\n  func.return\n}\n", "bad.mlir  the module has no function @main"),
        (ADD.replace("%x[%i, %j]", "%x[%i + 1, %j]").encode(), "bad.mlir:4  loops.load: 4 is out of range for axis 0"),
        (
            ADD.replace("%o[%i, %j]", "%o[%i, %j - 1]").encode(),
            "bad.mlir:5  loops.store: -1 is out of range for axis 1",
        ),
    ],
)
def test_a_file_that_is_no_program(tmp_path: Path, text: bytes, message: str) -> None:
    file = tmp_path / "bad.mlir"
    file.write_bytes(text)
    with pytest.raises((CuestaError, ParseError), match=message):
        cuesta.load(file)
    with pytest.raises(FileNotFoundError, match=r"none\.mlir"):
        cuesta.load(tmp_path / "none.mlir")
