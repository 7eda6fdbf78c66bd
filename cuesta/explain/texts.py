"""The text of a program at a level, each line with the lines of the model that it comes from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Operation, SSAValue

from cuesta.dialects.core.locations import located_text
from cuesta.explain.model import LevelText, TextLine
from cuesta.explain.provenance import Sources, lines_of, nodes_of

_LOCATION = re.compile(r" ?loc\((#at\d+)\)$")


def level_text(
    name: str, after: str, ops: Iterable[Operation], sources: Sources, nodes: Mapping[int, int]
) -> tuple[LevelText, dict[SSAValue, str]]:
    """The text of ops, and what it calls values. A line that opens a body has the sources of what it opens.

    `nodes` gives the position of each node, by its number.
    """
    body, aliases, names = located_text(ops)
    known: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}
    lines: list[str] = []
    found: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
    opened: list[int] = []
    for number, line in enumerate(body.splitlines(), 1):
        stripped = line.lstrip()
        match = _LOCATION.search(line)
        beginning = opened.pop() if stripped.startswith("}") and opened else None
        if match is not None:
            line = line[: match.start()]
            alias = match[1]
            if alias not in known:
                where = aliases[alias]
                known[alias] = sources.of(_lines(where)), tuple(nodes[one] for one in nodes_of(where) if one in nodes)
            for place in (number, beginning):
                if place is not None and any(known[alias]):
                    found[place] = known[alias]
        if line.endswith("{"):
            opened.append(number)
        lines.append(line)
    rows = tuple(TextLine(number, *found[number]) for number in sorted(found))
    return LevelText(name, after, "mlir", "\n".join(lines) + "\n", rows), names


def _lines(location: LocationAttr) -> list[tuple[str, int]]:
    return list(lines_of(location))
