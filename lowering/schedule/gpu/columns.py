"""Tiles of columns: what is reduced lies across to what memory has in order, so lanes run along both.

    loops.nest (%j : 4096) { sum (%i : 1024) of %x[%i, %j] }     a program has 32 columns, 64 points of each a step

Numbers below are of some 200 nests on an H200, f32 and 16 bits, 45 to 60 tilings each: the times of what is chosen over
the best of the tilings, geometric means. Before, tiles of 8192 elements, those were 1.27 to 1.71.
"""

from __future__ import annotations

from collections.abc import Iterable

from cuesta.dialects.core.integers import power_of_two
from cuesta.dialects.core.machine import Machine
from cuesta.dialects.core.structs import struct
from cuesta.dialects.loops.analysis import Access, Loop, NestAnalysis
from cuesta.dialects.loops.split_axes import step
from cuesta.transforms.tilings.space import Tiling

COLUMNS, POINTS, EACH = 32, 64, 8
"""Columns of a program that reads each element once, points of each that it reads at a time, and elements of a thread:
many threads of few elements. 1.05 of f32, 1.13 the worst of 17; 1.09 of bf16.

Source: from tilings of random nests on an H200.
"""
HALF_COLUMNS, HALF_EACH, HALF_TILE = 64, 16, 16384
"""The same of 16-bit numbers whose columns begin at segments of memory, so that a row of a tile is one, and elements of
a tile where columns are few. Of 35 nests of f32 and of 16 bits, these among them, 1.06, 1.20 the worst; with the tiles
of the others 1.14 and 2.2 (a sum of 8192 columns of 8192 bf16 had 0.4 of what memory moves).

Source: from tilings of random nests on an H200.
"""
ARG_COLUMNS, HALF_ARG_COLUMNS = 16, 32
"""The same where the place of what is found goes along, which takes registers and exchanges of its own, and columns are
few: 1.19 of f32, where 32 columns took 1.27.

Source: from tilings of random nests on an H200.
"""
MANY_ARG_TILES = ((128, 32, 8), (32, 64, 16))
"""The same where columns are many and long, in rows that begin at sectors: columns, points and warps, the first for
which there are two programs a processor. Of ten nests of 8192 to 65536 columns of f32 and bf16 1.01 (1.05), where the
tiles of few took 1.10.

Source: from 60 tilings of 16 nests on an H200.
"""
LOOSE_COLUMNS, LOOSE_EACH, LOOSE_WARPS = 64, 4, 16
"""Columns of a program (where there are enough of them), elements of a thread, and warps at most, of 32-bit numbers
that are read once, in rows that begin anywhere or by addresses of 64 bits: of twelve sums and maxima 1.01 of the best
(1.07 with 32 columns and 8 elements), of six places, with 32 columns, 1.04 (1.10). Those that gave the rule.

Source: from 75 tilings of 18 such nests of f32 on an H100.
"""
LOOSE_ARG_POINTS, LOOSE_ARG_WARPS = 16, 4
"""The points that are read at a time, and warps, where a place is looked for in 16-bit numbers that lie so, if there
are programs enough: of five nests 1.03, where 64 points took 1.44. An argmin over the middle of 128 x 4096 x 4095 took
4.8 ms, and 1.7.

Source: from 75 tilings of six nests of bf16 on an H100.
"""
LONG_ROWS = ((512, 8), (256, 16))
"""The same of 16-bit numbers that are read once, in rows that begin anywhere, where there are two programs a processor
with so many columns: long pieces of rows share fewer sectors. Sums of 246578 columns of 282 bf16 took 44 us (46 with
256 columns), and 61 with 32.

Source: from 60 tilings of one nest on an H200.
"""
LONG_ROWS_WARPS = 16
"""Warps of these.

Source: the same tilings.
"""
PIECE, PIECE_WARPS, PIECE_EACH = 8192, 16, 8
"""Elements of a tile of columns so few that they fill no sector, and which are one piece of memory with all their
points; its warps at most, and elements of a thread. It is read like a row: sums of two columns of 2097151 f32, in
parts, took 23 us, and 40 where 16 parts shared a program; means of 300 by 4000 by 2 took 8 us, 13 in tiles of 4096 with
8 warps. Where a processor has no such piece, a program has one column: maxima of 40 by 65000 by 6 bf16 took 18 us, and
23. Places are not looked for so: of 8388607 by 3 bf16 they took 69 us, and 63.

Source: from 40 tilings of eight nests on an H200.
"""
MANY, MANY_TILE = 4, (64, 64, 16)
"""Programs of a processor from which on columns of 16 bits that are read again, in rows that begin at sectors, have
such a tile: columns, points, warps. Variances of 98304 columns of 2048 bf16 took 155 us, and 201 in tiles of all points
of 16 columns; softmax of 50048 columns of 3000 340 us, and 391 in steps of 32 by 256 points. Tiles of whole columns
that are not the longest are better (131072 of 1024: 108 us, and 117).

Source: from 40 tilings of six nests on an H200.
"""
STEPPED, STEPPED_FROM, STEPPED_LONG, STEPPED_PROGRAMS = (128, 4, 4), 65, 256, 2.4
"""Columns of a program, points of each a step, and warps, of columns of so many points or more that are read once, in
rows that begin at sectors: many threads of few numbers. Of nine nests of 100 to 2000 points 1.01 of the best (1.04);
what was chosen before took 1.08 (1.23). Where these have more points than the third, a processor has so many programs
at least; a gradient of 32768 columns of 262, which stores as well, took 1.3 times TorchInductor's time so. Parts of
gradients of a layer norm, whose steps read three tensors, took 1.4 to 2 times as long as in other tiles (65536 rows of
256 bf16 38.8 us, and 19.5).

Source: from 11 tilings of these nests on an H200, whose reductions have registers (`registers.py`).
"""
STEPPED_ODD = (64, 8, 4)
"""The same of points of which a last step has fewer: of 14 nests of 65 to 1001 points, but for those below, 1.03 of the
best (1.09), and 1.06 (1.26) in steps of four, which ask at each whether a point is there.

Source: from 10 to 12 tilings of these nests on an H200.
"""
STEPPED_ALONE, STEPPED_ALONE_PROGRAMS = (128, 1, 1), 7.5
"""The same of as many points as `STEPPED_LONG` says at most, of which a processor has so many programs: a lane goes
down a vector of columns by itself. Of 14 nests of 65 to 90 points of 131072 to 317184 columns, f32 and bf16, 1.01 of
the best (1.04), in steps of eight 1.07 (1.37), of four 1.26 (1.63). The 14 of fewer columns, or more points, took 1.77
(2.85) so.

Source: from 10 to 12 tilings of these nests on an H200.
"""
FULL = 0.72
"""The share of the processors that have a program, at which programs are not too few: 2000 columns are better in 125
programs than in 250, 3072 of 32768 f32 in 96 than in 192 (105 and 137 us on an H200, 152 and 161 on an H100), 2500 in
157 as good as in 79.

Source: from tilings of random nests.
"""
READ_FEW = {
    4: ((0.3, 32, 128, 16), (0.3, 16, 128, 16), (0, 8, 256, 32)),
    2: ((0.36, 64, 128, 16), (0.36, 32, 512, 32), (0, 16, 256, 32)),
}
"""By the bytes of an element, tiles of long columns that are only read, once, in rows that begin where vectors may,
where they are fewer than processors want: the share of the processors that have such a program, at least; columns,
points, warps. The bytes of a row that lie side by side count for more than processors without a program, once loads do
not wait for one another (`registers.py`): sums of 32768 rows of 1024 f32 took 66 us in 128 programs and 42 in 32, of
8192 rows of 3000 43 and 33, of 32768 of 4096 bf16 99 and 75. Of 26 such nests of f32 1.037 of the best, of bf16 1.085,
those among them that are better in parts; 1.123 and 1.105 before. A layer norm's gradient of 4096 columns of 4096 bf16,
which reads three tensors, took 26 us so, and 16.4 with 32 columns; sums of 4096 columns of 16384 that are read
backwards 90 and 48.

Source: from 22 tilings of 52 nests of 256 to 4096 columns on an H200.
"""
SHORT, SHORT_EACH, SHORT_WARPS = 512, 32, 8
"""Columns of so many points are one tile, with so many elements a thread, of at most so many warps, as those exchange
what they found: of 58 nests, 24 of them so short, 1.055, 1.07 where only 128 points were one tile with any warps.

Source: from tilings of random nests on an H200.
"""
SHORT_ARG, SHORT_ARG_EACH = 128, 64
"""The same where a place is looked for: 1.01 to 1.04.

Source: from tilings of random nests on an H200.
"""
FEW = 256
"""Threads of a processor at least, before short columns have more of them for each tile.

Source: a choice: half as many gave the same tiles in 58 measured nests.
"""
WASTE = 1.07
"""Lanes for each column from which on all parallel axes are one, whose last tile only has lanes without columns. That
takes as long where no lane is without one, 0.9 of the time at 1.1, 0.68 to 0.84 at 1.5.

Source: from tilings of random nests on an H200.
"""
KEPT, MOST_KEPT = 16384, 32768
"""Elements of a tile of whole columns, which stay in registers for the stages that read them again; and of one at most,
where columns are long: 1.01 to 1.06.

Source: from tilings of random nests on an H200.
"""
KEPT_COLUMNS = 32
"""Columns of such a tile at most; at least, those of a sector: of 4096 columns of 4096 bf16 softmax took 76 us in tiles
of 8 columns, and 43 in steps of 32 columns and 256 points (of 3000 of 10000 147 and 82, on an H200). Where rows of
columns do not begin at sectors of memory, a tile has twice as many: fewer of its sectors belong to two tiles. (Not with
more elements: variances of 512 of 108 bf16 took 26 us in tiles of 64 columns, and 19 of 32, of 400 of 1000 41 and 27;
and not of rows that do begin there: parts of 128 points of 32768 by 2048 bf16 took 89 us with what follows, and 62.)
With these numbers and those below tiles took 1.057 of the best, 1.22 the worst; 1.150 and 1.99 with 64 columns and
threads for a full processor.

Source: from tilings of 57 random nests on an H100, and of 40 on an H200.
"""
KEPT_STORED, KEPT_STORED_COLUMNS, KEPT_STORED_EACH = 8192, 16, 32
"""Elements of such a tile of 32-bit numbers whose points are stored, too; its columns, even if they are more; and
elements of a thread. Softmax of 512 of 108 f32 took 56 us in tiles of twice as many, and 51, of 256 of 108 52 and 42,
of 1000 of 20000 67 and 55, of 512 of 30000 53 and 43. Of ten such nests 1.03 of the best (1.14), and 1.16 before.

Source: from 15 tilings of ten nests on an H200.
"""
KEPT_PROGRAMS = 2
"""Programs of a processor, before such a tile has so many columns.

Source: the same nests.
"""
KEPT_EACH, LEAST_KEPT_EACH, KEPT_WARPS = 64, 16, 16
"""Elements of a thread of such a tile; at least, where that leaves a processor few threads; and warps at most.

Source: the same nests.
"""
KEPT_STORING, KEPT_READING = 512, 256
"""The threads of a processor that are few there: of a nest that stores its points; of one that only reads them.

Source: the same nests.
"""
SHORT_POINTS, SHORT_COLUMNS, SHORT_WARP = 16, 64, 512
"""Short columns of so many points that several stages read are tiles of so many columns, which stay in registers; and
elements of a warp of these: three softmaxes of columns of 32 f32 took 0.54 to 0.74 of the time that lanes of
their own took. Of 16 bits they took longer.

Source: from tilings of random nests on an H200 (`make bench-gpu-schedules`).
"""
SHORT_LOOSE, NORM_WARPS = 5, 4
"""So many points, or more, of f32 in rows that do not begin at sectors are such tiles, too; where only one thing is
reduced, a norm, they have so many warps. RMS norms of 8 points, rows of 19, took 162 us and 208 where 256 columns
shared a program (TorchInductor 166), l2 norms of 9 points, rows of 10007, 59 and 68, of 20, rows of 500, 85 and 94;
softmaxes of 12, rows of 300, 42 and 53 (72 with as many warps), of 5, rows of 31, 16 and 18.

Source: from 16 to 20 tilings of five nests on an H200.
"""
LOOSE_KEPT, LOOSE_KEPT_WARPS = 2048, 8
"""Elements of such a tile, and its warps, of 16-bit numbers in rows that do not begin at sectors, which no thread loads
as vectors: five nests of 16 to 32 points took 0.74 to 0.94 of the time that lanes of their own took.

Source: from 40 tilings of five nests on an H200 (`make bench-gpu-schedules`).
"""
SCANNED, SCANNED_TILE, SCANNED_WARPS = 32, 1024, 4
"""Columns of so few points are scanned in one tile of so many elements: its loads do not wait for one another. Seven
nests took 0.39 to 1.05 of the time of lanes that go through their columns step by step (0.79, geometric mean).

Source: from tilings of random nests on an H200 (`make bench-gpu-schedules`).
"""
SCANNED_SINGLE, SCANNED_SHORT = 512, 16
"""The same of as many points at most as the second says, of f32, and of other numbers side by side in odd numbers, of
which a thread loads each by itself: it has four. Of seven nests of f32 1.03 of the best (1.11), and 1.08 before; of
four of bf16, of odd numbers, 1.02, and 1.14.

Source: from 9 to 14 tilings of 16 nests on an H200.
"""
ALONE, ALONE_FROM, ALONE_WARPS = 256, 17, 2
"""Columns of a program whose lanes go through their points by themselves, from so many points on, where one thing is
scanned, as many lie side by side, and there are two programs a processor; and its warps: a thread has four of them.
Five nests of 20 to 32 points took 0.62 to 0.93 of the time of the tiles above; 512 columns with 8 warps, one of a
thread, 1.0 to 1.3 of that. Where 20 lie side by side, 24 points of f32 took 55 us so, and 45 in those tiles, of bf16 43
and 36.

Source: from 60 tilings of five nests on an H200, and from 14 of two.
"""
RUNNING = 4
"""So many times the columns of a tile are scanned together where their rows do not begin at sectors.

Source: from tilings of four nests on an H100: 1.21 to 1.47 with no more than elsewhere, 1.01 and 1.02 with these.
"""
AGAIN, AGAIN_WARPS = 8192, 16
"""Elements of a tile of columns that are scanned, or read again and too long to keep; its warps, where they are read
again: 1.00 and 1.16 of f32, of three nests of bf16 1.01, 1.00 and 1.02 (1.76, 1.14 and 1.20 with columns of a segment).
Where columns of 16 bits are few, half as many elements and twice as many warps: 8192 x 1000 took 26 us, and 40.

Source: from tilings of random nests on an H200.
"""
WIDE = 2048
"""Elements of a tile of columns that are scanned, or read again and too long to keep, where addresses take 64 bits, of
which a thread keeps one for each element that it loads. Sums of 128 x 4096 x 4095 f32 over the middle took 4.5 ms on an
H200 in tiles of 8192, 3.2 to 3.6 of 4096, 2.2 of 2048; argmax 8.0, 2.8 to 4.6 and 3.2 ms.

Source: from a sweep of tiles on an H200, of twelve shapes.
"""
BUSY = 1024
"""Threads of a processor at least, before programs have no more of them: those of few programs do. Three of four nests
with fewer took 1.2 times the best.

Source: from tilings of random nests on an H200.
"""
WARP = 32
"""Threads of a warp.

Source: a definition (CUDA).
"""


@struct
class Columns:
    """What is known of columns: how many there are in all, and along the axis where they lie side by side; their
    points; bytes of an element; tensors that several stages read.
    """

    every: int
    side_by_side: int
    points: int
    width: int
    kept: int
    known: bool
    """Whether the number of points is one."""
    running: bool
    indexed: bool
    """Whether some place is looked for."""
    wide: bool
    aligned: bool = True
    """Whether the rows of what is read begin at sectors of memory."""
    in_vectors: bool = True
    """Whether they begin where vectors may, and are read forwards."""
    stores: bool = True
    """Whether something is made of each point, and not only of each column."""
    reads: int = 1
    """What is read for each point: of several things, a thread waits for all before it goes on."""


@struct
class Tile:
    """Columns of a program, points of each at a time, and warps; None for as many as any tile of its size has."""

    columns: int
    points: int
    warps: int | None


def are_stepped(given: Columns, machine: Machine) -> bool:
    """Whether a program goes down many columns in steps of few points."""
    plain = _are_summed(given)
    programs = FULL if given.points <= STEPPED_LONG else STEPPED_PROGRAMS
    enough = given.points >= STEPPED_FROM and given.every >= programs * STEPPED[0] * machine.processors
    return plain and given.aligned and given.side_by_side >= STEPPED[0] and enough


def tile_of(given: Columns, machine: Machine) -> Tile:
    """The tile that a program goes down its columns with."""
    whole, threads = power_of_two(given.points), BUSY * machine.processors
    if given.running or (given.kept and (given.wide or not given.known)):
        return _looped(given, machine)
    if are_stepped(given, machine):
        if given.points % STEPPED[1] == 0:
            return Tile(*STEPPED)
        many = given.every >= STEPPED_ALONE_PROGRAMS * STEPPED_ALONE[0] * machine.processors
        return Tile(*(STEPPED_ALONE if many and given.points <= STEPPED_LONG else STEPPED_ODD))
    columns, points, warps = MANY_TILE
    many = given.width < 4 and given.aligned and given.every >= MANY * columns * machine.processors
    if given.kept and many and whole * power_of_two(given.kept) * machine.sector // given.width > KEPT:
        return Tile(columns, min(whole, points), warps)
    if given.kept:
        values = whole * power_of_two(given.kept)
        least = min(machine.sector // given.width, MOST_KEPT // values)
        if least * given.width < machine.sector:
            return _looped(given, machine)
        more, stored = 1 if given.aligned else 2, given.width >= 4 and given.stores
        most = max(KEPT_STORED, min(KEPT, KEPT_STORED_COLUMNS * values)) if stored else KEPT
        columns = max(least, min(KEPT_COLUMNS * more, most // values))
        columns = min(columns, power_of_two(given.side_by_side))
        while columns > least and given.every < KEPT_PROGRAMS * columns * machine.processors:
            columns //= 2
        each = KEPT_STORED_EACH if stored else KEPT_EACH
        few = KEPT_STORING if given.stores else KEPT_READING
        while each > LEAST_KEPT_EACH and given.every * values < few * machine.processors * each:
            each //= 2
        return Tile(columns, whole, min(KEPT_WARPS, _warps(columns * values, each, machine)))
    halves, loose = given.width == 2, given.wide or not given.aligned
    if halves and not given.aligned and not (given.wide or given.indexed) and whole > LONG_ROWS[0][1]:
        for columns, points in LONG_ROWS:
            if given.side_by_side >= columns and given.every >= 2 * columns * machine.processors:
                return Tile(columns, min(whole, points), LONG_ROWS_WARPS)
    if given.indexed and whole <= SHORT_ARG and given.every * whole >= threads * SHORT_ARG_EACH:
        columns = _enough(given, COLUMNS, machine)
        return Tile(columns, whole, _warps(columns * whole, SHORT_ARG_EACH, machine))
    if not given.indexed and whole <= SHORT:
        columns, each = _enough(given, COLUMNS, machine), SHORT_EACH
        while each > EACH and given.every * whole < FEW * machine.processors * each:
            each //= 2
        return Tile(columns, whole, min(SHORT_WARPS, _warps(columns * whole, each, machine)))
    if (found := few_tile(given, machine)) is not None:
        return found
    in_order = halves and given.side_by_side * given.width % machine.segment == 0
    if given.indexed and halves and loose and given.every * LOOSE_ARG_POINTS >= threads * LOOSE_EACH:
        return Tile(_enough(given, COLUMNS, machine), min(whole, LOOSE_ARG_POINTS), LOOSE_ARG_WARPS)
    if given.indexed and not loose and whole > SHORT:
        for columns, points, warps in MANY_ARG_TILES:
            if given.every >= 2 * FULL * columns * machine.processors:
                return Tile(columns, points, warps)
    if given.indexed and (halves or not loose):
        columns = _enough(given, HALF_ARG_COLUMNS if halves else ARG_COLUMNS, machine)
    else:
        columns = _enough(given, HALF_COLUMNS if in_order else COLUMNS, machine)
    each = HALF_EACH if in_order and (given.indexed or columns == HALF_COLUMNS) else EACH
    if loose and not halves and not (given.indexed and given.wide):
        each = LOOSE_EACH
    points, most = min(whole, POINTS), HALF_TILE if in_order else AGAIN
    while points < whole and columns * points < most and given.every * points < threads * each:
        points *= 2
    if loose and not halves:
        if not given.indexed and given.every * points >= 2 * threads * each:
            columns, points = _enough(given, LOOSE_COLUMNS, machine), points // 2
        return Tile(columns, points, min(LOOSE_WARPS, _warps(columns * points, each, machine)))
    return Tile(columns, points, _warps(columns * points, each, machine))


def few_tile(given: Columns, machine: Machine) -> Tile | None:
    """The tile of columns that are long, only read, and fewer than processors want; None of others."""
    tiles = READ_FEW.get(given.width, ())
    if not (tiles and _are_summed(given) and given.in_vectors and power_of_two(given.points) > SHORT):
        return None
    if given.every >= FULL * tiles[0][1] * machine.processors:
        return None
    for share, columns, points, warps in tiles:
        if given.side_by_side >= columns and given.every >= share * columns * machine.processors:
            return Tile(columns, min(power_of_two(given.points), points), warps)
    return None


def _are_summed(given: Columns) -> bool:
    """Whether one thing is read of each point, once, for what is no place."""
    more = given.kept or given.running or given.indexed or given.wide or given.stores
    return given.known and given.reads == 1 and not more


def are_one_piece(analysis: NestAnalysis, axis: int, reading: Iterable[tuple[Loop, Access]]) -> bool:
    """Whether columns along an axis are one piece of memory with all their points, one row after the other, as each of
    these accesses finds them.
    """
    size = analysis.sizes[axis]
    return all(len(leaf.axes) == 1 and step(one.address, leaf.axes[0], analysis) == size for leaf, one in reading)


def of_piece(columns: int, points: int, pieces: int, machine: Machine) -> Tiling:
    """The tile of so few columns that are one of so many pieces of memory. `along` is left to the caller."""
    rows, most = (power_of_two(columns), PIECE) if pieces >= machine.processors else (1, PIECE // 2)
    lanes = max(2, min(power_of_two(points), most // rows))
    return {"rows": rows, "lanes": lanes, "warps": min(PIECE_WARPS, _warps(rows * lanes, PIECE_EACH, machine))}


def scanned_tile(points: int, every: int, beside: int, width: int, values: int, machine: Machine) -> Tile:
    """The tile of so many columns that are scanned, of so few points of so many bytes, and of so many values each, so
    many of which lie `beside` each other.
    """
    if points >= ALONE_FROM and values == 1 and beside >= ALONE and every >= 2 * ALONE * machine.processors:
        return Tile(ALONE, 1, ALONE_WARPS)
    lanes, single = power_of_two(points), width >= 4 or beside % 2
    tile = SCANNED_SINGLE if single and points <= SCANNED_SHORT else SCANNED_TILE
    return Tile(tile // lanes, lanes, SCANNED_WARPS)


def short_tile(points: int, width: int, aligned: bool, reductions: int) -> Tile | None:
    """The tile of columns of so few points that lanes could go through them by themselves, which several stages read,
    so many of them reductions; None where they should. `width` is that of an element; `aligned`, rows begin at sectors.
    """
    lanes = power_of_two(points)
    if width >= 4 and points >= (SHORT_POINTS if aligned else SHORT_LOOSE):
        norm = reductions == 1 and not aligned
        return Tile(SHORT_COLUMNS, lanes, NORM_WARPS if norm else max(1, SHORT_COLUMNS * lanes // SHORT_WARP))
    if points >= SHORT_POINTS and not aligned:
        return Tile(LOOSE_KEPT // lanes, lanes, LOOSE_KEPT_WARPS)
    return None


def _warps(elements: int, each: int, machine: Machine) -> int:
    """Warps of a tile, so that a thread has so many elements."""
    return max(1, min(machine.warps, elements // (WARP * each)))


def _looped(given: Columns, machine: Machine) -> Tile:
    """Of columns that are scanned, or read again from the cache."""
    more = RUNNING if given.running and not given.aligned else 1
    wanted = machine.segment // given.width if given.running else COLUMNS
    columns = _enough(given, more * wanted, machine)
    tile, warps = WIDE if given.wide else AGAIN, AGAIN_WARPS
    if given.width < 4 and columns < wanted and not given.running:
        tile, warps = tile // 2, 2 * warps
    points = min(power_of_two(given.points), max(1, tile // columns))
    full = columns * points >= tile and not given.running and not given.wide
    return Tile(columns, points, min(warps, machine.warps) if full else None)


def _enough(given: Columns, columns: int, machine: Machine) -> int:
    """So many columns, or fewer, as long as they fill sectors, where programs are too few for the device."""
    columns = min(columns, power_of_two(given.side_by_side))
    while given.every < FULL * columns * machine.processors and columns * given.width > machine.sector:
        columns //= 2
    return columns


def wasted(size: int, columns: int) -> float:
    """Lanes for each column, of an axis that is taken in tiles of so many."""
    return -(-size // columns) * columns / size


__all__ = [
    "WASTE",
    "Columns",
    "Tile",
    "are_one_piece",
    "few_tile",
    "of_piece",
    "scanned_tile",
    "short_tile",
    "tile_of",
    "wasted",
]
