"""The nests of a program as they are lowered: what each moves and computes, and how it might run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import LocationAttr, ModuleOp

from cuesta.dialects import host, loops, sym
from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.dialects.core.entry import entry_block, symbol_ranges
from cuesta.dialects.core.fingerprint import Fingerprint, fingerprint
from cuesta.dialects.core.machine import Machine, machine_of
from cuesta.dialects.loops.analysis import analyse
from cuesta.explain.counting import Counted, count_nest
from cuesta.explain.model import Schedule
from cuesta.explain.provenance import locations_in
from cuesta.explain.schedules import schedule_of


@dataclass(frozen=True, eq=False)
class Facts:
    """What nests that are alike have in common."""

    domain: str
    counted: Counted | None
    why_not: str
    schedule: Schedule | None
    predicted_us: float | None
    predicted_by: str


@dataclass(frozen=True, eq=False)
class Nest:
    """A nest, and what is in it."""

    number: int
    locations: tuple[LocationAttr, ...]
    facts: Facts


def nests_in(module: ModuleOp, hints: Mapping[str, int]) -> list[Nest]:
    """The nests of a program, in order, as `loops-to-kernel` is about to see them."""
    found: list[Nest] = []
    known: dict[tuple[Fingerprint, tuple[bool, ...]], Facts] = {}
    for program in host.programs_of(module):
        ranges, machine = symbol_ranges(program), machine_of(program)
        for op in entry_block(program).ops:
            if not isinstance(op, loops.NestOp):
                continue
            used = [result.first_use is not None for result in op.results]
            if not any(used):
                used[0] = True
            updated = len(op.operands)
            used[len(used) - updated :] = [True] * updated
            key = fingerprint(op), tuple(used)
            if key not in known:
                known[key] = _facts(op, ranges, machine, used, hints)
            found.append(Nest(len(found), tuple(locations_in(op)), known[key]))
    return found


def _facts(
    nest: loops.NestOp, ranges: sym.SymbolRanges, machine: Machine, used: list[bool], hints: Mapping[str, int]
) -> Facts:
    domain = " × ".join(sym.format_expr(size) for size in nest.sizes) or "1"
    try:
        analysis = analyse(nest, ranges, used)
    except CuestaError as error:
        return Facts(domain, None, str(error), None, None, str(error))
    kept = [handle not in analysis.local_sizes for handle in nest.handles]
    try:
        counted, why_not = count_nest(nest, hints, kept), ""
    except (OverflowError, MemoryError) as error:
        counted, why_not = None, f"its index maps cannot be counted: {error}"
    schedule, predicted, by = schedule_of(analysis, machine)
    return Facts(domain, counted, why_not, schedule, predicted, by)


def number_of(size: sym.IndexExpr, hints: Mapping[str, int]) -> int | None:
    """A size as a number; None where a symbol has none."""
    if isinstance(size, int):
        return size
    return int(sym.evaluate(size, (), hints)) if size.symbols <= hints.keys() else None
