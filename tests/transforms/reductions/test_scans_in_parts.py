"""Scans in parts give what the whole scan gave, for every kind, also of infinities, NaN and equals."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp

from cuesta.dialects import loops
from cuesta.dialects.core.diagnostics import verify_module
from cuesta.dialects.core.dominance import verify_dominance
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.locations import print_text
from cuesta.dialects.core.scans import RUNNING
from cuesta.targets import reference
from cuesta.transforms.reductions.scans_in_parts import split_scan, splittable_scan
from tests.support.tensors import special_rows
from tests.support.text import parse

ROWS = 4


def scan_of(kind: str, element: str, columns: int, body: str = "", value: str = "%a") -> str:
    """A scan of rows that stores what runs, and where there is one, its place."""
    x, place = f"tensor<{ROWS}x{columns}x{element}>", f"tensor<{ROWS}x{columns}xi64>"
    second = kind.startswith("last_")
    results, outs, types = ("%r, %t", f"%o : {x}, %p : {place}", f"{x}, {place}") if second else ("%r", f"%o : {x}", x)
    names = "%y, %z" if second else "%y"
    return f"""
    func.func @main(%x : {x}) -> ({types}) {{
      {names} = loops.nest (%i : {ROWS}) outs({outs}) {{
        loops.scan (%j : {columns}) {{
          %a = loops.load %x[%i, %j] : {x}
          {body}
          {results} = loops.running {kind} {value} : {element}
          loops.store %r, %o[%i, {columns - 1} - %j] : {x}
          {f"loops.store %t, %p[%i, %j] : {place}" if second else ""}
        }}
      }}
      func.return {names} : {types}
    }}"""


def split(text: str, points: int, nests: int = 3) -> tuple[ModuleOp, ModuleOp]:
    """The program before and after, which has so many nests."""
    before, module = parse(text), parse(text)
    (nest,) = [op for op in entry_block(module).ops if isinstance(op, loops.NestOp)]
    new = split_scan(nest, points)
    assert new is not None and len(new) == nests
    verify_module(module)
    verify_dominance(module)
    assert print_text(parse(print_text(module))) == print_text(module)
    return before, module


@pytest.mark.parametrize(
    ("kind", "element"),
    [
        (kind, element)
        for kind in RUNNING
        for element in ("f32", "i64", "ui8")
        if kind != "logaddexp" or element == "f32"
    ],
)
@pytest.mark.parametrize("columns", [64, 71, 17])
def test_parts_give_what_the_whole_gives(kind: str, element: str, columns: int) -> None:
    before, after = split(scan_of(kind, element, columns), 16)
    reference.check_equivalent(before, after, exact=False)


def special(columns: int) -> list[Tensor]:
    x = special_rows(ROWS, columns)
    several_nan = torch.randn(ROWS, columns)
    several_nan[:, [5, 20, 21, 50]] = torch.nan
    falling = torch.arange(columns, 0, -1.0).expand(ROWS, columns).contiguous()
    steps = torch.randn(ROWS, columns).round()
    return [x, -x, several_nan, falling, -falling, torch.zeros(ROWS, columns), steps]


@pytest.mark.parametrize("kind", RUNNING)
@pytest.mark.parametrize("columns", [64, 71])
def test_of_infinities_nan_and_equals(kind: str, columns: int) -> None:
    before, after = split(scan_of(kind, "f32", columns), 16)
    for x in special(columns):
        reference.check_equivalent(before, after, [x], exact=False)


def test_what_is_computed_around_the_running_value_stays() -> None:
    body = "%b = elem.exp %a : f32"
    text = scan_of("sum", "f32", 71, body, "%b").replace(
        "loops.store %r", "%s = elem.mul %r, %a : f32\n loops.store %s"
    )
    reference.check_equivalent(*split(text, 16), exact=False)


def with_loops_after(columns: int, last: str) -> str:
    """Sums of rows, and two loops after the scan: a zero before them, and `last` of that."""
    x, more = f"tensor<{ROWS}x{columns}xf32>", f"tensor<{ROWS}x{columns + 1}xf32>"
    return f"""
    func.func @main(%x : {x}) -> ({x}, {more}, {more}) {{
      %y, %z, %w = loops.nest (%i : {ROWS}) outs(%o : {x}, %p : {more}, %q : {more}) {{
        %c = elem.constant 2.0 : f32
        loops.scan (%j : {columns}) {{
          %a = loops.load %x[%i, %j] : {x}
          %r = loops.running sum %a : f32
          loops.store %r, %o[%i, %j] : {x}
        }}
        loops.for (%k : {columns + 1}) {{
          %n = loops.index [%k] : i64
          %one = elem.constant 1 : i64
          %there = elem.ge %n, %one : i64
          %s = loops.load %o[%i, %k - 1] if %there else %c : {x}
          loops.store %s, %p[%i, %k] : {more}
        }}
        loops.for (%l : {columns + 1}) {{
          {last}
        }}
      }}
      func.return %y, %z, %w : {x}, {more}, {more}
    }}"""


@pytest.mark.parametrize("columns", [64, 71])
def test_loops_after_the_scan_are_nests_of_their_own(columns: int) -> None:
    more = f"tensor<{ROWS}x{columns + 1}xf32>"
    last = f"%s = loops.load %p[%i, {columns} - %l] : {more}\n loops.store %s, %q[%i, %l] : {more}"
    reference.check_equivalent(*split(with_loops_after(columns, last), 16, nests=5), exact=False)


@pytest.mark.parametrize(
    "last",
    [
        # It reads what it stores.
        "loops.store %c, %q[%i, %l] : M\n %s = loops.load %q[%i, %l] : M\n loops.store %s, %q[%i, %l] : M",
        # What the loop before has stored.
        "loops.store %c, %q[%i, %l] : M\n loops.store %c, %p[%i, %l] : M",
        # A reduction.
        "%s = loops.reduce sum (%m : 3) {\n loops.yield %c : f32\n } : f32\n loops.store %s, %q[%i, %l] : M",
    ],
)
def test_near_misses_after_the_scan(last: str) -> None:
    text = with_loops_after(64, last.replace("M", f"tensor<{ROWS}x65xf32>"))
    (nest,) = [op for op in entry_block(parse(text)).ops if isinstance(op, loops.NestOp)]
    assert splittable_scan(nest) is None and split_scan(nest, 16) is None


def test_near_misses() -> None:
    base = scan_of("sum", "f32", 64)
    x = f"tensor<{ROWS}x64xf32>"
    for text in (
        # One running value of another.
        base.replace("loops.store %r", "%s = loops.running sum %r : f32\n loops.store %s"),
        # What the nest stores is read.
        base.replace(
            "loops.store %r", f"%s = loops.load %o[%i, 0] : {x}\n %q = elem.add %s, %r : f32\n loops.store %q"
        ),
        # A second stage.
        base.replace(
            "loops.scan", f"loops.for (%k : 64) {{\n loops.store %c, %o[%i, %k] : {x}\n }}\n loops.scan"
        ).replace("loops.for", "%c = elem.constant 1.0 : f32\n loops.for", 1),
        scan_of("last_argmax", "i1", 64),
    ):
        (nest,) = [op for op in entry_block(parse(text)).ops if isinstance(op, loops.NestOp)]
        assert splittable_scan(nest) is None and split_scan(nest, 16) is None
    (nest,) = [op for op in entry_block(parse(base)).ops if isinstance(op, loops.NestOp)]
    assert splittable_scan(nest) is not None
    assert split_scan(nest, 64) is None, "one part is no part"
