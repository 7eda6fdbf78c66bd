"""`measure-layouts`: a library's convolutions are timed on the device with images in either layout.

    %y = loops.extern pure "aten.convolution.default"(%x, %w, …)
    →
    %y = loops.extern pure "aten.convolution.default"(%x, %w, …) {times = {channels_first = 31.2 : f64, …}}

What a library is fast in depends on sizes, windows, groups and types in ways that no table of kinds says: 1 to 17 % of
the calls of a kind take more than twice as long in the layout that the kind is best in. `assign-layouts` weighs what is
stated here against copies and nests around the call. Without a device to ask nothing changes, and the table it is.
Answers are kept on disk.
"""

from __future__ import annotations

import math

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from cuesta.dialects import loops
from cuesta.dialects.core.entry import entry_block, entry_function
from cuesta.dialects.core.fingerprint import Fingerprint, fingerprint
from cuesta.dialects.core.machine import Machine, machine_of
from cuesta.dialects.core.structs import struct
from cuesta.dialects.core.tracing import no_match
from cuesta.dialects.layout import is_tensor, is_tensor_type, sizes_of, tensor_type_of, traits_of
from cuesta.dialects.loops.analysis import byte_width
from cuesta.lowering.schedule.tune_kernels import asked_of, outer_values, program_of
from cuesta.transforms.tilings.times import CLOCK
from cuesta.transforms.views.assign_layouts import tell_caller
from cuesta.transforms.views.convolution_costs import TIMES, Convolution, LayoutTimes, state_times
from cuesta.transforms.views.images import channels_first, channels_last

LEAST = 1.0
"""Microseconds that a call takes at least, for it to be asked about, if nothing held it up.

Source: a choice: gradients of 50,000 points of 16 channels in four groups, of f32, should take 2 us: 100 (H200).
"""
MOST = 16
"""Calls of a program that are asked about: those that are thought to take longest.

Source: a bound against the time that asking takes: 0.1 s for each on an H200, which chooses a kernel for each layout.
"""


class MeasureLayoutsPass(ModulePass):
    """Lets convolutions of libraries on a GPU say how long they take with images in either layout.

    Near misses: a call that says so; one that has no choice, or is soon done; sizes that are known at run time only.
    """

    name = "measure-layouts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        machine = machine_of(op)
        measure = asked_of(machine)
        if measure is None:
            return
        asked: dict[Fingerprint, _Asked] = {}
        for call in [one for one in entry_block(op).ops if isinstance(one, loops.ExternOp)]:
            convolution = Convolution.of(call)
            if convolution is None:
                continue
            if (reason := obstacle(convolution)) is not None:
                no_match(call, f"its layouts are not timed: {reason}")
                continue
            program = in_layout(call, convolution, last=False)
            asked.setdefault(
                fingerprint(program), _Asked(convolution, program, work(convolution, machine), [])
            ).calls.append(call)
        longest = sorted(asked.values(), key=lambda one: one.work, reverse=True)[:MOST]
        found = [one for one in longest if one.work >= LEAST]
        questions = [[one.program, in_layout(one.calls[0], one.convolution, last=True)] for one in found]
        for one, (first, last) in zip(found, measure(questions) if questions else (), strict=True):
            for call in one.calls if math.isfinite(first) and math.isfinite(last) else ():
                state_times(call, LayoutTimes(first, last))


@struct
class _Asked:
    """A question, and the calls that it is about, which are alike."""

    convolution: Convolution
    program: ModuleOp
    """The first of them by itself, channels first."""
    work: float
    calls: list[loops.ExternOp]


def obstacle(convolution: Convolution) -> str | None:
    """Why a convolution is not asked about."""
    if not traits_of(convolution.result).tunes:
        return "it is not for a GPU"
    call = convolution.call
    if TIMES in call.attributes:
        return "it has times"
    if not convolution.has_choice:
        return "it has no choice"
    kinds = [value.type for value in (*call.operands, *call.results) if is_tensor_type(value.type)]
    if not all(isinstance(size, int) for kind in kinds for size in sizes_of(kind)):
        return "its sizes are not known"
    return None


def work(convolution: Convolution, machine: Machine) -> float:
    """Microseconds that a convolution takes about, where its sizes are numbers: as long as memory moves what it reads
    and writes, or as the processors multiply without other instructions.
    """
    image, weight, result = (
        [size for size in sizes_of(tensor_type_of(value)) if isinstance(size, int)]
        for value in (convolution.image, convolution.weight, convolution.result)
    )
    moved = (math.prod(image) + math.prod(result)) * byte_width(convolution.result)
    points = math.prod(image if convolution.is_transposed else result)
    products = points * math.prod(weight[1:])
    rates = machine.processors * CLOCK
    return max(1, convolution.passes) * (moved / machine.memory_rate + products / machine.instruction_rate) / rates


def in_layout(call: loops.ExternOp, convolution: Convolution, *, last: bool) -> ModuleOp:
    """A call by itself, with images in one layout. It takes them in both, so that all programs take the same; and says
    that it does not care, so that it stays as it is.
    """
    program = program_of([call])
    block = entry_block(program)
    places = {value: place for place, value in enumerate(outer_values([call]))}
    copy = next(op for op in block.ops if isinstance(op, loops.ExternOp))
    for place in sorted({places[image] for image in convolution.images}, reverse=True):
        image: SSAValue = block.args[place]
        other = block.insert_arg(channels_last(tensor_type_of(image)), place + 1)
        image = Rewriter.replace_value_with_new_type(image, channels_first(tensor_type_of(image)))
        if last:
            image.replace_all_uses_with(other)
    made = copy.results[convolution.call.results.index(convolution.made)]
    if is_tensor(made) and last:
        Rewriter.replace_value_with_new_type(made, channels_last(tensor_type_of(made)))
    state_times(copy, LayoutTimes(0.0, 0.0))
    main = entry_function(program)
    kind = main.properties["function_type"]
    assert isinstance(kind, FunctionType)
    main.properties["function_type"] = FunctionType.from_lists([one.type for one in block.args], list(kind.outputs))
    tell_caller(program)
    return program


__all__ = ["MeasureLayoutsPass", "in_layout", "obstacle", "work"]
