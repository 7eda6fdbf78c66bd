"""The command line as a whole: how it warns, and that a stranger's mistakes are told in a line or two."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from cuesta import command, options


def test_what_we_warn_of_has_no_line_of_ours(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", command.show_warning)
        warnings.warn_explicit("cuesta: the folder is not used", UserWarning, "/model.py", 3)
        warnings.warn_explicit("the text is old", UserWarning, options.__file__, 3)
        warnings.warn_explicit("the model is old", UserWarning, "/model.py", 3)
    told = capsys.readouterr().err.splitlines()
    assert told[:2] == ["cuesta: warning: the folder is not used", "cuesta: warning: the text is old"]
    assert told[2] == "/model.py:3: UserWarning: the model is old"


@pytest.mark.slow  # a process; what it does is tested above
def test_the_program_warns_so(tmp_path: Path) -> None:
    text = tmp_path / "a.mlir"
    text.write_text(
        "// cuesta 9.9.0 \u00b7 after import \u00b7 0 of 1\n// remaining: dce\nbuiltin.module {\n}\n", encoding="utf-8"
    )
    done = subprocess.run(
        [sys.executable, "-m", "cuesta", "run", str(text)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(one for one in sys.path if one)},
        capture_output=True,
        encoding="utf-8",
        cwd=tmp_path,
        check=False,
    )
    first = done.stderr.splitlines()[0]
    assert first.startswith(f"cuesta: warning: {text}: the text was written by cuesta 9.9.0") and "return" not in first
