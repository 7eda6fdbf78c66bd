"""Tiles in which matrix units do a product, and which of them are worth timing."""

from __future__ import annotations

from cuesta.dialects.core.machine import Machine

LEAST = 16
"""The fewest rows, columns and points of a tile that matrix units take.

Source: a definition: matrix units take no fewer, nor does `tl.dot`.
"""

_SIDES = {
    (64, 8, 3): ((128, 256), (256, 128), (128, 128)),
    (64, 4, 3): ((128, 128),),
    (64, 4, 4): ((128, 64), (64, 128), (64, 256), (64, 64)),
    (128, 4, 4): ((32, 64), (64, 32), (32, 32), (16, 64), (16, 128)),
}
"""What is worth timing: rows and columns, by depth (of 16 bits), warps and stages of tiles.

Source: none is preferred: `max-autotune` times those that the estimate below puts first, on the device at hand.
"""
_TILES = tuple((*sides, *rest) for rest, group in _SIDES.items() for sides in group)
_SMALL = (32, 32, 128, 4, 4)
"""The tile of a product that none fits.

Source: `max-autotune` times it beside the library's call, on the device at hand.
"""
GROUP = 8
"""Rows of tiles that are done together.

Source: measured by `make bench-constants ARGS='--only tiles.GROUP'`
"""
TRIED = 5
"""How many tiles are timed for one product.

Source: a bound against the time that tuning takes.
"""


def tiles_for(sizes: tuple[int, int, int], programs_around: int, bits: int, processors: int) -> list[dict[str, int]]:
    """The choices of the few tiles that should do best for a product of rows × points by points × columns.

    The estimate: rounds in which all processors compute a tile each, times what a tile costs, which is its own size
    and, at the rate that matrix units outrun memory, its two sides.
    """
    rows, columns, points = sizes

    def cost(tile: tuple[int, int, int, int, int]) -> float:
        height, width, _, warps, _ = tile
        programs = -(-rows // height) * -(-columns // width) * programs_around
        together = max(1, 8 // warps)
        rounds = -(-programs // (processors * together)) * together
        return rounds * (height * width + 48 * (height + width))

    fitting = [tile for tile in _TILES if fits(tile[0], rows) and fits(tile[1], columns)]
    best = sorted(fitting or [_SMALL], key=cost)[:TRIED]
    return [
        {
            "rows": height,
            "columns": width,
            "depth": max(LEAST, min(depth * 16 // bits, 1 << max(0, points - 1).bit_length())),
            "warps": warps,
            "stages": stages,
            "group": GROUP,
            **({"tf32": 1} if bits == 32 else {}),
        }
        for height, width, depth, warps, stages in best
    ]


def fits(tile: int, size: int) -> bool:
    """Whether a side of a tile is not mostly empty."""
    return tile <= LEAST or tile < 2 * size


STEP = 2.0
"""Microseconds of a step of 128 rows by 64 points, with two programs on a processor, of sums of 64 and 64 columns.

Source: attention of 64 heads of 4096 by 4096 on an H200, `make bench-attention`: 8 rounds of 64 steps took 1.05 ms.
"""
APART, PASSES, SPEED = 12.0, 5, 3.3e6
"""Of two products with a kernel between them: microseconds of three launches; how often what lies between is written or
read; bytes a microsecond.

Source: the same, by TorchInductor: 3.9 ms, of which this says 3.3.
"""
RATE = 6e8
"""Operations a microsecond of a library's product of 16 bits.

Source: a bound: large products on an H100 or H200 come near it.
"""


def times_of_walk(
    rows: int, points: int, batch: int, tile: dict[str, int], machine: Machine, width: int
) -> tuple[float, float]:
    """About how many microseconds a walk along `points` takes, and the products with a kernel between them. `width` is
    the columns of all products, those within and the last: a point of the walk costs as much.

    A program of a walk does one step after the other: of few rows and many points the processors are idle.
    """
    programs = -(-rows // tile["rows"]) * batch
    rounds = -(-programs // (2 * machine.processors))
    step = STEP * tile["rows"] * tile["depth"] * width / (128 * 64 * 128)
    walk = rounds * -(-points // tile["depth"]) * step
    count = rows * points * batch
    return walk, APART + PASSES * 2 * count / SPEED + 2 * count * width / RATE


_STEPS = {2: ((64, 3), (64, 3)), 3: ((64, 2), (32, 3)), 4: ((64, 3), (64, 2))}
"""By how many products a step computes, the points of a step and the stages: of 64 columns at most, and of more. All
are of 64 rows and 4 warps: of 12 and 13 tiles none of 128 rows was faster, and 8 warps for 64 rows took twice as long.

Source: attention of 4096 by 4096 and its gradient, causal and with slopes, heads of 64 and of 128, on an H200.
"""


def walked_tile(rows: int, columns: int, points: int, products: int = 2) -> dict[str, int]:
    """The choices of a nest that walks along what it sums, and computes what it sums on the way from sums of `points`.

    A program has all columns. `depth` are the points of a step, in which `products` are computed.
    """
    width = max(LEAST, 1 << max(0, columns - 1).bit_length())
    inner = max(LEAST, 1 << max(0, points - 1).bit_length())
    widest = max(width, inner)
    depth, stages = _STEPS[min(4, max(2, products))][widest > 64]
    return {
        "rows": min(64, max(LEAST, 1 << max(0, rows - 1).bit_length())),
        "columns": width,
        "depth": depth,
        "warps": 4,
        "stages": stages if widest <= 128 else 2,
    }
