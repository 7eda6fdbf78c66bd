"""CUDA devices, through Triton: kernels are compiled in worker processes, and launched by native functions."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from cuesta.dialects.core.devices import GPU
from cuesta.targets.program import BoundSite, DeviceRun
from cuesta.targets.target import Build, Code, Run, Target

if TYPE_CHECKING:
    from cuesta.dialects.kernel import FuncOp

_MANY_OPS, _OPS_PER_WORKER = 40, 10
"""From so many on, a graph has kernels to compile for several processes; each of so many is worth one."""


class TritonTarget(Target):
    """A kernel that Triton cannot compile runs through the interpreter, on the device."""

    name = "triton"
    devices = ("cuda",)
    traits = GPU
    adds_offsets = True
    reports = True
    names = ("current_stream",)

    def obstacle(self, device: str) -> str | None:
        """Triton is no dependency of ours."""
        if importlib.util.find_spec("triton") is not None:
            return None
        return f"{device} without Triton; `pip install triton` brings it"

    def key_lines(self) -> Sequence[str]:
        """Who compiles, and what the devices are. (An index of a device is in the graph.)"""
        return _key_lines()

    def facts(self, device: str) -> Mapping[str, int | float]:
        """The number of its multiprocessors, how much shared memory a program can have, and its architecture, where
        there is one.
        """
        import torch

        if not torch.cuda.is_available():  # a program that somebody compiles elsewhere
            return {}
        properties: Any = cast("Any", torch.cuda).get_device_properties(device)
        found = {"processors": int(properties.multi_processor_count)}
        if hasattr(properties, "major"):
            found["architecture"] = 10 * int(properties.major) + int(properties.minor)
        if hasattr(properties, "shared_memory_per_block_optin"):
            found["shared"] = int(properties.shared_memory_per_block_optin)
        return found

    def prepare(self, ops: int) -> None:
        """Starts the processes that compile, when a graph will certainly have many kernels."""
        if ops >= _MANY_OPS:
            from cuesta.targets.triton.workers import pool

            pool().prepare(ops // _OPS_PER_WORKER)

    def start(self, kernels: Mapping[str, FuncOp], wanted: Sequence[tuple[str, str]]) -> Build:
        """Makes the texts. Errors: TritonMissingError."""
        return _TritonBuild(kernels, wanted)

    def call(self, run: str, arguments: Sequence[str]) -> str:
        """The function of a run raises its errors itself."""
        return f"{run}({', '.join(arguments)})"

    def queue(self, device: str) -> str:
        """The stream that torch uses."""
        return f"current_stream({index_of(device)})"


class _TritonBuild(Build):
    def __init__(self, kernels: Mapping[str, FuncOp], wanted: Sequence[tuple[str, str]]) -> None:
        from cuesta.targets.triton.build import KernelBuild

        self.kernels = kernels
        self.build = KernelBuild(kernels, [(name, index_of(device)) for name, device in wanted])

    def texts(self) -> Mapping[str, str]:
        from cuesta.targets.triton.compilation import module_text

        return {"kernels.py": module_text(self.build.texts.values())}

    def text_of(self, kernel: str) -> tuple[str, str] | None:
        text = self.build.texts.get(kernel)
        return None if text is None else (text.source, ".py")

    def begin(self) -> None:
        self.build.start()

    def native(self, runs: Sequence[Run], sites: list[BoundSite]) -> str:
        if not runs:
            return ""
        from cuesta.targets.triton.emit_launches import DeviceLaunch, LaunchRun, emit_launches

        places = _places(runs)
        described: list[LaunchRun] = []
        for run in runs:
            device = index_of(run.device)
            launches = [
                DeviceLaunch(one.kernel, places[one.kernel, device], one.pointers, one.unaligned)
                for one in run.launches
            ]
            described.append(LaunchRun(run.name, device, run.pointers, run.symbols, tuple(launches)))
        return emit_launches(self.kernels, self.build.descriptors, described, len(places))

    def finish(self) -> Mapping[str, Exception]:
        self.done, failures = self.build.finish()
        return failures

    def code(self, runs: Sequence[Run], sites: list[BoundSite]) -> Code:
        from cuesta.targets.cpu.python_calls import entry

        compiled = {(one.text.name, one.device): one for one in self.done}
        places = _places(runs)
        device_runs = tuple(
            DeviceRun(
                run.name,
                index_of(run.device),
                run.function.arguments,
                tuple(places[launch.kernel, index_of(run.device)] for launch in run.launches),
                entry(),
            )
            for run in runs
        )
        return Code(device_kernels=tuple(compiled[kernel] for kernel in places), device_runs=device_runs)


def _places(runs: Sequence[Run]) -> dict[tuple[str, int], int]:
    """The kernels that runs launch, each on a device, and their places in the program."""
    found: dict[tuple[str, int], int] = {}
    for run in runs:
        for launch in run.launches:
            found.setdefault((launch.kernel, index_of(run.device)), len(found))
    return found


def index_of(device: str) -> int:
    """The number of a CUDA device: 1 of `cuda:1`."""
    return int(device.partition(":")[2] or 0)


@cache
def _key_lines() -> tuple[str, ...]:
    import torch

    devices: list[Any] = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]  # pyright: ignore[reportUnknownMemberType]
    return (
        f"triton {importlib.metadata.version('triton')} cuda {torch.version.cuda}",
        *(f"device {one.name} {one.major}.{one.minor} {one.multi_processor_count}" for one in devices),
    )
