"""A struct is what a frozen dataclass with slots is, to whoever compares, hashes, prints, copies or inspects one."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass, field, fields, is_dataclass, replace

import pytest

from cuesta.dialects.core.structs import struct


@struct
class Point:
    x: int
    y: int = 2
    note: str = field(default="", compare=False, repr=False)
    parts: list[int] = field(default_factory=list[int], compare=False)


@dataclass(frozen=True, slots=True)
class AsDataclass:
    x: int
    y: int = 2
    note: str = field(default="", compare=False, repr=False)
    parts: list[int] = field(default_factory=list[int], compare=False)


@struct
class Deeper(Point):
    z: int = 3


@struct(eq=False)
class Thing:
    x: int

    def __repr__(self) -> str:
        return f"thing {self.x}"


@struct(repr=False)
class Named(Thing):
    y: int


@struct
class Nothing:
    pass


def test_it_compares_and_hashes_as_a_dataclass_does() -> None:
    assert Point(1) == Point(1, note="another")
    assert Point(1) != Point(2)
    assert Point(1) != AsDataclass(1)
    assert Deeper(1) != Point(1)
    assert hash(Point(1)) == hash(Point(1, note="another")) == hash(AsDataclass(1))
    assert len({Point(1), Point(1), Point(2)}) == 2
    assert Nothing() == Nothing()
    assert hash(Nothing()) == hash(Nothing())
    assert Deeper(1, z=4) != Deeper(1)


def test_without_eq_it_is_itself_alone() -> None:
    one = Thing(1)
    assert one == one
    assert one != Thing(1)
    assert len({one, Thing(1)}) == 2


def test_it_prints_as_a_dataclass_does() -> None:
    assert repr(Point(1, 5)) == repr(AsDataclass(1, 5)).replace("AsDataclass", "Point")
    assert repr(Thing(1)) == repr(Named(1, 2)) == "thing 1"


def test_it_is_a_dataclass_with_slots() -> None:
    assert is_dataclass(Point)
    assert [one.name for one in fields(Deeper)] == ["x", "y", "note", "parts", "z"]
    assert replace(Point(1), y=7) == Point(1, 7)
    assert copy.copy(Point(1, 7)) == Point(1, 7) == pickle.loads(pickle.dumps(Point(1, 7)))
    with pytest.raises(AttributeError):
        Point(1).w = 1  # pyright: ignore[reportAttributeAccessIssue]
    match Point(1, 9):
        case Point(1, y):
            assert y == 9
