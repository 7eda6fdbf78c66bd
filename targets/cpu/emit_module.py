"""Kernels and runs of launches → one LLVM module.

A *run* is a sequence of launches with no library call between them: one native function, called once.

    run_0(a0, a1, …, s0, …)        addresses, and then symbols; `python_calls.py` says how it is called

It returns 0, or the address of the record { site, value, size } of the first index found out of range; what comes after
the launch that found it is not launched, as it may write to an argument. A call has a record of its own, on its stack,
which its kernels are given; only one that was written is copied to memory of its own, which who reads it gives back. So
calls in other threads see nothing of it, and a call where nothing fails pays nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from cuesta.dialects import kernel
from cuesta.dialects.core.structs import struct
from cuesta.targets.cpu.alike import Shared, apart, shared
from cuesta.targets.cpu.emit_index import symbolic_value
from cuesta.targets.cpu.emit_kernel import KernelEmitter
from cuesta.targets.cpu.openmp import PARALLEL_FOR, parallel_for_text
from cuesta.targets.cpu.python_calls import emit_function
from cuesta.targets.cpu.vector_math import MathFunction
from cuesta.targets.program import BoundSite

_RUNTIME = """\
@cuesta.sink = internal global [64 x i8] zeroinitializer, align 64

declare ptr @malloc(i64) nounwind

; The threads of one call share its record: the first to fail writes it.
define internal void @cuesta.report(ptr %record, i64 %site, i64 %value, i64 %size) noinline cold nounwind {
  %first = cmpxchg ptr %record, i64 0, i64 %site monotonic monotonic
  %won = extractvalue { i64, i1 } %first, 1
  br i1 %won, label %write, label %done
write:
  %value.place = getelementptr inbounds i64, ptr %record, i64 1
  store i64 %value, ptr %value.place, align 8
  %size.place = getelementptr inbounds i64, ptr %record, i64 2
  store i64 %size, ptr %size.place, align 8
  br label %done
done:
  ret void
}

; The address of a copy that outlives the call; -1 where there is no memory for it.
define internal i64 @cuesta.hand_out(ptr %record) noinline cold nounwind {
  %copy = call ptr @malloc(i64 24)
  %none = icmp eq ptr %copy, null
  br i1 %none, label %done, label %write
write:
  %held = load [3 x i64], ptr %record, align 8
  store [3 x i64] %held, ptr %copy, align 8
  br label %done
done:
  %address = ptrtoint ptr %copy to i64
  %told = select i1 %none, i64 -1, i64 %address
  ret i64 %told
}
"""


@struct
class Launch:
    """One launch of a run: the kernel, and for each of its pointers the run's parameter, or a block of its scratch
    memory, which are counted on after those, and how many bytes after that it lies.
    """

    kernel: str
    pointers: tuple[tuple[int, int], ...]


@struct
class Run:
    """Launches in order, over `pointers` pointer parameters and then the symbols."""

    name: str
    pointers: int
    symbols: tuple[str, ...]
    launches: tuple[Launch, ...]
    scratch: tuple[int, ...] = ()
    """The bytes of blocks of memory that are there while it runs."""


@struct
class EmittedModule:
    """The text of a module, and the bounds that its error codes (1, 2, …) stand for."""

    text: str
    sites: tuple[BoundSite, ...]


def emit_module(
    kernels: Mapping[str, kernel.FuncOp], runs: Sequence[Run], sites: list[BoundSite] | None = None
) -> EmittedModule:
    """The module of all kernels that the runs launch, each once, and one exported function per run. Bounds are counted
    on from those in `sites`.
    """
    sites = [] if sites is None else sites
    functions: dict[str, MathFunction] = {}
    texts: list[str] = []
    used = {launch.kernel: None for run in runs for launch in run.launches}
    alike = shared([kernels[name] for name in used])
    failing: set[str] = set()
    for name in used:
        one = alike.get(name)
        if one is not None and one.func.sym_name != name:
            continue
        emitted = None
        if one is not None:
            emitter = KernelEmitter(one.func, sites, one.lengths)
            emitted = emitter.emit()
            if emitter.in_pieces:
                alike = apart(alike, kernels, name, emitter.in_pieces)
                emitted = emitted if name in alike else None
        if emitted is None:
            emitted = KernelEmitter(kernels[name], sites).emit()
        texts.append(emitted.text)
        functions.update(emitted.functions)
        if emitted.reports:
            failing.add(name)
    texts += [_emit_run(run, kernels, alike, failing) for run in runs]
    declarations = sorted({line for function in functions.values() for line in function.declarations})
    # An intrinsic's declaration is implied by its call.
    declared = [line for line in declarations if "@llvm." not in line]
    head = [_RUNTIME, parallel_for_text(), "\n".join(declared)]
    text = "\n".join([*head, *(function.definition for function in functions.values()), *texts])
    return EmittedModule(text, tuple(sites))


def _emit_run(
    run: Run, kernels: Mapping[str, kernel.FuncOp], alike: Mapping[str, Shared], failing: AbstractSet[str]
) -> str:
    """One run. The kernels that are `failing` take the record's address after all else."""
    parameters = [f"%a{k}" for k in range(run.pointers)] + [f"%s.{symbol}" for symbol in run.symbols]
    lines: list[str] = []
    entry: list[str] = []
    may_fail = any(launch.kernel in failing for launch in run.launches)
    if may_fail:
        entry.append("%record = alloca [3 x i64], align 8")
        lines.append("store i64 0, ptr %record, align 8")
        lines.append("%record.address = ptrtoint ptr %record to i64")
    for number, size in enumerate(run.scratch):
        entry.append(f"%scratch{number} = alloca [{size} x i8], align {_ALIGNMENT}")
        lines.append(f"%a{run.pointers + number} = ptrtoint ptr %scratch{number} to i64")
    for number, launch in enumerate(run.launches):
        func = kernels[launch.kernel]
        values = [_address(number, launch, slot, lines) for slot in range(len(launch.pointers))]
        values += [f"%s.{symbol}" for symbol in func.symbols]
        name = launch.kernel
        if (one := alike.get(name)) is not None:
            name = one.func.sym_name
            values += [str(value) for value in one.values]
        if name in failing:
            values.append("%record.address")
        args = f"%args{number}"
        entry.append(f"{args} = alloca [{len(values)} x i64], align 8")
        for slot, value in enumerate(values):
            lines.append(f"{args}.{slot} = getelementptr inbounds i64, ptr {args}, i64 {slot}")
            lines.append(f"store i64 {value}, ptr {args}.{slot}, align 8")
        count = grid_volume(func, number, lines)
        if func.schedule.choices.get("parallel", 0):
            grain = func.schedule.choices.get("grain", 1)
            lines.append(f"call void @{PARALLEL_FOR}(ptr @{name}, ptr {args}, i64 {count}, i64 {grain})")
        else:
            lines.append(f"call void @{name}(ptr {args}, i64 0, i64 {count})")
        if launch.kernel in failing:
            lines.append(f"%site{number} = load i64, ptr %record, align 8")
            lines.append(f"%good{number} = icmp eq i64 %site{number}, 0")
            lines.append(f"br i1 %good{number}, label %after{number}, label %failed")
            lines.append(f"after{number}:")
    body = "\n  ".join([*entry, *lines])
    return emit_function(run.name, parameters, f"  {body}\n  ret i64 0\n{_FAILED if may_fail else ''}")


def _address(number: int, launch: Launch, slot: int, lines: list[str]) -> str:
    """The value of a pointer of a launch."""
    parameter, offset = launch.pointers[slot]
    if not offset:
        return f"%a{parameter}"
    lines.append(f"%at{number}.{slot} = add i64 %a{parameter}, {offset}")
    return f"%at{number}.{slot}"


_ALIGNMENT = 64
"""Bytes. Source: `gAlignment` of c10/core/alignment.h: tensors of the CPU begin at multiples of it."""

_FAILED = """\
failed:
  %where = call i64 @cuesta.hand_out(ptr %record)
  ret i64 %where
"""


def grid_volume(func: kernel.FuncOp, number: int, lines: list[str]) -> str:
    """How many programs a launch has: a number, or the name of what lines appended to `lines` compute."""
    volume = func.launched
    if isinstance(volume, int):
        return str(volume)
    return symbolic_value(volume, {symbol: f"%s.{symbol}" for symbol in func.symbols}, f"%g{number}.", lines)
