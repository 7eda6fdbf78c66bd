"""What a host program does besides running kernels of its own: it calls its pieces, and lets eager run operators.

Eager's operators take and give any object of Python's: a value of type `!host.object`. What is compiled reads tensors,
so what eager gives goes through `host.check` first, which holds it to the type that the code was made for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects.aten.named_call import NamedCall
from cuesta.dialects.aten.schemas import Schema
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.operation import PlainOperation, ops_of
from cuesta.dialects.core.typed import (
    integer_attribute,
    property_of,
    string_property,
    symbol_attribute,
    symbol_property,
    verify_counts,
)
from cuesta.dialects.core.value_syntax import (
    parse_from_to,
    parse_symbol_and_operands,
    print_from_to,
    print_signature,
    print_symbol_and_operands,
    print_types,
)


@irdl_attr_definition
class ObjectType(ParametrizedAttribute, TypeAttribute):
    """`!host.object`: any object of Python's. Only eager's operators know what to do with it."""

    name = "host.object"


OBJECT = ObjectType()


class EagerOp(NamedCall):
    """Calls an operator in eager, or a function of Python's on numbers: one object comes back, whatever it is."""

    name = "host.eager"

    @property
    def schema(self) -> Schema | None:
        """None: what eager takes is eager's business, and what it gives is checked by `host.check`."""
        return None

    @property
    def is_operator(self) -> bool:
        """Whether it is an operator of torch's, and no function on numbers and tuples, nor the write to an input."""
        module = self.overload.partition(".")[0]
        return module not in ("operator", "builtins", "math", "torch") and self.overload != "aten.copy_.default"

    @property
    def is_used(self) -> bool:
        """Whether somebody reads what it gives: an operator that only checks gives nothing to read."""
        return any(use.operation.name != "host.free" for use in self.results[0].uses)

    def verify_(self) -> None:
        """Checks that one object comes back."""
        super().verify_()
        if len(self.results) != 1 or self.results[0].type != OBJECT:
            raise VerifyException("host.eager gives one !host.object")


class OperatorOp(PlainOperation):
    """An operator as a value, for those that call the operators they are given."""

    name = "host.operator"
    traits = traits_def()

    @classmethod
    def build(cls, operator: str) -> OperatorOp:
        """The operator of that name, as `host.eager` names it."""
        return cls.create(result_types=(OBJECT,), properties={"operator": StringAttr(operator)})

    @property
    def operator(self) -> str:
        """Its name."""
        return string_property(self, "operator")

    @classmethod
    def parse(cls, parser: Parser) -> OperatorOp:
        """Parses `"aten.native_dropout.default"`."""
        return cls.build(parser.parse_str_literal())

    def print(self, printer: Printer) -> None:
        """Prints the name."""
        printer.print_string(" ")
        printer.print_string_literal(self.operator)

    def verify_(self) -> None:
        """Checks that there is a name."""
        verify_counts(self, operands=0, results=1)
        string_property(self, "operator")


class CallOp(PlainOperation):
    """Calls a part of the program: a module in this one, or what `link-pieces` makes of it, a `host.func`.

    `last` are the operands that nobody uses any more: the callee may let go of their memory as soon as it has read it.
    """

    name = "host.call"
    traits = traits_def()

    @classmethod
    def build(
        cls, callee: str, operands: Sequence[SSAValue], results: Sequence[Attribute], last: Sequence[int] = ()
    ) -> CallOp:
        """Calls `@callee`."""
        positions = ArrayAttr([integer_attribute(one) for one in last])
        return cls.create(
            operands=operands,
            result_types=results,
            properties={"callee": symbol_attribute(callee), "last": positions},
        )

    @property
    def callee(self) -> str:
        """Its name."""
        return symbol_property(self, "callee")

    @property
    def last(self) -> tuple[int, ...]:
        """The positions of the operands that nobody uses after it."""
        return tuple(one.value.data for one in property_of(self, "last", ArrayAttr) if isinstance(one, IntegerAttr))

    @classmethod
    def parse(cls, parser: Parser) -> CallOp:
        """Parses `@piece_0(%x, %n) last [0] : (tensor<4xf32>, !sym.int<u0>) -> (tensor<4xf32>)`."""
        callee, unresolved = parse_symbol_and_operands(parser)
        last: list[int] = []
        if parser.parse_optional_keyword("last"):
            last = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        operands = parser.resolve_operands(unresolved, types, parser.pos)
        parser.parse_punctuation("->")
        return cls.build(
            callee, operands, parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type), last
        )

    def print(self, printer: Printer) -> None:
        """Prints the callee, the operands, which of them are used for the last time, and the types."""
        print_symbol_and_operands(printer, self.callee, self.operands)
        if self.last:
            printer.print_string(f" last [{', '.join(map(str, self.last))}]")
        print_signature(printer, self.operands, self.results)

    def verify_(self) -> None:
        """Checks the name, and that what is used for the last time is an operand."""
        verify_counts(self, operands=len(self.operands), results=len(self.results))
        if not self.callee or any(not 0 <= one < len(self.operands) for one in self.last):
            raise VerifyException("host.call names what it calls, and by position which operands are used no more")


class FunctionOp(PlainOperation):
    """A part of the program as a function of Python's, for operators that call what they are given (`cond`).

    Its operands are the part's last arguments. It gives a tuple, or with `single` the only result.
    """

    name = "host.function"
    traits = traits_def()

    @classmethod
    def build(cls, callee: str, operands: Sequence[SSAValue], *, single: bool) -> FunctionOp:
        """`@callee` with its last arguments."""
        properties: dict[str, Attribute] = {"callee": symbol_attribute(callee)}
        if single:
            properties["single"] = UnitAttr()
        return cls.create(operands=operands, result_types=(OBJECT,), properties=properties)

    @property
    def callee(self) -> str:
        """Its name."""
        return symbol_property(self, "callee")

    @property
    def single(self) -> bool:
        """Whether it gives its only result, and no tuple."""
        return "single" in self.properties

    @classmethod
    def parse(cls, parser: Parser) -> FunctionOp:
        """Parses `single @body(%c) : (tensor<4xf32>)`."""
        single = parser.parse_optional_keyword("single") is not None
        callee, unresolved = parse_symbol_and_operands(parser)
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        return cls.build(callee, parser.resolve_operands(unresolved, types, parser.pos), single=single)

    def print(self, printer: Printer) -> None:
        """Prints the function, its operands and their types."""
        printer.print_string(" single" if self.single else "")
        print_symbol_and_operands(printer, self.callee, self.operands)
        printer.print_string(" : (")
        print_types(printer, self.operands)
        printer.print_string(")")

    def verify_(self) -> None:
        """Checks the name."""
        verify_counts(self, operands=len(self.operands), results=1)
        if not self.callee:
            raise VerifyException("host.function names a part of the program")


STEPS = ("item", "size", "stride", "divide", "storage_offset")
"""From an object towards a number in it: an element of a tuple, a size or a stride of a tensor, a quotient, and where a
tensor begins in its storage."""

NO_NUMBER = ("storage_offset",)
"""Steps of which there is one kind only. Where a pair is asked for, the number is 0."""


class BindOp(PlainOperation):
    """Gives a symbol its value: a number that is found in an object by some steps, each of a kind and with a number.

    `host.bind u0 = %v size 0` is the first size of a tensor, `item 1 size 0` that of the second of a tuple,
    `storage_offset` where a tensor begins in its storage, counted in elements.
    """

    name = "host.bind"
    traits = traits_def()

    @classmethod
    def build(cls, symbol: str, value: SSAValue, steps: Sequence[tuple[str, int]]) -> BindOp:
        """Binds `symbol`."""
        way = [ArrayAttr([StringAttr(kind), integer_attribute(number)]) for kind, number in steps]
        return cls.create(operands=(value,), properties={"symbol": StringAttr(symbol), "steps": ArrayAttr(way)})

    @property
    def symbol(self) -> str:
        """Its name."""
        return string_property(self, "symbol")

    @property
    def steps(self) -> tuple[tuple[str, int], ...]:
        """The way from the object to the number."""
        found: list[tuple[str, int]] = []
        for step in property_of(self, "steps", ArrayAttr):
            pair = cast("ArrayAttr[Attribute]", step).data if isinstance(step, ArrayAttr) else ()
            kind, number = pair if len(pair) == 2 else (None, None)
            if not isinstance(kind, StringAttr) or kind.data not in STEPS or not isinstance(number, IntegerAttr):
                raise VerifyException(f"host.bind: a step is one of {', '.join(STEPS)} and a number")
            if kind.data in NO_NUMBER and number.value.data:
                raise VerifyException(f"host.bind: there is no {kind.data} {number.value.data}")
            found.append((kind.data, number.value.data))
        return tuple(found)

    @classmethod
    def parse(cls, parser: Parser) -> BindOp:
        """Parses `u0 = %v item 1 size 0 : !host.object`."""
        symbol = parser.parse_identifier()
        parser.parse_punctuation("=")
        operand = parser.parse_unresolved_operand()
        steps: list[tuple[str, int]] = []
        while (kind := parser.parse_optional_identifier()) is not None:
            steps.append((kind, 0 if kind in NO_NUMBER else parser.parse_integer()))
        parser.parse_punctuation(":")
        return cls.build(symbol, parser.resolve_operand(operand, parser.parse_type()), steps)

    def print(self, printer: Printer) -> None:
        """Prints the symbol, the object and the steps."""
        printer.print_string(f" {self.symbol} = ")
        printer.print_ssa_value(self.operands[0])
        steps = [f" {kind}" if kind in NO_NUMBER else f" {kind} {number}" for kind, number in self.steps]
        printer.print_string("".join(steps) + " : ")
        printer.print_attribute(self.operands[0].type)

    def verify_(self) -> None:
        """Checks the symbol's name and the steps."""
        verify_counts(self, operands=1, results=0)
        if not self.symbol.isidentifier():
            raise VerifyException(f"host.bind: {self.symbol!r} is no name of a symbol")
        self.steps  # noqa: B018  # checks them


class CheckOp(PlainOperation):
    """The tensor that an object is: held to the sizes and the dtype of the result's type, and laid out as it says."""

    name = "host.check"
    traits = traits_def()

    @classmethod
    def build(cls, value: SSAValue, operator: str, result: Attribute) -> CheckOp:
        """`value` as a tensor of the type `result`; errors name `operator`, which gave it."""
        return cls.create(operands=(value,), result_types=(result,), properties={"operator": StringAttr(operator)})

    @property
    def operator(self) -> str:
        """What gave the object."""
        return string_property(self, "operator")

    @classmethod
    def parse(cls, parser: Parser) -> CheckOp:
        """Parses `"aten.index.Tensor" %v : !host.object to tensor<4xf32>`."""
        operator = parser.parse_str_literal()
        value, result = parse_from_to(parser, parser.parse_unresolved_operand())
        return cls.build(value, operator, result)

    def print(self, printer: Printer) -> None:
        """Prints the operator, the object and the type it is held to."""
        printer.print_string(" ")
        printer.print_string_literal(self.operator)
        printer.print_string(" ")
        printer.print_ssa_value(self.operands[0])
        print_from_to(printer, self.operands[0], self.results[0])

    def verify_(self) -> None:
        """Checks that it gives a tensor."""
        verify_counts(self, operands=1, results=1)
        string_property(self, "operator")
        if not isinstance(self.results[0].type, TensorType):
            raise VerifyException(f"host.check gives a tensor, not {self.results[0].type}")


EAGER_OPS = (BindOp, CallOp, CheckOp, EagerOp, FunctionOp, OperatorOp)
"""What stands in the program of a graph in pieces, and nowhere else."""


_EAGER_OPS: frozenset[type[Operation]] = frozenset(EAGER_OPS)


def is_in_pieces(module: ModuleOp) -> bool:
    """Whether a program calls pieces, or lets eager run something: then no stage has anything to do in its `@main`."""
    return any(type(op) in _EAGER_OPS for op in ops_of(entry_block(module)))


def programs_of(module: ModuleOp) -> list[ModuleOp]:
    """The programs on which the stages run one by one: the module itself, or the pieces in it, and theirs."""
    if not is_in_pieces(module):
        return [module]
    return [one for piece in module.body.ops if isinstance(piece, ModuleOp) for one in programs_of(piece)]
