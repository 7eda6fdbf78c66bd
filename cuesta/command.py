"""The command line: `cuesta COMMAND …`. Its commands are the modules of `cuesta.commands`."""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import pkgutil
import sys
import warnings
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import TextIO

DESCRIPTION = "See what becomes of a PyTorch model, and keep it. `cuesta COMMAND --help` says more of a command."


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; gives its exit status: 0, 1 after a message on stderr, or 2 when the command itself is wrong."""
    parser = argparse.ArgumentParser(prog="cuesta", description=DESCRIPTION)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    known = {module.__name__.rsplit(".", 1)[1].replace("_", "-"): module for module in _modules()}
    for name, module in known.items():
        said = (module.__doc__ or "").strip().splitlines()[0]
        one = commands.add_parser(
            name, help=said, description=said, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        module.arguments(one)
    chosen = parser.parse_args(arguments)
    if chosen.command is None:
        parser.print_help()
        return 2
    try:
        status = known[chosen.command].run(chosen)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # Who reads the output has seen enough. What is left in the buffer goes nowhere, or Python would tell of it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if not _is_told(error):
            raise
        print(f"cuesta {chosen.command}: {error}", file=sys.stderr)
        return 1


def program() -> int:
    """The command as a process of its own, which ends with it: `main`.

    What lives until then is not looked through for cycles once more before the process ends: with torch in it that
    takes 0.8 s, and gives nobody memory. What we warn of is told in one line, and not with the line of our source.
    """
    warnings.showwarning = show_warning
    status = main()
    gc.freeze()
    return status


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """As `warnings.showwarning`; of what we warn of only what it says."""
    text = str(message)
    if text.startswith("cuesta") or filename.startswith(_OURS):
        told = f"cuesta: warning: {text.removeprefix('cuesta: ')}\n"
    else:
        told = warnings.formatwarning(message, category, filename, lineno, line)
    print(told, end="", file=sys.stderr if file is None else file)


_OURS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")


def _modules() -> Iterator[ModuleType]:
    from cuesta import commands

    for found in pkgutil.iter_modules(commands.__path__):
        yield importlib.import_module(f"cuesta.commands.{found.name}")


def _is_told(error: Exception) -> bool:
    """Whether an error is one of ours, or of the system, that says by itself what is wrong. Others are faults, of ours
    or of the file that was run, and need their traceback.
    """
    if isinstance(error, OSError):
        return True
    return type(error).__module__.startswith("cuesta.") or type(error).__name__ == "ParseError"
