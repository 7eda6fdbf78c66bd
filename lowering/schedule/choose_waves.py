"""`choose-waves`: the rows, or the columns, of a contraction that no whole wave of programs has are summed in parts
(stream-K), where that is predicted to be clearly faster.

    %y = loops.nest (%i : 3072, %j : 3072) … schedule #loops.schedule<rows = 128, columns = 256, depth = 64, …> { … }
    →
    %y = loops.nest (%i : 3072, %j : 3072) … schedule #loops.schedule<…, stream_k = 256, part = 1024> { … }

`split-last-waves`, the next stage, makes two nests of it. A schedule that says something of its form is left as it is.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from cuesta.dialects import loops
from cuesta.dialects.core.entry import entry_block, symbol_ranges
from cuesta.dialects.core.fingerprint import Fingerprint, fingerprint
from cuesta.dialects.core.machine import Machine, machine_of
from cuesta.dialects.core.operation import ops_of
from cuesta.dialects.core.tracing import chose, no_match
from cuesta.dialects.sym import SymbolRanges
from cuesta.lowering.schedule.described import BITS, described, has_tiles
from cuesta.lowering.schedule.split_last_waves import last_of
from cuesta.transforms.products.forms import STREAM, STREAM_COLUMNS, STREAM_K, WORTH, described_forms, streamed


class ChooseWavesPass(ModulePass):
    """A contraction whose last wave of programs is nearly empty  ->  the same, with the rows of that wave in parts

    Near misses: a last wave that is mostly full; no whole wave; points that have no parts; sums so short that two more
    launches take what parts gain; a row and a column of the result that are none of what is stored; all near misses
    of `choose-forms`.
    """

    name = "choose-waves"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        known: dict[Fingerprint, tuple[float, dict[str, int]] | str] = {}
        for nest in ops_of(entry_block(op)):
            if not isinstance(nest, loops.NestOp) or not has_tiles(nest):
                continue
            key = fingerprint(nest)
            if key not in known:
                known[key] = waves_of(nest, machine_of(op), symbol_ranges(op))
            found = known[key]
            if isinstance(found, str):
                no_match(nest, f"has whole tiles: {found}")
                continue
            share, choices = found
            nest.properties["schedule"] = loops.ScheduleAttr.of({**nest.choices, **choices})
            lasts = f"{choices[STREAM_K]} {'columns' if STREAM_COLUMNS in choices else 'rows'}"
            chose(nest, f"its last {lasts} have sums in parts of {choices['part']}: predicted {share:.2f} of the time")


def waves_of(nest: loops.NestOp, machine: Machine, ranges: SymbolRanges) -> tuple[float, dict[str, int]] | str:
    """What part of the time a contraction takes with its last rows in parts, and the choices that say so; or why it
    should have none.
    """
    found = described(nest, machine)
    if isinstance(found, str):
        return found
    task = found.sizes, found.batch, BITS, machine
    forms = described_forms(*task, nest.choices, found.around)
    if not forms:
        return "its tiles have no room for descriptors"
    lasts = [last_of(nest, ranges, columns=columns) for columns in (False, True)]
    if all(isinstance(one, str) for one in lasts):
        return str(lasts[0])
    apart = [not isinstance(one, str) for one in lasts]
    one = streamed(*task, forms[0][1], found.around, apart=apart)
    if one is None:
        return "no whole wave and a rest of rows or columns that have parts"
    share, choices = one
    if share * WORTH > 1:
        return f"with the last in parts it is predicted to take {share:.2f} of the time"
    return share, {name: choices[name] for name in STREAM if name in choices}


__all__ = ["ChooseWavesPass"]
