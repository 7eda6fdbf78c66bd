"""Registers for what follows a product: a tile is for what a thread can hold of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.machine import REFERENCE
from cuesta.transforms.products.product_plans import around, plan_of
from cuesta.transforms.products.products import Product, products_of
from cuesta.transforms.products.tiles import ALONE, programs_together
from tests.support.triton_interpreter import on_cuda, parse

SILU = """
    %s = elem.sigmoid %x : f32
    %g = elem.mul %p, %s : f32
    %d = elem.sub %one, %s : f32
    %e = elem.mul %x, %d : f32
    %f = elem.add %one, %e : f32
    %r = elem.mul %g, %f : f32"""
GATE = """
    %s = elem.sigmoid %x : f32
    %r = elem.mul %p, %s : f32"""
ADDEND = """
    %r = elem.add %p, %x : f32"""
GELU = """
    %s = elem.erf %x : f32
    %q = elem.mul %x, %x : f32
    %d = elem.exp %q : f32
    %e = elem.mul %d, %x : f32
    %f = elem.add %s, %e : f32
    %r = elem.mul %p, %f : f32"""


def product(after: str) -> Product:
    """8000 rows of 256 by 4096 columns of bf16, and what is made of a point of that and one that is read."""
    a, b, out = "tensor<8000x256xbf16>", "tensor<256x4096xbf16>", "tensor<8000x4096xbf16>"
    text = f"""
func.func @main(%a : {a}, %b : {b}, %c : {out}) -> {out} {{
  %m = loops.extern pure "aten.mm.default"(%a, %b) : ({a}, {b}) -> {out}
  %y = loops.nest (%i : 8000, %j : 4096) outs(%o : {out}) {{
    %one = elem.constant 1.0 : f32
    %l = loops.load %m[%i, %j] : {out}
    %p = elem.convert %l : bf16 to f32
    %k = loops.load %c[%i, %j] : {out}
    %x = elem.convert %k : bf16 to f32{after}
    %z = elem.convert %r : f32 to bf16
    loops.store %z, %o[%i, %j] : {out}
  }}
  func.return %y : {out}
}}"""
    (found,) = products_of(entry_block(on_cuda(parse(text))), precision="")
    return found


@pytest.mark.parametrize(
    ("after", "alive"),
    [(ADDEND, 2), (GATE, 2), (SILU, 3), (GELU, 4)],
    ids=lambda one: f"{one}".strip()[:18],
)
def test_how_many_values_of_a_point_there_are_at_a_time(after: str, alive: int) -> None:
    assert around(product(after), False).alive == alive


def test_what_is_made_of_other_points_is_work_as_well() -> None:
    """A sigmoid of what is read was thought to cost nothing: only what is made of the product was counted."""
    assert around(product(GATE), False).after > 5 * around(product(ADDEND), False).after


def test_a_tile_is_for_what_a_thread_holds() -> None:
    """Machine code for sm_90 had 1 kB of memory for each thread of 128 by 128, four warps, and none with eight."""
    tile = {"rows": 128, "columns": 128, "depth": 64, "stages": 3, "warps": 4}
    for alive, warps, is_held in (
        (1, 4, True),
        (2, 4, True),
        (3, 4, False),
        (3, 8, True),
        (4, 4, False),
        (4, 8, False),
    ):
        together = programs_together(16, {**tile, "warps": warps}, REFERENCE, replace(ALONE, alive=alive))
        assert (together > 0) == is_held, (alive, warps)


def test_a_gradient_that_no_thread_holds_is_not_done_after_the_product() -> None:
    """In a network it took 0.72 ms with it on an H200, and TorchInductor 0.47 without."""
    plan = plan_of(product(SILU), REFERENCE)
    assert plan is not None and not plan.pays
    plan = plan_of(product(ADDEND), REFERENCE)
    assert plan is not None and plan.pays
