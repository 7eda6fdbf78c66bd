"""What the scans of `loops` and of `kernel` have in common: running values, and updates of what was stored before.

A scan is a loop whose points come one after the other. Two ops need that, and stand only in scans: `running`, the
reduction of a value over the points so far, and `combine`, which changes an element that was stored before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

from xdsl.dialects.builtin import Float32Type, Float64Type, IntegerType, StringAttr, VectorType, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoMemoryEffect
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects.core.indexed import ElementWriteOp
from cuesta.dialects.core.operation import PlainOperation
from cuesta.dialects.core.structs import struct
from cuesta.dialects.core.typed import string_property, verify_counts
from cuesta.dialects.core.value_syntax import parse_value, print_values_of_type
from cuesta.dialects.elem import kind_of, scalar_of


@struct
class Running:
    """A kind of running value: its result types for the type of a value, and the kinds of numbers it is defined on."""

    name: str
    results: Callable[[Attribute], tuple[Attribute, ...]]
    on: str
    law: str


def _same(value: Attribute) -> tuple[Attribute, ...]:
    return (value,)


def _with_index(value: Attribute) -> tuple[Attribute, ...]:
    return (value, VectorType(i64, value.get_shape()) if isinstance(value, VectorType) else i64)


RUNNING: Mapping[str, Running] = {
    running.name: running
    for running in (
        Running("sum", _same, "fiu", "Σ v; reassociates"),
        Running("prod", _same, "fiu", "Π v; reassociates"),
        Running("last_argmax", _with_index, "fiub", "the greatest and its point, the last of equals; NaN is greatest"),
        Running("last_argmin", _with_index, "fiub", "the least and its point, the last of equals; NaN is the least"),
        Running("logaddexp", _same, "f", "log Σ exp v; reassociates"),
    )
}
"""Every kind of `loops.running` and `kernel.running`."""

COMBINATIONS: Mapping[str, str] = {
    "assign": "v: the last point wins",
    "assign_any": "v of one of the points, whichever",
    "sum": "old + v",
    "prod": "old · v",
    "maximum": "the greater, NaN if either is",
    "minimum": "the lesser, NaN if either is",
}
"""Every kind of `loops.combine` and `kernel.combine`: what an element becomes. Sums and products reassociate."""

ASSIGNMENTS = ("assign", "assign_any")
"""The kinds that do not look at the old element."""

ATOMICS: Mapping[str, str] = {
    "assign_any": "v of one of those who change it, whichever",
    "sum": "old + v, for integers of 32 and 64 bits, f32 and f64; reassociates",
    "maximum": "the greater, for integers of 32 and 64 bits",
    "minimum": "the lesser, for integers of 32 and 64 bits",
}
"""Every kind of `loops.atomic` and `kernel.atomic`: what an element becomes."""


def is_atomic(kind: str, element: Attribute) -> bool:
    """Whether elements of a type can be changed so by many at a time."""
    if kind == "assign_any":
        return True
    is_number = kind_of(element) in "iu"
    if isinstance(element, IntegerType):
        return kind in ATOMICS and is_number and element.bitwidth >= 32
    return kind == "sum" and isinstance(element, Float32Type | Float64Type)


class RunningOp(PlainOperation):
    """The reduction of a value over the points of the scan so far, this one included: `sum %v : f32`."""

    traits = traits_def(NoMemoryEffect())

    @classmethod
    def build(cls, kind: str, value: SSAValue) -> Self:
        """The running `kind` of `value`."""
        types = RUNNING[kind].results(value.type)
        return cls.create(operands=(value,), result_types=types, properties={"kind": StringAttr(kind)})

    @property
    def kind(self) -> str:
        """The kind, a key of `RUNNING`."""
        return string_property(self, "kind")

    @property
    def value(self) -> SSAValue:
        """What is reduced."""
        return self.operands[0]

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parses `sum %v : f32`."""
        kind = parser.parse_keyword_in(RUNNING, " as the kind of a running value")
        return cls.build(kind, parse_value(parser))

    def print(self, printer: Printer) -> None:
        """Prints the kind, the value and its type."""
        printer.print_string(f" {self.kind}")
        print_values_of_type(printer, self.operands, self.value.type)

    def verify_running(self, scan: type[Operation]) -> None:
        """Checks the kind, the types, and that the op stands in the body of a scan itself."""
        verify_counts(self, operands=1, at_most=1, results=len(self.results))
        row = RUNNING.get(self.kind)
        if row is None:
            raise VerifyException(
                f"{self.name}: no running value is called {self.kind}; there are {', '.join(RUNNING)}"
            )
        if kind_of(scalar_of(self.value.type)) not in row.on:
            raise VerifyException(f"{self.name} {self.kind} is not defined on {self.value.type}")
        expected = row.results(self.value.type)
        if tuple(result.type for result in self.results) != expected:
            raise VerifyException(f"{self.name} {self.kind} gives {', '.join(map(str, expected))}")
        if not isinstance(self.parent_op(), scan):
            raise VerifyException(f"{self.name} stands in the body of a {scan.name}, and not further in")


class CombinationOp(ElementWriteOp):
    """A write that says how the old element and the value combine. Subclasses say where it is: they are also a write
    to a tensor, or to memory, and come after this class among the bases.
    """

    kinds: ClassVar[Mapping[str, str]] = COMBINATIONS
    what: ClassVar[str] = "combination"

    @classmethod
    def build(
        cls,
        kind: str,
        value: SSAValue,
        memory: SSAValue,
        place: Any,
        indices: Sequence[SSAValue],
        mask: SSAValue | None = None,
    ) -> Self:
        """`memory[place] = kind(memory[place], value)`, where dim k of the place, an index expression or several, is
        `indices[k]`.
        """
        return cls.build_write(value, memory, place, indices, mask, {"kind": StringAttr(kind)})

    @property
    def kind(self) -> str:
        """How the old element and the value combine, a key of `kinds`."""
        return string_property(self, "kind")

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parses `sum %v, %o[%r, %i] if %c : tensor<4x8xf32>`: the kind, and the rest as a store."""
        kind = parser.parse_keyword_in(cls.kinds, f" as the kind of {cls.what}")
        return cls.parse_write(parser, {"kind": StringAttr(kind)})

    def print(self, printer: Printer) -> None:
        """Prints the kind, and the rest as a store."""
        printer.print_string(f" {self.kind}")
        super().print(printer)


def verify_combination(
    op: Operation, kind: str, value: Attribute, memory: SSAValue, scan: type[Operation], load: type[Operation]
) -> None:
    """Checks the kind of a `combine`, that it stands in a scan, and that nothing in there reads the memory."""
    if kind not in COMBINATIONS:
        raise VerifyException(f"{op.name}: no combination is called {kind}; there are {', '.join(COMBINATIONS)}")
    if kind not in ASSIGNMENTS and kind_of(scalar_of(value)) not in "fiu":
        raise VerifyException(f"{op.name} {kind} is not defined on {value}")
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, scan):
        parent = parent.parent_op()
    if parent is None:
        raise VerifyException(f"{op.name} changes elements in the order of a {scan.name}; there is none around it")
    for use in memory.uses:
        reader: Operation | None = use.operation
        if isinstance(reader, load):
            while reader is not None and reader is not parent:
                reader = reader.parent_op()
            if reader is parent:
                raise VerifyException(f"{op.name}: a {load.name} in the same {scan.name} reads what it changes")


__all__ = [
    "ASSIGNMENTS",
    "ATOMICS",
    "COMBINATIONS",
    "RUNNING",
    "CombinationOp",
    "Running",
    "RunningOp",
    "is_atomic",
    "verify_combination",
]
