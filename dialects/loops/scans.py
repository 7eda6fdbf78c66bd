"""Scans: `loops.scan`, a domain whose points come in order, and what only stands in one: `loops.running`,
`loops.combine`. And `loops.atomic`, a change for which no order is needed.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.utils.exceptions import VerifyException

from cuesta.dialects.core import scans
from cuesta.dialects.loops.access import LoadOp, TensorWriteOp
from cuesta.dialects.loops.structure import StatementOp, enclosing_nest


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


class AtomicOp(scans.CombinationOp, TensorWriteOp):
    """Changes an element of an out that the nest `updates`: any point may change any of them, in whatever order."""

    name = "loops.atomic"
    kinds: ClassVar = scans.ATOMICS
    what = "an atomic change"

    def verify_(self) -> None:
        """Checks the kind, what is written, that the nest updates it, and that nothing in there reads it."""
        self.verify_write()
        element = self.value.type
        if self.kind not in scans.ATOMICS:
            known = ", ".join(scans.ATOMICS)
            raise VerifyException(f"loops.atomic: no kind is called {self.kind}; there are {known}")
        if not scans.is_atomic(self.kind, element):
            raise VerifyException(f"loops.atomic {self.kind} is not defined on {element}")
        if self.target not in enclosing_nest(self).updated:
            raise VerifyException("loops.atomic changes what the nest updates: there are elements from the start")
        for use in self.target.uses:
            if isinstance(use.operation, LoadOp):
                raise VerifyException("loops.atomic: a loops.load reads what other points may be changing")
