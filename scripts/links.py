"""Make `build/links/`: the import package `cuesta` as one tree, by links into the repository.

The compiler folders lie at the top of the repository and become subpackages of `cuesta` only when installed. Pyright
follows no import hook, and a machine where nothing may be installed has none: both use this tree instead.
"""

import fcntl
import shutil
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LINKS = ROOT / "build" / "links"
COMPILER_FOLDERS = ("dialects", "transforms", "lowering", "targets")
CHECKED_BESIDE = ("tests", "examples", "benchmarks", "manual")


def main() -> None:
    """Rebuild the tree, unless it is as it should be: somebody may be importing from it, or building it."""
    LINKS.parent.mkdir(exist_ok=True)
    with (LINKS.parent / "links.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = wanted_links()
        if wanted == found_links():
            return
        shutil.rmtree(LINKS, ignore_errors=True)
        (LINKS / "cuesta").mkdir(parents=True)
        for path, target in wanted.items():
            (LINKS / path).symlink_to(target)
        write_metadata()


def wanted_links() -> dict[str, str]:
    """Where each link of the tree leads, by its path in it."""
    entries = [entry.name for entry in (ROOT / "cuesta").iterdir() if entry.name != "__pycache__"]
    links = {f"cuesta/{name}": f"../../../cuesta/{name}" for name in entries}
    links |= {f"cuesta/{folder}": f"../../../{folder}" for folder in COMPILER_FOLDERS}
    return links | {folder: f"../../{folder}" for folder in CHECKED_BESIDE if (ROOT / folder).is_dir()}


def found_links() -> dict[str, str]:
    """The same of the tree as it is; nothing where there is none, or its metadata are not those of pyproject.toml."""
    fresh = all((folder / "entry_points.txt").read_text() == entry_points() for folder in LINKS.glob("*.dist-info"))
    if not fresh or not list(LINKS.glob("*.dist-info")):
        return {}
    entries = [entry for folder in (LINKS, LINKS / "cuesta") for entry in folder.iterdir() if entry.is_symlink()]
    return {str(entry.relative_to(LINKS)): str(entry.readlink()) for entry in entries}


def write_metadata() -> None:
    """What an installation would leave beside the package: by its entry points torch finds the backend."""
    project = described()
    folder = LINKS / f"{project['name']}-{project['version']}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    (folder / "entry_points.txt").write_text(entry_points())


def entry_points() -> str:
    """The entry points of pyproject.toml, as an installation keeps them."""
    lines: list[str] = []
    for group, entries in described().get("entry-points", {}).items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in entries.items())]
    return "\n".join(lines) + "\n"


def described() -> dict[str, Any]:
    """The project, as pyproject.toml has it."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


if __name__ == "__main__":
    main()
