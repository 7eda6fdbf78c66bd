"""What a run looked at outside itself, as data: files, folders, names that were not there; and whether all that is as
it was.

Of a file of the user's the contents count. Packages that are installed have thousands of files, which nobody edits in
place: there size, time of change and inode do, and of folders as much. What is larger than `LARGE` is told by those
numbers too, and by the time at which the system saw the last change, which no program can set.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.machinery
import os
import site
import stat
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, cast

LARGE: Final = 64 << 20
"""Bytes of a file whose contents are no longer read. Source: at 1 GB/s, a fifteenth of a second."""
_BYTECODE: Final = "__pycache__"
"""What Python writes there while it runs says nothing of a program."""

Numbers = tuple[int, ...]


class UnreadableSeenError(ValueError):
    """The data are not what `Seen.to_json` gave."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a run depended on, by absolute paths."""

    contents: Mapping[str, str] = field(default_factory=dict[str, str])
    """Files, and hashes of what they hold."""
    stats: Mapping[str, Numbers] = field(default_factory=dict[str, Numbers])
    """Files that are not read again, and `numbers_of` them."""
    absent: tuple[str, ...] = ()
    """What was looked for, and not there."""
    present: Mapping[str, int] = field(default_factory=dict[str, int])
    """What was there, and of what kind (`stat.S_IFMT`): folders, devices; what is in them does not matter."""
    links: Mapping[str, str] = field(default_factory=dict[str, str])
    """Symbolic links, and what they say."""
    listed: Mapping[str, tuple[str, Numbers]] = field(default_factory=dict[str, tuple[str, Numbers]])
    """Folders whose names were read: a hash of those, and the folder's own numbers where they are enough."""
    importable: Mapping[str, tuple[str, Numbers]] = field(default_factory=dict[str, tuple[str, Numbers]])
    """Folders that modules were looked for in: the same of what can be imported."""

    def __len__(self) -> int:
        return sum(len(getattr(self, one.name)) for one in fields(self))

    def changed(self) -> str | None:
        """The path of something that is not as it was; None if all of it is."""
        for path, known in self.contents.items():
            if content_of(path) != known:
                return path
        for path, numbers in self.stats.items():
            if not _has_numbers(path, numbers):
                return path
        for path in self.absent:
            if stat_of(path) is not None:
                return path
        for path, kind in self.present.items():
            if kind_of(stat_of(path)) != kind:
                return path
        for path, target in self.links.items():
            if target_of(path) != target:
                return path
        for importable, known_folders in ((False, self.listed), (True, self.importable)):
            for path, (names, numbers) in known_folders.items():
                if not (numbers and _has_numbers(path, numbers)) and names_in(path, importable=importable) != names:
                    return path
        return None

    def to_json(self) -> dict[str, Any]:
        """Dictionaries, lists, texts and numbers. Paths are grouped by their folders."""
        return {
            "contents": _grouped(self.contents),
            "stats": _grouped(self.stats),
            "absent": self.absent,
            "present": dict(self.present),
            "links": dict(self.links),
            "listed": dict(self.listed),
            "importable": dict(self.importable),
        }

    @classmethod
    def from_json(cls, data: Any) -> Seen:
        """The inverse of `to_json`. Errors: UnreadableSeenError."""
        try:
            if set(data) != {one.name for one in fields(cls)}:
                raise UnreadableSeenError("it has other fields")
            return cls(
                {path: _text(one) for path, one in _flat(data["contents"])},
                {path: _numbers(one, 3) for path, one in _flat(data["stats"])},
                tuple(_text(one) for one in data["absent"]),
                {_text(path): _number(kind) for path, kind in data["present"].items()},
                {_text(path): _text(target) for path, target in data["links"].items()},
                {_text(path): _listing(one) for path, one in data["listed"].items()},
                {_text(path): _listing(one) for path, one in data["importable"].items()},
            )
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise UnreadableSeenError(f"it does not read: {error}") from error


def stat_of(path: str) -> os.stat_result | None:
    """What the system says of a path; None where it says nothing."""
    try:
        return _stat(path)
    except (OSError, ValueError):
        return None


_stat = os.stat  # the system's own: `witness.py` puts another in its place for a while


def kind_of(found: os.stat_result | None) -> int:
    """The kind of what the system found, as `stat.S_IFMT` says it; 0 for nothing."""
    return 0 if found is None else stat.S_IFMT(found.st_mode)


def target_of(path: str) -> str | None:
    """What a symbolic link says; None for what is none."""
    try:
        return os.readlink(path)
    except (OSError, ValueError):
        return None


def numbers_of(path: str, found: os.stat_result) -> Numbers:
    """Size, time of change in ns, inode; and the system's own time, of what no installer brought."""
    numbers = (found.st_size, found.st_mtime_ns, found.st_ino)
    return numbers if is_installed(path) else (*numbers, found.st_ctime_ns)


def _has_numbers(path: str, numbers: Numbers) -> bool:
    found = stat_of(path)
    if found is None:
        return False
    return (found.st_size, found.st_mtime_ns, found.st_ino, found.st_ctime_ns)[: len(numbers)] == numbers


def content_of(path: str) -> str | None:
    """A hash of a file's contents; None where there is no such file, or it is none."""
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except (OSError, ValueError, MemoryError):
        return None


def names_in(path: str, *, importable: bool) -> str | None:
    """A hash of the names in a folder, and of which of them are folders; None where it cannot be read. Of what is
    `importable`: names that modules and packages may have.
    """
    try:
        with os.scandir(path) as entries:
            found = sorted((entry.name, entry.is_dir()) for entry in entries)
    except OSError:
        return None
    told = [one for one in found if one[0] != _BYTECODE and (not importable or may_be_module(*one))]
    return hashlib.sha256(repr(told).encode("utf-8", "surrogatepass")).hexdigest()


_SUFFIXES: Final = tuple(importlib.machinery.all_suffixes())


def may_be_module(name: str, is_folder: bool) -> bool:
    """Whether an import may mean what has this name."""
    return (is_folder and name.isidentifier() and name != _BYTECODE) or name.endswith(_SUFFIXES)


@functools.cache
def installed_folders() -> tuple[str, ...]:
    """Where Python and its packages lie, each with a separator at its end."""
    found = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    found += [os.path.dirname(os.__file__), *site.getsitepackages()]
    return tuple(dict.fromkeys(os.path.join(one, "") for one in found if one))


def is_installed(path: str) -> bool:
    """Whether a path belongs to Python, or to a package that an installer brought."""
    return path.startswith(installed_folders())


def _grouped(paths: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for path, one in paths.items():
        folder, name = os.path.split(path)
        found.setdefault(folder, {})[name] = one
    return found


def _flat(data: Any) -> Iterable[tuple[str, Any]]:
    for folder, names in data.items():
        for name, one in names.items():
            yield os.path.join(folder, name), one


def _text(one: Any) -> str:
    if not isinstance(one, str):
        raise UnreadableSeenError(f"{one!r} is no text")
    return one


def _number(one: Any) -> int:
    if type(one) is not int:
        raise UnreadableSeenError(f"{one!r} is no number")
    return one


def _numbers(one: Any, fewest: int) -> Numbers:
    numbers = cast("list[Any]", one)
    if not isinstance(one, list) or len(numbers) < fewest or not all(type(number) is int for number in numbers):
        raise UnreadableSeenError(f"{one!r} are no numbers of a file")
    return tuple(numbers)


def _listing(one: Any) -> tuple[str, Numbers]:
    names, numbers = one
    return _text(names), _numbers(numbers, 0)


__all__ = ["LARGE", "Seen", "UnreadableSeenError"]
