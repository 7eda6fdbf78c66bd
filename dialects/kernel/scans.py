"""Scans of a kernel: `kernel.scan`, a loop whose points come in order, `kernel.running` and `kernel.combine`."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer

from cuesta.dialects import sym
from cuesta.dialects.core import scans
from cuesta.dialects.core.typed import string_property
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


class CombineOp(MemoryWriteOp):
    """Changes elements that the same program stored before: no two lanes the same one."""

    name = "kernel.combine"

    @classmethod
    def build(
        cls,
        kind: str,
        value: SSAValue,
        pointer: SSAValue,
        offset: sym.IndexExpr,
        indices: Sequence[SSAValue],
        mask: SSAValue | None = None,
    ) -> CombineOp:
        """`pointer[offset] = kind(pointer[offset], value)`, where dim k of the expression is `indices[k]`."""
        return cls.build_write(value, pointer, offset, indices, mask, {"kind": StringAttr(kind)})

    @property
    def kind(self) -> str:
        """How the old element and the value combine, a key of `COMBINATIONS`."""
        return string_property(self, "kind")

    @classmethod
    def parse(cls, parser: Parser) -> CombineOp:
        """Parses `sum %v, %p[%r * 64 + %i] if %m : vector<8xf32>`."""
        return cls.parse_write(parser, {"kind": StringAttr(scans.parse_combination(parser))})

    def print(self, printer: Printer) -> None:
        """Prints the kind, and the rest as a store."""
        printer.print_string(f" {self.kind}")
        super().print(printer)

    def verify_(self) -> None:
        """Checks what is written, and where the op stands."""
        self.verify_write()
        scans.verify_combination(self, self.kind, self.value.type, self.pointer, ScanOp, LoadOp)
