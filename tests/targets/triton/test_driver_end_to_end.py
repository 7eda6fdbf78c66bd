"""A program for a CUDA device through the whole compiler to its launches, with a device that only takes notes."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest
import torch

from cuesta.caching.device_numbers import on_devices
from cuesta.compiler import compile_graph, compile_module
from cuesta.dump import Dump
from cuesta.options import Options
from cuesta.record import CompileRecord
from cuesta.targets.program import Program
from cuesta.targets.triton import driver, target
from tests.cuesta.test_devices import doubled
from tests.support.fake_cuda import FakeCuda, install
from tests.support.triton_interpreter import on_cuda, parse

pytest.importorskip("triton")

PROGRAM = """
func.func @main(%x : tensor<64x100xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %y = loops.nest (%i : 64) outs(%o : tensor<64xf32>) {
    %s = loops.reduce sum (%j : 100) {
      %a = loops.load %x[%i, %j] : tensor<64x100xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%i] : tensor<64xf32>
  }
  %z, %k = loops.extern "aten.sort.default"(%y) : (tensor<64xf32>) -> (tensor<64xf32>, tensor<64xi64>)
  %w = loops.nest (%i : 64) outs(%o : tensor<64xf32>) {
    %a = loops.load %z[%i] : tensor<64xf32>
    %b = elem.exp %a : f32
    loops.store %b, %o[%i] : tensor<64xf32>
  }
  func.return %y, %w : tensor<64xf32>, tensor<64xf32>
}
"""

IN_AN_ARENA = """
host.func @main(%x : tensor<20xf32>) -> (tensor<20xf32>) {
  %arena = host.alloc : tensor<256xui8>
  %a = host.place %arena at 0 : tensor<256xui8> to tensor<20xf32>
  host.launch @twice(%x, %a) : tensor<20xf32>, tensor<20xf32>
  %b = host.place %arena at 128 : tensor<256xui8> to tensor<20xf32>
  host.launch @back(%a, %b) : tensor<20xf32>, tensor<20xf32>
  %c = host.alloc : tensor<20xf32>
  host.launch @twice(%b, %c) : tensor<20xf32>, tensor<20xf32>
  host.free %arena : tensor<256xui8>
  host.return %c : tensor<20xf32>
}
kernel.func @twice(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = [20], target = cuda, warps = 1, index = 32> {
  %i = kernel.program_id 0
  %a = kernel.load %x[%i] : f32
  %b = elem.add %a, %a : f32
  kernel.store %b, %o[%i] : f32
}
kernel.func @back(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = [20], target = cuda, warps = 1, index = 32> {
  %i = kernel.program_id 0
  %a = kernel.load %x[19 - %i] : f32
  kernel.store %a, %o[%i] : f32
}
"""


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    return install(monkeypatch)


def test_the_wrapper_launches_what_was_compiled(fake: FakeCuda, tmp_path: Path) -> None:
    record = CompileRecord(kind="inference")
    dump = Dump.create(str(tmp_path), "inference")
    kept: list[Program] = []
    function = compile_module(on_cuda(parse(PROGRAM)), Options(), record, dump, kept.append)
    x = torch.randn(64, 100)
    y, w = function([x])
    (first, numbers, values), (second, _, others) = fake.launches
    assert (first, second) == ("sum_0", "exp_1")
    assert numbers[0] == 64 and numbers[-1] == 77
    assert values == [x.data_ptr(), y.data_ptr(), 0, 0]
    assert others[1] == w.data_ptr()
    assert record.kernels == 2 and record.library_calls == 1
    assert len(kept) == 1 and len(kept[0].device_runs) == 2
    text = (dump.folder / "kernels.py").read_text()
    assert "def sum_0(" in text and "def exp_1(" in text
    assert "current_stream(0)" in (dump.folder / "wrapper.py").read_text()
    assert "cuesta.launch_kernel" in (dump.folder / "kernels.ll").read_text()


@pytest.mark.parametrize("without_code", [("sum_0",), ("exp_1",), ("sum_0", "exp_1")])
def test_a_kernel_that_cannot_be_compiled_runs_in_eager(fake: FakeCuda, without_code: tuple[str, ...]) -> None:
    fake.cannot_compile = without_code
    kept: list[Program] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function = compile_module(
            on_cuda(parse(PROGRAM)), Options(), CompileRecord(kind="inference"), None, kept.append
        )
    x = torch.randn(64, 100)
    y, w = function([x])
    assert [name for name, _, _ in fake.launches] == [name for name in ("sum_0", "exp_1") if name not in without_code]
    if "sum_0" in without_code:
        assert torch.allclose(y, x.sum(1), atol=1e-5)
        if "exp_1" in without_code:
            assert torch.allclose(w, x.sum(1).sort().values.exp(), rtol=1e-4)
    assert not kept, "what did not compile is tried again by the next process"
    assert len(caught) == len(without_code)
    for name, warning in zip(without_code, caught, strict=True):
        message = str(warning.message)
        assert f"the kernel {name} " in message and f"no code for {name}" in message and "and more" not in message
        path = Path(message.rpartition(": ")[2])
        assert f"kernel.func @{name}" in path.read_text()
        assert f"def {name}(" in path.with_suffix(".py").read_text()
        assert "and more about it" in path.with_name("error.txt").read_text()


def test_a_kernel_whose_shared_memory_is_too_much_runs_in_eager(fake: FakeCuda) -> None:
    fake.shared = (1 << 17) + 1
    with pytest.warns(UserWarning, match="131073 bytes of shared memory, and the device has 131072") as caught:
        function = compile_module(on_cuda(parse(PROGRAM)), Options(), CompileRecord(kind="inference"))
    assert len(caught) == 2
    x = torch.randn(64, 100)
    assert torch.allclose(function([x])[0], x.sum(1), atol=1e-5)
    assert not fake.launches


@pytest.mark.parametrize("without_code", [("twice",), ("back",), ("back", "twice")])
def test_in_eager_in_an_arena(fake: FakeCuda, without_code: tuple[str, ...]) -> None:
    """The tensors that stand-ins are given lie where launches around them read and write."""
    text = IN_AN_ARENA.replace("tensor<20xf32>", 'tensor<20xf32, #aten.layout<device = "cuda:0">>')
    text = text.replace("tensor<256xui8>", 'tensor<256xui8, #aten.layout<device = "cuda:0">>')
    fake.cannot_compile = without_code
    with pytest.warns(UserWarning, match="cannot be compiled and runs in eager"):
        function = compile_module(parse(text), Options(), CompileRecord(kind="inference"))
    x = torch.randn(20)
    (z,) = function([x])
    launched = [name for name, _, _ in fake.launches]
    assert launched == [name for name in ("twice", "back", "twice") if name not in without_code]
    if not launched:
        assert torch.equal(z, x.flip(0) * 4)
    elif launched == ["back"]:
        ((_, _, (source, target, *_)),) = fake.launches
        assert target - source == 128


@pytest.mark.parametrize("text", [PROGRAM, IN_AN_ARENA], ids=["program", "arena"])
def test_a_program_for_one_device_is_that_for_another_but_for_its_number(fake: FakeCuda, text: str) -> None:
    kept: list[Program] = []
    for number in (1, 3):
        on_device = re.sub(r"xf32>|xui8>|xi64>", rf'\g<0>, #aten.layout<device = "cuda:{number}">>', text)
        on_device = on_device.replace(">, #", ", #")
        compile_module(parse(on_device), Options(), CompileRecord(kind="inference"), None, kept.append)([randn()])
    one, other = kept
    assert "cuda_1" in one.source and [run.device for run in one.device_runs] == [1] * len(one.device_runs)
    assert one != other and on_devices(one, (1,), (3,)) == other


def randn() -> torch.Tensor:
    return torch.randn(64, 100)


def test_processes_on_different_devices_share_a_program(
    fake: FakeCuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUESTA_CACHE", "1")
    monkeypatch.setenv("CUESTA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(target, "_key_lines", lambda: ())
    streams: list[int] = []
    monkeypatch.setattr(driver, "current_stream", lambda device: streams.append(device) or 70 + device)
    for number, again in ((1, False), (0, True), (1, True)):
        record = CompileRecord(kind="inference")
        compile_graph(doubled(f"cuda:{number}"), record, Options())([torch.ones(4)])
        assert record.from_cache == again and streams.pop() == number
        assert fake.launches[-1][1][-1] == 70 + number
    assert [name for name, _ in fake.compiled] == ["add_0"]
