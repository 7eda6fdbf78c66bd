"""What the host processor can do, and how LLVM is told about it.

Everything is chosen from the list of features: the processor name that LLVM guesses can be wrong on virtual machines.
"""

from __future__ import annotations

import functools

import llvmlite.binding as llvm

from cuesta.dialects.core.structs import struct


@struct
class HostFeatures:
    """One processor as code generation sees it.

    `cpu_name` chooses scheduling only: `feature_string` switches every feature on or off explicitly.
    `f32_lanes` is the number of f32 in the widest register worth using.
    """

    triple: str
    cpu_name: str
    feature_string: str
    enabled: frozenset[str]
    f32_lanes: int

    def has(self, *names: str) -> bool:
        """True when every named LLVM feature (`avx2`, `fma`, `f16c`, …) is present."""
        return self.enabled.issuperset(names)

    @property
    def has_fused_multiply_add(self) -> bool:
        """True when `llvm.fmuladd` is one instruction with one rounding; the accuracy bounds assume it."""
        return self.has("fma") or self.triple.startswith(("aarch64", "arm64"))

    @property
    def library_widths_f32(self) -> tuple[int, ...]:
        """Lane counts, widest first, for which libtorch exports vector functions that this machine can run."""
        if self.has("avx512f"):
            return (16, 8)
        return (8,) if self.has("avx2", "fma") else ()

    def library_widths(self, dtype: str) -> tuple[int, ...]:
        """`library_widths_f32`, halved for f64."""
        return tuple(width // 2 if dtype == "f64" else width for width in self.library_widths_f32)


def choose_f32_lanes(enabled: frozenset[str]) -> int:
    """16 with AVX-512, 8 with AVX2, 4 otherwise (SSE, NEON)."""
    if {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= enabled:
        return 16
    return 8 if "avx2" in enabled else 4


def choose_cpu_name(triple: str, enabled: frozenset[str]) -> str:
    """A processor model whose schedule suits the features (`sse4a` exists on AMD only)."""
    if not triple.startswith("x86_64"):
        return "generic"
    amd = "sse4a" in enabled
    if "avx512f" in enabled:
        if amd:
            return "znver4"
        return "sapphirerapids" if "amx-tile" in enabled or "avx512fp16" in enabled else "icelake-server"
    if "avx2" in enabled:
        return "znver3" if amd else "haswell"
    return "x86-64"


def describe(triple: str, flags: dict[str, bool]) -> HostFeatures:
    """The description of a processor with the given LLVM features."""
    enabled = frozenset(name for name, present in flags.items() if present)
    settings = [("+" if present else "-") + name for name, present in sorted(flags.items())]
    if "avx512f" in enabled:
        settings.append("-prefer-256-bit")  # we write explicit 512-bit vectors: never split them
    return HostFeatures(
        triple, choose_cpu_name(triple, enabled), ",".join(settings), enabled, choose_f32_lanes(enabled)
    )


@functools.cache
def host_features() -> HostFeatures:
    """The machine that runs this process."""
    return describe(llvm.get_process_triple(), dict(llvm.get_host_cpu_features()))


_DOT = {"bf16": "avx512bf16", "i8": "avx512vnni"}
"""The feature of a machine that has an instruction for `elem.dot`, by what the parts are."""


def has_dot(parts: str, features: HostFeatures | None = None) -> bool:
    """Whether a machine adds sums of such products (`elem.dot`) up in one instruction."""
    features = features or host_features()
    return features.triple.startswith("x86_64") and features.has("avx512f", "avx512vl", _DOT[parts])
