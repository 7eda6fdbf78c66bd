from __future__ import annotations

import pytest
import torch

from cuesta.targets.reference import InterpreterError, run
from tests.support.tensors import run_tensors


def test_calls(parse):
    module = parse(
        """
func.func @main(%x : tensor<4x8xf32>, %w : tensor<8x2xf32>, %b : tensor<2xf32>)
    -> (tensor<4x2xf64>, tensor<8x2xf32>, tensor<4xi64>) {
  %0 = aten.addmm.default(%b, %x, %w, beta = 2, alpha = 0.5)
    : (tensor<2xf32>, tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  %1 = aten._to_copy.default(%0, dtype = torch.float64) : (tensor<4x2xf32>) -> tensor<4x2xf64>
  %2 = aten.view.default(%x, [16, 2]) : (tensor<4x8xf32>) -> tensor<16x2xf32>
  %3 = aten.slice.Tensor(%2, 0, 4, 12) : (tensor<16x2xf32>) -> tensor<8x2xf32>
  %4 = aten.cat.default([%3, %w], 1) : (tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<8x4xf32>
  %5, %6 = aten.max.dim(%4, 1) : (tensor<8x4xf32>) -> (tensor<8xf32>, tensor<8xi64>)
  %7 = aten.slice.Tensor(%6, 0, 0, 4) : (tensor<8xi64>) -> tensor<4xi64>
  func.return %1, %3, %7 : tensor<4x2xf64>, tensor<8x2xf32>, tensor<4xi64>
}"""
    )
    x, w, b = torch.randn(4, 8), torch.randn(8, 2), torch.randn(2)
    y, view, indices = run_tensors(module, [x, w, b])
    assert torch.equal(y, torch.addmm(b, x, w, beta=2, alpha=0.5).double())
    assert torch.equal(view, x.view(16, 2)[4:12])
    assert torch.equal(indices, torch.cat([view, w], 1).max(1).indices[:4])


def test_precise_overrides_dtypes(nest):
    module = nest(
        "%x : tensor<4xbf16>",
        "tensor<bf16>",
        """
  %0 = aten._softmax.default(%x, 0, false) : (tensor<4xbf16>) -> tensor<4xbf16>
  %1 = aten._to_copy.default(%0, dtype = torch.bfloat16) : (tensor<4xbf16>) -> tensor<4xbf16>
  %y = aten.sum.dim_IntList(%1, [0], dtype = torch.bfloat16) : (tensor<4xbf16>) -> tensor<bf16>""",
    )
    x = torch.randn(4).bfloat16()
    assert run_tensors(module, [x])[0].dtype is torch.bfloat16
    (precise,) = run_tensors(module, [x], precise=True)
    assert precise.dtype is torch.float64
    assert abs(precise.item() - 1) < 1e-14


def test_unknown_overloads_are_called(parse):
    with torch.library._scoped_library("cuesta_reference_test", "DEF") as library:
        library.define("twice(Tensor x, int n, str mode, *, float scale) -> (Tensor, int)")
        library.impl("twice", lambda x, n, mode, scale: (x * n * scale, len(mode)), "CPU")
        module = parse(
            """
func.func @main(%x : tensor<4xf32>) -> (tensor<4xf32>, !sym.int<3>) {
  %0, %1 = aten.call "cuesta_reference_test::twice.default"(%x, 2, "abc", scale = 0.5)
    : (tensor<4xf32>) -> (tensor<4xf32>, !sym.int<3>)
  func.return %0, %1 : tensor<4xf32>, !sym.int<3>
}"""
        )
        x = torch.randn(4)
        y, n = run(module, [x])
    assert isinstance(y, torch.Tensor) and torch.equal(y, x)
    assert n == 3


def test_literals_and_symbols(parse):
    type_ = "tensor<?xf32, #aten.layout<sizes = [s0]>>"
    module = parse(
        f"""
func.func @main(%n : !sym.int<s0 * 2>, %x : {type_}) -> (!aten.literal, !sym.int<s0 + 1>, !sym.int<s0 * 2>, {type_})
    attributes {{sym.symbols = #sym.symbols<s0 in [2, inf]>}} {{
  %l = aten.literal none : !aten.literal
  %m = sym.value : !sym.int<s0 + 1>
  %y = aten.full.default([s0], 1.5, dtype = torch.float32, device = torch.device("cuda:0")) : () -> {type_}
  func.return %l, %m, %n, %y : !aten.literal, !sym.int<s0 + 1>, !sym.int<s0 * 2>, {type_}
}}"""
    )
    *others, y = run(module, [10, torch.zeros(5)])
    assert others == [None, 6, 10]
    assert isinstance(y, torch.Tensor) and y.tolist() == [1.5] * 5
    with pytest.raises(InterpreterError, match=r"input 1: the size of axis 0 is 4, but its type says s0 \(s0 = 5\)"):
        run(module, [10, torch.zeros(4)])


def test_sizes_that_the_data_decides_are_learnt(nest):
    type_ = "tensor<?x1xi64, #aten.layout<sizes = [u0, 1]>>"
    module = nest(
        "%x : tensor<4xf32>", type_, f"%y = aten.nonzero.default(%x) : (tensor<4xf32>) -> {type_}"
    )  # eager gives it column by column
    (y,) = run_tensors(module, [torch.tensor([0.0, 1.0, 0.0, 2.0])])
    assert y.tolist() == [[1], [3]]


def test_results_get_the_declared_strides(nest):
    type_ = "tensor<2x3xf32, #aten.layout<strides = [1, 2]>>"
    module = nest("%x : tensor<2x3xf32>", type_, f"%y = aten.neg.default(%x) : (tensor<2x3xf32>) -> {type_}")
    x = torch.randn(2, 3)
    (y,) = run_tensors(module, [x])
    assert torch.equal(y, -x)
    assert y.stride() == (1, 2)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%y = aten.neg.default(%x) : (tensor<4xf32>) -> tensor<5xf32>", "axis 0 is 4, but its type says 5"),
        ("%y = aten.neg.default(%x) : (tensor<4xf32>) -> tensor<5xf64>", "has dtype torch.float32"),
        ('%y = aten.call "nothing::at_all.default"(%x) : (tensor<4xf32>) -> tensor<5xf32>', "torch has no operator"),
    ],
)  # fmt: skip
def test_refused(nest, line, message):
    result = line.rpartition("-> ")[2]
    with pytest.raises(InterpreterError, match=message):
        run(nest("%x : tensor<4xf32>", result, line), [torch.zeros(4)])


def test_what_eager_raises_is_passed_on(nest):
    module = nest(
        "%x : tensor<4xf32>, %n : tensor<1xi64>",
        "tensor<1xf32>",
        "%y = aten.index_select.default(%x, 0, %n) : (tensor<4xf32>, tensor<1xi64>) -> tensor<1xf32>",
    )
    with pytest.raises(IndexError) as error:
        run(module, [torch.zeros(4), torch.tensor([9])])
    assert "aten.index_select" in error.value.__notes__[0]


def test_constants_are_bound_by_name_or_order(parse):
    module = parse(
        """
func.func @main(%x : tensor<2xf32>, %c : tensor<2xf32>) -> tensor<2xf32>
    attributes {aten.constants = ["_tensor_constant0"]} {
  %y = aten.add.Tensor(%x, %c) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}"""
    )
    x, c = torch.randn(2), torch.randn(2)
    for constants in ({"_tensor_constant0": c}, [c]):
        assert torch.equal(run_tensors(module, [x], constants=constants)[0], x + c)
    assert torch.equal(run_tensors(module, [x, c])[0], x + c)
    with pytest.raises(InterpreterError, match="the constant _tensor_constant0 is missing"):
        run(module, [x], constants={})
