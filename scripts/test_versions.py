"""The fast tests against several versions of PyTorch, each in an environment of its own; a line of results for each.

    python scripts/test_versions.py                                     every version in VERSIONS
    python scripts/test_versions.py 2.12 --pytest-args "tests/lowering"   one, and what pytest is to run

Environments and what pytest printed stay in `build/versions/`, so that a second run installs nothing. Everything but
torch, and what torch asks for (a build for CUDA asks for its Triton), is as in constraints.txt. The CPU build is taken
where the package index has one. A version that the index does not have is said, and no failure.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("2.11", "2.12", "2.13", "2.14")
"""Those that we work with: of each the last that was released."""
_OF_TORCH = re.compile(r"(torch|triton|sympy|networkx|mpmath|Jinja2|MarkupSafe|filelock|fsspec)==")
"""What constraints.txt fixes for the one version of torch that it names."""
_PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]


def main() -> int:
    """The exit status is 1 if the tests failed with any version, or there was none to test with."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", default=list(VERSIONS), help=f"default: {' '.join(VERSIONS)}")
    parser.add_argument("--pytest-args", default="", metavar="ARGS")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "versions", help="default: build/versions")
    chosen = parser.parse_args()
    folder: Path = chosen.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    known = released()
    results: dict[str, str] = {}
    for wanted in chosen.versions:
        version = next((one for one in known if one.partition("+")[0] == wanted or one.startswith(f"{wanted}.")), None)
        if version is None:
            results[wanted] = "not in the package index"
        else:
            results[version] = tested(version, folder, shlex.split(chosen.pytest_args))
        print(f"torch {version or wanted}: {list(results.values())[-1]}", flush=True)
    tests = [result for result in results.values() if not result.startswith("not in")]
    return 0 if tests and all(result.startswith("passed") for result in tests) else 1


def released() -> list[str]:
    """The versions of torch in the package index, the newest first, CPU builds before others."""
    command = [*_PIP, "index", "versions", "torch", *extra_index()]
    printed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    line = next((line for line in printed.splitlines() if line.startswith("Available versions:")), "")
    return re.findall(r"\d[\w.+]*", line)


def extra_index() -> list[str]:
    """The options of pip that find the CPU builds, where those can be had."""
    printed = subprocess.run([sys.executable, str(ROOT / "scripts" / "torch_index.py")], capture_output=True, text=True)
    return printed.stdout.split()


def tested(version: str, root: Path, pytest_args: list[str]) -> str:
    """Installs what is needed and runs the tests; `passed` with numbers, or what went wrong and where it is said."""
    folder, log = root / f"torch-{version}", root / f"torch-{version}.txt"
    python = folder / "bin" / "python"
    with log.open("w") as out:
        if not (folder / ".installed").exists():
            venv.create(folder, clear=True, with_pip=True)
            lines = (ROOT / "constraints.txt").read_text().splitlines()
            kept = [line for line in lines if not _OF_TORCH.match(line)]
            kept += [line for line in lines if line.startswith("triton==") and version.endswith("+cpu")]
            constraints = folder / "constraints.txt"
            constraints.write_text("\n".join([*kept, f"torch=={version}", ""]))
            pip = [str(python), "-m", "pip", "install", "--quiet", "-c", str(constraints), *extra_index()]
            if subprocess.run([*pip, *requirements()], stdout=out, stderr=out, check=False).returncode:
                return f"could not be installed; see {log}"
            (folder / ".installed").touch()
        # The package is seen through the links of `build/links/`, as in any interpreter into which it is not installed.
        environment = {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": str(ROOT / "build" / "links")}
        command = [
            str(python),
            "-m",
            "pytest",
            "-o",
            "pythonpath=",
            "-q",
            "-m",
            "not gpu and not slow and not thorough",
        ]
        code = subprocess.run([*command, *pytest_args], cwd=ROOT, env=environment, stdout=out, stderr=out).returncode
    last = log.read_text().rstrip().rpartition("\n")[2].strip("= ")
    return f"passed: {last}" if code == 0 else f"failed: {last}; see {log}"


def requirements() -> list[str]:
    """What the package and its tests need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    return [*project["dependencies"], *extras["test"], *extras["demo"], *extras["gpu"]]


if __name__ == "__main__":
    sys.exit(main())
