"""`make links` while another `make` needs the tree, or builds it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_several_at_once_and_one_that_finds_it_as_it_should_be(tmp_path: Path) -> None:
    for folder in ("scripts", "cuesta", "dialects", "tests"):
        (tmp_path / folder).mkdir()
    (tmp_path / "cuesta" / "backend.py").write_text("")
    for name in ("scripts/links.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    command = [sys.executable, str(tmp_path / "scripts" / "links.py")]

    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(6)]
    errors = [process.communicate()[1] for process in running]
    assert not any(errors) and all(process.returncode == 0 for process in running), errors
    tree = tmp_path / "build" / "links"
    assert (tree / "cuesta" / "backend.py").is_file() and (tree / "tests").is_dir()
    assert "cuesta.backend" in next(tree.glob("*.dist-info/entry_points.txt")).read_text()

    before = tree.stat().st_ino
    subprocess.run(command, check=True)
    assert tree.stat().st_ino == before  # who imports from it is not disturbed
    (tmp_path / "cuesta" / "options.py").write_text("")
    subprocess.run(command, check=True)
    assert (tree / "cuesta" / "options.py").is_file()
