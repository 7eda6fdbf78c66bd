"""Our own sources as files: where they lie, and a hash of them. Nothing of torch is imported for it."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Iterator

_FOLDERS = ("dialects", "transforms", "lowering", "targets")


def source_folders() -> Iterator[tuple[str, str]]:
    """The packages of ours, and the folders that they lie in."""
    for package in ("cuesta", *(f"cuesta.{folder}" for folder in _FOLDERS)):
        specification = importlib.util.find_spec(package)
        for root in (specification and specification.submodule_search_locations) or ():
            yield package, root


def hash_of_sources() -> str | None:
    """A hash of all our files: contents, because dates and sizes lie (archives, rsync), at 3 ms once in a process. None
    where there are no files (a package inside an archive).
    """
    digest = hashlib.sha256()
    walked: set[str] = set()
    number = 0
    for package, root in source_folders():
        for folder, inner, names in os.walk(root, followlinks=True):  # `build/links/` has nothing else
            place = os.path.realpath(folder)
            if place in walked:  # installed, the folders lie in `cuesta`; in a checkout, beside it
                inner.clear()
                continue
            walked.add(place)
            inner[:] = sorted(name for name in inner if name != "__pycache__")
            for name in sorted(names):
                path = os.path.join(folder, name)
                try:
                    with open(path, "rb") as file:
                        contents = file.read()
                except OSError:  # a file that an editor puts down and takes away again
                    continue
                digest.update(f"{package} {os.path.relpath(path, root)} {len(contents)}\n".encode())
                digest.update(contents)
                number += 1
    return digest.hexdigest() if number else None


__all__ = ["hash_of_sources", "source_folders"]
