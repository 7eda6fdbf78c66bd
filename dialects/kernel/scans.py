"""Scans of a kernel: `kernel.scan`, a loop whose points come in order, `kernel.running` and `kernel.combine`."""

from __future__ import annotations

from cuesta.dialects.core import scans
from cuesta.dialects.kernel.access import LoadOp, MemoryWriteOp
from cuesta.dialects.kernel.structure import StatementOp


class ScanOp(StatementOp):
    """Runs its body for the points of its axes, in order. Lanes are points that follow one another."""

    name = "kernel.scan"


class RunningOp(scans.RunningOp):
    """The reduction of a value over the points of the scan so far.

    When the scan itself has lanes, lane k holds the reduction up to the k-th of them; otherwise the lanes of a vector
    are reduced each for itself.
    """

    name = "kernel.running"

    def verify_(self) -> None:
        """Checks the kind, the types and the place."""
        self.verify_running(ScanOp)


class CombineOp(scans.CombinationOp, MemoryWriteOp):
    """Changes elements that the same program stored before: no two lanes the same one."""

    name = "kernel.combine"

    def verify_(self) -> None:
        """Checks what is written, and where the op stands."""
        self.verify_write()
        scans.verify_combination(self, self.kind, self.value.type, self.pointer, ScanOp, LoadOp)
