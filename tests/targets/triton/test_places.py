"""Pointers that differ by numbers are computed once; what neighbours come of is computed as one block."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import torch

from cuesta.targets.triton.emit_kernel import emit_kernel
from tests.support.triton_interpreter import check, on_cuda, parse
from tests.support.triton_kernels import assert_compiles, kernels_of

pytest.importorskip("triton")

slow = pytest.mark.slow


def text_of(module: Any) -> str:
    return "\n".join(emit_kernel(op).source for op in kernels_of(on_cuda(module)))


def of_points(body: str) -> str:
    """A nest over 512 points, which reads `%x` and `%z` and stores to `%o`, which has four places for each."""
    return f"""
    func.func @main(%x : tensor<4096xf32>, %z : tensor<4096xf32>) -> tensor<2048xf32> {{
      %y = loops.nest (%i : 512) outs(%o : tensor<2048xf32>) {{
        %zero = elem.constant 0.0 : f32
        %one = elem.constant 1.0 : f32
        {body}
      }}
      func.return %y : tensor<2048xf32>
    }}"""


def loaded(tensor: str, *places: str) -> str:
    """Elements `%x0`, `%x1`, …"""
    return lines(f"%{tensor}{k} = loops.load %{tensor}[{place}] : tensor<4096xf32>" for k, place in enumerate(places))


def stored(*values: str) -> str:
    """What is stored side by side."""
    return lines(f"loops.store %{value}, %o[%i * 4 + {k}] : tensor<2048xf32>" for k, value in enumerate(values))


def each(name: str, op: str, *operands: tuple[str, ...]) -> str:
    """An op for each of some operands."""
    texts = [", ".join(f"%{one}" for one in every) for every in operands]
    return lines(f"%{name}{k} = elem.{op} {text} : f32" for k, text in enumerate(texts))


def lines(every: Iterable[str]) -> str:
    return "".join(f"{one}\n" for one in every)


INPUTS = [torch.randn(4096), torch.randn(4096)]
FOUR = tuple(f"%i * 4 + {k}" for k in range(4))


# Pointers

APART = of_points(
    loaded("x", "%i * 3 + 7", "%i * 3 + 9", "%i * 3 + 1200")
    + each("a", "add", ("x0", "x1"))
    + each("b", "add", ("a0", "x2"))
    + stored("b0", "b0", "b0", "b0")
)


def test_a_number_is_added_to_a_pointer() -> None:
    text = text_of(parse(APART))
    assert text.count("* 3") == 1
    assert "tl.load(at + 1200)" in text


@slow
def test_what_lies_there() -> None:
    check(parse(APART), INPUTS)
    check(parse(APART.replace("%i * 3 + 7", "%i * 3 + 0")), INPUTS)


def test_one_address_is_written_as_it_is() -> None:
    assert "tl.load(x + i * 3 + 7)" in text_of(parse(of_points(loaded("x", "%i * 3 + 7") + stored(*["x0"] * 4))))


def test_numbers_that_are_too_large_for_addresses_of_32_bits() -> None:
    far = APART.replace("4096xf32", "100000000xf32").replace("+ 1200", "+ 90000000")
    assert "tl.load(at" not in text_of(parse(far))


WINDOWS = """
func.func @main(%x : tensor<64x6x7x7xf32>) -> tensor<64x7xf32> {
  %y = loops.nest (%n : 64, %k : 7) outs(%o : tensor<64x7xf32>) schedule #loops.schedule<along = 0, lanes = 1> {
    %s = loops.reduce sum (%i : 6, %j : 7) {
      %a = loops.load %x[%n, %i, %k, %j] : tensor<64x6x7x7xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%n, %k] : tensor<64x7xf32>
  }
  func.return %y : tensor<64x7xf32>
}"""


def test_what_counters_add_is_added_in_the_loops() -> None:
    text = text_of(parse(WINDOWS))
    before, loop = text.split("for i in ")
    assert "at = x + " in before
    assert loop.startswith("range(0, 6)"), "42 rounds are not written out"
    assert "for j in tl.static_range(0, 7)" in loop
    assert "tl.load(at + i * 49 + j)" in loop


def test_few_rounds_are_written_out() -> None:
    assert "for i in tl.static_range(0, 4)" in text_of(
        parse(WINDOWS.replace("6x7x7", "4x7x7").replace("%i : 6", "%i : 4"))
    )


@slow
def test_loops_in_loops() -> None:
    check(parse(WINDOWS), [torch.randn(64, 6, 7, 7)])


# Rows

ROWS = """
func.func @main(%x : tensor<6x512xf32>, %m : tensor<6xf32>) -> tensor<6x512xf32> {
  %y = loops.nest (%i : 6, %j : 512) outs(%o : tensor<6x512xf32>) schedule #loops.schedule<lanes = 256> {
    %a = loops.load %x[%i, %j] : tensor<6x512xf32>
    %b = loops.load %m[%i] : tensor<6xf32>
    %c = elem.sub %a, %b : f32
    loops.store %c, %o[%i, %j] : tensor<6x512xf32>
  }
  func.return %y : tensor<6x512xf32>
}"""


def test_a_tile_in_one_row_loads_for_one_row() -> None:
    text = text_of(parse(ROWS))
    assert "tl.load(m + row)" in text
    assert "last" not in text
    assert "last" in text_of(parse(ROWS.replace("512", "384"))), "half of a tile is in the next row"


@slow
@pytest.mark.parametrize("columns", [512, 384])
def test_rows_of_tiles(columns: int) -> None:
    check(parse(ROWS.replace("512", str(columns))), [torch.randn(6, columns), torch.randn(6)])


# Together

TOGETHER = {
    "vectors": (
        loaded("x", *FOUR) + loaded("z", *FOUR) + each("a", "maximum", *((f"x{k}", f"z{k}") for k in range(4))),
        1,
    ),
    "with what is the same for all": (
        loaded("x", *FOUR) + loaded("z", "%i") + each("a", "mul", *((f"x{k}", "z0") for k in range(4))),
        1,
    ),
    "with a constant": (loaded("x", *FOUR) + each("a", "maximum", *((f"x{k}", "one") for k in range(4))), 1),
    "the operand of both sides": (loaded("x", *FOUR) + each("a", "mul", *((f"x{k}", f"x{k}") for k in range(4))), 1),
    "chosen": (
        loaded("x", *FOUR)
        + loaded("z", *FOUR)
        + "".join(f"%c{k} = elem.lt %x{k}, %z{k} : f32\n" for k in range(4))
        + "".join(f"%a{k} = elem.select %c{k}, %x{k}, %zero : f32\n" for k in range(4)),
        1,
    ),
    "further on": (
        loaded("x", *FOUR, "%i * 4 + 4", "%i * 4 + 5")
        + each("b", "maximum", *((f"x{k}", f"x{k + 1}") for k in range(4)))
        + each("c", "maximum", *((f"b{k}", f"x{k + 2}") for k in range(4)))
        + each("d", "mul", *((f"c{k}", f"c{k}") for k in range(4)))
        + each("e", "add", *((f"d{k}", f"c{k}") for k in range(4)))
        + each("a", "maximum", *((f"e{k}", "zero") for k in range(4))),
        2,
    ),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_neighbours_are_computed_as_one_block(name: str) -> None:
    body, most = TOGETHER[name]
    text = text_of(parse(of_points(body + stored("a0", "a1", "a2", "a3"))))
    assert text.count("tl.maximum") + text.count(" * v") <= 2 * most
    assert "tl.store(columns" in text or "tl.store((" in text


@slow
@pytest.mark.parametrize("name", TOGETHER)
def test_the_same_numbers(name: str) -> None:
    body, _ = TOGETHER[name]
    module = parse(of_points(body + stored("a0", "a1", "a2", "a3")))
    check(module, INPUTS)
    assert_compiles([emit_kernel(op) for op in kernels_of(on_cuda(module))])


ONE_BY_ONE = {
    "different ops": loaded("x", *FOUR)
    + each("a", "mul", ("x0", "x0"), ("x1", "x1"))
    + "%a2 = elem.add %x2, %x2 : f32\n%a3 = elem.add %x3, %x3 : f32\n",
    "different constants": loaded("x", *FOUR)
    + each("a", "mul", ("x0", "zero"), ("x1", "one"), ("x2", "one"), ("x3", "one")),
    "operands in another order": loaded("x", *FOUR)
    + each("a", "sub", ("x0", "x0"), ("x0", "x1"), ("x2", "x0"), ("x3", "x3")),
    "one is needed by itself": loaded("x", *FOUR)
    + each("b", "mul", *((f"x{k}", f"x{k}") for k in range(4)))
    + each("a", "add", ("b0", "b1"), ("b1", "b1"), ("b2", "b3"), ("b3", "b0")),
    "all of one": loaded("x", "%i") + each("a", "mul", ("x0", "x0")) + "%a1 = elem.add %a0, %zero : f32\n"
    "%a2 = elem.add %a0, %zero : f32\n%a3 = elem.add %a0, %zero : f32\n",
}


@slow
@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_neighbours_that_are_not_alike(name: str) -> None:
    module = parse(of_points(ONE_BY_ONE[name] + stored("a0", "a1", "a2", "a3")))
    check(module, INPUTS)
    assert_compiles([emit_kernel(op) for op in kernels_of(on_cuda(module))])
