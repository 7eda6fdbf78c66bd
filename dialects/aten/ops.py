"""The ops of the dialect: one class per ATen overload, made from the table, and the few that stand beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, cast

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Dialect, Operation, OpTraits, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects.aten import schemas
from cuesta.dialects.aten.arguments import Argument, ArgumentOrValue, CallArguments, flatten_call
from cuesta.dialects.aten.call import CallLike
from cuesta.dialects.aten.syntax import parse_argument, parse_call, print_argument, print_call
from cuesta.dialects.core.operation import PlainOperation

_NO_TRAITS = traits_def()
_PURE = traits_def(Pure())


class AtenOp(CallLike):
    """One ATen overload: `%3 = aten.add.Tensor(%1, %2, alpha = 2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>`.

    The subclasses are made by `op_class`; they differ in their name and in whether they are pure.
    """

    name = "aten.op"
    traits: ClassVar[OpTraits] = _NO_TRAITS

    @property
    def overload(self) -> str:
        """The overload called, which is the name of the op."""
        return self.name

    @classmethod
    def build(
        cls,
        positional: Sequence[ArgumentOrValue],
        keywords: Mapping[str, ArgumentOrValue] | None = None,
        *,
        result_types: Sequence[Attribute],
    ) -> AtenOp:
        """The call of these arguments, with SSA values in place."""
        operands, arguments = flatten_call(positional, tuple((keywords or {}).items()))
        return cls.create(operands=operands, result_types=result_types, properties={"arguments": arguments})

    @classmethod
    def parse(cls, parser: Parser) -> AtenOp:
        """Parses `(%x, [1], true, dtype = torch.float32) : (…) -> …`."""
        call = parse_call(parser)
        return cls.create(
            operands=call.operands,
            result_types=call.result_types,
            properties={"arguments": call.arguments},
            attributes=call.attributes,
        )

    def print(self, printer: Printer) -> None:
        """Prints `(%x, [1], true, dtype = torch.float32) : (…) -> …`."""
        print_call(printer, self)


_classes: dict[str, type[AtenOp]] = {}


def op_class(overload: str) -> type[AtenOp]:
    """The class of an overload that has one, such as `aten.add.Tensor`.

    Errors: KeyError when the dialect has no op of that name; such an overload is called through `aten.call`.
    """
    found = _classes.get(overload)
    if found is None:
        if not schemas.has_operation(overload):
            raise KeyError(f"the aten dialect has no op {overload}")
        found = _classes[overload] = _make_class(overload)
    return found


def _make_class(overload: str) -> type[AtenOp]:
    # Whether an op is pure is read off the signature's text: parsing 1,100 signatures would cost 30 ms.
    signature = schemas.load_table()["operations"][overload]
    pure = "!" not in signature and not signature.endswith("-> ()") and not schemas.is_random(overload)
    members = {"name": overload, "traits": _PURE if pure else _NO_TRAITS, "__module__": __name__}
    return cast(type[AtenOp], type(overload, (AtenOp,), members))


class CallOp(CallLike):
    """A call of an overload that has no op of its own: `aten.call "mylib::foo.default"(%x, 3)`. It is never pure."""

    name = "aten.call"
    traits: ClassVar[OpTraits] = _NO_TRAITS

    @property
    def overload(self) -> str:
        """The overload called, `mylib::foo.default`."""
        callee = self.properties.get("callee")
        return callee.data if isinstance(callee, StringAttr) else ""

    @classmethod
    def build(
        cls,
        overload: str,
        positional: Sequence[ArgumentOrValue],
        keywords: Mapping[str, ArgumentOrValue] | None = None,
        *,
        result_types: Sequence[Attribute],
    ) -> CallOp:
        """The call of these arguments, with SSA values in place."""
        operands, arguments = flatten_call(positional, tuple((keywords or {}).items()))
        properties = {"callee": StringAttr(overload), "arguments": arguments}
        return cls.create(operands=operands, result_types=result_types, properties=properties)

    @classmethod
    def parse(cls, parser: Parser) -> CallOp:
        """Parses ` "mylib::foo.default"(%x, 3) : (…) -> …`."""
        callee = StringAttr(parser.parse_str_literal())
        call = parse_call(parser)
        return cls.create(
            operands=call.operands,
            result_types=call.result_types,
            properties={"callee": callee, "arguments": call.arguments},
            attributes=call.attributes,
        )

    def print(self, printer: Printer) -> None:
        """Prints ` "mylib::foo.default"(%x, 3) : (…) -> …`."""
        printer.print_string(" ")
        printer.print_string_literal(self.overload)
        print_call(printer, self)

    def verify_(self) -> None:
        """Checks the name, then what every call is checked for."""
        if self.overload.count("::") != 1:
            raise VerifyException(f'aten.call: the overload reads "namespace::name.overload", not "{self.overload}"')
        super().verify_()


@irdl_attr_definition
class LiteralType(ParametrizedAttribute, TypeAttribute):
    """The type of a value that is no tensor but takes part as one: None, a number, a string."""

    name = "aten.literal"


LITERAL_TYPE = LiteralType()


class LiteralOp(PlainOperation):
    """A constant that the program returns: `%0 = aten.literal 3 : !aten.literal`."""

    name = "aten.literal"
    traits: ClassVar[OpTraits] = _PURE

    @classmethod
    def build(cls, value: Argument) -> LiteralOp:
        """The op that gives this constant. Requires: no `Operand` in it."""
        return cls.create(result_types=(LITERAL_TYPE,), properties={"value": CallArguments.of((value,))})

    @property
    def value(self) -> Argument:
        """The constant."""
        attr = self.properties["value"]
        assert isinstance(attr, CallArguments)
        return attr.positional[0]

    @property
    def result(self) -> SSAValue:
        """The value that stands for the constant."""
        return self.results[0]

    @classmethod
    def parse(cls, parser: Parser) -> LiteralOp:
        """Parses ` 3 : !aten.literal`."""
        value = parse_argument(parser, lambda: parser.raise_error("a literal is a constant"))
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        return cls.create(
            result_types=(parser.parse_type(),),
            properties={"value": CallArguments.of((value,))},
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        """Prints ` 3 : !aten.literal`."""
        printer.print_string(" ")
        print_argument(printer, self.value, lambda index: printer.print_string(f"%{index}"))
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.results[0].type)

    def verify_(self) -> None:
        """Checks that there is one constant, and the type."""
        attr = self.properties.get("value")
        if not isinstance(attr, CallArguments) or len(attr.positional) != 1 or attr.keywords or attr.operand_count:
            raise VerifyException("aten.literal: the property `value` must be an #aten.arguments with one constant")
        if self.operands or len(self.results) != 1 or self.results[0].type != LITERAL_TYPE:
            raise VerifyException("aten.literal: has no operands and one result of type !aten.literal")


class AtenDialect(Dialect):
    """A dialect whose op classes are made when someone asks for the whole list, as the parser does (about 20 ms).

    A pass or an importer that wants some of them asks `op_class`, which makes just those.
    """

    @property
    def operations(self) -> Iterator[type[Operation]]:
        """Every op of the dialect."""
        for overload in schemas.load_table()["operations"]:
            yield op_class(overload)
        yield from self._operations
