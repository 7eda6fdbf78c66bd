"""What an extension is, as text for the key of the cache: the contents of all the code that it brings.

That is the files that define what it holds and the file that makes it, the modules that these use from their own
package or folder, what it names as `sources`, and values that its functions carry with them (closures, defaults, fields
of objects), written down as lines. What cannot be said so makes every graph compiled with it one that is not kept, and
the reason can be asked for.

`_Reader.add` looks at one thing: a value is a line, code is its name and the files that `add_definition` collects.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import math
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

from xdsl.context import Context
from xdsl.ir import Dialect, Operation

from cuesta.dialects.core.blame import blame, blame_late
from cuesta.dialects.core.extension import After, Before, Extension, Extensions

_NOT_THEIRS: Final = frozenset(("cuesta", "torch", "xdsl", "triton", "numpy", "sympy", "llvmlite", "__future__"))
"""Packages of which the versions are in the key already."""
_TELLING: Final = frozenset(("dtype", "device", "memory_format", "layout", "OpOverload"))
"""What torch has that is what its text says."""
_DEEPEST: Final = 12


class UnnamableError(Exception):
    """Why a program that an extension had a part in cannot be kept."""


def key_lines(extensions: Extensions) -> tuple[str, ...]:
    """A line for every extension. Equal lines: the same extensions, as far as what they do depends on their code.

    Errors: UnnamableError.
    """
    return tuple(f"extension {one.name} {_digest(one)}" for one in extensions.members)


_digests: Final = WeakKeyDictionary[Extension, "str | UnnamableError"]()


def _digest(extension: Extension) -> str:
    found = _digests.get(extension)
    if found is None:
        try:
            found = _Reader(extension).digest()
        except UnnamableError as error:
            found = UnnamableError(f"the extension {extension.name!r} ({extension.place}): {error}")
        _digests[extension] = found
    if isinstance(found, UnnamableError):
        raise found
    return found


class _Reader:
    """Collects files and values. A module's file is read once, however many things come from it."""

    def __init__(self, extension: Extension) -> None:
        self.extension = extension
        self.files: set[Path] = set()
        self.modules: set[str] = set()
        self.seen: dict[int, tuple[int, Any]] = {}
        self.lines: list[str] = []

    def digest(self) -> str:
        extension = self.extension
        file, _, _ = extension.place.rpartition(":")
        self.add_file(file, "what makes it")
        for place in extension.passes:
            if isinstance(place, Before | After):
                self.lines.append(f"{type(place).__name__} {place.stage}")
                self.add(place.pass_, "a pass")
            else:
                self.add(place, "a pass")
        for overload, rule in extension.lowerings.items():
            self.lines.append(overload)
            self.add(rule, f"the lowering of {overload}")
        for name in ("rules", "elem", "schedules", "fusions", "dialects", "targets"):
            self.lines.append(name)
            for one in getattr(extension, name):
                self.add(one, f"one of its {name}")
        for source in extension.sources:
            self.add_source(source)
        digest = hashlib.sha256("\n".join(self.lines).encode("utf-8", "surrogatepass"))
        for path in sorted(self.files):
            contents = path.read_bytes()
            digest.update(f"\n{path.name} {len(contents)}\n".encode() + contents)
        return digest.hexdigest()

    # -- code ---------------------------------------------------------------------------------------------------------

    def add(self, thing: Any, what: str, depth: int = 0) -> None:
        """Code, or a value: its text, and the files that it comes from."""
        if depth > _DEEPEST:
            raise UnnamableError(f"{what} is nested too deeply to be told from others")
        if thing is None or isinstance(thing, bool | int | str | bytes | complex):
            self.lines.append(repr(thing))
        elif isinstance(thing, float):
            self.lines.append("nan" if math.isnan(thing) else thing.hex())
        elif id(thing) in self.seen:
            self.lines.append(f"number {self.seen[id(thing)][0]} again")
        else:
            self.seen[id(thing)] = (len(self.seen), thing)  # which keeps it, and its id with it
            self.add_object(thing, what, depth)

    def add_object(self, thing: Any, what: str, depth: int) -> None:
        """What is no plain number or text."""
        if isinstance(thing, tuple | list | set | frozenset):
            items = cast("list[Any]", list(thing))  # pyright: ignore[reportUnknownArgumentType]
            self.lines.append(f"{type(items).__name__} {len(items)}")
            for one in sorted(items, key=repr) if isinstance(thing, set | frozenset) else items:
                self.add(one, what, depth + 1)
        elif isinstance(thing, Mapping):
            for key, value in cast("Mapping[Any, Any]", thing).items():
                self.add(key, what, depth + 1)
                self.add(value, what, depth + 1)
        elif isinstance(thing, functools.partial):
            given = cast("functools.partial[Any]", thing)
            self.add([given.func, given.args, given.keywords], what, depth + 1)
        elif isinstance(thing, types.MethodType):
            self.add([thing.__func__, thing.__self__], what, depth + 1)
        elif isinstance(thing, types.FunctionType):
            self.add_function(thing, what, depth)
        elif isinstance(thing, types.BuiltinFunctionType | types.ModuleType):
            self.lines.append(f"{getattr(thing, '__module__', None)}.{thing.__name__}")
            if isinstance(thing, types.ModuleType):
                self.add_module(thing.__name__)
        elif isinstance(thing, type):
            self.lines.append(f"{thing.__module__}.{thing.__qualname__}")
            self.add_definition(cast("type[Any]", thing), what)
        else:
            self.add_instance(thing, what, depth)

    def add_function(self, function: types.FunctionType, what: str, depth: int) -> None:
        """A function: its file, and the values that it carries with it."""
        self.lines.append(f"{function.__module__}.{function.__qualname__}:{function.__code__.co_firstlineno}")
        self.add_definition(function, what)
        carried = list(function.__defaults__ or ()) + list((function.__kwdefaults__ or {}).values())
        if (wrapped := getattr(function, "__wrapped__", None)) is not None:
            carried.append(wrapped)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                carried.append(cell.cell_contents)
            except ValueError:  # not filled yet: defined further down in the same function
                self.lines.append(f"{name} is open")
        for value in carried:
            if value is not function:
                self.add(value, what, depth + 1)

    def add_instance(self, thing: Any, what: str, depth: int) -> None:
        """An object: its class, and what it holds."""
        kind = cast("type[Any]", type(thing))
        self.add(kind, what, depth + 1)
        package = kind.__module__.partition(".")[0]
        if callable(told := getattr(kind, "key_text", None)):  # it says itself what it is
            with blame_late(), blame(thing, owner=self.extension):
                self.lines.append(str(told(thing)))
        elif isinstance(thing, Dialect):
            self.add([thing.name, list(thing.operations), list(thing.attributes)], what, depth + 1)
        elif isinstance(thing, Operation) or (package == "torch" and kind.__name__ in _TELLING):
            self.lines.append(str(thing))
        elif package in ("torch", "numpy"):
            raise UnnamableError(f"{what} holds a {package}.{kind.__name__}, which has no text")
        elif not isinstance(thing, Context):
            state: object = object.__getstate__(thing)  # its dictionary, its slots
            self.add(state, what, depth + 1)

    # -- files --------------------------------------------------------------------------------------------------------

    def add_definition(self, thing: type[Any] | Callable[..., Any], what: str) -> None:
        """The file that defines a class or a function, and its module's companions."""
        module = getattr(thing, "__module__", None) or ""  # none of what `exec` made
        if module.partition(".")[0] in _NOT_THEIRS or module == "builtins" or _is_standard(module):
            return
        code = getattr(thing, "__code__", None)
        file = getattr(sys.modules.get(module), "__file__", None) if code is None else code.co_filename
        self.add_file(file or "", f"{what}, {thing.__qualname__},")
        self.add_module(module)

    def add_file(self, file: str, what: str) -> None:
        path = Path(file)
        if not file or not path.is_file():
            raise UnnamableError(f"{what} has no source file ({file or 'made at a prompt'})")
        path = path.resolve()
        if path in self.files:
            return
        if path.stat().st_mtime > self.extension.made_at:
            raise UnnamableError(f"{path} was changed after it was loaded")
        self.files.add(path)

    def add_module(self, name: str) -> None:
        """A module, and those that it uses from its own package or folder."""
        if name in self.modules:
            return
        self.modules.add(name)
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if module is None or not file:
            return
        self.add_file(file, f"the module {name}")
        home, package = Path(file).resolve().parent, name.partition(".")[0]
        for other in sorted(set(_modules_used_by(name, Path(file)))):
            if other.partition(".")[0] in _NOT_THEIRS or other in self.modules:
                continue
            place = getattr(sys.modules.get(other), "__file__", None)
            same_package = "." in name and other.partition(".")[0] == package
            if place and (same_package or Path(place).resolve().parent == home) and not _is_standard(other):
                self.add_module(other)

    def add_source(self, source: str | Path | types.ModuleType) -> None:
        if isinstance(source, types.ModuleType):
            if not getattr(source, "__file__", None):
                raise UnnamableError(f"the module {source.__name__} has no source file")
            self.add_module(source.__name__)
            return
        path = Path(source)
        if path.is_dir():
            for one in sorted(path.rglob("*.py")):
                self.add_file(str(one), "one of its sources")
        else:
            self.add_file(str(path), "one of its sources")


def _modules_used_by(name: str, path: Path) -> Iterator[str]:
    """The modules that a file imports, wherever it does; of `from a import b` also `a.b`, which may be one."""
    package = getattr(sys.modules.get(name), "__package__", None) or ""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # changed since; then the date tells
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: -(node.level - 1) or None] if node.level else []
            base = ".".join([*parts, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _is_standard(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names and module != "__main__"
