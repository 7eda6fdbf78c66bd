"""`#loops.schedule<lanes = 2048, warps = 8>`: how a nest is to run, where somebody says so: an author, or a tuner."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from cuesta.dialects.core.interning import Memo


@irdl_attr_definition
class ScheduleAttr(Data[tuple[tuple[str, int], ...]]):
    """Scheduling choices of a nest by name; what is not named the target's schedule chooses.

    Their names and meanings are in `lowering/schedule/choices.py`.
    """

    name = "loops.schedule"

    @classmethod
    def of(cls, choices: Mapping[str, int]) -> ScheduleAttr:
        """The choices, in the order given. Equal ones are one object."""
        key = tuple(choices.items())
        found = _SCHEDULES.get(key)
        return _SCHEDULES.keep(key, cls(key)) if found is None else found

    @property
    def choices(self) -> dict[str, int]:
        """The choices made, by name."""
        return dict(self.data)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[str, int], ...]:
        """Parses `<lanes = 2048, warps = 8>`."""

        def choice() -> tuple[str, int]:
            key = parser.parse_identifier()
            parser.parse_punctuation("=")
            return key, parser.parse_integer(allow_boolean=False, allow_negative=False)

        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, choice))

    def print_parameter(self, printer: Printer) -> None:
        """Prints `<lanes = 2048, warps = 8>`."""
        printer.print_string(f"<{', '.join(f'{key} = {value}' for key, value in self.data)}>")


_SCHEDULES = Memo[tuple[tuple[str, int], ...], ScheduleAttr](1024)
