"""Loads and stores of a kernel as LLVM IR: contiguous, broadcast, strided and gathered; masked or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import Attribute, SSAValue

from cuesta.dialects import kernel, sym
from cuesta.dialects.elem import kind_of, scalar_of
from cuesta.targets.cpu.emit_blocks import load_block, store_block
from cuesta.targets.cpu.emit_strided import interleave, is_shuffled, load_strided, store_between
from cuesta.targets.cpu.emit_types import byte_width, memory_text, scalar_text, splat_integer
from cuesta.targets.cpu.features import host_features
from cuesta.targets.cpu.vector_text import vector_type

if TYPE_CHECKING:
    from cuesta.targets.cpu.emit_kernel import KernelEmitter

LINE = 64
"""Bytes that memory is asked for at a time.

Source: a definition: the line of a cache on x86 and on most of ARM.
"""
SINK = "@cuesta.sink"
"""Memory that a scalar access goes to when its mask is false: it is there, and nobody looks at it."""


def load(emitter: KernelEmitter, op: kernel.LoadOp, stride: int | None) -> str:
    """Emits the load; gives the name of the value. `stride` is the step from lane to lane, None for a gather."""
    other = None if op.other is None else emitter.name(op.other)
    return read(emitter, op, op.result.type, stride, other)


def read(
    emitter: KernelEmitter,
    op: kernel.LoadOp | kernel.MemoryWriteOp,
    value_type: Attribute,
    stride: int | None,
    other: str | None,
) -> str:
    """Emits the reading of the elements that `op` accesses; `other` is the value where its mask is false."""
    scalar = scalar_of(value_type)
    lanes = emitter.lanes_of(value_type)
    mask = None if op.mask is None else emitter.name(op.mask)
    element, align = memory_text(scalar), byte_width(scalar)
    if lanes == 1:
        return _load_one(emitter, op, scalar, mask, other)
    kind = f"<{lanes} x {element}>"
    if stride == 1:
        place = emitter.address(op.pointer, op.offset, op.indices)
        if isinstance(op, kernel.LoadOp) and op.prefetch is not None:
            _prefetch(emitter, place, op.prefetch, lanes, element, byte_width(scalar))
        if mask is None:
            value = emitter.instruction(f"load {kind}, ptr {place}, align {align}")
            return _from_memory(emitter, value, scalar, lanes)
        value = emitter.instruction(
            f"call {kind} @llvm.masked.load.v{lanes}{_short(element)}.p0"
            f"(ptr {place}, i32 {align}, <{lanes} x i1> {mask}, {kind} zeroinitializer)"
        )
    elif stride == 0:
        place = emitter.address(op.pointer, op.offset, op.indices)
        if mask is not None:
            some = emitter.instruction(f"call i1 @llvm.vector.reduce.or.v{lanes}i1(<{lanes} x i1> {mask})")
            place = emitter.instruction(f"select i1 {some}, ptr {place}, ptr {SINK}")
        one = emitter.instruction(f"load {element}, ptr {place}, align {align}")
        value = emitter.broadcast(one, element)
    elif stride is not None and is_shuffled(stride):
        place = emitter.address(op.pointer, op.offset, op.indices)
        value = load_strided(emitter, place, stride, lanes, element, align, mask, host_features().f32_lanes)
    elif stride is not None and mask is None and has_plain_lanes(emitter, value_type):
        place, value = emitter.address(op.pointer, op.offset, op.indices), "poison"
        for lane in range(lanes):
            here = emitter.further(place, stride * lane, op.pointer)
            one = emitter.instruction(f"load {element}, ptr {here}, align {align}")
            value = emitter.instruction(f"insertelement {kind} {value}, {element} {one}, i64 {lane}")
        return value
    else:
        places = _places(emitter, op.pointer, op, element)
        every = f"<{lanes} x i1> {mask}" if mask is not None else f"<{lanes} x i1> splat (i1 true)"
        value = emitter.instruction(
            f"call {kind} @llvm.masked.gather.v{lanes}{_short(element)}.v{lanes}p0"
            f"(<{lanes} x ptr> {places}, i32 {align}, {every}, {kind} zeroinitializer)"
        )
    value = _from_memory(emitter, value, scalar, lanes)
    if mask is None:
        return value
    register = vector_type(scalar_text(scalar), lanes)
    return emitter.instruction(f"select <{lanes} x i1> {mask}, {register} {value}, {register} {other}")


def has_plain_lanes(emitter: KernelEmitter, value_type: Attribute) -> bool:
    """Whether lanes that lie apart are better loaded and changed one by one: no machine gathers less than 4 bytes."""
    scalar = scalar_of(value_type)
    return emitter.lanes_of(value_type) > 1 and kind_of(scalar) in "iu" and byte_width(scalar) < 4


def _prefetch(emitter: KernelEmitter, place: str, ahead: int, lanes: int, element: str, width: int) -> None:
    """Asks for memory that is read soon, once for every line; of what is left over after whole lines, for nothing.
    Several vectors of bytes may be less than a line: once for them. An address beyond the end is no error.
    """
    per_line = LINE // width
    whole = lanes // per_line or (width == 1 and lanes >= 2 * host_features().f32_lanes)
    for lane in range(0, whole * per_line, per_line):
        further = emitter.instruction(f"getelementptr {element}, ptr {place}, i64 {ahead + lane}")
        emitter.line(f"call void @llvm.prefetch.p0(ptr {further}, i32 0, i32 3, i32 1)")


def _load_one(
    emitter: KernelEmitter,
    op: kernel.LoadOp | kernel.MemoryWriteOp,
    scalar: Attribute,
    mask: str | None,
    other: str | None,
) -> str:
    place = emitter.address(op.pointer, op.offset, op.indices)
    if mask is not None:
        place = emitter.instruction(f"select i1 {mask}, ptr {place}, ptr {SINK}")
    value = emitter.instruction(f"load {memory_text(scalar)}, ptr {place}, align {byte_width(scalar)}")
    value = _from_memory(emitter, value, scalar, 1)
    if mask is None:
        return value
    kind = scalar_text(scalar)
    return emitter.instruction(f"select i1 {mask}, {kind} {value}, {kind} {other}")


def store(emitter: KernelEmitter, op: kernel.StoreOp, stride: int | None) -> None:
    """Emits the store. `stride` is the step from lane to lane, None for a scatter."""
    pair = store_between(op) if stride == 2 and emitter.lanes_of(op.value.type) > 1 else None
    if pair is not None:
        if all(one is op or one.is_before_in_block(op) for one in pair):
            _store_pair(emitter, *pair)
        return
    write(emitter, op, emitter.name(op.value), stride)


def write(emitter: KernelEmitter, op: kernel.MemoryWriteOp, value: str, stride: int | None) -> None:
    """Emits the writing of `value`, of the type of the op's, to the elements that `op` accesses."""
    scalar = scalar_of(op.value.type)
    lanes = emitter.lanes_of(op.value.type)
    mask = None if op.mask is None else emitter.name(op.mask)
    element, align = memory_text(scalar), byte_width(scalar)
    value = _to_memory(emitter, value, op.value, lanes)
    kind = vector_type(element, lanes)
    if lanes == 1 or stride == 1:
        place = emitter.address(op.pointer, op.offset, op.indices)
        if mask is None:
            emitter.line(f"store {kind} {value}, ptr {place}, align {align}")
        elif lanes == 1:
            place = emitter.instruction(f"select i1 {mask}, ptr {place}, ptr {SINK}")
            emitter.line(f"store {kind} {value}, ptr {place}, align {align}")
        else:
            emitter.line(
                f"call void @llvm.masked.store.v{lanes}{_short(element)}.p0"
                f"({kind} {value}, ptr {place}, i32 {align}, <{lanes} x i1> {mask})"
            )
        return
    places = _places(emitter, op.pointer, op, element)
    every = f"<{lanes} x i1> {mask}" if mask is not None else f"<{lanes} x i1> splat (i1 true)"
    emitter.line(
        f"call void @llvm.masked.scatter.v{lanes}{_short(element)}.v{lanes}p0"
        f"({kind} {value}, <{lanes} x ptr> {places}, i32 {align}, {every})"
    )


def _store_pair(emitter: KernelEmitter, first: kernel.StoreOp, second: kernel.StoreOp) -> None:
    """Emits two stores to every second element as one."""
    scalar = scalar_of(first.value.type)
    lanes = emitter.lanes_of(first.value.type)
    low, high = (_to_memory(emitter, emitter.name(one.value), one.value, lanes) for one in (first, second))
    value = interleave(emitter, low, high, lanes, memory_text(scalar))
    place = emitter.address(first.pointer, first.offset, first.indices)
    kind = vector_type(memory_text(scalar), 2 * lanes)
    emitter.line(f"store {kind} {value}, ptr {place}, align {byte_width(scalar)}")


def load_rows(emitter: KernelEmitter, op: kernel.LoadOp) -> None:
    """Emits a load for all rows of a tile at once. Requires: memory runs along the rows."""
    scalar = scalar_of(op.result.type)
    lanes = emitter.lanes_of(op.result.type)
    places = _places_of_lanes(emitter, op)
    values = load_block(emitter, places, emitter.rows, memory_text(scalar), byte_width(scalar))
    for row, value in enumerate(values):
        with emitter.at_row(row):
            emitter.names[op.result] = _from_memory(emitter, value, scalar, lanes)


def store_rows(emitter: KernelEmitter, op: kernel.StoreOp) -> None:
    """Emits a store for all rows of a tile at once. Requires: memory runs along the rows."""
    scalar = scalar_of(op.value.type)
    lanes = emitter.lanes_of(op.value.type)
    values: list[str] = []
    for row in range(emitter.rows):
        with emitter.at_row(row):
            values.append(_to_memory(emitter, emitter.name(op.value), op.value, lanes))
    store_block(emitter, values, _places_of_lanes(emitter, op), memory_text(scalar), byte_width(scalar))


def _places_of_lanes(emitter: KernelEmitter, op: kernel.LoadOp | kernel.StoreOp) -> list[str]:
    """The address in every lane, of row 0."""
    first = emitter.address(op.pointer, op.offset, op.indices)
    steps = [sym.coefficient(op.offset, k) or 0 for k, operand in enumerate(op.indices) if emitter.index(operand).lane]
    step = sum(steps[1:], steps[0])
    return [emitter.further(first, step * lane, op.pointer) for lane in range(emitter.width)]


def _places(emitter: KernelEmitter, pointer: SSAValue, op: kernel.LoadOp | kernel.MemoryWriteOp, element: str) -> str:
    offsets = emitter.lanewise(op.offset, op.indices)
    lanes = emitter.width
    return emitter.instruction(f"getelementptr {element}, ptr {emitter.names[pointer]}, <{lanes} x i64> {offsets}")


def _from_memory(emitter: KernelEmitter, value: str, scalar: Attribute, lanes: int) -> str:
    """A bool is a byte in memory; any byte but 0 is true."""
    if kind_of(scalar) != "b":
        return value
    byte = vector_type("i8", lanes)
    return emitter.instruction(f"icmp ne {byte} {value}, {splat_integer(0, lanes, 8)}")


def _to_memory(emitter: KernelEmitter, value: str, of: SSAValue, lanes: int) -> str:
    if kind_of(of.type) != "b":
        return value
    return emitter.instruction(f"zext {vector_type('i1', lanes)} {value} to {vector_type('i8', lanes)}")


def _short(element: str) -> str:
    return {"float": "f32", "double": "f64", "half": "f16"}.get(element, element)
