"""`@struct`: a small value with named fields, as `@dataclass(frozen=True, slots=True)` has it, at a seventh the cost.

A frozen dataclass writes and compiles six functions when its module is imported. There are a hundred such classes on
the way to the first kernel, and they took a sixth of the time to load the compiler. Here only `__init__` is compiled,
as written below; equality, hash and representation are the same functions for all of them. That nobody assigns to a
field is held by the type checker, not when it runs. With `frozen=False` anybody may, and there is no hash.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform, overload

_Class = TypeVar("_Class", bound=type[Any])


@overload
def struct(cls: _Class, /) -> _Class: ...
@overload
def struct(*, eq: bool = True, repr: bool = True, frozen: bool = True) -> Callable[[_Class], _Class]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def struct(cls: type[Any] | None = None, /, *, eq: bool = True, repr: bool = True, frozen: bool = True) -> Any:
    """Makes a dataclass with slots of the annotated fields. It is equal and hashed by them, or by identity with
    `eq=False`; with `repr=False` it prints as its base does. Fields of one that is not `frozen` may be assigned to.

    `dataclasses.fields` and `replace` take it, `field` says what they say of a dataclass's.
    """
    return partial(_make, eq=eq, repr=repr, frozen=frozen) if cls is None else _make(cls, eq, repr, frozen)


def _make(cls: type[Any], eq: bool, repr: bool, frozen: bool) -> type[Any]:
    made: Any = dataclass(slots=True, init=False, eq=False, repr=False)(cls)
    if "__init__" not in cls.__dict__:
        made.__init__ = _initializer(made)
    if repr and "__repr__" not in cls.__dict__:
        made.__repr__ = _representation
    if eq:
        names = [one.name for one in fields(made) if one.compare]
        made._compared = staticmethod(attrgetter(*names) if names else _nothing)
        if "__eq__" not in cls.__dict__:
            made.__eq__ = _equal
        if "__hash__" not in cls.__dict__:
            made.__hash__ = _hash if frozen else None
    return made


def _initializer(made: type[Any]) -> Callable[..., None]:
    """`def __init__(self, a, b=_b): self.a = a; self.b = b`. What a factory makes is made anew each time."""
    known: dict[str, Any] = {"_MISSING": MISSING}
    parameters: list[str] = []
    named: list[str] = []
    lines: list[str] = []
    for one in fields(made):
        name, value = one.name, one.name
        if one.default_factory is not MISSING:
            known[f"_default_{name}"] = one.default_factory
            value = f"_default_{name}() if {name} is _MISSING else {name}" if one.init else f"_default_{name}()"
        elif one.default is not MISSING:
            known[f"_default_{name}"] = one.default
            value = name if one.init else f"_default_{name}"
        elif not one.init:
            continue  # set by `__post_init__`
        lines.append(f"self.{name} = {value}")
        if one.init:
            default = f"_default_{name}" if one.default is not MISSING else "_MISSING"
            required = f"_default_{name}" not in known
            (named if one.kw_only else parameters).append(name if required else f"{name}={default}")
    if hasattr(made, "__post_init__"):
        lines.append("self.__post_init__()")
    taken = ", ".join(["self", *parameters, *(["*", *named] if named else [])])
    exec(f"def __init__({taken}):\n " + "\n ".join(lines or ["pass"]), known)
    function = known["__init__"]
    function.__qualname__ = f"{made.__qualname__}.__init__"
    function.__module__ = made.__module__
    return function


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
