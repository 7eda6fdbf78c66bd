"""Serial loops that store in every round: what is read for several rounds is read before the first of them stores."""

from __future__ import annotations

import random
import re

import pytest
import torch
from torch import Tensor

from benchmarks.device_arithmetic import machine_code_of
from tests.support.triton_interpreter import check, interpreted_cuda, on_cuda, parse
from tests.support.triton_kernels import texts_of

pytest.importorskip("triton")

SUM_ULPS = 200.0
"""The reference adds up in float64."""


def scanned(points: int, columns: int, kinds: tuple[str, ...] = ("sum",), rows: int = 64) -> str:
    """Running values of `points` numbers that lie `columns` apart, along the lanes of a tile of so many rows."""
    x = f"tensor<3x{points}x{columns}xf32>"
    places = x.replace("f32", "i64")
    outs: list[tuple[str, str]] = []
    body = ""
    for number, kind in enumerate(kinds):
        results = [f"%r{number}", *([f"%w{number}"] if "arg" in kind else [])]
        outs.append((results[0], x))
        outs += [(one, places) for one in results[1:]]
        body += f"\n          {', '.join(results)} = loops.running {kind} %v : f32"
    handles = ", ".join(f"%o{k} : {kind}" for k, (_, kind) in enumerate(outs))
    stores = "".join(
        f"\n          loops.store {name}, %o{k}[%i, %k, %j] : {kind}" for k, (name, kind) in enumerate(outs)
    )
    names, kinds_text = ", ".join(f"%y{k}" for k in range(len(outs))), ", ".join(kind for _, kind in outs)
    schedule = f"#loops.schedule<along = 1, rows = {rows}, lanes = 1, warps = 1>"
    return f"""
    func.func @main(%x : {x}) -> ({kinds_text}) {{
      {names} = loops.nest (%i : 3, %j : {columns}) outs({handles}) schedule {schedule} {{
        loops.scan (%k : {points}) {{
          %v = loops.load %x[%i, %k, %j] : {x}{body}{stores}
        }}
      }}
      func.return {names} : {kinds_text}
    }}"""


def normed(points: int, columns: int, shift: int = 0) -> str:
    """Numbers of columns over their sum, times factors of one column, `shift` points further on."""
    x, w = f"tensor<{points}x{columns}xf32>", f"tensor<{points + shift}xf32>"
    return f"""
    func.func @main(%x : {x}, %w : {w}) -> {x} {{
      %y = loops.nest (%j : {columns}) outs(%o : {x}) schedule #loops.schedule<rows = 64, lanes = 1, warps = 1> {{
        %s = loops.reduce sum (%k : {points}) {{
          %v = loops.load %x[%k, %j] : {x}
          %a = elem.abs %v : f32
          loops.yield %a : f32
        }} : f32
        loops.for (%k : {points}) {{
          %v = loops.load %x[%k, %j] : {x}
          %f = loops.load %w[%k + {shift}] : {w}
          %d = elem.div %v, %s : f32
          %e = elem.mul %d, %f : f32
          loops.store %e, %o[%k, %j] : {x}
        }}
      }}
      func.return %y : {x}
    }}"""


def source_of(text: str) -> str:
    (kernel,) = texts_of(on_cuda(parse(text)))
    return kernel.source


def test_loads_of_several_rounds_come_before_the_first_store() -> None:
    """Each waited for memory: running sums of 26 numbers took 28.7 us on an H200, and 17.9 so."""
    (kernel,) = texts_of(on_cuda(parse(scanned(26, 40))))
    head, *rest = re.split(r"tl\.store\(", kernel.source)
    assert head.count("tl.load(") == 7 and len(rest) == 12, "21 points in a loop of 7, and 5"
    assert sum(one.count("tl.load(") for one in rest) == 5
    loads = " ".join(re.findall(r"\b(LDG|STG)\b", machine_code_of(kernel)))
    assert "LDG LDG LDG LDG LDG LDG LDG STG" in loads, loads


@pytest.mark.parametrize("points", [1, 2, 7, 8, 9, 16, 19])
def test_rounds_of_scans(points: int) -> None:
    check(parse(scanned(points, 21)), ulps=SUM_ULPS)


def test_what_is_carried_is_one_and_the_same_in_every_round() -> None:
    x = torch.randint(0, 3, (3, 19, 21)).float().where(torch.rand(3, 19, 21) > 0.05, torch.nan)
    check(parse(scanned(19, 21, ("last_argmax", "prod"))), [x], ulps=SUM_ULPS)


@pytest.mark.parametrize("points", [3, 8, 17])
def test_rounds_of_what_is_read_again(points: int) -> None:
    check(parse(normed(points, 33)), ulps=4.0)
    check(parse(normed(points, 33, shift=3)), ulps=4.0)


def walked(kind: str, points: int, shift: int = 0, lanes: int = 64) -> str:
    """Rows that are walked along: reduced, and divided by what that gives; or running sums from step to step."""
    x = f"tensor<5x{points}xf32>"
    schedule = f"schedule #loops.schedule<rows = 4, lanes = {lanes}, warps = 1>"
    if kind == "scan":
        body = f"""
        loops.scan (%k : {points}) {{
          %v = loops.load %x[%i, %k] : {x}
          %r = loops.running sum %v : f32
          loops.store %r, %o[%i, %k] : {x}
        }}"""
    else:
        body = f"""
        %s = loops.reduce {kind} (%k : {points}) {{
          %v = loops.load %x[%i, %k] : {x}
          %a = elem.abs %v : f32
          loops.yield %a : f32
        }} : f32
        loops.for (%k : {points - shift}) {{
          %v = loops.load %x[%i, %k + {shift}] : {x}
          %d = elem.div %v, %s : f32
          loops.store %d, %o[%i, %k] : {x}
        }}"""
    return f"""
    func.func @main(%x : {x}) -> {x} {{
      %y = loops.nest (%i : 5) outs(%o : {x}) {schedule} {{{body}
      }}
      func.return %y : {x}
    }}"""


def test_steps_along_lanes_read_at_a_time() -> None:
    """Sums of 64 rows of 262144 bf16 took 34 us on an H200 in tiles of 4096, and 15 so."""
    (kernel,) = texts_of(on_cuda(parse(walked("sum", 8192).replace("rows = 4, ", "rows = 1, "))))
    assert "in tl.range(0, 8192, 64, loop_unroll_factor=8):" in kernel.source
    loop = kernel.source.split("in range(0, 8192, 512):", 1)[1]
    assert loop.split("tl.store(", 1)[0].count("tl.load(") == 8 and loop.count("tl.store(") == 8
    assert "mask" not in loop


@pytest.mark.parametrize("kind", ["sum", "maximum", "scan"])
@pytest.mark.parametrize("points", [130, 700])
def test_steps_along_lanes(kind: str, points: int) -> None:
    """Of 700 points the last step has some, and those behind it none."""
    check(parse(walked(kind, points)), ulps=SUM_ULPS)


def test_near_misses() -> None:
    """A thread that has many numbers already; a loop that reads what its kernel stores."""
    assert "range(0, 26):" in source_of(scanned(26, 4000, rows=1024)).replace("static_range", "range")
    text = scanned(26, 40).replace("loops.store %r0, %o0[%i, %k, %j]", "loops.store %v, %o0[%i, %k, %j]")
    text = text.replace("%v = loops.load %x[%i, %k, %j] : tensor<3x26x40xf32>", "%v = elem.constant 1.0 : f32")
    assert "range(0, 24" not in source_of(text), "nothing is read"


def test_what_is_overwritten_in_place_is_read_before() -> None:
    """An argument that running sums are written to; and one that is normed down its columns."""

    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        x.cumsum_(0)
        y.copy_(y.softmax(0))
        return x[:, :99] * 2, y * 2

    given = [torch.randn(26, 98304), torch.randn(26, 70)]
    expected = function(*(one.clone() for one in given))
    with interpreted_cuda() as programs:
        found = torch.compile(function, backend="cuesta", fullgraph=True)(*given)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    assert any("range(0, 21, 7)" in text.source for text in texts_of(programs[0]))


def test_addresses_that_are_checked_are_so_in_order() -> None:
    """A text may say both; what is read where a check says no is not read before it."""
    text = """
    kernel.func @doubled(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>)
        schedule #kernel.schedule<grid = [1], target = cuda, warps = 1> {
      kernel.for (%i = 0 to 64 lanes 64) {
        kernel.for (%k = 0 to 6) unroll 3 {
          kernel.within [%k * 64 + %i], 384, "kernel.load of %x"
          %v = kernel.load %x[%k * 64 + %i] : vector<64xf32>
          kernel.store %v, %o[%k * 64 + %i] : vector<64xf32>
        }
      }
    }
    func.func @main(%x : tensor<6x64xf32>) -> tensor<6x64xf32> {
      %y = kernel.launch @doubled(%x) : (tensor<6x64xf32>) -> tensor<6x64xf32>
      func.return %y : tensor<6x64xf32>
    }"""
    (checked,) = texts_of(parse(text))
    (plain,) = texts_of(parse("\n".join(line for line in text.splitlines() if "within" not in line)))
    assert checked.source.count("tl.load(") == 1
    assert plain.source.split("tl.store(", 1)[0].count("tl.load(") == 3


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(one, marks=pytest.mark.thorough) for one in range(4, 60))])
def test_random_scans(seed: int) -> None:
    """The fuzz case: kinds, points, columns and rows that nobody chose."""
    rng = random.Random(seed)
    kinds = tuple(rng.sample(["sum", "prod", "logaddexp", "last_argmax", "last_argmin"], rng.randint(1, 2)))
    points, columns = rng.randint(1, 40), rng.randint(1, 50)
    text = scanned(points, columns, kinds, rows=2 ** rng.randint(5, 8))
    x = (torch.randint(-9, 9, (3, points, columns)) / 8 + 1).where(torch.rand(3, points, columns) > 0.02, torch.nan)
    check(parse(text), [x], ulps=SUM_ULPS)
