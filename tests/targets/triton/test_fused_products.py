"""Products with what is around them in one Triton kernel: by Triton's interpreter against float64."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp

from cuesta.context import make_context
from cuesta.dialects import loops
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.machine import REFERENCE
from cuesta.dialects.layout import is_tensor_type
from cuesta.targets.reference import check_equivalent, random_inputs
from cuesta.targets.reference import run as run_reference
from cuesta.testing import compare
from cuesta.transforms.products.choose_products import ChooseProductsPass
from cuesta.transforms.products.picked_elements import picked
from cuesta.transforms.products.product_nests import fused_nest, replace
from cuesta.transforms.products.product_plans import ADDRESS, SINGLE, around, plan_of_reduced
from cuesta.transforms.products.products import products_of
from cuesta.transforms.products.reduced_products import (
    can_be_in_parts,
    reduced,
    reduced_nest,
    replace_reduced,
    take_out_picks,
)
from tests.support.triton_interpreter import on_cuda, parse, run
from tests.support.triton_kernels import texts_of
from tests.targets.triton.test_contractions import product

pytest.importorskip("triton")

SMALL = {"rows": 16, "columns": 32, "depth": 16, "warps": 4, "stages": 2, "group": 2}


def two_products(m: int, n: int, k: int) -> str:
    """tanh(a · b) · (a · c + bias), of f16."""
    a, b, out = f"tensor<{m}x{k}xf16>", f"tensor<{k}x{n}xf16>", f"tensor<{m}x{n}xf16>"
    return f"""
func.func @main(%a : {a}, %b : {b}, %c : {b}, %bias : tensor<{n}xf16>) -> {out} {{
  %m = loops.extern pure "aten.mm.default"(%a, %b) : ({a}, {b}) -> {out}
  %n = loops.extern pure "aten.addmm.default"(%bias, %a, %c) : (tensor<{n}xf16>, {a}, {b}) -> {out}
  %y = loops.nest (%i : {m}, %j : {n}) outs(%o : {out}) {{
    %0 = loops.load %m[%i, %j] : {out}
    %1 = elem.convert %0 : f16 to f32
    %2 = elem.tanh %1 : f32
    %3 = loops.load %n[%i, %j] : {out}
    %4 = elem.convert %3 : f16 to f32
    %5 = elem.mul %2, %4 : f32
    %6 = elem.convert %5 : f32 to f16
    loops.store %6, %o[%i, %j] : {out}
  }}
  func.return %y : {out}
}}"""


def part_of(m: int, n: int, k: int, rows: int, columns: int) -> str:
    """The first rows and columns of a · b, and a bias that has no more than these."""
    a, b, whole, out = (f"tensor<{x}x{y}xf16>" for x, y in ((m, k), (k, n), (m, n), (rows, columns)))
    return f"""
func.func @main(%a : {a}, %b : {b}, %bias : tensor<{columns}xf16>) -> {out} {{
  %m = loops.extern pure "aten.mm.default"(%a, %b) : ({a}, {b}) -> {whole}
  %y = loops.nest (%i : {rows}, %j : {columns}) outs(%o : {out}) {{
    %0 = loops.load %m[%i, %j] : {whole}
    %1 = elem.convert %0 : f16 to f32
    %2 = loops.load %bias[%j] : tensor<{columns}xf16>
    %3 = elem.convert %2 : f16 to f32
    %4 = elem.add %1, %3 : f32
    %5 = elem.convert %4 : f32 to f16
    loops.store %5, %o[%i, %j] : {out}
  }}
  func.return %y : {out}
}}"""


def reduced_rows(m: int, n: int, k: int, kind: str) -> str:
    """Of every row of a · b the sum, or the greatest, of tanh(it + bias), and the number of its row added."""
    a, b, whole = (f"tensor<{x}x{y}xf16>" for x, y in ((m, k), (k, n), (m, n)))
    return f"""
func.func @main(%a : {a}, %b : {b}, %bias : tensor<{n}xf16>, %c : tensor<{m}xf32>) -> tensor<{m}xf32> {{
  %m = loops.extern pure "aten.mm.default"(%a, %b) : ({a}, {b}) -> {whole}
  %y = loops.nest (%i : {m}) outs(%o : tensor<{m}xf32>) {{
    %t = loops.reduce {kind} (%j : {n}) {{
      %0 = loops.load %m[%i, %j] : {whole}
      %1 = elem.convert %0 : f16 to f32
      %2 = loops.load %bias[%j] : tensor<{n}xf16>
      %3 = elem.convert %2 : f16 to f32
      %4 = elem.add %1, %3 : f32
      %5 = elem.tanh %4 : f32
      loops.yield %5 : f32
    }} : f32
    %6 = loops.load %c[%i] : tensor<{m}xf32>
    %7 = elem.add %t, %6 : f32
    loops.store %7, %o[%i] : tensor<{m}xf32>
  }}
  func.return %y : tensor<{m}xf32>
}}"""


def cross_entropy(m: int, n: int, k: int, *, apart: bool) -> str:
    """Of every row of a · b the log-sum-exp, less the element that a label says; in a nest of its own, if `apart`."""
    a, b, whole, row, labels = f"tensor<{m}x{k}xf16>", f"tensor<{k}x{n}xf16>", f"tensor<{m}x{n}xf16>", "xf32>", "xi64>"
    row, labels = f"tensor<{m}{row}", f"tensor<{m}{labels}"
    picked = f"""
    %l = loops.load %labels[%i] : {labels}
    %last = elem.constant {n - 1} : i64
    %in = elem.and %l, %last : i64
    %at = loops.bound %in, {n} : i64
    %p0 = loops.load %m[%i, %at] : {whole}
    %p = elem.convert %p0 : f16 to f32
    %d = elem.sub %s, %p : f32
    loops.store %d, %o[%i] : {row}"""
    end = f"loops.store %s, %o[%i] : {row}" if apart else picked
    rest = f"""
  %z = loops.nest (%i : {m}) outs(%o : {row}) {{
    %s = loops.load %y[%i] : {row}{picked}
  }}
  func.return %z : {row}"""
    return f"""
func.func @main(%a : {a}, %b : {b}, %labels : {labels}) -> {row} {{
  %m = loops.extern pure "aten.mm.default"(%a, %b) : ({a}, {b}) -> {whole}
  %y = loops.nest (%i : {m}) outs(%o : {row}) {{
    %t = loops.reduce maximum (%j : {n}) {{
      %0 = loops.load %m[%i, %j] : {whole}
      %1 = elem.convert %0 : f16 to f32
      loops.yield %1 : f32
    }} : f32
    %u = loops.reduce sum (%j : {n}) {{
      %2 = loops.load %m[%i, %j] : {whole}
      %3 = elem.convert %2 : f16 to f32
      %4 = elem.sub %3, %t : f32
      %5 = elem.exp %4 : f32
      loops.yield %5 : f32
    }} : f32
    %v = elem.log %u : f32
    %s = elem.add %t, %v : f32
    {end}
  }}{
        rest
        if apart
        else f'''
  func.return %y : {row}'''
    }
}}"""


def fused(text: str, choices: dict[str, int]) -> ModuleOp:
    module = on_cuda(parse(text))
    found, *_ = products_of(entry_block(module), precision="tf32")
    rows = reduced(found, entry_block(module))
    if rows is not None:
        assert can_be_in_parts(rows, choices["part"])
        take_out_picks(rows)
        replace_reduced(rows, reduced_nest(rows), choices)
        module.verify()
        return module
    replace(found, fused_nest(found, prologues=True, beside=True), choices)
    module.verify()
    assert not any(isinstance(op, loops.ExternOp) for op in entry_block(module).ops)
    return module


CASES = {
    "two products": (two_products(40, 37, 48), SMALL),
    "a part of a product": (part_of(40, 48, 32, 37, 45), SMALL),
    "in parts": (product(37, 45, 96, "f16"), {**SMALL, "part": 32}),
    "in parts, batched, transposed": (product(17, 16, 64, "f16", batch=2, transposed=True), {**SMALL, "part": 32}),
    "sums of rows": (reduced_rows(37, 96, 40, "sum"), {**SMALL, "part": 32}),
    "maxima of rows": (reduced_rows(33, 64, 48, "maximum"), {**SMALL, "part": 32}),
    "cross entropy": (cross_entropy(37, 64, 40, apart=False), {**SMALL, "part": 32}),
    "cross entropy, picked apart": (cross_entropy(33, 64, 48, apart=True), {**SMALL, "part": 32}),
    "two products, in parts": (two_products(40, 37, 96), {**SMALL, "part": 48}),
    "a part, in parts": (part_of(40, 48, 64, 37, 45), {**SMALL, "part": 32}),
}


@pytest.mark.parametrize("name", CASES)
def test_the_nest_means_the_same(name: str) -> None:
    text, choices = CASES[name]
    check_equivalent(on_cuda(parse(text)), fused(text, choices), exact=False)


@pytest.mark.slow  # the interpreter takes seconds for a kernel
@pytest.mark.parametrize("name", CASES)
def test_numerics(name: str) -> None:
    text, choices = CASES[name]
    inputs = random_inputs(parse(text))
    expected, truth = run_reference(parse(text), inputs), run_reference(parse(text), inputs, precise=True)
    (actual,) = run(fused(text, choices), inputs)
    found = compare(name, actual, expected[0], truth[0], factor=3.0, ulps=4.0)
    assert found.passes, str(found)


def test_two_products_are_one_loop_that_loads_what_both_have_once() -> None:
    (text,) = texts_of(fused(two_products(64, 64, 64), SMALL))
    assert text.source.count("for k_start in ") == 1
    assert text.source.count("tl.dot(") == 2
    assert text.source.count("tl.load(a +") == 1


def test_so_are_their_parts() -> None:
    first, second = texts_of(fused(two_products(64, 64, 64), {**SMALL, "part": 32}))
    assert first.source.count("for k_start in ") == 1 and first.source.count("tl.load(a +") == 1
    assert "tl.dot(" not in second.source


def test_parts_are_added_up_by_a_second_kernel() -> None:
    first, second = texts_of(fused(product(64, 64, 128, "bf16"), {**SMALL, "part": 32}))
    assert "tl.dot(" in first.source and "tanh" not in first.source
    assert "tl.dot(" not in second.source and "tanh" in second.source


def test_what_reduces_rows_stores_no_product() -> None:
    first, second = texts_of(fused(reduced_rows(64, 96, 64, "sum"), {**SMALL, "part": 32}))
    assert "tl.dot(" in first.source and "tl.sum(" in first.source
    assert "tl.dot(" not in second.source


def test_a_part_is_stored_under_a_mask_and_read_without_one() -> None:
    """The factors' rows begin where vectors may; a mask that ends elsewhere would keep their loads from being such."""
    (text,) = texts_of(fused(part_of(64, 64, 64, 37, 45), {**SMALL, "descriptors": 0}))
    factors = [line for line in text.source.splitlines() if "tl.load(a +" in line or "tl.load(b +" in line]
    assert len(factors) == 2 and not any("mask" in line for line in factors)
    assert any("tl.store(" in line and "mask" in line for line in text.source.splitlines())


def longer_rows(held: int) -> ModuleOp:
    """a · b', where b' is b, whose rows have so many elements, with zeros up to 128."""
    a, out = "tensor<4096x8192xbf16>", "tensor<4096x128xbf16>"
    b, wide = f"tensor<8192x{held}xbf16>", "tensor<8192x128xbf16>"
    return on_cuda(
        parse(f"""
func.func @main(%a : {a}, %b : {b}) -> {out} {{
  %c = loops.nest (%k : 8192, %j : 128) outs(%o : {wide}) {{
    %0 = loops.index [%j] : i32
    %1 = elem.constant {held} : i32
    %2 = elem.lt %0, %1 : i32
    %3 = elem.constant 0.0 : bf16
    %4 = loops.load %b[%k, %j] if %2 else %3 : {b}
    loops.store %4, %o[%k, %j] : {wide}
  }}
  %m = loops.extern pure "aten.mm.default"(%a, %c) : ({a}, {wide}) -> {out}
  func.return %m : {out}
}}""")
    )


@pytest.mark.parametrize(("held", "instructions"), [(127, SINGLE), (126, ADDRESS / 2), (124, ADDRESS / 4), (120, 0.0)])
def test_what_it_takes_to_find_elements_of_odd_rows(held: int, instructions: float) -> None:
    """Those of rows that begin anywhere are loaded one by one, and go through registers."""
    (found,) = products_of(entry_block(longer_rows(held)), precision="")
    assert around(found, True).addresses == (0.0, instructions)
    assert around(found, True).in_turns == (held == 127)
    assert around(found, False).addresses == (0.0, 0.0)


def test_a_factor_of_odd_rows_is_copied_for_the_library() -> None:
    """8 of 1000x8192 by 8192x127 bf16, and a layer norm, took 126 us in a kernel of ours, 86 with a copy (H100)."""
    for held, stays in ((127, True), (120, False)):
        module = longer_rows(held)
        ChooseProductsPass().apply(make_context(), module)
        calls = [op for op in entry_block(module).ops if isinstance(op, loops.ExternOp)]
        assert bool(calls) == stays, held


@pytest.mark.parametrize("apart", [False, True])
def test_a_cross_entropy_has_one_loop_of_products_and_no_logits(apart: bool) -> None:
    module = fused(cross_entropy(64, 128, 64, apart=apart), {**SMALL, "part": 32})
    (text,) = (text for text in texts_of(module) if "tl.dot(" in text.source)
    assert text.source.count("tl.dot(") == 1, "the maximum and the sum of a part read one product"
    assert "libdevice.exp" in text.source
    made = [result.type for op in entry_block(module).ops for result in op.results]
    assert not any(is_tensor_type(one) and tuple(one.get_shape()) == (64, 128) for one in made)


MASKED = (
    "%p0 = loops.load %m[%i, %at] :",
    "%no = elem.constant 0.0 : f16\n%th = elem.ge %l, %last : i64\n%p0 = loops.load %m[%i, %at] if %th else %no :",
)
SCHEDULED = (
    "%z = loops.nest (%i : 33) outs(%o : tensor<33xf32>)",
    "%z = loops.nest (%i : 33) outs(%o : tensor<33xf32>) schedule #loops.schedule<warps = 2>",
)
TWO_OF_A_ROW = (
    "%z = loops.nest (%i : 33) outs(%o : tensor<33xf32>)",
    "%z = loops.nest (%i : 33, %q : 2) outs(%o : tensor<33x2xf32>)",
)


@pytest.mark.parametrize(
    "changes",
    [
        [SCHEDULED],
        [
            TWO_OF_A_ROW,
            ("store %d, %o[%i] : tensor<33xf32>", "store %d, %o[%i, %q] : tensor<33x2xf32>"),
            ("return %z : tensor<33xf32>", "return %z : tensor<33x2xf32>"),
            (") -> tensor<33xf32>", ") -> tensor<33x2xf32>"),
        ],
    ],
)
def test_who_reads_a_product_otherwise_keeps_it(changes: list[tuple[str, str]]) -> None:
    """What has a schedule of somebody's, and what reads more than one element of a row."""
    text = cross_entropy(33, 64, 48, apart=True)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    block = entry_block(on_cuda(parse(text)))
    chosen = [op for op in block.ops if isinstance(op, loops.NestOp) and op.choices]
    (product,) = products_of(block, precision="tf32", untouched=chosen)
    assert reduced(product, block, chosen) is None


def test_an_element_that_is_masked_is_not_picked() -> None:
    text = cross_entropy(33, 64, 48, apart=True)
    old, new = MASKED
    assert old in text
    block = entry_block(on_cuda(parse(text.replace(old, new))))
    (product,) = products_of(block, precision="tf32")
    rows = reduced(product, block)
    assert rows is not None
    assert [picked(load, product) for load in rows.picks] == [None]
    assert plan_of_reduced(rows, REFERENCE) is None


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "stays"),
    [
        (8192, 4096, 64, False),  # clearly faster
        (4096, 128256, 1024, False),  # a little slower, and 1 GB less
        (8192, 32000, 2048, True),  # a little slower, and 500 MiB less
        (512, 128256, 2048, True),
    ],
)
def test_when_a_cross_entropy_stores_no_logits(rows: int, columns: int, depth: int, stays: bool) -> None:
    module = on_cuda(parse(cross_entropy(rows, columns, depth, apart=True)))
    ChooseProductsPass().apply(make_context(), module)
    assert any(isinstance(op, loops.ExternOp) for op in entry_block(module).ops) == stays
