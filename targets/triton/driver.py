"""The few functions of the CUDA driver that loading and launching kernels takes, called through ctypes.

Launches of a compiled graph are native functions (`emit_launches.py`); here they are given what they call, and what a
launch cannot mend itself is mended.

Units: sizes in bytes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from cuesta.targets.cpu.python_calls import python_function
from cuesta.targets.program import (
    ENCODE_SYMBOL,
    KERNELS_SYMBOL,
    LAUNCH_SYMBOL,
    NOT_ALIGNED,
    CudaError,
    DeviceKernel,
    DeviceRun,
    MachineCode,
)
from cuesta.targets.triton.compilation import compile_kernel

_INVALID_VALUE, _OUT_OF_MEMORY, _INVALID_CONTEXT = 1, 2, 201
_CANNOT_LOAD = (200, 209, 218, 222, 300, 301)
"""The image is invalid, or for another device, or its text cannot be compiled by this driver."""
_MAX_DYNAMIC_SHARED_SIZE = 8
_WITHOUT_ASKING = 48 * 1024
"""Bytes of shared memory that a kernel has without asking for more."""
WARP = 32
"""Threads."""

Launch = Callable[..., None]
"""Takes the stream and the run's arguments; launches all that the run consists of."""


class NoDriverError(CudaError):
    """There is no CUDA driver on this machine, or none that torch can use."""


@cache
def driver() -> ctypes.CDLL:
    """The driver's library.

    Errors: NoDriverError when there is none.
    """
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise NoDriverError(f"a program for CUDA devices cannot run here: there is no CUDA driver ({error})") from error
    pointer, integer = ctypes.c_void_p, ctypes.c_uint
    library.cuLaunchKernel.argtypes = [pointer, *[integer] * 7, pointer, pointer, pointer]
    return library


def launch_address() -> int:
    """The address of `cuLaunchKernel`."""
    address = ctypes.cast(driver().cuLaunchKernel, ctypes.c_void_p).value
    assert address is not None
    return address


def encode_address() -> int:
    """The address of `cuTensorMapEncodeTiled`.

    Errors: NoDriverError where the driver is older than CUDA 12.
    """
    try:
        address = ctypes.cast(driver().cuTensorMapEncodeTiled, ctypes.c_void_p).value
    except AttributeError as error:
        raise NoDriverError(f"tensor descriptors need a newer CUDA driver than {driver_version()}") from error
    assert address is not None
    return address


def check(error: int, doing: str = "") -> None:
    """Errors: CudaError, with the driver's own words, when `error` is not 0; torch's OutOfMemoryError."""
    if not error:
        return
    import torch

    text = ctypes.c_char_p()
    driver().cuGetErrorString(error, ctypes.byref(text))
    message = f"CUDA error {error}: {(text.value or b'unknown').decode()}{doing and f' ({doing})'}"
    if error == _OUT_OF_MEMORY:
        raise torch.cuda.OutOfMemoryError(message)
    if error in _CANNOT_LOAD:
        message += f"; the driver is for CUDA {driver_version()}, and torch was built with {torch.version.cuda}"
    raise CudaError(message, error)


def driver_version() -> str:
    """The newest version of CUDA that the driver knows, such as `12.8`."""
    version = ctypes.c_int()
    driver().cuDriverGetVersion(ctypes.byref(version))
    return f"{version.value // 1000}.{version.value % 1000 // 10}"


def use_context(device: int) -> None:
    """Makes the context that torch uses on a device the present thread's."""
    context = ctypes.c_void_p()
    check(driver().cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
    check(driver().cuCtxSetCurrent(context), "cuCtxSetCurrent")


def load_function(code: MachineCode, device: int) -> int:
    """Loads machine code onto a device; gives the function's handle. The code stays until the process ends.

    Errors: CudaError; torch's OutOfMemoryError, after memory that torch holds in reserve was given back.
    """
    import torch

    with torch.cuda.device(device):
        use_context(device)
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        error = driver().cuModuleLoadData(ctypes.byref(module), code.binary)
        if error == _OUT_OF_MEMORY:
            torch.cuda.empty_cache()
            error = driver().cuModuleLoadData(ctypes.byref(module), code.binary)
        check(error, f"loading {code.name}")
        check(driver().cuModuleGetFunction(ctypes.byref(function), module, code.name.encode()), f"loading {code.name}")
        if code.shared > _WITHOUT_ASKING:
            error = driver().cuFuncSetAttribute(function, _MAX_DYNAMIC_SHARED_SIZE, code.shared)
            check(error, f"{code.shared} bytes of shared memory for {code.name}")
    assert function.value is not None
    return function.value


class _Record(ctypes.Structure):
    _fields_ = [("function", ctypes.c_void_p), ("threads", ctypes.c_uint32), ("shared", ctypes.c_uint32)]

    function: int | None
    threads: int
    shared: int


def _fill(record: _Record, code: MachineCode, device: int) -> None:
    record.threads, record.shared = code.warps * WARP, code.shared
    record.function = load_function(code, device)


def bind_runs(
    kernels: Sequence[DeviceKernel], runs: Sequence[DeviceRun], addresses: Mapping[str, int]
) -> dict[str, Launch]:
    """Loads kernels onto their devices, and gives the functions that launch them, by name.

    Requires: `addresses` has those of the runs' functions, LAUNCH_SYMBOL and KERNELS_SYMBOL, in loaded object code that
    lives as long as the functions.
    Errors: CudaError.
    """
    ctypes.c_void_p.from_address(addresses[LAUNCH_SYMBOL]).value = launch_address()
    if ENCODE_SYMBOL in addresses:
        ctypes.c_void_p.from_address(addresses[ENCODE_SYMBOL]).value = encode_address()
    table = (_Record * (2 * len(kernels))).from_address(addresses[KERNELS_SYMBOL])
    for position, kernel in enumerate(kernels):
        _fill(table[2 * position], kernel.code, kernel.device)
    return {run.name: _bound(run, kernels, table, addresses) for run in runs}


def _bound(
    run: DeviceRun, kernels: Sequence[DeviceKernel], table: ctypes.Array[_Record], addresses: Mapping[str, int]
) -> Launch:
    import torch

    native = python_function(run.function, addresses, None)

    def launch(*arguments: Any) -> None:
        if stopped := native(0, *arguments):
            go_on(stopped, arguments)

    def go_on(stopped: int, arguments: tuple[Any, ...]) -> None:
        """What stopped the run is mended, or raised when it stops a launch again."""
        mended = -1
        while stopped:
            error = stopped & 0xFFFFFFFF
            position = run.kernels[stopped >> 32]
            kernel = kernels[position]
            if error == NOT_ALIGNED:
                code = compile_kernel(kernel.text, architecture_of(kernel.device), aligned=False)
                _fill(table[2 * position + 1], code, kernel.device)
            elif error == _INVALID_CONTEXT and stopped != mended:
                use_context(run.device)  # a thread that never used the device has none
            else:
                check(error, f"launching {kernel.text.name}")
            mended = stopped
            stopped = native(stopped >> 32, *arguments)

    if torch.cuda.device_count() <= 1:
        return launch

    def launch_there(*arguments: Any) -> None:
        if torch.cuda.current_device() == run.device:
            launch(*arguments)
        else:
            with torch.cuda.device(run.device):
                launch(*arguments)

    return launch_there


def architecture_of(device: int) -> int:
    """`90` for sm_90.

    Errors: NoDriverError when there is no such device.
    """
    import torch

    try:
        major, minor = torch.cuda.get_device_capability(device)
    except (AssertionError, RuntimeError) as error:  # which torch raises depends on how it was built
        raise NoDriverError(f"a program for the device cuda:{device} cannot run here: {error}") from error
    return major * 10 + minor


def shared_memory_of(device: int) -> int:
    """The bytes of shared memory that one program can have."""
    import torch

    properties: Any = torch.cuda.get_device_properties(device)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return int(getattr(properties, "shared_memory_per_block_optin", _WITHOUT_ASKING))  # pyright: ignore[reportUnknownArgumentType]


def current_stream(device: int) -> int:
    """The stream that torch uses now on a device."""
    import torch

    return torch._C._cuda_getCurrentRawStream(device)  # pyright: ignore[reportPrivateUsage]  # Triton asks the same way
