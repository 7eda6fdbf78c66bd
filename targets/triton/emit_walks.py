"""Reductions over the same points of what they read both: one loop, in which each has an accumulator of its own.

    for i_start in range(0, 1048576, 8192):
        v = tl.load(g + i)
        acc = acc + v
        v_1 = tl.load(x + i)
        acc_1 = acc_1 + v * (v_1 - mean)

Apart, the second loop would read everything again, from memory where a program's points are more than the caches hold.
Of a single tile that is so anyway, since what was loaded once has a name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import Operation, SSAValue

from cuesta.dialects import elem, kernel
from cuesta.dialects.core.walks import together_with
from cuesta.dialects.kernel.shapes import Shape
from cuesta.targets.triton.emit_reduce import Accumulator, accumulator_for

if TYPE_CHECKING:
    from cuesta.targets.triton.emit_kernel import KernelEmitter


_FREE = (elem.ElementwiseOp, kernel.BroadcastOp, kernel.IndexOp)


class Walk:
    """A reduction, and those that go over its points with it."""

    def __init__(self, emitter: KernelEmitter, op: kernel.ReduceOp) -> None:
        self.emitter = emitter
        self.own = accumulator_for(emitter, op)
        self.others: dict[kernel.ReduceOp, Accumulator] = {}
        particular = emitter.together is not None or emitter.has_products or emitter.hoisting.loops
        if particular or emitter.is_whole(op) or not _is_written_as_loops(emitter, op):
            return
        read = _read_by(op)

        def is_alike(other: Operation) -> bool:
            alike = isinstance(other, kernel.ReduceOp) and _goes_along(op, other)
            return alike and not read.isdisjoint(_read_by(other))

        def is_free(other: Operation) -> bool:
            if isinstance(other, kernel.LoadOp):
                return other.pointer not in emitter.written
            return isinstance(other, _FREE)

        found = together_with(op, is_alike, is_free, kernel.MemoryWriteOp)
        for other in found.others:
            assert isinstance(other, kernel.ReduceOp)
            self.others[other] = accumulator_for(emitter, other)
            emitter.settle(other)
        emitter.ops(found.before)

    def initial(self) -> list[tuple[str, str]]:
        """Names and texts before the loop, as of one accumulator."""
        return [each for one in (self.own, *self.others.values()) for each in one.initial()]

    def finish(self) -> list[tuple[str, Shape]]:
        """Writes what comes after the loop; gives the results of the first. Those of the others are asked for later."""
        for one in (self.own, *self.others.values()):
            one.finish()
        self.emitter.walked |= self.others
        return self.own.results

    def take(self, op: kernel.ReduceOp) -> None:
        """Takes in what the body of the first yields, which has been written; writes the others' bodies."""
        emitter = self.emitter
        self.own.take(op)
        for other, accumulator in self.others.items():
            for old, new in zip(op.induction_variables, other.induction_variables, strict=True):
                emitter.names[new] = emitter.names[old]
                if old in emitter.real:
                    emitter.real[new] = emitter.real[old]
                if old in emitter.single_tiles:
                    emitter.single_tiles[new] = emitter.single_tiles[old]
                if old in emitter.starts:
                    emitter.starts[new] = emitter.starts[old]
            emitter.block(other.body)
            accumulator.take(other)


def _goes_along(op: kernel.ReduceOp, other: kernel.ReduceOp) -> bool:
    """Whether two reductions are over the same points, in the same lanes."""
    bounds = (op.lowers, op.uppers, op.lanes, op.dim) == (other.lowers, other.uppers, other.lanes, other.dim)
    return bounds and list(op.bound_operands) == list(other.bound_operands) and _is_flat(other)


def _is_flat(op: kernel.ReduceOp) -> bool:
    return not any(isinstance(inner, kernel.LoopOp) for inner in op.body.ops)


def _is_written_as_loops(emitter: KernelEmitter, op: kernel.ReduceOp) -> bool:
    """Whether there are rounds that are not written out: what is, LLVM reads once itself."""
    return _is_flat(op) and all(emitter.rounds(op, axis) is None for axis in range(len(op.induction_variables)))


def _read_by(op: Operation) -> set[SSAValue]:
    return {inner.pointer for inner in op.walk() if isinstance(inner, kernel.LoadOp)}


__all__ = ["Walk"]
