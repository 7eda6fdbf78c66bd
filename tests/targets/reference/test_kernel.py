from __future__ import annotations

import pytest
import torch
from xdsl.utils.exceptions import VerifyException

from cuesta.targets.reference import InterpreterError, run
from cuesta.targets.reference import kernel as reference_kernel
from tests.support.tensors import run_tensors

SOFTMAX = """
kernel.func @softmax_0(%x : !kernel.ptr<f32>) outs(%y : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = [6], threads = 1> {
  %p = kernel.program_id 0
  %m = kernel.reduce maximum (%j = 0 to 10 lanes 8) {
    %a = kernel.load %x[%p * 10 + %j] : vector<8xf32>
    kernel.yield %a : vector<8xf32>
  } : f32
  %mv = kernel.broadcast %m : f32 to vector<8xf32>
  %d = kernel.reduce sum (%k = 0 to 10 lanes 8) {
    %b = kernel.load %x[%p * 10 + %k] : vector<8xf32>
    %c = elem.sub %b, %mv : vector<8xf32>
    %e = elem.exp %c : vector<8xf32>
    kernel.yield %e : vector<8xf32>
  } : f32
  %dv = kernel.broadcast %d : f32 to vector<8xf32>
  kernel.for (%l = 0 to 10 lanes 8) {
    %f = kernel.load %x[%p * 10 + %l] : vector<8xf32>
    %g = elem.sub %f, %mv : vector<8xf32>
    %h = elem.exp %g : vector<8xf32>
    %r = elem.div %h, %dv : vector<8xf32>
    kernel.store %r, %y[%p * 10 + %l] : vector<8xf32>
  }
}
func.func @main(%x : tensor<6x10xf32>) -> tensor<6x10xf32> {
  %y = kernel.launch @softmax_0(%x) : (tensor<6x10xf32>) -> (tensor<6x10xf32>)
  func.return %y : tensor<6x10xf32>
}
"""


@pytest.fixture
def launch(parse):
    """A module with one kernel @k over f32 vectors of 10 and 4 programs, and a @main that launches it."""

    def build(body: str, grid: str = "[4]", out: str = "tensor<10xf32>"):
        return parse(
            f"""
kernel.func @k(%x : !kernel.ptr<f32>, %n : !kernel.ptr<i64>) outs(%y : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = {grid}> {{
  {body}
}}
func.func @main(%x : tensor<10xf32>, %n : tensor<10xi64>) -> {out} {{
  %y = kernel.launch @k(%x, %n) : (tensor<10xf32>, tensor<10xi64>) -> ({out})
  func.return %y : {out}
}}"""
        )

    return build


X, N = torch.arange(10.0), torch.arange(10)


def test_softmax(parse):
    x = torch.randn(6, 10)
    torch.testing.assert_close(run_tensors(parse(SOFTMAX), [x])[0], x.softmax(-1))


def test_softmax_in_chunks_is_the_same(parse, monkeypatch):
    x = torch.randn(6, 10)
    (whole,) = run_tensors(parse(SOFTMAX), [x])
    monkeypatch.setattr(reference_kernel, "POINTS_PER_CHUNK", 25)
    assert torch.equal(whole, run_tensors(parse(SOFTMAX), [x])[0])


BLOCKED = """
  %p = kernel.program_id 0
  kernel.for (%j = %p * 3 to min(%p * 3 + 3, 10) lanes 8) {
    %a = kernel.load %x[%j] : vector<8xf32>
    %b = elem.neg %a : vector<8xf32>
    kernel.store %b, %y[%j] : vector<8xf32>
  }"""


@pytest.mark.parametrize("points", [1 << 20, 1])
def test_blocks_of_which_the_last_is_short(launch, monkeypatch, points):
    monkeypatch.setattr(reference_kernel, "POINTS_PER_CHUNK", points)
    assert torch.equal(run_tensors(launch(BLOCKED), [X, N])[0], -X)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("sum", [3.0, 12.0, 21.0, 9.0]),
        ("maximum", [2.0, 5.0, 8.0, 9.0]),
        ("minimum", [0.0, 3.0, 6.0, 9.0]),
        ("prod", [0.0, 60.0, 336.0, 9.0]),
    ],
)
def test_inactive_points_are_not_reduced(launch, kind, expected):
    body = f"""
  %p = kernel.program_id 0
  %r = kernel.reduce {kind} (%j = %p * 3 to min(%p * 3 + 3, 10) lanes 8) {{
    %a = kernel.load %x[%j] : vector<8xf32>
    kernel.yield %a : vector<8xf32>
  }} : f32
  kernel.store %r, %y[%p] : f32"""
    assert run_tensors(launch(body, out="tensor<4xf32>"), [X, N])[0].tolist() == expected


def test_argmax_counts_only_active_points(launch):
    body = """
  %p = kernel.program_id 0
  %r, %i = kernel.reduce argmax (%h = 0 to 2, %j = 0 to %p + 1 lanes 8) {
    %a = kernel.load %x[9 - %h * 3 - %j] : vector<8xf32>
    %b = elem.neg %a : vector<8xf32>
    kernel.yield %b : vector<8xf32>
  } : f32, i64
  %v = elem.convert %i : i64 to f32
  kernel.store %v, %y[%p] : f32"""
    # The greatest is the last one: its linear index is 2 * (p + 1) - 1.
    assert run_tensors(launch(body, out="tensor<4xf32>"), [X, N])[0].tolist() == [1.0, 3.0, 5.0, 7.0]


def test_welford_with_short_last_block(launch):
    body = """
  %p = kernel.program_id 0
  %m, %s = kernel.reduce welford (%j = %p * 4 to min(%p * 4 + 4, 10) lanes 4) {
    %a = kernel.load %x[%j] : vector<4xf32>
    kernel.yield %a : vector<4xf32>
  } : f32, f32
  kernel.store %m, %y[%p * 2] : f32
  kernel.store %s, %y[%p * 2 + 1] : f32"""
    out = run_tensors(launch(body, grid="[3]", out="tensor<6xf32>"), [X, N])[0]
    assert out.tolist() == [1.5, 5.0, 5.5, 5.0, 8.5, 0.5]


def test_reduce_without_lanes_inside_a_lane_loop_gives_a_vector(launch):
    body = """
  kernel.for (%j = 0 to 5 lanes 4) {
    %s = kernel.reduce sum (%r = 0 to 2) {
      %a = kernel.load %x[%r * 5 + %j] : vector<4xf32>
      kernel.yield %a : vector<4xf32>
    } : vector<4xf32>
    kernel.store %s, %y[%j] : vector<4xf32>
  }"""
    assert run_tensors(launch(body, grid="[]", out="tensor<5xf32>"), [X, N])[0].tolist() == [5.0, 7.0, 9.0, 11.0, 13.0]


def test_scratch_is_private_to_the_program(launch):
    body = """
  %p = kernel.program_id 0
  %t = kernel.local 3 : !kernel.ptr<f32>
  kernel.for (%j = 0 to min(3, 10 - %p * 3) lanes 4) {
    %a = kernel.load %x[%p * 3 + %j] : vector<4xf32>
    kernel.store %a, %t[%j] : vector<4xf32>
  }
  kernel.for (%k = 0 to min(3, 10 - %p * 3) lanes 4) {
    %b = kernel.load %t[%k] : vector<4xf32>
    %c = elem.neg %b : vector<4xf32>
    kernel.store %c, %t[%k] : vector<4xf32>
    %d = kernel.load %t[%k] : vector<4xf32>
    kernel.store %d, %y[%p * 3 + %k] : vector<4xf32>
  }"""
    assert torch.equal(run_tensors(launch(body), [X, N])[0], -X)


def test_gather_through_bound(launch):
    body = """
  kernel.for (%j = 0 to 10 lanes 8) {
    %k = kernel.load %n[%j] : vector<8xi64>
    %b = kernel.bound %k, 10 wrap : vector<8xi64>
    %a = kernel.load %x[%b] : vector<8xf32>
    kernel.store %a, %y[%j] : vector<8xf32>
  }"""
    indices = torch.tensor([-1, 3, 2, 9, 0, -10, 5, 5, 5, 1])
    assert torch.equal(run_tensors(launch(body, grid="[]"), [X, indices])[0], X[indices])
    indices[4] = 10
    with pytest.raises(IndexError, match="index 10 is out of bounds for dimension with size 10"):
        run(launch(body, grid="[]"), [X, indices])


def test_masked_load_and_index(launch):
    body = """
  kernel.for (%j = 0 to 10 lanes 8) {
    %i = kernel.index [%j * 2] : vector<8xi64>
    %l = elem.constant 10 : vector<8xi64>
    %m = elem.lt %i, %l : vector<8xi64>
    %z = elem.constant -1.0 : vector<8xf32>
    %a = kernel.load %x[%j * 2] if %m else %z : vector<8xf32>
    kernel.store %a, %y[%j] : vector<8xf32>
  }"""
    assert run_tensors(launch(body, grid="[]"), [X, N])[0].tolist() == [0, 2, 4, 6, 8, -1, -1, -1, -1, -1]


def test_symbols_are_arguments(parse):
    text = """
kernel.func @k(%x : !kernel.ptr<f32>) outs(%y : !kernel.ptr<f32>) symbols(s0) schedule #kernel.schedule<grid = [s0]> {
  %p = kernel.program_id 0
  %a = kernel.load %x[s0 - 1 - %p] : f32
  kernel.store %a, %y[%p] : f32
}
func.func @main(%x : tensor<?xf32, #aten.layout<sizes = [s0]>>) -> tensor<?xf32, #aten.layout<sizes = [s0]>> {
  %y = kernel.launch @k(%x) : (tensor<?xf32, #aten.layout<sizes = [s0]>>) -> (tensor<?xf32, #aten.layout<sizes = [s0]>>)
  func.return %y : tensor<?xf32, #aten.layout<sizes = [s0]>>
}"""
    x = torch.randn(7)
    assert torch.equal(run_tensors(parse(text), [x])[0], x.flip(0))
    undeclared = parse(text.replace("symbols(s0)", "").replace("grid = [s0]", "grid = [4]"))
    with pytest.raises(VerifyException, match="uses s0, not among its symbols"):
        run(undeclared, [x])
    with pytest.raises(InterpreterError, match="the symbol s0, which has no value"):
        run(undeclared, [x], verify=False)


def test_pointers_see_memory_in_the_declared_layout(parse):
    layout = "#aten.layout<strides = [1, 2]>"
    text = f"""
kernel.func @k(%x : !kernel.ptr<f32>) outs(%y : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [2, 3]> {{
  %p = kernel.program_id 0
  %q = kernel.program_id 1
  %a = kernel.load %x[%p * 3 + %q] : f32
  kernel.store %a, %y[%p + %q * 2] : f32
}}
func.func @main(%x : tensor<2x3xf32>) -> tensor<2x3xf32, {layout}> {{
  %y = kernel.launch @k(%x) : (tensor<2x3xf32>) -> (tensor<2x3xf32, {layout}>)
  func.return %y : tensor<2x3xf32, {layout}>
}}"""
    x = torch.randn(4, 3)[1:3]  # with an offset into its storage
    (y,) = run_tensors(parse(text), [x])
    assert torch.equal(y, x)
    assert y.stride() == (1, 2)


# -- what is refused --------------------------------------------------------------------------------------------------


SCRATCH = """
  %p = kernel.program_id 0
  %t = kernel.local {size} : !kernel.ptr<f32>
  %a = kernel.load %t[%p] : f32"""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (BLOCKED.replace("min(%p * 3 + 3, 10)", "%p * 3 + 3"), "kernel.load: index 10 is out of range for memory"),
        (BLOCKED.replace("%y[%j]", "%y[%j + 1]"), "kernel.store: index 10 is out of range"),
        (BLOCKED.replace("%y[%j]", "%y[%j floordiv 2]"), "two points of the domain store the element at offset 0"),
        (BLOCKED.replace("3 + 3, 10", "3 + 2, 10"), r"out 0 of @k: the element at offset 2 is never stored \(3 of 10"),
        (BLOCKED.replace("load %x[%j]", "load %y[%j]"), "which nothing has stored yet"),
        (BLOCKED + "%c = kernel.load %y[9 - %p] : f32", "which another point of the domain stored"),
        (BLOCKED.replace("%y[%j]", "%x[%j]"), "stores to an input of the kernel"),
        (SCRATCH.format(size=3), "index 3 is out of range"),
        (SCRATCH.format(size=4), "nothing has stored yet"),
    ],
)  # fmt: skip
def test_refused(launch, body, message):
    with pytest.raises(InterpreterError, match=message):
        run(launch(body), [X, N])


def test_lanes_of_one_loop_do_not_share_scratch(launch):
    body = """
  %t = kernel.local 10 : !kernel.ptr<f32>
  kernel.for (%j = 0 to 10 lanes 8) {
    %a = kernel.load %x[%j] : vector<8xf32>
    kernel.store %a, %t[%j] : vector<8xf32>
    %b = kernel.load %t[9 - %j] : vector<8xf32>
  }"""
    with pytest.raises(InterpreterError, match="another point of the domain stored"):
        run(launch(body, grid="[]"), [X, N])


def test_a_scalar_that_varies_over_lanes_is_refused(parse):
    # The verifier lets this through: `%w` is scalar by type, and the reduction without lanes does not look inside.
    from xdsl.dialects.builtin import f32

    from cuesta.dialects import kernel

    module = parse(SOFTMAX)
    load = [op for op in module.walk() if isinstance(op, kernel.LoadOp)][-1]
    load.results[0]._type = f32
    with pytest.raises(InterpreterError, match="the scalar type f32 varies from lane to lane"):
        run(module, [torch.randn(6, 10)], verify=False)


def test_launches_are_checked(parse):
    with pytest.raises(InterpreterError, match="there is no kernel @other"):
        run(parse(SOFTMAX.replace("launch @softmax_0", "launch @other")), [torch.randn(6, 10)])
    with pytest.raises(InterpreterError, match="has 1 inputs and 1 outs, but 2 and 1 are given"):
        text = SOFTMAX.replace(
            "softmax_0(%x) : (tensor<6x10xf32>)", "softmax_0(%x, %x) : (tensor<6x10xf32>, tensor<6x10xf32>)"
        )
        run(parse(text), [torch.randn(6, 10)])
    text = SOFTMAX.replace("(%x : tensor<6x10xf32>", "(%x : tensor<6x10xf64>")
    text = text.replace("(%x) : (tensor<6x10xf32>", "(%x) : (tensor<6x10xf64>")
    with pytest.raises(InterpreterError, match=r"is given memory of torch\.float64"):
        run(parse(text), [torch.randn(6, 10).double()])


def test_division_at_inactive_points_does_no_harm(launch):
    body = """
  %p = kernel.program_id 0
  kernel.for (%j = %p * 3 to min(%p * 3 + 3, 10) lanes 8) {
    %a = kernel.index [10 - %j] : vector<8xi64>
    %b = elem.trunc_div %a, %a : vector<8xi64>
    %c = elem.convert %b : vector<8xi64> to vector<8xf32>
    kernel.store %c, %y[%j] : vector<8xf32>
  }"""
    assert run_tensors(launch(body), [X, N])[0].tolist() == [1.0] * 10


RUNNING = """
kernel.func @cumsum_0() outs(%o : !kernel.ptr<i64>)
    schedule #kernel.schedule<grid = [2], target = cuda, warps = 1, index = 32> {
  %p = kernel.program_id 0
  %one = elem.constant 1 : vector<1x8xi64>
  kernel.for (%i = %p * 4 to min(%p * 4 + 4, 7) lanes 4) {
    kernel.scan (%j = 0 to 5 lanes 8 dim 1) {
      %r = kernel.running sum %one : vector<1x8xi64>
      %b = kernel.broadcast %r : vector<1x8xi64> to vector<4x8xi64>
      kernel.store %b, %o[%i + %j * 7] : vector<4x8xi64>
    }
  }
}
func.func @main() -> tensor<5x7xi64> {
  %y = kernel.launch @cumsum_0() : () -> (tensor<5x7xi64>)
  func.return %y : tensor<5x7xi64>
}
"""


def test_a_running_value_that_is_the_same_in_all_columns(parse):
    (result,) = run_tensors(parse(RUNNING), [])
    assert torch.equal(result, torch.arange(1, 6)[:, None].expand(5, 7))
