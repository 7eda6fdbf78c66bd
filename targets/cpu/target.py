"""The CPU, through LLVM: kernels and runs are functions in the object code of the program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cuesta.dialects.core.devices import CPU
from cuesta.targets.program import BoundSite
from cuesta.targets.target import Build, Code, Run, Target

if TYPE_CHECKING:
    from cuesta.dialects.kernel import FuncOp


class CpuTarget(Target):
    """Compiles in this process, in a thread; there is no kernel that it cannot compile."""

    name = "cpu"
    devices = ("cpu",)
    traits = CPU
    scratch = 4096
    """It lies on the stack. Source: a page, which any thread has left; what is larger is worth the 0.4 µs of a call of
    torch's allocator.
    """

    def facts(self, device: str) -> Mapping[str, int | float]:
        """The lanes of its vectors, and how fast its libraries are."""
        from cuesta.targets.cpu.facts import facts

        return facts()

    def start(self, kernels: Mapping[str, FuncOp], wanted: Sequence[tuple[str, str]]) -> Build:
        """Nothing yet: the text is made with the runs."""
        return _CpuBuild(kernels)


class _CpuBuild(Build):
    def __init__(self, kernels: Mapping[str, FuncOp]) -> None:
        self.kernels = kernels

    def native(self, runs: Sequence[Run], sites: list[BoundSite]) -> str:
        from cuesta.targets.cpu import emit_module

        described: list[emit_module.Run] = []
        for run in runs:
            launches = [emit_module.Launch(launch.kernel, launch.pointers) for launch in run.launches]
            described.append(emit_module.Run(run.name, run.pointers, run.symbols, tuple(launches), run.scratch))
        return emit_module.emit_module(self.kernels, described, sites).text

    def code(self, runs: Sequence[Run], sites: list[BoundSite]) -> Code:
        from cuesta.targets.cpu.python_calls import entry

        return Code(functions=tuple(replace(run.function, entry=entry()) for run in runs))
