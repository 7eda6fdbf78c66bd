"""A target: who makes code of the kernels on devices of some types, and how a wrapper calls it.

    class Mine(Target):
        name, devices = "mine", ("cpu",)

        def start(self, kernels, wanted):
            return MyBuild(kernels)                     # text of each kernel; what has no spelling fails by name

    Extension("mine", targets=[Mine()])                 # in its scope, Mine makes the kernels of the CPU

`targets/lookup.py` finds the target of a device; nobody else knows any by name. A wrapper cuts a program into *runs*:
launches on one device with no library call between them, each one call. What comes of building is data
(`targets/program.py`), so that another process can load it without the target; or functions of this process, and then
the program is not kept on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from cuesta.dialects.core.devices import DeviceTraits
from cuesta.dialects.core.structs import struct
from cuesta.targets.program import BoundSite, DeviceKernel, DeviceRun, NativeFunction, SharedLibrary

if TYPE_CHECKING:
    from cuesta.dialects.kernel import FuncOp


@struct
class Launch:
    """One launch of a run: the kernel, and for each of its pointers the run's parameter and how many bytes after it the
    pointer lies; `unaligned` are those that need not be multiples of 16. Blocks of scratch memory are counted on after
    the addresses among the parameters.
    """

    kernel: str
    pointers: tuple[tuple[int, int], ...]
    unaligned: tuple[tuple[int, int], ...] = ()


@struct
class Run:
    """Launches in order on one device, over `pointers` addresses and then the symbols: integers of 64 bits, all."""

    name: str
    device: str
    pointers: int
    symbols: tuple[str, ...]
    launches: tuple[Launch, ...]
    scratch: tuple[int, ...] = ()
    """The bytes of blocks of memory that the run has while it runs, aligned as tensors are."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names for them: `a0`, `a1`, … for the addresses, and the symbols."""
        return (*(f"a{place}" for place in range(self.pointers)), *self.symbols)

    @property
    def function(self) -> NativeFunction:
        """The run as a function that takes what it is over, and nothing else."""
        return NativeFunction(self.name, self.pointers + len(self.symbols))


@struct
class Code:
    """What a target made of its runs: each is one of `functions` (in the object code), `device_runs` or `libraries`."""

    functions: tuple[NativeFunction, ...] = ()
    device_kernels: tuple[DeviceKernel, ...] = ()
    device_runs: tuple[DeviceRun, ...] = ()
    libraries: tuple[SharedLibrary, ...] = ()
    in_process: Mapping[str, Callable[..., Any]] = field(default_factory=dict[str, "Callable[..., Any]"])
    """Functions that only this process has, by the names of runs. A program that has any is not kept on disk."""


class Build:
    """Kernels on their way to code. `texts`, `begin`, `native`, `finish` and `code` are called in this order; `native`
    and `code` again, for fewer runs, when `finish` says that kernels failed.
    """

    def texts(self) -> Mapping[str, str]:
        """Files of a dump: names and contents."""
        return {}

    def text_of(self, kernel: str) -> tuple[str, str] | None:
        """The text made of a kernel, and what such files end in, for the report of one that failed."""
        return None

    def begin(self) -> None:
        """Begins what takes long, in other threads or processes."""

    def native(self, runs: Sequence[Run], sites: list[BoundSite]) -> str:
        """LLVM text that the object code of the program is to hold; it defines functions of the names of `runs`.

        `sites` are the program's so far: error code k stands for the k-th. What can fail appends to them.
        """
        return ""

    def finish(self) -> Mapping[str, Exception]:
        """Waits; the kernels of which no code can be made, and why. They run through the target's `stand_in`."""
        return {}

    def code(self, runs: Sequence[Run], sites: list[BoundSite]) -> Code:
        """What was made. `sites` as for `native`."""
        return Code(functions=tuple(run.function for run in runs))


class Target:
    """One way to run kernels. Instances hold nothing that depends on a program."""

    name: str
    devices: tuple[str, ...] = ()
    """The types of devices whose kernels it makes: `cpu`, `cuda`."""
    traits: DeviceTraits | None = None
    """What passes may know of them; None is what holds of such devices anyway (`dialects/core/devices.py`)."""
    takes_tensors: bool = False
    """Whether there are no runs: a wrapper calls `stand_in` of each kernel with tensors."""
    adds_offsets: bool = False
    """Whether a run is given one address for all pointers that lie so many bytes after it, and told which pointers need
    not be aligned.
    """
    reports: bool = False
    """Whether kernels that check addresses (`kernel.within`) are given one more pointer after their buffers, to rows of
    a report that the wrapper reads; otherwise `call` says what comes of a check.
    """
    scratch: int = 0
    """The most bytes of scratch memory that a run may have: for buffers that nobody sees before or after it."""
    names: tuple[str, ...] = ()
    """What `call` and `queue` use beside the run and its arguments."""

    def obstacle(self, device: str) -> str | None:
        """Why it cannot be used for a device here; None if it can. Said after "there is no target for the device"."""
        return None

    def key_lines(self) -> Sequence[str]:
        """What its code depends on beside the program: versions, the machine. Parts of the key of the cache."""
        return ()

    def facts(self, device: str) -> Mapping[str, int | float]:
        """Facts of the `Machine` that a device knows, by name: what schedules are chosen by."""
        return {}

    def prepare(self, ops: int) -> None:
        """A graph with so many ops on its devices is about to be compiled."""

    def start(self, kernels: Mapping[str, FuncOp], wanted: Sequence[tuple[str, str]]) -> Build:
        """Begins to make code of the kernels that `wanted` names, each with the device it is launched on.

        Errors: CuestaError when none of it can be; what one kernel alone cannot, `Build.finish` says.
        """
        return Build()

    def call(self, run: str, arguments: Sequence[str]) -> str:
        """The wrapper's statement that calls a run. By default the run gives 0, or the address of the record
        { site, value, size } of the first index out of range, three integers of 64 bits; then it launches nothing
        more. The record is of this call alone, as other threads call the run, too: memory of `malloc`, which is given
        back when the error is raised.
        """
        return f"if error := {run}({', '.join(arguments)}): raise_index_error(error)"

    def queue(self, device: str) -> str | None:
        """An expression that a wrapper evaluates once, before the first run on a device: the runs' first argument."""
        return None

    def stand_in(self, kernel: FuncOp) -> Callable[..., None]:
        """A function of a kernel's tensors, and then its symbols, that does what a launch does; by the interpreter."""
        from cuesta.targets.reference.stand_in import stand_in

        return stand_in(kernel)


__all__ = ["Build", "Code", "Launch", "Run", "Target"]
