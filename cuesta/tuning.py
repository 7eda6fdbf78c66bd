"""How long programs take on a device, for the stages that ask it to choose by; it is kept on disk.

compile every program of every question · make up arguments · time the programs of a question in turns · remember
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuesta.caching.cache import DiskCache, shrink, warn_of_folder
from cuesta.caching.files import RefusedError, RefusedFolderError, read_file, write_file
from cuesta.dialects.core.structs import struct
from cuesta.options import Options
from cuesta.record import CompileRecord

if TYPE_CHECKING:
    import torch
    from xdsl.dialects.builtin import ModuleOp

    from cuesta.dialects.kernel import FuncOp
    from cuesta.pipeline import Stage
    from cuesta.targets.target import Target

Function = Callable[[list[Any]], Sequence[Any]]
"""A compiled program: takes a list of arguments and empties it."""
Timer = Callable[[Sequence[Function], Sequence[Any], str], Sequence[float]]
"""How long each function takes on a device with the same arguments, in µs; infinity for one that fails."""

BY_DEFAULT = ("measure-layouts", "measure-parts", "measure-unsure")
"""The stages that ask a device where nothing says that all is to be tuned."""
ASKING = ("tune-kernels", *BY_DEFAULT)
"""All stages that ask one."""
_SUFFIX = ".times"
FLUSHED = 256 << 20
"""Bytes written between two runs, so that no run finds its arguments in the cache."""
MICROSECONDS = 20_000.0
"""What the runs of one question take together, about."""
FEWEST, MOST = 5, 40
"""Runs of each program; one is enough where they take so long together that nothing else can be meant."""
LONG = 100_000.0
"""Microseconds from which on one is."""
HOPELESS, SOON = 3.0, 500.0
"""What takes so many times as long as the fastest, the first time that it is timed, is not run again, unless it takes
less than so many us: the host may have been what was waited for.
"""
SHARE = 256
"""The answers on disk may take so small a part of the bytes that the cache may."""
AHEAD = 2_000_000
"""Clock cycles for which the device waits at first, so that the host is never what it waits for."""


@dataclass
class Tuner:
    """Measures programs: a `lowering.tune_kernels.Measure`."""

    stages: Sequence[Stage]
    """What takes a program from `loops`, ready to schedule, to `host`."""
    timer: Timer
    kept: Timings | None = None
    log: list[str] = field(default_factory=list[str])
    """What was asked and answered, to be read."""

    def __call__(self, questions: Sequence[Sequence[ModuleOp]]) -> list[list[float]]:
        """The times of every program of every question."""
        from cuesta.dialects.core.locations import print_text

        texts = [[print_text(program) for program in question] for question in questions]
        keys = ["" if self.kept is None else self.kept.key_of(one) for one in texts]
        answers = [
            None if self.kept is None else self.kept.load(key, len(one)) for key, one in zip(keys, texts, strict=True)
        ]
        self.log += [
            entry for times, one in zip(answers, texts, strict=True) if times for entry in told("from disk", times, one)
        ]
        open_ones = [position for position, times in enumerate(answers) if times is None]
        lowered = self.lowered([questions[position] for position in open_ones])
        for position, modules in zip(open_ones, lowered, strict=True):
            times = answers[position] = self.measured(questions[position], modules)
            if self.kept is not None and any(map(math.isfinite, times)):  # or else it may go better another time
                self.kept.store(keys[position], times)
            self.log += told("measured", times, texts[position])
        return [times or [] for times in answers]

    def lowered(self, questions: Sequence[Sequence[ModuleOp]]) -> list[list[ModuleOp | None]]:
        """Every program at the level `host`, with its kernels compiled, side by side; None where one cannot be."""
        found = [[self.to_host(program) for program in question] for question in questions]
        every = [module for question in found for module in question if module is not None]
        bad = unfit(every)
        return [[None if module in bad else module for module in question] for question in found]

    def to_host(self, program: ModuleOp) -> ModuleOp | None:
        """A copy of a program, taken down; None when its choices are not possible."""
        from cuesta.context import make_context
        from cuesta.dialects.core.diagnostics import CuestaError
        from cuesta.pipeline import run_pipeline

        module = program.clone()
        try:
            run_pipeline(make_context(), module, self.stages)
        except CuestaError:
            return None
        return module

    def measured(self, question: Sequence[ModuleOp], modules: Sequence[ModuleOp | None]) -> list[float]:
        """The times of a question as they are now; `modules` are its programs, taken down."""
        import torch

        times: Sequence[float] = []
        with for_real():
            built = [None if module is None else self.build(module) for module in modules]
            functions = [function for function in built if function is not None]
            if len(functions) > 1:
                try:
                    times = self.timer(functions, arguments_of(question[0]), device_of_program(question[0]))
                except torch.cuda.OutOfMemoryError:  # then the default it is
                    times = [math.inf] * len(functions)
            elif functions:
                times = [0.0]  # nothing to compare it with
        rest = iter(times)
        return [math.inf if function is None else next(rest) for function in built]

    def build(self, module: ModuleOp) -> Function | None:
        """A program at the level `host` as a function; None when the device refuses it."""
        from cuesta.code_generation import generate
        from cuesta.finishing import load_program
        from cuesta.targets.program import CudaError

        record = CompileRecord(kind="inference")
        generated = generate(module, record)
        try:
            return None if generated.in_eager else load_program(generated.program, record)
        except CudaError:
            return None


@contextmanager
def for_real() -> Iterator[None]:
    """The `with` block in which torch computes, although a graph is being compiled: no fake tensors, no gradients."""
    import torch
    from torch.utils._python_dispatch import (
        _disable_current_modes,  # pyright: ignore[reportPrivateUsage]  # what torch's own compiler tunes under
    )

    with _disable_current_modes(), torch.no_grad():
        yield


def told(how: str, times: Sequence[float], texts: Sequence[str]) -> list[str]:
    """A question and its answer, to be read."""
    return [f"// {how}, µs: {'  '.join(f'{time:.1f}' for time in times)}", *texts]


def unfit(modules: Sequence[ModuleOp]) -> set[ModuleOp]:
    """Compiles the kernels of programs at the level `host` for their devices, side by side; gives the programs that
    have one which cannot be compiled. What was compiled is at hand when the programs are built.
    """
    from cuesta.targets.host.wrapper import WrapperWriter

    kernels: dict[str, FuncOp] = {}
    wanted: dict[Target, dict[tuple[str, str], None]] = {}
    owners: dict[str, ModuleOp] = {}
    for number, module in enumerate(modules):
        writer = WrapperWriter(module)
        for target, runs in writer.write().runs_by_target().items():
            for name, device in ((launch.kernel, run.device) for run in runs for launch in run.launches):
                own = f"{number} {name}"
                kernels[own], owners[own] = writer.kernels[name], module
                wanted.setdefault(target, {})[own, device] = None
    builds = [target.start(kernels, tuple(names)) for target, names in wanted.items()]
    for build in builds:
        build.begin()
    return {owners[name] for build in builds for name in build.finish()}


def tuners_for(options: Options, stages: Sequence[Stage]) -> dict[str, Tuner]:
    """The tuners of a compilation whose stages these are, by the labels of those that ask: what each asks about goes
    through the stages behind it, none of which asks in turn. They share a log.
    """
    kept, log = Timings.chosen_by(options), list[str]()
    return {
        stage.label: Tuner([one for one in stages[position:] if one.label not in ASKING], cuda_timer, kept, log)
        for position, stage in enumerate(stages)
        if stage.label in ASKING
    }


def arguments_of(program: ModuleOp) -> list[torch.Tensor]:
    """Made-up arguments of the types that a program takes: floats are normal, integers are 0."""
    import torch

    from cuesta.dialects.aten.dtypes import type_to_dtype
    from cuesta.dialects.core.entry import entry_block
    from cuesta.dialects.layout import device_of, sizes_of, strides_of, tensor_type_of

    generators: dict[str, torch.Generator] = {}  # the user's numbers are not touched
    found: list[torch.Tensor] = []
    for argument in entry_block(program).args:
        kind = tensor_type_of(argument)
        # None of a question's sizes is symbolic.
        sizes = [size for size in sizes_of(kind) if isinstance(size, int)]
        strides = [stride for stride in strides_of(kind) if isinstance(stride, int)]
        extent = 0 if 0 in sizes else 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        dtype = getattr(torch, type_to_dtype(kind.element_type))
        device = device_of(kind)
        memory = torch.zeros(extent, dtype=dtype, device=device)
        if dtype.is_floating_point and dtype.itemsize > 1:
            memory.normal_(generator=generators.setdefault(device, torch.Generator(device)))
        found.append(memory.as_strided(sizes, strides))
    return found


def device_of_program(program: ModuleOp) -> str:
    """Where a program computes what it returns; it may take nothing."""
    from cuesta.dialects.core.entry import entry_block
    from cuesta.dialects.layout import device_of, tensor_type_of

    end = entry_block(program).last_op
    assert end is not None
    return device_of(tensor_type_of(end.operands[0]))


def cuda_timer(functions: Sequence[Function], arguments: Sequence[Any], device: str) -> list[float]:
    """The median times on a device, by CUDA events, of functions that take turns."""
    import torch

    with torch.cuda.device(device):
        flushed = torch.empty(FLUSHED, dtype=torch.int8, device="cuda")

        def run(function: Function) -> tuple[torch.cuda.Event, torch.cuda.Event]:
            flushed.zero_()
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            function(list(arguments))
            end.record()
            return start, end

        first: list[float] = []
        for function in functions:
            try:
                function(list(arguments))
                start, end = run(function)
                torch.cuda.synchronize()
                first.append(start.elapsed_time(end) * 1e3)
            except RuntimeError:  # more registers or shared memory than there are
                first.append(math.inf)
        alive = worth_timing(first)
        rounds = rounds_for(sum(first[position] for position in alive))
        torch.cuda._sleep(AHEAD)  # pyright: ignore[reportPrivateUsage, reportUnknownMemberType]  # what torch's own benchmarks use
        events = [[run(functions[position]) for position in alive] for _ in range(rounds)]
        torch.cuda.synchronize()
    times = list(first)
    for number, position in enumerate(alive):
        times[position] = statistics.median(row[number][0].elapsed_time(row[number][1]) * 1e3 for row in events)
    return times


def worth_timing(first: Sequence[float]) -> list[int]:
    """The positions of what is run again, by how long each took the first time."""
    most = max(SOON, HOPELESS * min(first, default=math.inf))
    return [position for position, time in enumerate(first) if math.isfinite(time) and time <= most]


def rounds_for(together: float) -> int:
    """How often programs are run that take so many us together."""
    return max(FEWEST if together < LONG else 1, min(MOST, int(MICROSECONDS / max(1.0, together))))


@struct
class Timings:
    """What was measured, on disk: a file for every question, `<key>.times`, with one line of JSON and its checksum; at
    most `limit` bytes in all.
    """

    folder: Path
    limit: int

    @classmethod
    def chosen_by(cls, options: Options) -> Timings | None:
        """The folder beside that of the cache; None when the cache is off, or nobody can say what an extension is."""
        from cuesta.caching.key import why_unnamable

        cache = DiskCache.chosen_by(options)
        return (
            None
            if cache is None or why_unnamable() is not None
            else cls(cache.folder.parent / "timings", cache.limit // SHARE)
        )

    def key_of(self, texts: Sequence[str]) -> str:
        """The name of a question: its programs, who compiles them, and the devices that there are."""
        from cuesta.caching.key import compiler_lines

        return hashlib.sha256("\n\0".join([*compiler_lines(), *texts]).encode()).hexdigest()

    def load(self, key: str, count: int) -> list[float] | None:
        """The times of a question of `count` programs, if they are known; they count as used now. A damaged file is as
        good as none.
        """
        path = self.path(key)
        try:
            line, digest = read_file(path, self.limit).decode().splitlines()
        except RefusedFolderError as error:
            warn_of_folder(self.folder, error)
            return None
        except (OSError, ValueError, MemoryError, RefusedError):
            return None
        if hashlib.sha256(line.encode()).hexdigest() != digest:
            return None
        with suppress(OSError):  # removed by another process just now, or a folder that we may only read
            os.utime(path)
        times = [math.inf if time is None else float(time) for time in json.loads(line)]
        return times if len(times) == count else None

    def store(self, key: str, times: Sequence[float]) -> None:
        """Keeps the times of a question; a folder that cannot be written keeps nothing."""
        line = json.dumps([None if math.isinf(time) else round(time, 3) for time in times])
        text = f"{line}\n{hashlib.sha256(line.encode()).hexdigest()}\n"
        try:
            write_file(self.path(key), text.encode())
            shrink(self.folder, _SUFFIX, self.limit)
        except RefusedFolderError as error:
            warn_of_folder(self.folder, error)
        except OSError:  # the cache, beside which it lies, says so
            return

    def path(self, key: str) -> Path:
        """The file of a question's times."""
        return self.folder / f"{key}{_SUFFIX}"
