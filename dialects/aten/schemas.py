"""ATen schemas without torch: what every overload's arguments and results are called, and of what kind they are.

The table `schemas.json` is written by `scripts/generate_aten_schemas.py`. It is read when the first schema is
asked for (about a millisecond), and each schema is parsed when it is asked for (about 20 µs).
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, TypeAlias, TypedDict, cast

from cuesta.dialects.core.structs import struct

Default: TypeAlias = "bool | int | float | str | tuple[Default, ...] | None"
"""An argument's default. dtypes and memory formats are written `torch.int64`, `torch.contiguous_format`."""


class Required:
    """The type of `REQUIRED`, the default of an argument that has none."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = Required()


@struct
class Argument:
    """One argument of an overload, or one result of it (then `name` may be empty, and there is no default)."""

    name: str
    type: str
    """The type as ATen writes it, less aliasing and list sizes: `Tensor`, `Tensor?[]`, `SymInt[]?`, `ScalarType?`."""
    default: Default | Required = REQUIRED
    keyword_only: bool = False
    alias: str = ""
    """`a` when it shares memory with whatever else carries `a`; `a!` when it is written to."""

    @property
    def element(self) -> str:
        """`Tensor` for `Tensor?[]`, `int` for `int[]?`."""
        return self.type.rstrip("?[]")

    @property
    def is_list(self) -> bool:
        """Whether the argument takes a list."""
        return "[]" in self.type

    @property
    def may_be_none(self) -> bool:
        """Whether None may be given for the argument as a whole (not just for an element of a list)."""
        return self.type.endswith("?")

    @property
    def elements_may_be_none(self) -> bool:
        """Whether None may stand in the list."""
        return "?[" in self.type


@struct
class Schema:
    """What is known of one overload.

    `overload` is its name as our dialects write it: `aten.add.Tensor`, or `prims::iota.default` outside ATen.
    """

    overload: str
    arguments: tuple[Argument, ...]
    results: tuple[Argument, ...]
    random: bool
    """Whether the overload draws from the generator, so that neither its order nor its number may change."""
    positions: Mapping[str, int] = field(repr=False, compare=False)
    """Index into `arguments` by name."""
    mutates: bool = field(repr=False, compare=False)
    """Whether the overload writes to one of its arguments."""
    is_view: bool = field(repr=False, compare=False)
    """Whether a result shares memory with an argument that is only read."""

    def argument(self, name: str) -> Argument | None:
        """The argument of that name, if there is one."""
        position = self.positions.get(name)
        return None if position is None else self.arguments[position]

    @property
    def positional(self) -> int:
        """How many arguments may be given by position."""
        return sum(not argument.keyword_only for argument in self.arguments)

    @property
    def is_pure(self) -> bool:
        """Whether an unused call may be dropped and two equal calls may become one."""
        return bool(self.results) and not self.random and not self.mutates


class Table(TypedDict):
    """The layout of schemas.json; signatures are texts, by overload name."""

    torch: str
    """The version of torch that the table was written with."""
    random: list[str]
    operations: dict[str, str]
    """Overloads that have an operation of their own in the dialect."""
    calls: dict[str, str]
    """Overloads that are written with `aten.call`."""


@cache
def load_table() -> Table:
    """The table as it stands in the file."""
    return cast(Table, json.loads((Path(__file__).parent / "schemas.json").read_bytes()))


def canonical_name(overload: str) -> str:
    """The name of an overload in the table: `aten::add.Tensor` is `aten.add.Tensor`; others stay as they are."""
    return "aten." + overload[6:] if overload.startswith("aten::") else overload


@lru_cache(maxsize=8192)
def lookup(overload: str) -> Schema | None:
    """The schema of an overload (`aten.add.Tensor`, `prims::iota.default`), if the table knows it."""
    table = load_table()
    overload = canonical_name(overload)
    signature = table["operations"].get(overload) or table["calls"].get(overload)
    return None if signature is None else parse_signature(overload, signature, random=is_random(overload))


def registered(overload: str) -> Schema | None:
    """The schema that torch has of an operator outside of ATen, where torch is loaded and somebody has defined one.

    It says what arguments are called; that the operator does nothing else than give results it does not say.
    """
    torch: Any = sys.modules.get("torch")
    namespace, _, rest = overload.partition("::")
    if torch is None or not rest:
        return None
    packet, _, name = rest.partition(".")
    try:
        text = str(torch._C._get_schema(f"{namespace}::{packet}", "" if name == "default" else name))
    except RuntimeError:
        return None
    return _parse_registered(overload, text)


@lru_cache(maxsize=4096)
def _parse_registered(overload: str, text: str) -> Schema:
    return parse_signature(overload, text[text.index("(") :])


def has_operation(overload: str) -> bool:
    """Whether the dialect has an operation of this name: otherwise the overload is written with `aten.call`."""
    return overload in load_table()["operations"]


def is_random(overload: str) -> bool:
    """Whether the overload draws from the generator."""
    return overload in _random_overloads()


@cache
def _random_overloads() -> frozenset[str]:
    return frozenset(load_table()["random"])


_SEPARATOR = re.compile(r", (?=[A-Za-z*])")
_ARGUMENT = re.compile(
    r"""(?P<base>\w+)
        (?:\((?P<alias>[^)]*)\))?        # Tensor(a!)
        (?P<suffix>(?:\?|\[\d*\])*)      # ?[]  [2]?
        (?:\ (?P<name>\w+))?
        (?:=(?P<default>.*))?$""",
    re.VERBOSE,
)
_LIST_SIZE = re.compile(r"\[\d+\]")


def parse_signature(overload: str, text: str, *, random: bool = False) -> Schema:
    """Reads `(Tensor self, *, int dim=0) -> Tensor`."""
    arguments_text, _, results_text = text.partition(") -> ")
    arguments = tuple(_parse_arguments(arguments_text[1:]))
    results_text = results_text[1:-1] if results_text.startswith("(") else results_text
    results = tuple(_parse_arguments(results_text))
    positions = {argument.name: position for position, argument in enumerate(arguments)}
    mutates = any("!" in argument.alias for argument in arguments)
    is_view = not mutates and any(result.alias for result in results)
    return Schema(overload, arguments, results, random, positions, mutates, is_view)


def _parse_arguments(text: str) -> Iterator[Argument]:
    keyword_only = False
    for piece in _SEPARATOR.split(text) if text else ():
        if piece == "*":
            keyword_only = True
            continue
        match = _ARGUMENT.match(piece)
        assert match is not None, f"unreadable argument in the schema table: {piece!r}"
        default = match["default"]
        yield Argument(
            match["name"] or "",
            match["base"] + _LIST_SIZE.sub("[]", match["suffix"]),
            REQUIRED if default is None else _parse_default(default),
            keyword_only,
            # `a -> *` marks the elements of a list of views: the same sharing, as far as we are concerned.
            (match["alias"] or "").partition(" ")[0],
        )


def _parse_default(text: str) -> Default:
    if text.startswith("torch."):
        return text
    value: Any = ast.literal_eval(text)
    return tuple(cast("list[Default]", value)) if isinstance(value, list) else value
