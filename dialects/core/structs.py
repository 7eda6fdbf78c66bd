"""`@struct`: a small value with named fields, as `@dataclass(frozen=True, slots=True)` has it, at a fifth of the cost.

A frozen dataclass writes and compiles six functions when its module is imported. There are a hundred such classes on
the way to the first kernel, and they took a sixth of the time to load the compiler. Here only `__init__` is compiled;
equality, hash and representation are the same functions for all of them. That nobody assigns to a field is held by the
type checker, not when it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform, overload

_Class = TypeVar("_Class", bound=type[Any])


@overload
def struct(cls: _Class, /) -> _Class: ...
@overload
def struct(*, eq: bool = True, repr: bool = True) -> Callable[[_Class], _Class]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def struct(cls: type[Any] | None = None, /, *, eq: bool = True, repr: bool = True) -> Any:
    """Makes a dataclass with slots of the annotated fields. It is equal and hashed by them, or by identity with
    `eq=False`; with `repr=False` it prints as its base does.

    `dataclasses.fields` and `replace` take it, `field` says what they say of a dataclass's.
    """
    return partial(_make, eq=eq, repr=repr) if cls is None else _make(cls, eq, repr)


def _make(cls: type[Any], eq: bool, repr: bool) -> type[Any]:
    made: Any = dataclass(slots=True, eq=False, repr=False)(cls)
    if repr and "__repr__" not in cls.__dict__:
        made.__repr__ = _representation
    if eq:
        names = [one.name for one in fields(made) if one.compare]
        made._compared = staticmethod(attrgetter(*names) if names else _nothing)
        if "__eq__" not in cls.__dict__:
            made.__eq__ = _equal
        if "__hash__" not in cls.__dict__:
            made.__hash__ = _hash
    return made


def _nothing(_: object) -> tuple[()]:
    return ()


def _representation(self: Any) -> str:
    shown = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{type(self).__qualname__}({shown})"


def _equal(self: Any, other: object) -> bool:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self._compared(self) == self._compared(other)


def _hash(self: Any) -> int:
    return hash(self._compared(self))


__all__ = ["struct"]
