"""Which nodes of the FX graph, and which nests, an op of the final program comes from.

Passes carry locations to the end, and keep those of everything that is merged. While a program is explained, each
location says more than a line, in its column, which captured programs leave at 0: the number of the node, from 1. Of
a launch it also says the nest, as a line of a file that there is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, LocationAttr, ModuleOp, StringAttr, UnknownLoc
from xdsl.ir import Operation

from cuesta.dialects.core.locations import fuse_locations, origin_of, places_of
from cuesta.explain.model import SourceLine

NEST = "<nest>"
"""The file whose lines are nests."""
NOWHERE = "<graph>"
"""The file of nodes that no line of the model asked for."""


class Sources:
    """The lines that a graph's program came from, each once."""

    def __init__(self) -> None:
        self.number: dict[tuple[str, int], int] = {}
        self._texts: dict[str, list[str]] = {}

    def of(self, places: Iterable[tuple[str, int]]) -> tuple[int, ...]:
        """The positions of lines, each once, in order; those that no file has are left out."""
        kept = (place for place in places if place[0] not in (NEST, NOWHERE))
        return tuple(dict.fromkeys(self.number.setdefault(place, len(self.number)) for place in kept))

    def lines(self) -> tuple[SourceLine, ...]:
        """All that were asked for, with their texts."""
        return tuple(SourceLine(file, line, self.text(file, line)) for file, line in self.number)

    def text(self, file: str, line: int) -> str:
        """A line of a file; empty where there is no such file or line."""
        if file not in self._texts:
            try:
                with open(file, encoding="utf-8", errors="replace") as stream:
                    self._texts[file] = stream.read().splitlines()
            except (OSError, ValueError):
                self._texts[file] = []
        lines = self._texts[file]
        return lines[line - 1].strip() if 0 < line <= len(lines) else ""


def stamp_nodes(ops: Iterable[Operation], first: int) -> list[Operation]:
    """Gives the ops of a captured program their numbers, from `first` on; gives those that were numbered."""
    numbered: list[Operation] = []
    for op in ops:
        place = next(places_of(origin_of(op.location)), None)
        file, line, _ = place or (NOWHERE, 0, 0)
        numbered.append(op)
        op.location = _location(file, line, first + len(numbered))
    return numbered


def stamp_nest(op: Operation, inside: Iterable[LocationAttr], nest: int) -> None:
    """Lets a launch know its nest, and every location that is in it."""
    op.location = fuse_locations(op.location, *inside, _location(NEST, nest, 0))


def _location(file: str, line: int, column: int) -> FileLineColLoc:
    return FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(column))


def locations_in(op: Operation) -> Iterator[LocationAttr]:
    """The distinct locations of an op and all in it."""
    yield from dict.fromkeys(one.location for one in op.walk() if not isinstance(one.location, UnknownLoc))


def lines_of(location: LocationAttr) -> Iterator[tuple[str, int]]:
    """The lines of a model that a location names."""
    for file, line, _ in places_of(location):
        if file not in (NEST, NOWHERE):
            yield file, line


def nodes_of(location: LocationAttr) -> list[int]:
    """The numbers of the nodes that a location names, each once, in order."""
    return sorted({column for file, _, column in places_of(location) if file != NEST and column > 0})


def nests_of(location: LocationAttr) -> list[int]:
    """The nests that a location names."""
    return sorted({line for file, line, _ in places_of(location) if file == NEST})


def module_ops(module: ModuleOp) -> Iterator[Operation]:
    """All ops of a program, those of its pieces too, but the functions and modules themselves."""
    return (op for op in module.walk() if op is not module and not op.regions)
