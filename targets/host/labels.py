"""What a profiler is told of the functions of a wrapper that launch kernels; see `profiled.py`."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import LocationAttr

from cuesta.dialects.core.locations import origin_of, source_lines
from cuesta.targets.program import Label


class Labels:
    """The labels of a wrapper's functions: the kernels that each launches, and where in the model they come from."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[tuple[str, ...], dict[LocationAttr, None]]] = {}

    def add(self, function: str, kernels: Iterable[str], locations: Iterable[LocationAttr]) -> None:
        """A call of a function. What it does for one layer, it may do for all that are alike."""
        self._found.setdefault(function, (tuple(kernels), {}))[1].update(dict.fromkeys(locations))

    def all(self) -> tuple[Label, ...]:
        """The labels, with the lines of the model."""
        return tuple(Label(name, kernels, _lines(locations)) for name, (kernels, locations) in self._found.items())


def _lines(locations: Iterable[LocationAttr]) -> tuple[str, ...]:
    found = (place for location in locations for place in source_lines(origin_of(location)))
    return tuple(dict.fromkeys(f"{file}:{line}" for file, line in found))
