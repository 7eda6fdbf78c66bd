"""Programs that do one piece after the other: `resident = 264` in the schedule.

    for p in tl.range(tl.program_id(0), 4096, tl.num_programs(0), num_stages=2):
        … what program p does …

So many programs are launched at most, and the pieces of the grid go round among them. While one piece is computed, what
the next one reads is on its way to shared memory (Triton's software pipelining): the memory is busy also where a tile
fills the registers of a processor, which has no other program then. Triton does so for the loads of a loop that has no
loop in it; of other kernels the programs only last longer.

Where programs meet, waiting is what costs. There a piece is loaded, and its partial results are told, before the piece
before it is waited for:

    … part p_first …; seen = functions.arrive(count, p_first // 8)
    for p in tl.range(tl.program_id(0), 4096, tl.num_programs(0)):
        p_next = p + tl.num_programs(0)
        if p_next < 4096:
            … part p_next …; seen_next = functions.arrive(count, p_next // 8)
        met = functions.wait(count, p // 8, p % 8, seen, …)
        … the rest for part p …
        seen, … = seen_next, …

The two texts of a part are one text under two sets of names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cuesta.dialects import sym
from cuesta.targets.triton.emit_index import operand_text

if TYPE_CHECKING:
    from cuesta.targets.triton.emit_kernel import KernelEmitter

STAGES = 2
"""Pieces on their way at a time, and the one that is computed.

Source: a definition: the least.
"""
_NAME = re.compile(r"'[^']*'|(?<![\w.'])[A-Za-z_]\w*(?!\w|=[^=])")
"""A name of a value: not of an attribute, nor of an argument (`mask=`); or a string, in which there is none."""
_READS = re.compile(r"\btl\.(load|atomic_\w+)\(|\bfunctions\.\w+\(")
_BOUND = re.compile(r"^\s*([A-Za-z_]\w*(?:, [A-Za-z_]\w*)*) = ")
_COUNTER = re.compile(r"^\s*for ([A-Za-z_]\w*) in ")


def pieces(emitter: KernelEmitter) -> str:
    """How many pieces there are."""
    return operand_text(sym.product_of(emitter.func.schedule.grid), ())


def emit_pieces(emitter: KernelEmitter) -> None:
    """The whole body of a kernel whose programs do several pieces and do not meet."""
    stages = emitter.func.schedule.choices.get("stages", STAGES)
    counter = emitter.fresh("piece")
    emitter.enter()
    emitter.programs(counter)
    emitter.everything()
    emitter.leave(
        f"for {counter} in tl.range(tl.program_id(0), {pieces(emitter)}, tl.num_programs(0), num_stages={stages}):"
    )


def names_bound(lines: Sequence[str]) -> list[str]:
    """What lines of text give a value to, in order."""
    found: dict[str, None] = {}
    for line in lines:
        if match := _BOUND.match(line):
            found |= dict.fromkeys(match[1].split(", "))
        elif match := _COUNTER.match(line):
            found[match[1]] = None
    return list(found)


def names_used(lines: Sequence[str]) -> set[str]:
    """The names that occur in lines of text."""
    return {name for line in lines for name in _NAME.findall(line)}


def renamed(lines: Sequence[str], names: Mapping[str, str]) -> list[str]:
    """The lines with other names. A name that stands behind a dot is no name of a value."""
    return [_NAME.sub(lambda match: names.get(match[0], match[0]), line) for line in lines]


def emit_in_turns(emitter: KernelEmitter, counter: str, part: Sequence[str], rest: Sequence[str]) -> None:
    """Writes `part` for the first piece, then in a loop `part` for the next piece and `rest` for this one. Both are
    texts of the piece number `counter`; `rest` has the names that `part` gives.

    What is made of the number alone is made again for each piece, and what is made of nothing once: only what is read,
    or made of it, is kept from one round to the next.
    """
    fixed, counted, read = sorted_out(part, counter)
    moving = [line for line in part if line not in fixed]
    names = [counter, *names_bound(moving)]
    first, later = ({name: emitter.fresh(f"{name}_{which}") for name in names} for which in ("first", "next"))
    carried = [name for name in names if name in read and name in names_used(rest)]
    emitter.lines([*fixed, f"{first[counter]} = tl.program_id(0)", *renamed(moving, first)])
    emitter.lines(f"{name} = {first[name]}" for name in carried)
    emitter.enter()
    emitter.lines([*counted, *(f"{later[name]} = {name}" for name in carried)])
    emitter.line(f"{later[counter]} = {counter} + tl.num_programs(0)")
    emitter.enter()
    emitter.lines(renamed(moving, later))
    emitter.leave(f"if {later[counter]} < {pieces(emitter)}:")
    emitter.lines([*rest, *(f"{name} = {later[name]}" for name in carried)])
    emitter.leave(f"for {counter} in tl.range(tl.program_id(0), {pieces(emitter)}, tl.num_programs(0), num_stages=1):")


def sorted_out(part: Sequence[str], counter: str) -> tuple[list[str], list[str], set[str]]:
    """Of lines of text: those that are the same for every piece, those made of the piece's number alone, and the names
    that all others bind.
    """
    fixed: list[str] = []
    counted: list[str] = []
    moving, read = {counter}, set[str]()
    for line in part:
        used, bound = names_used([line]), names_bound([line])
        if not bound or line.startswith(" ") or _COUNTER.match(line) or _READS.search(line) or used & read:
            read |= set(bound)
        elif used & moving:
            counted.append(line)
            moving |= set(bound)
        else:
            fixed.append(line)
    return fixed, counted, read


__all__ = ["emit_in_turns", "emit_pieces", "names_bound", "names_used", "renamed", "sorted_out"]
