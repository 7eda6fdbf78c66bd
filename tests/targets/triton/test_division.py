"""Division by a constant: what stands in the text, and what comes of it."""

from __future__ import annotations

import pytest
import torch

from cuesta.dialects.elem.ops import format_number
from tests.support.triton_interpreter import on_cuda, parse, run
from tests.support.triton_kernels import assert_compiles, texts_of
from tests.targets.cpu.test_vector_math import all_patterns, edges, ulp_errors

pytest.importorskip("triton")


def program_of(divisor: float, size: int = 64, scalar: str = "f32", rest: str = "") -> str:
    tensor = f"tensor<{size}x{scalar}>"
    return f"""
func.func @main(%x : {tensor}) -> {tensor} {{
  %y = loops.nest (%i : {size}) outs(%o : {tensor}) {{
    %a = loops.load %x[%i] : {tensor}
    %c = elem.constant {format_number(divisor, "f")} : {scalar}
    %r = elem.div %a, %c : {scalar}{rest}
    loops.store %r, %o[%i] : {tensor}
  }}
  func.return %y : {tensor}
}}"""


def source_of(text: str) -> str:
    (found,) = texts_of(on_cuda(parse(text)))
    return found.source


def test_what_stands_in_the_text() -> None:
    assert "functions.divide(a, 3.0, 0.3333333432674408)" in source_of(program_of(3.0))
    assert "a * 0.3333333432674408" in source_of(program_of(3.0, rest=" precision bf16"))
    assert "a * -0.25" in source_of(program_of(-4.0))
    for divisor in (0.0, 1e-38, 1e38):  # the reciprocal is no normal number
        assert "tl.div_rn" in source_of(program_of(divisor))
    assert "a / c" in source_of(program_of(3.0, scalar="f64"))


@pytest.mark.slow  # the interpreter takes seconds for a kernel
@pytest.mark.parametrize("divisor", [3.0, -49.0, 0.1, 1e-30, 7e36, 4.0])
def test_the_quotient_of_all_sorts_of_numbers(divisor: float) -> None:
    """The interpreter rounds the product before it is subtracted, so that the remainder may be off by its last bit."""
    x = torch.cat([all_patterns(16411 * 31), edges()])
    (result,) = run(on_cuda(parse(program_of(divisor, len(x)))), [x])
    truth = x.double() / torch.tensor(divisor).double()
    assert torch.equal(result.isnan(), truth.isnan())
    assert torch.equal(result[x == 0].signbit(), truth[x == 0].signbit())
    assert float(torch.nan_to_num(ulp_errors(result, truth), nan=0.0, posinf=1e9).max()) <= 1.5


SHARED = """
func.func @main(%x : tensor<7x4096xf32>, %d : tensor<7x2xf32>) -> tensor<7x4096xf32> {
  %y = loops.nest (%i : 7) outs(%o : tensor<7x4096xf32>) schedule #loops.schedule<rows = ROWS> {
    %s = loops.reduce sum (%j : 2) {
      %a = loops.load %d[%i, %j] : tensor<7x2xf32>
      loops.yield %a : f32
    } : f32
    loops.for (%j : 4096) {
      %a = loops.load %x[%i, %j] : tensor<7x4096xf32>
      %b = elem.div %a, %s : f32
      loops.store %b, %o[%i, %j] : tensor<7x4096xf32>
    }
  }
  func.return %y : tensor<7x4096xf32>
}"""


def test_many_dividends_of_one_divisor() -> None:
    assert "functions.divide_by_shared(a_1, s)" in source_of(SHARED.replace("ROWS", "1"))
    (several,) = texts_of(on_cuda(parse(SHARED.replace("ROWS", "2"))))
    assert "functions.divide_by_rows(a_1, s)" in several.source, "a divisor for each row"
    assert_compiles([several, *texts_of(on_cuda(parse(SHARED.replace("ROWS", "1"))))])


def test_lanes_without_a_point_hold_ones() -> None:
    """A division of 0, which these would hold, takes several times as long as others, and the warp waits."""
    for size, loads in ((4000, ["mask=mask, other=1)"]), (4096, [")"])):
        (found,) = texts_of(on_cuda(parse(SHARED.replace("4096", str(size)).replace("ROWS", "1"))))
        assert [line for line in found.source.splitlines() if "tl.load(x" in line and line.endswith(loads[0])]
        assert_compiles([found])
    undivided = SHARED.replace("4096", "4000").replace("ROWS", "1").replace("elem.div", "elem.mul")
    assert "other" not in source_of(undivided)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 2])
def test_quotients_by_one_divisor(rows: int) -> None:
    """Those whose reciprocal is no normal number, and those that are no number, go another way."""
    divisors = torch.tensor([3.0, -49.0, 1e-38, 3e38, 0.0, float("inf"), float("nan")])
    x = torch.cat([all_patterns(16411 * 31), edges(), torch.ones(4096)])[None, :4096].repeat(7, 1)
    text = SHARED.replace("ROWS", str(rows))
    (result,) = run(on_cuda(parse(text)), [x, torch.stack((divisors, torch.zeros(7)), 1)])
    truth = x.double() / divisors.double()[:, None]
    assert torch.equal(result.isnan(), truth.isnan())
    zeros = (x == 0) & ~truth.isnan()
    assert torch.equal(result[zeros].signbit(), truth[zeros].signbit())
    assert float(torch.nan_to_num(ulp_errors(result, truth), nan=0.0, posinf=1e9).max()) <= 1.5


EACH = """
func.func @main(%x : tensor<SIZExf32>, %d : tensor<SIZExf32>) -> tensor<SIZExf32> {
  %y = loops.nest (%i : SIZE) outs(%o : tensor<SIZExf32>) {
    %a = loops.load %x[%i] : tensor<SIZExf32>
    %b = loops.load %d[%i] : tensor<SIZExf32>
    %r = elem.div %a, %b : f32
    loops.store %r, %o[%i] : tensor<SIZExf32>
  }
  func.return %y : tensor<SIZExf32>
}"""


def test_zeros_among_the_dividends() -> None:
    """A zero is not divided; the quotient is what IEEE 754 says, its sign included, whatever the divisor is."""
    numbers = [0.0, -0.0, 1.0, -3.0, 1e-45, -1e-45, 1e-40, 1.2e-38, 3e38, float("inf"), float("-inf"), float("nan")]
    x, d = (one.flatten() for one in torch.meshgrid(torch.tensor(numbers), torch.tensor(numbers), indexing="ij"))
    text = EACH.replace("SIZE", str(len(x)))
    assert "functions.divide_each(a, b)" in source_of(text)
    (result,) = run(on_cuda(parse(text)), [x, d])
    truth = x / d
    assert torch.equal(result.isnan(), truth.isnan())
    assert torch.equal(result.nan_to_num(0.5), truth.nan_to_num(0.5))
    assert torch.equal(result.signbit()[~truth.isnan()], truth.signbit()[~truth.isnan()])


ROWS_IN_TILES = """
func.func @main(%x : tensor<9x1100xf32>, %d : tensor<9xf32>) -> tensor<9x1100xf32> {
  %y = loops.nest (%i : 9, %j : 1100) outs(%o : tensor<9x1100xf32>) {
    %a = loops.load %x[%i, %j] : tensor<9x1100xf32>
    %b = loops.load %d[%i] : tensor<9xf32>
    %r = elem.div %a, %b : f32REST
    loops.store %r, %o[%i, %j] : tensor<9x1100xf32>
  }
  func.return %y : tensor<9x1100xf32>
}"""


@pytest.mark.parametrize(("rest", "library", "most"), [("", "functions", 1.5), (" precision bf16", "quick", 8.0)])
def test_quotients_in_a_tile_of_two_rows(rest: str, library: str, most: float) -> None:
    """Where a row ends in a tile, its divisor is one of two. Those whose reciprocal is no normal number go another way,
    also when the row beside them has a usual one.
    """
    text = ROWS_IN_TILES.replace("REST", rest)
    source = source_of(text)
    assert f"{library}.divide_by_two(" in source
    divisors = torch.tensor([3.0, 1e-38, -49.0, 3e38, 0.1, 0.0, float("inf"), 7.0, float("nan")])
    x = torch.cat([edges(), all_patterns(16411 * 31), torch.ones(9900)])[None, :1100].repeat(9, 1)
    (result,) = run(on_cuda(parse(text)), [x, divisors])
    truth = x.double() / divisors.double()[:, None]
    assert torch.equal(result.isnan(), truth.isnan())
    normal = (truth.abs() > 1e-37) & (truth.abs() < 3e38)
    assert float(ulp_errors(result, truth)[normal].max()) <= most
    assert float(result[truth.abs() < 1e-40].abs().nan_to_num(0.0).max()) <= 1e-37
    assert_compiles(texts_of(on_cuda(parse(text))))


def test_one_divisor_of_what_is_rounded_to_16_bits() -> None:
    text = SHARED.replace("ROWS", "1").replace("%s : f32", "%s : f32 precision bf16")
    assert "quick.divide_by_shared(a_1, s)" in source_of(text)
    divisors = torch.tensor([3.0, -49.0, 1e-38, 3e38, 0.0, float("inf"), float("nan")])
    x = torch.cat([all_patterns(16411 * 31), edges(), torch.ones(4096)])[None, :4096].repeat(7, 1)
    (result,) = run(on_cuda(parse(text)), [x, torch.stack((divisors, torch.zeros(7)), 1)])
    truth = x.double() / divisors.double()[:, None]
    assert torch.equal(result.isnan(), truth.isnan())
    normal = (truth.abs() > 1e-37) & (truth.abs() < 3e38)
    assert float(ulp_errors(result, truth)[normal].max()) <= 8.0
