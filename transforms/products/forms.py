"""Forms of a contraction that has its tiles: tensor descriptors, programs that do several tiles, stream-K.

What each takes is estimated as its tiles are (`tiles.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cuesta.dialects.core.machine import Machine
from cuesta.transforms.products.tiles import ALONE, CLOCK, Around, Pace, clocks, estimates, programs_together

STREAM_K = "stream_k"
"""The choice that says how many rows at the end of a contraction are in parts: `split-last-waves` obeys it."""
STREAM_COLUMNS = "stream_columns"
"""The one that says that these are columns."""
STREAM = (STREAM_K, STREAM_COLUMNS, "part")
"""What stream-K adds to the choices of a tile."""
MOST_PARTS, LEAST_STEPS = 32, 4
"""How many parts the sums of such rows have at most; steps of each, at least.

Source: a choice: the estimate decides.
"""
_BYTES = 16
"""Bytes of which a part begins at a multiple: a tensor descriptor loads it.

Source: a definition (CUDA): `cuTensorMapEncodeTiled`.
"""
FORMS = ("descriptors", "programs")
"""The choices that say the form of a contraction: `choose-forms` makes them."""
_WAVES = Pace(1.56, 0.0, 3000, 1200, 0.82)
"""Of the sums of 2048 points and more that waves are counted of: how often a step waits for its operands, and not for
the matrix units, the estimate of a single form takes from shorter sums, and says 1.25 to 1.6 times too much of these.

Source: `python -m benchmarks.product_forms --only waves` on an H200: 16 products of which not both factors have rows
that begin within lines, in 40 forms, are within 0.94 and 1.10 of it, but for one, 1.16.
"""
_JOINED = 8750
"""Clocks that stream-K takes besides its nests and the launches of these: what it computes a part with, and what reads
these again, begins when the one before has ended.

Source: the same: the mean of 24 forms was 5 us, with `_WAVES`.
"""
WORTH = 1.05
"""How many times as long the form without must take.

Source: the same: so said, no form of 27 was slower; all that were faster by 0.06 or more are said to be.
"""


def forms_of(
    sizes: tuple[int, int, int], batch: int, bits: int, machine: Machine, made: dict[str, int], around: Around = ALONE
) -> list[dict[str, int]]:
    """Other forms of a tile that are worth timing: with tensor descriptors, where the machine has them, and as many
    programs as run at a time, each of which does several tiles, where there are more tiles than that. None that has no
    room is among them.
    """
    rows, columns, points = sizes
    parts = points // made["part"] if "part" in made else 1
    tiles = -(-rows // made["rows"]) * -(-columns // made["columns"]) * batch * parts
    found = [{**made, "descriptors": 1}] if machine.has_descriptors else []
    together = programs_together(bits, {**made, "programs": 1}, machine, around)
    programs = machine.processors * together
    # Of programs that share a processor, those that end first leave it to the others.
    if together and tiles > programs * (1 if together == 1 else 2):
        found += [{**form, "programs": programs} for form in (*found, made)]
    return found


def described_forms(
    sizes: tuple[int, int, int], batch: int, bits: int, machine: Machine, made: dict[str, int], around: Around = ALONE
) -> list[tuple[float, dict[str, int]]]:
    """The forms of a tile with descriptors: about how many microseconds each takes, the fastest first; none that has no
    room.
    """
    forms = [form for form in forms_of(sizes, batch, bits, machine, made, around) if "descriptors" in form]
    timed = [(clocks(sizes, batch, bits, form, 1, machine, around) / CLOCK, form) for form in forms]
    return sorted((one for one in timed if not math.isinf(one[0])), key=lambda one: one[0])


def formed(
    sizes: tuple[int, int, int],
    batch: int,
    bits: int,
    machine: Machine,
    around: Around = ALONE,
    *,
    apart: Sequence[bool] = (False, False),
) -> list[tuple[float, dict[str, int]]]:
    """About how many microseconds a product takes with each of the tiles that fit, in the forms that are sure, with
    descriptors: of two factors that lie as they are read; the fastest first. `apart` says whether the last rows, and
    the last columns, may have a nest of their own (stream-K).

    Sure is what was measured: 16 bits, one sum, no parts.
    """
    found = estimates(sizes, batch, bits, machine, around)
    if bits != 16 or around.sums > 1 or around.overlap:
        return found
    for _, made in list(found):
        if "part" in made:
            continue
        sure = described_forms(sizes, batch, bits, machine, made, around)
        found += sure
        for time, form in sure if any(apart) else ():
            one = streamed(sizes, batch, bits, machine, form, around, apart=apart)
            if one is not None and one[0] * WORTH <= 1:
                found.append((time * one[0], one[1]))
    return sorted(found, key=lambda one: one[0])


def streamed(
    sizes: tuple[int, int, int],
    batch: int,
    bits: int,
    machine: Machine,
    made: dict[str, int],
    around: Around = ALONE,
    *,
    apart: Sequence[bool] = (True, True),
) -> tuple[float, dict[str, int]] | None:
    """A form of a tile with the rows, or the columns, that no whole wave has in parts (stream-K), as far as these may
    be `apart`: how much of the time of that form it takes, about, and its choices. None where there is no whole wave,
    or the last one is whole, too.

    The rows of the whole waves, the parts, and what adds these up are a launch each.
    """
    rows, columns, points = sizes
    task = batch, bits
    together = programs_together(bits, made, machine, around)
    wave = machine.processors * together
    tiles = -(-rows // made["rows"]) * -(-columns // made["columns"]) * batch
    if "part" in made or not wave or tiles % wave == 0:
        return None
    form = clocks(sizes, *task, made, 1, machine, around, _WAVES)
    in_parts = {name: value for name, value in made.items() if name != "programs"}
    possible = [
        parts
        for parts in range(2, MOST_PARTS + 1)
        if points % parts == 0 and points // parts * bits % (8 * _BYTES) == 0
    ]
    best: tuple[float, dict[str, int]] | None = None
    for is_columns, (side, extent, other) in enumerate((("rows", rows, columns), ("columns", columns, rows))):
        each = -(-other // made["rows" if is_columns else "columns"]) * batch
        first = tiles // wave * wave // each * made[side]
        if not apart[is_columns] or not 0 < first < extent - 1:
            continue
        last = extent - first
        heads, tails = (
            ((rows, first, points), (rows, last, points)) if is_columns else ((first, *sizes[1:]), (last, *sizes[1:]))
        )
        whole = clocks(heads, *task, made, 1, machine, around, _WAVES)
        for parts in possible:
            if points // parts < LEAST_STEPS * made["depth"]:
                break
            rest = clocks(tails, *task, in_parts, parts, machine, around, _WAVES)
            share = (whole + rest + machine.launch / machine.memory_rate + _JOINED) / form
            if best is None or share < best[0]:
                said = {STREAM_K: last, "part": points // parts, **({STREAM_COLUMNS: 1} if is_columns else {})}
                best = share, {**made, **said}
    return best


def streams_of(
    sizes: tuple[int, int, int], batch: int, bits: int, machine: Machine, made: dict[str, int], around: Around = ALONE
) -> list[dict[str, int]]:
    """The fastest form of a tile with its last rows in parts, if it is estimated faster than that form itself; with
    descriptors, where there are some: two products of 13 were faster without, by 0.01 and 0.03 (decision 074).
    """
    task = sizes, batch, bits
    found: list[tuple[float, dict[str, int]]] = []
    forms = forms_of(*task, machine, made, around)
    for form in [form for form in forms if "descriptors" in form] or [made, *forms]:
        one = streamed(*task, machine, form, around)
        if one is not None and one[0] < 1:
            found.append((one[0] * clocks(*task, form, 1, machine, around), one[1]))
    return [min(found, key=lambda one: one[0])[1]] if found else []


def form_for(
    sizes: tuple[int, int, int], batch: int, bits: int, machine: Machine, made: dict[str, int], around: Around = ALONE
) -> dict[str, int]:
    """What the fastest form of a tile with descriptors says besides the tile; nothing where none has room."""
    timed = described_forms(sizes, batch, bits, machine, made, around)
    return {name: timed[0][1][name] for name in FORMS if name in timed[0][1]} if timed else {}


__all__ = [
    "FORMS",
    "STREAM",
    "STREAM_COLUMNS",
    "STREAM_K",
    "WORTH",
    "described_forms",
    "form_for",
    "formed",
    "forms_of",
    "streamed",
    "streams_of",
]
