"""Make `build/links/`: the import package `cuesta` as one tree, by links into the repository.

The compiler folders lie at the top of the repository and become subpackages of `cuesta` only when installed. Pyright
follows no import hook, and a machine where nothing may be installed has none: both use this tree instead.
"""

import shutil
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINKS = ROOT / "build" / "links"
COMPILER_FOLDERS = ("dialects", "transforms", "lowering", "targets")
CHECKED_BESIDE = ("tests", "examples", "benchmarks", "manual")


def main() -> None:
    """Rebuild the tree; it is cheap, and so never stale."""
    shutil.rmtree(LINKS, ignore_errors=True)
    package = LINKS / "cuesta"
    package.mkdir(parents=True)
    for entry in (ROOT / "cuesta").iterdir():
        if entry.name != "__pycache__":
            (package / entry.name).symlink_to(Path("../../..") / "cuesta" / entry.name)
    for folder in COMPILER_FOLDERS:
        (package / folder).symlink_to(Path("../../..") / folder)
    for folder in CHECKED_BESIDE:
        if (ROOT / folder).is_dir():
            (LINKS / folder).symlink_to(Path("../..") / folder)
    write_metadata()


def write_metadata() -> None:
    """What an installation would leave beside the package: by its entry points torch finds the backend."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    folder = LINKS / f"{project['name']}-{project['version']}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines: list[str] = []
    for group, entries in project.get("entry-points", {}).items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in entries.items())]
    (folder / "entry_points.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
