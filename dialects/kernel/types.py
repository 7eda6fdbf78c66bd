"""`!kernel.ptr<f32>` and `#kernel.schedule<grid = [4096], threads = 1>`."""

from __future__ import annotations

from xdsl.ir import Attribute, Data, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from cuesta.dialects import sym
from cuesta.dialects.sym.syntax import parse_size


@irdl_attr_definition
class PointerType(ParametrizedAttribute, TypeAttribute):
    """The address of the element at index 0 of a tensor; offsets count elements."""

    name = "kernel.ptr"
    element_type: Attribute


Choice = int | str
"""The value of one scheduling choice."""


@irdl_attr_definition
class ScheduleAttr(Data[tuple[tuple[sym.IndexExpr, ...], tuple[tuple[str, Choice], ...]]]):
    """How a kernel runs: the grid (number of programs along each axis) and the choices made, by name.

    Known choices: `parallel` (0 or 1: worth spreading over threads), `unroll` (vectors a step in a lane loop),
    `warps`, `stages`. A target ignores what it has no use for.
    """

    name = "kernel.schedule"

    @classmethod
    def of(cls, grid: tuple[sym.IndexExpr, ...], **choices: Choice) -> ScheduleAttr:
        """A schedule with the choices in the order given."""
        return cls((grid, tuple(choices.items())))

    @property
    def grid(self) -> tuple[sym.IndexExpr, ...]:
        """The number of programs along each axis."""
        return self.data[0]

    @property
    def choices(self) -> dict[str, Choice]:
        """The choices made, by name."""
        return dict(self.data[1])

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[sym.IndexExpr, ...], tuple[tuple[str, Choice], ...]]:
        """Parses `<grid = [4096], threads = 1>`."""
        choices: list[tuple[str, Choice]] = []
        with parser.in_angle_brackets():
            parser.parse_keyword("grid")
            parser.parse_punctuation("=")
            grid = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse_size(parser))
            while parser.parse_optional_punctuation(","):
                key = parser.parse_identifier()
                parser.parse_punctuation("=")
                number = parser.parse_optional_integer(allow_boolean=False)
                choices.append((key, parser.parse_identifier() if number is None else number))
        return tuple(grid), tuple(choices)

    def print_parameter(self, printer: Printer) -> None:
        """Prints `<grid = [4096], threads = 1>`."""
        grid = ", ".join(sym.format_expr(size) for size in self.grid)
        choices = "".join(f", {key} = {value}" for key, value in self.data[1])
        printer.print_string(f"<grid = [{grid}]{choices}>")
