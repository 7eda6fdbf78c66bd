"""Forms of a contraction that has its tiles: tensor descriptors, programs that do several tiles, stream-K.

What each takes is estimated as its tiles are (`tiles.py`).
"""

from __future__ import annotations

import math

from cuesta.dialects.core.machine import Machine
from cuesta.transforms.products.tiles import ALONE, CLOCK, Around, Pace, clocks, estimates, programs_together

STREAM_K = "stream_k"
"""The choice that says how many rows at the end of a contraction are in parts: `split-last-waves` obeys it."""
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
    rows_apart: bool = False,
) -> list[tuple[float, dict[str, int]]]:
    """About how many microseconds a product takes with each of the tiles that fit, in the forms that are sure, with
    descriptors: of two factors that lie as they are read; the fastest first. With `rows_apart`, the last rows may have
    a nest of their own (stream-K).

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
        for time, form in sure if rows_apart else ():
            one = streamed(sizes, batch, bits, machine, form, around)
            if one is not None and one[0] * WORTH <= 1:
                found.append((time * one[0], one[1]))
    return sorted(found, key=lambda one: one[0])


def streamed(
    sizes: tuple[int, int, int], batch: int, bits: int, machine: Machine, made: dict[str, int], around: Around = ALONE
) -> tuple[float, dict[str, int]] | None:
    """A form of a tile with the rows that no whole wave has in parts (stream-K): how much of the time of that form it
    takes, about, and its choices. None where there is no whole wave, or the last one is whole, too.

    The rows of the whole waves, the parts, and what adds these up are a launch each.
    """
    rows, columns, points = sizes
    height, depth = made["rows"], made["depth"]
    together = programs_together(bits, made, machine, around)
    each = -(-columns // made["columns"]) * batch
    tiles, wave = -(-rows // height) * each, machine.processors * together
    first = tiles // wave * wave // each * height if wave else 0
    if "part" in made or not 0 < first < rows - 1 or tiles % wave == 0:
        return None
    form = clocks(sizes, batch, bits, made, 1, machine, around, _WAVES)
    whole = clocks((first, columns, points), batch, bits, made, 1, machine, around, _WAVES)
    in_parts = {name: value for name, value in made.items() if name != "programs"}
    best: tuple[float, dict[str, int]] | None = None
    for parts in range(2, MOST_PARTS + 1):
        part, rest = divmod(points, parts)
        if rest or part * bits % (8 * _BYTES) or part < LEAST_STEPS * depth:
            continue
        last = clocks((rows - first, columns, points), batch, bits, in_parts, parts, machine, around, _WAVES)
        share = (whole + last + machine.launch / machine.memory_rate + _JOINED) / form
        if best is None or share < best[0]:
            best = share, {**made, STREAM_K: rows - first, "part": part}
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
    "STREAM_K",
    "WORTH",
    "described_forms",
    "form_for",
    "formed",
    "forms_of",
    "streamed",
    "streams_of",
]
