"""What a launch hands to the CUDA driver, which is a fake here."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import pytest

from cuesta.targets.program import DeviceKernel, KernelText, MachineCode
from cuesta.targets.triton import driver

SIGNATURE = (("x", "*fp32"), ("y", "*fp32"), ("s0", "i64"))
TEXT = KernelText("copy_0", "", SIGNATURE, 8, False)
CODE = MachineCode("copy_0", b"code", 1024, 8, 5)
KERNEL = DeviceKernel("launch_copy_0", 0, TEXT, CODE)


class FakeDriver:
    """Records launches; refuses those for which it was given errors."""

    def __init__(self) -> None:
        self.launches: list[Any] = []
        self.errors: list[int] = []
        self.contexts = 0

    def cuLaunchKernel(self, function: int, *rest: Any) -> int:
        *numbers, parameters, extra = rest
        assert extra is None
        values = [ctypes.c_uint64.from_address(parameters[k]).value for k in range(CODE.parameters)]
        self.launches.append((function, tuple(numbers), values))
        return self.errors.pop(0) if self.errors else 0

    def cuDevicePrimaryCtxRetain(self, context: Any, device: int) -> int:
        self.contexts += 1
        return 0

    def cuCtxSetCurrent(self, context: Any) -> int:
        return 0

    def cuGetErrorString(self, error: int, text: Any) -> int:
        text._obj.value = b"it was refused"
        return 0


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    import torch

    found = FakeDriver()
    monkeypatch.setattr(driver, "driver", lambda: found)
    monkeypatch.setattr(driver, "load_function", lambda code, device: 4711 if code is CODE else 4712)
    monkeypatch.setattr(driver, "architecture_of", lambda device: 90)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    return found


def test_a_launch(fake: FakeDriver) -> None:
    driver.launcher(KERNEL, CODE)(100, 7, 0x1000, 0x2000, 12)
    ((function, numbers, values),) = fake.launches
    assert function == 4711
    assert numbers == (100, 1, 1, 8 * 32, 1, 1, 1024, 7)
    assert values == [0x1000, 0x2000, 12, 0, 0]  # scratch memory that is not used is nowhere


def test_no_programs_no_launch(fake: FakeDriver) -> None:
    driver.launcher(KERNEL, CODE)(0, 7, 0x1000, 0x2000, 12)
    assert not fake.launches


def test_a_pointer_that_is_not_aligned_takes_other_code(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[bool] = []

    def compile_kernel(text: KernelText, architecture: int, *, aligned: bool) -> MachineCode:
        compiled.append(aligned)
        return MachineCode("copy_0", b"other", 0, 8, 5)

    monkeypatch.setattr(driver, "compile_kernel", compile_kernel)
    launch = driver.launcher(KERNEL, CODE)
    launch(1, 0, 0x1000, 0x2004, 12)
    launch(1, 0, 0x1004, 0x2000, 12)
    launch(1, 0, 0x1000, 0x2000, 13)  # the symbol is no pointer
    assert [function for function, _, _ in fake.launches] == [4712, 4712, 4711]
    assert compiled == [False], "made once"


def test_a_thread_without_a_context_gets_one(fake: FakeDriver) -> None:
    fake.errors = [201]
    driver.launcher(KERNEL, CODE)(1, 0, 0x1000, 0x2000, 12)
    assert fake.contexts == 1
    assert len(fake.launches) == 2


@pytest.mark.parametrize("errors", [[700], [201, 201]])
def test_an_error_is_raised_in_the_drivers_words(fake: FakeDriver, errors: list[int]) -> None:
    fake.errors = errors
    with pytest.raises(driver.CudaError, match="it was refused"):
        driver.launcher(KERNEL, CODE)(1, 0, 0x1000, 0x2000, 12)


def test_threads_do_not_mix_their_arguments(fake: FakeDriver) -> None:
    launch = driver.launcher(KERNEL, CODE)
    threads = [
        threading.Thread(target=lambda k=k: [launch(1, 0, 0x1000 * k, 0x1000 * k, k) for _ in range(200)])
        for k in range(1, 5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fake.launches) == 800
    assert all(values[:3] == [0x1000 * values[2], 0x1000 * values[2], values[2]] for _, _, values in fake.launches)
