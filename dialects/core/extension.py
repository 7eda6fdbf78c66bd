"""What a user adds to the compiler: rules, passes, lowerings and the rest, as one value, in force in a `with` block.

    mine = Extension("mine", lowerings={"aten.i0.default": lower_i0}, passes=[After("fuse-nests", CountLoads)])
    with extended(mine):
        active().lowerings["aten.i0.default"]  # lower_i0

Every table of ours that may be added to asks `active()`, which is the same object for the same extensions in the same
order: it can be part of the key of whatever is remembered. Nothing is in force because it was imported. This module
imports nothing heavy: who finds a program in the cache comes through here too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from time import time
from types import FrameType, MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias, cast
from weakref import WeakValueDictionary

from cuesta.dialects.core.setting import setting

if TYPE_CHECKING:
    from xdsl.ir import Dialect
    from xdsl.passes import ModulePass

    from cuesta.dialects.elem.table import Row

Lowering: TypeAlias = Callable[[Any, Any], Sequence[Any]]
"""`lowering.aten.builder.Rule`: lowers one call."""

_NAME: Final = re.compile(r"[A-Za-z_][\w.-]*")
_OVERLOAD: Final = re.compile(r"aten\.\w+\.\w+|(?!aten::)\w+::\w+\.\w+")
_ROW_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, eq=False)
class Before:
    """A pass that runs right before the stage of this label, as `cuesta-opt --list-stages` has them."""

    stage: str
    pass_: type[ModulePass] | ModulePass
    """A class, or an instance whose fields are its options."""
    why: str = "an extension asks for it"
    """What `--list-stages` and dumps say of it, in one line."""


@dataclass(frozen=True, eq=False)
class After:
    """A pass that runs right after the stage of this label; see `Before`."""

    stage: str
    pass_: type[ModulePass] | ModulePass
    why: str = "an extension asks for it"


@dataclass(frozen=True, eq=False)
class Extension:
    """What one author adds, under one name. A value: making one changes nothing, and one is equal to itself only.

    Errors: CuestaError, which says where the extension is made, when a field holds something of another kind.
    """

    name: str
    rules: Sequence[Any] = field(default=(), kw_only=True)
    """Laws (`transforms.algebra`) and patterns of rewrites, which `canonicalize` applies after ours."""
    passes: Sequence[Before | After | type[ModulePass]] = field(default=(), kw_only=True)
    """Passes in their places. A class alone has no place: it is run by name."""
    lowerings: Mapping[str, Lowering] = field(default_factory=dict[str, Lowering], kw_only=True)
    """From an overload (`aten.i0.default`, `mylib::foo.default`) to the rule that lowers it, also in place of ours."""
    elem: Sequence[Row] = field(default=(), kw_only=True)
    """Rows of the table of scalar ops."""
    schedules: Sequence[Callable[..., Any]] = field(default=(), kw_only=True)
    """Choosers of schedules, which are asked before the target's own."""
    fusions: Sequence[Callable[..., Any]] = field(default=(), kw_only=True)
    """Moves of fusion, which are tried before ours."""
    dialects: Sequence[Dialect] = field(default=(), kw_only=True)
    targets: Sequence[Any] = field(default=(), kw_only=True)
    sources: Sequence[str | Path | ModuleType] = field(default=(), kw_only=True)
    """Files and modules whose contents belong to the key of the cache, beside those that define what is held here."""
    place: str = field(default="", init=False, repr=False)
    """The file and line that makes it."""
    made_at: float = field(default=0.0, init=False, repr=False)
    """When it was made, in seconds since the epoch: a file changed later is not what runs."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "place", _place_of_caller())
        object.__setattr__(self, "made_at", time())
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):  # pyright: ignore[reportUnnecessaryIsInstance]  # outsiders' Python
            self.refuse(f"a name is of letters, digits, '.', '-' and '_', not {self.name!r}")
        for name in ("rules", "passes", "elem", "schedules", "fusions", "dialects", "targets", "sources"):
            value = getattr(self, name)
            if isinstance(value, str) or not isinstance(value, Iterable):
                self.refuse(f"`{name}` must be a list, not {_described(value)}")
            object.__setattr__(self, name, tuple(value))  # pyright: ignore[reportUnknownArgumentType]
        if not isinstance(self.lowerings, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            self.refuse(f"`lowerings` must be a mapping from overloads to rules, not {_described(self.lowerings)}")
        object.__setattr__(self, "lowerings", MappingProxyType(dict(self.lowerings)))
        self._check()

    def refuse(self, message: str) -> NoReturn:
        """Refuses the extension. Errors: CuestaError, always."""
        from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic

        raise CuestaError(Diagnostic(f"extension {self.name!r}: {message}", place=self.place))

    def _check(self) -> None:
        """Holds every field to its kind. (The types say so too, but outsiders need not run a type checker.)"""
        from xdsl.ir import Dialect
        from xdsl.passes import ModulePass

        from cuesta.dialects.elem.table import Row

        given: Any = self
        for one in given.passes:
            pass_ = one.pass_ if isinstance(one, Before | After) else one
            bare = isinstance(pass_, type)
            if not (issubclass(pass_, ModulePass) if bare else isinstance(pass_, ModulePass)):
                self.refuse(f"`passes` takes After(…), Before(…) and classes of passes, not {_described(one)}")
            if not isinstance(one, Before | After) and not bare:
                self.refuse(f"the pass {pass_.name} has no place; write After('a stage', …) or give its class")
            if isinstance(one, Before | After) and not isinstance(stage := cast("Any", one.stage), str):
                self.refuse(f"a place is the label of a stage, not {_described(stage)}")
            if not isinstance(getattr(pass_, "name", None), str):
                self.refuse(f"the pass {pass_!r} has no `name`")
        for overload, rule in given.lowerings.items():
            if not isinstance(overload, str) or not _OVERLOAD.fullmatch(overload):
                self.refuse(f"{overload!r} is no overload; write 'aten.i0.default' or 'mylib::foo.default'")
            if not callable(rule):
                self.refuse(f"the lowering of {overload} must be a function, not {_described(rule)}")
        for row in given.elem:
            if not isinstance(row, Row):
                self.refuse(f"`elem` takes rows, not {_described(row)}")
            if not _ROW_NAME.fullmatch(row.name):
                self.refuse(f"{row.name!r} is no name of a scalar op; it is of small letters, digits and '_'")
        for name in ("schedules", "fusions"):
            for one in getattr(self, name):
                if not callable(one):
                    self.refuse(f"`{name}` takes functions, not {_described(one)}")
        for dialect in given.dialects:
            if not isinstance(dialect, Dialect):
                self.refuse(f"`dialects` takes xDSL's dialects, not {_described(dialect)}")
        for rule in self.rules:
            if isinstance(rule, type) or not (hasattr(rule, "match_and_rewrite") or hasattr(rule, "name")):
                self.refuse(f"`rules` takes laws and instances of patterns, not {_described(rule)}")
        for target in self.targets:
            if isinstance(target, type) or not isinstance(getattr(target, "name", None), str):
                self.refuse(f"`targets` takes instances of Target, not {_described(target)}")
        for source in given.sources:
            if not isinstance(source, str | Path | ModuleType):
                self.refuse(f"`sources` takes paths and modules, not {_described(source)}")


@dataclass(frozen=True, eq=False)
class Extensions:
    """Several extensions as one, in order. `of` makes them: the same extensions give the same object."""

    members: tuple[Extension, ...] = ()
    rules: tuple[Any, ...] = ()
    places: tuple[Before | After, ...] = ()
    """Passes that have a place, in the order in which they are put there."""
    passes: Mapping[str, type[ModulePass]] = field(default_factory=dict[str, "type[ModulePass]"])
    """Every pass by its name."""
    lowerings: Mapping[str, Lowering] = field(default_factory=dict[str, Lowering])
    elem: Mapping[str, Row] = field(default_factory=dict[str, "Row"])
    schedules: tuple[Callable[..., Any], ...] = ()
    fusions: tuple[Callable[..., Any], ...] = ()
    dialects: Mapping[str, Dialect] = field(default_factory=dict[str, "Dialect"])
    targets: Mapping[str, Any] = field(default_factory=dict[str, Any])
    owners: Mapping[int, Extension] = field(default_factory=dict[int, Extension], repr=False)
    """By the `id` of what an extension holds."""

    @staticmethod
    def of(members: Iterable[Extension]) -> Extensions:
        """The extensions merged, each once.

        Errors: CuestaError when two claim one name, naming both, or one claims a scalar op of ours.
        """
        key = tuple(dict.fromkeys(members))
        if not key:
            return NONE
        found = _merged.get(key)
        if found is None:
            found = _merged[key] = _merge(key)
        return found

    def __bool__(self) -> bool:
        return bool(self.members)

    def owner(self, thing: object) -> Extension | None:
        """The extension that a rule, a function, a row, a dialect, or a pass or its class comes from, if one does."""
        return self.owners.get(id(thing)) or self.owners.get(id(type(thing)))


NONE: Final = Extensions()
"""No extensions at all."""

_merged: Final = WeakValueDictionary[tuple[Extension, ...], Extensions]()
_active: Final[ContextVar[Extensions]] = ContextVar("active_extensions", default=NONE)


def active() -> Extensions:
    """What is in force here. A new thread begins with nothing: who starts one hands it on, by `extended`."""
    return _active.get()


@contextmanager
def extended(*extensions: Extension | Extensions) -> Generator[Extensions]:
    """The `with` block in which extensions are in force, after those that are already.

    Errors: CuestaError for a conflict; see `Extensions.of`.
    """
    members = list(active().members)
    for one in extensions:
        members.extend(one.members if isinstance(one, Extensions) else (one,))
    with setting(_active, Extensions.of(members)):
        yield _active.get()


@contextmanager
def only(extensions: Extensions) -> Generator[None]:
    """The `with` block in which just these are in force: those of another thread, or of an earlier moment."""
    with setting(_active, extensions):
        yield


def _merge(members: tuple[Extension, ...]) -> Extensions:
    from cuesta.dialects.elem.table import TABLE

    names: dict[str, Extension] = {}
    owners: dict[int, Extension] = {}
    tables: dict[str, dict[str, Any]] = {"passes": {}, "lowerings": {}, "elem": {}, "dialects": {}, "targets": {}}

    def claim(table: str, what: str, name: str, value: object, extension: Extension) -> None:
        other = tables[table].get(name)
        if other is not None and other is not value:
            _conflict(f"{what} {name}", owners[id(other)], extension)
        tables[table][name] = value
        owners[id(value)] = extension

    for extension in members:
        if not isinstance(extension, Extension):  # pyright: ignore[reportUnnecessaryIsInstance]
            from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic

            raise CuestaError(Diagnostic(f"an extension is an `Extension`, not {_described(extension)}"))
        if (other := names.setdefault(extension.name, extension)) is not extension:
            _conflict(f"the name {extension.name!r}", other, extension)
        for one in extension.passes:
            pass_ = one.pass_ if isinstance(one, Before | After) else one
            claim("passes", "the pass", pass_.name, pass_ if isinstance(pass_, type) else type(pass_), extension)
        for overload, rule in extension.lowerings.items():
            claim("lowerings", "the lowering of", overload, rule, extension)
        for row in extension.elem:
            if row.name in TABLE:
                extension.refuse(f"there is an elem.{row.name} already; its row is in dialects/elem/table.py")
            claim("elem", "the scalar op", f"{row.name}", row, extension)
        for dialect in extension.dialects:
            claim("dialects", "the dialect", dialect.name, dialect, extension)
        for target in extension.targets:
            claim("targets", "the target", target.name, target, extension)
            if (chooser := getattr(target.traits, "chooser", None)) is not None:
                owners[id(chooser)] = extension
        for one in (*extension.rules, *extension.schedules, *extension.fusions):
            owners[id(one)] = extension
    return Extensions(
        members,
        rules=tuple(rule for one in members for rule in one.rules),
        places=tuple(place for one in members for place in one.passes if isinstance(place, Before | After)),
        schedules=tuple(chooser for one in members for chooser in one.schedules),
        fusions=tuple(move for one in members for move in one.fusions),
        owners=MappingProxyType(owners),
        **{name: MappingProxyType(table) for name, table in tables.items()},
    )


def _conflict(what: str, first: Extension, second: Extension) -> NoReturn:
    from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic

    message = f"{what} is claimed by two extensions: {first.name!r} ({first.place}) and {second.name!r}"
    raise CuestaError(Diagnostic(message, place=second.place))


def _place_of_caller() -> str:
    """The file and line that makes an extension: the first frame that is neither ours nor generated."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # what `warnings` uses
    while frame is not None and frame.f_code.co_filename in (__file__, "<string>"):
        if frame.f_code.co_filename == "<string>" and frame.f_code.co_name != "__init__":
            break
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _described(value: object) -> str:
    return f"{value!r}" if isinstance(value, type) else f"{value!r} of type {type(value).__name__}"
