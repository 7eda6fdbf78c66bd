"""Blocks: several rows of lanes whose memory runs along the rows, so that a transpose in registers replaces a gather.

In a tile, rows r and lanes l, an access may be contiguous along the rows: the element of row r and lane l lies at
`place[l] + r`. Such a block is read in pieces of 16 bytes, as many rows each as fit, and every stack of pieces is
transposed by log2 steps that interleave two vectors within each 16 bytes, an instruction each on every machine:

    piece k of the lane l holds rows p·k …     stack c = pieces of the lanes c, c + p, c + 2·p, …
    step:  (v0, …, v[p-1])  →  (low(v0, v[p/2]), high(v0, v[p/2]), low(v1, v[p/2 + 1]), …)

Stores go the other way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cuesta.targets.cpu.vector_text import vector_type

if TYPE_CHECKING:
    from cuesta.targets.cpu.emit_index import IndexEmitter

PIECE = 16
"""The bytes within which every machine interleaves in one instruction."""


def load_block(emitter: IndexEmitter, places: Sequence[str], rows: int, element: str, width: int) -> list[str]:
    """Emits the loads of a block; gives the vector of lanes of every row.

    `places` are the addresses of row 0, lane by lane; their number and `rows` are powers of two. Units: width in bytes.
    """
    lanes = len(places)
    piece = min(max(1, PIECE // width), rows, lanes)
    result: list[str] = []
    for first in range(0, rows, piece):
        stacks: list[str] = []
        for c in range(piece):
            pieces = [
                _load_piece(emitter, places[lane * piece + c], first, piece, element, width)
                for lane in range(lanes // piece)
            ]
            stacks.append(_joined(emitter, pieces, piece, element))
        result += _transposed(emitter, stacks, piece, lanes, element)
    return result


def store_block(emitter: IndexEmitter, values: Sequence[str], places: Sequence[str], element: str, width: int) -> None:
    """Emits the stores of a block: `values` are the vectors of lanes of its rows. Otherwise as `load_block`."""
    rows, lanes = len(values), len(places)
    piece = min(max(1, PIECE // width), rows, lanes)
    kind, part = vector_type(element, lanes), vector_type(element, piece)
    for first in range(0, rows, piece):
        stacks = _transposed(emitter, values[first : first + piece], piece, lanes, element)
        for c, stack in enumerate(stacks):
            for lane in range(lanes // piece):
                value = stack
                if piece < lanes and piece > 1:
                    mask = _mask(range(lane * piece, (lane + 1) * piece))
                    value = emitter.instruction(f"shufflevector {kind} {stack}, {kind} poison, {mask}")
                elif piece < lanes:
                    value = emitter.instruction(f"extractelement {kind} {stack}, i64 {lane}")
                place = _further(emitter, places[lane * piece + c], first, element)
                emitter.line(f"store {part} {value}, ptr {place}, align {width}")


def _load_piece(emitter: IndexEmitter, place: str, first: int, piece: int, element: str, width: int) -> str:
    place = _further(emitter, place, first, element)
    return emitter.instruction(f"load {vector_type(element, piece)}, ptr {place}, align {width}")


def _further(emitter: IndexEmitter, place: str, elements: int, element: str) -> str:
    if elements == 0:
        return place
    return emitter.instruction(f"getelementptr inbounds {element}, ptr {place}, i64 {elements}")


def _joined(emitter: IndexEmitter, pieces: list[str], piece: int, element: str) -> str:
    """The vectors one after the other."""
    if piece == 1 and len(pieces) > 1:
        kind = vector_type(element, len(pieces))
        vector = "poison"
        for lane, value in enumerate(pieces):
            vector = emitter.instruction(f"insertelement {kind} {vector}, {element} {value}, i64 {lane}")
        return vector
    length = piece
    while len(pieces) > 1:
        kind, mask = vector_type(element, length), _mask(range(2 * length))
        pieces = [
            emitter.instruction(f"shufflevector {kind} {low}, {kind} {high}, {mask}")
            for low, high in zip(pieces[0::2], pieces[1::2], strict=True)
        ]
        length *= 2
    return pieces[0]


def _transposed(emitter: IndexEmitter, vectors: Sequence[str], piece: int, lanes: int, element: str) -> list[str]:
    """`piece` vectors, transposed within each `piece` elements."""
    kind = vector_type(element, lanes)
    half = piece // 2
    current = list(vectors)
    for _ in range(piece.bit_length() - 1):
        following: list[str] = []
        for k in range(half):
            for start in (0, half):
                positions = [
                    source + group + start + e
                    for group in range(0, lanes, piece)
                    for e in range(half)
                    for source in (0, lanes)
                ]
                following.append(
                    emitter.instruction(
                        f"shufflevector {kind} {current[k]}, {kind} {current[k + half]}, {_mask(positions)}"
                    )
                )
        current = following
    return current


def _mask(positions: Sequence[int]) -> str:
    return f"<{len(positions)} x i32> <{', '.join(f'i32 {position}' for position in positions)}>"
