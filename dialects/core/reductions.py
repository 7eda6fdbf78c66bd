"""The kinds of reduction, and what `loops.reduce` and `kernel.reduce` have in common."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute, SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects.core.bodies import BodyOp, ValueYieldOp
from cuesta.dialects.core.structs import struct
from cuesta.dialects.core.typed import string_property
from cuesta.dialects.core.value_syntax import print_types
from cuesta.dialects.elem import kind_of


@struct
class Reduction:
    """A kind of reduction: its result types for a yielded type, and whether the order of the points may be changed."""

    name: str
    results: Callable[[Attribute], tuple[Attribute, ...]]
    law: str
    join: str = ""
    """The elementwise op that does to two values what the kind does to many; empty where there is none."""
    extreme: str = ""
    """Of an arg-reduction the kind that gives its first result alone."""
    last_nan: bool = False
    """Of an arg-reduction whether the last of several NaN counts. Of other equals the first does, always."""


def _same(value: Attribute) -> tuple[Attribute, ...]:
    return (value,)


def _with_index(value: Attribute) -> tuple[Attribute, ...]:
    return value, i64


REDUCTIONS: Mapping[str, Reduction] = {
    reduction.name: reduction
    for reduction in (
        Reduction("sum", _same, "Σ v, 0 when empty; reassociates", join="add"),
        Reduction("prod", _same, "Π v, 1 when empty; reassociates", join="mul"),
        Reduction("maximum", _same, "the greatest, NaN if any is NaN; exact", join="maximum"),
        Reduction("minimum", _same, "the least, NaN if any is NaN; exact", join="minimum"),
        Reduction("any", _same, "∃, on i1; exact", join="or"),
        Reduction("all", _same, "∀, on i1; exact", join="and"),
        Reduction(
            "argmax", _with_index, "the greatest and its first linear index; NaN is the greatest", extreme="maximum"
        ),
        Reduction("argmin", _with_index, "the least and its first linear index; NaN is the least", extreme="minimum"),
        Reduction(
            "argmax_last_nan",
            _with_index,
            "argmax, but of several NaN it is the last: the index of max pooling",
            extreme="maximum",
            last_nan=True,
        ),
        Reduction("welford", lambda value: (value, value), "mean and Σ(v − mean)²; reassociates"),
    )
}
"""Every kind of `loops.reduce` and `kernel.reduce`."""

JOINS: Mapping[str, str] = {kind: row.join for kind, row in REDUCTIONS.items() if row.join}
"""The kinds that an elementwise op does to two values, and that op's name in the table."""

EXTREMES: Mapping[str, str] = {kind: row.extreme for kind, row in REDUCTIONS.items() if row.extreme}
"""The arg-reductions, and for each the kind that gives its first result alone."""


def identity(kind: str, value: Attribute) -> float | int:
    """What changes nothing: the result of a reduction or a scan over no points, of values of a type.

    Of a kind with several results it is the first of them, the extreme or the mean.
    """
    operand = kind_of(value)
    number = _NUMBERS.get(kind)
    if number is not None:
        return float(number) if operand == "f" else int(number)
    least = kind in ("maximum", "argmax", "argmax_last_nan", "last_argmax")
    if operand == "f":
        return -math.inf if least else math.inf
    bits = getattr(value, "bitwidth", 1)
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if operand == "i" else (0, (1 << bits) - 1)
    return low if least else high


_NUMBERS: Mapping[str, float] = {"sum": 0, "prod": 1, "any": 0, "all": 1, "welford": 0, "logaddexp": -math.inf}
"""The identities that are the same for all types; the others are the ends of what a type can say."""


class ReductionOp(BodyOp):
    """An op that reduces the value its body yields; its property `kind` says how."""

    @property
    def kind(self) -> str:
        """The kind, a key of `REDUCTIONS`."""
        return string_property(self, "kind")

    @property
    def yielded(self) -> SSAValue:
        """The value reduced."""
        terminator = self.body.last_op
        assert isinstance(terminator, ValueYieldOp)
        return terminator.operands[0]

    def print_result_types(self, printer: Printer) -> None:
        """Prints ` : f32, i64`, which ends the op; what `parse_result_types` reads."""
        printer.print_string(" : ")
        print_types(printer, self.results)

    def verify_kind(self, terminator: type[ValueYieldOp]) -> None:
        """Checks the kind, and that the body ends in a `terminator`."""
        if self.kind not in REDUCTIONS:
            kinds = ", ".join(REDUCTIONS)
            raise VerifyException(f"{self.name}: no reduction is called {self.kind}; there are {kinds}")
        if not isinstance(self.body.last_op, terminator):
            raise VerifyException(f"{self.name}: the body must end in {terminator.name}")
        if self.kind in ("any", "all") and kind_of(self.yielded.type) != "b":
            raise VerifyException(f"{self.name} {self.kind} is defined on i1, not on {self.yielded.type}")

    def verify_results(self, expected: tuple[Attribute, ...]) -> None:
        """Checks the types of the results."""
        if tuple(result.type for result in self.results) != expected:
            types = ", ".join(map(str, expected))
            raise VerifyException(f"{self.name} {self.kind} of {self.yielded.type} gives {types}")


def parse_kind(parser: Parser) -> str:
    """Parses the name of a kind of reduction."""
    return parser.parse_keyword_in(REDUCTIONS, " as the kind of reduction")


def parse_result_types(parser: Parser) -> list[Attribute]:
    """Parses ` : f32, i64`."""
    parser.parse_punctuation(":")
    return parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
