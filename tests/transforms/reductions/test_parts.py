"""Reductions in parts: what is split gives what the nest gave, also where a reduction needs another."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp

from cuesta.dialects import loops, sym
from cuesta.dialects.core.diagnostics import verify_module
from cuesta.dialects.core.dominance import verify_dominance
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.locations import print_text
from cuesta.dialects.core.reductions import EXTREMES
from cuesta.dialects.layout import sizes_of, strides_of, tensor_type_of
from cuesta.dialects.loops.analysis import analyse
from cuesta.targets import reference
from cuesta.transforms.reductions.cooperation import cooperate_in_parts
from cuesta.transforms.reductions.domains import LeftOver, Parts, Runs
from cuesta.transforms.reductions.members import members_of
from cuesta.transforms.reductions.parts import split_in_parts
from tests.support.tensors import special_rows
from tests.support.text import parse

pytestmark = pytest.mark.slow

ROWS = 6


@pytest.fixture(autouse=True)
def same_numbers_each_time() -> None:
    """A third moment may come out near 0, where no bound on its error is small enough for every row of numbers."""
    torch.manual_seed(0)


def rows_of(columns: int, body: str, outs: str | None = None) -> str:
    """A nest over rows of %x, whose outs are as large as %x unless it is said."""
    x = f"tensor<{ROWS}x{columns}xf32>"
    out = outs or x
    text = f"""
    func.func @main(%x : {x}) -> {out} {{
      %y = loops.nest (%i : {ROWS}) outs(%o : {out}) {{
        {body}
      }}
      func.return %y : {out}
    }}"""
    return text.replace("COLUMNS", str(columns)).replace("TENSOR", x)


LOAD = "%a = loops.load %x[%i, %j] : TENSOR"
GREATEST = f"""
    %m = loops.reduce maximum (%j : COLUMNS) {{
      {LOAD}
      loops.yield %a : f32
    }} : f32"""
EXPONENTIALS = f"""
    %s = loops.reduce sum (%j : COLUMNS) {{
      {LOAD}
      %b = elem.sub %a, %m : f32
      %c = elem.exp %b : f32
      loops.yield %c : f32
    }} : f32"""
SOFTMAX = f"""{GREATEST} {EXPONENTIALS}
    loops.for (%j : COLUMNS) {{
      {LOAD}
      %b = elem.sub %a, %m : f32
      %c = elem.exp %b : f32
      %d = elem.div %c, %s : f32
      loops.store %d, %o[%i, %j] : TENSOR
    }}"""
LOGARITHM = f"""{GREATEST}
    %inf = elem.constant inf : f32
    %zero = elem.constant 0.0 : f32
    %abs = elem.abs %m : f32
    %infinite = elem.eq %abs, %inf : f32
    %n = elem.select %infinite, %zero, %m : f32
    {EXPONENTIALS.replace("%a, %m", "%a, %n")}
    %l = elem.log %s : f32
    %r = elem.add %l, %n : f32
    loops.store %r, %o[%i] : tensor<{ROWS}xf32>"""
VARIANCE = f"""
    %k = elem.constant COLUMNS.0 : f32
    %t = loops.reduce sum (%j : COLUMNS) {{
      {LOAD}
      loops.yield %a : f32
    }} : f32
    %m = elem.div %t, %k : f32
    %q = loops.reduce sum (%j : COLUMNS) {{
      {LOAD}
      %d = elem.sub %a, %m : f32
      %e = elem.mul %d, %d : f32
      loops.yield %e : f32
    }} : f32
    %v = elem.div %q, %k : f32"""
NORM = f"""{VARIANCE}
    %r = elem.rsqrt %v : f32
    loops.for (%j : COLUMNS) {{
      {LOAD}
      %d = elem.sub %a, %m : f32
      %e = elem.mul %d, %r : f32
      loops.store %e, %o[%i, %j] : TENSOR
    }}"""
ONLY_SQUARES = f"""
    %m = loops.load %x[%i, 3] : TENSOR
    {VARIANCE[VARIANCE.index("%q =") :].replace("%k", "%m")}
    loops.store %q, %o[%i] : tensor<{ROWS}xf32>"""
WITHOUT_PARTNER = f"""{GREATEST}
    %s = loops.reduce sum (%j : COLUMNS) {{
      {LOAD}
      %f = elem.neg %a : f32
      %b = elem.sub %f, %m : f32
      %c = elem.exp %b : f32
      loops.yield %c : f32
    }} : f32
    loops.store %s, %o[%i] : tensor<{ROWS}xf32>"""
THIRD_MOMENT = f"""{VARIANCE}
    %z = loops.reduce sum (%j : COLUMNS) {{
      {LOAD}
      %d = elem.sub %a, %m : f32
      %e = elem.mul %d, %d : f32
      %g = elem.mul %d, %e : f32
      loops.yield %g : f32
    }} : f32
    %p = elem.add %z, %v : f32
    loops.store %p, %o[%i] : tensor<{ROWS}xf32>"""
ONE_A_ROW = f"tensor<{ROWS}xf32>"

STORES_ON_THE_WAY = f"""
    %s = loops.reduce sum (%j : COLUMNS) {{
      {LOAD}
      %b = elem.exp %a : f32
      loops.store %b, %o[%i, %j] : TENSOR
      loops.yield %b : f32
    }} : f32
    %q = loops.reduce sum (%j : COLUMNS) {{
      %b = loops.load %o[%i, %j] : TENSOR
      %c = elem.mul %b, %b : f32
      loops.yield %c : f32
    }} : f32
    %r = elem.add %s, %q : f32
    loops.store %r, %w[%i] : tensor<{ROWS}xf32>"""


def with_second_out(columns: int, body: str) -> str:
    """A nest over rows that stores to %o, as large as %x, and a number for each row to %w."""
    x, w = f"tensor<{ROWS}x{columns}xf32>", f"tensor<{ROWS}xf32>"
    text = f"""
    func.func @main(%x : {x}) -> ({x}, {w}) {{
      %y, %z = loops.nest (%i : {ROWS}) outs(%o : {x}, %w : {w}) {{
        {body}
      }}
      func.return %y, %z : {x}, {w}
    }}"""
    return text.replace("COLUMNS", str(columns)).replace("TENSOR", x)


PROGRAMS = {
    "softmax": (SOFTMAX, None, ["plain", "exponential"]),
    "logarithm of a sum of exponentials": (LOGARITHM, ONE_A_ROW, ["plain", "exponential"]),
    "norm": (NORM, None, ["plain", "squares"]),
    "squares around any number": (ONLY_SQUARES, ONE_A_ROW, ["plain"]),
    "exponentials of something else": (WITHOUT_PARTNER, ONE_A_ROW, ["plain", "exponential"]),
    "a third moment": (THIRD_MOMENT, ONE_A_ROW, ["plain", "squares"]),
}


def test_parts_are_the_same_every_time() -> None:
    """What later nests need is kept in an order that the text decides, and no address in memory."""
    texts: set[str] = set()
    kept: list[object] = []  # alive, so that addresses differ
    for _ in range(8):
        module = parse(rows_of(64, SOFTMAX))
        (nest,) = [op for op in entry_block(module).ops if isinstance(op, loops.NestOp)]
        assert split_in_parts(nest, members_of(nest), parts_of(64, 16)) is not None
        texts.add(print_text(module))
        kept.append(module)
    assert len(texts) == 1


def parts_of(columns: int, points: int) -> Parts:
    """Pieces of so many points, the last of which may be shorter."""
    position = sym.dim(0) * points + sym.dim(1)
    if columns % points == 0:
        return Parts((columns // points,), (points,), (position,))
    count = sym.minimum(points, columns - sym.dim(0) * points)
    return Parts((-(-columns // points),), (points,), (position,), ((position, columns),), count)


def split(text: str, parts: Parts, laws: list[str]) -> tuple[ModuleOp, ModuleOp]:
    """The program before and after."""
    before, module = parse(text), parse(text)
    (nest,) = [op for op in entry_block(module).ops if isinstance(op, loops.NestOp)]
    members = members_of(nest)
    assert [member.law.name for member in members] == laws
    assert split_in_parts(nest, members, parts) is not None
    verify_module(module)
    verify_dominance(module)
    printed = print_text(module)
    assert print_text(parse(printed)) == printed
    return before, module


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("columns", [64, 71])
def test_what_is_split_gives_the_same(name: str, columns: int) -> None:
    body, outs, laws = PROGRAMS[name]
    before, after = split(rows_of(columns, body, outs), parts_of(columns, 16), laws)
    reference.check_equivalent(before, after, exact=False)


@pytest.mark.parametrize("name", PROGRAMS)
def test_parts_may_lie_beside_those_of_other_points(name: str) -> None:
    """What columns give lies side by side: a program that has 32 of them stores to four sectors, and not to 32."""
    body, outs, _ = PROGRAMS[name]
    before, module = parse(rows_of(71, body, outs)), parse(rows_of(71, body, outs))
    (nest,) = [op for op in entry_block(module).ops if isinstance(op, loops.NestOp)]
    found = split_in_parts(nest, members_of(nest), parts_of(71, 16), beside=True)
    assert found is not None
    types = [tensor_type_of(one) for one in found[0].results]
    assert {(sizes_of(one), strides_of(one)) for one in types} == {((ROWS, 5), (1, ROWS))}
    verify_module(module)
    printed = print_text(module)
    assert print_text(parse(printed)) == printed
    reference.check_equivalent(before, module, exact=False)


def special(columns: int) -> Tensor:
    """Rows with infinities and NaN, and rows of very different parts."""
    x = special_rows(ROWS, columns)
    x[4] *= 100
    x[5] -= 200
    x[5, :20] = -torch.inf
    return x


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("columns", [64, 71])
def test_infinities_and_nan_come_out_the_same(name: str, columns: int) -> None:
    body, outs, laws = PROGRAMS[name]
    before, after = split(rows_of(columns, body, outs), parts_of(columns, 16), laws)
    x = special(columns)
    reference.check_equivalent(before, after, [x], exact=False)
    expected, actual = (reference.run(module, [x.clone()])[0] for module in (before, after))
    assert isinstance(expected, Tensor) and isinstance(actual, Tensor)
    assert torch.equal(actual.isnan(), expected.isnan()) and torch.equal(actual.isinf(), expected.isinf())


def whole_parts(columns: int, points: int) -> Parts:
    """Parts of so many points as far as they go, and what is left over."""
    parts = columns // points
    left_over = LeftOver((columns % points,), (parts * points,))
    return Parts((parts,), (points,), (sym.dim(0) * points + sym.dim(1),), left_over=left_over)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("columns", [64, 71, 11])
def test_what_is_left_over_is_joined_by_every_law(name: str, columns: int) -> None:
    body, outs, laws = PROGRAMS[name]
    before, after = split(rows_of(columns, body, outs), whole_parts(columns, 16), laws)
    reference.check_equivalent(before, after, [special(columns)], exact=False)
    reference.check_equivalent(before, after, exact=False)


def test_who_has_a_part_of_a_row_each_cannot_share_what_is_left_over() -> None:
    module = parse(rows_of(71, SOFTMAX))
    text = print_text(module)
    (nest,) = [op for op in entry_block(module).ops if isinstance(op, loops.NestOp)]
    members = members_of(nest)
    assert cooperate_in_parts(nest, members, whole_parts(71, 16)) is None
    assert print_text(module) == text
    assert cooperate_in_parts(nest, members, parts_of(71, 16)) is not None


def test_a_variance_far_from_zero_keeps_its_digits() -> None:
    before, after = split(
        rows_of(4096, f"{VARIANCE} loops.store %v, %o[%i] : {ONE_A_ROW}", ONE_A_ROW),
        parts_of(4096, 128),
        ["plain", "squares"],
    )
    x = torch.randn(ROWS, 4096) + 1000
    truth = x.double().var(1, correction=0)
    off: list[float] = []
    for module in (before, after):
        (variance,) = reference.run(module, [x.clone()])
        assert isinstance(variance, Tensor)
        off.append((variance.double() / truth - 1).abs().max().item())
    assert off[1] < 2 * off[0] + 2**-23


def test_every_kind_has_an_identity_where_a_part_has_no_point() -> None:
    for kind, element in (
        ("sum", "i64"), ("prod", "i32"), ("minimum", "i8"), ("maximum", "ui8"), ("any", "i1"), ("all", "i1"),
        ("maximum", "f32"), ("minimum", "f64"),
    ):  # fmt: skip
        text = f"""
        func.func @main(%x : tensor<3x37x{element}>) -> tensor<3x{element}> {{
          %y = loops.nest (%i : 3) outs(%o : tensor<3x{element}>) {{
            %s = loops.reduce {kind} (%j : 37) {{
              %a = loops.load %x[%i, %j] : tensor<3x37x{element}>
              loops.yield %a : {element}
            }} : {element}
            loops.store %s, %o[%i] : tensor<3x{element}>
          }}
          func.return %y : tensor<3x{element}>
        }}"""
        before, after = split(text, parts_of(37, 16), ["plain"])
        reference.check_equivalent(before, after)


@pytest.mark.parametrize("columns", [64, 71])
def test_what_is_stored_on_the_way_is_stored_by_the_parts(columns: int) -> None:
    before, after = split(with_second_out(columns, STORES_ON_THE_WAY), parts_of(columns, 16), ["plain", "plain"])
    reference.check_equivalent(before, after, exact=False)
    first, second = (op for op in entry_block(after).ops if isinstance(op, loops.NestOp))
    assert len(first.results) == 3 and len(second.results) == 1


def test_near_misses_of_what_is_stored_on_the_way() -> None:
    text = with_second_out(64, STORES_ON_THE_WAY)
    for near in (
        text.replace("loops.load %o[%i, %j]", "loops.load %o[%i, 63 - %j]"),  # of another part
        text.replace("loops.load %o[%i, %j]", "loops.load %o[%i, 0]"),
    ):
        (nest,) = [op for op in entry_block(parse(near)).ops if isinstance(op, loops.NestOp)]
        assert [member.reduction.kind for member in members_of(nest)] == ["sum"]
    (nest,) = [op for op in entry_block(parse(text)).ops if isinstance(op, loops.NestOp)]
    members = members_of(nest)
    assert split_in_parts(nest, members, whole_parts(64, 24)) is None, "what is left over would be stored twice"
    assert cooperate_in_parts(nest, members, parts_of(64, 16)) is None


def place_of(kind: str, element: str, sizes: str = "37") -> str:
    """The extreme of each of three rows, and where it is."""
    x, out, place = f"tensor<3x{sizes}x{element}>", f"tensor<3x{element}>", "tensor<3xi64>"
    axes = [f"%j{k}" for k in range(len(sizes.split("x")))]
    domain = ", ".join(f"{axis} : {size}" for axis, size in zip(axes, sizes.split("x"), strict=True))
    return f"""
    func.func @main(%x : {x}) -> ({out}, {place}) {{
      %y, %z = loops.nest (%i : 3) outs(%o : {out}, %p : {place}) {{
        %s, %t = loops.reduce {kind} ({domain}) {{
          %a = loops.load %x[%i, {", ".join(axes)}] : {x}
          loops.yield %a : {element}
        }} : {element}, i64
        loops.store %s, %o[%i] : {out}
        loops.store %t, %p[%i] : {place}
      }}
      func.return %y, %z : {out}, {place}
    }}"""


@pytest.mark.parametrize("kind", EXTREMES)
@pytest.mark.parametrize("element", ["f32", "i64", "i8", "ui8"])
@pytest.mark.parametrize("columns", [64, 71])
def test_the_place_of_an_extreme_is_the_first_whatever_the_parts(kind: str, element: str, columns: int) -> None:
    parts = replace(parts_of(columns, 16), in_order=True)
    before, after = split(place_of(kind, element, str(columns)), parts, ["place"])
    reference.check_equivalent(before, after)
    if element != "f32":
        return
    same = torch.zeros(3, columns)
    several_nan = torch.randn(3, columns)
    several_nan[:, [5, 20, 21, 50]] = torch.nan
    in_one = torch.full((3, columns), -torch.inf)
    in_one[1] = torch.inf
    in_one[2, 40:] = torch.nan
    for x in (same, several_nan, in_one, same.index_fill(1, torch.tensor([17, 33]), 1)):
        reference.check_equivalent(before, after, [x])


def test_the_place_of_an_extreme_is_not_looked_for_in_parts_of_another_order() -> None:
    text = place_of("argmax", "f32", "6x8")
    for indices, outer, inner in (
        ((sym.dim(1), sym.dim(0)), (8,), (6,)),  # columns
        ((sym.dim(1), sym.dim(0) * 4 + sym.dim(2)), (2,), (6, 4)),  # of every row one half
    ):
        module = parse(text)
        (nest,) = [op for op in entry_block(module).ops if isinstance(op, loops.NestOp)]
        assert split_in_parts(nest, members_of(nest), Parts(outer, inner, indices)) is None


@pytest.mark.parametrize("across", [False, True])
def test_parts_by_memory_are_in_order_where_memory_is(across: bool) -> None:
    text = place_of("argmin", "f32", "6x8")
    if across:
        text = text.replace("%j0, %j1]", "%j1, %j0]").replace("3x6x8", "3x8x6")
    for points, order in ((4, not across), (16, not across)):
        module = parse(text)
        (nest,) = [op for op in entry_block(module).ops if isinstance(op, loops.NestOp)]
        members = members_of(nest)
        parts = Runs(analyse(nest, {}, [True, True]), members).parts(points)
        assert parts.in_order is order
        assert (split_in_parts(nest, members, parts) is not None) is order
        reference.check_equivalent(parse(text), module)


@pytest.mark.parametrize(("width", "outer", "inner"), [(5, (3,), (7, 3)), (6, (4, 1), (5, 3))])
def test_short_runs_go_on_where_the_next_row_begins(width: int, outer: tuple[int, ...], inner: tuple[int, ...]) -> None:
    """Two parts of a row of pixels were 85 runs and 11. Near miss: rows of six pixels of which five are read."""
    image = f"tensor<2x6x4x{width}xi64, #aten.layout<strides = [{24 * width}, 1, {6 * width}, 6]>>"
    text = f"""
    func.func @main(%x : {image}) -> tensor<2x2xi64> {{
      %y = loops.nest (%i : 2, %g : 2) outs(%o : tensor<2x2xi64>) {{
        %s = loops.reduce sum (%c : 3, %h : 4, %w : 5) {{
          %a = loops.load %x[%i, %g * 3 + %c, %h, %w] : {image}
          loops.yield %a : i64
        }} : i64
        loops.store %s, %o[%i, %g] : tensor<2x2xi64>
      }}
      func.return %y : tensor<2x2xi64>
    }}"""
    module = parse(text)
    (nest,) = [op for op in entry_block(module).ops if isinstance(op, loops.NestOp)]
    members = members_of(nest)
    parts = Runs(analyse(nest, {}, [True]), members).parts(3 * 7)
    assert (parts.outer, parts.inner) == (outer, inner)
    assert split_in_parts(nest, members, parts) is not None
    reference.check_equivalent(parse(text), module)


def members_in(body: str, outs: str | None = None) -> list[str]:
    (nest,) = [op for op in entry_block(parse(rows_of(64, body, outs))).ops if isinstance(op, loops.NestOp)]
    return [member.law.name for member in members_of(nest)]


def test_near_misses() -> None:
    # The greatest is needed elsewhere in the body, too.
    twice = EXPONENTIALS.replace("loops.yield %c", "%w = elem.mul %c, %m : f32\n loops.yield %w")
    store = f"loops.store %s, %o[%i] : {ONE_A_ROW}"
    assert members_in(f"{GREATEST} {twice} {store}", ONE_A_ROW) == ["plain"]
    # The difference the other way around.
    around = EXPONENTIALS.replace("%a, %m", "%m, %a")
    assert members_in(f"{GREATEST} {around} {store}", ONE_A_ROW) == ["plain"]
    # A product of exponentials.
    product = EXPONENTIALS.replace("reduce sum", "reduce prod")
    assert members_in(f"{GREATEST} {product} {store}", ONE_A_ROW) == ["plain"]
    # What the nest stores, read by a reduction.
    reading = SOFTMAX + EXPONENTIALS.replace("%x[", "%o[").replace("%s =", "%again =")
    assert members_in(reading) == ["plain", "exponential"]


def test_a_tensor_stored_in_two_places_stays_in_one_nest() -> None:
    body = f"""{GREATEST}
    loops.for (%j : 32) {{
      loops.store %m, %o[%i, %j] : TENSOR
    }}
    loops.for (%j : 32) {{
      loops.store %m, %o[%i, %j + 32] : TENSOR
    }}"""
    module = parse(rows_of(64, body))
    text = print_text(module)
    (nest,) = [op for op in entry_block(module).ops if isinstance(op, loops.NestOp)]
    assert split_in_parts(nest, members_of(nest), parts_of(64, 16)) is None
    assert print_text(module) == text


def test_what_needs_a_split_reduction_in_another_way_comes_after() -> None:
    body, outs, _ = PROGRAMS["a third moment"]
    _, module = split(rows_of(64, body, outs), parts_of(64, 16), ["plain", "squares"])
    *_, last = [op for op in entry_block(module).ops if isinstance(op, loops.NestOp)]
    assert members_of(last), "what is left can be split as well"


GATHER = """
    func.func @main(%x : tensor<9xf32>, %k : tensor<6x71xi64>) -> tensor<6xf32> {
      %y = loops.nest (%i : 6) outs(%o : tensor<6xf32>) {
        %s = loops.reduce sum (%j : 71) {
          %n = loops.load %k[%i, %j] : tensor<6x71xi64>
          %b = loops.bound %n, 9 : i64
          %a = loops.load %x[%b] : tensor<9xf32>
          loops.yield %a : f32
        } : f32
        loops.store %s, %o[%i] : tensor<6xf32>
      }
      func.return %y : tensor<6xf32>
    }"""


def test_an_index_that_is_checked_is_not_made_up_where_a_part_has_no_point() -> None:
    module = parse(GATHER)
    (nest,) = [op for op in entry_block(module).ops if isinstance(op, loops.NestOp)]
    assert split_in_parts(nest, members_of(nest), parts_of(71, 16)) is None
    before, after = split(GATHER.replace("71", "64"), parts_of(64, 16), ["plain"])
    inputs = [torch.randn(9), torch.randint(0, 9, (6, 64))]
    torch.testing.assert_close(reference.run(after, inputs), reference.run(before, inputs))
