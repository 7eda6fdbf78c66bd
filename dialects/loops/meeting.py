"""`loops.meet`: points of a parallel domain wait for one another."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.irdl import traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects.core.operation import PlainOperation
from cuesta.dialects.core.typed import integer_property, verify_counts
from cuesta.dialects.loops.structure import NestOp


class MeetOp(PlainOperation):
    """Points that differ only along the last axes of the nest meet: what one stored before, all may load after it.

    A nest has one meeting at most, in its own body. It needs memory that others see, so a point is a program there.
    """

    name = "loops.meet"
    traits = traits_def()

    @classmethod
    def build(cls, axes: int) -> MeetOp:
        """A meeting along the last `axes` axes of the nest."""
        return cls.create(properties={"axes": IntegerAttr(axes, i64)})

    @property
    def axes(self) -> int:
        """How many of the nest's axes, at the end, those who meet differ along."""
        return integer_property(self, "axes")

    @classmethod
    def parse(cls, parser: Parser) -> MeetOp:
        """Parses `last 1`."""
        parser.parse_keyword("last")
        return cls.build(parser.parse_integer(allow_boolean=False, allow_negative=False))

    def print(self, printer: Printer) -> None:
        """Prints the number of axes."""
        printer.print_string(f" last {self.axes}")

    def verify_(self) -> None:
        """Checks the place and the number of axes."""
        verify_counts(self, operands=0, results=0)
        nest = self.parent_op()
        if not isinstance(nest, NestOp):
            raise VerifyException("loops.meet stands in the body of a loops.nest, and in nothing within it")
        if not 1 <= self.axes <= len(nest.sizes):
            raise VerifyException(f"loops.meet along {self.axes} axes: the nest has {len(nest.sizes)}")
        if sum(isinstance(op, MeetOp) for op in nest.body.ops) > 1:
            raise VerifyException("loops.meet: a nest has one meeting")


def meeting_of(nest: NestOp) -> MeetOp | None:
    """The meeting in a nest, if there is one."""
    return next((op for op in nest.body.ops if isinstance(op, MeetOp)), None)


__all__ = ["MeetOp", "meeting_of"]
