"""Kernels that differ only in numbers, and share a function."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch

from cuesta.dialects import kernel, sym
from cuesta.dialects.core.fingerprint import fingerprint_region
from cuesta.dialects.core.operation import all_ops
from cuesta.targets.cpu import emit_module, facts
from cuesta.targets.cpu.alike import Shared, shared
from tests.support.text import parse

PRODUCT = """
  kernel.func @{name}(%x: !kernel.ptr<f32>, %y: !kernel.ptr<f32>) outs(%o: !kernel.ptr<f32>)
      schedule #kernel.schedule<grid = [{rows}, {columns}], parallel = {parallel}, unroll = {unroll}> {{
    %p = kernel.program_id 0
    %q = kernel.program_id 1
    kernel.for (%i = %p * {part} to %p * {part} + {part} lanes 8) {{
      kernel.for (%j = 0 to 32 lanes 32 dim 1) {{
        %s = kernel.reduce sum (%k = 0 to {steps}) {{
          %a = kernel.load %x[%i * {stride} + %k * {step}] : vector<8xf32>
          %b = kernel.load %y[%q * {panel} + %j * {distance} + %k * 32] : vector<1x32xf32>
          %c = kernel.broadcast %a : vector<8xf32> to vector<8x32xf32>
          %d = kernel.broadcast %b : vector<1x32xf32> to vector<8x32xf32>
          %e = elem.mul %c, %d : vector<8x32xf32>
          kernel.yield %e : vector<8x32xf32>
        }} : vector<8x32xf32>
        kernel.store %s, %o[%i * {width} + %q * 32 + %j] : vector<8x32xf32>
      }}
    }}
  }}
"""
USUAL = {
    "rows": 8,
    "columns": 4,
    "parallel": 1,
    "unroll": 1,
    "part": 64,
    "steps": 1024,
    "stride": 1024,
    "step": 2,
    "panel": 32768,
    "distance": 1,
    "width": 128,
}


def products(*changes: Mapping[str, int]) -> list[kernel.FuncOp]:
    """Kernels that differ from the usual in what is said of each."""
    texts = [PRODUCT.format(name=f"sum_{place}", **{**USUAL, **change}) for place, change in enumerate(changes)]
    module = parse(f"builtin.module {{{''.join(texts)}}}")
    return [op for op in module.body.ops if isinstance(op, kernel.FuncOp)]


def told(one: Shared) -> kernel.FuncOp:
    """The function with its numbers in their places."""
    func = one.func.clone()
    numbers: dict[str, sym.IndexExpr] = dict(zip(func.symbols, one.values, strict=True))
    for op in all_ops(func):
        for name, value in op.properties.items():
            if isinstance(value, sym.MapAttr):
                op.properties[name] = value.with_symbols(numbers)
    grid = [sym.substitute(size, None, numbers) for size in func.schedule.grid]
    func.properties["schedule"] = kernel.ScheduleAttr.of(tuple(grid), **func.schedule.choices)
    return func


def is_same(func: kernel.FuncOp, other: kernel.FuncOp) -> bool:
    """Whether two kernels do the same in as many programs."""
    return func.schedule.grid == other.schedule.grid and fingerprint_region(func.regions[0]) == fingerprint_region(
        other.regions[0]
    )


@pytest.mark.parametrize(
    ("change", "symbols"),
    [
        ({"stride": 2000}, 1),
        ({"stride": 2000, "width": 256}, 2),
        ({"stride": 2000, "steps": 2000}, 1),  # both were 1024: two numbers that change alike are one
        ({"rows": 3, "columns": 7}, 2),
        ({"panel": 64000, "steps": 2000}, 2),
        ({"steps": 150}, 1),  # sums fill the registers, and are taken to pieces of 128 whatever their length
        ({"step": 7}, 1),
        ({"parallel": 0}, 0),
    ],
)
def test_numbers_may_differ(change: Mapping[str, int], symbols: int) -> None:
    kernels = products({}, change)
    found = shared(kernels)
    assert set(found) == {"sum_0", "sum_1"}
    assert found["sum_0"].func is found["sum_1"].func and len(found["sum_0"].func.symbols) == symbols
    found["sum_0"].func.verify()
    for func in kernels:
        assert is_same(told(found[func.sym_name]), func)


@pytest.mark.parametrize(
    "change",
    [
        {"part": 80},  # how far lanes go says which of them are masked
        {"distance": 2},  # lanes that lie so near are loaded together
        {"unroll": 2},
        {"steps": 100},  # no pieces
        {"step": 1},  # contiguous
    ],
)
def test_what_makes_other_code_may_not(change: Mapping[str, int]) -> None:
    assert not shared(products({}, change))
    assert len(shared(products({}, change, {"stride": 9}, {**change, "stride": 7}))) == 4


@pytest.mark.parametrize(
    ("name", "one", "other", "are"), [("distance", 2, 3, 0), ("distance", 15, 16, 0), ("distance", 16, 40, 2)]
)
def test_lanes_that_lie_near_keep_their_distance(name: str, one: int, other: int, are: int) -> None:
    assert len(shared(products({name: one}, {name: other}))) == are


def test_three_kernels_and_a_stranger() -> None:
    kernels = products({}, {"stride": 5}, {"unroll": 4}, {"stride": 7, "width": 300})
    found = shared(kernels)
    assert set(found) == {"sum_0", "sum_1", "sum_3"}
    for func in kernels:
        if func.sym_name in found:
            assert is_same(told(found[func.sym_name]), func)


def test_who_may_raise_has_a_function_of_its_own() -> None:
    def f(x: torch.Tensor, y: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x[i] * 2, y[j] * 2

    seen: list[Mapping[str, Shared]] = []
    x, y, i, j = torch.randn(10, 1000), torch.randn(20, 3000), torch.tensor([0, 9]), torch.tensor([0, 19])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(emit_module, "shared", lambda kernels: seen.append(shared(kernels)) or seen[-1])  # pyright: ignore
        compiled = torch.compile(f, backend="cuesta", dynamic=False)
        assert all(torch.equal(a, b) for a, b in zip(compiled(x, y, i, j), f(x, y, i, j), strict=True))
    assert seen and not any(seen)
    with pytest.raises(IndexError, match=r"index 20.*size 20"):
        compiled(x, y, i, j + 1)


def layers(x: torch.Tensor, weights: list[torch.Tensor]) -> list[torch.Tensor]:
    """Products of one input with weights, as they lie and transposed, and of its transpose."""
    return [x @ w for w in weights] + [w.t() @ x.t() for w in weights] + [(x.t() @ x) @ w for w in weights]


def test_results_are_those_of_functions_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last bit: sums are taken to the same pieces, whether or not their length is known.

    On whatever processor, products are ours.
    """
    monkeypatch.setattr(facts, "facts_of_products", lambda: {"products": 1.4})
    monkeypatch.setattr(facts, "facts_of_onednn", dict)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(512, 256, generator=generator)
    weights = [torch.randn(256, size, generator=generator) for size in (128, 256, 512, 1024)]
    seen: list[dict[str, Shared]] = []

    def noted(kernels: list[kernel.FuncOp]) -> dict[str, Shared]:
        found = shared(kernels)
        for func in kernels:
            assert func.sym_name not in found or is_same(told(found[func.sym_name]), func)
        seen.append(found)
        return found

    monkeypatch.setattr(emit_module, "shared", noted)
    together = torch.compile(layers, backend="cuesta", dynamic=False)(x, weights)
    assert any(len(found) >= 4 for found in seen)
    torch._dynamo.reset()
    monkeypatch.setattr(emit_module, "shared", lambda kernels: {})  # pyright: ignore
    apart = torch.compile(layers, backend="cuesta", dynamic=False)(x, weights)
    for one, other in zip(together, apart, strict=True):
        assert torch.equal(one, other)


def columns(*xs: torch.Tensor) -> list[torch.Tensor]:
    """Sums of columns, each vector of which is one: they are taken to pieces that their length says."""
    return [(x * 2).sum(0) for x in xs]


@pytest.mark.parametrize(
    ("rows", "together"),
    [
        ((1000, 600), 2),  # pieces of 32
        ((1000, 1100), 0),  # pieces of 32; of 128, and these of 8
        ((1000, 1100, 600, 1900, 200), 4),  # two of each, and one of 16
    ],
)
def test_sums_that_do_not_fill_the_registers_share_where_their_pieces_are_the_same(
    rows: tuple[int, ...], together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(0)
    xs = [torch.randn(count, 64, generator=generator) for count in rows]
    seen: list[set[str]] = []
    original = emit_module.apart

    def told_apart(found: Mapping[str, Shared], *rest: object) -> dict[str, Shared]:
        left = original(found, *rest)  # pyright: ignore
        seen.append(set(left))
        return left

    monkeypatch.setattr(emit_module, "apart", told_apart)
    one_by_one = [torch.compile(columns, backend="cuesta", dynamic=False)(x)[0] for x in xs]
    assert not seen
    torch._dynamo.reset()
    found = torch.compile(columns, backend="cuesta", dynamic=False)(*xs)
    assert seen and len(seen[-1]) == together
    for one, other in zip(found, one_by_one, strict=True):
        assert torch.equal(one, other)
