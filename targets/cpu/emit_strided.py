"""Loads of every second, third or fourth element, or backwards: whole vectors and shuffles instead of a gather.

    stride 2, 4 lanes:   a b c d   .  d e f g  →  a c e g        (the second vector ends with the last element wanted)

Nothing is read that does not lie between the first and the last element, and with a mask nothing that it leaves out.

Two stores to every second element, between each other's, are one store of the elements of both in turn:

    o[2i] = a, o[2i + 1] = b, 4 lanes:   a a a a  .  b b b b  →  a b a b a b a b
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.ir import Operation

from cuesta.dialects import elem, kernel
from cuesta.targets.cpu.vector_text import vector_type

if TYPE_CHECKING:
    from cuesta.targets.cpu.emit_index import IndexEmitter

WIDEST_STRIDE = 4
"""From one more on, most of what a vector holds would be thrown away."""


def is_shuffled(stride: int | None) -> bool:
    """Whether such a load is made of vectors and shuffles."""
    return stride == -1 or (stride is not None and 2 <= stride <= WIDEST_STRIDE)


def load_strided(
    emitter: IndexEmitter, place: str, stride: int, lanes: int, element: str, width: int, mask: str | None, vector: int
) -> str:
    """Emits the load of `lanes` elements, `stride` apart; `place` is the address of the first.

    Where `mask` is false the value is 0. `vector` is the number of elements of a machine vector, a power of two.
    Units: width in bytes.
    """
    chunk = min(lanes, vector)
    parts: list[str] = []
    for first in range(0, lanes, chunk):
        part_mask = None if mask is None else _lanes_of(emitter, mask, "i1", lanes, range(first, first + chunk))
        parts.append(_load_chunk(emitter, place, first * stride, stride, chunk, element, width, part_mask))
    length = chunk
    while len(parts) > 1:
        kind = vector_type(element, length)
        together = _mask(range(2 * length))
        parts = [
            emitter.instruction(f"shufflevector {kind} {low}, {kind} {high}, {together}")
            for low, high in zip(parts[0::2], parts[1::2], strict=True)
        ]
        length *= 2
    return parts[0]


def _load_chunk(
    emitter: IndexEmitter,
    place: str,
    offset: int,
    stride: int,
    lanes: int,
    element: str,
    width: int,
    mask: str | None,
) -> str:
    kind = vector_type(element, lanes)
    if stride == -1:
        starts = [1 - lanes]
    else:
        last = (stride - 1) * (lanes - 1)
        starts = sorted({min(lanes * k, last) for k in range(stride)})
    result = ""
    for k, start in enumerate(starts):
        # Which of its elements this vector provides: those that no vector before it did.
        wanted = {
            lane: lane * stride - start
            for lane in range(lanes)
            if 0 <= lane * stride - start < lanes
            and not any(0 <= lane * stride - earlier < lanes for earlier in starts[:k])
        }
        if not wanted:
            continue
        value = _load_vector(emitter, place, offset + start, wanted, lanes, element, width, mask)
        if k == 0:
            positions = [wanted.get(lane, 0) for lane in range(lanes)]
            result = emitter.instruction(f"shufflevector {kind} {value}, {kind} poison, {_mask(positions)}")
        else:
            positions = [lanes + wanted[lane] if lane in wanted else lane for lane in range(lanes)]
            result = emitter.instruction(f"shufflevector {kind} {result}, {kind} {value}, {_mask(positions)}")
    return result


def _load_vector(
    emitter: IndexEmitter,
    place: str,
    offset: int,
    wanted: dict[int, int],
    lanes: int,
    element: str,
    width: int,
    mask: str | None,
) -> str:
    kind = vector_type(element, lanes)
    if offset:
        place = emitter.instruction(f"getelementptr inbounds {element}, ptr {place}, i64 {offset}")
    if mask is None:
        return emitter.instruction(f"load {kind}, ptr {place}, align {width}")
    lane_of = {position: lane for lane, position in wanted.items()}
    positions = [lane_of.get(position, lanes) for position in range(lanes)]
    boolean = vector_type("i1", lanes)
    spread = emitter.instruction(f"shufflevector {boolean} {mask}, {boolean} zeroinitializer, {_mask(positions)}")
    short = {"float": "f32", "double": "f64", "half": "f16"}.get(element, element)
    return emitter.instruction(
        f"call {kind} @llvm.masked.load.v{lanes}{short}.p0"
        f"(ptr {place}, i32 {width}, {boolean} {spread}, {kind} zeroinitializer)"
    )


def store_between(store: kernel.StoreOp) -> tuple[kernel.StoreOp, kernel.StoreOp] | None:
    """The two stores to every second element of which this is one, in the order of their elements. Both can be made
    where the later stands: nothing between them touches the tensor.
    """
    earlier = _waiting(store)
    other = _neighbour(store, forwards=True) if earlier is None else earlier
    if other is None:
        return None
    return (store, other) if other.offset - store.offset == 1 else (other, store)


def _waiting(store: kernel.StoreOp) -> kernel.StoreOp | None:
    """The store before this one that is made with it: its neighbour, unless that is made with the one before."""
    earlier = _neighbour(store, forwards=False)
    return None if earlier is None or _waiting(earlier) is not None else earlier


def _neighbour(store: kernel.StoreOp, *, forwards: bool) -> kernel.StoreOp | None:
    """The store of the elements beside these, if it is the next op that touches the tensor, and neither has a mask."""
    op: Operation | None = store
    while (op := op.next_op if forwards else op.prev_op) is not None:
        if isinstance(op, kernel.StoreOp) and op.pointer is store.pointer:
            masked = op.mask is not None or store.mask is not None
            alike = tuple(op.indices) == tuple(store.indices) and op.value.type == store.value.type
            return op if alike and not masked and op.offset - store.offset in (1, -1) else None
        apart = isinstance(op, kernel.LoadOp | kernel.StoreOp) and op.pointer is not store.pointer
        if not (apart or isinstance(op, elem.ElementwiseOp | kernel.BroadcastOp | kernel.IndexOp)):
            return None
    return None


def interleave(emitter: IndexEmitter, first: str, second: str, lanes: int, element: str) -> str:
    """Emits the vector of twice the lanes that has the elements of two in turn."""
    kind = vector_type(element, lanes)
    turns = _mask([lane + lanes * part for lane in range(lanes) for part in range(2)])
    return emitter.instruction(f"shufflevector {kind} {first}, {kind} {second}, {turns}")


def _lanes_of(emitter: IndexEmitter, value: str, element: str, lanes: int, part: range) -> str:
    if len(part) == lanes:
        return value
    kind = vector_type(element, lanes)
    return emitter.instruction(f"shufflevector {kind} {value}, {kind} poison, {_mask(part)}")


def _mask(positions: Sequence[int]) -> str:
    return f"<{len(positions)} x i32> <{', '.join(f'i32 {position}' for position in positions)}>"
