"""The file of a package: a zip archive of a manifest, programs and small tensors. No pickles, nothing compressed.

    manifest.json           what the package is, is for, and the SHA-256 of every other member
    programs/0.forward      a compiled pass, as the cache has it (`caching/entry.py`)
    programs/0.backward
    constants.safetensors   tensors that programs hold
    texts/…                 the text of every level, if it was asked for

What is in it runs. So it is read as the cache's files are: a package that somebody else could have written is refused,
unless the caller says that he trusts it, or knows its digest.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from cuesta import __version__
from cuesta.caching.files import replace_file, why_not_ours
from cuesta.packages.graph import PackageError

FORMAT = 2
"""Of the manifest and the programs: a package of another is refused."""
MANIFEST = "manifest.json"
_DATE = (1980, 1, 1, 0, 0, 0)
"""Of every member, so that equal programs are equal files: the first that a zip archive can say."""


def packed(manifest: Mapping[str, Any], members: Mapping[str, bytes]) -> bytes:
    """The bytes of a package."""
    head = {
        "format": FORMAT,
        "cuesta": __version__,
        **manifest,
        "members": {name: hashlib.sha256(data).hexdigest() for name, data in members.items()},
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in ((MANIFEST, json.dumps(head, indent=1).encode()), *members.items()):
            archive.writestr(zipfile.ZipInfo(name, _DATE), data)
    return buffer.getvalue()


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file that everybody may read, whole or not at all. Errors: PackageError."""
    try:
        replace_file(path, data, 0o644)
    except OSError as error:
        raise PackageError(f"{path} cannot be written: {error.strerror}") from error


class Container:
    """The contents of a package, checked against what its manifest says. `path` is for messages, and for what lies
    beside it.

    Errors: PackageError, for all that is wrong with it.
    """

    def __init__(self, data: bytes, path: Path) -> None:
        self.path = path
        self.size = len(data)
        self.digest = hashlib.sha256(data).hexdigest()
        """The file's SHA-256."""
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                self.members = {name: archive.read(name) for name in archive.namelist()}
            self.manifest: Mapping[str, Any] = json.loads(self.members.pop(MANIFEST))
            self._check()
        except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise PackageError(f"{self.path} is no package, or damaged: {error!r}") from error
        except (zipfile.BadZipFile, NotImplementedError, EOFError, OSError) as error:
            raise PackageError(f"{self.path} is no package, or damaged: {error}") from error

    def _check(self) -> None:
        if self.manifest["format"] != FORMAT or self.manifest["cuesta"] != __version__:
            raise PackageError(
                f"{self.path} was made by Cuesta {self.manifest['cuesta']} (format {self.manifest['format']}), and "
                f"this is Cuesta {__version__} (format {FORMAT}): make it again"
            )
        said = cast("Mapping[str, str]", self.manifest["members"])
        for name, data in self.members.items():
            if hashlib.sha256(data).hexdigest() != said[name]:
                raise PackageError(f"{self.path} is damaged: the checksum of {name} is wrong")
        if missing := set(said) - set(self.members):
            raise PackageError(f"{self.path} is damaged: {min(missing)} is missing")


def read_container(path: str | os.PathLike[str], *, trusted: bool = False, digest: str | None = None) -> Container:
    """A package from its file, which is refused where somebody else could have written it, unless it is `trusted` or
    has the digest that is given.

    Errors: PackageError.
    """
    place = Path(path)
    found = Container(_read(place, trusted=trusted or digest is not None), place)
    if digest is not None and found.digest != digest.lower():
        raise PackageError(f"{place} has the digest {found.digest}, not {digest}")
    return found


_OPEN = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""Who opens a FIFO does not wait for somebody to write to it."""


def _read(path: Path, *, trusted: bool) -> bytes:
    try:
        with open(path, "rb", opener=lambda name, _: os.open(name, _OPEN)) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise PackageError(f"{path} is no regular file")
            if not trusted and (why := why_not_ours(found)) is not None:
                what, change = why
                raise PackageError(
                    f"{path}: {what}, and what it holds would run; {change.format(path)}, or say `digest=…` or "
                    "`trusted=True` to load_package"
                )
            return file.read()
    except OSError as error:
        raise PackageError(f"{path} cannot be read: {error.strerror}") from error
