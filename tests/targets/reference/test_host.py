from __future__ import annotations

import pytest
import torch

from cuesta.targets.reference import InterpreterError, NotEquivalentError, check_equivalent, run
from tests.support.tensors import run_tensors

TEXT = """
kernel.func @double(%x : !kernel.ptr<f32>) outs(%y : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [12]> {
  %p = kernel.program_id 0
  %a = kernel.load %x[%p] : f32
  %b = elem.add %a, %a : f32
  kernel.store %b, %y[%p] : f32
}
host.func @main(%x : tensor<3x4xf32>, %w : tensor<4x2xf32>) -> (tensor<3x2xf32>, tensor<2x3xf32>) {
  %b = host.alloc : tensor<3x4xf32>
  host.launch @double(%x, %b) : tensor<3x4xf32>, tensor<3x4xf32>
  %m = host.extern "aten.mm.default"(%b, %w) : (tensor<3x4xf32>, tensor<4x2xf32>) -> tensor<3x2xf32>
  %v = host.reinterpret %b offset 6 : tensor<3x4xf32> to tensor<2x3xf32>
  host.free %b : tensor<3x4xf32>
  host.return %m, %v : tensor<3x2xf32>, tensor<2x3xf32>
}
"""


def test_buffers(parse):
    x, w = torch.randn(3, 4), torch.randn(4, 2)
    m, v = run_tensors(parse(TEXT), [x, w])
    assert torch.equal(m, (x + x) @ w)
    assert torch.equal(v, (x + x).flatten()[6:].reshape(2, 3))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("host.return %m, %v", "host.free %m : tensor<3x2xf32> host.return %m, %v", "uses %m after it was freed"),
        ("offset 6", "offset 7", "reaches to element 13 of memory that has 12"),
        ("grid = [12]", "grid = [11]", "is never stored"),
    ],
)
def test_refused(parse, old, new, message):
    with pytest.raises(InterpreterError, match=message):
        run(parse(TEXT.replace(old, new)), [torch.randn(3, 4), torch.randn(4, 2)])


@pytest.mark.parametrize("kind", ["i64", "i32", "i1", "ui8", "f32", "f64"])
def test_memory_that_nobody_wrote_is_the_same_in_every_run(parse, kind):
    """Whatever stood there before: two runs of one program do not differ, and what is not written is no zero."""
    alloc = f"%b = host.alloc : tensor<5x{kind}>\n"
    place = f"%a = host.alloc : tensor<128xui8>\n%b = host.place %a at 64 : tensor<128xui8> to tensor<5x{kind}>\n"
    for made in (alloc, place):
        text = f"host.func @main() -> (tensor<5x{kind}>) {{\n{made}host.return %b : tensor<5x{kind}>\n}}"
        found: list[torch.Tensor] = []
        for byte in (0, 77):
            junk = [torch.full((64,), byte, dtype=torch.uint8) for _ in range(50)]  # memory that is given out again
            del junk
            found += run_tensors(parse(text), [])
        one, other = found
        assert torch.equal(one.isnan(), other.isnan()) and torch.equal(one.nan_to_num(), other.nan_to_num())
        assert bool((one != 0).all())


WRITES = """
func.func @main(%x : tensor<2x2xf32>, %y : tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
    attributes {aten.writes_to = [1, 0]} {
  %t = aten.permute.default(%x, [1, 0]) : (tensor<2x2xf32>) -> tensor<2x2xf32, #aten.layout<strides = [1, 2]>>
  %c = aten.clone.default(%t, memory_format = torch.contiguous_format)
      : (tensor<2x2xf32, #aten.layout<strides = [1, 2]>>) -> tensor<2x2xf32>
  func.return %x, %c, %y : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>
}
"""


def test_arguments_are_written_all_at_once_in_the_end(parse):
    x, y = torch.randn(2, 2), torch.randn(2, 2)
    given = [x.clone(), y.clone()]
    (result,) = run(parse(WRITES), given)
    assert torch.equal(given[0], y) and torch.equal(given[1], x.t())
    assert isinstance(result, torch.Tensor) and isinstance(given[0], torch.Tensor)
    assert result.data_ptr() == given[0].data_ptr()


def test_what_is_written_is_compared(parse):
    other = WRITES.replace("writes_to = [1, 0]", "writes_to = [0, 1]")
    check_equivalent(parse(WRITES), parse(WRITES))
    with pytest.raises(NotEquivalentError, match="result 0 is not the same"):
        check_equivalent(parse(WRITES), parse(other))


ONE_BUFFER = """
kernel.func @move(%x : !kernel.ptr<f32>) outs(%y : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [3]> {
  %p = kernel.program_id 0
  kernel.for (%i = 0 to 4 lanes 4) {
    %a = kernel.load %x[READ] : vector<4xf32>
    kernel.store %a, %y[%p * 4 + %i] : vector<4xf32>
  }
}
host.func @main(%x : tensor<12xf32>) -> (tensor<12xf32>) {
  %b = host.extern "aten.neg.default"(%x) : (tensor<12xf32>) -> tensor<12xf32>
  host.launch @move(%b, %b) : tensor<12xf32>, tensor<12xf32>
  host.return %b : tensor<12xf32>
}
"""


@pytest.mark.parametrize("read", ["11 - %p * 4 - %i", "%p * 4 + 3 - %i", "%i"])
def test_a_launch_over_its_input_does_not_depend_on_an_order(parse, read):
    """Of two programs, and of two points of a program's loop."""
    with pytest.raises(
        InterpreterError, match=r"which another point of the domain reads: .*another name of this memory"
    ):
        run(parse(ONE_BUFFER.replace("READ", read)), [torch.randn(12)])


def test_a_launch_over_its_input_may_read_what_it_writes(parse):
    x = torch.randn(12)
    (y,) = run_tensors(parse(ONE_BUFFER.replace("READ", "%p * 4 + %i")), [x])
    assert torch.equal(y, -x)


def test_parts_of_one_buffer_may_be_read_and_written(parse):
    text = ONE_BUFFER.replace("READ", "%p * 4 + %i").replace("@move(%b, %b)", "@move(%x, %b)")
    x = torch.randn(12)
    (y,) = run_tensors(parse(text), [x])
    assert torch.equal(y, x)


SCATTER = """
func.func @main(%f : tensor<4xf32>, %n : tensor<3xi64>) -> tensor<4xf32> {
  %z = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %a = loops.load %f[%i] : tensor<4xf32>
    loops.store %a, %o[%i] : tensor<4xf32>
  }
  %y = loops.nest (%i : 3) outs(%o : tensor<4xf32>) updates(%z) {
    loops.scan (%j : 2) {
      %a = loops.load %n[%i] : tensor<3xi64>
      %k = loops.bound %a, 4 : i64
      %c = elem.constant 1.0 : f32
      loops.combine sum %c, %o[%k] : tensor<4xf32>
    }
  }
  func.return %y : tensor<4xf32>
}
"""


def test_no_two_points_change_one_element(parse):
    start = torch.zeros(4)
    (y,) = run_tensors(parse(SCATTER), [start, torch.tensor([3, 0, 1])])
    assert y.tolist() == [2, 2, 0, 2]
    with pytest.raises(InterpreterError, match="two points of the parallel domain change the element at offset 3"):
        run(parse(SCATTER), [start, torch.tensor([3, 0, 3])])
