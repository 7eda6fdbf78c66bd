from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import cuesta
from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.opt import EXIT_INVALID, EXIT_OK, EXIT_USAGE, run_captured

GOOD = "func.func @main(%a: i32) -> i32 {\n  func.return %a : i32\n}\n"
ILL_TYPED = "func.func @main(%a: i32) -> i64 {\n  func.return %a : i32\n}\n"


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.mlir"
    path.write_text(GOOD)
    return path


def test_prints_a_program_that_it_reads_back(good: Path, tmp_path: Path) -> None:
    status, first, errors = run_captured([str(good)])
    assert (status, errors) == (EXIT_OK, "")
    again = tmp_path / "again.mlir"
    again.write_text(first)
    assert run_captured([str(again)]) == (EXIT_OK, first, "")


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    monkeypatch.setattr(sys, "stdin", io.StringIO(ILL_TYPED))
    status, output, errors = run_captured([])
    assert (status, output) == (EXIT_INVALID, "")
    assert errors.startswith("<stdin>:2  func.return")


def test_parse_error_has_line_and_caret(tmp_path: Path) -> None:
    path = tmp_path / "bad.mlir"
    path.write_text("func.func @main() {\n  func.retrun\n}\n")
    status, output, errors = run_captured([str(path)])
    assert (status, output) == (EXIT_INVALID, "")
    assert f"{path}:2:" in errors
    assert "  func.retrun\n  ^^^^^^^^^^^\n" in errors
    assert "there is no op func.retrun; did you mean func.return?" in errors


def test_verification_error_has_line_and_caret(tmp_path: Path) -> None:
    path = tmp_path / "bad.mlir"
    path.write_text(ILL_TYPED)
    _, _, errors = run_captured([str(path)])
    lines = errors.splitlines()
    assert lines[0].startswith(f"{path}:2  func.return: ")
    assert lines[1] == "  |   func.return %a : i32"
    assert lines[2] == "  |   ^^^^^^^^^^^"


def test_errors_of_later_chunks_count_lines_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "two.mlir"
    path.write_text(GOOD + "// -----\n" + ILL_TYPED)
    status, _, errors = run_captured([str(path), "--split-input-file"])
    assert status == EXIT_INVALID
    assert errors.startswith(f"{path}:6  func.return")
    path.write_text(GOOD + "// -----\nfunc.func @main() {\n  func.retrun\n}\n")
    assert f"{path}:6:" in run_captured([str(path), "--split-input-file"])[2]


def test_unknown_pass_lists_the_passes(good: Path) -> None:
    status, output, errors = run_captured([str(good), "-p", "elimnate-views"])
    assert (status, output) == (EXIT_USAGE, "")
    assert "there is no pass elimnate-views, did you mean eliminate-views?" in errors
    assert "fuse-nests" in errors


@pytest.mark.parametrize("specification", ["fuse-nests{nonsense=1}", "fuse-nests{", "fuse-nests{explain=17}"])
def test_wrong_pass_options_are_a_usage_error(good: Path, specification: str) -> None:
    status, output, errors = run_captured([str(good), "-p", specification])
    assert (status, output) == (EXIT_USAGE, "")
    assert "Traceback" not in errors
    assert errors


def test_missing_file() -> None:
    status, _, errors = run_captured(["/nowhere/at/all.mlir"])
    assert status == EXIT_USAGE
    assert errors.startswith("cuesta-opt: cannot read /nowhere/at/all.mlir")


def test_output_file_is_all_or_nothing(good: Path, tmp_path: Path) -> None:
    target = tmp_path / "out" / "result.mlir"
    target.parent.mkdir()
    target.write_text("before")
    bad = tmp_path / "bad.mlir"
    bad.write_text(GOOD + "// -----\n" + ILL_TYPED)
    assert run_captured([str(bad), "--split-input-file", "-o", str(target)])[0] == EXIT_INVALID
    assert target.read_text() == "before"
    assert run_captured([str(good), "-o", str(target)])[:2] == (EXIT_OK, "")
    assert "func.return %a" in target.read_text()
    assert os.listdir(target.parent) == ["result.mlir"]


def test_output_that_cannot_be_written(good: Path) -> None:
    status, output, errors = run_captured([str(good), "-o", "/nowhere/result.mlir"])
    assert (status, output) == (EXIT_USAGE, "")
    assert "cannot write /nowhere/result.mlir" in errors


def test_print_between_shows_the_input_and_every_pass(good: Path) -> None:
    status, output, errors = run_captured([str(good), "-p", "cse,dce", "--print-between", "--verify-each"])
    assert status == EXIT_OK
    headings = [line.partition(" (")[0] for line in errors.splitlines() if line.startswith("// -----")]
    assert headings == ["// ----- input", "// ----- after cse", "// ----- after dce"]
    assert "-----" not in output


def test_every_pass_loads_and_is_listed() -> None:
    status, output, errors = run_captured(["--list-passes"])
    assert (status, errors) == (EXIT_OK, "")
    assert [line.split()[0] for line in output.splitlines()] == sorted(line.split()[0] for line in output.splitlines())
    assert "eliminate-views" in output


HEAVY = ("torch", "triton", "llvmlite")


@pytest.mark.parametrize("command", [["--list-passes"], ["FILE", "-p", "eliminate-views,fuse-nests,cse,dce"]])
def test_text_tools_start_without_torch(good: Path, command: list[str]) -> None:
    arguments = [str(good) if word == "FILE" else word for word in command]
    program = (
        "import sys; from cuesta.opt import run_captured; "
        f"status, _, errors = run_captured({arguments!r}); "
        f"print(status, errors, [name for name in {HEAVY!r} if name in sys.modules])"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout == "0  []\n"


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--list-laws", "--list-stages"])
def test_who_reads_the_output_may_stop(option: str) -> None:
    """As `cuesta-opt --list-laws | head -1` does, and also where all of it fits into a buffer."""
    command = [sys.executable, "-c", f"import sys; from cuesta.opt import main; sys.exit(main(['{option}']))"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


def test_it_goes_on_as_the_text_says(tmp_path: Path) -> None:
    """--go-on runs what the first lines name; what is written says what is left, where that is known."""
    path = tmp_path / "dumped.mlir"
    head = f"// cuesta {cuesta.__version__} · after import · 0 of 2\n// remaining: cse,dce\n"
    path.write_text(head + GOOD)
    status, output, errors = run_captured([str(path), "--go-on"])
    assert (status, errors) == (EXIT_OK, "")
    assert output.startswith(f"// cuesta {cuesta.__version__} · after dce · 2 of 2\n// remaining:\nbuiltin.module")
    _, output, _ = run_captured([str(path), "-p", "cse"])
    assert output.startswith(f"// cuesta {cuesta.__version__} · after cse · 1 of 2\n// remaining: dce\nbuiltin.module")
    assert run_captured([str(path)])[1].startswith(head)
    assert run_captured([str(path), "-p", "dce"])[1].startswith("builtin.module"), "who knows what is left now"
    again = tmp_path / "again.mlir"
    again.write_text(output)
    assert run_captured([str(again), "--go-on", "--print-between"])[2].count("// ----- after dce") == 1


def test_it_cannot_go_on(good: Path, tmp_path: Path) -> None:
    status, _, errors = run_captured([str(good), "--go-on"])
    assert status == EXIT_INVALID and "the text does not say which stages remain" in errors
    status, _, errors = run_captured([str(good), "--go-on", "-p", "cse"])
    assert status == EXIT_USAGE and "--go-on runs what the text says" in errors
    path = tmp_path / "wrong.mlir"
    path.write_text("// remaining: cse,dec\n" + GOOD)
    status, _, errors = run_captured([str(path), "--go-on"])
    assert status == EXIT_INVALID and f"{path}:1  there is no pass dec, did you mean dce?" in errors
    path.write_text("// cuesta 0.0.1 · after import · 0 of 1\n// remaining: cse\n" + GOOD)
    status, _, errors = run_captured([str(path), "--go-on"])
    assert status == EXIT_OK and f"{path}: the text was written by cuesta 0.0.1, and this is" in errors


WRONG_TYPE = """\
func.func @main(%x : tensor<8x16xf32>) -> tensor<8xi64> {
  %y = aten.argmax.default(%x, 0) : (tensor<8x16xf32>) -> tensor<8xi64>
  func.return %y : tensor<8xi64>
}
"""
WRONG_CHOICE = """\
kernel.func @k_0(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [6], unrol = 1> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  kernel.store %a, %o[%p] : f32
}
func.func @main(%x : tensor<6xf32>) -> tensor<6xf32> {
  %y = kernel.launch @k_0(%x) : (tensor<6xf32>) -> (tensor<6xf32>)
  func.return %y : tensor<6xf32>
}
"""
OUTSIDE = WRONG_CHOICE.replace(", unrol = 1", "").replace("%x[%p]", "%x[%p + 6]")


@pytest.mark.parametrize(
    ("text", "passes", "message"),
    [
        (WRONG_TYPE, "", ":2  aten.argmax.default: gives torch.int64 of size (16,), not tensor<8xi64>"),
        (WRONG_TYPE, "aten-to-loops", ":2  aten.argmax.default: gives torch.int64 of size (16,), not tensor<8xi64>"),
        (WRONG_CHOICE, "", ":1  kernel.func: no choice of a schedule is called unrol; there are "),
        (OUTSIDE, "kernel-to-host,check-bounds", ":3  kernel.load: what it accesses is never one of the 6 elements"),
    ],
)
def test_a_text_is_held_to_what_load_holds_it_to(tmp_path: Path, text: str, passes: str, message: str) -> None:
    path = tmp_path / "edited.mlir"
    path.write_text(text)
    status, output, errors = run_captured([str(path), "-p", passes])
    assert (status, output) == (EXIT_INVALID, "")
    assert errors.startswith(f"{path}{message}")
    with pytest.raises(CuestaError) as caught:
        cuesta.load(path)
    assert str(caught.value).splitlines()[:3] == errors.splitlines()[:3]
    two = tmp_path / "two.mlir"
    two.write_text(GOOD + "// -----\n" + text)
    number = int(message[1:].partition(" ")[0]) + GOOD.count("\n") + 1
    assert f"{two}:{number}  " in run_captured([str(two), "--split-input-file", "-p", passes])[2]
    if not passes:
        assert run_captured([str(path), "--no-verify"])[0] == EXIT_OK


def test_an_exception_in_a_pass_names_the_pass_and_the_file(
    monkeypatch: pytest.MonkeyPatch, good: Path, tmp_path: Path
) -> None:
    from cuesta.transforms.cse import CsePass

    def apply(self: object, context: object, module: object) -> None:
        raise KeyError("nobody thought of this")

    monkeypatch.setattr(CsePass, "apply", apply)
    status, output, errors = run_captured([str(good), "-p", "dce,cse"])
    assert (status, output) == (EXIT_INVALID, "")
    assert errors.startswith(f"{good}  KeyError: 'nobody thought of this'")
    assert "stage: cse" in errors and "Traceback" not in errors
