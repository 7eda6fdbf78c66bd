"""`_foreach_*` overloads taken apart: what each does to one tensor of its lists.

    _foreach_NAME.…(xs, ys, s)  ->  NAME.…(x, y, s) for each x of xs, y of ys

What eager says of them, too. So nothing below knows of lists, and fusion sees the operators of one tensor side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import torch
from torch._ops import OpOverload

from cuesta.dialects.core.structs import struct

_PREFIX: Final = "aten::_foreach_"

_OTHER_NAMES: Final = {
    "maximum": "clamp_min",
    "minimum": "clamp_max",
    "norm": "linalg_vector_norm",
    "powsum": "linalg__powsum",
}
"""The operators of one tensor that are called otherwise.

Source: ATen's native_functions.yaml, ForeachOpsKernels.cpp.
"""

_OF_LISTS: Final = {"List[Tensor]": "Tensor", "List[number]": "number"}
"""The types of what holds an element for each tensor, and of the element."""


@struct
class OfEach:
    """An overload of lists, as that of one tensor."""

    overload: OpOverload[..., Any]
    names: tuple[str, ...]
    """The arguments of the overload of lists, by position."""
    keywords: tuple[str, ...]
    """For each of them, by which keyword the overload of one tensor takes it; empty: by position."""
    listed: tuple[bool, ...]
    """For each of them, whether there is an element of it for every tensor."""

    def calls(
        self, arguments: Sequence[Any], keywords: Mapping[str, Any], count: int
    ) -> Iterator[tuple[list[Any], dict[str, Any]]]:
        """The arguments and keyword arguments of the call for every tensor, of `count`."""
        given = dict(enumerate(arguments)) | {self.names.index(name): value for name, value in keywords.items()}
        parts = [(self.keywords[place], self.listed[place], given[place]) for place in sorted(given)]
        for number in range(count):
            chosen = [(keyword, value[number] if listed else value) for keyword, listed, value in parts]
            yield [value for keyword, value in chosen if not keyword], {key: value for key, value in chosen if key}


@cache
def of_each(overload: OpOverload[..., Any]) -> OfEach | None:
    """What an overload does to each tensor of its lists; None of one that is no `_foreach_*` that gives its results,
    or does what no overload of one tensor does.
    """
    schema: Any = overload._schema  # pyright: ignore[reportPrivateUsage]  # the schema has no public name
    if not schema.name.startswith(_PREFIX) or schema.is_mutable:
        return None
    name: str = schema.name.removeprefix(_PREFIX)
    packet: Any = getattr(torch.ops.aten, _OTHER_NAMES.get(name, name), None)
    if packet is None:
        return None
    for candidate in packet.overloads():
        single = getattr(packet, candidate)
        keywords = _keywords(schema, single._schema)
        if keywords is not None:
            names = tuple(argument.name for argument in schema.arguments)
            listed = tuple(str(argument.type) in _OF_LISTS for argument in schema.arguments)
            return OfEach(single, names, keywords, listed)
    return None


def _keywords(schema: Any, single: Any) -> tuple[str, ...] | None:
    """How the overload of one tensor takes every argument; None when it takes other ones.

    Arguments correspond by name, or else by position, and are of one type; all others have defaults.
    """
    formals = {formal.name: formal for formal in single.arguments}
    positional = [formal.name for formal in single.arguments if not formal.kwarg_only]
    by_position = list(formals)
    taken: dict[str, str] = {}
    for place, argument in enumerate(schema.arguments):
        opposite = argument.name if argument.name in formals else "".join(by_position[place : place + 1])
        kind = str(argument.type)
        if not opposite or opposite in taken or str(formals[opposite].type) != _OF_LISTS.get(kind, kind):
            return None
        taken[opposite] = "" if positional[place : place + 1] == [opposite] else opposite
    if any(name not in taken and not formal.has_default_value() for name, formal in formals.items()):
        return None
    return tuple(taken.values())
