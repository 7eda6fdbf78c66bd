"""The points of a scan that only changes elements, in whatever order, become points of the parallel domain.

    (i : 64) { scan (t : 512) { … combine sum %v, %o[%r, %i] } }  →  (t : 512, i : 64) { … atomic sum %v, %o[%r, %i] }

Exact, but for the order of a sum, which `loops.combine` leaves open. It is a decision of the schedule: the text of the
nest stays, its analysis says that the scan's axes are parallel, and the kernel has `kernel.atomic` for `loops.combine`.
"""

from __future__ import annotations

from cuesta.dialects import kernel, loops
from cuesta.dialects.loops.analysis import NestAnalysis
from cuesta.dialects.loops.surgery import all_ops, combines_of, stores_of


def spread_scans(analysis: NestAnalysis) -> None:
    """Makes the axes of the nest's only stage parallel, when it is a scan of changes that may come in any order.

    Requires: the nest does nothing but change elements that are there from the start; axes are not merged yet.
    """
    nest, root = analysis.nest, analysis.root
    if len(root.loops) != 1:
        return
    scan = root.loops[0]
    if not isinstance(scan.op, loops.ScanOp) or not may_spread(nest):
        return
    root.axes = [*root.axes, *scan.axes]
    root.accesses += scan.accesses
    root.work += scan.work
    root.loops = scan.loops
    for access in analysis.accesses.values():
        access.ordered = 0
    analysis.spread = frozenset([scan.op])


def may_spread(nest: loops.NestOp) -> bool:
    """Whether all that a nest does is to change elements, in a way that atomics can."""
    if stores_of(nest) or any(isinstance(op, loops.RunningOp) for op in all_ops(nest)):
        return False
    return all(kernel.is_atomic(combine.kind, combine.value.type) for combine in combines_of(nest))


__all__ = ["may_spread", "spread_scans"]
