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


@struct(frozen=False)
class Counter:
    name: str
    count: int = 0
    seen: list[str] = field(default_factory=list[str])
    doubled: int = field(init=False)
    kept: int = field(default=7, init=False)
    made: dict[str, int] = field(default_factory=dict[str, int], init=False)
    step: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        self.doubled = 2 * self.count


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


def test_one_that_is_not_frozen_changes_and_has_no_hash() -> None:
    one, other = Counter("a", 2), Counter("a", count=2, step=1)
    assert one == other and one.doubled == 4 and one.kept == 7
    one.count, one.doubled = 3, 6
    one.seen.append("b")
    assert one != other and other.seen == [] and one.made is not other.made
    assert replace(one, count=5) == Counter("a", 5, ["b"])
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
    with pytest.raises(AttributeError):
        one.w = 1  # pyright: ignore[reportAttributeAccessIssue]


def test_what_its_initializer_refuses() -> None:
    with pytest.raises(TypeError, match=r"Point.__init__\(\) missing 1 required positional argument: 'x'"):
        Point()  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match="positional arguments but 5 were given"):
        Counter("a", 1, [], 2)  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match="unexpected keyword argument 'kept'"):
        Counter("a", kept=1)  # pyright: ignore[reportCallIssue]
