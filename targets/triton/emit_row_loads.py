"""A load that is the same for a whole row, where a tile runs through the ends of rows.

    j = p * 1024 + lanes
    v = tl.load(m + j // 65535)
    →
    row, last = (p * 1024) // 65535, …
    v = tl.where(j < (row + 1) * 65535, tl.load(m + row), tl.load(m + last))

Exact. A tile that is not longer than a row lies in two rows at most: two loads do for all lanes, and no lane divides.
Where rows are made of whole tiles, it lies in one, and the load is `tl.load(m + row)`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cuesta.dialects import kernel, sym
from cuesta.dialects.core.structs import struct
from cuesta.dialects.kernel.shapes import Shape
from cuesta.dialects.sym.expr import Expr
from cuesta.dialects.sym.nodes import FloorDiv
from cuesta.targets.triton.emit_index import index_text
from cuesta.targets.triton.emit_within import is_checked

if TYPE_CHECKING:
    from cuesta.targets.triton.emit_kernel import KernelEmitter


@struct
class Tile:
    """The points of a loop that is one tile: the texts of the first and of the one past the last, and the lanes."""

    low: str
    high: str
    lanes: int
    step: int
    """The first is a multiple of it."""


@struct
class OfTwoRows:
    """A value that is one of two numbers at every point of a tile: their names, and the condition of the first."""

    first: str
    second: str
    is_first: str


def row_load(emitter: KernelEmitter, op: kernel.LoadOp) -> tuple[str, Shape] | None:
    """The text of the loaded value and its shape; None when the load is another."""
    offset = op.offset
    if op.rest or op.pointer in emitter.written or not isinstance(offset, Expr) or is_checked(op):
        return None
    for position, index in enumerate(op.indices):
        tile = emitter.single_tiles.get(index)
        length = _row_length(offset, position)
        if tile is None or length is None or length < tile.lanes:
            continue
        others = [emitter.names[value] for value in op.indices]
        if any(emitter.real_of(value) for other, value in enumerate(op.indices) if other != position):
            return None
        ends = [emitter.bind(f"({tile.low}) // {length}", "row")]
        if tile.lanes > math.gcd(tile.step, length):
            ends.append(emitter.bind(f"({tile.high} - 1) // {length}", "last"))
        # Of the point r · length, the row is r.
        images: list[sym.IndexExpr] = [sym.dim(k) for k in range(len(others))]
        images[position] = sym.dim(position) * length
        of_row = sym.substitute(offset, images)
        loads: list[str] = []
        for name in ends:
            others[position] = name
            loads.append(f"tl.load({emitter.names[op.pointer]} + {index_text(of_row, others)})")
        if len(loads) == 1:
            return loads[0], ()
        first, second = (emitter.bind(text, op.result.name_hint or "v") for text in loads)
        is_first = f"{emitter.names[index]} < ({ends[0]} + 1) * {length}"
        emitter.of_two_rows[op.result] = OfTwoRows(first, second, is_first)
        return f"tl.where({is_first}, {first}, {second})", emitter.real_of(index)
    return None


def _row_length(e: Expr, dim: int) -> int | None:
    """n, where an expression depends on a dimension only through `dim floordiv n`."""
    found: set[int] = set()
    for monomial, _ in e.terms:
        for atom in monomial.atoms:
            if dim not in atom.dims:
                continue
            if not isinstance(atom, FloorDiv) or atom.left != sym.dim(dim) or not isinstance(atom.right, int):
                return None
            found.add(atom.right)
    return found.pop() if len(found) == 1 else None


__all__ = ["OfTwoRows", "Tile", "row_load"]
