"""Every numeric constant of schedules and rewrites says where it comes from, and what is measured has a row."""

from __future__ import annotations

import ast
import fnmatch
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from benchmarks import constants
from benchmarks.constant_cases import CASES
from benchmarks.constant_rows import PLACES, ROWS, Row
from cuesta.dialects.core.machine import Machine
from cuesta.lowering.schedule.cpu import schedule_cpu
from cuesta.targets.cpu import emit_strided
from tests.support.triton_interpreter import on_cuda

ROOT = Path(__file__).parent.parent.parent
FOLDERS = ("lowering/schedule", *(f"transforms/{name}" for name in ["fusion", "reductions", "scatters", "products"]))
FOLDERS += ("transforms/kernel", "transforms/loops", "transforms/views")
FILES = [
    *(path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))),
    ROOT / "transforms" / "thresholds.py",
]
MACHINE = Machine.of({"lanes": 16})
MEASURED = re.compile(r"measured by `make bench-constants ARGS='--only ([^']+)'`")


@dataclass(frozen=True)
class Constant:
    path: str
    names: tuple[str, ...]
    """Of one assignment."""
    docstring: str

    @property
    def keys(self) -> list[str]:
        return [f"{Path(self.path).stem}.{name}" for name in self.names]

    @property
    def source(self) -> str:
        """The last line of the docstring, without its label; nothing where it is none."""
        last = self.docstring.rstrip().rpartition("\n")[2]
        return last.removeprefix("Source: ") if last.startswith("Source: ") else ""

    @property
    def measured(self) -> list[str]:
        """The patterns of the command that it is measured by."""
        found = MEASURED.fullmatch(self.source)
        return [] if found is None else found[1].split()


def constants_of(text: str, path: str) -> Iterator[Constant]:
    """The numeric constants at the level of a module."""
    body = ast.parse(text).body
    for node, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.Assign):
            (target,) = node.targets
        elif isinstance(node, ast.AnnAssign):
            target = node.target
        else:
            continue
        elements = target.elts if isinstance(target, ast.Tuple) else [target]
        names = tuple(element.id for element in elements if isinstance(element, ast.Name))
        if node.value is not None and is_numeric(node.value) and names and all(name.isupper() for name in names):
            yield Constant(path, names, text_of(following))


def is_numeric(value: ast.expr) -> bool:
    """Whether it is a number, or made of nothing but numbers."""
    inside = [node for node in ast.walk(value) if isinstance(node, ast.expr)]
    leaves = [node for node in inside if isinstance(node, ast.Constant)]
    made_of = (ast.Constant, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.BinOp, ast.UnaryOp)
    named = {node.func for node in inside if isinstance(node, ast.Call)}
    plain = all(
        isinstance(node, made_of) or (isinstance(node, ast.Call) and ast.unparse(node.func) in ("range", "frozenset"))
        for node in inside
        if node not in named
    )
    return plain and bool(leaves) and all(isinstance(leaf.value, int | float) for leaf in leaves)


def text_of(node: ast.stmt | None) -> str:
    """The string that a statement is."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return node.value.value
    return ""


EVERY = [
    constant
    for path in FILES
    for constant in constants_of(path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix())
]


def test_the_search_finds_what_there_is() -> None:
    text = (
        'A = 1\n"""One.\n\nSource: a definition.\n"""\n_B, C = -2.0, 1 << 3\nD = (1, "a")\nE = range(2, 4)\nF = [A]\n'
    )
    found = list(constants_of(text, "x.py"))
    assert [constant.names for constant in found] == [("A",), ("_B", "C"), ("E",)]
    assert [constant.source for constant in found] == ["a definition.", "", ""]
    assert len(EVERY) > 60


@pytest.mark.parametrize("constant", EVERY, ids=lambda constant: " ".join(constant.keys))
def test_a_constant_says_where_it_comes_from(constant: Constant) -> None:
    assert constant.source, f"{constant.path}: the docstring of {', '.join(constant.names)} ends in no `Source:`"
    assert "bench-constants" not in constant.source or constant.measured, "it names the command in other words"


def test_what_is_measured_has_a_row_and_nothing_else_has() -> None:
    measured = {key for constant in EVERY if constant.measured for key in constant.keys}
    assert measured == {row.key for row in ROWS}
    for constant in EVERY:
        for key in constant.keys if constant.measured else ():
            assert any(fnmatch.fnmatch(key, pattern) for pattern in constant.measured), "the command measures another"


def test_no_two_modules_have_one_name() -> None:
    names = [Path(constant.path).stem for constant in EVERY]
    paths = {constant.path for constant in EVERY}
    assert len(paths) == len(set(names))
    for name, place in PLACES.items():
        assert (ROOT / place.removeprefix("cuesta.").replace(".", "/")).with_suffix(".py").stem == name


def test_a_measured_constant_is_read_through_its_module() -> None:
    """What another module copies when it is imported has the old value in a row."""
    measured = {(PLACES[row.key.partition(".")[0]], row.name) for row in ROWS}
    for folder in ("lowering", "transforms", "targets", "cuesta"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom):
                    copied = {(node.module, alias.name) for alias in node.names} & measured
                    assert not copied, f"{path.relative_to(ROOT)} copies {copied}"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.key} {row.device}")
def test_a_row_names_what_there_is(row: Row) -> None:
    assert row.values and row.current() not in row.values
    assert all(type(value) is type(row.current()) for value in row.values)
    assert row.cases and set(row.cases) <= CASES.keys()


def test_rows_are_told_apart() -> None:
    assert len({(row.key, row.device) for row in ROWS}) == len(ROWS)


def test_every_case_is_of_some_row() -> None:
    assert {case for row in ROWS for case in row.cases} == CASES.keys()


def variants(row: Row, case: str) -> constants.Variants:
    """A row's case as it is compiled for one machine, whatever this one is."""
    program = replace(captured(case, row.device), lowered={}, calls={})
    return constants.variants(row, case, program, MACHINE)


@cache
def captured(case: str, device: str) -> constants.Program:
    """Many rows have a case."""
    program = constants.captured(CASES[case], "cpu", empty=True)
    return replace(program, module=on_cuda(program.module)) if device == "cuda" else program


def row_of(key: str, device: str) -> Row:
    (found,) = [row for row in ROWS if (row.key, row.device) == (key, device)]
    return found


@pytest.mark.parametrize(
    ("key", "device", "case"),
    [("schedule_cpu.TILE", "cpu", "pointwise"), ("schedule_gpu.TILE", "cuda", "scaled rows of 1000")],
)
def test_another_value_is_another_kernel(key: str, device: str, case: str) -> None:
    row = row_of(key, device)
    current = row.current()
    texts = variants(row, case).texts
    assert list(texts) == [current, *row.values]
    assert len(set(texts.values())) == len(texts)
    assert row.current() == current, "and afterwards it has its own again"


def test_what_a_cache_knows_of_a_constant_is_forgotten() -> None:
    """`cost._cost_of` remembers the cost of a class."""
    found = variants(row_of("cost._HEAVY", "cpu"), "softmax")
    assert found.texts[5] != found.texts[10]


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.key} {row.device}")
def test_a_row_decides_something(row: Row) -> None:
    changes = []
    for case in row.cases:
        found = variants(row, case)
        errors = [text for text in found.texts.values() if isinstance(text, Exception)]
        assert not errors, errors
        changes.append(len(set(found.texts.values())) > 1)
    assert any(changes), "no value makes another kernel of any case"


def test_a_failing_row_is_a_line() -> None:
    row = row_of("schedule_cpu.TILE", "cpu")
    lines: list[constants.Line] = []
    broken = Row(row.key, "cpu", ("no such case",), row.values)
    constants.run([broken], "cpu", lines.append)
    (line,) = lines
    assert line.told == "ERROR KeyError: 'no such case'"
    assert "no such case | ERROR" in line.as_markdown()


@pytest.mark.slow
def test_a_row_is_timed_where_kernels_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "SECONDS", 0.0)
    row = Row("schedule_cpu.HORIZONTAL", "cpu", ("sums of 12",), (2.0, 8.0))
    lines: list[constants.Line] = []
    constants.run([row], "cpu", lines.append)
    now, same, timed = (line.told for line in lines)
    assert now.endswith(" ms, now")
    assert same == constants.SAME
    assert re.fullmatch(r" *\d+\.\d+ ms, \d+\.\d\d", timed)


def test_the_document_holds_what_runs_have_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "RESULTS", tmp_path / "results.md")
    for device in ("cpu", "cuda"):
        (tmp_path / device).write_text(f"## {device}\n\n| `x.Y` | 1 | a case | 2 ms, now | |\n\n", encoding="utf-8")
    assert constants.main(["--write", str(tmp_path / "cpu"), str(tmp_path / "cuda")]) == 0
    text = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert text.startswith("# What the constants")
    assert text.index("## cpu") < text.index("| `x.Y`") < text.index("## cuda")


def test_a_pattern_without_a_row_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        constants.main(["--only", "nowhere.NOTHING"])
    assert "no row matches nowhere.NOTHING" in capsys.readouterr().err


def test_the_stride_of_shuffled_loads_is_the_target_s() -> None:
    assert schedule_cpu.SHUFFLED_STRIDE == emit_strided.WIDEST_STRIDE
