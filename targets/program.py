"""What a compiled graph is, as data: the wrapper's text, object code, and the names by which one calls the other.

Nothing here needs a compiler: a process that takes its programs from the cache on disk imports no more than this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from cuesta.dialects.core.structs import struct

if TYPE_CHECKING:
    from xdsl.ir import Operation


class CudaError(RuntimeError):
    """The CUDA driver refused a call. `code` is its error."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


@struct
class BoundSite:
    """A `kernel.bound` that may fail, or a `kernel.within`: what the error message needs."""

    location: str
    access: str = ""
    """What accesses which memory; empty for an index made of data."""
    divides: bool = False
    """Whether it is a division by zero, of integers."""

    @classmethod
    def of(cls, op: Operation) -> BoundSite:
        """The site of an op, which is where it comes from in the model."""
        from cuesta.dialects.core.locations import format_location, location_of

        return cls(format_location(location_of(op)), divides="divisor" in op.properties)


@struct
class Label:
    """What a profiler is told of a function that the wrapper calls."""

    function: str
    """As the wrapper calls it."""
    kernels: tuple[str, ...]
    lines: tuple[str, ...] = ()
    """Of the model: `model.py:42`."""


@struct
class NativeFunction:
    """A function in the object code: so many 64-bit integers → one."""

    name: str
    arguments: int
    entry: str | None = None
    """What Python calls in its place, in the object code, too: see `cpu/python_calls.py`. Without it, ctypes does."""


@struct
class SharedLibrary:
    """Machine code as the system's loader takes it: the contents of a file, and the functions in it.

    They take and give what native functions do, and know where they lie: symbols are not looked up across libraries.
    """

    content: bytes
    functions: tuple[NativeFunction, ...]


@struct
class KernelText:
    """The Triton text of one kernel, and what its compilation has to know."""

    name: str
    source: str
    signature: tuple[tuple[str, str], ...]
    """Names and types of the parameters: pointers, then symbols."""
    warps: int
    asserts: bool
    """Whether it checks indices: then it is compiled with assertions."""
    stages: int = 3
    """How many rounds of a loop load at the same time."""
    registers: int = 0
    """How many registers a thread may have at most; 0 for as many as it likes."""
    plain: str = ""
    """Where parameters at the end are tensor descriptors, the text without these: for pointers that are no multiples of
    16 bytes.
    """

    @property
    def pointers(self) -> KernelText:
        """The kernel without tensor descriptors."""
        given = tuple(one for one in self.signature if not one[1].startswith("tensordesc"))
        return replace(self, source=self.plain, signature=given, plain="") if self.plain else self


@struct
class MachineCode:
    """One kernel as the CUDA driver takes it.

    Units: `shared` in bytes.
    """

    name: str
    binary: bytes
    shared: int
    warps: int
    parameters: int
    """How many parameters it has: those of the signature, and pointers to scratch memory that it does not use."""


def inner_box(elements: int, size: int) -> int:
    """Of the last dimension of a tile, of elements of `size` bytes, what one copy by a tensor descriptor takes: a row
    of shared memory is 128 bytes at most.

    Source: a definition: Triton's layout of shared memory, which `compilation.py` holds it to.
    """
    return min(elements, 128 // size)


def swizzle_of(elements: int, size: int) -> int:
    """How such rows are exchanged in shared memory, as the driver counts: 1, 2, 3 for rows of 32, 64, 128 bytes."""
    return {128: 3, 64: 2, 32: 1}.get(inner_box(elements, size) * size, 0)


POINTER_ALIGNMENT = 16
"""Bytes: what the pointers of a kernel for a CUDA device are multiples of, when its code is told so."""

BYTES_OF_ROW = 16
"""Of a report, which kernels for a CUDA device write to: two integers of 64 bits for each check of an address."""


NOT_ALIGNED = 1 << 31
"""What stops a launch that is given other pointers, while there is no code for them yet. (No error of the driver.)"""


LAUNCH_SYMBOL, KERNELS_SYMBOL, ENCODE_SYMBOL = "cuesta.launch", "cuesta.kernels", "cuesta.encode"
"""Where the object code finds the driver's function that launches kernels, the kernels, and the driver's function that
makes tensor descriptors, if it makes any: see `emit_launches.py`.
"""


@struct
class DeviceKernel:
    """A kernel and the CUDA device it is launched on.

    The machine code is for pointers that are multiples of 16 bytes. Other code is made of the text when it is needed.
    """

    device: int
    text: KernelText
    code: MachineCode


@struct
class DeviceRun:
    """A function in the object code that launches kernels on a CUDA device: a stream and `arguments` more integers."""

    name: str
    device: int
    arguments: int
    kernels: tuple[int, ...]
    """Of every launch, the position of its kernel in the program."""
    entry: str | None = None
    """As of a `NativeFunction`."""

    @property
    def function(self) -> NativeFunction:
        """The function: of the number of the launch to begin with, a stream, and what it launches with."""
        return NativeFunction(self.name, 2 + self.arguments, self.entry)


@struct
class Program:
    """A compiled graph.

    `source` is the text of the wrapper's function `call`, which calls the overloads and the native functions by name;
    `sites` are the bounds that error codes 1, 2, … stand for. Without native functions and device runs there is no
    object code.
    """

    source: str
    overloads: Mapping[str, str]
    functions: tuple[NativeFunction, ...]
    sites: tuple[BoundSite, ...]
    object_code: bytes | None
    device_kernels: tuple[DeviceKernel, ...] = ()
    device_runs: tuple[DeviceRun, ...] = ()
    libraries: tuple[SharedLibrary, ...] = ()
    labels: tuple[Label, ...] = ()

    @property
    def symbols(self) -> list[str]:
        """What is looked up in the object code."""
        names = [function.name for function in self.functions]
        if self.device_runs:
            names += [LAUNCH_SYMBOL, KERNELS_SYMBOL, *(run.name for run in self.device_runs)]
            names += [ENCODE_SYMBOL] if any(one.text.plain for one in self.device_kernels) else []
        entries = dict.fromkeys(one.entry for one in (*self.functions, *self.device_runs) if one.entry)
        return [*names, *entries]
