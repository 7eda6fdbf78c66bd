"""Runs of launches on a CUDA device → LLVM text: one native function a run, as for runs of kernels on the CPU.

    run_0(first, stream, a0, a1, …, s0, …)

It launches what the run consists of from launch number `%first` on. It returns 0; or, when a launch was refused, the
number of that launch times 2³², and below that the driver's error or NOT_ALIGNED. So who calls it can mend what is
wrong and go on.

A run's function only writes its values: arguments, addresses so many bytes after them, sizes of grids. What is launched
with which of them is in tables, `@cuesta.launches` and `@cuesta.places`, which one function reads.

What it calls lies in memory that is written when the object code is loaded (`driver.py`): `@cuesta.launch` is the
address of `cuLaunchKernel`; `@cuesta.kernels` has for each kernel two records { function, threads, bytes of shared
memory }, of code for pointers that are multiples of 16 bytes, and of code for any, whose function is null until it is
needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cuesta.dialects import kernel
from cuesta.dialects.core.structs import struct
from cuesta.dialects.kernel.descriptors import Descriptor
from cuesta.targets.cpu.emit_module import grid_volume
from cuesta.targets.cpu.python_calls import emit_function
from cuesta.targets.program import KERNELS_SYMBOL, LAUNCH_SYMBOL, NOT_ALIGNED, POINTER_ALIGNMENT
from cuesta.targets.triton.emit_tensor_maps import ALIGNED_WORDS, MAP_WORDS, Maps

SCRATCH = 4
"""How many parameters a kernel may have after those of its text: Triton adds pointers to scratch memory (nowhere)."""

_INVALID_VALUE = 1
"""The driver's error for a grid that is too large. It takes fewer than 2³¹ programs."""

_RUNTIME = f"""\
%cuesta.kernel = type {{ ptr, i32, i32 }}
; The number of programs, or minus one minus the place of the value that it is; the kernel's first record; in the table
; of places, where this launch's begin; how many parameters it has, and after them, how many addresses to look at.
%cuesta.launched = type {{ i64, i64, i64, i64, i64 }}
@{LAUNCH_SYMBOL} = dso_local global ptr null
@{KERNELS_SYMBOL} = dso_local global [RECORDS x %cuesta.kernel] zeroinitializer, align 16

define internal i64 @cuesta.launch_kernel(ptr %kernel, i64 %programs, i64 %bits, ptr %stream, ptr %parameters) {{
  %none = icmp eq i64 %programs, 0
  br i1 %none, label %done, label %some
done:
  ret i64 0
some:
  %few = icmp ult i64 %programs, 2147483648
  br i1 %few, label %choose, label %refused
refused:
  ret i64 {_INVALID_VALUE}
choose:
  %low = and i64 %bits, {POINTER_ALIGNMENT - 1}
  %aligned = icmp eq i64 %low, 0
  %which = select i1 %aligned, i64 0, i64 1
  %code = getelementptr inbounds %cuesta.kernel, ptr %kernel, i64 %which
  %function = load ptr, ptr %code, align 8
  %missing = icmp eq ptr %function, null
  br i1 %missing, label %wanted, label %launch
wanted:
  ret i64 {NOT_ALIGNED}
launch:
  %threads.p = getelementptr inbounds %cuesta.kernel, ptr %code, i64 0, i32 1
  %threads = load i32, ptr %threads.p, align 8
  %shared.p = getelementptr inbounds %cuesta.kernel, ptr %code, i64 0, i32 2
  %shared = load i32, ptr %shared.p, align 4
  %grid = trunc i64 %programs to i32
  %call = load ptr, ptr @{LAUNCH_SYMBOL}, align 8
  %error = call i32 %call(ptr %function, i32 %grid, i32 1, i32 1, i32 %threads, i32 1, i32 1, i32 %shared, \
ptr %stream, ptr %parameters, ptr null)
  %wide = zext i32 %error to i64
  ret i64 %wide
}}

define internal i64 @cuesta.launch_all(i64 %first, i64 %end, ptr %launches, ptr %values, i64 %stream) nounwind {{
  %parameters = alloca [LONGEST x ptr], align 8
  %where = inttoptr i64 %stream to ptr
  br label %next
next:
  %number = phi i64 [ %first, %0 ], [ %number.1, %launched ]
  %any = icmp ult i64 %number, %end
  br i1 %any, label %one, label %done
done:
  ret i64 0
one:
  %launch = getelementptr inbounds %cuesta.launched, ptr %launches, i64 %number
  %said = load i64, ptr %launch, align 8
  %kernel.p = getelementptr inbounds %cuesta.launched, ptr %launch, i64 0, i32 1
  %kernel.n = load i64, ptr %kernel.p, align 8
  %kernel = getelementptr inbounds %cuesta.kernel, ptr @{KERNELS_SYMBOL}, i64 %kernel.n
  %begin.p = getelementptr inbounds %cuesta.launched, ptr %launch, i64 0, i32 2
  %begin = load i64, ptr %begin.p, align 8
  %places = getelementptr inbounds i32, ptr @cuesta.places, i64 %begin
  %count.p = getelementptr inbounds %cuesta.launched, ptr %launch, i64 0, i32 3
  %count = load i64, ptr %count.p, align 8
  %looked.p = getelementptr inbounds %cuesta.launched, ptr %launch, i64 0, i32 4
  %looked = load i64, ptr %looked.p, align 8
  %all = add i64 %count, %looked
  %computed = icmp slt i64 %said, 0
  br i1 %computed, label %compute, label %fill
compute:
  %size.n = sub i64 -1, %said
  %size.p = getelementptr inbounds i64, ptr %values, i64 %size.n
  %size = load i64, ptr %size.p, align 8
  br label %fill
fill:
  %programs = phi i64 [ %said, %one ], [ %size, %compute ]
  br label %parameter
parameter:
  %k = phi i64 [ 0, %fill ], [ %k.1, %parameter ]
  %place.p = getelementptr inbounds i32, ptr %places, i64 %k
  %place = load i32, ptr %place.p, align 4
  %value = getelementptr inbounds i64, ptr %values, i32 %place
  %target = getelementptr inbounds ptr, ptr %parameters, i64 %k
  store ptr %value, ptr %target, align 8
  %k.1 = add i64 %k, 1
  %more = icmp ult i64 %k.1, %count
  br i1 %more, label %parameter, label %look
look:
  %j = phi i64 [ %k.1, %parameter ], [ %j.1, %bit ]
  %bits = phi i64 [ 0, %parameter ], [ %bits.1, %bit ]
  %further = icmp ult i64 %j, %all
  br i1 %further, label %bit, label %go
bit:
  %bit.p = getelementptr inbounds i32, ptr %places, i64 %j
  %bit.n = load i32, ptr %bit.p, align 4
  %address.p = getelementptr inbounds i64, ptr %values, i32 %bit.n
  %address = load i64, ptr %address.p, align 8
  %bits.1 = or i64 %bits, %address
  %j.1 = add i64 %j, 1
  br label %look
go:
  %error = call i64 @cuesta.launch_kernel(ptr %kernel, i64 %programs, i64 %bits, ptr %where, ptr %parameters)
  %bad = icmp ne i64 %error, 0
  br i1 %bad, label %stop, label %launched
launched:
  %number.1 = add i64 %number, 1
  br label %next
stop:
  %high = shl i64 %number, 32
  %told = or i64 %high, %error
  ret i64 %told
}}
"""


@struct
class DeviceLaunch:
    """One launch of a run.

    `kernel` is the kernel's name, `position` its place among the program's kernels. `pointers` are, for each pointer of
    the kernel, the run's parameter and how many bytes after it the pointer lies; `unaligned` those among them that need
    not be multiples of 16.
    """

    kernel: str
    position: int
    pointers: tuple[tuple[int, int], ...]
    unaligned: tuple[tuple[int, int], ...]


@struct
class LaunchRun:
    """Launches in order on one device, over `pointers` pointer parameters and then the symbols."""

    name: str
    device: int
    pointers: int
    symbols: tuple[str, ...]
    launches: tuple[DeviceLaunch, ...]


@dataclass
class _Tables:
    """What the runs launch, so far: rows of `@cuesta.launches`, and `@cuesta.places`."""

    launches: list[str] = field(default_factory=list[str])
    places: list[int] = field(default_factory=list[int])
    longest: int = 1
    maps: Maps = field(default_factory=Maps)


def emit_launches(
    kernels: Mapping[str, kernel.FuncOp],
    descriptors: Mapping[str, Sequence[Descriptor]],
    runs: Sequence[LaunchRun],
    count: int,
) -> str:
    """The text of a module, or of a part of one, with a function for each run; there are `count` kernels, of which
    launches make `descriptors`.
    """
    tables = _Tables()
    functions = [_emit_run(run, kernels, descriptors, tables) for run in runs]
    runtime = _RUNTIME.replace("RECORDS", str(2 * count)).replace("LONGEST", str(tables.longest))
    rows = ", ".join(f"%cuesta.launched {row}" for row in tables.launches)
    places = ", ".join(f"i32 {place}" for place in tables.places)
    constants = (
        f"@cuesta.launches = internal constant [{len(tables.launches)} x %cuesta.launched] [{rows}], align 8\n"
        f"@cuesta.places = internal constant [{len(tables.places)} x i32] [{places}], align 4\n"
    )
    return "\n".join([runtime, tables.maps.text(), constants, *functions])


def _emit_run(
    run: LaunchRun,
    kernels: Mapping[str, kernel.FuncOp],
    descriptors: Mapping[str, Sequence[Descriptor]],
    tables: _Tables,
) -> str:
    arguments = [f"%a{k}" for k in range(run.pointers)] + [f"%s.{symbol}" for symbol in run.symbols]
    values = [*arguments, "0"]
    nothing = len(arguments)
    lines: list[str] = []
    known: dict[tuple[int, int], int] = {}
    maps: dict[tuple[int, Descriptor], int] = {}
    calls: list[str] = []

    def place_of(parameter: int, offset: int) -> int:
        """The place of the address so many bytes after a parameter."""
        if not offset:
            return parameter
        if (parameter, offset) not in known:
            known[parameter, offset] = len(values)
            lines.append(f"%v{len(values)} = add i64 {arguments[parameter]}, {offset}")
            values.append(f"%v{len(values)}")
        return known[parameter, offset]

    symbols = {symbol: run.pointers + place for place, symbol in enumerate(run.symbols)}
    first = len(tables.launches)
    for number, launch in enumerate(run.launches):
        func = kernels[launch.kernel]
        given = [place_of(*pointer) for pointer in launch.pointers] + [symbols[name] for name in func.symbols]
        for one in descriptors[launch.kernel]:
            address = place_of(*launch.pointers[one.pointer])
            if (address, one) not in maps:
                while len(values) % ALIGNED_WORDS:
                    values.append("0")
                maps[address, one] = len(values)
                values += [""] * MAP_WORDS
                calls.append(tables.maps.call(number, values[address], maps[address, one], one))
            # Its place, and what Triton passes besides: sizes and strides, which nothing reads.
            given += [maps[address, one], *[nothing] * (2 * len(one.sizes))]
        given += [nothing] * SCRATCH
        looked = [place_of(*pointer) for pointer in launch.unaligned]
        programs = grid_volume(func, number, lines)
        if programs.startswith("%"):
            values.append(programs)
            programs = str(-len(values))
        row = (programs, 2 * launch.position, len(tables.places), len(given), len(looked))
        tables.launches.append(f"{{ {', '.join(f'i64 {number}' for number in row)} }}")
        tables.places += [*given, *looked]
        tables.longest = max(tables.longest, len(given))
    for place, value in enumerate(values):
        if not value:  # a part of a descriptor
            continue
        lines.append(f"%p{place} = getelementptr inbounds i64, ptr %values, i64 {place}")
        lines.append(f"store i64 {value}, ptr %p{place}, align 8")
    body = "\n  ".join([*lines, *calls])
    row = f"getelementptr inbounds (%cuesta.launched, ptr @cuesta.launches, i64 {first})"
    body = f"""\
  %values = alloca [{len(values)} x i64], align {8 * ALIGNED_WORDS if maps else 8}
  {body}
  %told = call i64 @cuesta.launch_all(i64 %first, i64 {len(run.launches)}, ptr {row}, ptr %values, i64 %stream)
  ret i64 %told
"""
    return emit_function(run.name, ("%first", "%stream", *arguments), body)
