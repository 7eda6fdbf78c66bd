"""The command line: `cuesta package model.py -o model.cuesta`, `cuesta inspect model.cuesta`."""

from __future__ import annotations

import argparse
import json
import runpy
import sys
from collections.abc import Sequence
from typing import Any

PACKAGE = """\
Compiles what a Python file defines, and writes it to a package. The file defines

    model            a torch.nn.Module, a function, or what torch.export.export gives
    inputs           a tuple of positional arguments, or a list of such tuples
    kwargs           (if there are any) keyword arguments, a dictionary
    dynamic_shapes   (if there are any) as for torch.export.export
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; gives its exit status: 0, or 1 after a message on stderr."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    if chosen.command is None:
        parser.print_help()
        return 2
    from cuesta.packages.graph import PackageError

    try:
        return _package(chosen) if chosen.command == "package" else _inspect(chosen)
    except (PackageError, OSError) as error:
        print(f"cuesta {chosen.command}: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="cuesta", description="Programs that outlive the process that made them.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    package = commands.add_parser(
        "package",
        help="compile a model into one file",
        description=PACKAGE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    package.add_argument("file", help="the Python file that defines the model")
    package.add_argument("-o", "--output", required=True, metavar="FILE", help="the package")
    package.add_argument("--training", action="store_true", help="with its backward pass")
    package.add_argument("--texts", action="store_true", help="with the text of every level")
    package.add_argument("--device", action="append", default=[], metavar="DEVICE", help="for it; may be said again")
    package.add_argument("--weights", metavar="FILE", help="safetensors that have the model's weights already")
    inspect = commands.add_parser(
        "inspect", help="say what a package is and is for", description="Says what a package is."
    )
    inspect.add_argument("file", help="the package")
    inspect.add_argument("--json", action="store_true", help="its manifest")
    inspect.add_argument("--text", metavar="NAME", help="print a member of it: a text, by its name or a part of it")
    return parser


def _package(chosen: argparse.Namespace) -> int:
    from cuesta.packages.building import package
    from cuesta.packages.graph import PackageError

    defined: dict[str, Any] = runpy.run_path(chosen.file)
    for name in ("model", "inputs"):
        if name not in defined:
            raise PackageError(f"{chosen.file} defines no {name!r}\n\n{PACKAGE}")
    digest = package(
        defined["model"],
        defined["inputs"],
        chosen.output,
        kwargs=defined.get("kwargs"),
        dynamic_shapes=defined.get("dynamic_shapes"),
        training=chosen.training,
        devices=chosen.device,
        weights=chosen.weights,
        texts=chosen.texts,
    )
    print(f"{chosen.output}  sha256 {digest}")
    return 0


def _inspect(chosen: argparse.Namespace) -> int:
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
