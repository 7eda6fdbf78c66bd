"""Tiles in which matrix units do a product, and which of them are worth timing."""

from __future__ import annotations

import math
from collections import Counter

from cuesta.dialects.core.machine import Machine
from cuesta.dialects.core.structs import struct

LEAST = 16
"""The fewest rows, columns and points of a tile that matrix units take.

Source: a definition: matrix units take no fewer, nor does `tl.dot`.
"""

_SIDES = {
    (64, 8): ((128, 256, 3), (256, 128, 3), (128, 128, 4), (128, 256, 4)),
    (64, 4): (
        *((128, 128, 3), (128, 128, 4), (128, 128, 2), (64, 256, 4), (128, 64, 4), (128, 64, 3), (64, 128, 4)),
        *((64, 128, 3), (64, 64, 4), (64, 64, 3), (128, 32, 4)),
    ),
    (32, 4): ((128, 128, 4), (128, 128, 3), (128, 64, 4)),
    (128, 4): ((64, 64, 4), (64, 128, 3), (32, 64, 4), (64, 32, 4), (32, 32, 4), (16, 64, 4), (16, 128, 4)),
}
"""What is worth timing: rows, columns and stages, by depth (of 16 bits) and warps of tiles.

Source: none is preferred: `max-autotune` times those that the estimate below puts first, on the device at hand.
"""
_OF_WINDOWS = {
    (64, 8): ((256, 64, 3), (128, 128, 3), (128, 64, 4)),
    (64, 4): ((128, 16, 4), (256, 16, 3), (256, 32, 3), (128, 32, 3)),
    (32, 4): ((128, 16, 4), (256, 16, 4), (128, 32, 4), (256, 32, 3), (256, 64, 3), (64, 64, 4)),
    (16, 4): ((128, 16, 4), (128, 32, 4), (128, 64, 4)),
}
"""The same, besides, of convolutions whose windows overlap: few channels, and many rows.

Source: none is preferred: the estimate decides, and under `max-autotune` the device at hand.
"""


def _tiles(sides: dict[tuple[int, int], tuple[tuple[int, int, int], ...]]) -> tuple[tuple[int, ...], ...]:
    """Rows, columns, depth, warps and stages."""
    return tuple((rows, columns, *rest, stages) for rest, group in sides.items() for rows, columns, stages in group)


_TILES, _WINDOWED = _tiles(_SIDES), _tiles(_OF_WINDOWS)
_SMALL = (32, 32, 128, 4, 4)
"""The tile of a product that none fits.

Source: `max-autotune` times it beside the library's call, on the device at hand.
"""
_PARTS = (2, 4, 8, 16, 32)
"""How many parts a sum may have, about.

Source: a choice: the estimate below decides.
"""
GROUP = 8
"""Rows of tiles that are done together.

Source: measured by `make bench-constants ARGS='--only tiles.GROUP'`
"""
TRIED = 8
"""How many tiles are timed for one product.

Source: a bound against the time that tuning takes.
"""
ALIKE = 3
"""How many of them may have the same sides.

Source: a bound: the estimate tells other depths and stages hardly apart.
"""
_UNITS = 2048
"""Products of 16 bits that the matrix units of a processor do in a clock.

Source: a definition: NVIDIA's H100 does 989e12 operations a second with 132 processors at 1.83 GHz.
"""
_REACHED = 0.75
"""The part of that which a tile's loop reaches where it waits for nothing else.

Source: a first guess.
"""
_LATENCY = 1200
"""Clocks until what is asked for is there.

Source: a first guess.
"""
_START = 3000
"""Clocks that a program takes besides the steps of its loop.

Source: a first guess.
"""
_REGISTERS = 64 << 10
"""The registers of a processor.

Source: a definition: NVIDIA's processors since 2012.
"""
_STORED_WIDE = 4
"""Bytes of shared memory, for an element of a tile, through which elements of more than 16 bits are read and stored
while the next factors arrive; of 16 bits 1 is enough.

Source: machine code for sm_90 (Triton 3.6), 11 tiles of 16, 32 and 64 bits: 2 or 4, and 0.5 to 2, of small tiles.
"""
_FULL = 64
"""From so many rows on a tile uses matrix units as four warps together (`wgmma`).

Source: a definition: the PTX ISA.
"""
LEAST_WAVE = 0.7
"""The part of a wave that the library takes the time of at least, for as many tiles as there are.

Source: `python -m benchmarks.product_forms --only waves` on an H200: 0.73 of a wave was the least of ten products.
"""
_HIDDEN = 0.6
"""What is done after a sum takes so much of its time where a processor has another program in its loop meanwhile.

Source: `make bench-products ARGS=--fused` on an H100: GELU after 16384x1024x512 took 7 us, and 13 as it is counted.
"""
_NEXT_START = 1350
"""Clocks that a tile takes besides the steps of its loop, where a program does several and loads by descriptors: what
the next one begins with is on its way meanwhile. 16384x1024x512, 4096x4096x1024, 65536x256x512 and 32 times 512x512x512
took 0.9 to 1.4 us less for each tile than with a program a tile; 0.95 is taken.

Source: `python -m benchmarks.product_forms` on an H200.
"""
_DESCRIBED = 0.98
"""What a step takes of its time where descriptors load its tiles: 0.98 in the mean of 15 products (0.94 to 1.03) of
which not both factors lie along the points; where both do, and tiles are large, 0.84 to 0.86: this is careful.

Source: the same.
"""
_TAIL = 1.25
"""How many times as long such a step takes where steps do not end where points do: rows begin in the middle of lines of
the cache.

Source: the same: 1.31 for 4000x4104x1000, and 1.20 for 3000x3000x3000, of steps of whole lines.
"""
PIECES, PRODUCTS = 3, 6
"""The pieces of bf16 that a factor of f32 is, and how many products of 16 bits one of f32 is then.

Source: a definition: `bf16x6` (`dialects/kernel/contract.py`).
"""
HELD = 1.25
"""Registers for an element of a factor that a thread cuts into pieces.

Source: machine code for sm_90 (Triton 3.6): 1.1 to 1.6 of twelve tiles.
"""
PACKED = 0.5
"""Of the values for an element of a tile that a thread has at a time after a sum, so many are no register: one of 16
bits is half of one, as it was loaded. Two values of 128 elements fit (a sum, with an addend, a gate, the gradient of a
tanh: 158 to 254 registers), three do not (the gradient of a SiLU: 255, and 1 kB of memory for each thread, with eight
warps none; of a GELU 1.4 kB, 40 bytes).

Source: machine code for sm_90 (Triton 3.7), tiles of 128 by 128 with four warps.
"""
CUT, ADDED = 8.0, 3.0
"""Instructions in which an element of a factor is cut into pieces, and those for an element of a tile in each step:
what is no number counts as nothing, and f32 adds.

Source: machine code for sm_90.
"""
_TURN, _ISSUE, _ALONE, _NARROW = 770.0, 1.44, 1.08, 1.5
"""Clocks that a step in pieces takes of a program by itself besides, as each of its six products waits for the one
before; clocks of an instruction of its warps; how many times as long matrix units take for it, and for few rows.

Source: fitted with `_IN_PIECES`.
"""
CLOCK = 1750.0
"""Clocks of a microsecond.

Source: a first guess.
"""


@struct
class Pace:
    """How a loop of steps goes: what of the cache's rate it reaches; the clocks that each row and column of a tile
    takes in a step besides, since its elements are places of their own; those of a program beside its steps; those
    until what is asked for is there; and the part of the matrix units that it reaches.
    """

    rate: float
    place: float
    start: float
    latency: float
    reached: float


_PLAIN = Pace(1.0, 0.0, _START, _LATENCY, _REACHED)
_IN_PIECES = Pace(1.0, 0.0, 7500, 1600, 0.79)
"""Of a product of f32 in pieces.

Source: fitted to 380 tiles of `make bench-products ARGS=--single` on an H200, 0.08 off in the mean; the tile that it
puts first took 1.035 times the fastest that was timed.
"""
_OVERLAPPING = Pace(1.56, 1.13, 6250, 670, 0.6)
"""Of a product of matrices, and of a convolution whose windows overlap.

Source: fitted to 178 tiles of `make bench-convolved` on an H100, 0.16 off in the mean, and 0.32 with the other one.
"""


@struct
class Around:
    """What is done around a product in its kernel, for each element, in float adds: to those of the result, of the left
    and of the right factor; and the bits that an element of the left and of the right factor has in memory, 0 for as
    many as a factor has. `bytes_after` are read for an element of the result, or written, beside the product itself.
    `sums` products of the same sizes, and perhaps of the same left factor, are computed in one loop. `addresses` are
    the instructions for an element of the left and of the right factor that find it, and ask whether it is there: those
    of windows that overlap. Memory has only so large a part of the left factor's elements, which windows share.
    """

    after: float = 0.0
    bytes_after: float = 0.0
    before: tuple[float, float] = (0.0, 0.0)
    bits_before: tuple[int, int] = (0, 0)
    sums: int = 1
    share_left: bool = True
    overlap: bool = False
    """Whether it is a convolution whose windows overlap."""
    addresses: tuple[float, float] = (0.0, 0.0)
    part_in_memory: float = 1.0
    in_turns: bool = False
    """Whether elements go through registers on their way to shared memory: none are on it while matrix units work, and
    every step waits for its own.
    """
    grouped: tuple[float, float] = (0.0, 0.0)
    """Float adds for an element of the left and of the right factor that so many points in a row as `group` share, as
    the scales of weights: a step of no more points does none of them.
    """
    group: int = 0
    promoted: bool = False
    """Whether f32 adds up what units add up in fewer bits: a thread has two tiles in its registers."""
    precision: str = ""
    """How units take factors of f32 (`kernel.contract`)."""
    widest: int = 0
    """The bits of the widest element that is read or written for an element of the result; 0 for those of factors."""
    alive: int = 1
    """Values for an element of the result that there are at a time after the product."""


ALONE = Around()
"""A product and nothing else."""


def tiles_for(
    sizes: tuple[int, int, int], batch: int, bits: int, machine: Machine, around: Around = ALONE
) -> list[dict[str, int]]:
    """The choices of the few tiles that should do best for `batch` products of rows × points by points × columns; at
    most half of them have their points in parts, as far as there are others.
    """
    found: list[dict[str, int]] = []
    alike: Counter[tuple[int, int]] = Counter()
    for time, choices in estimates(sizes, batch, bits, machine, around):
        sides = choices["rows"], choices["columns"]
        if alike[sides] < ALIKE and not math.isinf(time):
            alike[sides] += 1
            found.append(choices)
    whole = [number for number, choices in enumerate(found) if "part" not in choices]
    parts = [number for number, choices in enumerate(found) if "part" in choices]
    kept = sorted([*whole, *parts[: max(TRIED // 2, TRIED - len(whole))]])
    return [found[number] for number in kept[:TRIED]]


def estimates(
    sizes: tuple[int, int, int],
    batch: int,
    bits: int,
    machine: Machine,
    around: Around = ALONE,
    *,
    whole_waves: bool = True,
) -> list[tuple[float, dict[str, int]]]:
    """About how many microseconds a product takes on the device with each of the tiles that fit, and their choices; the
    fastest first. Some have their points in parts, which a second kernel adds up. Without `whole_waves` a last wave
    that is not full takes as much less.
    """
    rows, columns, points = sizes
    every = (*_TILES, *_WINDOWED) if around.overlap or around.part_in_memory < 1 else _TILES
    fitting = [tile for tile in every if fits(tile[0], rows) and fits(tile[1], columns)]
    if around.precision == "bf16x6":  # 32 by 32 took 1.4 times what is said of it, as factors are cut again and again
        fitting = [tile for tile in fitting if max(tile[:2]) > 2 * LEAST]
    found: list[tuple[float, dict[str, int]]] = []
    for height, width, deep, warps, stages in fitting or [_SMALL]:
        whole = max(LEAST, LEAST * 16 // bits, min(deep * 16 // bits, 1 << max(0, points - 1).bit_length()))
        for depth in {whole, min(whole, max(LEAST, around.group)) if around.group else whole}:
            made = {
                "rows": height,
                "columns": width,
                "depth": depth,
                "warps": warps,
                "stages": stages,
                "group": GROUP,
                **({around.precision: 1} if around.precision else {}),
            }
            for parts in (1, *_parts(points, depth)):
                time = clocks(sizes, batch, bits, made, parts, machine, around, whole_waves=whole_waves) / CLOCK
                found.append((time, made if parts == 1 else {**made, "part": points // parts}))
    return sorted(found, key=lambda one: one[0])


def _parts(points: int, depth: int) -> list[int]:
    """Numbers of equal parts that are whole steps, of at least four."""
    steps, rest = divmod(points, depth)
    possible = [] if rest else [one for one in range(2, steps // 4 + 1) if steps % one == 0]
    return sorted({min(possible, key=lambda one: abs(one - wanted)) for wanted in _PARTS if possible})


def clocks(
    sizes: tuple[int, int, int],
    batch: int,
    bits: int,
    made: dict[str, int],
    parts: int,
    machine: Machine,
    around: Around,
    pace: Pace | None = None,
    *,
    whole_waves: bool = True,
) -> float:
    """Clocks of a product, infinitely many where a tile has no room. A step of a tile's loop takes what its operands
    take from the second-level cache, or what the matrix units take; a processor has several programs at a time, and
    each waits for what it asked for first. Without `whole_waves` a last wave that is not full takes as much less.
    """
    rows, columns, points = sizes
    height, width, depth, stages = (made[name] for name in ("rows", "columns", "depth", "stages"))
    steps = -(-points // (parts * depth))
    programs = -(-rows // height) * -(-columns // width) * batch * parts
    left, right = (one or bits for one in around.bits_before)
    lefts = 1 if around.share_left else around.sums
    loaded = _loaded(bits, made, around)
    pieces = around.precision == "bf16x6"
    pace = pace or (_OVERLAPPING if around.overlap else _IN_PIECES if pieces else _PLAIN)
    step = loaded / (machine.cache_rate * pace.rate) + pace.place * (lefts * height + around.sums * width)
    units = around.sums * height * width * depth * (PRODUCTS if pieces else bits / 16) / _UNITS
    by_itself = 0.0
    if pieces:
        units *= _NARROW if height < _FULL else 1.0
        cut = (lefts * height + around.sums * width) * depth * CUT + around.sums * height * width * ADDED
        by_itself = max(step, _ALONE * units + _ISSUE * cut / (32 * made["warps"]) + _TURN)
        units += pace.reached * cut / machine.instruction_rate
    step = max(step, units / pace.reached)
    start = pace.start
    if "descriptors" in made:
        step *= _DESCRIBED * (_TAIL if points % (parts * depth) else 1.0)
        start = _NEXT_START if "programs" in made else start
    works = [before + address for before, address in zip(around.before, around.addresses, strict=True)]
    if depth > around.group:
        works = [work + shared for work, shared in zip(works, around.grouped, strict=True)]
    step += (lefts * height * works[0] + around.sums * width * works[1]) * depth / machine.instruction_rate
    together = programs_together(bits, made, machine, around)
    if not together:
        return math.inf
    after = height * width * (around.after / machine.instruction_rate + around.bytes_after / machine.cache_rate)
    waits = step + pace.latency if around.in_turns else max(step, by_itself, pace.latency / (stages - 1))
    alone = start + _LATENCY + steps * waits
    each: float = -(-programs // machine.processors)
    rounds: float = -(-each // together)
    if not whole_waves:
        each = max(LEAST_WAVE * together, programs / machine.processors)
        rounds = each / together
    found = max(rounds * alone, each * (steps * step) + rounds * start)
    memory = machine.memory_rate * machine.processors
    of_left = lefts * rows * left * around.part_in_memory
    moved = batch * (points * (of_left + around.sums * columns * right) + rows * columns * bits) / 8
    if parts > 1:
        found = max(found, moved / memory + _LATENCY) + machine.launch / machine.memory_rate
        computed = around.after / (machine.instruction_rate * machine.processors)
        return found + batch * rows * columns * max((8 * parts + around.bytes_after) / memory, computed)
    found += each * after * (1.0 if together == 1 else _HIDDEN)
    return max(found, (moved + batch * rows * columns * around.bytes_after) / memory + _LATENCY)


def _loaded(bits: int, made: dict[str, int], around: Around) -> int:
    """Bytes that a step of a tile's loop loads."""
    left, right = (one or bits for one in around.bits_before)
    lefts = 1 if around.share_left else around.sums
    return (lefts * made["rows"] * left + around.sums * made["columns"] * right) * made["depth"] // 8


def programs_together(bits: int, made: dict[str, int], machine: Machine, around: Around) -> int:
    """How many programs a processor has at a time; 0 where it has no room for one."""
    height, width, depth, warps, stages = (made[name] for name in ("rows", "columns", "depth", "warps", "stages"))
    wanted = (2 if around.promoted else 1) * around.sums * height * width // (warps * 32) + 48
    if around.precision == "bf16x6":  # elements are in registers, and so are their pieces
        wanted += int(HELD * (around.sums * width + height) * depth / (warps * 32))
    held = _loaded(bits, made, around) * stages + sum(
        side * depth * bits // 8 for side, work in ((height, around.before[0]), (width, around.before[1])) if work
    )
    if around.precision == "bf16x6":
        held += around.sums * width * depth * PIECES * 2
    if "programs" in made:  # the next tile's factors are there while this one is stored
        held += height * width * (_STORED_WIDE if max(bits, around.widest) > 16 else 1)
    finished = int(height * width / (warps * 32) * (around.alive - PACKED)) + 48
    if max(wanted, finished) > machine.registers or held > machine.shared:
        return 0
    return max(1, min(machine.shared // held, _REGISTERS // (32 * warps * wanted), 8))


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
