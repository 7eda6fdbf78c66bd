from __future__ import annotations

import pytest
import torch

from cuesta.targets.reference import NotEquivalentError, check_equivalent, random_inputs
from tests.support.tensors import run_tensors, tensors

HEAD = "%x : tensor<8x100xf32>"
SUM = """
  %y = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {{
    %s = loops.reduce sum (%j : 100) {{
      %v = loops.load %x[%i, {column}] : tensor<8x100xf32>
      %w = elem.exp %v : f32
      loops.yield %w : f32
    }} : f32
    {after}
    loops.store %r, %o[%i] : tensor<8xf32>
  }}"""


@pytest.fixture
def summing(nest):
    def build(column: str = "%j", after: str = "%z = elem.constant 0.0 : f32 %r = elem.add %s, %z : f32"):
        return nest(HEAD, "tensor<8xf32>", SUM.format(column=column, after=after))

    return build


def test_equal_programs_pass(summing):
    check_equivalent(summing(), summing())
    check_equivalent(summing(), summing(column="99 - %j"), exact=False)


def test_a_difference_is_named(summing):
    other = summing(after="%z = elem.constant 1.0 : f32 %r = elem.add %s, %z : f32")
    for exact in (True, False):
        with pytest.raises(
            NotEquivalentError, match=r"fuse-nests: result 0 is not the same: 8 of 8 .*difference is 1.0"
        ):
            check_equivalent(summing(), other, exact=exact, pass_name="fuse-nests")


def test_rounding_passes_only_where_it_may(summing):
    one_off = summing(after="%z = elem.constant 1.0000001 : f32 %r = elem.mul %s, %z : f32")
    with pytest.raises(NotEquivalentError):
        check_equivalent(summing(), one_off)
    check_equivalent(summing(), one_off, exact=False)
    far_off = summing(after="%z = elem.constant 1.00001 : f32 %r = elem.mul %s, %z : f32")
    with pytest.raises(NotEquivalentError):
        check_equivalent(summing(), far_off, exact=False)


def test_signs_of_zero_and_nan(nest):
    def module(op: str):
        return nest("%x : tensor<4xf32>", "tensor<4xf32>", f"%y = {op} : (tensor<4xf32>) -> tensor<4xf32>")

    zeros = [torch.zeros(4)]
    with pytest.raises(NotEquivalentError, match=r"0.0 before, -0.0 after"):
        check_equivalent(module("aten.clone.default(%x)"), module("aten.neg.default(%x)"), zeros)
    nans = [torch.full((4,), float("nan"))]
    check_equivalent(module("aten.clone.default(%x)"), module("aten.neg.default(%x)"), nans)


def test_random_numbers_and_mutation_do_not_disturb(parse):
    module = parse(
        """
func.func @main(%x : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = aten.rand.default([4], dtype = torch.float32) : () -> tensor<4xf32>
  %1 = aten.copy_.default(%x, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}"""
    )
    x = torch.zeros(4)
    check_equivalent(module, module, [x])
    assert torch.equal(x, torch.zeros(4))


def test_a_result_that_is_an_argument_in_one_of_two_programs(parse):
    """It may be what the argument was, or becomes: whoever calls makes it of the argument. Anything else is wrong."""

    def module(of_result: str, result: str = "%0"):
        return parse(
            f"""
func.func @main(%x : tensor<4xf32>, %y : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    attributes {{aten.writes_to = [0]}} {{
  %0 = {of_result} : (tensor<4xf32>) -> tensor<4xf32>
  func.return {result}, %y : tensor<4xf32>, tensor<4xf32>
}}"""
        )

    argument = module("aten.clone.default(%x)", "%x")
    for same in ("aten.clone.default(%x)", "aten.clone.default(%y)"):
        check_equivalent(argument, module(same))
        check_equivalent(module(same), argument)
    for other in ("aten.neg.default(%x)", "aten.neg.default(%y)"):
        with pytest.raises(NotEquivalentError, match="result 0 is not the same"):
            check_equivalent(argument, module(other))
        with pytest.raises(NotEquivalentError, match="result 0 is not the same"):
            check_equivalent(module(other), argument)
    with pytest.raises(NotEquivalentError):
        check_equivalent(module("aten.clone.default(%x)"), module("aten.clone.default(%y)"))


def test_random_inputs(parse):
    type_ = "tensor<?x?xbf16, #aten.layout<sizes = [s0, s1], strides = [1, s0]>>"
    module = parse(
        f"""
func.func @main(%n : !sym.int<s0 + 1>, %x : {type_}, %i : tensor<50xi64>, %m : tensor<50xi1>,
    %e : tensor<3x4xf32, #aten.layout<strides = [0, 1]>>)
    -> {type_} attributes {{sym.symbols = #sym.symbols<s0 in [2, 4], s1 in [0, inf]>}} {{
  func.return %x : {type_}
}}"""
    )
    n, *rest = random_inputs(module, seed=3)
    x, i, m, e = tensors(rest)
    assert n == 5
    assert x.shape == (4, 7)
    assert x.stride() == (1, 4)
    assert x.dtype is torch.bfloat16
    assert set(i.tolist()) == {0, 1}
    assert set(m.tolist()) == {False, True}
    assert e.stride() == (0, 1)
    assert torch.equal(run_tensors(module, [n, x, i, m, e])[0], x)
    assert torch.equal(tensors(random_inputs(module, seed=3)[1:])[0], x)
    assert tensors(random_inputs(module, symbols={"s0": 3})[1:])[0].shape == (3, 7)
