"""Say what became of a program between two texts, op by op, or at each stage of a dump."""

from __future__ import annotations

import argparse
import difflib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

EXAMPLES = """\
examples:
  cuesta diff before.mlir after.mlir
  cuesta diff levels/000_inference           one line for each stage of a dump
  cuesta diff levels/000_inference 05 11     between the texts with these numbers
  cuesta diff levels/000_inference fuse-nests    what one stage did

= kept, > moved, ~ changed, + added, - removed. What values are called makes no difference.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.epilog = EXAMPLES
    parser.add_argument("texts", nargs="+", metavar="TEXT", help="two texts; or the folder of a dump, with numbers")
    parser.add_argument("--every", action="store_true", help="a line for each op")
    parser.add_argument("--load", action="append", default=[], metavar="FILE.py", help="a file that defines extensions")


def run(chosen: argparse.Namespace) -> int:
    """Prints the difference. Gives 0 whatever it is. Errors: ReplayError, CuestaError, ParseError, OSError."""
    from cuesta.extensions import extended, load_file

    with extended(*(found for file in chosen.load for found in load_file(file))):
        return _run(chosen.texts, every=chosen.every)


def _run(given: list[str], *, every: bool) -> int:
    from cuesta.replaying.diffing import compare_programs, lines_of
    from cuesta.replaying.replay import ReplayError, text_in, texts_in

    first = Path(given[0])
    if first.is_dir():
        texts = texts_in(text_in(first).parent)
        if len(given) == 1:
            return _stages(texts)
        pair = _chosen(given[1:], texts)
    elif len(given) == 2:
        pair = text_in(given[0]), text_in(given[1])
    else:
        raise ReplayError("two texts are compared, or those in the folder of a dump")
    difference = compare_programs(_read(pair[0]), _read(pair[1]))
    print(f"{pair[0].name} → {pair[1].name}: {difference.summary()}")
    for line in lines_of(difference, colours=sys.stdout.isatty(), every=every) if not difference.is_empty else ():
        print(line)
    return 0


def _stages(texts: list[Path]) -> int:
    from cuesta.replaying.diffing import compare_programs

    before = _read(texts[0])
    width = max(len(one.stem) for one in texts)
    print(f"{texts[0].stem:{width}}  {sum(1 for _ in before.walk()) - 1} ops")
    for text in texts[1:]:
        after = _read(text)
        print(f"{text.stem:{width}}  {compare_programs(before, after).summary()}", flush=True)
        before = after
    return 0


def _chosen(wanted: list[str], texts: list[Path]) -> tuple[Path, Path]:
    """The texts that numbers or names of stages mean; of one, the text before it and it. Errors: ReplayError."""
    from cuesta.replaying.replay import ReplayError

    found: list[int] = []
    for one in wanted:
        meant = [
            at
            for at, text in enumerate(texts)
            if (one.isdecimal() and int(text.name[:2]) == int(one)) or text.stem[3:] == one
        ]
        if len(meant) != 1:
            raise ReplayError(_unclear(one, [texts[at] for at in meant], texts))
        found.append(meant[0])
    if len(found) == 1:
        if found[0] == 0:
            raise ReplayError(f"{texts[0].stem} is the first text: nothing comes before it")
        return texts[found[0] - 1], texts[found[0]]
    if len(found) != 2:
        raise ReplayError("two texts of a dump are compared, or one with the one before it")
    return texts[found[0]], texts[found[1]]


def _unclear(wanted: str, meant: list[Path], texts: list[Path]) -> str:
    folder = texts[0].parent
    if meant:
        return f"{wanted!r} means {len(meant)} texts: say which of {', '.join(text.stem for text in meant)}"
    if Path(wanted).exists():
        return f"{folder} is a dump: of it and {wanted} say which texts, such as {texts[0]}"
    close = difflib.get_close_matches(wanted, [text.stem[3:] for text in texts], n=1)
    suggestion = f"did you mean {close[0]!r}? " if close else ""
    return f"{folder} has no text {wanted!r}: {suggestion}`cuesta diff {folder}` names all of them"


def _read(path: Path) -> ModuleOp:
    from cuesta.context import make_context
    from cuesta.programs.loading import read_text
    from cuesta.programs.texts import parse_text

    return parse_text(make_context(), read_text(path), str(path))
