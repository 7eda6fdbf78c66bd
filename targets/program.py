"""What a compiled graph is, as data: the wrapper's text, object code, and the names by which one calls the other.

Nothing here needs a compiler: a process that takes its programs from the cache on disk imports no more than this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BoundSite:
    """A `kernel.bound` that may fail: what the error message needs."""

    location: str


@dataclass(frozen=True, slots=True)
class NativeFunction:
    """A function in the object code: so many 64-bit integers → one."""

    name: str
    arguments: int


@dataclass(frozen=True, slots=True)
class KernelText:
    """The Triton text of one kernel, and what its compilation has to know."""

    name: str
    source: str
    signature: tuple[tuple[str, str], ...]
    """Names and types of the parameters: pointers, then symbols."""
    warps: int
    asserts: bool
    """Whether it checks indices: then it is compiled with assertions."""


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class DeviceKernel:
    """A function that the wrapper calls to launch a kernel on a CUDA device.

    The machine code is for pointers that are multiples of 16 bytes. Other code is made of the text when it is needed.
    """

    name: str
    device: int
    text: KernelText
    code: MachineCode


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled graph.

    `source` is the text of the wrapper's function `call`, which calls the overloads and the native functions by name;
    `sites` are the bounds that error codes 1, 2, … stand for. Without native functions there is no object code.
    """

    source: str
    overloads: Mapping[str, str]
    functions: tuple[NativeFunction, ...]
    sites: tuple[BoundSite, ...]
    object_code: bytes | None
    device_kernels: tuple[DeviceKernel, ...] = ()
