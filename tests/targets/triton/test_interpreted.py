"""The emitted Triton kernels, one of each kind, run by Triton's interpreter and measured against float64."""

from __future__ import annotations

import math

import pytest
import torch

from cuesta.dialects.core.reductions import EXTREMES
from tests.support.triton_interpreter import InterpreterError, check, on_cuda, parse, run

pytestmark = pytest.mark.slow  # the interpreter takes seconds for a kernel

pytest.importorskip("triton")


def program(inputs: str, domain: str, out: str, body: str) -> str:
    return f"""
func.func @main({inputs}) -> {out} {{
  %y = loops.nest ({domain}) outs(%o : {out}) {{
    {body}
  }}
  func.return %y : {out}
}}"""


def reduction(kind: str, element: str, sizes: tuple[int, ...], reduced: int) -> str:
    """One axis of a tensor reduced; an arg-reduction gives the index."""
    tensor = f"tensor<{'x'.join(map(str, sizes))}x{element}>"
    kept = [axis for axis in range(len(sizes)) if axis != reduced]
    arg, welford = kind.startswith("arg"), kind == "welford"
    results = {True: f"{element}, i64"}.get(arg, f"{element}, {element}" if welford else element)
    given = "i64" if arg else element
    out = f"tensor<{''.join(f'{sizes[axis]}x' for axis in kept)}{given}>"
    names = "%first, %second" if arg or welford else "%second"
    return program(
        f"%x : {tensor}",
        ", ".join(f"%i{axis} : {sizes[axis]}" for axis in kept),
        out,
        f"""{names} = loops.reduce {kind} (%i{reduced} : {sizes[reduced]}) {{
      %a = loops.load %x[{", ".join(f"%i{axis}" for axis in range(len(sizes)))}] : {tensor}
      loops.yield %a : {element}
    }} : {results}
    loops.store %second, %o[{", ".join(f"%i{axis}" for axis in kept)}] : {out}""",
    )


SHAPES = {
    "rows in one tile": ((37, 100), 1),
    "rows of several tiles": ((2, 16400 + 77), 1),
    "short rows": ((130, 5), 1),
    "columns": ((70, 45), 0),
    "the middle": ((3, 50, 40), 1),
    "everything": ((40_000,), 0),
    "one point": ((9, 1), 1),
}


@pytest.mark.parametrize("kind", ["sum", "prod", "maximum", "minimum", *EXTREMES, "welford"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.every(3)
def test_reductions_of_f32(kind: str, shape: str) -> None:
    # The reference works in float64. Welford's update rounds at every step, and the interpreter takes the points one
    # after the other where a device takes them in pairs: a random walk of as many roundings.
    sizes, axis = SHAPES[shape]
    ulps = max(16.0, math.sqrt(sizes[axis])) if kind == "welford" else 4.0
    # Numbers around 3: a sum that happens to be nearly 0 would have no accurate digits to compare.
    x = torch.randn(sizes) + (3 if kind in ("sum", "welford") else 0)
    check(parse(reduction(kind, "f32", sizes, axis)), [x], ulps=ulps)


@pytest.mark.parametrize("kind", ["maximum", "argmax", "argmin", "argmax_last_nan", "minimum"])
@pytest.mark.parametrize("shape", ["rows in one tile", "rows of several tiles", "columns"])
def test_nan_is_the_extreme_and_the_first_or_last_wins(kind: str, shape: str) -> None:
    sizes, axis = SHAPES[shape]
    x = torch.randint(0, 3, sizes).float()
    with_nan = x.where(torch.rand(sizes) > 2.5 / sizes[axis], torch.nan)
    for values in (x, with_nan, torch.full(sizes, -torch.inf if "max" in kind else torch.inf)):
        check(parse(reduction(kind, "f32", sizes, axis)), [values])


@pytest.mark.parametrize("element", ["f64", "i64", "i32", "i8", "ui8"])
@pytest.mark.parametrize("kind", ["sum", "prod", "maximum", "argmin"])
@pytest.mark.every(3)
def test_reductions_of_other_types(kind: str, element: str) -> None:
    for shape in ("rows in one tile", "columns"):
        sizes, axis = SHAPES[shape]
        dtype = {"f64": torch.float64, "i64": torch.int64, "i32": torch.int32, "i8": torch.int8}.get(element)
        x = torch.randn(sizes) if dtype is torch.float64 else torch.randint(0 if element == "ui8" else -99, 99, sizes)
        # What is added and multiplied in f64 has no wider truth: another order may differ in a rounding for each point.
        check(
            parse(reduction(kind, element, sizes, axis)), [x.to(dtype or torch.uint8)], ulps=max(4.0, sizes[axis] / 2)
        )


@pytest.mark.parametrize("kind", ["any", "all", "maximum", "minimum"])
def test_reductions_of_bools(kind: str) -> None:
    for shape in ("rows in one tile", "columns", "short rows"):
        sizes, axis = SHAPES[shape]
        for share in (0.01, 0.5, 0.99):
            check(parse(reduction(kind, "i1", sizes, axis)), [torch.rand(sizes) < share])


def test_a_transposed_read() -> None:
    x = "tensor<50x70xf32>"
    check(
        parse(
            program(
                f"%x : {x}, %b : tensor<70xf32>",
                "%i : 70, %j : 50",
                "tensor<70x50xf32>",
                f"""%a = loops.load %x[%j, %i] : {x}
                %c = loops.load %b[%i] : tensor<70xf32>
                %d = elem.mul %a, %c : f32
                loops.store %d, %o[%i, %j] : tensor<70x50xf32>""",
            )
        )
    )


def test_several_stages_share_a_tile_or_walk_it_again() -> None:
    for columns in (60, 20_000):
        x = f"tensor<5x{columns}xf32>"
        check(
            parse(
                program(
                    f"%x : {x}",
                    "%i : 5",
                    x,
                    f"""%m = loops.reduce maximum (%j : {columns}) {{
                      %a = loops.load %x[%i, %j] : {x}
                      loops.yield %a : f32
                    }} : f32
                    %s = loops.reduce sum (%j : {columns}) {{
                      %a = loops.load %x[%i, %j] : {x}
                      %b = elem.sub %a, %m : f32
                      %c = elem.exp %b : f32
                      loops.yield %c : f32
                    }} : f32
                    loops.for (%j : {columns}) {{
                      %a = loops.load %x[%i, %j] : {x}
                      %b = elem.sub %a, %m : f32
                      %c = elem.exp %b : f32
                      %d = elem.div %c, %s : f32
                      loops.store %d, %o[%i, %j] : {x}
                    }}""",
                )
            )
        )


def test_a_stage_reads_what_an_earlier_one_stored() -> None:
    for columns in (60, 20_000):
        x = f"tensor<3x{columns}xf32>"
        text = f"""
        func.func @main(%x : {x}) -> ({x}, {x}) {{
          %y, %z = loops.nest (%i : 3) outs(%o : {x}, %p : {x}) {{
            %s = loops.reduce sum (%j : {columns}) {{
              %a = loops.load %x[%i, %j] : {x}
              %b = elem.exp %a : f32
              loops.store %b, %o[%i, %j] : {x}
              loops.yield %b : f32
            }} : f32
            loops.for (%k : {columns}) {{
              %c = loops.load %o[%i, {columns - 1} - %k] : {x}
              %e = loops.load %o[%i, %k] : {x}
              %d = elem.div %c, %s : f32
              %f = elem.add %d, %e : f32
              loops.store %f, %p[%i, %k] : {x}
            }}
          }}
          func.return %y, %z : {x}, {x}
        }}"""
        check(parse(text))


GATHER = program(
    "%x : tensor<9x20xf32>, %k : tensor<30xi64>",
    "%i : 30, %j : 20",
    "tensor<30x20xf32>",
    """%n = loops.load %k[%i] : tensor<30xi64>
    %r = loops.bound %n, 9 wrap : i64
    %a = loops.load %x[%r, %j] : tensor<9x20xf32>
    loops.store %a, %o[%i, %j] : tensor<30x20xf32>""",
)


def test_a_gather() -> None:
    check(parse(GATHER), [torch.randn(9, 20), torch.randint(-9, 9, (30,))])


@pytest.mark.parametrize("bad", [9, -10])
def test_an_index_out_of_range_is_an_assertion(bad: int) -> None:
    indices = torch.randint(-9, 9, (30,))
    indices[17] = bad
    with pytest.raises(InterpreterError, match="index out of bounds for dimension with size 9"):
        run(on_cuda(parse(GATHER)), [torch.randn(9, 20), indices])


def test_masked_loads_and_stores() -> None:
    check(
        parse(
            program(
                "%x : tensor<30xf32>",
                "%i : 40",
                "tensor<40xf32>",
                """%k = loops.index [%i] : i64
                %five = elem.constant 5 : i64
                %end = elem.constant 35 : i64
                %c = elem.ge %k, %five : i64
                %d = elem.lt %k, %end : i64
                %m = elem.and %c, %d : i1
                %other = elem.constant 7.5 : f32
                %a = loops.load %x[%i - 5] if %m else %other : tensor<30xf32>
                loops.store %a, %o[%i] : tensor<40xf32>""",
            )
        )
    )


def test_addresses_that_go_down_and_divide() -> None:
    check(
        parse(
            program(
                "%x : tensor<40xf32>",
                "%i : 40",
                "tensor<40xf32>",
                """%a = loops.load %x[39 - %i] : tensor<40xf32>
                %b = loops.load %x[(%i * 7 + 3) mod 40] : tensor<40xf32>
                %c = loops.load %x[((%i - 20) floordiv 3) + 7] : tensor<40xf32>
                %d = loops.load %x[((%i - 20) mod 7) + min(%i, 30)] : tensor<40xf32>
                %e = elem.sub %a, %b : f32
                %f = elem.mul %c, %d : f32
                %g = elem.add %e, %f : f32
                loops.store %g, %o[%i] : tensor<40xf32>""",
            )
        )
    )


def test_the_sign_of_zero_survives() -> None:
    text = program(
        "%x : tensor<4xf32>",
        "%i : 4",
        "tensor<4xf32>",
        """%a = loops.load %x[%i] : tensor<4xf32>
        %minus = elem.constant -0.0 : f32
        %b = elem.neg %a : f32
        %c = elem.add %b, %minus : f32
        loops.store %c, %o[%i] : tensor<4xf32>""",
    )
    (result,) = run(on_cuda(parse(text)), [torch.tensor([0.0, -0.0, 1.0, torch.inf])])
    assert torch.equal(result, torch.tensor([0.0, 0.0, -1.0, -torch.inf]))
    assert result.signbit().tolist() == [True, False, True, True]


def test_a_constant_of_f64_is_not_rounded() -> None:
    text = program(
        "%x : tensor<4xf64>",
        "%i : 4",
        "tensor<4xf64>",
        """%a = loops.load %x[%i] : tensor<4xf64>
        %tenth = elem.constant 0.1 : f64
        %b = elem.maximum %a, %tenth : f64
        loops.store %b, %o[%i] : tensor<4xf64>""",
    )
    (result,) = run(on_cuda(parse(text)), [torch.zeros(4, dtype=torch.float64)])
    assert result.tolist() == [0.1] * 4


def test_symbolic_sizes() -> None:
    x = "tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>"
    text = f"""
    func.func @main(%x : {x}) -> {x} attributes {{sym.symbols = #sym.symbols<s0 in [2, inf], s1 in [2, inf]>}} {{
      %y = loops.nest (%i : s0) outs(%o : {x}) {{
        %s = loops.reduce sum (%j : s1) {{
          %a = loops.load %x[%i, %j] : {x}
          loops.yield %a : f32
        }} : f32
        loops.for (%j : s1) {{
          %a = loops.load %x[%i, %j] : {x}
          %b = elem.div %a, %s : f32
          loops.store %b, %o[%i, %j] : {x}
        }}
      }}
      func.return %y : {x}
    }}"""
    for sizes in ((3, 5), (2, 700), (9, 512)):
        check(parse(text), [torch.rand(sizes) + 0.1])
