"""The key of the cache tells extensions apart by their code, and by the values that it carries."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.dialects.core.extension import After, Before, Extension, Extensions
from cuesta.dialects.core.extension_key import UnnamableError, key_lines


def key(**fields: Any) -> str:
    (line,) = key_lines(Extensions.of([Extension("mine", **fields)]))
    return line


def of(value: object) -> str:
    """The key of an extension whose function carries a value."""

    def chooser(analysis: Any, machine: Any) -> Any:
        return value

    return key(schedules=[chooser])


class Plain:
    def __init__(self, value: object) -> None:
        self.value = value

    def method(self, analysis: Any, machine: Any) -> Any:
        return self.value


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


@dataclass(frozen=True)
class Scaled:
    value: object


@dataclass(frozen=True, slots=True)
class SlottedData:
    value: object


class Told:
    def __init__(self, value: object) -> None:
        self.value, self.noise = value, object()

    def key_text(self) -> str:
        return f"told {self.value}"


def second(first: object, value: object) -> object:
    return value


WRAPS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda value: value,
    "a list": lambda value: [1, value],
    "a dictionary": lambda value: {"a": value},
    "a set": lambda value: {"b", f"a{value}", "c"},
    "an object": Plain,
    "slots": Slotted,
    "fields": Scaled,
    "fields in slots": SlottedData,
    "partial": lambda value: functools.partial(second, value),
    "partial by name": lambda value: functools.partial(second, value=value),
    "a method": lambda value: Plain(value).method,
    "a default": lambda value: lambda given=value: given,
    "a function in a function": lambda value: lambda: value,
    "what says it itself": Told,
}


@pytest.mark.parametrize("how", WRAPS)
@pytest.mark.parametrize(("one", "other"), [(1, 2), (1, True), (0.0, -0.0)])
def test_values_tell_apart(how: str, one: object, other: object) -> None:
    assert of(WRAPS[how](one)) == of(WRAPS[how](one))
    if how in ("a set", "what says it itself") and str(one) == str(other):
        return
    assert of(WRAPS[how](one)) != of(WRAPS[how](other))


def test_what_holds_itself_has_an_end() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    other: list[Any] = [2]
    other.append(other)
    assert of(ring) != of(other)


class CountPass(ModulePass):
    name = "count"

    def apply(self, ctx: Context, op: ModuleOp) -> None: ...


def test_places_tell_apart() -> None:
    keys = [key(passes=[place]) for place in (CountPass, After("cse", CountPass), Before("cse", CountPass))]
    keys.append(key(passes=[After("dce", CountPass)]))
    assert len(set(keys)) == 4


def test_what_torch_says_in_words() -> None:
    assert of(torch.float32) == of(torch.float32) != of(torch.float16)
    assert of(torch.ops.aten.add.Tensor) != of(torch.ops.aten.add.Scalar)
    with pytest.raises(UnnamableError, match=r"holds a torch\.Tensor, which has no text"):
        of(torch.ones(2))


def test_what_is_nested_without_end_is_refused() -> None:
    value: object = 1
    for _ in range(40):
        value = [value]
    with pytest.raises(UnnamableError, match="nested too deeply"):
        of(value)


def test_a_text_that_cannot_be_told_is_the_fault_of_the_extension() -> None:
    class Wrong:
        def key_text(self) -> str:
            raise LookupError("no words")

    with pytest.raises(CuestaError, match=r"extension 'mine': .*Wrong .* raised LookupError: no words, at"):
        of(Wrong())


# -- files -------------------------------------------------------------------------------------------------------------


def loaded(path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    monkeypatch.setitem(sys.modules, path.stem, module)
    specification.loader.exec_module(module)
    return module


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    os.utime(path, (1e9, 1e9))  # long before any extension is made
    return path


MINE = """
from cuesta.dialects.core.extension import Extension
import key_helper

def choose(analysis, machine):
    return key_helper.SHIFT

extension = Extension("mine", schedules=[choose])
"""


def test_contents_of_files_tell_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that makes it, one beside it that this imports, and one that it names; another copy is the same."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def digest(mine: str, helper: str, data: str, folder: str = "a") -> str:
        home = tmp_path / folder
        home.mkdir(exist_ok=True)
        source = written(home, "data.txt", data)
        loaded(written(home, "key_helper.py", helper), monkeypatch)
        module = loaded(written(home, "key_mine.py", mine), monkeypatch)
        extension = Extension("mine", schedules=[module.choose], sources=[source])
        object.__setattr__(extension, "place", module.extension.place)
        return key_lines(Extensions.of([extension]))[0]

    first = digest(MINE, "SHIFT = 1", "data")
    assert digest(MINE, "SHIFT = 1", "data") == first
    assert digest(MINE, "SHIFT = 1", "data", folder="b") == first
    assert digest(MINE + "#", "SHIFT = 1", "data") != first
    assert digest(MINE, "SHIFT = 2", "data") != first
    assert digest(MINE, "SHIFT = 1", "other") != first


def test_a_file_that_was_edited_since_is_not_what_runs(tmp_path: Path) -> None:
    source = written(tmp_path, "data.txt", "one")
    extension = Extension("mine", sources=[source])
    os.utime(source, (extension.made_at + 10, extension.made_at + 10))
    with pytest.raises(UnnamableError, match=r"'mine' \(.*test_extension_key.py:\d+\): .*data.txt was changed after"):
        key_lines(Extensions.of([extension]))


def test_what_has_no_file_has_no_name() -> None:
    names: dict[str, Any] = {}
    exec("def choose(analysis, machine): ...", names)
    with pytest.raises(UnnamableError, match=r"one of its schedules, choose, has no source file \(<string>\)"):
        key(schedules=[names["choose"]])
