"""Compiled graphs on disk: one file an entry, named by its key, so that a second process need not compile.

    CUESTA_CACHE=0          no cache (so does the option cache=False)
    CUESTA_CACHE_DIR=DIR    where it lies; otherwise $XDG_CACHE_HOME/cuesta or ~/.cache/cuesta
    CUESTA_CACHE_SIZE=N     how many MiB it may take; otherwise 1024

Any number of processes may use one folder: an entry appears under its name whole or not at all, whoever comes later
replaces it by an equal one, and a file that another process removed is no surprise. Nothing that goes wrong here
stops a compilation: it goes on without the cache, with one warning. So it does where somebody else could have written
what would run (`files.py`).
"""

from __future__ import annotations

import os
import stat
import time
import warnings
from contextlib import suppress
from pathlib import Path

from cuesta.caching.entry import DamagedEntryError, Entry, decode, encode
from cuesta.caching.files import PART, RefusedError, RefusedFolderError, read_file, write_file
from cuesta.dialects.core.structs import struct
from cuesta.options import OptionError, Options

DEFAULT_MEBIBYTES = 1024
_SUFFIX = ".graph"
_ABANDONED_SECONDS = 3600
"""After so long, a file that is still half-written belongs to a process that is no more."""

_warned: set[str] = set()
"""The folders of which the user has been told that they are not used, or cannot be written."""


@struct
class DiskCache:
    """A folder of entries, of at most `limit` bytes in all."""

    folder: Path
    limit: int

    @classmethod
    def chosen_by(cls, options: Options) -> DiskCache | None:
        """The cache that options and environment ask for; None when it is off.

        Errors: OptionError for an environment variable that cannot be understood.
        """
        if not options.cache or not _is_on():
            return None
        limit = _limit()
        try:
            return cls(_root() / "graphs", limit)
        except RuntimeError as error:  # nobody knows where the user is at home
            _warn_once("~", f"there is no place for compiled graphs: {error}; set CUESTA_CACHE_DIR or CUESTA_CACHE=0")
            return None

    def path(self, key: str) -> Path:
        """The file of an entry."""
        return self.folder / f"{key}{_SUFFIX}"

    def load(self, key: str) -> Entry | None:
        """The entry, which counts as used now; None when there is none, or none that is sound and our own.

        No entry is larger than the cache may be in all: such a one is not stored either.
        """
        path = self.path(key)
        try:
            data = read_file(path, self.limit)
            entry = decode(key, data)
        except RefusedFolderError as error:
            warn_of_folder(self.folder, error)
            return None
        except OSError:
            return None
        except (RefusedError, MemoryError) as error:
            self.discard(key, str(error) or "it does not fit into memory", "not used")
            return None
        except DamagedEntryError as error:
            self.discard(key, error)
            return None
        _record_artifact(key, data)
        with suppress(OSError):  # removed by another process just now, or a folder that we may only read
            os.utime(path)
        return entry

    def discard(self, key: str, reason: object, what: str = "damaged") -> None:
        """Removes an entry that is no good, and says so."""
        path = self.path(key)
        with suppress(OSError):  # if it cannot be replaced either, storing says so
            path.unlink(missing_ok=True)
        why = str(reason).partition("\n")[0]
        warnings.warn(
            f"cuesta: the cache entry {path} is {what} ({why}); the graph is compiled again, and the entry replaced",
            stacklevel=2,
        )

    def store(self, key: str, entry: Entry) -> None:
        """Keeps an entry, and removes those that have not been used for longest while there is too much."""
        try:
            data = encode(key, entry)
            if len(data) > self.limit:
                return
            write_file(self.path(key), data)
            _record_artifact(key, data)
            shrink(self.folder, _SUFFIX, self.limit)
        except RefusedFolderError as error:
            warn_of_folder(self.folder, error)
        except (OSError, MemoryError) as error:
            _warn_once(
                str(self.folder),
                f"compiled graphs are not kept: {self.folder} cannot be written "
                f"({getattr(error, 'strerror', None) or str(error) or 'no memory'}); "
                "set CUESTA_CACHE_DIR to a folder that can, or CUESTA_CACHE=0",
            )


def _record_artifact(key: str, data: bytes) -> None:
    from cuesta.caching.artifacts import record_artifact

    record_artifact(key, data)


def warn_of_folder(folder: Path, error: RefusedFolderError) -> None:
    """Says once that a folder is not used, and what to change."""
    _warn_once(
        str(folder),
        f"nothing is taken from {folder}, nor kept there: {error}, or set CUESTA_CACHE_DIR to a folder of your own, "
        "or CUESTA_CACHE=0",
    )


def shrink(folder: Path, suffix: str, limit: int) -> None:
    """Removes the files with a suffix that are larger than `limit` bytes, and those least recently used until the rest
    is within it, and what crashes left behind. Errors: OSError.
    """
    entries: list[tuple[float, int, str]] = []
    now = time.time()
    with os.scandir(folder) as files:
        for file in files:
            if not file.name.endswith((suffix, PART)):
                continue
            try:
                found = file.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISDIR(found.st_mode):
                continue
            if file.name.endswith(suffix):
                entries.append((found.st_mtime, found.st_size, file.path))
            elif now - found.st_mtime > _ABANDONED_SECONDS:
                Path(file.path).unlink(missing_ok=True)
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries, key=lambda entry: (entry[1] <= limit, entry)):
        if total <= limit:
            break
        Path(path).unlink(missing_ok=True)
        total -= size


def _is_on() -> bool:
    value = os.environ.get("CUESTA_CACHE", "1").strip().lower()
    if value in ("", "1", "on", "true", "yes"):
        return True
    if value in ("0", "off", "false", "no"):
        return False
    raise OptionError(f"the environment variable CUESTA_CACHE is 1 (on) or 0 (off), not {value!r}")


def _limit() -> int:
    value = os.environ.get("CUESTA_CACHE_SIZE", "").strip() or str(DEFAULT_MEBIBYTES)
    if not (value.isascii() and value.isdigit()):
        raise OptionError(f"the environment variable CUESTA_CACHE_SIZE is a whole number of MiB, not {value!r}")
    return int(value) * 2**20


def _root() -> Path:
    chosen = os.environ.get("CUESTA_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    if shared and os.path.isabs(shared):  # as its specification says
        return Path(shared) / "cuesta"
    return Path.home() / ".cache" / "cuesta"


def _warn_once(place: str, message: str) -> None:
    if place not in _warned:
        _warned.add(place)
        warnings.warn(f"cuesta: {message}", stacklevel=4)
