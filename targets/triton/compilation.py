"""Triton text → machine code. Everything that differs between versions of Triton is in this module.

Nothing here needs a GPU: the architecture is an argument. Nothing here needs torch or xDSL either: the processes that
compile (`worker.py`) import no more than this and Triton.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cuesta.dialects.core.architectures import FIRST_WITH_DESCRIPTORS
from cuesta.targets.program import POINTER_ALIGNMENT, KernelText, MachineCode, inner_box, swizzle_of
from cuesta.targets.python_functions import define
from cuesta.targets.triton.mend_ptx import mended

HEADER = """\
import triton
import triton.language as tl
from triton.language.extra import libdevice

from cuesta.targets.triton import device_functions as functions
from cuesta.targets.triton import quick_functions as quick
"""


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


def module_text(kernels: Iterable[KernelText]) -> str:
    """One text that defines all the kernels."""
    return "\n\n".join([HEADER, *(one.source for one in kernels)])


def functions_of(text: str, names: Sequence[str]) -> list[Any]:
    """Runs a text that defines Triton functions; gives those of these names.

    Triton reads a function's text through `inspect`, which finds it as long as the function lives.
    """
    require_triton()
    namespace: dict[str, Any] = {"__name__": "cuesta_kernels"}
    define(text, "kernels", namespace)
    return [namespace[name] for name in names]


def compile_kernel(kernel: KernelText, architecture: int, *, aligned: bool = True) -> MachineCode:
    """Compiles a kernel for `sm_<architecture>`; `aligned` says that all pointers are multiples of 16 bytes.

    Errors: whatever Triton raises for a kernel it cannot compile; ValueError for tensor descriptors before `sm_90`.
    """
    kernel = kernel if aligned else kernel.pointers
    if kernel.plain and architecture < FIRST_WITH_DESCRIPTORS:
        raise ValueError(f"tensor descriptors need sm_{FIRST_WITH_DESCRIPTORS}, and this device is sm_{architecture}")
    compiled = _compiled(kernel, ("cuda", architecture, 32), aligned)
    if kernel.plain:
        _check_descriptors(kernel, compiled.metadata.tensordesc_meta)
    ptx = mended(compiled.asm["ptx"])
    return MachineCode(
        compiled.metadata.name,
        compiled.asm["cubin"] if ptx == compiled.asm["ptx"] else _assembled(ptx, kernel, architecture),
        compiled.metadata.shared,
        compiled.metadata.num_warps,
        _parameter_count(compiled.asm["ptx"], compiled.metadata.name),
    )


def amd_assembly(kernel: KernelText, architecture: str) -> str:
    """The assembly of a kernel for an AMD device, such as `gfx942`: that nothing in its text assumes NVIDIA.

    Errors: whatever Triton raises for a kernel it cannot compile.
    """
    return str(_compiled(kernel, ("hip", architecture, 64), aligned=True).asm["amdgcn"])


def _assembled(ptx: str, kernel: KernelText, architecture: int) -> bytes:
    """The machine code of a kernel's PTX, by the assembler that Triton calls, with the same options."""
    compiler: Any = importlib.import_module("triton.compiler.compiler")
    backend = compiler.make_backend(_target(("cuda", architecture, 32)))
    return backend.make_cubin(ptx, {}, backend.parse_options(_options(kernel, "cuda")), architecture)


def _target(target: tuple[str, int | str, int]) -> Any:
    return importlib.import_module("triton.backends.compiler").GPUTarget(*target)


def _options(kernel: KernelText, backend: str) -> dict[str, Any]:
    return {
        "num_warps": kernel.warps,
        "num_stages": kernel.stages,
        **({"maxnreg": kernel.registers} if kernel.registers and backend == "cuda" else {}),
        "enable_fp_fusion": False,  # a product is rounded before it is added to, as the program says
        "debug": kernel.asserts,
        "sanitize_overflow": False,  # integers wrap
        # Whether libdevice's functions may give 0 for a denormal number. The quotient in `quick_functions`, which never
        # comes to one, is shorter so.
        "enable_reflect_ftz": "quick." in kernel.source,
    }


def _compiled(kernel: KernelText, target: tuple[str, int | str, int], aligned: bool) -> Any:
    """What Triton makes of a kernel for a backend, an architecture, and the threads of a warp."""
    triton = require_triton()
    make_source: Any = importlib.import_module("triton.compiler").ASTSource
    (function,) = functions_of(module_text([kernel]), [kernel.name])
    signature = dict(kernel.signature)
    attributes: dict[tuple[int, ...], list[list[Any]]] = {}
    if aligned:
        for position, (_, kind) in enumerate(kernel.signature):
            if kind.startswith("*"):
                attributes[(position,)] = [["tt.divisibility", POINTER_ALIGNMENT]]
    source = make_source(function, signature, constexprs={}, attrs=attributes)
    return triton.compile(source, target=_target(target), options=_options(kernel, target[0]))


def _check_descriptors(kernel: KernelText, made: Sequence[Mapping[str, Any]]) -> None:
    """Errors: ValueError where the code takes other descriptors than `swizzle_of` and `inner_box` say."""
    kinds = [kind for _, kind in kernel.signature if kind.startswith("tensordesc")]
    for kind, one in zip(kinds, made, strict=True):
        *outer, last = (int(size) for size in kind[kind.index("[") + 1 : kind.index("]")].split(","))
        size = int(one["elem_size"])
        wanted = [*outer, inner_box(last, size)], swizzle_of(last, size)
        if (list(one["block_size"]), int(one["swizzle"])) != wanted or one.get("fp4_padded"):
            raise ValueError(f"the code of {kernel.name} takes a descriptor {one} for {kind}, not {wanted}")


_ENTRY = re.compile(r"\.entry\s+(\w+)\s*\((.*?)\)", re.DOTALL)


def _parameter_count(ptx: str, name: str) -> int:
    for found in _ENTRY.finditer(ptx):
        if found.group(1) == name:
            return found.group(2).count(".param")
    raise ValueError(f"the PTX of {name} has no entry of that name")
