"""A CUDA device that only takes notes: which functions were launched, on how many programs, with which arguments."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from cuesta.targets.host import runtime
from cuesta.targets.program import KernelText, MachineCode
from cuesta.targets.triton import build, driver

PARAMETERS = 8
"""How many parameters of a launch are read, those that point nowhere included."""


@dataclass
class FakeCuda:
    """Stands in for the driver. `errors` are what the next launches give; `compiled` says kernels, and if aligned."""

    launches: list[tuple[str, tuple[int, ...], list[int]]] = field(default_factory=list)
    errors: list[int] = field(default_factory=list)
    compiled: list[tuple[str, bool]] = field(default_factory=list)
    contexts: int = 0
    cannot_compile: tuple[str, ...] = ()
    shared: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    """How many parameters a kernel has in its text."""
    functions: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        pointer = ctypes.c_void_p
        prototype = ctypes.CFUNCTYPE(ctypes.c_int, pointer, *[ctypes.c_uint] * 7, pointer, pointer, pointer)
        self.callback = prototype(self._launch)

    def _launch(self, function: int, *rest: Any) -> int:
        *numbers, stream, parameters, extra = rest
        assert extra is None
        name = self.functions[function - 1]
        count = self.counts[name.partition(" ")[0]]
        places = [ctypes.c_uint64.from_address(parameters + 8 * k).value for k in range(count + 2)]
        values = [ctypes.c_uint64.from_address(place).value for place in places]
        self.launches.append((name, (*numbers, stream or 0), values))
        return self.errors.pop(0) if self.errors else 0

    def compile_kernel(self, kernel: KernelText, architecture: int, *, aligned: bool = True) -> MachineCode:
        if kernel.name in self.cannot_compile:
            raise ValueError(f"no code for {kernel.name}\nand more about it")
        self.compiled.append((kernel.name, aligned))
        self.counts[kernel.name] = len(kernel.signature)
        name = kernel.name if aligned else f"{kernel.name} for any pointer"
        return MachineCode(name, b"", self.shared, kernel.warps, len(kernel.signature) + 2)

    def load_function(self, code: MachineCode, device: int) -> int:
        self.functions.append(code.name)
        return len(self.functions)

    # What ctypes would find in the driver's library.

    def cuDevicePrimaryCtxRetain(self, context: Any, device: int) -> int:
        self.contexts += 1
        return 0

    def cuCtxSetCurrent(self, context: Any) -> int:
        return 0

    def cuGetErrorString(self, error: int, text: Any) -> int:
        text._obj.value = b"it was refused"
        return 0

    def cuDriverGetVersion(self, version: Any) -> int:
        version._obj.value = 11040
        return 0


def install(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    """Puts one in place of the driver and of Triton. Memory of the device is memory of the host."""
    fake = FakeCuda()
    address: Callable[[], Any] = lambda: ctypes.cast(fake.callback, ctypes.c_void_p).value  # noqa: E731
    monkeypatch.setattr(driver, "driver", lambda: fake)
    monkeypatch.setattr(driver, "launch_address", address)
    monkeypatch.setattr(driver, "load_function", fake.load_function)
    monkeypatch.setattr(driver, "current_stream", lambda device: 77)
    for module in (build, driver):
        monkeypatch.setattr(module, "compile_kernel", fake.compile_kernel)
        monkeypatch.setattr(module, "architecture_of", lambda device: 90)
    monkeypatch.setattr(build, "_codes", {})
    monkeypatch.setenv("CUESTA_COMPILE_WORKERS", "0")
    monkeypatch.setattr(build, "shared_memory_of", lambda device: 1 << 17)
    monkeypatch.setattr(runtime, "allocator", lambda kind, index=None, make=runtime.allocator: make("cpu"))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    return fake
