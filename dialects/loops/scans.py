"""Scans: `loops.scan`, a domain whose points come in order, and what only stands in one: `loops.running`,
`loops.combine`.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer

from cuesta.dialects import sym
from cuesta.dialects.core import scans
from cuesta.dialects.core.typed import string_property
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


class CombineOp(TensorWriteOp):
    """Changes an element of an out that the same point of the parallel domain stored before the scan."""

    name = "loops.combine"

    @classmethod
    def build(
        cls,
        kind: str,
        value: SSAValue,
        target: SSAValue,
        results: Sequence[sym.IndexExpr],
        indices: Sequence[SSAValue],
        mask: SSAValue | None = None,
    ) -> CombineOp:
        """`target[results] = kind(target[results], value)`, where dim k of the expressions is `indices[k]`."""
        return cls.build_write(value, target, results, indices, mask, {"kind": StringAttr(kind)})

    @property
    def kind(self) -> str:
        """How the old element and the value combine, a key of `COMBINATIONS`."""
        return string_property(self, "kind")

    @classmethod
    def parse(cls, parser: Parser) -> CombineOp:
        """Parses `sum %v, %o[%r, %i] if %c : tensor<4x8xf32>`."""
        return cls.parse_write(parser, {"kind": StringAttr(scans.parse_combination(parser))})

    def print(self, printer: Printer) -> None:
        """Prints the kind, and the rest as a store."""
        printer.print_string(f" {self.kind}")
        super().print(printer)

    def verify_(self) -> None:
        """Checks what is written, and where the op stands."""
        self.verify_write()
        scans.verify_combination(self, self.kind, self.value.type, self.target, ScanOp, LoadOp)
