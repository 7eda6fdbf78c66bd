"""Programs from builders: what they compute, where they come from, and what a builder refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute

from cuesta import build
from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.dialects.core.fingerprint import structurally_equal
from cuesta.dialects.core.locations import format_location, print_text
from cuesta.dialects.sym.expr import IndexExpr
from cuesta.lowering.aten.scalar import Scalar
from cuesta.programs.building import type_of
from cuesta.targets import reference
from tests.support.text import parse


def check(builder: Any, *inputs: Any, expected: torch.Tensor) -> None:
    """The program computes this, interpreted and compiled, and its text gives it back."""
    program = builder.program
    torch.testing.assert_close(program.run(*inputs)[0], expected)
    torch.testing.assert_close(program.compile()(*inputs)[0], expected)
    assert structurally_equal(parse(print_text(builder.module)), builder.module)


def test_aten() -> None:
    with build.aten(x="f32[4, 8]", w="f32[8, 16]", b="f32[16]") as b:
        product = b.op.mm(b.x, b.w)
        shifted = b.op.add(product, b.b, alpha=2)
        both = b.op.cat([shifted, b.op.exp(shifted)], 1)
        values, _ = b.op.max(both, 1)
        half = b.op._to_copy(values, dtype=torch.float16)
        b.returns(half)
    x, w, bias = torch.randn(4, 8), torch.randn(8, 16), torch.randn(16)
    y = x @ w + 2 * bias
    check(b, x, w, bias, expected=torch.cat([y, y.exp()], 1).max(1).values.half())
    names = [op.name for op in b.module.walk()]
    assert "aten.add.Tensor" in names and "aten.max.dim" in names
    assert format_location(next(op for op in b.module.walk() if op.name == "aten.mm.default").location).startswith(
        f"{__file__}:"
    )


def test_sizes_that_are_symbols() -> None:
    with build.aten(n="int s0", x="f32[s0, 4]", symbols={"s0": (3, 30)}) as b:
        b.returns(b.call("aten.exp.default", b.x, type="f32[s0, 4]"))
    assert "s0 in [3, 30]" in str(b.program)
    x = torch.randn(7, 4)
    check(b, 7, x, expected=x.exp())
    with pytest.raises(TypeError, match=r"s0 2, but @main says s0 in \[3, 30\]"):
        b.program.compile()(2, torch.randn(2, 4))


def test_loops() -> None:
    with build.loops(x="f32[4, 8]", i="i64[4]") as b:
        with b.nest("f32[4, 8]", sizes=[4]) as n:
            row = b.bound(b.load(b.i, n.indices), 4, wrap=False)
            most = b.reduce("maximum", [8], "f32", lambda k: b.load(b.x, [row, *k]))
            with b.loop([8]) as j:
                b.store((b.load(b.x, [row, *j]) - most) * 0.5, n.handles[0], [*n.indices, *j])
        scaled = b.extern("aten.mul.Tensor", n.results[0], 3.0, type="f32[4, 8]")
        b.returns(scaled)
    x, i = torch.randn(4, 8), torch.tensor([3, 0, 0, 2])
    check(b, x, i, expected=(x[i] - x[i].max(1, keepdim=True).values) * 0.5 * 3)
    with pytest.raises(IndexError):
        b.program.run(x, torch.tensor([3, 0, 4, 2]))


def test_a_nest() -> None:
    with build.nest("f32[3, 5]", x="f32[5, 3]") as n:
        i, j = n.indices
        n.store(n.load(n.x, [j, i]))
    x = torch.randn(5, 3)
    check(n, x, expected=x.t().contiguous())


def test_a_kernel() -> None:
    with build.kernel({"y": "f32[4, 60]"}, grid=[4], choices={"unroll": 2}, x="f32[4, 60]") as k:
        row = k.program_id(0)
        total = k.reduce("sum", 0, 60, "f32", lambda j: k.load(k.x, row * 60 + j), lanes=8)
        with k.loop(0, 60, lanes=8) as j:
            k.store(k.load(k.x, row * 60 + j) / total + 1.0, k.y, row * 60 + j)
    x = torch.rand(4, 60)
    check(k, x, expected=x / x.sum(1, keepdim=True) + 1)
    assert "unroll = 2" in str(k.program)


@pytest.mark.parametrize("lanes", [1, 8])
def test_a_fold(lanes: int) -> None:
    """y[p] = 1 + x[p, 0] + 2 x[p, 1] + 4 x[p, 2] …, the weights carried beside the sums."""
    choices = {"target": "cuda"}
    with build.kernel({"y": "f32[2, 8]"}, grid=[2], choices=choices, x="f32[2, 5, 8]") as k:
        row = k.program_id(0)
        with k.loop(0, 8, lanes=lanes) as j:
            one = k.constant(1.0, f32)

            def step(c: IndexExpr, total: Scalar, weight: Scalar) -> list[Scalar]:
                return [total + k.load(k.x, row * 40 + c * 8 + j) * weight, weight * 2.0]

            total, weight = k.fold(0, row + 4, [one, one], step, lanes=lanes)
            k.store(total + weight, k.y, row * 8 + j)
    x = torch.randn(2, 5, 8)
    (y,) = reference.run(k.module, [x])
    for p, points in enumerate((4, 5)):
        weights = 2.0 ** torch.arange(points)
        expected = 1 + (x[p, :points] * weights[:, None]).sum(0) + 2.0**points
        torch.testing.assert_close(y[p], expected)  # type: ignore[index]


def test_a_kernel_of_symbolic_size() -> None:
    with build.kernel({"y": "f32[s0, 8]"}, grid=["s0"], x="f32[s0, 8]") as k:
        row = k.program_id(0)
        with k.loop(0, 8, lanes=8) as j:
            k.store(k.load(k.x, row * 8 + j) * 2.0, k.y, row * 8 + j)
    x = torch.randn(5, 8)
    check(k, x, expected=x * 2)


def test_a_host_program() -> None:
    with build.kernel({"y": "f32[8, 8]"}, grid=[8], x="f32[8, 8]") as k:
        row = k.program_id(0)
        with k.loop(0, 8, lanes=8) as j:
            k.store(k.load(k.x, row * 8 + j) + 1.0, k.y, row * 8 + j)
    with build.host(k, x="f32[8, 8]", w="f32[8, 8]") as h:
        product = h.extern("aten.mm.default", h.x, h.w, type="f32[8, 8]")
        h.free(h.x, h.w)
        y = h.alloc("f32[8, 8]")
        h.launch(k, product, y)
        flat = h.reinterpret(y, "f32[64]")
        h.returns(flat)
    x, w = torch.randn(8, 8), torch.randn(8, 8)
    check(h, x, w, expected=(x @ w + 1).flatten())


def test_texts_for_a_gpu_need_none() -> None:
    pytest.importorskip("triton")
    with build.nest("f32[4096] on cuda:0", x="f32[4096] on cuda:0") as n:
        n.store(n.load(n.x, n.indices) * 3.0)
    torch.testing.assert_close(n.program.run(torch.ones(4096))[0], torch.full((4096,), 3.0))
    source = n.program.source
    assert list(source.triton) == ["kernels.py"] and "@triton.jit" in source.triton["kernels.py"]
    assert "empty_cuda_0" in source.wrapper


def test_programs_are_complete_when_their_block_ends() -> None:
    with build.aten(x="f32[4]") as b:
        b.returns(b.op.exp(b.x))
        with pytest.raises(build.BuildError, match="is not complete"):
            _ = b.module
    b.module.body.block.first_op.detach()  # type: ignore[union-attr]
    assert b.program.run(torch.zeros(4))[0][0] == 1  # a copy
    with pytest.raises(build.BuildError, match="returns nothing"), build.aten(x="f32[4]"):
        pass
    with pytest.raises(ZeroDivisionError), build.aten(x="f32[4]"):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda b: b.call("aten.epx.default", b.x), "there is no overload aten.epx.default"),
        (lambda b: b.op.epx(b.x), "aten.epx: "),
        (lambda b: b.op.mm(b.x), "aten.mm: .*missing value for argument 'mat2'"),
        (lambda b: b.y, "there is no argument 'y'; there are: x"),
        (lambda b: b.op.nonzero(b.x), "what it gives depends on sizes, or data"),
        (lambda b: build.type_of("f31[4]"), "there is no dtype f31"),
        (lambda b: build.type_of("f32(4)"), "is no type: write"),
        (lambda b: build.type_of("f32[4] strides [1, 2]"), "1 sizes, but 2 strides"),
        (lambda b: build.type_of("f32[4 + 1]"), "'4 \\+ 1' is neither a number nor the name of a size"),
        (lambda b: build.kernel({"y": "f32"}), "'y' is a f32: a kernel takes tensors"),
        (lambda b: build.loops(x="f32[4]").nest("f32").__enter__(), "a nest has outs, which are tensors"),
    ],
)
def test_bad_use(wrong: Any, message: str) -> None:
    b = build.aten(x="f32[4, 4]")
    with pytest.raises((build.BuildError, AttributeError), match=message) as caught:
        wrong(b)
    assert isinstance(caught.value, AttributeError) or str(caught.value).startswith(f"{__file__}:")


def test_what_torch_and_the_level_refuse() -> None:
    b = build.aten(x="f32[4, 5]")
    with pytest.raises(CuestaError, match=r"test_build.py:.* aten.mm.default: .*must have same reduction dim"):
        b.op.mm(b.x, b.x)
    with pytest.raises(CuestaError, match=r"test_build.py"), build.nest("f32[3]", x="f32[5]") as n:
        n.store(n.load(n.x, [n.indices[0] + 4]))
        n.store(n.load(n.x, [n.indices[0] * 4]))


@pytest.mark.parametrize(
    ("text", "kind"),
    [("f64[]", "tensor<f64>"), ("uint8[2]", "tensor<2xui8>"), ("i1", "i1"), ("float8_e4m3fn[2]", "tensor<2xf8E4M3FN>")],
)
def test_types(text: str, kind: str) -> None:
    assert str(type_of(text)) == kind
    assert isinstance(type_of(type_of(text)), Attribute)
