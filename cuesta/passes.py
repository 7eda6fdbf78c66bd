"""The passes, found by the rule: file name = pass name.

`transforms/views/eliminate_views.py` holds `EliminateViewsPass`, and that is the pass `eliminate-views`, in whatever
folder of `transforms/` or `lowering/` it lies. Nothing registers itself, and nothing is imported before it is used.
Extensions in force add theirs.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, lru_cache
from importlib import import_module
from importlib.resources import files
from importlib.resources.abc import Traversable

from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec, parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError

from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic
from cuesta.dialects.core.extension import active

_PACKAGES = ("cuesta.transforms", "cuesta.lowering")


def class_name_of(pass_name: str) -> str:
    """`eliminate-views` → `EliminateViewsPass`."""
    return "".join(word.capitalize() for word in pass_name.split("-")) + "Pass"


class _Passes(Mapping[str, Callable[[], "type[ModulePass]"]]):
    """Our passes by name; calling the value imports it. A file without its pass's class is not a pass but something
    that passes share; only files that are asked for are read.
    """

    @cached_property
    def _files(self) -> dict[str, tuple[Traversable, str]]:
        """For the name of every file its module."""
        return {name: found for package in _PACKAGES for name, found in _files_in(files(package), package)}

    def __init__(self) -> None:
        self._found: dict[str, Callable[[], type[ModulePass]]] = {}

    def __getitem__(self, name: str) -> Callable[[], type[ModulePass]]:
        found = self._found.get(name)
        if found is None:
            entry, module = self._files[name]
            if not _mentions(entry, f"class {class_name_of(name)}("):
                raise KeyError(name)
            found = self._found[name] = _loader(name, module)
        return found

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._files if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _files_in(folder: Traversable, package: str) -> Iterator[tuple[str, tuple[Traversable, str]]]:
    """For every Python file the name that a pass in it has, the file, and its module."""
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        stem = entry.name.removesuffix(".py")
        if stem.startswith("_"):
            continue
        if stem != entry.name:
            yield stem.replace("_", "-"), (entry, f"{package}.{stem}")
        elif entry.is_dir():
            yield from _files_in(entry, f"{package}.{entry.name}")


def _mentions(source: Traversable, name: str) -> bool:
    return name.encode() in source.read_bytes()


def _loader(name: str, module: str) -> Callable[[], type[ModulePass]]:
    def load() -> type[ModulePass]:
        found = getattr(import_module(module), class_name_of(name), None)
        if not (isinstance(found, type) and issubclass(found, ModulePass) and found.name == name):
            raise CuestaError(Diagnostic(f"{module} does not define {class_name_of(name)} with the name {name!r}"))
        return found

    return load


ALL_PASSES: Mapping[str, Callable[[], type[ModulePass]]] = _Passes()
"""Every pass of ours by name; calling the value imports it."""


def available_passes() -> Mapping[str, Callable[[], type[ModulePass]]]:
    """Our passes and those of the extensions in force."""
    added = active().passes
    return {**ALL_PASSES} | {name: _given(pass_type) for name, pass_type in added.items()} if added else ALL_PASSES


def _given(pass_type: type[ModulePass]) -> Callable[[], type[ModulePass]]:
    return lambda: pass_type


def parse_passes(
    specification: str, available: Mapping[str, Callable[[], type[ModulePass]]] | None = None
) -> tuple[ModulePass, ...]:
    """The passes that a text such as `eliminate-views,fuse-nests{explain=true}` asks for, in order: of those available,
    or else of ours and of the extensions in force.

    Errors: CuestaError for an unknown pass or option, with the valid ones.
    """
    if not specification.strip():
        return ()
    try:
        plain = "{" not in specification
        specifications = _without_options(specification) if plain else tuple(parse_pipeline(specification))
    except ArgSpecParseError as error:
        raise CuestaError(Diagnostic(str(error).strip())) from None
    if available is None:
        available = available_passes()
    return tuple(_make(one, available) for one in specifications)


@lru_cache(maxsize=256)
def _without_options(specification: str) -> tuple[ArgSpec, ...]:
    """What such a text says. Every compilation reads the names of all stages."""
    return tuple(parse_pipeline(specification))


@lru_cache(maxsize=256)
def _has_required_fields(pass_type: type[ModulePass]) -> bool:
    return bool(pass_type.required_fields())


def _make(specification: ArgSpec, available: Mapping[str, Callable[[], type[ModulePass]]]) -> ModulePass:
    name = specification.name
    if name not in available:
        near = difflib.get_close_matches(name, available, n=1)
        hint = f", did you mean {near[0]}?" if near else ""
        raise CuestaError(Diagnostic(f"there is no pass {name}{hint}; the passes are: {', '.join(sorted(available))}"))
    pass_type = available[name]()
    # xDSL reads the types of all options, each time, which takes longer than most passes.
    if not specification.parameters and not _has_required_fields(pass_type):
        return pass_type()
    try:
        return pass_type.from_spec(specification)
    except ValueError as error:
        options = describe_options(pass_type)
        raise CuestaError(Diagnostic(f"{name}: {error}; its options are: {options or 'none'}")) from None


def describe_options(pass_type: type[ModulePass]) -> str:
    """A pass's options with types and defaults, on one line."""
    from xdsl.passes import get_pass_option_infos

    return ", ".join(
        f"{option.name.replace('_', '-')}: {option.expected_type}"
        + (f" = {option.default_value}" if option.default_value is not None else "")
        for option in get_pass_option_infos(pass_type)
    )
