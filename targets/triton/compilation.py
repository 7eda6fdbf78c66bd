"""Triton text → machine code. Everything that differs between versions of Triton is in this module.

Nothing here needs a GPU: the architecture is an argument.
"""

from __future__ import annotations

import importlib
import linecache
import re
from collections.abc import Sequence
from typing import Any

from cuesta.targets.program import KernelText, MachineCode
from cuesta.targets.triton.emit_module import module_text

ALIGNMENT = 16
"""Bytes: what pointers are multiples of, when Triton is told so."""

_texts = 0


class TritonMissingError(ImportError):
    """A graph lies on a CUDA device, but Triton cannot be imported."""


def require_triton() -> Any:
    """The module `triton`, which has no types.

    Errors: TritonMissingError, which says what to install.
    """
    try:
        return importlib.import_module("triton")
    except ImportError as error:
        raise TritonMissingError(
            "kernels for CUDA devices need Triton, which cannot be imported here "
            f"({error}): install it with `pip install triton`"
        ) from error


def functions_of(text: str, names: Sequence[str]) -> list[Any]:
    """Runs a text that defines Triton functions; gives those of these names.

    Triton reads a function's text through `inspect`, which finds it in `linecache`.
    """
    require_triton()
    global _texts
    _texts += 1
    filename = f"<cuesta kernels {_texts}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"__name__": "cuesta_kernels"}
    exec(compile(text, filename, "exec"), namespace)
    return [namespace[name] for name in names]


def compile_kernel(kernel: KernelText, architecture: int, *, aligned: bool = True) -> MachineCode:
    """Compiles a kernel for `sm_<architecture>`; `aligned` says that all pointers are multiples of 16 bytes.

    Errors: whatever Triton raises for a kernel it cannot compile.
    """
    triton = require_triton()
    target: Any = importlib.import_module("triton.backends.compiler").GPUTarget("cuda", architecture, 32)
    make_source: Any = importlib.import_module("triton.compiler").ASTSource
    (function,) = functions_of(module_text([kernel]), [kernel.name])
    signature = dict(kernel.signature)
    attributes: dict[tuple[int, ...], list[list[Any]]] = {}
    if aligned:
        for position, (_, kind) in enumerate(kernel.signature):
            if kind.startswith("*"):
                attributes[(position,)] = [["tt.divisibility", ALIGNMENT]]
    source = make_source(function, signature, constexprs={}, attrs=attributes)
    options = {
        "num_warps": kernel.warps,
        "enable_fp_fusion": False,  # a product is rounded before it is added to, as the program says
        "debug": kernel.asserts,
        "sanitize_overflow": False,  # integers wrap
    }
    compiled: Any = triton.compile(source, target=target, options=options)
    return MachineCode(
        compiled.metadata.name,
        compiled.asm["cubin"],
        compiled.metadata.shared,
        compiled.metadata.num_warps,
        _parameter_count(compiled.asm["ptx"], compiled.metadata.name),
    )


_ENTRY = re.compile(r"\.entry\s+(\w+)\s*\((.*?)\)", re.DOTALL)


def _parameter_count(ptx: str, name: str) -> int:
    for found in _ENTRY.finditer(ptx):
        if found.group(1) == name:
            return found.group(2).count(".param")
    raise ValueError(f"the PTX of {name} has no entry of that name")
