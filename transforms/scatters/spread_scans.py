"""`spread-scans`: on a GPU the points of a scan that only changes elements are points of the parallel domain.

    loops.nest (%i : 64) outs(%o) updates(%f) { scan (%t : 512) { …; combine sum %v, %o[%r, %i] } }
    →
    loops.nest (%i : 64, %t : 512) outs(%o) updates(%f) { …; atomic sum %v, %o[%r, %i] }

Exact, but for the order of a sum, which `loops.combine` leaves open.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from cuesta.dialects import loops
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.operation import ops_of
from cuesta.dialects.core.scans import is_atomic
from cuesta.dialects.core.tracing import no_match
from cuesta.dialects.loops.surgery import all_ops, combines_of, join_nest, remove, stores_of
from cuesta.transforms.devices import DevicePass, traits_for


class SpreadScansPass(DevicePass):
    """Of a nest for a GPU that does nothing but change what it updates, in one scan, in ways that have atomics.

    Near misses: an assignment, of which the last one wins; a running value; a type without atomics; two scans.
    """

    name = "spread-scans"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for nest in ops_of(entry_block(op)):
            if isinstance(nest, loops.NestOp) and nest.operands and traits_for(nest, self.target).atomics:
                scan = scan_to_spread(nest)
                if scan is not None:
                    spread(nest, scan)


def scan_to_spread(nest: loops.NestOp) -> loops.ScanOp | None:
    """The scan that is all a nest does, when its points may come in any order."""
    stages = [op for op in nest.body.ops if isinstance(op, loops.DomainOp)]
    if len(stages) != 1 or not isinstance(stages[0], loops.ScanOp):
        return None
    if stores_of(nest) or any(isinstance(op, loops.RunningOp) for op in all_ops(nest)):
        no_match(nest, "it does more than change elements")
        return None
    combines = combines_of(nest)
    if not all(isinstance(op, loops.CombineOp) and is_atomic(op.kind, op.value.type) for op in combines):
        no_match(nest, "there is no atomic change of its kind and type, or the last one wins")
        return None
    if any(isinstance(op, loops.LoadOp) and op.source in nest.handles for op in all_ops(nest)):
        no_match(nest, "it reads what it changes")
        return None
    return stages[0]


def spread(nest: loops.NestOp, scan: loops.ScanOp) -> None:
    """nest (i) { scan (t) { combine } } → nest (i, t) { atomic }, in place."""
    join_nest(nest, scan)
    for combine in combines_of(nest):
        block = combine.parent
        assert block is not None
        atomic = loops.AtomicOp.create(operands=combine.operands, properties=combine.properties.copy())
        atomic.location = combine.location
        block.insert_op_before(atomic, combine)
        remove(combine)
