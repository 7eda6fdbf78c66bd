"""Programs that meet, as Triton kernels: in every order of events, and when some do not wait for the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from cuesta.dialects import host, kernel
from cuesta.targets.triton import emit_meet
from cuesta.targets.triton.compilation import amd_assembly
from cuesta.targets.triton.emit_module import emit_module
from cuesta.testing import assert_close_to_float64
from tests.support.tensors import special_rows
from tests.support.triton_interpreter import ask, check, interpreted_cuda, on_cuda, parse, run, to_host
from tests.support.triton_kernels import (
    assert_compiles,
    kernels_of,
    rms_norm,
    split_whatever_the_sizes,
    texts_of,
)

pytest.importorskip("triton")

slow = pytest.mark.slow  # the interpreter takes seconds for a kernel

SOFTMAX = """
func.func @main(%x : tensor<3x101xf32>) -> (tensor<3x101xf32>, tensor<3xf32>) {
  %y, %z = loops.nest (%i : 3) outs(%o : tensor<3x101xf32>, %l : tensor<3xf32>) SCHEDULE {
    %m = loops.reduce maximum (%j : 101) {
      %a = loops.load %x[%i, %j] : tensor<3x101xf32>
      loops.yield %a : f32
    } : f32
    %s = loops.reduce sum (%j : 101) {
      %a = loops.load %x[%i, %j] : tensor<3x101xf32>
      %b = elem.sub %a, %m : f32
      %c = elem.exp %b : f32
      loops.yield %c : f32
    } : f32
    loops.store %s, %l[%i] : tensor<3xf32>
    loops.for (%j : 101) {
      %a = loops.load %x[%i, %j] : tensor<3x101xf32>
      %b = elem.sub %a, %m : f32
      %c = elem.exp %b : f32
      %d = elem.div %c, %s : f32
      loops.store %d, %o[%i, %j] : tensor<3x101xf32>
    }
  }
  func.return %y, %z : tensor<3x101xf32>, tensor<3xf32>
}""".replace("SCHEDULE", "schedule #loops.schedule<part = 32, cooperative = 1>")


@pytest.fixture
def meetings() -> Iterator[Callable[[int | None, int], None]]:
    """Says how programs that meet run: the order of events (None: one after the other), and how long one waits."""
    yield lambda seed, patience: ask("meet", seed, patience)
    ask("meet", 0, emit_meet.PATIENCE)


@slow
def test_every_order_of_events_gives_the_same(meetings: Callable[[int | None, int], None]) -> None:
    """Nobody may have to wait for a program that has not begun: with no patience, one after the other will do."""
    x = torch.randn(3, 101) * 10
    x[1, :40] = -torch.inf
    expected = x.softmax(-1), (x - x.amax(-1, keepdim=True)).exp().sum(-1)
    program = on_cuda(parse(SOFTMAX))
    for seed, patience in ((0, emit_meet.PATIENCE), (None, 0), (None, 2), *((seed, seed % 4) for seed in range(1, 12))):
        meetings(seed, patience)
        for actual, wanted in zip(run(program, [x]), expected, strict=True):
            torch.testing.assert_close(actual, wanted)


IN_TURNS = SOFTMAX.replace("cooperative = 1", "cooperative = 1, ahead = AHEAD")


@slow
@pytest.mark.parametrize("ahead", [1, 5, 100])
def test_turns_in_every_order_of_events(ahead: int, meetings: Callable[[int | None, int], None]) -> None:
    """Also one after the other: nobody waits for a program that begins later. Fewer parts ahead than a row has, more
    than there are.
    """
    x = torch.randn(3, 101) * 10
    x[1, :40] = -torch.inf
    expected = x.softmax(-1), (x - x.amax(-1, keepdim=True)).exp().sum(-1)
    program = on_cuda(parse(IN_TURNS.replace("AHEAD", str(ahead))))
    for seed in (None, *range(8)):
        meetings(seed, 0)
        for actual, wanted in zip(run(program, [x]), expected, strict=True):
            torch.testing.assert_close(actual, wanted)


def test_turns_are_emitted() -> None:
    zeros, softmax = kernels_of(on_cuda(parse(IN_TURNS.replace("AHEAD", "5"))))
    texts = emit_module([zeros, softmax])
    source = texts[softmax.sym_name].source
    assert "functions.turn(count + 3, 12, 5)" in source and softmax.launched == 24
    reads, finishes = source.split("else:")
    assert reads.index("tl.debug_barrier()") < reads.index("functions.arrive(")
    assert finishes.index("functions.wait(") < finishes.index("tl.load(x")
    assert 'eviction_policy="evict_last"' in reads and 'eviction_policy="evict_first"' in finishes
    assert_compiles(texts.values())


def test_an_argument_may_be_called_as_the_turn_is() -> None:
    """It was `reads` whatever the arguments were called: the address was a condition then."""
    _, softmax = kernels_of(on_cuda(parse(IN_TURNS.replace("AHEAD", "5").replace("%x", "%reads"))))
    source = emit_module([softmax])[softmax.sym_name].source
    assert "(reads, " in source and "reads_1, number = functions.turn(" in source and "if reads_1:" in source


def test_what_is_emitted() -> None:
    zeros, softmax = kernels_of(on_cuda(parse(SOFTMAX)))
    texts = emit_module([zeros, softmax])
    source = texts[softmax.sym_name].source
    assert source.count("tl.load(x") == 2, "a part is read once, and once by who stands in for a program that left"
    assert source.index("tl.debug_barrier()") < source.index("functions.meet(")
    assert_compiles(texts.values())


@slow
def test_nothing_assumes_nvidia() -> None:
    texts = texts_of(on_cuda(parse(SOFTMAX)))
    assert texts
    for text in texts:
        assert "s_endpgm" in amd_assembly(text, "gfx942")


@slow
def test_what_the_text_means() -> None:
    check(parse(SOFTMAX))
    check(parse(IN_TURNS.replace("AHEAD", "2")))


def batch_norm(x: Tensor) -> tuple[Tensor, ...]:
    return torch.ops.aten.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)


FORWARD: dict[str, tuple[Callable[..., object], tuple[tuple[int, ...], ...]]] = {
    "softmax": (lambda x: x.softmax(-1), ((3, 100),)),
    "log-softmax": (lambda x: x.log_softmax(-1), ((3, 97),)),
    "layer norm": (lambda x, w, b: F.layer_norm(x + 5, (100,), w, b), ((3, 100), (100,), (100,))),
    "RMS norm": (rms_norm, ((3, 96), (96,))),
    "group norm": (lambda x: F.group_norm(x, 2), ((3, 6, 5, 7),)),
    "batch norm": (lambda x: F.batch_norm(x, None, None, training=True), ((9, 3, 7, 10),)),
    "batch norm with its statistics": (batch_norm, ((5, 3, 8, 8),)),
    "instance norm": (F.instance_norm, ((2, 3, 8, 9),)),
    "one row": (lambda x: x.softmax(-1), ((1, 100),)),
}


@pytest.fixture
def cooperative(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets programs meet wherever they can, whatever the sizes."""
    split_whatever_the_sizes(monkeypatch, meet=True)
    monkeypatch.setattr("cuesta.transforms.reductions.gpu_cost.of_meeting", lambda *_: 0.0)


@slow
@pytest.mark.usefixtures("cooperative")
@pytest.mark.parametrize("name", FORWARD)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("turns", [False, True])
@pytest.mark.covering(2)
def test_rows_that_programs_share(name: str, dtype: torch.dtype, turns: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if turns:
        monkeypatch.setattr("cuesta.transforms.reductions.gpu_cost.of_turns", lambda *_: -1.0)
        monkeypatch.setattr("cuesta.transforms.reductions.gpu_cost.TURN", 16)
        monkeypatch.setattr("cuesta.transforms.reductions.gpu_cost.LONG_TURN", 16)
        monkeypatch.setattr("cuesta.transforms.reductions.gpu_cost.LAG", 256)
    function, sizes = FORWARD[name]
    inputs = [torch.randn(size).to(dtype) for size in sizes]
    with interpreted_cuda() as programs:
        assert_close_to_float64(torch.compile(function, backend="cuesta", fullgraph=True), function, inputs)
    found = kernels_of(programs[0])
    assert any(isinstance(op, kernel.MeetOp) for func in found for op in func.body.ops)
    assert any("ahead" in func.schedule.choices for func in found) == turns
    assert_compiles(emit_module(found).values())


@slow
@pytest.mark.usefixtures("cooperative")
def test_infinities() -> None:
    x = special_rows(6, 100)
    with interpreted_cuda() as programs:
        actual = torch.compile(lambda x: x.softmax(-1), backend="cuesta", fullgraph=True)(x)
    assert any(isinstance(op, kernel.MeetOp) for func in kernels_of(programs[0]) for op in func.body.ops)
    torch.testing.assert_close(actual, x.softmax(-1), equal_nan=True)


@slow
@pytest.mark.usefixtures("cooperative")
def test_over_their_input(meetings: Callable[[int | None, int], None]) -> None:
    """A part that was left is read again: nobody may have written over it."""
    a, b = torch.randn(3, 8), torch.randn(8, 96)
    with interpreted_cuda() as programs:
        compiled = torch.compile(lambda a, b: (a @ b).softmax(-1), backend="cuesta", fullgraph=True)
        for seed, patience in ((None, 0), (3, 1), (4, 2)):
            meetings(seed, patience)
            torch.testing.assert_close(compiled(a, b), (a @ b).softmax(-1))
    host_level = to_host(programs[0])
    (launch,) = (op for op in host_level.walk() if isinstance(op, host.LaunchOp) and "softmax" in op.kernel)
    assert len(set(launch.operands)) < len(launch.operands), "one buffer is an input and an out"
