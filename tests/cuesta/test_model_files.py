"""Files that define a model: how they are run, and what is said of those that do not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cuesta.command import main
from cuesta.model_files import ModelFileError, read_model_file


def written(folder: Path, text: str) -> Path:
    path = folder / "model.py"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_is_run_as_python_runs_it(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "import argparse, os, sys\nargparse.ArgumentParser().parse_args()\nimport inspect\n"
        "class Model:\n    def __call__(self): return 3\n"
        "model, inputs, kwargs = Model(), (), {'given': (__file__, sys.argv, inspect.getsource(Model))}\n",
    )
    before = sys.argv
    given = (read_model_file(path).kwargs or {})["given"]
    assert given[:2] == (str(path), [str(path)]) and "return 3" in given[2] and sys.argv is before


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("model = 3\ninputs = ()", "'model' is no module and no function, but int"),
        ("model = print", "defines no 'inputs'"),
        ("model = (print", 'model.py", line 1\n    model = (print\n            ^\nSyntaxError'),
        ("x = 1\n\n1 / 0", 'model.py", line 3, in <module>\n    1 / 0\n    ~~^~~\nZeroDivisionError: division by zero'),
        ("import sys\nsys.exit()", "ends the process (exit status None)"),
        ("import nowhere_at_all", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("open('/nowhere/at/all')", "FileNotFoundError: [Errno 2] No such file or directory: '/nowhere/at/all'"),
    ],
)
def test_what_is_no_model_says_why(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ModelFileError) as error:
        read_model_file(written(tmp_path, text))
    assert told in str(error.value) and "importlib" not in str(error.value) and "model_files" not in str(error.value)


@pytest.mark.parametrize("safe", [False, True])
def test_what_lies_beside_it_can_be_imported(tmp_path: Path, safe: bool) -> None:
    (tmp_path / "project").mkdir()
    written(tmp_path / "project", "import layers\nfn, inputs = layers.fn, ()\n")
    (tmp_path / "project" / "layers.py").write_text("def fn(): return 'from beside'\n", encoding="utf-8")
    reads = "from cuesta.model_files import read_model_file; print(read_model_file('project/model.py').model())"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(one for one in sys.path if one)}
    environment.pop("PYTHONSAFEPATH", None)
    done = subprocess.run(
        [sys.executable, *(["-P"] if safe else []), "-c", reads],
        env=environment,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert ("from beside" in done.stdout) == (not safe)
    assert ("No module named 'layers'" in done.stderr) == safe


def test_there_is_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(FileNotFoundError):
        read_model_file(tmp_path / "none.py")
    assert main(["explain", str(tmp_path / "none.py")]) == 1
    assert capsys.readouterr().err.startswith("cuesta explain: [Errno 2] No such file or directory")


def test_the_command_says_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, "raise RuntimeError('no data')")
    for command in ("explain", "package", "bisect", "validate"):
        more = ["-o", str(tmp_path / "out")] if command == "package" else []
        assert main([command, str(path), *more]) == 1
        told = capsys.readouterr().err
        assert told.startswith(f"cuesta {command}: {path} cannot be run") and told.endswith("RuntimeError: no data\n")
