"""`choose-forms`: tensor descriptors, and programs that do several tiles, for contractions that have their tiles.

    %y = loops.nest (%i : 4096, %j : 4096) … schedule #loops.schedule<rows = 128, columns = 256, depth = 64, …> { … }
    →
    %y = loops.nest (%i : 4096, %j : 4096) … schedule #loops.schedule<…, descriptors = 1, programs = 132> { … }

It is the last to look at a nest before its kernel is written: where factors lie is final, and the kernel loads them
from the addresses that are there now: of these it is asked whether a descriptor can say so. Which form is the faster
one is estimated (`transforms/products/tiles.py`). A schedule that says `descriptors`, 0 or 1, or `programs` is left as
it is.
"""

from __future__ import annotations

import math

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from cuesta.dialects import elem, loops
from cuesta.dialects.core.devices import traits_of_device
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.fingerprint import Fingerprint, fingerprint
from cuesta.dialects.core.machine import Machine, machine_of
from cuesta.dialects.core.operation import ops_of
from cuesta.dialects.core.tracing import chose, no_match
from cuesta.dialects.kernel.descriptors import Tile, descriptor_for
from cuesta.dialects.layout import device_of, tensor_type_of
from cuesta.dialects.loops.analysis import NestAnalysis, analyse
from cuesta.dialects.loops.merge_axes import merge_axes
from cuesta.lowering.schedule.gpu.contractions import contractions_of
from cuesta.transforms.products.tiles import FORMS, form_for

BITS = 16
"""Of factors that get a form.

Source: a choice: nothing else was measured (`python -m benchmarks.product_forms`).
"""


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
    merge_axes(analysis)
    if any(loop.loops or not isinstance(loop.op, loops.ReduceOp) for loop in analysis.root.loops):
        return "it does more than to sum products"
    found = contractions_of(analysis, tf32=False)
    if isinstance(found, str):
        return found
    if len(found) > 1:
        return "it has several sums"
    loop, one = next(iter(found.items()))
    if any(elem.bits_of(factor.type) != BITS for factor in (one.left, one.right)):
        return "its factors have other than 16 bits"
    task = _sizes(analysis, (one.rows, one.columns, loop.axes[0]))
    if task is None:
        return "its sizes only the call knows"
    form = form_for(*task, BITS, machine, nest.choices)
    if not form:
        return "its tiles have no room for it"
    for factor, beside, side in ((one.left, one.rows, "rows"), (one.right, one.columns, "columns")):
        if why := _undescribed(analysis, factor, (loop.axes[0], beside), nest.choices[side]):
            return why
    return form


def _undescribed(analysis: NestAnalysis, factor: SSAValue, axes: tuple[int, int], side: int) -> str:
    """Why no descriptor loads a factor, which is to be an element as it lies: the kernel that `loops-to-kernel` writes
    loads it from the same address, and is asked the same (`described`). Nothing where one does.
    """
    load = factor.owner
    if not isinstance(load, loops.LoadOp):
        return "a factor is computed where it is read"
    if load.rest:
        return "a factor is loaded under a condition"
    if load.source in analysis.nest.handles:
        return "a factor is no element of an input"
    access = analysis.accesses[load]

    def size_of(axis: int) -> int | None:
        size = analysis.sizes[axis] if axis in analysis.root.axes else None
        return size if isinstance(size, int) else None

    points, beside = (size if isinstance(size := analysis.sizes[axis], int) else None for axis in axes)
    tile = Tile(access.address, axes, (points, beside), (analysis.nest.choices["depth"], side))
    found = descriptor_for(tile, 0, BITS, size_of)
    return found if isinstance(found, str) else ""


def _sizes(analysis: NestAnalysis, axes: tuple[int, int, int]) -> tuple[tuple[int, int, int], int] | None:
    """Rows, columns and points of a contraction, and how many of them there are; None where that is no number."""
    rows, columns, points = (analysis.sizes[axis] for axis in axes)
    others = [analysis.sizes[axis] for axis in analysis.root.axes if axis not in axes]
    batch = [size for size in others if isinstance(size, int)]
    if len(batch) < len(others) or not (isinstance(rows, int) and isinstance(columns, int) and isinstance(points, int)):
        return None
    return (rows, columns, points), math.prod(batch)


__all__ = ["ChooseFormsPass"]
