"""Scans of a kernel: `kernel.scan`, a loop whose points come in order, `kernel.running` and `kernel.combine`."""

from __future__ import annotations

from typing import Self

from xdsl.dialects.builtin import UnitAttr
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects.core import scans
from cuesta.dialects.core.value_syntax import parse_value, print_values_of_type
from cuesta.dialects.kernel.access import LoadOp, MemoryWriteOp
from cuesta.dialects.kernel.structure import StatementOp


class ScanOp(StatementOp):
    """Runs its body for the points of its axes, in order. Lanes are points that follow one another."""

    name = "kernel.scan"


class RunningOp(scans.RunningOp):
    """The reduction of a value over the points of the scan so far: `sum %v : vector<4x8xf32>`.

    When the scan itself has lanes, lane k holds the reduction up to the k-th of them; otherwise the lanes of a vector
    are reduced each for itself. With `backwards` a point has the reduction from the last point of the scan to itself:
    only of a scan whose lanes hold all of its points, and not of kinds that give a place.
    """

    name = "kernel.running"

    @property
    def backwards(self) -> bool:
        """Whether the last point comes first."""
        return "backwards" in self.properties

    @backwards.setter
    def backwards(self, value: bool) -> None:
        self.properties.pop("backwards", None)
        if value:
            self.properties["backwards"] = UnitAttr()

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parses `sum %v : vector<4x8xf32>`, or `sum backwards %v : vector<4x8xf32>`."""
        kind = parser.parse_keyword_in(scans.RUNNING, " as the kind of a running value")
        backwards = parser.parse_optional_keyword("backwards") is not None
        op = cls.build(kind, parse_value(parser))
        op.backwards = backwards
        return op

    def print(self, printer: Printer) -> None:
        """Prints the kind, the direction, the value and its type."""
        printer.print_string(f" {self.kind}{' backwards' if self.backwards else ''}")
        print_values_of_type(printer, self.operands, self.value.type)

    def verify_(self) -> None:
        """Checks the kind, the types, the place, and that what goes backwards may."""
        self.verify_running(ScanOp)
        scan = self.parent_op()
        if not self.backwards or not isinstance(scan, ScanOp):
            return
        if len(self.results) > 1:
            raise VerifyException(f"{self.name} {self.kind} does not go backwards: its places count from the start")
        if not holds_all_points(scan):
            raise VerifyException(f"{self.name} goes backwards only where the lanes of a scan hold all of its points")


def holds_all_points(scan: ScanOp) -> bool:
    """Whether a scan has one axis, of so many points that its lanes hold them all."""
    if len(scan.induction_variables) > 1 or scan.lanes == 1:
        return False
    lower, upper = scan.lowers.results[0], scan.uppers.results[0]
    return isinstance(points := upper - lower, int) and 0 < points <= scan.lanes


class CombineOp(scans.CombinationOp, MemoryWriteOp):
    """Changes elements that the same program stored before: no two lanes the same one."""

    name = "kernel.combine"

    def verify_(self) -> None:
        """Checks what is written, and where the op stands."""
        self.verify_write()
        scans.verify_combination(self, self.kind, self.value.type, self.pointer, ScanOp, LoadOp)
