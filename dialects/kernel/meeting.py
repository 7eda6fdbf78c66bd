"""`kernel.meet`: programs of a grid wait for one another."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue
from xdsl.irdl import traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects import sym
from cuesta.dialects.core.operation import PlainOperation
from cuesta.dialects.core.typed import integer_attribute, integer_property, verify_counts
from cuesta.dialects.kernel.function import FuncOp
from cuesta.dialects.kernel.types import PointerType


class MeetOp(PlainOperation):
    """Programs that differ only along the last axes of the grid meet: what one stored before, all may load after it.

    The memory is the kernel's to keep count in: the last of its outs, which it `updates`. It has `counters` elements,
    which are 0 when the kernel begins, and which nothing else in the kernel touches.
    """

    name = "kernel.meet"
    traits = traits_def()

    @classmethod
    def build(cls, memory: SSAValue, axes: int) -> MeetOp:
        """A meeting along the last `axes` axes of the grid."""
        return cls.create(operands=(memory,), properties={"axes": integer_attribute(axes)})

    @property
    def memory(self) -> SSAValue:
        """Where those who have come are counted."""
        return self.operands[0]

    @property
    def axes(self) -> int:
        """How many axes of the grid, at the end, those who meet differ along."""
        return integer_property(self, "axes")

    @property
    def func(self) -> FuncOp:
        """The kernel."""
        func = self.parent_op()
        if not isinstance(func, FuncOp):
            raise VerifyException("kernel.meet stands at the top of a kernel.func")
        return func

    @property
    def groups(self) -> int:
        """How many groups of programs meet, each for itself."""
        return math.prod(self._sizes()[: -self.axes])

    @property
    def members(self) -> int:
        """How many programs each has."""
        return math.prod(self._sizes()[-self.axes :])

    @property
    def counters(self) -> int:
        """The elements of the memory: one for each group, and then one for each program."""
        return counters(self.groups, self.members)

    def _sizes(self) -> list[int]:
        return [size for size in self.func.schedule.grid if isinstance(size, int)]

    @classmethod
    def parse(cls, parser: Parser) -> MeetOp:
        """Parses `%n last 1`."""
        memory = parser.resolve_operand(parser.parse_unresolved_operand(), PointerType(i32))
        parser.parse_keyword("last")
        return cls.build(memory, parser.parse_integer(allow_boolean=False, allow_negative=False))

    def print(self, printer: Printer) -> None:
        """Prints the memory and the number of axes."""
        printer.print_string(" ")
        printer.print_ssa_value(self.memory)
        printer.print_string(f" last {self.axes}")

    def verify_(self) -> None:
        """Checks the place, the axes, and that the memory is the last out, which the kernel updates for this alone."""
        verify_counts(self, operands=1, results=0)
        func = self.func
        grid = func.schedule.grid
        if not 1 <= self.axes <= len(grid):
            raise VerifyException(f"kernel.meet along {self.axes} axes: the grid has {len(grid)}")
        if not all(isinstance(size, int) for size in grid):
            sizes = ", ".join(sym.format_expr(size) for size in grid)
            raise VerifyException(f"kernel.meet: how many programs meet is a number, but the grid is [{sizes}]")
        if self.memory.type != PointerType(i32) or func.updates != 1 or self.memory is not func.outs[-1]:
            raise VerifyException("kernel.meet counts in the last out, a !kernel.ptr<i32>, the only one it updates")
        if len(list(self.memory.uses)) > 1:
            raise VerifyException("kernel.meet: something else uses the memory that it counts in")


def counters(groups: int, members: int) -> int:
    """The elements of the memory of a meeting of so many groups of so many programs."""
    return groups + groups * members


def meeting_of(func: FuncOp) -> MeetOp | None:
    """The meeting in a kernel, if there is one."""
    return next((op for op in func.body.ops if isinstance(op, MeetOp)), None)


__all__ = ["MeetOp", "counters", "meeting_of"]
