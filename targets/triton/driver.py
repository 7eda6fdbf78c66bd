"""The few functions of the CUDA driver that loading and launching kernels takes, called through ctypes.

Units: sizes in bytes.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

from cuesta.targets.program import DeviceKernel, MachineCode
from cuesta.targets.triton.compilation import ALIGNMENT, compile_kernel

_INVALID_CONTEXT = 201
_MAX_DYNAMIC_SHARED_SIZE = 8
_WITHOUT_ASKING = 48 * 1024
"""Bytes of shared memory that a kernel has without asking for more."""
_WARP = 32

Launch = Callable[..., None]
"""Takes the number of programs, the stream, and the arguments; launches, unless there are no programs."""


class CudaError(RuntimeError):
    """The CUDA driver refused a call."""


@cache
def driver() -> ctypes.PyDLL:
    """The driver's library. Its functions are called with the interpreter's lock held: they are quick.

    Errors: OSError when there is none.
    """
    library = ctypes.PyDLL("libcuda.so.1")
    pointer, integer = ctypes.c_void_p, ctypes.c_uint
    library.cuLaunchKernel.argtypes = [pointer, *[integer] * 7, pointer, pointer, pointer]
    return library


def check(error: int) -> None:
    """Errors: CudaError, with the driver's own words, when `error` is not 0."""
    if error:
        text = ctypes.c_char_p()
        driver().cuGetErrorString(error, ctypes.byref(text))
        raise CudaError(f"CUDA error {error}: {(text.value or b'unknown').decode()}")


def use_context(device: int) -> None:
    """Makes the context that torch uses on a device the present thread's."""
    context = ctypes.c_void_p()
    check(driver().cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    check(driver().cuCtxSetCurrent(context))


def load_function(code: MachineCode, device: int) -> int:
    """Loads machine code onto a device; gives the function's handle. The code stays until the process ends."""
    import torch

    with torch.cuda.device(device):
        use_context(device)
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        check(driver().cuModuleLoadData(ctypes.byref(module), code.binary))
        check(driver().cuModuleGetFunction(ctypes.byref(function), module, code.name.encode()))
        if code.shared > _WITHOUT_ASKING:
            check(driver().cuFuncSetAttribute(function, _MAX_DYNAMIC_SHARED_SIZE, code.shared))
    assert function.value is not None
    return function.value


_TEXT = """\
def launch(programs, stream, {names}):
    if ({pointers}) & {low_bits}:
        return unaligned()(programs, stream, {names})
    if not programs:
        return
    with lock:
        {slots} = {names},
        error = cuLaunchKernel(function, programs, 1, 1, {threads}, 1, 1, {shared}, stream, parameters, None)
    if error:
        failed(launch, error, programs, stream, {names})
"""


def launcher(kernel: DeviceKernel, code: MachineCode, *, aligned: bool = True) -> Launch:
    """A function that launches a kernel: its arguments go to memory made once, whose addresses the driver is given."""
    import torch

    names = [f"a{position}" for position in range(len(kernel.text.signature))]
    slots = (ctypes.c_uint64 * max(code.parameters, len(names)))()
    addresses = [ctypes.addressof(slots) + 8 * position for position in range(len(slots))]
    parameters = (ctypes.c_void_p * len(slots))(*addresses)
    pointers = [name for name, (_, kind) in zip(names, kernel.text.signature, strict=True) if kind.startswith("*")]
    text = _TEXT.format(
        names=", ".join(names),
        pointers=" | ".join(pointers) if aligned else "0",
        low_bits=ALIGNMENT - 1,
        slots=", ".join(f"slots[{position}]" for position in range(len(names))) + ",",
        threads=code.warps * _WARP,
        shared=code.shared,
    )
    other: list[Launch] = []

    def unaligned() -> Launch:
        if not other:
            architecture = architecture_of(kernel.device)
            other.append(launcher(kernel, compile_kernel(kernel.text, architecture, aligned=False), aligned=False))
        return other[0]

    def failed(launch: Launch, error: int, *arguments: Any) -> None:
        """A thread that never used the device has no context: it is given one. Then the launch must succeed."""
        if error != _INVALID_CONTEXT or getattr(_retrying, "now", False):
            check(error)
        use_context(kernel.device)
        _retrying.now = True
        try:
            launch(*arguments)
        finally:
            _retrying.now = False

    namespace: dict[str, Any] = {
        "cuLaunchKernel": driver().cuLaunchKernel,
        "failed": failed,
        "function": load_function(code, kernel.device),
        "lock": threading.Lock(),
        "parameters": parameters,
        "slots": slots,
        "unaligned": unaligned,
    }
    exec(text, namespace)
    return _on_device(namespace["launch"], kernel.device) if torch.cuda.device_count() > 1 else namespace["launch"]


_retrying = threading.local()


def _on_device(launch: Launch, device: int) -> Launch:
    """The launch with its device as the current one."""
    import torch

    def guarded(*arguments: Any) -> None:
        if torch.cuda.current_device() == device:
            launch(*arguments)
        else:
            with torch.cuda.device(device):
                launch(*arguments)

    return guarded


def architecture_of(device: int) -> int:
    """`90` for sm_90."""
    import torch

    major, minor = torch.cuda.get_device_capability(device)
    return major * 10 + minor


def current_stream(device: int) -> int:
    """The stream that torch uses now on a device."""
    import torch

    return torch._C._cuda_getCurrentRawStream(device)  # pyright: ignore[reportPrivateUsage]  # Triton asks the same way
