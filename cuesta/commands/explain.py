"""Say what became of a model: kernels and the lines they came from, what did not fuse, memory, and where time goes."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import nullcontext, suppress
from dataclasses import fields
from typing import TYPE_CHECKING

from cuesta.model_files import DEFINES

if TYPE_CHECKING:
    from cuesta.explain.model import Explanation
    from cuesta.explain.witness import Witness

FEWEST_COLUMNS = 20
"""Source: in fewer, words are broken at every letter."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.description = (
        f"Compiles what a Python file defines, runs it, and says what became of it. {DEFINES}\n"
        "The exit status is 1 only where nothing could be found out."
    )
    parser.add_argument("file", help="the Python file that defines the model, or the folder of a graph's dump")
    parser.add_argument("--json", metavar="FILE", help="write everything there as JSON; - is standard output")
    parser.add_argument("--html", metavar="FILE", help="write a page to look at, which needs nothing but itself")
    parser.add_argument("--training", action="store_true", help="with its backward pass")
    parser.add_argument("--no-time", action="store_true", help="do not measure times: it runs once")
    parser.add_argument("--fresh", action="store_true", help="find out all of it again, whatever was kept")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="of torch.compile")
    parser.add_argument("--width", type=_columns, metavar="N", help="columns of the terminal")


def run(chosen: argparse.Namespace) -> int:
    """Explains the model. Errors: ModelFileError, OptionError, TerminalError, CuestaError, ParseError, OSError."""
    from cuesta.explain.files import check_place
    from cuesta.explain.terminal import require_rich

    shows = chosen.json != "-"
    if shows:
        require_rich()
    for written in (chosen.json, chosen.html):
        if written is not None and written != "-":
            check_place(written)
    options = dict(map(_option, chosen.option))
    is_dump = os.path.isdir(chosen.file) or chosen.file.endswith(".mlir")
    explanation = _of_dump(chosen.file) if is_dump else _of_model(chosen, options)
    if chosen.json is not None:
        from cuesta.explain.files import write_json

        write_json(explanation, chosen.json)
    if chosen.html is not None:
        from cuesta.explain.page import write_page

        write_page(explanation, chosen.html)
    if shows:
        from cuesta.explain.terminal import show

        show(explanation, sys.stdout, chosen.width)
    return 0 if explanation.graphs else 1


def _of_dump(path: str) -> Explanation:
    from cuesta.explain.records import explain_dump
    from cuesta.replaying.replay import ReplayError

    if os.path.isfile(path):
        raise ReplayError(f"{path} is one text: the folder of the whole dump is explained")
    return explain_dump(path)


def _of_model(chosen: argparse.Namespace, options: dict[str, object]) -> Explanation:
    from cuesta.explain.direct import Direct
    from cuesta.explain.witness import witnessed

    texts = bool(chosen.json or chosen.html)
    direct = Direct.of(chosen.file, (chosen.training, chosen.no_time, texts, *chosen.option))
    if direct is None:
        return _find_out(chosen, options, texts, None)[0]
    if not chosen.fresh and (unchanged := direct.load(chosen.file)) is not None:
        return unchanged
    with witnessed(direct.ours) as witness:
        explanation, names = _find_out(chosen, options, texts, witness)
    direct.keep(names, explanation, witness)
    return explanation


def _find_out(
    chosen: argparse.Namespace, options: dict[str, object], texts: bool, witness: Witness | None
) -> tuple[Explanation, tuple[str, ...]]:
    """The explanation of a file that is run; and the names under which it is kept."""
    from cuesta.collection import collection_paused
    from cuesta.model_files import read_model_file

    with collection_paused():  # a process that does nothing else: 0.6 s of imports and capture
        from cuesta.explain.explaining import explain_and_name

        with nullcontext() if witness is None else witness.file_runs():
            defined = read_model_file(chosen.file)
        return explain_and_name(
            defined.model,
            defined.inputs,
            defined.kwargs or {},
            training=chosen.training,
            time=not chosen.no_time,
            texts=texts,
            options=options,
            name=chosen.file,
            keep=True,
            fresh=chosen.fresh,
        )


def _columns(text: str) -> int:
    """The width of a terminal that tables fit into."""
    if not text.isdecimal() or int(text) < FEWEST_COLUMNS:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {FEWEST_COLUMNS} on")
    return int(text)


def _option(text: str) -> tuple[str, object]:
    """The name and the value of an option: what its default is, as far as a text can be that. Errors: OptionError."""
    from cuesta.options import OptionError, Options

    name, is_given, value = text.partition("=")
    if not is_given:
        raise OptionError(f"--option takes NAME=VALUE, not {text!r}")
    default = {one.name: one.default for one in fields(Options)}.get(name)
    if isinstance(default, tuple):
        return name, [one for one in value.split(",") if one]
    if isinstance(default, float):
        with suppress(ValueError):
            return name, float(value)
    return name, {"true": True, "false": False}.get(value.lower(), value)
