"""Files of the cache: what is read there runs, so it is our own; what is written is for nobody else.

Of our own is what belongs to the user of this process, or to root, who can do anything anyway, and what nobody else can
write to. That is asked of the folder and of each file, once it is open. The folder may be a link; a file may not: we
make none, and one could lead anywhere.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

PART = ".part"
"""What the name of a file ends in that is not whole yet."""
_OPEN = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""Links are refused, and who opens a FIFO does not wait for somebody to write to it."""


class RefusedError(Exception):
    """A file that is there is not taken; the message says why."""


class RefusedFolderError(RefusedError):
    """Nothing is taken from a folder; the message says why, and what to change."""


def read_file(path: Path, most: int) -> bytes:
    """The contents of a file of at most `most` bytes.

    Errors: RefusedFolderError, RefusedError, MemoryError; OSError where there is no such file, or one that we may not
    read.
    """
    check_folder(path.parent)
    if path.is_symlink():
        raise RefusedError("it is a link")
    with open(path, "rb", opener=lambda name, _: os.open(name, _OPEN)) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise RefusedError("it is no regular file")
        if (why := why_not_ours(found)) is not None:
            raise RefusedError(why[0])
        if found.st_size > most:
            raise RefusedError(f"it has {found.st_size} bytes, and all together may have {most}")
        return file.read(found.st_size)


def check_folder(folder: Path) -> None:
    """That nobody else can put a file there, or a folder in its place.

    Errors: RefusedFolderError; OSError where there is none.
    """
    if (why := why_not_ours(os.stat(folder))) is not None:
        what, change = why
        raise RefusedFolderError(f"{what}, and what lies there would run; {change.format(folder)}")
    for parent in dict.fromkeys((*folder.absolute().parents, *Path(os.path.realpath(folder)).parents)):
        if (why := _why_exchangeable(os.stat(parent))) is not None:
            what, change = why
            raise RefusedFolderError(
                f"of the folder {parent}, in which it lies: {what}, and could put another in its place, of which what "
                f"lies there would run; {change.format(parent)}"
            )


def _why_exchangeable(found: os.stat_result) -> tuple[str, str] | None:
    """Why somebody else may exchange what lies in a folder that is found, and what to do about it; None if nobody."""
    why = why_not_ours(found)
    if why is None or found.st_uid not in (os.geteuid(), 0):
        return why
    others = found.st_mode & (0o002 if found.st_gid == os.geteuid() else 0o022)
    return why if others and not found.st_mode & stat.S_ISVTX else None


def why_not_ours(found: os.stat_result) -> tuple[str, str] | None:
    """Why somebody else may have written what is found, and what to do about it; None if it is our own."""
    if not hasattr(os, "geteuid"):  # a system where modes say nothing
        return None
    if found.st_uid not in (os.geteuid(), 0):
        return f"it belongs to another user (number {found.st_uid})", "give it to the user of this process (chown {})"
    if found.st_mode & 0o022:
        return f"others can write to it (mode {stat.S_IMODE(found.st_mode):04o})", "say `chmod go-w {}`"
    return None


def make_folder(folder: Path) -> None:
    """Makes a folder, and those that it lies in, for this user alone, whatever the umask. Errors: OSError."""
    missing = [folder]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for one in reversed(missing):
        try:
            os.mkdir(one, 0o700)
        except FileExistsError:  # it was there, or another process was first
            continue
        os.chmod(one, 0o700)


def write_file(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all, in a folder that is made if need be.

    Errors: OSError; RefusedFolderError.
    """
    make_folder(path.parent)
    check_folder(path.parent)
    replace_file(path, data, 0o600)


def replace_file(path: Path, data: bytes, mode: int) -> None:
    """Writes a file whole or not at all, which then has this mode. Errors: OSError."""
    temporary = path.with_name(f"{path.name[:16]}-{os.urandom(8).hex()}{PART}")
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            os.chmod(temporary, mode)
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


__all__ = [
    "PART",
    "RefusedError",
    "RefusedFolderError",
    "check_folder",
    "make_folder",
    "read_file",
    "replace_file",
    "why_not_ours",
    "write_file",
]
