"""Kernels and runs of launches → one LLVM module.

A *run* is a sequence of launches with no library call between them: one native function, called once.

    define i64 @run_0(ptr %a0, ptr %a1, …, i64 %s0, …)

It returns 0, or the address of the record { site, value, size } of the first index found out of range. Then no later
launch runs, which may write to what the caller holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from cuesta.dialects import kernel, sym
from cuesta.dialects.core.structs import struct
from cuesta.targets.cpu.emit_index import symbolic_value
from cuesta.targets.cpu.emit_kernel import KernelEmitter
from cuesta.targets.cpu.openmp import PARALLEL_FOR, parallel_for_text
from cuesta.targets.cpu.vector_math import MathFunction
from cuesta.targets.program import BoundSite

_RUNTIME = """\
@cuesta.error = internal global { i64, i64, i64 } zeroinitializer
@cuesta.sink = internal global [64 x i8] zeroinitializer, align 64

define internal void @cuesta.report(i64 %site, i64 %value, i64 %size) noinline cold nounwind {
  %first = cmpxchg ptr @cuesta.error, i64 0, i64 %site monotonic monotonic
  %won = extractvalue { i64, i1 } %first, 1
  br i1 %won, label %write, label %done
write:
  store i64 %value, ptr getelementptr inbounds ({ i64, i64, i64 }, ptr @cuesta.error, i64 0, i32 1)
  store i64 %size, ptr getelementptr inbounds ({ i64, i64, i64 }, ptr @cuesta.error, i64 0, i32 2)
  br label %done
done:
  ret void
}
"""


@struct
class Launch:
    """One launch of a run: the kernel, and for each of its pointers the run's parameter."""

    kernel: str
    parameters: tuple[int, ...]


@struct
class Run:
    """Launches in order, over `pointers` pointer parameters and then the symbols."""

    name: str
    pointers: int
    symbols: tuple[str, ...]
    launches: tuple[Launch, ...]


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
    failing: set[str] = set()
    for name in used:
        known = len(sites)
        emitted = KernelEmitter(kernels[name], sites).emit()
        if len(sites) > known:
            failing.add(name)
        texts.append(emitted.text)
        functions.update(emitted.functions)
    texts += [_emit_run(run, kernels, failing) for run in runs]
    declarations = sorted({line for function in functions.values() for line in function.declarations})
    # An intrinsic's declaration is implied by its call.
    declared = [line for line in declarations if "@llvm." not in line]
    head = [_RUNTIME, parallel_for_text(), "\n".join(declared)]
    text = "\n".join([*head, *(function.definition for function in functions.values()), *texts])
    return EmittedModule(text, tuple(sites))


def _emit_run(run: Run, kernels: Mapping[str, kernel.FuncOp], failing: Set[str]) -> str:
    parameters = [f"i64 %a{k}" for k in range(run.pointers)] + [f"i64 %s.{symbol}" for symbol in run.symbols]
    lines: list[str] = []
    entry: list[str] = []
    for number, launch in enumerate(run.launches):
        func = kernels[launch.kernel]
        values = [f"%a{k}" for k in launch.parameters] + [f"%s.{symbol}" for symbol in func.symbols]
        args = f"%args{number}"
        entry.append(f"{args} = alloca [{len(values)} x i64], align 8")
        for slot, value in enumerate(values):
            lines.append(f"{args}.{slot} = getelementptr inbounds i64, ptr {args}, i64 {slot}")
            lines.append(f"store i64 {value}, ptr {args}.{slot}, align 8")
        count = grid_volume(func, number, lines)
        if func.schedule.choices.get("parallel", 0):
            grain = func.schedule.choices.get("grain", 1)
            lines.append(f"call void @{PARALLEL_FOR}(ptr @{launch.kernel}, ptr {args}, i64 {count}, i64 {grain})")
        else:
            lines.append(f"call void @{launch.kernel}(ptr {args}, i64 0, i64 {count})")
        if launch.kernel in failing:
            lines.append(f"%site{number} = load i64, ptr @cuesta.error, align 8")
            lines.append(f"%bad{number} = icmp ne i64 %site{number}, 0")
            lines.append(f"br i1 %bad{number}, label %failed, label %next{number}\nnext{number}:")
    if any(launch.kernel in failing for launch in run.launches):
        lines.append("ret i64 0\nfailed:\n  ret i64 ptrtoint (ptr @cuesta.error to i64)")
    else:
        lines.append("ret i64 0")
    body = "\n  ".join([*entry, *lines])
    return f"""define i64 @{run.name}({", ".join(parameters)}) nounwind {{
  {body}
}}
"""


def grid_volume(func: kernel.FuncOp, number: int, lines: list[str]) -> str:
    """How many programs a launch has: a number, or the name of what lines appended to `lines` compute."""
    volume: sym.IndexExpr = 1
    for size in func.schedule.grid:
        volume = volume * size
    if isinstance(volume, int):
        return str(volume)
    return symbolic_value(volume, {symbol: f"%s.{symbol}" for symbol in func.symbols}, f"%g{number}.", lines)
