"""`split-last-waves`: the rows of a contraction that no whole wave of programs has are a nest of their own (stream-K).

    %y = loops.nest (%i : 3000, %j : 3000) … schedule #loops.schedule<rows = 128, …, stream_k = 184, part = 600> { … }
    →
    %h = loops.nest (%i : 2816, %j : 3000) … schedule #loops.schedule<rows = 128, …> { … }
    %t = loops.nest (%i : 184, %j : 3000) … schedule #loops.schedule<rows = 128, …, part = 600> { … %i + 2816 … }
    %y = loops.join %h, %t along 0

With 288 tiles for 132 processors the first has two whole waves, and the other 24 tiles, of whose sums
`split-reductions` makes parts: five times as many programs, of a fifth of the time. Parts are added up in order, in
f32, so the result does not depend on who is done first.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import loops, sym
from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic
from cuesta.dialects.core.entry import entry_block, symbol_ranges
from cuesta.dialects.core.operation import ops_of, replace_all_uses
from cuesta.dialects.layout import tensor_type_of
from cuesta.dialects.loops.analysis import analyse
from cuesta.dialects.loops.surgery import Substitution, clone_into, remove, stores_of
from cuesta.lowering.schedule.gpu.contractions import contractions_of, precision_of
from cuesta.transforms.products.forms import STREAM_COLUMNS, STREAM_K
from cuesta.transforms.products.last_rows import dimension_of


class SplitLastWavesPass(ModulePass):
    """A contraction whose schedule says how many of its last rows have their sums in parts  ->  two, and their join

    Exact; the parts reassociate (`split-reductions`). Near miss: a schedule that does not say so. One that says it of a
    nest that cannot be split is an error: somebody asked for it.
    """

    name = "split-last-waves"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        ranges = symbol_ranges(op)
        for nest in ops_of(entry_block(op)):
            if isinstance(nest, loops.NestOp) and STREAM_K in nest.choices:
                split_last_wave(nest, ranges)


def split_last_wave(nest: loops.NestOp, ranges: sym.SymbolRanges) -> tuple[loops.NestOp, loops.NestOp]:
    """Replaces a nest by one of its first rows and one of its last, as its schedule says.

    Errors: CuestaError where that cannot be.
    """
    choices = dict(nest.choices)
    last = choices.pop(STREAM_K)
    if "part" not in choices or "depth" not in choices:
        raise _refusal(nest, last, "of no contraction with a part")
    columns = bool(choices.pop(STREAM_COLUMNS, 0))
    side = "columns" if columns else "rows"
    found = last_of(nest, ranges, columns=columns)
    if isinstance(found, str):
        raise _refusal(nest, last, f"but {found}")
    axis, places = found
    extent = nest.sizes[axis]
    if not isinstance(extent, int) or not 1 < last < extent or (extent - last) % choices[side]:
        told = f"{sym.format_expr(extent)} {side} are no whole tiles of {choices[side]}"
        raise _refusal(nest, last, f"but {told}, and these and more than one")
    whole = {name: value for name, value in choices.items() if name != "part"}
    parts = {name: value for name, value in choices.items() if name != "programs"}  # of which each has one tile
    head = _rows(nest, axis, 0, extent - last, places, whole)
    tail = _rows(nest, axis, extent - last, last, places, parts)
    for result, handle, *parts in zip(nest.results, nest.handles, head.results, tail.results, strict=True):
        joined = loops.JoinOp.build(parts, places[handle], tensor_type_of(result))
        joined.location = nest.location
        joined.result.name_hint = result.name_hint
        Rewriter.insert_op(joined, InsertPoint.before(nest))
        replace_all_uses(result, joined.result)
    remove(nest)
    return head, tail


def last_of(nest: loops.NestOp, ranges: sym.SymbolRanges, *, columns: bool) -> tuple[int, dict[SSAValue, int]] | str:
    """The axis of a nest that its contractions have for rows, or for `columns`, and the dimension of each out along
    which these lie; or why the last of them can be no nest of their own.
    """
    if nest.operands:
        return "it changes what another nest made"
    analysis = analyse(nest, ranges, [True] * len(nest.results))
    if any(loop.loops or not isinstance(loop.op, loops.ReduceOp) for loop in analysis.root.loops):
        return "it does more than to sum products"
    found = contractions_of(analysis, precision_of(nest, nest.choices))
    if isinstance(found, str):
        return found
    axis = next(one.columns if columns else one.rows for one in found.values())
    places: dict[SSAValue, int] = {}
    for handle in nest.handles:
        place = dimension_of(nest, handle, nest.induction_variables[axis])
        if place is None:
            one = "column" if columns else "row"
            return f"a {one} of it is no {one} of what it stores, or it reads that"
        places[handle] = place
    return axis, places


def _rows(
    nest: loops.NestOp,
    axis: int,
    first: int,
    count: int,
    places: Mapping[SSAValue, int],
    choices: Mapping[str, int],
) -> loops.NestOp:
    """A copy of the nest, before it, of `count` points of an axis from the first on, which has outs of its own."""
    sizes = [count if k == axis else size for k, size in enumerate(nest.sizes)]
    outs = [loops.part_type(tensor_type_of(handle), places[handle], count) for handle in nest.handles]
    new = loops.NestOp.build(sizes, outs)
    new.location = nest.location
    Rewriter.insert_op(new, InsertPoint.before(nest))
    substitution = Substitution(new.induction_variables)
    for k, (before, now) in enumerate(zip(nest.induction_variables, new.induction_variables, strict=True)):
        substitution.set_index(before, substitution.axis(now) + (first if k == axis else 0))
    substitution.values.update(zip(nest.handles, new.handles, strict=True))
    clone_into(ops_of(nest.body), InsertPoint.at_end(new.body), substitution)
    for old, made in zip(nest.walk(), new.walk(), strict=True):
        for before, now in zip(_values_of(old), _values_of(made), strict=True):
            now.name_hint = before.name_hint
    moved: dict[SSAValue, int] = {now: places[before] for before, now in zip(nest.handles, new.handles, strict=True)}
    for store in stores_of(new) if first else ():
        results = [e - first if k == moved[store.target] else e for k, e in enumerate(store.map.results)]
        made = loops.StoreOp.build(store.value, store.target, results, store.indices, store.mask)
        made.location = store.location
        Rewriter.insert_op(made, InsertPoint.before(store))
        remove(store)
    new.properties["schedule"] = loops.ScheduleAttr.of(dict(choices))
    return new


def _values_of(op: Operation) -> list[SSAValue]:
    """What an op defines, with the arguments of its body."""
    return [*op.results, *(argument for region in op.regions for argument in region.block.args)]


def _refusal(nest: loops.NestOp, last: int, what: str) -> CuestaError:
    return CuestaError(Diagnostic.on(nest, f"its schedule says stream_k = {last}, {what}"))


__all__ = ["SplitLastWavesPass", "last_of", "split_last_wave"]
