"""Say what a package is, and what it is for."""

from __future__ import annotations

import argparse
import json
import sys


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("file", help="the package")
    parser.add_argument("--json", action="store_true", help="its manifest")
    parser.add_argument("--text", metavar="NAME", help="print a member of it: a text, by its name or a part of it")


def run(chosen: argparse.Namespace) -> int:
    """Prints what is asked for. Errors: PackageError, OSError."""
    from cuesta.packages.container import read_container
    from cuesta.packages.graph import PackageError
    from cuesta.packages.inspecting import described

    container = read_container(chosen.file, trusted=True)  # nothing of it runs
    if chosen.text is not None:
        found = [name for name in container.members if chosen.text in name]
        if len(found) != 1:
            there = ", ".join(found or [name for name in container.members if name.startswith("texts/")])
            raise PackageError(
                f"{chosen.text!r} is in the names of {len(found)} members; there are {there or 'no texts'}"
            )
        sys.stdout.write(container.members[found[0]].decode("utf-8", "replace"))
    elif chosen.json:
        print(json.dumps(container.manifest, indent=1))
    else:
        sys.stdout.write(described(container))
    return 0
