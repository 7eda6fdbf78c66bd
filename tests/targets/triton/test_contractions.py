"""Contractions as Triton kernels: by Triton's interpreter against float64, and compiled for `sm_90`."""

from __future__ import annotations

import math

import pytest
import torch
from xdsl.dialects.builtin import ModuleOp

from cuesta.context import make_context
from cuesta.dialects import loops
from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.machine import REFERENCE
from cuesta.targets.program import KernelText
from cuesta.targets.reference import check_equivalent, random_inputs
from cuesta.targets.reference import run as run_reference
from cuesta.targets.triton.compilation import compile_kernel
from cuesta.testing import compare
from cuesta.transforms.products.product_nests import fused_nest, replace
from cuesta.transforms.products.products import products_of
from cuesta.transforms.products.tiles import Around, tiles_for
from tests.support.triton_interpreter import on_cuda, parse, run
from tests.support.triton_kernels import assert_compiles, texts_of

pytest.importorskip("triton")

HOPPER = 90
SMALL = {"rows": 16, "columns": 32, "depth": 16, "warps": 4, "stages": 2, "group": 2, "descriptors": 0}
"""A tile that is loaded by pointers; other forms: `test_contraction_forms.py`."""


def product(m: int, n: int, k: int, element: str, *, batch: int = 0, transposed: bool = False) -> str:
    """gelu-like(a · b + bias) + residual, with the right factor perhaps transposed in memory, perhaps batched."""
    around = f"{batch}x" if batch else ""
    b_layout = f", #aten.layout<strides = [{f'{n * k}, ' if batch else ''}1, {k}]>" if transposed else ""
    a, b, c = f"tensor<{around}{m}x{k}x{element}>", f"tensor<{around}{k}x{n}x{element}{b_layout}>", f"{around}{m}x{n}"
    out = f"tensor<{c}x{element}>"
    axes = f"%q : {batch}, %i : {m}, %j : {n}" if batch else f"%i : {m}, %j : {n}"
    point = "%q, %i, %j" if batch else "%i, %j"
    widen = (lambda name, of: f"{name} = elem.convert {of} : {element} to f32") if element != "f32" else None

    def load(name: str, text: str) -> str:
        return f"{name}_0 = {text}\n    {widen(name, f'{name}_0')}" if widen else f"{name} = {text}"

    end = f"%z = elem.convert %r : f32 to {element}" if widen else "%z = elem.add %r, %h : f32"
    return f"""
func.func @main(%a : {a}, %b : {b}, %bias : tensor<{n}x{element}>, %res : {out}) -> {out} {{
  %m = loops.extern pure "aten.{"bmm" if batch else "mm"}.default"(%a, %b) : ({a}, {b}) -> {out}
  %y = loops.nest ({axes}) outs(%o : {out}) {{
    {load("%s", f"loops.load %m[{point}] : {out}")}
    {load("%h", f"loops.load %bias[%j] : tensor<{n}x{element}>")}
    %t = elem.add %s, %h : f32
    %u = elem.tanh %t : f32
    {load("%x", f"loops.load %res[{point}] : {out}")}
    %r = elem.add %u, %x : f32
    {end}
    loops.store %z, %o[{point}] : {out}
  }}
  func.return %y : {out}
}}"""


PLAIN = """
func.func @main(%a : tensor<16x16xf32>, %b : tensor<16x16xf32>) -> tensor<16x16xf32> {
  %m = loops.extern pure "aten.mm.default"(%a, %b) : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  func.return %m : tensor<16x16xf32>
}"""


def with_prologue(m: int, n: int, k: int) -> str:
    """exp(tanh(x · s + c)) · (cos w + c), s for rows and c for points: nothing of it is 0 where nothing is read."""
    a, b, w = f"tensor<{m}x{k}xf16>", f"tensor<{k}x{n}xf16>", f"tensor<{k}x{n}xf32>"
    out = f"tensor<{m}x{n}xf16>"
    return f"""
func.func @main(%x : {a}, %s : tensor<{m}xf16>, %c : tensor<{k}xf32>, %w : {w}) -> {out} {{
  %a = loops.nest (%i : {m}, %k : {k}) outs(%o : {a}) {{
    %0 = loops.load %x[%i, %k] : {a}
    %1 = elem.convert %0 : f16 to f32
    %2 = loops.load %s[%i] : tensor<{m}xf16>
    %3 = elem.convert %2 : f16 to f32
    %4 = elem.mul %1, %3 : f32
    %5 = loops.load %c[%k] : tensor<{k}xf32>
    %6 = elem.add %4, %5 : f32
    %7 = elem.tanh %6 : f32
    %8 = elem.exp %7 : f32
    %9 = elem.convert %8 : f32 to f16
    loops.store %9, %o[%i, %k] : {a}
  }}
  %b = loops.nest (%k : {k}, %j : {n}) outs(%o : {b}) {{
    %0 = loops.load %w[%k, %j] : {w}
    %1 = elem.cos %0 : f32
    %2 = loops.load %c[%k] : tensor<{k}xf32>
    %3 = elem.add %1, %2 : f32
    %4 = elem.convert %3 : f32 to f16
    loops.store %4, %o[%k, %j] : {b}
  }}
  %m = loops.extern pure "aten.mm.default"(%a, %b) : ({a}, {b}) -> {out}
  func.return %m : {out}
}}"""


def fused(text: str, choices: dict[str, int]) -> ModuleOp:
    module = on_cuda(parse(text))
    (found,) = products_of(entry_block(module), precision="tf32")
    replace(found, fused_nest(found, prologues=True), choices)
    module.verify()
    assert sum(isinstance(op, loops.NestOp) for op in entry_block(module).ops) == 1
    assert not any(isinstance(op, loops.ExternOp) for op in entry_block(module).ops)
    return module


def text_of(module: ModuleOp) -> KernelText:
    (text,) = texts_of(module)
    assert "tl.dot(" in text.source or "functions.multiply_in_pieces(" in text.source
    return text


CASES = {
    "whole tiles": product(32, 64, 32, "f16"),
    "odd sizes": product(37, 45, 51, "f16"),
    "one column of tiles": product(50, 20, 40, "bf16"),
    "transposed": product(33, 40, 48, "bf16", transposed=True),
    "batched": product(20, 33, 24, "f16", batch=3),
    "batched and transposed": product(17, 16, 40, "f16", batch=2, transposed=True),
    "f32": product(20, 40, 24, "f32"),
    "f32 in pieces": product(20, 40, 24, "f32"),
    "f32 in pieces, odd sizes": product(37, 45, 51, "f32"),
    "f32 in pieces, batched and transposed": product(17, 16, 40, "f32", batch=2, transposed=True),
    "prologue": with_prologue(20, 40, 48),
    "prologue, odd sizes": with_prologue(17, 21, 37),
}


def choices_for(name: str) -> dict[str, int]:
    return {**SMALL, **({"tf32": 1} if name == "f32" else {"bf16x6": 1} if name.startswith("f32") else {})}


@pytest.mark.slow  # the interpreter takes seconds for a kernel
@pytest.mark.parametrize("name", CASES)
def test_numerics(name: str) -> None:
    text, choices = CASES[name], choices_for(name)
    inputs = random_inputs(parse(text))
    expected, truth = run_reference(parse(text), inputs), run_reference(parse(text), inputs, precise=True)
    (actual,) = run(fused(text, choices), inputs)
    # Triton's interpreter cuts f32 off when it makes bf16 of it, which a device rounds.
    ulps = 8.0 if "bf16" in text else 4.0
    found = compare(name, actual, expected[0], truth[0], factor=3.0, ulps=ulps)
    assert found.passes, str(found)


@pytest.mark.parametrize("name", ["odd sizes", "batched and transposed", "prologue, odd sizes"])
def test_what_is_fused_means_the_same_at_every_level(name: str) -> None:
    from cuesta.pipeline import Stage, run_pipeline

    before = on_cuda(parse(CASES[name]))
    module = fused(CASES[name], SMALL)
    check_equivalent(before, module, exact=False)
    nests = module.clone()
    run_pipeline(make_context(), module, [Stage("loops-to-kernel", "under test")], verify_each=True)
    check_equivalent(nests, module)


@pytest.mark.parametrize("name", ["odd sizes", "f32", "f32 in pieces, odd sizes", "prologue, odd sizes"])
def test_one_compiles(name: str) -> None:
    text = text_of(fused(CASES[name], choices_for(name)))
    assert ('input_precision="tf32"' in text.source) == (name == "f32")
    assert ("functions.multiply_in_pieces(" in text.source) == name.startswith("f32 in pieces")
    assert_compiles([text])


def test_a_schedule_says_one_precision() -> None:
    with pytest.raises(CuestaError, match="its schedule says both tf32 and bf16x6"):
        texts_of(fused(CASES["f32"], {**SMALL, "tf32": 1, "bf16x6": 1}))


@pytest.mark.slow
def test_pieces_are_as_exact_as_f32_and_keep_what_is_no_number() -> None:
    """Numbers over the whole range whose pieces are exact, the greatest ones, infinities, NaN and zeros of both signs,
    in products with what is one piece and what is three.
    """
    inf, nan, most = math.inf, math.nan, torch.finfo(torch.float32).max
    given = torch.randn(16, 16) * 2.0 ** torch.randint(-20, 20, (16, 16))
    other = torch.randn(16, 16) * 2.0 ** torch.randint(-20, 20, (16, 16))
    given[0], given[1], given[2], given[3] = 0.0, 0.0, 0.0, -0.0
    given[0, 3], given[1, 4], given[2, 5], given[4, 6], given[4, 7] = inf, -inf, nan, inf, -inf
    given[5, 0], given[5, 1:], given[6], given[7] = most, 0.0, most / 2.0**40, 2.0**-80
    other[:, 0], other[:, 1], other[:, 2], other[:, 3] = 1.0, 0.0, -0.5, 1e-3
    inputs = [given, other]
    (actual,) = run(fused(PLAIN, {**SMALL, "bf16x6": 1}), inputs)
    expected, truth = given @ other, given.double() @ other.double()
    for is_so in (torch.isnan, torch.isinf):
        assert is_so(actual).nonzero().tolist() == is_so(expected).nonzero().tolist()
    assert torch.equal(actual[expected.isinf()], expected[expected.isinf()])
    there = expected.isfinite()
    size = (given.double().abs() @ other.double().abs())[there]
    assert bool(((actual.double() - truth)[there].abs() <= 16 * 2.0**-24 * size).all())


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "bits"), [(2.0**-100, 22), (2.0**-124, 8)])
def test_pieces_of_the_least_numbers(scale: float, bits: int) -> None:
    """Of small numbers the last pieces are below the least number of bf16 (`docs/differences.md`)."""
    given, other = torch.zeros(16, 16), torch.zeros(16, 16)
    given[:, 0], other[0] = (torch.rand(16) + 1) * scale, torch.rand(16) + 1
    (actual,) = run(fused(PLAIN, {**SMALL, "bf16x6": 1}), [given, other])
    truth = given.double() @ other.double()
    off = float(((actual.double() - truth) / truth).abs().max())
    assert 2.0 ** -(bits + 4) < off < 2.0**-bits
    assert float(((given @ other - truth) / truth).abs().max()) < 2.0**-22


@pytest.mark.slow
@pytest.mark.parametrize("element", ["bf16", "tf32", "bf16x6"])
@pytest.mark.parametrize("sizes", [(4096, 4096, 1024), (1000, 513, 770), (16, 4096, 4096)])
def test_every_tile_that_is_tried_compiles(element: str, sizes: tuple[int, int, int]) -> None:
    most = 227 << 10
    precision = "" if element == "bf16" else element
    tiles = tiles_for(sizes, 1, 32 if precision else 16, REFERENCE, Around(promoted=True, precision=precision))
    assert tiles
    for choices in tiles:
        product_of_tiles, *_ = texts_of(fused(product(*sizes, "f32" if precision else element), choices))
        assert "multiply_in_pieces(" in product_of_tiles.source or precision != "bf16x6"
        assert compile_kernel(product_of_tiles, HOPPER).shared <= most, choices


def test_matrix_units_are_used_and_masks_are_not_where_tiles_are_whole() -> None:
    choices = {"rows": 128, "columns": 128, "depth": 64, "warps": 8, "stages": 3, "group": 8, "descriptors": 0}
    text = text_of(fused(product(256, 256, 256, "bf16"), choices))
    assert "mask" not in text.source
    assert text.stages == 3 and text.warps == 8
    partial = text_of(fused(product(256, 256, 200, "bf16"), choices))
    assert partial.source.count("other=0") == 2, "what is beyond the end of a row counts for nothing"
    text.source.index("tl.minimum(2 - ")  # groups of rows: 2 tiles of them


def test_tiles_fit_what_they_are_for() -> None:
    assert all(one["rows"] == 16 for one in tiles_for((8, 4096, 4096), 1, 16, REFERENCE))
    assert all(one["depth"] <= 32 for one in tiles_for((4096, 4096, 4096), 1, 32, REFERENCE))
    assert all(one["depth"] == 16 for one in tiles_for((4096, 4096, 9), 1, 16, REFERENCE))
    (first, *_) = tiles_for((8192, 8192, 8192), 1, 16, REFERENCE)
    assert first["rows"] * first["columns"] == 128 * 256
