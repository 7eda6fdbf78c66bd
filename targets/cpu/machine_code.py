"""Object code → addresses that can be called, without LLVM where our own loader knows the system."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from typing import Protocol

from cuesta.targets.cpu import libraries
from cuesta.targets.cpu.object_loader import ObjectError, link


class MachineCodeError(Exception):
    """An object cannot be loaded, or LLVM refused a module: the message quotes the line, and names the file with the
    text.
    """


class LoadedModule(Protocol):
    """Object code in memory. The addresses are valid as long as this object lives."""

    @property
    def symbols(self) -> dict[str, int]:
        """The addresses of the symbols that were asked for when the object was loaded."""
        ...


def load_object(object_code: bytes, symbols: Sequence[str]) -> LoadedModule:
    """Load object code and find the addresses of `symbols`, which it defines.

    libm, SLEEF and OpenMP functions are found by name (`libraries.library_addresses`).
    Errors: MachineCodeError when the object is damaged or names an unknown function.
    """
    if not (sys.platform == "linux" and platform.machine() == "x86_64"):
        from cuesta.targets.cpu.jit import link_by_llvm

        return link_by_llvm(object_code, symbols)
    try:
        return link(object_code, symbols, libraries.library_addresses())
    except ObjectError as error:
        raise MachineCodeError(f"the object of {', '.join(symbols)} cannot be loaded: {error}") from error
