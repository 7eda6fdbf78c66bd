"""Texts that an error message or a warning names, for whoever reads it: the text of a kernel that does not compile.

They outlive the process, so that a message in a log can be followed. They do not add up: all of a user's lie in one
folder, the same texts in one place there however often they are written, and only the newest reports stay.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

MOST = 32
"""How many reports stay.

Source: a bound on what is left on disk; those of one program that fails in every kernel are fewer.
"""


def kept(files: Mapping[str, str]) -> Path:
    """Writes the files of a report, by name; the folder that they are in. Errors: OSError."""
    root = _folder()
    place = root / hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:16]
    place.mkdir(exist_ok=True)
    for name, text in files.items():
        # At once: another process may be writing the same, or somebody reading it.
        handle, part = tempfile.mkstemp(dir=place)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(part, place / name)
    _remove_old(root, place)
    return place


def _folder() -> Path:
    """The folder of this user's reports: others may neither write there nor have made it."""
    if not hasattr(os, "geteuid"):  # a system where the folder for temporary files is the user's own
        folder = Path(tempfile.gettempdir(), "cuesta-reports")
        folder.mkdir(exist_ok=True)
        return folder
    folder = Path(tempfile.gettempdir(), f"cuesta-reports-{os.geteuid()}")
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
    return folder if ours else Path(tempfile.mkdtemp(prefix="cuesta-reports-"))


def _remove_old(root: Path, newest: Path) -> None:
    """Leaves the newest reports: a folder is as new as what was last put into it."""
    ages: list[tuple[float, Path]] = []
    for place in root.iterdir():
        with contextlib.suppress(OSError):
            ages.append((place.stat().st_mtime, place))
    for _, place in sorted(ages, reverse=True)[MOST:]:
        if place != newest:
            shutil.rmtree(place, ignore_errors=True)


__all__ = ["MOST", "kept"]
