"""The ops of `host.func`: buffers and what happens to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from xdsl.ir import Operation

from cuesta.dialects import host
from cuesta.targets.reference.errors import fail
from cuesta.targets.reference.numerics import dtype_of, extent, words_of

if TYPE_CHECKING:
    from cuesta.targets.reference.program import Handler, Program


_NOTHING = 0xA5
"""In every byte of whole numbers that nobody has written."""


def _alloc(program: Program, op: host.AllocOp) -> None:
    sizes, strides = program.layout(op.result.type)
    dtype = program.numerics.dtype(op.result.type)
    memory = torch.empty(extent(sizes, strides), dtype=dtype)
    _fill_with_nothing(memory)
    program.values[op.result] = memory.as_strided(sizes, strides)


def _place(program: Program, op: host.PlaceOp) -> None:
    arena = program.tensor(op, op.arena)
    result = op.results[0]
    sizes, strides = program.layout(result.type)
    dtype = program.numerics.dtype(result.type)
    if program.numerics.precise:  # elements are wider than the places made for them
        memory = torch.empty(extent(sizes, strides), dtype=dtype)
    else:
        size = extent(sizes, strides) * dtype.itemsize
        memory = arena[op.offset : op.offset + size].view(dtype)
    _fill_with_nothing(memory)
    program.values[result] = memory.as_strided(sizes, strides, memory.storage_offset())


def _fill_with_nothing(memory: torch.Tensor) -> None:
    """Makes what is read before it is written show, and the same in every run: two runs of a program differ by what it
    computes, and not by what memory held.
    """
    if memory.dtype.is_floating_point or memory.dtype.is_complex:
        memory.fill_(float("nan"))
    elif memory.dtype == torch.bool:
        memory.fill_(True)
    else:
        memory.view(torch.uint8).fill_(_NOTHING)


def _launch(program: Program, op: host.LaunchOp) -> None:
    buffers = [program.tensor(op, operand) for operand in op.operands]
    kernel_func = program.kernels.get(op.kernel)
    outs = 0 if kernel_func is None else min(kernel_func.num_outs, len(buffers))
    program.launch(op, op.kernel, buffers[: len(buffers) - outs], buffers[len(buffers) - outs :])


def _reinterpret(program: Program, op: host.ReinterpretOp) -> None:
    source = program.tensor(op, op.source)
    sizes, strides = program.layout(op.results[0].type)
    if (axis := op.axis_of_words) is not None:
        program.values[op.results[0]] = words_of(source, dtype_of(op.source.type), axis, strides)
        return
    start = source.storage_offset() + program.symbols.value(op.offset)
    available = source.untyped_storage().nbytes() // source.element_size()
    if 0 not in sizes and (start < 0 or start + extent(sizes, strides) > available):
        fail(op, f"reaches to element {start + extent(sizes, strides)} of memory that has {available}")
    program.values[op.results[0]] = source.as_strided(sizes, strides, start)


def _free(program: Program, op: host.FreeOp) -> None:
    for operand in op.operands:
        program.value(op, operand)
        del program.values[operand]
        program.freed[operand] = op


HOST_HANDLERS: dict[type[Operation], Handler | Any] = {
    host.AllocOp: _alloc,
    host.FreeOp: _free,
    host.LaunchOp: _launch,
    host.PlaceOp: _place,
    host.ReinterpretOp: _reinterpret,
}
"""What the ops of `host` do, besides calls and the return."""
