"""The wrapper's native calls: how many, and with how many arguments."""

from __future__ import annotations

import ctypes

import pytest
import torch
from torch import Tensor

from cuesta.targets.host import wrapper
from tests.support.triton_interpreter import parse


def test_ctypes_takes_what_a_native_call_may_be_given() -> None:
    pointers = [ctypes.c_void_p] * wrapper.MOST_PARAMETERS
    call = ctypes.CFUNCTYPE(ctypes.c_int64, *pointers)(lambda *given: sum(map(int, given)))
    assert call(*range(1, len(pointers) + 1)) == sum(range(len(pointers) + 1))


def test_a_run_of_kernels_with_many_buffers_is_several_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(*tensors: Tensor) -> list[Tensor]:
        return [tensor * 2 + 1 for tensor in tensors]

    pointers: list[int] = []
    original = wrapper.WrapperWriter.write

    def write(self: wrapper.WrapperWriter) -> wrapper.Wrapper:
        result = original(self)
        pointers.extend(run.pointers for run in result.runs)
        return result

    monkeypatch.setattr(wrapper, "MOST_PARAMETERS", 5)
    monkeypatch.setattr(wrapper.WrapperWriter, "write", write)
    inputs = [torch.randn(size) for size in range(2, 9)]
    compiled = torch.compile(function, backend="cuesta", options={"cache": False}, dynamic=False)
    for result, expected in zip(compiled(*inputs), function(*inputs), strict=True):
        torch.testing.assert_close(result, expected)
    assert pointers == [4, 4, 4, 2]


BOTH_DEVICES = """
kernel.func @here(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [20]> {
  %i = kernel.program_id 0
  %a = kernel.load %x[%i] : f32
  kernel.store %a, %o[%i] : f32
}
kernel.func @there(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = [20], target = cuda, warps = 1, index = 32> {
  %i = kernel.program_id 0
  %a = kernel.load %x[%i] : f32
  kernel.store %a, %o[%i] : f32
}
host.func @main(%x : tensor<20xf32>, %y : tensor<24xf32, #cuda>, %z : tensor<20xf32, #other>)
    -> (tensor<20xf32>, tensor<20xf32, #cuda>, tensor<20xf32, #other>) {
  %a = host.alloc : tensor<20xf32>
  host.launch @here(%x, %a) : tensor<20xf32>, tensor<20xf32>
  %v = host.reinterpret %y offset 1 : tensor<24xf32, #cuda> to tensor<20xf32, #cuda>
  %m = host.alloc : tensor<24xf32, #cuda>
  %w = host.reinterpret %m offset 4 : tensor<24xf32, #cuda> to tensor<20xf32, #cuda>
  host.launch @there(%v, %w) : tensor<20xf32, #cuda>, tensor<20xf32, #cuda>
  %u = host.reinterpret %m offset 2 : tensor<24xf32, #cuda> to tensor<20xf32, #cuda>
  %b = host.alloc : tensor<20xf32, #cuda>
  host.launch @there(%u, %b) : tensor<20xf32, #cuda>, tensor<20xf32, #cuda>
  host.free %m : tensor<24xf32, #cuda>
  %c = host.alloc : tensor<20xf32, #other>
  host.launch @there(%z, %c) : tensor<20xf32, #other>, tensor<20xf32, #other>
  host.return %a, %b, %c : tensor<20xf32>, tensor<20xf32, #cuda>, tensor<20xf32, #other>
}
"""


def written(text: str, **options: object) -> wrapper.Wrapper:
    for name, device in (("#cuda", "cuda:0"), ("#other", "cuda:1")):
        text = text.replace(name, f'#aten.layout<device = "{device}">')
    return wrapper.WrapperWriter(parse(text), **options).write()  # type: ignore[arg-type]


LARGE_AND_SMALL = """
kernel.func @copy(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [2097152]> {
  %i = kernel.program_id 0
  %a = kernel.load %x[%i] : f32
  kernel.store %a, %o[%i] : f32
}
host.func @main(%x : tensor<2097152xf32>) -> (tensor<2097152xf32>) {
  %a = host.alloc : tensor<2097152xf32>
  host.launch @copy(%x, %a) : tensor<2097152xf32>, tensor<2097152xf32>
  host.free %x : tensor<2097152xf32>
  %b = host.alloc : tensor<2097152xf32>
  host.launch @copy(%a, %b) : tensor<2097152xf32>, tensor<2097152xf32>
  host.return %b : tensor<2097152xf32>
}
"""


def test_a_run_ends_where_much_memory_is_freed_before_as_much_is_needed() -> None:
    large = written(LARGE_AND_SMALL)
    assert [len(run.launches) for run in large.runs] == [1]
    assert large.source.count("run_0(") == 2  # one native function does for both
    assert large.source.index("del x") < large.source.index("b = empty_cpu")
    on_gpu = LARGE_AND_SMALL.replace("xf32>", "xf32, #cuda>").replace(
        "[2097152]>", "[2097152], target = cuda, warps = 1, index = 32>"
    )
    assert [len(run.launches) for run in written(on_gpu).runs] == [2]
    small = written(LARGE_AND_SMALL.replace("2097152", "1024"))
    assert [len(run.launches) for run in small.runs] == [2]


def test_runs_are_one_native_function_only_when_they_launch_the_same() -> None:
    second = "  host.launch @copy(%a, %b) : tensor<2097152xf32>, tensor<2097152xf32>\n"
    result = written(LARGE_AND_SMALL.replace(second, second * 2))
    assert [len(run.launches) for run in result.runs] == [1, 2]
    assert "run_0(x.data_ptr(), a.data_ptr())" in result.source
    assert "run_1(a.data_ptr(), b.data_ptr())" in result.source


def test_a_run_is_on_one_device() -> None:
    result = written(BOTH_DEVICES)
    assert [(run.name, run.device, [launch.kernel for launch in run.launches]) for run in result.runs] == [
        ("run_0", "cpu", ["here"]),
        ("run_1", "cuda:0", ["there", "there"]),
        ("run_2", "cuda:1", ["there"]),
    ]
    assert {target.name: [run.name for run in runs] for target, runs in result.runs_by_target().items()} == {
        "cpu": ["run_0"],
        "triton": ["run_1", "run_2"],
    }
    assert "stream = current_stream(0)" in result.source and "stream_1 = current_stream(1)" in result.source
    assert "m = empty_cuda_0((24,), (1,), torch.float32)" in result.source
    assert "c = empty_cuda_1((20,), (1,), torch.float32)" in result.source
    lines = [line.strip() for line in result.source.splitlines()]
    assert lines.index("run_1(stream, y.data_ptr(), m.data_ptr(), b.data_ptr())  # there, there") + 1 == lines.index(
        "del m"
    )


def test_an_address_within_memory_costs_no_argument_and_its_bits_are_looked_at_where_they_may_be_odd() -> None:
    first, second = written(BOTH_DEVICES).runs[1].launches
    assert first.pointers == ((0, 4), (1, 16)) and first.unaligned == ((0, 4),)
    assert second.pointers == ((1, 8), (2, 0)) and second.unaligned == ((1, 8),)


SIZES = """
host.func @main(%x : tensor<?x?xf32, #aten.layout<sizes = [s0 * 2 + 3, s1 * s0]>>, %n : !sym.int<s1>)
    -> (tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>)
    attributes {sym.symbols = #sym.symbols<s0 in [0, 64], s1 in [0, 64]>} {
  %a = host.alloc : tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>
  host.return %a : tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>
}
"""


def test_a_symbol_that_is_no_size_is_found_from_one_that_is_linear_in_it() -> None:
    lines = [line.strip() for line in written(SIZES).source.splitlines()]
    assert lines.index("s0 = (x.size(0) - 3) // 2") < lines.index("a = empty_cpu((s0, s1), (s1, 1), torch.float32)")
    assert "s1 = n" in lines


def test_kernels_without_code_are_given_tensors() -> None:
    result = written(BOTH_DEVICES, in_eager=["there"])
    assert [run.name for run in result.runs] == ["run_0"]
    assert result.in_eager == {"eager_there": "there"}
    assert "eager_there(v, w)" in result.source and "v = reinterpret(y, (20,), (1,), 1)" in result.source
    assert result.launches == 1
