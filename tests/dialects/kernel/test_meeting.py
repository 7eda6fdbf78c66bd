"""`kernel.meet`, and what a load may tell a cache: their text, what they mean, and each way to get them wrong."""

from __future__ import annotations

import pytest
import torch

from cuesta.targets import reference
from cuesta.targets.reference.errors import InterpreterError
from tests.support.text import means_rows_less_their_sum, parse, refused, round_trip

MEETING = """
kernel.func @zeros() outs(%n: !kernel.ptr<i32>) schedule #kernel.schedule<grid = [20]> {
  %p = kernel.program_id 0
  %0 = elem.constant 0 : i32
  kernel.store %0, %n[%p] : i32
}
kernel.func @share(%x: !kernel.ptr<f32>) outs(%y: !kernel.ptr<f32>, %t: !kernel.ptr<f32>, %n: !kernel.ptr<i32>) updates 1 schedule #kernel.schedule<grid = [4, 2, 2], target = cuda> {
  %p = kernel.program_id 0
  %q = kernel.program_id 1
  %r = kernel.program_id 2
  %s = kernel.reduce sum (%j = 0 to 8 lanes 8) {
    %a = kernel.load %x[%p * 32 + %q * 16 + %r * 8 + %j] : vector<8xf32> evict_first
    kernel.yield %a : vector<8xf32>
  } : f32
  kernel.store %s, %t[%p * 4 + %q * 2 + %r] : f32
  kernel.meet %n last 2
  %u = kernel.reduce sum (%k = 0 to 4 lanes 4) {
    %a = kernel.load %t[%p * 4 + %k] : vector<4xf32> evict_last
    kernel.yield %a : vector<4xf32>
  } : f32
  %v = kernel.broadcast %u : f32 to vector<8xf32>
  kernel.for (%j = 0 to 8 lanes 8) {
    %a = kernel.load %x[%p * 32 + %q * 16 + %r * 8 + %j] : vector<8xf32>
    %b = elem.sub %a, %v : vector<8xf32>
    kernel.store %b, %y[%p * 32 + %q * 16 + %r * 8 + %j] : vector<8xf32>
  }
}
func.func @main(%x: tensor<4x32xf32>) -> tensor<4x32xf32> {
  %n = kernel.launch @zeros() : () -> (tensor<20xi32>)
  %y, %t, %m = kernel.launch @share(%x, %n) : (tensor<4x32xf32>, tensor<20xi32>) -> (tensor<4x32xf32>, tensor<16xf32>, tensor<20xi32>)
  func.return %y : tensor<4x32xf32>
}
"""


def test_round_trip() -> None:
    round_trip(MEETING)


def test_what_it_means(monkeypatch: pytest.MonkeyPatch) -> None:
    means_rows_less_their_sum(MEETING, "kernel", monkeypatch)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("kernel.meet %n last 2", "kernel.meet %n last 1", "it takes 24"),
        ("  kernel.meet %n last 2\n", "", "another point of the domain stored"),
        ("constant 0 : i32", "constant 1 : i32", "not 0 at the start"),
        ("grid = [4, 2, 2]", "grid = [3, 2, 2]", "it takes 15"),
    ],
)
def test_what_is_wrong_when_it_runs(old: str, new: str, message: str) -> None:
    with pytest.raises(InterpreterError, match=message):
        reference.run(parse(MEETING.replace(old, new)), [torch.randn(4, 32)])


def test_those_of_another_group_have_not_come() -> None:
    text = MEETING.replace("kernel.meet %n last 2", "kernel.meet %n last 1").replace("20", "24")
    with pytest.raises(InterpreterError, match="another point of the domain stored"):
        reference.run(parse(text), [torch.randn(4, 32)])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("last 2", "last 4", "kernel.meet along 4 axes: the grid has 3"),
        ("last 2", "last 0", "kernel.meet along 0 axes"),
        ("grid = [4, 2, 2]", "grid = [4, 2, s0 * 2]", "how many programs meet is a number"),
        ("kernel.ptr<i32>) updates 1", "kernel.ptr<i32>) updates 2", "the only one it updates"),
        ("kernel.meet %n", "kernel.meet %t", "!kernel.ptr<i32>"),
        ("  kernel.meet %n last 2\n", "  kernel.meet %n last 2\n  kernel.meet %n last 2\n", "something else uses"),
    ],
)
def test_what_is_refused(old: str, new: str, message: str) -> None:
    refused(MEETING.replace(old, new), message)


def test_it_stands_in_no_loop() -> None:
    refused(
        MEETING.replace("  kernel.meet %n last 2\n", "  kernel.for (%l = 0 to 1) {\n  kernel.meet %n last 2\n  }\n"),
        "stands at the top of a kernel.func",
    )


def test_what_a_cache_does_not_know() -> None:
    text = MEETING.replace(" evict_first", "")
    module = parse(text)
    from cuesta.dialects import kernel

    load = next(op for op in module.walk() if isinstance(op, kernel.LoadOp))
    load.eviction = "evict_some"
    with pytest.raises(Exception, match="a cache knows evict_first and evict_last, not evict_some"):
        module.verify()


@pytest.mark.parametrize("ahead", [0, -1, 1 << 70])
def test_how_far_ahead_memory_may_be_asked_for(ahead: int) -> None:
    with pytest.raises(Exception, match="prefetch is a number of elements from 1 to 1048576"):
        parse(MEETING.replace(" evict_first", f" prefetch {ahead}"))
