"""Scratch memory: which buffers have it, and that the others get their memory when it is needed."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from cuesta.targets.cpu.target import CpuTarget
from cuesta.targets.host import wrapper
from tests.support.triton_interpreter import parse

COPY = """
kernel.func @copy(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [20]> {
  %i = kernel.program_id 0
  %a = kernel.load %x[%i] : f32
  kernel.store %a, %o[%i] : f32
}
"""
T = "tensor<20xf32>"
ONE_RUN = f"""
host.func @main(%x : {T}) -> ({T}) {{
  %a = host.alloc : {T}
  %b = host.alloc : {T}
  host.launch @copy(%x, %a) : {T}, {T}
  host.launch @copy(%a, %b) : {T}, {T}
  host.free %a : {T}
  host.return %b : {T}
}}
"""
TWO_RUNS = f"""
host.func @main(%x : {T}) -> ({T}, {T}) {{
  %a = host.alloc : {T}
  %c = host.alloc : {T}
  host.launch @copy(%x, %a) : {T}, {T}
  host.launch @copy(%x, %c) : {T}, {T}
  %y = host.extern "aten.relu.default"(%x) : ({T}) -> ({T})
  %b = host.alloc : {T}
  host.launch @copy(%a, %b) : {T}, {T}
  host.free %a : {T}
  host.return %b, %y : {T}, {T}
}}
"""
ARENA = f"""
host.func @main(%x : {T}) -> ({T}) {{
  %m = host.alloc : tensor<192xui8>
  %a = host.place %m at 0 : tensor<192xui8> to {T}
  %c = host.place %m at 96 : tensor<192xui8> to {T}
  %b = host.alloc : {T}
  host.launch @copy(%x, %a) : {T}, {T}
  host.launch @copy(%a, %c) : {T}, {T}
  host.launch @copy(%c, %b) : {T}, {T}
  host.free %m : tensor<192xui8>
  host.return %b : {T}
}}
"""


def written(text: str, *, checked: bool = False) -> wrapper.Wrapper:
    return wrapper.WrapperWriter(parse(COPY + text), checked=checked).write()


def lines_of(text: str) -> list[str]:
    return [line.strip() for line in written(text).source.splitlines()]


def test_a_buffer_of_one_run_is_no_tensor() -> None:
    (run,) = written(ONE_RUN).runs
    assert run.scratch == (80,) and run.pointers == 2
    assert [launch.pointers for launch in run.launches] == [((0, 0), (2, 0)), ((2, 0), (1, 0))]
    lines = lines_of(ONE_RUN)
    assert "run_0(x.data_ptr(), b.data_ptr())" in lines[-2]
    assert not any(line.startswith(("a = ", "del")) for line in lines)


def test_a_buffer_of_two_runs_gets_its_memory_before_the_first_and_a_buffer_of_one_does_not() -> None:
    lines = lines_of(TWO_RUNS)
    allocation = lines.index("a = empty_cpu((20,), (1,), torch.float32)")
    assert lines[allocation + 1].endswith("run_0(x.data_ptr(), a.data_ptr()): raise_index_error(error)  # copy, copy")
    assert "del a" in lines and not any(line.startswith("c = ") for line in lines)
    assert [run.scratch for run in written(TWO_RUNS).runs] == [(80,), ()]


def test_an_arena_that_is_small() -> None:
    (run,) = written(ARENA).runs
    assert run.scratch == (192,) and run.pointers == 2
    assert [launch.pointers for launch in run.launches] == [((0, 0), (2, 0)), ((2, 0), (2, 96)), ((2, 96), (1, 0))]


def test_what_is_too_large_is_a_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CpuTarget, "scratch", 79)
    assert [run.scratch for run in written(ONE_RUN).runs] == [()]
    assert "a = empty_cpu((20,), (1,), torch.float32)" in lines_of(ONE_RUN)


def test_no_run_has_more_than_it_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    text = ONE_RUN.replace(
        "  host.return", f"  %d = host.alloc : {T}\n  host.launch @copy(%x, %d) : {T}, {T}\n  host.return"
    )
    assert [run.scratch for run in written(text).runs] == [(80, 80)]
    monkeypatch.setattr(CpuTarget, "scratch", 100)
    assert [run.scratch for run in written(text).runs] == [(80,)]
    assert "d = empty_cpu((20,), (1,), torch.float32)" in lines_of(text)


def test_a_buffer_that_nobody_uses() -> None:
    text = ONE_RUN.replace("  host.return", f"  %d = host.alloc : {T}\n  host.free %d : {T}\n  host.return")
    assert [run.scratch for run in written(text).runs] == [(80,)]
    assert not any("del d" in line or line.startswith("d = ") for line in lines_of(text))


def test_a_buffer_that_goes_after_its_run() -> None:
    call = f'  %y = host.extern "aten.relu.default"(%x) : ({T}) -> {T}\n'
    text = ONE_RUN.replace("  host.free %a : ", f"{call}  host.free %a, %b : {T}, ")
    text = text.replace(f"host.return %b : {T}", f"host.return %y : {T}")
    assert [run.scratch for run in written(text).runs] == [(80, 80)]
    assert not any(line.startswith(("a = ", "b = ", "del")) for line in lines_of(text))


def test_where_a_text_is_not_believed_every_buffer_is_a_tensor() -> None:
    assert [run.scratch for run in written(ONE_RUN, checked=True).runs] == [()]


def test_on_a_gpu_every_buffer_is_a_tensor() -> None:
    gpu = '#aten.layout<device = "cuda:0">'
    text = (COPY + ONE_RUN).replace("tensor<20xf32>", f"tensor<20xf32, {gpu}>")
    text = text.replace("[20]>", "[20], target = cuda, warps = 1, index = 32>")
    result = wrapper.WrapperWriter(parse(text)).write()
    assert [run.scratch for run in result.runs] == [()] and "a = empty_cuda" in result.source


@pytest.mark.parametrize("scratch", [4096, 8, 0])
def test_results_are_the_same(scratch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: Tensor, index: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        x.index_copy_(0, index, values)
        mean, deviation = values.mean(0), values.std(0)
        return (values - mean) / deviation, torch.softmax(x, 0).sum(1)

    monkeypatch.setattr(CpuTarget, "scratch", scratch)
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="cuesta", options={"cache": False})
    for seed in range(3):
        torch.manual_seed(seed)
        x, index, values = torch.randn(9, 5), torch.randperm(9)[:4], torch.randn(4, 5)
        mine, theirs = x.clone(), x.clone()
        for got, wanted in zip(compiled(mine, index, values), function(theirs, index, values), strict=True):
            torch.testing.assert_close(got, wanted)
        assert torch.equal(mine, theirs)
        with pytest.raises(IndexError):
            compiled(mine, index + 9, values)
        assert torch.equal(mine, theirs)
