"""The written form of calls: `(%x, [%a, %b], 1, dtype = torch.float32) : (…) -> …`, and of the arguments in them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.parser import AttrParser, Parser, UnresolvedOperand
from xdsl.printer import Printer

from cuesta.dialects.aten.arguments import (
    LAYOUT_KINDS,
    MEMORY_FORMATS,
    Argument,
    CallArguments,
    Constant,
    Device,
    DType,
    LayoutKind,
    MemoryFormat,
    Operand,
)
from cuesta.dialects.sym.expr import Expr, format_expr
from cuesta.dialects.sym.syntax import parse_size

# -- printing ---------------------------------------------------------------------------------------------------------


def format_float(value: float) -> str:
    """The shortest text that reads back as the same float: `1.0e-05`, `inf`, `-inf`, `nan`."""
    text = repr(value)
    if "." in text or not math.isfinite(value):
        return text
    mantissa, _, exponent = text.partition("e")  # the lexer wants a point in every float
    return f"{mantissa}.0e{exponent}"


def format_constant(constant: Constant) -> str:
    """The text of a leaf that is not a string."""
    if constant is None:
        return "none"
    if isinstance(constant, bool):
        return "true" if constant else "false"
    if isinstance(constant, float):
        return format_float(constant)
    if isinstance(constant, complex):
        return f"complex({format_float(constant.real)}, {format_float(constant.imag)})"
    if isinstance(constant, Expr):
        return format_expr(constant)
    return repr(constant)


def print_argument(printer: Printer, argument: Argument, print_operand: Callable[[int], object]) -> None:
    """Prints one argument; `print_operand` prints the k-th operand."""
    if isinstance(argument, Operand):
        print_operand(argument.index)
    elif isinstance(argument, str):
        printer.print_string_literal(argument)
    elif isinstance(argument, tuple):
        printer.print_string("[")
        for position, element in enumerate(argument):
            if position:
                printer.print_string(", ")
            print_argument(printer, element, print_operand)
        printer.print_string("]")
    else:
        printer.print_string(format_constant(argument))


def print_arguments(printer: Printer, arguments: CallArguments, print_operand: Callable[[int], object]) -> None:
    """Prints `(%0, alpha = 1)`; `print_operand` prints the k-th operand."""
    separator = "("
    for argument in arguments.positional:
        printer.print_string(separator)
        print_argument(printer, argument, print_operand)
        separator = ", "
    for name, argument in arguments.keywords:
        printer.print_string(f"{separator}{name} = ")
        print_argument(printer, argument, print_operand)
        separator = ", "
    printer.print_string("()" if separator == "(" else ")")


def print_call(printer: Printer, op: Operation, *, reserved: Sequence[str] = ()) -> None:
    """Prints what follows the name of the op or overload: arguments, discardable attributes, types.

    Requires: the op's property `arguments` is a `CallArguments`. `reserved` names attributes not to print.
    """
    arguments = op.properties["arguments"]
    assert isinstance(arguments, CallArguments)
    operands = op.operands
    print_arguments(printer, arguments, lambda index: printer.print_ssa_value(operands[index]))
    printer.print_op_attributes(op.attributes, reserved_attr_names=reserved)
    printer.print_string(" : ")
    printer.print_function_type([operand.type for operand in operands], [result.type for result in op.results])


# -- parsing ----------------------------------------------------------------------------------------------------------

_FLOAT = re.compile(r"-?\s*[0-9]+\.[0-9]*")
_LONE_INTEGER = re.compile(r"-?[0-9]+(?=\s*[,\])])")
_MINUS_INFINITY = re.compile(r"-\s*inf\b(?!\.)")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.$]*")
_KEYWORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\s*=")
_CONSTANT_WORDS: dict[str, Constant] = {
    "none": None,
    "true": True,
    "false": False,
    "inf": math.inf,
    "nan": math.nan,
}


class ParsedCall(NamedTuple):
    """What follows the name of a call, resolved."""

    operands: Sequence[SSAValue]
    result_types: Sequence[Attribute]
    arguments: CallArguments
    attributes: dict[str, Attribute]


def parse_argument(parser: AttrParser, parse_operand: Callable[[], Operand]) -> Argument:
    """Parses one argument; `parse_operand` is called where an SSA value stands."""
    text, position = parser.lexer.input.content, parser.pos
    first = text[position : position + 1]
    if first == "%":
        return parse_operand()
    if first == "[":
        parse = parser.parse_comma_separated_list
        return tuple(parse(parser.Delimiter.SQUARE, lambda: parse_argument(parser, parse_operand)))
    if first == '"':
        return _parse_string(parser)
    if _LONE_INTEGER.match(text, position):
        return parser.parse_integer()
    if _FLOAT.match(text, position) or _MINUS_INFINITY.match(text, position):
        return _parse_float(parser)
    word = _WORD.match(text, position)
    if word is not None:
        name = word.group()
        if name in _CONSTANT_WORDS:
            parser.parse_identifier()
            return _CONSTANT_WORDS[name]
        if name == "complex":
            parser.parse_identifier()
            with parser.in_parens():
                real = _parse_float(parser)
                parser.parse_punctuation(",")
                return complex(real, _parse_float(parser))
        if name.startswith("torch."):
            parser.parse_identifier()
            return _parse_torch_constant(parser, name[6:])
    return parse_size(parser)


def _parse_string(parser: AttrParser) -> str:
    text = parser.parse_optional_str_literal()
    # A literal with bytes beyond ASCII is a token of another kind.
    return text if text is not None else parser.parse_bytes_literal().decode()


def _parse_float(parser: AttrParser) -> float:
    negative = parser.parse_optional_punctuation("-") is not None
    if parser.parse_optional_keyword("inf"):
        value = math.inf
    elif parser.parse_optional_keyword("nan"):
        value = math.nan
    else:
        value = parser.parse_float(allow_negative=False)
    return -value if negative else value


def _parse_torch_constant(parser: AttrParser, name: str) -> Constant:
    if name == "device":
        with parser.in_parens():
            return Device(parser.parse_str_literal())
    if name in MEMORY_FORMATS:
        return MemoryFormat(name)
    if name in LAYOUT_KINDS:
        return LayoutKind(name)
    return DType(name)


def parse_arguments(parser: AttrParser, parse_operand: Callable[[], Operand]) -> CallArguments:
    """Parses `(%0, alpha = 1)`; `parse_operand` is called where an SSA value stands."""
    positional: list[Argument] = []
    keywords: dict[str, Argument] = {}

    def parse_one() -> None:
        if _KEYWORD.match(parser.lexer.input.content, parser.pos):
            name = parser.parse_identifier()
            if name in keywords:
                parser.raise_error(f"the argument {name} is given twice")
            parser.parse_punctuation("=")
            keywords[name] = parse_argument(parser, parse_operand)
        else:
            if keywords:
                parser.raise_error("a positional argument cannot follow one that is given by name")
            positional.append(parse_argument(parser, parse_operand))

    parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_one)
    return CallArguments.of(tuple(positional), tuple(keywords.items()))


def parse_numbered_arguments(parser: AttrParser) -> CallArguments:
    """Parses the arguments of an attribute that stands on its own, where operands are numbers: `(%0, [%1])`."""
    if not isinstance(parser, Parser):
        parser.raise_error("#aten.arguments can only be parsed inside a module")
    count = 0

    def parse_operand() -> Operand:
        nonlocal count
        name = parser.parse_unresolved_operand().operand_name
        if name != str(count):
            parser.raise_error(f"%{name} stands where %{count} is due: operands are numbered in order of appearance")
        count += 1
        return Operand(count - 1)

    return parse_arguments(parser, parse_operand)


def parse_call(parser: Parser) -> ParsedCall:
    """Parses what `print_call` prints."""
    operands: list[UnresolvedOperand] = []

    def parse_operand() -> Operand:
        operands.append(parser.parse_unresolved_operand())
        return Operand(len(operands) - 1)

    arguments = parse_arguments(parser, parse_operand)
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    position = parser.pos
    function_type = parser.parse_function_type()
    resolved = parser.resolve_operands(operands, function_type.inputs.data, position)
    return ParsedCall(resolved, function_type.outputs.data, arguments, attributes)
