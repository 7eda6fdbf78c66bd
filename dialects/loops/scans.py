"""Scans: `loops.scan`, a domain whose points come in order, and what only stands in one: `loops.running`,
`loops.combine`.
"""

from __future__ import annotations

from cuesta.dialects.core import scans
from cuesta.dialects.loops.access import LoadOp, TensorWriteOp
from cuesta.dialects.loops.structure import StatementOp


class ScanOp(StatementOp):
    """An inner domain whose points come one after the other, in row-major order."""

    name = "loops.scan"


class RunningOp(scans.RunningOp):
    """The reduction of a value over the points of the scan so far, this one included. An index counts the points."""

    name = "loops.running"

    def verify_(self) -> None:
        """Checks the kind, the types and the place."""
        self.verify_running(ScanOp)


class CombineOp(scans.CombinationOp, TensorWriteOp):
    """Changes an element of an out that the same point of the parallel domain stored before the scan."""

    name = "loops.combine"

    def verify_(self) -> None:
        """Checks what is written, and where the op stands."""
        self.verify_write()
        scans.verify_combination(self, self.kind, self.value.type, self.target, ScanOp, LoadOp)
