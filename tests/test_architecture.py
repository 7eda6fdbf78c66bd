"""The rules of the design that a machine can check."""

from __future__ import annotations

import ast
import runpy
import tomllib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

MAY_IMPORT = {
    "dialects": {"dialects"},
    "transforms": {"transforms", "dialects"},
    "lowering": {"lowering", "transforms", "dialects"},
    "targets": {"targets", "lowering", "transforms", "dialects"},
    "cuesta": {"cuesta", "dialects", "transforms", "lowering", "targets"},
}
"""Each folder's right column in the design's table: dependencies go one way."""

COMPILER_FOLDERS = ("dialects", "transforms", "lowering", "targets")
HEAVY = {"torch", "triton", "llvmlite"}
TEXT_ONLY = ("dialects", "transforms")
MOST_LINES = 600

SOURCES = sorted(path for folder in MAY_IMPORT for path in (ROOT / folder).rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imported_modules(node: ast.AST) -> Iterator[str]:
    """The modules an import statement names; for `from a import b` also `a.b`, which may be a module."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute"
        yield node.module or ""
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def tree_of(path: Path) -> ast.Module:
    """A file, parsed once for all tests."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports_of(path: Path) -> set[str]:
    """Everything a file imports, at module level or later."""
    return {name for node in ast.walk(tree_of(path)) for name in imported_modules(node)}


def module_level_imports(path: Path) -> set[str]:
    """What importing the file imports: not what functions import, nor what only type checkers see."""
    found: set[str] = set()
    pending: list[ast.AST] = [tree_of(path)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending.extend(node.orelse)
            continue
        found.update(imported_modules(node))
        pending.extend(ast.iter_child_nodes(node))
    return found


def folder_of(module: str) -> str | None:
    """The folder of ours that a module lies in."""
    parts = module.split(".")
    if parts[0] != "cuesta":
        return None
    if len(parts) == 1:
        return None
    return parts[1] if parts[1] in COMPILER_FOLDERS else "cuesta"


def wrong(is_wrong: Callable[[Path], object], paths: Iterable[Path] = SOURCES) -> dict[str, object]:
    """The files that break a rule, and how. Errors: AssertionError when there are none to look at."""
    every = list(paths)
    assert every
    return {relative(path): how for path in every if (how := is_wrong(path))}


def test_imports_go_one_way() -> None:
    def upwards(path: Path) -> set[str]:
        folder = path.relative_to(ROOT).parts[0]
        return {name for name in imports_of(path) if folder_of(name) not in {None, *MAY_IMPORT[folder]}}

    assert wrong(upwards) == {}


def is_inductor(name: str) -> bool:
    return name == "torch._inductor" or name.startswith("torch._inductor.")


def test_nothing_imports_inductor() -> None:
    assert wrong(lambda path: {name for name in imports_of(path) if is_inductor(name)}) == {}


def test_text_only_folders_import_nothing_heavy() -> None:
    text_only = [path for path in SOURCES if path.relative_to(ROOT).parts[0] in TEXT_ONLY]
    heavy = wrong(lambda path: {name for name in module_level_imports(path) if name.split(".")[0] in HEAVY}, text_only)
    assert heavy == {}


def test_modules_are_small() -> None:
    def too_many(path: Path) -> int:
        lines = len(path.read_text(encoding="utf-8").splitlines())
        return lines if lines > MOST_LINES else 0

    assert wrong(too_many) == {}


def test_no_not_implemented_error() -> None:
    """A user's input is refused by a diagnostic."""

    def raised(path: Path) -> list[int]:
        return [
            node.lineno
            for node in ast.walk(tree_of(path))
            if isinstance(node, ast.Raise) and node.exc is not None and "NotImplementedError" in ast.unparse(node.exc)
        ]

    assert wrong(raised) == {}


def test_the_rules_see_what_they_forbid() -> None:
    """The checks above find each kind of import."""
    tree = ast.parse(
        "import torch._inductor.config\ndef f():\n  from torch import _inductor\nfrom cuesta import targets"
    )
    names = {name for node in ast.walk(tree) for name in imported_modules(node)}
    assert {name for name in names if is_inductor(name)} == {"torch._inductor.config", "torch._inductor"}
    assert {folder_of(name) for name in names} >= {"targets"}


def test_every_package_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Setup.py lists every folder that holds Python files, and each has an __init__.py."""
    listed: dict[str, object] = {}
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("setuptools.setup", lambda **arguments: listed.update(arguments))
    runpy.run_path(str(ROOT / "setup.py"))
    folders = {path.parent for path in SOURCES}
    missing = [relative(folder) for folder in folders if not (folder / "__init__.py").exists()]
    assert not missing
    names = {relative(folder).replace("/", ".") for folder in folders}
    expected = {name if name.split(".")[0] == "cuesta" else f"cuesta.{name}" for name in names}
    assert set(listed["packages"]) == expected  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("folder", COMPILER_FOLDERS)
def test_tests_stand_in_the_rooms_of_what_they_test(folder: str) -> None:
    tests = ROOT / "tests"
    rooms = {path.parent for path in (tests / folder).rglob("test_*.py")}
    assert not [relative(room) for room in rooms if not (ROOT / room.relative_to(tests)).is_dir()]


def test_the_examples_of_a_pass_stand_in_its_room() -> None:
    """tests/filecheck/transforms/views/eliminate-views/ holds those of transforms/views/eliminate_views.py."""
    examples = ROOT / "tests" / "filecheck"
    passes = {path.parent.relative_to(examples) for path in examples.rglob("*.mlir")} - {Path("cuesta")}
    assert passes
    assert not [str(one) for one in passes if not (ROOT / one.parent / f"{one.name.replace('-', '_')}.py").exists()]


def test_constraints_pin_every_dependency() -> None:
    """What pyproject.toml asks for, constraints.txt has in one version each."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    names = {one.split("[")[0].split(">")[0].split("=")[0].lower() for one in asked} - {"cuesta"}
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = [line.split("==")[0].lower() for line in lines if "==" in line and not line.startswith("#")]
    assert names <= set(pinned)
    assert len(pinned) == len(set(pinned))
