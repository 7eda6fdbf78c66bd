"""What a run of launches hands to the CUDA driver, which is a fake here."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from cuesta.code_generation import generate
from cuesta.finishing import load_program
from cuesta.record import CompileRecord
from cuesta.targets.cpu.machine_code import load_object
from cuesta.targets.triton import driver
from tests.support.fake_cuda import FakeCuda, install
from tests.support.triton_interpreter import on_cuda, parse, to_host

pytest.importorskip("triton")

TWO = """
func.func @main(%x : tensor<64x100xf32>) -> (tensor<64xf32>, tensor<100xf32>) {
  %y = loops.nest (%i : 64) outs(%o : tensor<64xf32>) {
    %s = loops.reduce sum (%j : 100) {
      %a = loops.load %x[%i, %j] : tensor<64x100xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%i] : tensor<64xf32>
  }
  %z = loops.nest (%i : 100) outs(%o : tensor<100xf32>) {
    %s = loops.reduce maximum (%j : 64) {
      %a = loops.load %x[%j, %i] : tensor<64x100xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%i] : tensor<100xf32>
  }
  func.return %y, %z : tensor<64xf32>, tensor<100xf32>
}
"""

SYMBOLIC = """
func.func @main(%x : tensor<?xf32, #aten.layout<sizes = [s0], strides = [1]>>)
    -> tensor<?xf32, #aten.layout<sizes = [s0], strides = [1]>>
    attributes { sym.symbols = #sym.symbols<s0 in [0, inf]> } {
  %z = loops.nest (%i : s0) outs(%o : tensor<?xf32, #aten.layout<sizes = [s0], strides = [1]>>) {
    %a = loops.load %x[%i] : tensor<?xf32, #aten.layout<sizes = [s0], strides = [1]>>
    %b = elem.exp %a : f32
    loops.store %b, %o[%i] : tensor<?xf32, #aten.layout<sizes = [s0], strides = [1]>>
  }
  func.return %z : tensor<?xf32, #aten.layout<sizes = [s0], strides = [1]>>
}
"""


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    return install(monkeypatch)


def launcher(text: str) -> Callable[..., None]:
    """The only run of a program, as a function of the stream, addresses and symbols."""
    program = generate(to_host(on_cuda(parse(text))), CompileRecord(kind="inference")).program
    assert program.object_code is not None
    module = load_object(program.object_code, program.symbols)
    (run,) = driver.bind_runs(program.device_kernels, program.device_runs, module.symbols).values()
    run.module = module  # type: ignore[attr-defined]  # which must live as long
    return run


def test_a_run_is_one_call(fake: FakeCuda) -> None:
    launcher(TWO)(7, 0x1000, 0x2000, 0x3000)
    (first, numbers, values), (second, _, others) = fake.launches
    assert (first, second) == ("sum_0", "max_1")
    assert numbers[1:3] == numbers[4:6] == (1, 1)
    assert numbers[3] % driver.WARP == 0
    assert numbers[6:] == (0, 7)
    assert values == [0x1000, 0x2000, 0, 0]  # scratch memory that is not used is nowhere
    assert others == [0x1000, 0x3000, 0, 0]


def test_shared_memory_and_symbols(fake: FakeCuda) -> None:
    fake.shared = 1024
    launch = launcher(SYMBOLIC)
    launch(0, 0x1000, 0x2000, 10_000)
    launch(0, 0x1000, 0x2000, 1)
    (_, many, values), (_, one, _) = fake.launches
    assert values[:3] == [0x1000, 0x2000, 10_000]
    assert many[0] > 1 and one[0] == 1
    assert many[6] == 1024


def test_no_programs_no_launch(fake: FakeCuda) -> None:
    launcher(SYMBOLIC)(0, 0x1000, 0x2000, 0)
    assert not fake.launches


def test_a_grid_that_is_too_large_is_refused_not_cut(fake: FakeCuda) -> None:
    with pytest.raises(driver.CudaError, match="CUDA error 1: it was refused"):
        launcher(SYMBOLIC)(0, 0x1000, 0x2000, 1 << 60)
    assert not fake.launches


def test_a_pointer_that_is_not_aligned_takes_other_code(fake: FakeCuda) -> None:
    launch = launcher(TWO)
    launch(0, 0x1000, 0x2000, 0x3000)
    launch(0, 0x1004, 0x2000, 0x3000)
    launch(0, 0x1000, 0x2000, 0x3000)
    names = ["sum_0", "max_1"]
    others = [f"{name} for any pointer" for name in names]
    assert [name for name, _, _ in fake.launches] == [*names, *others, *names]
    assert [kernel for kernel, aligned in fake.compiled if not aligned] == names
    launch(0, 0x1008, 0x2000, 0x3000)
    assert len(fake.compiled) == 4, "made once"


def test_our_own_memory_is_not_looked_at(fake: FakeCuda) -> None:
    """What is allocated is aligned; only what comes from outside can be anything."""
    launch = launcher(TWO)
    launch(0, 0x1000, 0x2004, 0x3004)
    assert [name for name, _, _ in fake.launches] == ["sum_0", "max_1"]


def test_a_thread_without_a_context_gets_one(fake: FakeCuda) -> None:
    fake.errors = [0, 201]
    launcher(TWO)(0, 0x1000, 0x2000, 0x3000)
    assert fake.contexts == 1
    assert [name for name, _, _ in fake.launches] == ["sum_0", "max_1", "max_1"], "it goes on where it stopped"


@pytest.mark.parametrize("errors", [[700], [201, 201], [0, 700]])
def test_an_error_is_raised_in_the_drivers_words(fake: FakeCuda, errors: list[int]) -> None:
    fake.errors = list(errors)
    which = "max_1" if errors[0] == 0 else "sum_0"
    with pytest.raises(driver.CudaError, match=rf"CUDA error {errors[-1]}: it was refused \(launching {which}\)"):
        launcher(TWO)(0, 0x1000, 0x2000, 0x3000)


def test_no_memory_left_is_torchs_error(fake: FakeCuda) -> None:
    with pytest.raises(torch.cuda.OutOfMemoryError, match="CUDA error 2"):
        driver.check(2, "loading sum_0")


def test_an_old_driver_is_named(fake: FakeCuda) -> None:
    with pytest.raises(driver.CudaError, match=r"the driver is for CUDA 11\.4") as caught:
        driver.check(222)
    assert caught.value.code == 222


def test_threads_do_not_mix_their_arguments(fake: FakeCuda) -> None:
    launch = launcher(SYMBOLIC)
    threads = [
        threading.Thread(target=lambda k=k: [launch(0, 0x1000 * k, 0x1000 * k, k) for _ in range(200)])
        for k in range(1, 5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fake.launches) == 800
    assert all(values[:2] == [0x1000 * values[2], 0x1000 * values[2]] for _, _, values in fake.launches)


def test_another_device_is_made_the_present_one(fake: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[int] = []

    class Device:
        def __init__(self, device: int) -> None:
            self.device = device

        def __enter__(self) -> None:
            entered.append(self.device)

        def __exit__(self, *rest: Any) -> None:
            entered.append(-1)

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "device", Device)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    launch = launcher(TWO)  # of cuda:0
    launch(0, 0x1000, 0x2000, 0x3000)
    assert entered == [0, -1]
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    launch(0, 0x1000, 0x2000, 0x3000)
    assert entered == [0, -1]
    assert len(fake.launches) == 4


def test_a_program_from_the_disk_launches_too(fake: FakeCuda) -> None:
    record = CompileRecord(kind="inference")
    program = generate(to_host(on_cuda(parse(TWO))), record).program
    x = torch.randn(64, 100)
    y, z = load_program(program, record)([x])
    given = [values[:2] for _, _, values in fake.launches]
    assert given == [[x.data_ptr(), y.data_ptr()], [x.data_ptr(), z.data_ptr()]]
    assert record.kernels == 2
