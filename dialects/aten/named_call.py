"""`NamedCall`: a call whose overload is a string property, as `loops.extern` and `host.extern` have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects.aten.arguments import CallArguments
from cuesta.dialects.aten.call import CallLike
from cuesta.dialects.aten.syntax import parse_call, print_call

_Self = TypeVar("_Self", bound="NamedCall")


class NamedCall(CallLike):
    """`OP "aten.addmm.default"(%b, %x, %w) : …`, or `OP pure "…"(…)` when it may be dropped, moved or merged."""

    traits = traits_def()

    @property
    def overload(self) -> str:
        """The overload called: `aten.addmm.default`, or `mylib::foo.default`."""
        callee = self.properties.get("callee")
        return callee.data if isinstance(callee, StringAttr) else ""

    @property
    def is_pure(self) -> bool:
        """Whether the call depends on its operands only, and does nothing but give its results."""
        return "pure" in self.properties

    @property
    def may_alias(self) -> bool:
        """Whether it may give back memory of its operands: a view, or an operator nobody knows."""
        schema = self.schema
        return schema is None or schema.is_view or self.overload == "aten._unsafe_view.default"

    @property
    def hands_over(self) -> bool:
        """Whether memory of its operands becomes that of a tensor of the caller's: x.set_(y)."""
        return self.overload.startswith("aten.set_.")

    @classmethod
    def of(
        cls: type[_Self],
        overload: str,
        operands: Sequence[SSAValue],
        arguments: CallArguments,
        result_types: Sequence[Attribute],
        *,
        pure: bool,
    ) -> _Self:
        """A call of `overload` with an argument tree over `operands`."""
        properties: dict[str, Attribute] = {"callee": StringAttr(overload), "arguments": arguments}
        if pure:
            properties["pure"] = UnitAttr()
        return cls.create(operands=operands, result_types=result_types, properties=properties)

    @classmethod
    def parse(cls: type[_Self], parser: Parser) -> _Self:
        """Parses ` pure "aten.addmm.default"(%b, %x, %w) : (…) -> …`."""
        pure = parser.parse_optional_keyword("pure") is not None
        overload = parser.parse_str_literal()
        call = parse_call(parser)
        new = cls.of(overload, call.operands, call.arguments, call.result_types, pure=pure)
        new.attributes = dict(call.attributes)
        return new

    def print(self, printer: Printer) -> None:
        """Prints ` pure "aten.addmm.default"(%b, %x, %w) : (…) -> …`."""
        printer.print_string(" pure " if self.is_pure else " ")
        printer.print_string_literal(self.overload)
        print_call(printer, self)

    def verify_(self) -> None:
        """Checks the name, then what every call is checked for."""
        if not self.overload:
            raise VerifyException(f"{self.name}: the property `callee` must name an overload")
        super().verify_()
