"""From the kernels of a program to machine code, in this process and in workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.dialects.kernel import FuncOp
from cuesta.dialects.kernel.descriptors import Descriptor, described_loads, descriptors_of
from cuesta.targets.program import DeviceKernel, KernelText, MachineCode
from cuesta.targets.triton.compilation import compile_kernel, require_triton
from cuesta.targets.triton.driver import architecture_of, shared_memory_of
from cuesta.targets.triton.emit_kernel import emit_kernel
from cuesta.targets.triton.workers import Batch, Job, pool

_MOST_CODES = 1000
_Key: TypeAlias = tuple[KernelText, int]
_codes: dict[_Key, MachineCode] = {}
"""What this process has compiled: identical kernels are compiled once, also those of different graphs."""


class KernelError(Exception):
    """A kernel of which no machine code can be made; the message says why."""


class KernelBuild:
    """Kernels on their way to machine code: `start`, do something else, `finish`."""

    def __init__(self, kernels: Mapping[str, FuncOp], wanted: Sequence[tuple[str, int]]) -> None:
        """`wanted` are names of kernels, each with the device it is launched on."""
        require_triton()
        self.wanted = tuple(wanted)
        self.texts: dict[str, KernelText] = {}
        self.descriptors: dict[str, list[Descriptor]] = {}
        """What a launch of each makes."""
        self.failures: dict[str, Exception] = {}
        self.jobs: dict[_Key, Job] = {}
        self.batch: Batch | None = None
        for name in dict.fromkeys(name for name, _ in wanted):
            try:
                loads = described_loads(kernels[name])
                self.texts[name] = emit_kernel(kernels[name], loads)
                self.descriptors[name] = descriptors_of(loads)
            except CuestaError as error:
                self.failures[name] = error
                self.descriptors[name] = []  # launches are written before it is known which are left out

    def start(self) -> None:
        """Gives the kernels to workers, where that pays."""
        jobs: list[Job] = []
        for name, device in self.wanted:
            if name in self.failures:
                continue
            text, architecture = self.texts[name], architecture_of(device)
            key = content_of(text), architecture
            if key not in _codes and key not in self.jobs:
                self.jobs[key] = Job(text, architecture)
                jobs.append(self.jobs[key])
        self.batch = pool().start(jobs)

    def finish(self) -> tuple[tuple[DeviceKernel, ...], dict[str, Exception]]:
        """The kernels that could be compiled, in order, and why others could not, by name.

        Requires: it was started.
        """
        assert self.batch is not None
        self.batch.finish(compile_kernel)
        done: list[DeviceKernel] = []
        for name, device in self.wanted:
            if name in self.failures:
                continue
            text = self.texts[name]
            key = content_of(text), architecture_of(device)
            job = self.jobs.get(key)
            if job is not None and job.code is not None:
                _remember(key, job.code)
            code = _codes.get(key) if job is None else job.code
            error = _excess(code, device) if code is not None else job and job.error
            if code is None or error is not None:
                self.failures[name] = error or KernelError("it was not compiled")
            else:
                done.append(DeviceKernel(device, text, code))
        return tuple(one for one in done if one.text.name not in self.failures), self.failures


def content_of(kernel: KernelText) -> KernelText:
    """The kernel without what makes no difference to its machine code: its name, and comments before it."""
    lines = kernel.source.splitlines()
    while lines and lines[0].startswith("#"):
        del lines[0]
    source = "\n".join(lines).replace(f"def {kernel.name}(", "def kernel(", 1)
    return replace(kernel, name="kernel", source=source, plain="")


def _remember(key: _Key, code: MachineCode) -> None:
    _codes[key] = code
    while len(_codes) > _MOST_CODES:
        del _codes[next(iter(_codes))]


def _excess(code: MachineCode, device: int) -> KernelError | None:
    """Why a device cannot run the code, if it cannot."""
    most = shared_memory_of(device)
    if code.shared <= most:
        return None
    return KernelError(f"it takes {code.shared} bytes of shared memory, and the device has {most}")
