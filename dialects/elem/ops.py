"""The ops of `elem` with type rules of their own, the op classes of extensions, and how ops are made."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final, cast
from weakref import WeakValueDictionary

from xdsl.dialects.builtin import (
    AnyFloat,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    i32,
    i64,
)
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects.core.extension import active
from cuesta.dialects.core.rounding import rounded
from cuesta.dialects.core.typed import integer_property, verify_counts
from cuesta.dialects.core.value_syntax import FromToOp, print_values_of_type
from cuesta.dialects.elem.base import FLOATS, ElementwiseOp, TableOp, bool_like, kind_of, scalar_of, with_scalar
from cuesta.dialects.elem.dot import DotOp
from cuesta.dialects.elem.table_ops import OPS, class_of

_classes_of_extensions: Final = WeakValueDictionary[int, type[TableOp]]()
"""By the `id` of the row, which lives as long as its class."""


def op_class_of(name: str) -> type[TableOp]:
    """The op class of `elem.NAME`: one of ours, or of an extension in force. Errors: KeyError."""
    found = OPS.get(name)
    if found is None:
        row = active().elem[name]
        found = _classes_of_extensions.get(id(row))
        if found is None:
            found = _classes_of_extensions[id(row)] = class_of(row)
    return found


def extended_dialect() -> Dialect:
    """The dialect `elem` with the ops of the extensions in force."""
    return Dialect("elem", [*ELEM.operations, *map(op_class_of, active().elem)], [])


def make(name: str, *operands: SSAValue) -> TableOp:
    """Builds the table op `elem.NAME` on operands of one type."""
    op_class = op_class_of(name)
    operand_type = operands[0].type
    result = bool_like(operand_type) if op_class.row.result == "bool" else operand_type
    return op_class.create(operands=operands, result_types=(result,))


def _wrap_to_type(value: int, scalar: Attribute) -> int:
    """`value` modulo the width of an integer type; for i1 whether it is not zero. Of floats of 8 bits there is 0."""
    kind = kind_of(scalar)
    if kind == "s":
        return 0
    signed = kind == "i"
    assert isinstance(scalar, IntegerType)
    width = scalar.bitwidth
    if width == 1:
        return 1 if value else 0
    wrapped = value % (1 << width)
    return wrapped - (1 << width) if signed and wrapped >> (width - 1) else wrapped


@lru_cache(maxsize=4096)
def _float_attr(text: str, scalar: AnyFloat) -> FloatAttr:
    # The key is the text of the float, because 0.0 == -0.0 and nan != nan as keys.
    return FloatAttr(float(text), scalar)


@lru_cache(maxsize=4096)
def _integer_attr(value: int) -> IntegerAttr:
    return IntegerAttr(value, i64)


def constant(value: float | int | bool, value_type: Attribute) -> ConstantOp:
    """Builds `elem.constant VALUE : TYPE`; the value is rounded to the type, or wraps, as torch would have it."""
    kind = kind_of(value_type)
    if kind == "f":
        scalar = scalar_of(value_type)
        assert isinstance(scalar, FLOATS)
        attr: Attribute = _float_attr(repr(rounded(float(value), scalar)), scalar)
    else:
        # 64 bits are held as signed; `value` of the op gives back what was meant.
        attr = _integer_attr(_wrap_to_type(_wrap_to_type(int(value), scalar_of(value_type)), i64))
    return ConstantOp.create(result_types=(value_type,), properties={"value": attr})


class ConstantOp(ElementwiseOp):
    """A constant scalar, or a vector with that scalar in every lane. Of floats of 8 bits there is only 0."""

    name = "elem.constant"

    @property
    def value(self) -> float | int:
        """The Python value: a float for float types, else an int (bools are 0 and 1)."""
        attr = self.properties["value"]
        if isinstance(attr, FloatAttr):
            return cast("FloatAttr", attr).value.data
        return _wrap_to_type(integer_property(self, "value"), scalar_of(self.results[0].type))

    @classmethod
    def parse(cls, parser: Parser) -> ConstantOp:
        """Parses `1.0 : f32`, `-3 : i64`, `true : i1`, `inf : f32`, `nan : f32`."""
        negative = parser.parse_optional_punctuation("-") is not None
        value: float | int
        if (word := parser.parse_optional_keyword_in(("inf", "nan", "true", "false"))) is not None:
            value = {"inf": math.inf, "nan": math.nan, "true": 1, "false": 0}[word]
        else:
            value = parser.parse_number(allow_boolean=False)
        if negative:
            value = -value
        parser.parse_punctuation(":")
        position = parser.pos
        value_type = parser.parse_type()
        kind = kind_of(value_type)
        if kind not in "fiubs":
            parser.raise_error(f"elem.constant has no constants of type {value_type}", position, parser.pos)
        if kind != "f":
            whole = not isinstance(value, float) or value.is_integer()
            if not whole or _wrap_to_type(int(value), scalar_of(value_type)) != value:
                parser.raise_error(f"{value} is not a constant of {value_type}", position, parser.pos)
        return constant(value, value_type)

    def print(self, printer: Printer) -> None:
        """Prints the value so that it parses back to the same bits (NaN payloads excepted)."""
        value_type = self.results[0].type
        printer.print_string(f" {format_number(self.value, kind_of(value_type))} : ")
        printer.print_attribute(value_type)

    def verify_(self) -> None:
        """Checks that the value suits the type."""
        verify_counts(self, operands=0, results=1)
        value_type = self.results[0].type
        kind = kind_of(value_type)
        attr = self.properties.get("value")
        if kind == "f" and isinstance(attr, FloatAttr):
            holds = cast("FloatAttr", attr).type == scalar_of(value_type)
        elif kind in "iubs" and isinstance(attr, IntegerAttr) and cast("IntegerAttr", attr).type == i64:
            stored = integer_property(self, "value")
            holds = _wrap_to_type(_wrap_to_type(stored, scalar_of(value_type)), i64) == stored
        else:
            holds = False
        if not holds:
            raise VerifyException(f"elem.constant of type {value_type} cannot hold {attr}")


def format_number(value: float | int, kind: str) -> str:
    """The text of a constant: Python's shortest round-trip digits, always with a point for floats."""
    if kind == "b":
        return "true" if value else "false"
    if kind != "f":
        return str(int(value))
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    text = repr(float(value))
    if "." in text:
        return text
    mantissa, exponent, power = text.partition("e")
    return f"{mantissa}.0{exponent}{power}"


class ConvertOp(ElementwiseOp, FromToOp):
    """A cast as torch's `.to(dtype)`: float to int truncates, anything to i1 is `!= 0`, float to a narrower float
    rounds to nearest even.
    """

    name = "elem.convert"

    @classmethod
    def build(cls, value: SSAValue, scalar: Attribute) -> ConvertOp:
        """Converts `value` to the scalar type, keeping a vector's shape."""
        return cls.create(operands=(value,), result_types=(with_scalar(value.type, scalar),))

    def verify_(self) -> None:
        """Checks that both types are numbers and have one shape."""
        verify_counts(self, operands=1, results=1)
        source, result = self.operands[0].type, self.results[0].type
        if kind_of(source) not in "fiubs" or kind_of(result) not in "fiubs":
            raise VerifyException(f"elem.convert does not convert {source} to {result}")
        if with_scalar(source, scalar_of(result)) != result:
            raise VerifyException(f"elem.convert keeps the shape, but {source} and {result} differ in it")


_BITS = {Float32Type: i32, Float64Type: i64}


def bits_type(scalar: Attribute) -> IntegerType | None:
    """The integers that hold the bits of f32 or f64; None for other types."""
    return _BITS.get(type(scalar))  # pyright: ignore[reportArgumentType, reportCallIssue]


def bits_of(scalar: Attribute) -> int | None:
    """How many bits a number of the type has; None for bools, and for what is no number."""
    kind = kind_of(scalar)
    if kind in "iu":
        return cast("IntegerType", scalar).bitwidth
    return cast("AnyFloat", scalar).bitwidth if kind in "fs" else None


class BitcastOp(ElementwiseOp, FromToOp):
    """The same bits as another type of as many bits: f32 and i32, f8E5M2 and ui8. The payload of a NaN is kept."""

    name = "elem.bitcast"

    @classmethod
    def build(cls, value: SSAValue, scalar: Attribute) -> BitcastOp:
        """The bits of `value` as the scalar type, keeping a vector's shape."""
        return cls.create(operands=(value,), result_types=(with_scalar(value.type, scalar),))

    def verify_(self) -> None:
        """Checks that both types have so many bits, and that they have one shape."""
        verify_counts(self, operands=1, results=1)
        source, result = self.operands[0].type, self.results[0].type
        pair = scalar_of(source), scalar_of(result)
        width = bits_of(pair[0])
        if width is None or width != bits_of(pair[1]) or pair[0] == pair[1]:
            raise VerifyException(f"elem.bitcast is between two types of as many bits, not {source} and {result}")
        if with_scalar(source, pair[1]) != result:
            raise VerifyException(f"elem.bitcast keeps the shape, but {source} and {result} differ in it")


PHILOX_ROUNDS = 10
"""The rounds of Philox of `elem.philox`.

Source: as torch's generator on a GPU has it.
"""


class PhiloxOp(ElementwiseOp):
    """A random word: Philox4x32-10 of a 64-bit key and a 64-bit counter gives four words of 32 bits, of which this is
    number `word`, as an integer in [0, 2^32).

    Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).
    """

    name = "elem.philox"

    @classmethod
    def build(cls, word: int, key: SSAValue, counter: SSAValue) -> PhiloxOp:
        """Word number `word` for a key and a counter, both i64."""
        return cls.create(
            operands=(key, counter), result_types=(key.type,), properties={"word": IntegerAttr(word, i64)}
        )

    @property
    def word(self) -> int:
        """Which of the four words."""
        return integer_property(self, "word")

    @classmethod
    def parse(cls, parser: Parser) -> PhiloxOp:
        """Parses `2 of %key, %counter : i64`."""
        return cls.build(*_parse_word(parser))

    def print(self, printer: Printer) -> None:
        """Prints `2 of %key, %counter : i64`."""
        printer.print_string(f" {self.word} of")
        print_values_of_type(printer, self.operands, self.result.type)

    def verify_(self) -> None:
        """Checks the word and the types."""
        if not 0 <= self.word < 4:
            raise VerifyException(f"elem.philox has the words 0 to 3, not {self.word}")
        _verify_word(self)


WORD_ROUNDS = 7
"""The rounds of Philox of `elem.random_word`, of which a walk computes one for every four scores.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011): the fewest of Philox4x32 that
pass BigCrush.
"""


class RandomWordOp(ElementwiseOp):
    """The random word of a place: number `place mod 4` of the four that Philox4x32-7 gives for a 64-bit key and the
    counter `first + place div 4`, as an integer in [0, 2^32). Places are not negative.

    Four places that follow one another have one call of Philox. What computes a tile of places may share it.
    """

    name = "elem.random_word"

    @classmethod
    def build(cls, first: int, key: SSAValue, place: SSAValue) -> RandomWordOp:
        """The word of a place, for a key; both are i64."""
        return cls.create(
            operands=(key, place), result_types=(key.type,), properties={"first": IntegerAttr(first, i64)}
        )

    @property
    def first(self) -> int:
        """The counter of the first four places."""
        return integer_property(self, "first")

    @classmethod
    def parse(cls, parser: Parser) -> RandomWordOp:
        """Parses `1099511627776 of %key, %place : i64`."""
        return cls.build(*_parse_word(parser))

    def print(self, printer: Printer) -> None:
        """Prints `1099511627776 of %key, %place : i64`."""
        printer.print_string(f" {self.first} of")
        print_values_of_type(printer, self.operands, self.result.type)

    def verify_(self) -> None:
        """Checks the counter and the types."""
        if not 0 <= self.first < 1 << 62:
            raise VerifyException(f"elem.random_word begins at a counter in [0, 2^62), not at {self.first}")
        _verify_word(self)


def _parse_word(parser: Parser) -> tuple[int, SSAValue, SSAValue]:
    """A number, and two operands of one type."""
    number = parser.parse_integer(allow_boolean=False, allow_negative=False)
    parser.parse_keyword("of")
    first = parser.parse_unresolved_operand()
    parser.parse_punctuation(",")
    second = parser.parse_unresolved_operand()
    parser.parse_punctuation(":")
    value_type = parser.parse_type()
    return number, parser.resolve_operand(first, value_type), parser.resolve_operand(second, value_type)


def _verify_word(op: PhiloxOp | RandomWordOp) -> None:
    verify_counts(op, operands=2, results=1)
    types = {operand.type for operand in (*op.operands, *op.results)}
    if len(types) != 1 or scalar_of(op.result.type) != i64:
        raise VerifyException(f"{op.name} is on i64, not on {', '.join(sorted(map(str, types)))}")


class SelectOp(ElementwiseOp):
    """`condition ? a : b`, lane by lane. Both values are computed; NaN in the one not chosen does no harm."""

    name = "elem.select"

    @classmethod
    def build(cls, condition: SSAValue, on_true: SSAValue, on_false: SSAValue) -> SelectOp:
        """Chooses between two values of one type."""
        return cls.create(operands=(condition, on_true, on_false), result_types=(on_true.type,))

    @classmethod
    def parse(cls, parser: Parser) -> SelectOp:
        """Parses `%c, %a, %b : f32`."""
        condition = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        on_true = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        on_false = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        value_type = parser.parse_type()
        return cls.build(
            parser.resolve_operand(condition, bool_like(value_type)),
            parser.resolve_operand(on_true, value_type),
            parser.resolve_operand(on_false, value_type),
        )

    def print(self, printer: Printer) -> None:
        """Prints `%c, %a, %b : f32`."""
        print_values_of_type(printer, self.operands, self.result.type)

    def verify_(self) -> None:
        """Checks that the condition is a bool of the values' shape and the values have one type."""
        verify_counts(self, operands=3, results=1)
        condition, on_true, on_false = self.operands
        if not on_true.type == on_false.type == self.results[0].type:
            raise VerifyException(f"elem.select takes values of one type, got {on_true.type} and {on_false.type}")
        if condition.type != bool_like(on_true.type):
            raise VerifyException(
                f"elem.select on {on_true.type} takes a condition of {bool_like(on_true.type)}, got {condition.type}"
            )


ELEM = Dialect("elem", [BitcastOp, ConstantOp, ConvertOp, DotOp, PhiloxOp, RandomWordOp, SelectOp, *OPS.values()], [])
