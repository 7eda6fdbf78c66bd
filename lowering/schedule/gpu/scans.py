"""Tiles of rows that are scanned, which one tile holds or several, one after the other.

loops.nest (%i : 8192) { loops.scan (%j : 500) { … } }    a program has 4 rows in one tile, or one longer row
"""

from __future__ import annotations

from collections.abc import Iterable

from cuesta.dialects.core.machine import Machine
from cuesta.dialects.loops.analysis import Access, Loop, NestAnalysis
from cuesta.dialects.loops.split_axes import step
from cuesta.transforms.tilings.space import Tiling

WHOLE_SCAN, WHOLE_SCAN_HEIGHT, WHOLE_SCAN_WARP = 256, 4, 256
"""Rows of so many lanes that one tile holds are scanned in it: so many rows at a time, longer ones by themselves, and
so many elements of a warp (of pairs, twice as many). Of nine nests of 130 to 1500 points 1.02 (1.06); as the model
would have it 64 rows went along in steps of 64 points, 1.2 to 6.7 times as long where a third of the lanes of a tile
had no point. (Longer rows are gone along in such tiles: 16384 numbers from the last to the first took 3 times as long.)

Source: from 60 tilings of 12 nests on an H100.
"""
TURNED, TURNED_LANES, TURNED_WARPS = 32, 64, 16
"""Rows of a program that are stored side by side, so that what it stores fills sectors; points of each that are scanned
at a time, and warps. Running sums over 384 channels of f32 that lie channels last, stored one channel after the other,
took 71.7 us (415 with one row a program; TorchInductor 61), over 1000 of bf16 33.2 (92.6), over 3000 of f32 102 (308).
The best of other tiles took 0.88 to 1.0 of that. Fewer rows than such programs for each processor have their own.

Source: from 24 to 60 tilings of six nests of 6272 to 62112 rows on an H200.
"""
TURNED_WHOLE, TURNED_WHOLE_HALF = (8, 8), (16, 4)
"""The same, rows and warps, of rows of `WHOLE_SCAN` lanes, which one tile holds, stored in elements of 32 bits, and of
16: a sector of them. 256 channels of bf16 took 21.0 us (36 with 4 rows, 24.6 with 8 and as many warps, 47.9 in steps of
64 points; TorchInductor 17.9).

Source: from 24 and 21 tilings of this nest on an H200.
"""


def _turned_axis(analysis: NestAnalysis, leaf: Loop, large: Iterable[Access]) -> int | None:
    """The parallel axis along which a scan stores in order what it reads in order along itself; None where it does not
    store so.
    """
    for access in large:
        if access.is_store and len(leaf.axes) == 1 and step(access.address, leaf.axes[0], analysis) not in (1, -1):
            for axis in analysis.root.axes:
                if step(access.address, axis, analysis) == 1:
                    return axis
    return None


def tile_of(
    analysis: NestAnalysis, leaf: Loop, rows: int, lanes: int, large: Iterable[Access], machine: Machine
) -> Tiling | None:
    """The tile of so many rows that are scanned, so many points of one at most; None of rows so short that the model
    chooses. `large` are the accesses of large tensors in the scan.
    """
    axes = analysis.root.axes
    if lanes < WHOLE_SCAN:
        return None
    accesses = list(large)
    stored = _turned_axis(analysis, leaf, accesses)
    if stored is not None and rows >= TURNED * machine.processors:
        along = len(axes) - axes.index(stored)
        if lanes == WHOLE_SCAN:
            width = max(access.width for access in accesses if access.is_store)
            height, warps = TURNED_WHOLE if width >= 4 else TURNED_WHOLE_HALF
            return {"along": along, "rows": height, "lanes": lanes, "warps": warps}
        return {"along": along, "rows": TURNED, "lanes": TURNED_LANES, "warps": TURNED_WARPS}
    height = 1 if lanes > WHOLE_SCAN else WHOLE_SCAN_HEIGHT
    warps = max(1, height * lanes // (WHOLE_SCAN_WARP * leaf.values))
    return {"along": int(height < 2 or len(axes) < 2), "rows": height, "lanes": lanes, "warps": warps}


__all__ = ["tile_of"]
