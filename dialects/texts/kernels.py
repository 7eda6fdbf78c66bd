"""Kernels of a text: what they may write to, how large they may be, and the schedules that there are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from xdsl.dialects.builtin import FixedBitwidthType, ModuleOp
from xdsl.ir import Operation

from cuesta.dialects import kernel, sym
from cuesta.dialects.core.contracts import Finding
from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.dialects.core.entry import symbol_ranges
from cuesta.dialects.kernel.descriptors import described_loads
from cuesta.dialects.kernel.shapes import shape_of_type
from cuesta.dialects.kernel.types import Choice, PointerType
from cuesta.dialects.sym.ranges import Space

MOST_LOCAL = 1 << 20
"""Bytes of scratch memory of a program: it lies on a thread's stack, of which there are a few megabytes."""

MOST_POINTS = 1 << 42
"""Points of a kernel, all loops counted: an hour of a thread, at the least."""

MOST_LANES_CPU = 1024
MOST_LANES_GPU = 65536
MOST_VALUES = 1 << 20
"""Elements of a vector: what Triton allows of a block."""

_ONLY_GPU = (
    kernel.AtomicOp,
    kernel.CarryOp,
    kernel.ContractOp,
    kernel.FactorsOp,
    kernel.FoldOp,
    kernel.MeetOp,
    kernel.PickOp,
)


def kernels_are_sane(module: ModuleOp) -> Iterator[Finding]:
    """A kernel writes to its outs and its own memory; its lanes, loops and scratch memory are such as machines have."""
    for func in module.body.ops:
        if isinstance(func, kernel.FuncOp):
            yield from _sizes(func, Space((), symbol_ranges(module)))
            yield from _writes(func)


def _sizes(func: kernel.FuncOp, space: Space) -> Iterator[Finding]:
    gpu = func.is_for_gpu
    for size in func.schedule.grid:
        if isinstance(size, int) and size < 0:
            yield func, f"the grid has {size} programs along an axis"
    local = 0
    for op in func.walk():
        if not gpu and isinstance(op, _ONLY_GPU):
            yield op, "the CPU target has none of these"
        if not gpu and isinstance(op, kernel.RunningOp) and op.backwards:
            yield op, "the CPU target has no running values that go backwards"
        if isinstance(op, kernel.LocalOp):
            pointer = op.result.type
            element = pointer.element_type if isinstance(pointer, PointerType) else None
            local += op.size * (element.size if isinstance(element, FixedBitwidthType) else 8)
            if local > MOST_LOCAL:
                yield op, f"{local} bytes of scratch memory are more than the {MOST_LOCAL} that a program may have"
        elif isinstance(op, kernel.LoopOp):
            most = MOST_LANES_GPU if gpu else MOST_LANES_CPU
            if op.lanes > most or op.lanes & (op.lanes - 1):
                yield op, f"{op.lanes} lanes: they are a power of two, up to {most}"
            for lower, upper in zip(op.lowers.results, op.uppers.results, strict=True):
                extent = upper - lower
                if isinstance(extent, int) and extent < 0:
                    yield op, f"from {sym.format_expr(lower)} to {sym.format_expr(upper)}: it ends before it begins"
        for result in op.results:
            if math.prod(shape_of_type(result.type)) > MOST_VALUES:
                yield op, f"{result.type} has more than {MOST_VALUES} elements"
    if (points := _points(func, space)) > MOST_POINTS:
        yield func, f"it has {points} points, more than anyone waits for"


def _points(func: kernel.FuncOp, space: Space) -> int:
    """How many points the deepest loops have, those of unknown extent taken as one."""
    programs = sym.product_of(func.schedule.grid)
    return (programs if isinstance(programs, int) else 1) * _points_in(func, space)


def _points_in(op: Operation, space: Space) -> int:
    most = 1
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                if isinstance(inner, kernel.LoopOp):
                    trip = 1
                    for lower, upper in zip(inner.lowers.results, inner.uppers.results, strict=True):
                        extent = upper - lower
                        trip *= max(0, extent) if isinstance(extent, int) else 1
                    most = max(most, trip * _points_in(inner, space))
    return most


def _writes(func: kernel.FuncOp) -> Iterator[Finding]:
    outs = set(func.outs)
    for op in func.walk():
        if not isinstance(op, kernel.MemoryWriteOp) or outs.issuperset(kernel.picked(op.pointer)):
            continue
        if not isinstance(op.pointer.owner, kernel.LocalOp):
            yield op, "writes to what is neither an out of the kernel nor memory of its own"


def _described(func: kernel.FuncOp) -> Iterator[Finding]:
    try:
        described_loads(func)
    except CuestaError as error:
        yield from ((func, one.message) for one in error.diagnostics)


def _power(least: int, most: int) -> Callable[[Choice], str]:
    def problem(value: Choice) -> str:
        fits = isinstance(value, int) and least <= value <= most and value & (value - 1) == 0
        return "" if fits else f"a power of two from {least} to {most}"

    return problem


def _number(least: int, most: int) -> Callable[[Choice], str]:
    def problem(value: Choice) -> str:
        fits = isinstance(value, int) and least <= value <= most
        return "" if fits else f"a number from {least} to {most}"

    return problem


def _word(*words: str | int) -> Callable[[Choice], str]:
    return lambda value: "" if value in words else " or ".join(map(str, words))


CHOICES: Mapping[str, Callable[[Choice], str]] = {
    "parallel": _word(0, 1),
    "grain": _number(1, 1 << 40),
    "unroll": _power(1, 16),
    "target": _word("cuda"),
    "warps": _power(1, 32),
    "index": _word(32, 64),
    "stages": _number(1, 16),
    "group": _number(1, 1 << 16),
    "reversed": _word(0, 1),
    "whole": _word(0, 1),
    "reread": _word(0, 1),
    "registers": _number(0, 255),
    "ahead": _number(1, 1 << 30),
    "programs": _number(1, 1 << 20),
    "descriptors": _word(0, 1),
    "lanes": _power(1, MOST_LANES_GPU),
    "threads": _number(1, 1024),
    "prefetch": _number(1, 1 << 20),
}
"""What a `#kernel.schedule` may say beside the grid, and for each what its values are."""


def schedules_are_known(module: ModuleOp) -> Iterator[Finding]:
    """Choices of a schedule have the names and values that there are."""
    for func in module.body.ops:
        if not isinstance(func, kernel.FuncOp):
            continue
        for name, value in func.schedule.data[1]:
            check = CHOICES.get(name)
            if check is None:
                yield func, f"no choice of a schedule is called {name}; there are {', '.join(CHOICES)}"
            elif wanted := check(value):
                yield func, f"the choice {name} of a schedule is {wanted}, not {value}"
            elif name == "ahead" and kernel.meeting_of(func) is None:
                yield func, "the choice ahead of a schedule is for programs that meet, by kernel.meet"
            elif name == "programs" and kernel.meeting_of(func) is not None:
                yield (
                    func,
                    "the choice programs of a schedule is for programs that wait for nobody, not for kernel.meet",
                )
            elif name == "descriptors" and value:
                yield from _described(func)


__all__ = ["CHOICES", "kernels_are_sane", "schedules_are_known"]
