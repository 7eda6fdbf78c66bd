"""`turn-scans`: a scan on a GPU whose points walk backwards through memory walks forwards, and its running values back.

    kernel.scan (%k = 0 to 8 lanes 8 dim 1) {            kernel.scan (%k = 0 to 8 lanes 8 dim 1) {
      %v = kernel.load %x[%i * 8 − %k + 7]         →       %v = kernel.load %x[%i * 8 + %k]
      %s = kernel.running sum %v                           %s = kernel.running sum backwards %v
      kernel.store %s, %y[%i * 8 − %k + 7]                 kernel.store %s, %y[%i * 8 + %k]

A gradient of a running sum is a running sum from the end. Lanes that go backwards have no vectors, and Triton 3.6 lays
tiles without any so that a warp goes down the rows: 8 million f32 in rows of 8 took 92 us on an H100, 27 so.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from cuesta.dialects import kernel, sym
from cuesta.dialects.core.indexed import IndexedOp
from cuesta.dialects.core.operation import ops_of
from cuesta.dialects.kernel.scans import holds_all_points


class TurnScansPass(ModulePass):
    """Points k of a scan become its points n − 1 − k.

    Exact but for the order in which floats are added: every point does what the other did, and has what came before it,
    which comes after it now. Near misses: lanes that hold a part of the points; places of extremes, which count from
    the start; something that goes forwards; a loop further in, which would run on other points.
    """

    name = "turn-scans"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.body.ops:
            if isinstance(func, kernel.FuncOp) and func.is_for_gpu:
                for scan in [inner for inner in func.body.walk() if isinstance(inner, kernel.ScanOp)]:
                    turn(scan)


def turn(scan: kernel.ScanOp) -> bool:
    """Turns a scan all of whose accesses go backwards; gives whether it was one."""
    if not holds_all_points(scan):
        return False
    (variable,) = scan.induction_variables
    body = ops_of(scan.body)
    users = list(dict.fromkeys(use.operation for use in variable.uses))
    running = [op for op in body if isinstance(op, kernel.RunningOp)]
    if any(len(op.results) > 1 or op.backwards for op in running) or any(op.regions for op in body):
        return False
    indexed = [op for op in users if isinstance(op, IndexedOp)]
    if len(indexed) < len(users) or not all(goes_backwards(op, scan) for op in indexed):
        return False
    if not any(isinstance(op, kernel.LoadOp) for op in indexed):
        return False
    last = scan.lowers.results[0] + scan.uppers.results[0] - 1
    for op in indexed:
        dims: list[sym.IndexExpr] = [
            last - sym.dim(k) if index is variable else sym.dim(k) for k, index in enumerate(op.indices)
        ]
        turned = tuple(sym.substitute(e, dims) for e in op.map.results)
        op.properties["map"] = sym.MapAttr.get(op.map.num_dims, turned)
    for op in running:
        op.backwards = True
    return bool(running)


def goes_backwards(op: Operation, scan: kernel.ScanOp) -> bool:
    """Whether an op that depends on the point of a scan goes one element back from point to point, or is no access."""
    if not isinstance(op, kernel.LoadOp | kernel.StoreOp):
        return isinstance(op, kernel.IndexOp)
    (variable,) = scan.induction_variables
    moves = [sym.coefficient(op.offset, k) for k, index in enumerate(op.indices) if index is variable]
    return moves == [-1]


__all__ = ["TurnScansPass", "turn"]
