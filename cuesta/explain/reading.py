"""From JSON back to an `Explanation`: what `Explanation.to_json` wrote, and nothing else."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from typing import Any, TypeVar, cast

from cuesta.explain import model

_Read = TypeVar("_Read")


class UnreadableError(ValueError):
    """The data are not what the type says; the message says where."""


def read(kind: type[_Read], data: Any) -> _Read:
    """The dataclass of `explain/model.py` that the dictionary is. Errors: UnreadableError."""
    return cast("_Read", _value(kind, data, kind.__name__))


@functools.cache
def _fields(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind, vars(model))


def _value(kind: Any, data: Any, place: str) -> Any:
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _dataclass(kind, data, place)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        if not isinstance(data, list):
            raise UnreadableError(f"{place} is no list")
        items = cast("list[Any]", data)
        kinds = [inner[0]] * len(items) if inner[-1] is Ellipsis else list(inner)
        if len(kinds) != len(items):
            raise UnreadableError(f"{place} has {len(items)} parts, not {len(kinds)}")
        return tuple(_value(one, item, place) for one, item in zip(kinds, items, strict=True))
    if origin in (types.UnionType, typing.Union):
        return _one_of(inner, data, place)
    if kind is float and type(data) is int:
        return float(data)
    if type(data) is not (type(None) if kind is None else kind):
        raise UnreadableError(f"{place} is of the type {type(data).__name__}")
    return data


def _one_of(kinds: tuple[Any, ...], data: Any, place: str) -> Any:
    for one in kinds:
        try:
            return _value(one, data, place)
        except UnreadableError:
            continue
    raise UnreadableError(f"{place} is of none of its types")


def _dataclass(kind: type, data: Any, place: str) -> Any:
    known = _fields(kind)
    if not isinstance(data, dict) or set(cast("dict[str, Any]", data)) != set(known):
        raise UnreadableError(f"{place} has other fields than {kind.__name__}")
    named = cast("dict[str, Any]", data)
    return kind(**{name: _value(one, named[name], f"{place}.{name}") for name, one in known.items()})


__all__ = ["UnreadableError", "read"]
