"""Make `build/links/`: the import package `cuesta` as one tree, by links into the repository.

The compiler folders lie at the top of the repository and become subpackages of `cuesta` only when installed. Pyright
follows no import hook, and a machine where nothing may be installed has none: both use this tree instead.
"""

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINKS = ROOT / "build" / "links"
COMPILER_FOLDERS = ("dialects", "transforms", "lowering", "targets")
CHECKED_BESIDE = ("tests", "examples", "benchmarks")


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


if __name__ == "__main__":
    main()
