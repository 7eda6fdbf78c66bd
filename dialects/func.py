"""`func.func` and `func.return`, as in MLIR: the function around a program, above `host`.

xDSL has both, to the same text. Its file reads a fifth of xDSL, for formats of other ops; that is a tenth of what it
costs to import the compiler. What parses and prints a function is xDSL's, and read when a function is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, StringAttr
from xdsl.ir import Attribute, BlockArgument, Dialect, Region, SSAValue
from xdsl.irdl import traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent, IsolatedFromAbove, IsTerminator, ReturnLike, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects.core.operation import PlainOperation
from cuesta.dialects.core.typed import property_of, string_property
from cuesta.dialects.core.value_syntax import parse_types_of, print_values

_RESERVED = ("sym_name", "function_type", "sym_visibility", "arg_attrs", "res_attrs")
"""What the text of a function says elsewhere than in its attributes."""


class _ByName(type(PlainOperation)):
    """xDSL's op of the same name is one, too: its own driver (`xdsl-opt`) reads programs for our passes."""

    def __instancecheck__(cls, instance: object) -> bool:
        return type.__instancecheck__(cls, instance) or getattr(instance, "name", None) == vars(cls)["name"]


class FuncOp(PlainOperation, metaclass=_ByName):
    """A function. One without a block is declared only."""

    name = "func.func"
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    @classmethod
    def build(cls, name: str, inputs: Sequence[Attribute], outputs: Sequence[Attribute], region: Region) -> Self:
        """`@name`, from values of the types `inputs` to values of the types `outputs`."""
        function_type = FunctionType.from_lists(inputs, outputs)
        return cls.create(properties={"sym_name": StringAttr(name), "function_type": function_type}, regions=[region])

    @property
    def sym_name(self) -> str:
        """Its name."""
        return string_property(self, "sym_name")

    @property
    def function_type(self) -> FunctionType:
        """The types of what comes in and what is returned."""
        return property_of(self, "function_type", FunctionType)

    @property
    def body(self) -> Region:
        """Its body."""
        return self.regions[0]

    @property
    def args(self) -> tuple[BlockArgument, ...]:
        """The arguments. Requires: a block."""
        return self.body.block.args

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parses `private @main(%x : tensor<4xf32>) -> tensor<4xf32> attributes {…} { … }`, as xDSL does."""
        from xdsl.dialects.utils import parse_func_op_like

        visibility = parser.parse_optional_visibility_keyword()
        name, inputs, outputs, region, attributes, of_arguments, of_results = parse_func_op_like(
            parser, reserved_attr_names=_RESERVED[:3]
        )
        made = cls.build(name, inputs, outputs, region)
        told = zip(_RESERVED[2:], (visibility, of_arguments, of_results), strict=True)
        made.properties |= {key: value for key, value in told if value is not None}
        if attributes is not None:
            made.attributes |= attributes.data
        return made

    def print(self, printer: Printer) -> None:
        """Prints it, as xDSL does."""
        from xdsl.dialects.utils import print_func_op_like

        visibility, of_arguments, of_results = (self.properties.get(key) for key in _RESERVED[2:])
        if isinstance(visibility, StringAttr):
            printer.print_string(f" {visibility.data}")
        print_func_op_like(
            printer,
            property_of(self, "sym_name", StringAttr),
            self.function_type,
            self.body,
            self.attributes,
            arg_attrs=cast("ArrayAttr[DictionaryAttr] | None", of_arguments),
            res_attrs=cast("ArrayAttr[DictionaryAttr] | None", of_results),
            reserved_attr_names=_RESERVED[:4],
        )

    def verify_(self) -> None:
        """Checks the signature against the body."""
        if len(self.regions) != 1:
            raise VerifyException("func.func has one region")
        signature, block = self.function_type, self.body.first_block
        if not self.sym_name:
            raise VerifyException("func.func has no name")
        for key in _RESERVED[3:]:
            told = self.properties.get(key)
            entries = cast("ArrayAttr[Attribute]", told).data if isinstance(told, ArrayAttr) else (told,)
            if told is not None and not all(isinstance(entry, DictionaryAttr) for entry in entries):
                raise VerifyException(f"func.func: {key} is no list of dictionaries")
        if block is not None and tuple([argument.type for argument in block.args]) != signature.inputs.data:
            raise VerifyException("Expected entry block arguments to have the same types as the function input types")


class ReturnOp(PlainOperation, metaclass=_ByName):
    """Ends a function, and gives its values."""

    name = "func.return"
    traits = traits_def(HasParent(FuncOp), IsTerminator(), ReturnLike())

    @classmethod
    def build(cls, values: Sequence[SSAValue]) -> Self:
        """Gives these."""
        return cls.create(operands=values)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parses `{a = 1} %a, %b : f32, i64`, or nothing."""
        attributes = parser.parse_optional_attr_dict()
        first = parser.parse_optional_unresolved_operand()
        if first is None:
            return cls.create(attributes=attributes)
        names = [first]
        while parser.parse_optional_punctuation(","):
            names.append(parser.parse_unresolved_operand())
        return cls.create(operands=parse_types_of(parser, names), attributes=attributes)

    def print(self, printer: Printer) -> None:
        """Prints `{a = 1} %a, %b : f32, i64`."""
        printer.print_op_attributes(self.attributes)
        if self.operands:
            print_values(printer, self.operands)

    def verify_(self) -> None:
        """Checks the types against the function's."""
        function = self.parent_op()
        if not isinstance(function, FuncOp) or self.results or self.regions:
            raise VerifyException("func.return ends a func.func, and gives nothing itself")
        expected, given = function.function_type.outputs, [value.type for value in self.operands]
        if list(expected.data) != given:
            raise VerifyException(
                "Expected arguments to have the same types as the function output types: "
                f"expected {expected}, got {ArrayAttr(given)}"
            )


FUNC = Dialect("func", [FuncOp, ReturnOp])
