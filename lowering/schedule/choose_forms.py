"""`choose-forms`: tensor descriptors, and programs that do several tiles, for contractions that have their tiles.

    %y = loops.nest (%i : 4096, %j : 4096) … schedule #loops.schedule<rows = 128, columns = 256, depth = 64, …> { … }
    →
    %y = loops.nest (%i : 4096, %j : 4096) … schedule #loops.schedule<…, descriptors = 1, programs = 132> { … }

It is the last to look at a nest before its kernel is written: where factors lie is final, and whether a descriptor can
say so is asked of the kernel itself. Which form is the faster one is estimated (`transforms/products/tiles.py`). A
schedule that says `descriptors`, 0 or 1, or `programs` is left as it is.
"""

from __future__ import annotations

import math

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from cuesta.dialects import elem, kernel, loops
from cuesta.dialects.core.devices import traits_of_device
from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.fingerprint import Fingerprint, fingerprint
from cuesta.dialects.core.machine import Machine, machine_of
from cuesta.dialects.core.operation import ops_of
from cuesta.dialects.core.tracing import chose, no_match
from cuesta.dialects.kernel.descriptors import described_loads
from cuesta.dialects.layout import device_of, tensor_type_of
from cuesta.dialects.loops.analysis import NestAnalysis, analyse
from cuesta.lowering.kernel.loops_to_kernel import lower_nests
from cuesta.lowering.schedule.gpu.contractions import contractions_of
from cuesta.lowering.schedule.tune_kernels import program_of
from cuesta.transforms.products.tiles import FORMS, form_for


class ChooseFormsPass(ModulePass):
    """A contraction of two factors that lie as they are read  ->  the same, with descriptors and the number of programs

    Near misses: a schedule that says so itself; a machine without descriptors; a factor that is computed, has other
    than 16 bits, or lies as no descriptor says; several sums; sizes that only the call knows.
    """

    name = "choose-forms"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        known: dict[Fingerprint, dict[str, int] | str] = {}
        for nest in ops_of(entry_block(op)):
            if not isinstance(nest, loops.NestOp) or not _has_tiles(nest):
                continue
            key = fingerprint(nest)
            if key not in known:
                known[key] = form_of(nest, machine_of(op))
            form = known[key]
            if isinstance(form, str):
                no_match(nest, f"reads its factors by pointers, a program a tile: {form}")
                continue
            nest.properties["schedule"] = loops.ScheduleAttr.of({**nest.choices, **form})
            launched = form.get("programs", "one a tile")
            chose(nest, f"reads its factors by descriptors; programs of a launch: {launched}")


def _has_tiles(nest: loops.NestOp) -> bool:
    """Whether a nest is a contraction of the plain kind, and says nothing of its form."""
    choices = nest.choices
    if "depth" not in choices or not choices.keys().isdisjoint((*FORMS, "batch", "part")):
        return False
    return traits_of_device(device_of(tensor_type_of(nest.results[0]))).contractions


def form_of(nest: loops.NestOp, machine: Machine) -> dict[str, int] | str:
    """The choices that a contraction should have besides its own, or why none."""
    if not machine.has_descriptors:
        return "the machine has no tensor descriptors"
    if nest.operands:
        return "it changes what another nest made"
    analysis = analyse(nest, {}, [True] * len(nest.results))
    if any(loop.loops or not isinstance(loop.op, loops.ReduceOp) for loop in analysis.root.loops):
        return "it does more than to sum products"
    found = contractions_of(analysis, tf32=False)
    if isinstance(found, str):
        return found
    if len(found) > 1:
        return "it has several sums"
    loop, one = next(iter(found.items()))
    if any(elem.bits_of(factor.type) != 16 for factor in (one.left, one.right)):
        return "its factors have other than 16 bits"
    task = _sizes(analysis, (one.rows, one.columns, loop.axes[0]))
    if task is None:
        return "its sizes only the call knows"
    form = form_for(*task, 16, machine, nest.choices)
    if not form:
        return "its tiles have no room for it"
    program = program_of([nest], {**nest.choices, **form})
    try:
        lower_nests(program, machine)
        (func,) = (op for op in program.ops if isinstance(op, kernel.FuncOp))
        count = len(described_loads(func))
    except CuestaError as error:
        return error.diagnostics[0].message
    return form if count == 2 else "a factor is computed where it is read"


def _sizes(analysis: NestAnalysis, axes: tuple[int, int, int]) -> tuple[tuple[int, int, int], int] | None:
    """Rows, columns and points of a contraction, and how many of them there are; None where that is no number."""
    rows, columns, points = (analysis.sizes[axis] for axis in axes)
    others = [analysis.sizes[axis] for axis in analysis.root.axes if axis not in axes]
    batch = [size for size in others if isinstance(size, int)]
    if len(batch) < len(others) or not (isinstance(rows, int) and isinstance(columns, int) and isinstance(points, int)):
        return None
    return (rows, columns, points), math.prod(batch)


__all__ = ["ChooseFormsPass"]
