"""The contraction that a nest is, where tensor descriptors say how both of its factors lie."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from cuesta.dialects import elem, loops
from cuesta.dialects.core.devices import traits_of_device
from cuesta.dialects.core.machine import Machine
from cuesta.dialects.core.structs import struct
from cuesta.dialects.kernel.descriptors import Tile, descriptor_for
from cuesta.dialects.layout import device_of, tensor_type_of
from cuesta.dialects.loops.analysis import NestAnalysis, analyse
from cuesta.dialects.loops.merge_axes import merge_axes
from cuesta.lowering.schedule.gpu.contractions import contractions_of, precision_of
from cuesta.transforms.products.forms import FORMS, STREAM_K
from cuesta.transforms.products.product_plans import around_sum
from cuesta.transforms.products.tiles import Around

BITS = 16
"""Of factors that get a form.

Source: a choice: nothing else was measured (`python -m benchmarks.product_forms`).
"""


@struct
class Described:
    """A contraction: its rows, columns and points, how many there are of it, and what is done after its sum."""

    sizes: tuple[int, int, int]
    batch: int
    around: Around


def has_tiles(nest: loops.NestOp) -> bool:
    """Whether a nest is a contraction of the plain kind, and says nothing of its form."""
    choices = nest.choices
    if "depth" not in choices or not choices.keys().isdisjoint((*FORMS, STREAM_K, "batch", "part")):
        return False
    return traits_of_device(device_of(tensor_type_of(nest.results[0]))).contractions


def described(nest: loops.NestOp, machine: Machine) -> Described | str:
    """The contraction that a nest with tiles is, or why descriptors do not load its factors."""
    if not machine.has_descriptors:
        return "the machine has no tensor descriptors"
    if nest.operands:
        return "it changes what another nest made"
    analysis = analyse(nest, {}, [True] * len(nest.results))
    merge_axes(analysis)
    if any(loop.loops or not isinstance(loop.op, loops.ReduceOp) for loop in analysis.root.loops):
        return "it does more than to sum products"
    found = contractions_of(analysis, precision_of(nest, nest.choices))
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
    for factor, beside, side in ((one.left, one.rows, "rows"), (one.right, one.columns, "columns")):
        if why := _undescribed(analysis, factor, (loop.axes[0], beside), nest.choices[side]):
            return why
    assert isinstance(loop.op, loops.ReduceOp)
    return Described(*task, around_sum(nest, loop.op, BITS))


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


__all__ = ["BITS", "Described", "described", "has_tiles"]
