"""`cuesta explain` on the command line: what it prints, what it writes, and its exit status."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from cuesta.command import main
from cuesta.explain import numbers as words
from cuesta.explain.model import Candidate, Explanation, SourceLine, Unseen
from cuesta.explain.terminal import bars, lines_text, show

MODEL = """\
import torch


def fn(x):
    return torch.softmax(x * 2, -1) @ x


inputs = (torch.ones(6, 6),)
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return path


def test_it_prints_tables(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(model), "--width", "160"]) == 0
    out = capsys.readouterr().out
    assert f"{model}: inference" in out
    assert "1 graph: 1 launches of kernels, 1 library calls, 0 fallbacks" in out
    kernel = next(line for line in out.splitlines() if line.lstrip().startswith("softmax_0"))
    assert "model.py:5" in kernel and "mul, _softmax" in kernel and "288 B" in kernel
    assert "Memory: at most 288 B" in out and "not seen" not in out


def test_it_writes_json_and_nothing_else_to_standard_output(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(model), "--no-time", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["name"] == str(model) and found["graphs"][0]["kernels"][0]["name"] == "softmax_0"


def test_a_dump_is_explained(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump, written = tmp_path / "dump", tmp_path / "out.json"
    assert main(["explain", str(model), "--no-time", "--option", f"dump={dump}", "--json", str(written)]) == 0
    first = json.loads(written.read_text())
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".part"] == []
    (folder,) = dump.iterdir()
    assert main(["explain", str(folder), "--json", str(written)]) == 0
    again = json.loads(written.read_text())
    keys = ("name", "sources", "bytes_read", "bytes_written", "flops", "text", "domain")
    kernels = [[{key: kernel[key] for key in keys} for kernel in one["graphs"][0]["kernels"]] for one in (first, again)]
    assert kernels[0] == kernels[1]
    assert main(["explain", str(dump), "--json", str(written)]) == 0
    outer = json.loads(written.read_text())
    assert outer["name"] == again["name"] == str(folder)
    assert outer["graphs"][0]["kernels"] == again["graphs"][0]["kernels"]
    capsys.readouterr()
    assert main(["explain", str(folder / "00_aten.mlir")]) == 1
    assert "is one text: the folder of the whole dump is explained" in capsys.readouterr().err
    program = folder / "00_aten.mlir"
    program.write_text(program.read_text().replace("aten.mul.Tensor(", "aten.mule.Tensor(", 1))
    capsys.readouterr()
    assert main(["explain", str(folder)]) == 1
    assert "00_aten.mlir:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "status", "message"),
    [
        ("fn = lambda x: x.nothing\ninputs = (1,)\n", 1, "not seen: the program: AttributeError"),
        ("inputs = ()\n", 1, "defines no 'model' and no 'fn'"),
        ("import torch\nfn = torch.sin\ninputs = (torch.ones(2, device='meta'),)\n", 0, "no target for the device"),
    ],
)
def test_what_cannot_be_shown(
    tmp_path: Path, text: str, status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(text)
    assert main(["explain", str(path), "--no-time", "--width", "200"]) == status
    shown = capsys.readouterr()
    assert message in shown.out + shown.err


def test_without_rich_it_says_what_to_install(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    assert main(["explain", str(model)]) == 1
    assert "pip install 'cuesta[explain]'" in capsys.readouterr().err
    assert main(["explain", str(model), "--no-time", "--json", "-"]) == 0


def test_numbers_have_three_digits_and_a_unit() -> None:
    assert [words.bytes_of(one) for one in (0, 12, 1000, 16384, 999_999, 5_541_108)] == [
        "0 B",
        "12 B",
        "1 kB",
        "16.4 kB",
        "1.00 MB",
        "5.54 MB",
    ]
    assert [words.time_of(one) for one in (0.5, 35.84, 1234.5, 2.5e6)] == ["0.50 µs", "35.8 µs", "1.23 ms", "2.50 s"]
    assert (words.bytes_of(None), words.time_of(None), words.count_of(None), words.share_of(None)) == ("",) * 4
    assert words.cost_of(Candidate("a", None, 4096.0), "float adds") == "4.10 k float adds"
    assert words.cost_of(Candidate("a", 2.0, 3.0), "float adds") == "2 µs"


def test_lines_and_bars() -> None:
    lines = [SourceLine("/a/model.py", 3), SourceLine("/a/model.py", 5), SourceLine("/b/other.py", 7)]
    assert lines_text(lines) == "model.py:3, 5, other.py:7"
    assert lines_text(lines, most=1) == "model.py:3, … 2 more"
    assert bars([0, 7, 0]) == "▁█▁"
    assert bars([]) == "" and len(bars(list(range(1000)))) == 60


def test_markup_in_a_model_is_text() -> None:
    found = Explanation("[bold]x[/bold]", "0", "0", False, (), unseen=(Unseen("[red]", "a[/b]"),))
    out = io.StringIO()
    show(found, out, 200)
    assert "[bold]x[/bold]" in out.getvalue() and "[red]: a[/b]" in out.getvalue()


def test_what_cannot_be_written_is_said_at_once(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def explain(*given: object) -> None:
        raise AssertionError("the model was explained first")

    monkeypatch.setattr("cuesta.commands.explain._of_model", explain)
    for kind in ("--html", "--json"):
        for place, why in (("none/out", "there is no folder for it"), (".", "Is a directory")):
            assert main(["explain", str(model), kind, str(tmp_path / place)]) == 1
            told = capsys.readouterr().err
            assert why in told and f"{tmp_path / place}'" in told and ".part" not in told


def test_a_file_that_cannot_be_written_has_its_own_name(tmp_path: Path) -> None:
    from cuesta.explain.files import write_whole

    (tmp_path / "out").mkdir()
    with pytest.raises(IsADirectoryError, match=r"out'$"):
        write_whole(tmp_path / "out", "text")
    assert [one.name for one in tmp_path.iterdir()] == ["out"]
    write_whole(tmp_path / "other", "a\udc80b")
    assert (tmp_path / "other").read_text(encoding="utf-8") == "a?b"


def test_options_have_their_kinds(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for option, told in (
        ("mode", "--option takes NAME=VALUE, not 'mode'"),
        ("extension_seconds=-3", "must be a number of seconds above 0, or inf, not -3.0"),
        ("extensions=none_of_that_name", "none_of_that_name"),
        ("cache=perhaps", "must be True or False, not 'perhaps'"),
    ):
        assert main(["explain", str(model), "--no-time", "--option", option]) == 1
        assert told in "".join(capsys.readouterr())
    assert main(["explain", str(model), "--no-time", "--option", "extension_seconds=7"]) == 0
