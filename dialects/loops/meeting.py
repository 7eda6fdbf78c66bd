"""`loops.meet`: points of a parallel domain wait for one another."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue
from xdsl.irdl import traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects.core.operation import PlainOperation
from cuesta.dialects.core.typed import integer_attribute, integer_property, verify_counts
from cuesta.dialects.layout import element_type_of, is_tensor, sizes_of
from cuesta.dialects.loops.structure import NestOp


class MeetOp(PlainOperation):
    """Points that differ only along the last axes of the nest meet: what one stored before, all may load after it.

    A nest has one meeting at most, in its own body. It needs memory that others see, so a point is a program there.
    The operand, if there is one, is what they are counted in: the last out, which the nest `updates` for this alone.
    """

    name = "loops.meet"
    traits = traits_def()

    @classmethod
    def build(cls, axes: int, counter: SSAValue | None = None) -> MeetOp:
        """A meeting along the last `axes` axes of the nest, of points that are counted in `counter`."""
        operands = () if counter is None else (counter,)
        return cls.create(operands=operands, properties={"axes": integer_attribute(axes)})

    @property
    def counter(self) -> SSAValue | None:
        """The handle of the out in which those who have come are counted, if there is one yet."""
        return self.operands[0] if self.operands else None

    @property
    def axes(self) -> int:
        """How many of the nest's axes, at the end, those who meet differ along."""
        return integer_property(self, "axes")

    @classmethod
    def parse(cls, parser: Parser) -> MeetOp:
        """Parses `last 1`, or `%n last 1 : tensor<5xi32>`."""
        name = parser.parse_optional_unresolved_operand()
        parser.parse_keyword("last")
        axes = parser.parse_integer(allow_boolean=False, allow_negative=False)
        if name is None:
            return cls.build(axes)
        parser.parse_punctuation(":")
        return cls.build(axes, parser.resolve_operand(name, parser.parse_type()))

    def print(self, printer: Printer) -> None:
        """Prints what it counts in, and the number of axes."""
        counter = self.counter
        if counter is not None:
            printer.print_string(" ")
            printer.print_ssa_value(counter)
        printer.print_string(f" last {self.axes}")
        if counter is not None:
            printer.print_string(" : ")
            printer.print_attribute(counter.type)

    def verify_(self) -> None:
        """Checks the place, the number of axes, and what is counted in."""
        verify_counts(self, operands=0, at_most=1, results=0)
        nest = self.parent_op()
        if not isinstance(nest, NestOp):
            raise VerifyException("loops.meet stands in the body of a loops.nest, and in nothing within it")
        if not 1 <= self.axes <= len(nest.sizes):
            raise VerifyException(f"loops.meet along {self.axes} axes: the nest has {len(nest.sizes)}")
        if sum(isinstance(op, MeetOp) for op in nest.body.ops) > 1:
            raise VerifyException("loops.meet: a nest has one meeting")
        if self.counter is not None:
            self._verify_counter(self.counter, nest)

    def _verify_counter(self, counter: SSAValue, nest: NestOp) -> None:
        if counter is not nest.handles[-1] or len(nest.operands) != 1 or counter.has_more_than_one_use():
            raise VerifyException(
                "loops.meet counts in the last out, the only one that the nest updates, for this alone"
            )
        wanted = counters_of(self, nest)
        fits = is_tensor(counter) and sizes_of(counter.type) == (wanted,) and element_type_of(counter) == i32
        if wanted is None or not fits:
            what = "as many i32 as there are groups and points; both must be numbers"
            raise VerifyException(f"loops.meet counts in {counter.type}, not in {what}")


def counters_of(meeting: MeetOp, nest: NestOp) -> int | None:
    """The elements that those who meet are counted in, one for each group and then one for each point; None when these
    are not numbers.
    """
    sizes = [size for size in nest.sizes if isinstance(size, int)]
    if len(sizes) < len(nest.sizes):
        return None
    groups, members = math.prod(sizes[: -meeting.axes]), math.prod(sizes[-meeting.axes :])
    return groups + groups * members


def meeting_of(nest: NestOp) -> MeetOp | None:
    """The meeting in a nest, if there is one."""
    return next((op for op in nest.body.ops if isinstance(op, MeetOp)), None)


__all__ = ["MeetOp", "counters_of", "meeting_of"]
