"""Every op of `elem`, on every type of every kind that its row allows, scalar and vector, and every constant."""

from __future__ import annotations

import math
import struct

import pytest
from xdsl.dialects.builtin import Float32Type, IntegerType, Signedness, VectorType, f64, i1

from cuesta.dialects import elem
from tests.support.text import parse, refused, round_trip

SCALARS = {
    "f": ["f16", "bf16", "f32", "f64"],
    "i": ["i8", "i16", "i32", "i64"],
    "u": ["ui8", "ui16", "ui32", "ui64"],
    "b": ["i1"],
}
ALL = [scalar for kind in SCALARS.values() for scalar in kind]


def shapes(scalar: str) -> list[str]:
    return [scalar, f"vector<8x{scalar}>"]


@pytest.mark.parametrize("name", elem.TABLE)
def test_row(name: str) -> None:
    row = elem.TABLE[name]
    types = [shape for kind in row.kinds for scalar in SCALARS[kind] for shape in shapes(scalar)]
    arguments = ", ".join(f"%{letter}{k}: {value}" for k, value in enumerate(types) for letter in "abx")
    lines = [
        f"  %c{k} = elem.{name} {', '.join(f'%{letter}{k}' for letter in 'abx'[: row.arity])} : {value}"
        for k, value in enumerate(types)
    ]
    module = round_trip("\n".join([f"func.func @main({arguments}) {{", *lines, "  func.return", "}"]))
    for op in module.walk():
        if isinstance(op, elem.TableOp):
            operand = op.operands[0].type
            assert op.result.type == (elem.bool_like(operand) if row.result == "bool" else operand)


@pytest.mark.parametrize("name", elem.TABLE)
def test_row_refuses_other_kinds(name: str) -> None:
    row = elem.TABLE[name]
    for kind, scalars in SCALARS.items():
        if kind not in row.kinds:
            operands = ", ".join(["%a"] * row.arity)
            refused(
                f"func.func @main(%a : {scalars[0]}) {{\n %b = elem.{name} {operands} : {scalars[0]}\n func.return\n}}",
                f"elem.{name} is not defined on {scalars[0]} (kinds: {row.kinds})",
            )


def test_convert() -> None:
    pairs = [(a, b) for a in ALL for b in ALL]
    arguments = ", ".join(f"%{a}: {a}, %v{a}: vector<8x{a}>" for a in ALL)
    lines = [
        line
        for k, (a, b) in enumerate(pairs)
        for line in (
            f"  %s{k} = elem.convert %{a} : {a} to {b}",
            f"  %w{k} = elem.convert %v{a} : vector<8x{a}> to vector<8x{b}>",
        )
    ]
    round_trip("\n".join([f"func.func @main({arguments}) {{", *lines, "  func.return", "}"]))


def test_bitcast() -> None:
    pairs = [("f32", "i32"), ("i32", "f32"), ("f64", "i64"), ("i64", "f64"), ("f16", "i16"), ("f8E5M2", "ui8")]
    arguments = ", ".join(f"%{a}: {a}, %v{a}: vector<8x{a}>" for a, _ in pairs)
    lines = [
        line
        for a, b in pairs
        for line in (
            f"  %s{a} = elem.bitcast %{a} : {a} to {b}",
            f"  %w{a} = elem.bitcast %v{a} : vector<8x{a}> to vector<8x{b}>",
        )
    ]
    round_trip("\n".join([f"func.func @main({arguments}) {{", *lines, "  func.return", "}"]))
    for source, target in (("f32", "i64"), ("f32", "f32"), ("f8E5M2", "i16"), ("i1", "i1"), ("index", "i64")):
        refused(
            f"func.func @main(%a : {source}) {{\n %b = elem.bitcast %a : {source} to {target}\n func.return\n}}",
            f"elem.bitcast is between two types of as many bits, not {source} and {target}",
        )


def test_philox() -> None:
    text = "func.func @main(%k: {0}, %c: {0}) {{\n  %w = elem.philox {1} of %k, %c : {0}\n  func.return\n}}"
    for word in range(4):
        for kind in ("i64", "vector<8xi64>"):
            round_trip(text.format(kind, word))
    refused(text.format("i64", 4), "elem.philox has the words 0 to 3, not 4")
    refused(text.format("i32", 0), "elem.philox is on i64, not on i32")


def test_dot() -> None:
    text = "func.func @main(%a: {0}, %b: {0}) {{\n  %s = elem.dot {1} of %a, %b : {0}\n  func.return\n}}"
    for parts, result in (("bf16", "f32"), ("i8", "i32")):
        for kind in ("i32", "vector<8xi32>"):
            module = round_trip(text.format(kind, parts))
            (dot,) = (op for op in module.walk() if isinstance(op, elem.DotOp))
            assert str(dot.result.type) == kind.replace("i32", result)
    refused(text.format("i32", "f16"), "elem.dot is of bf16 or i8, not of f16")
    refused(text.format("i64", "i8"), "elem.dot i8 is of words of i32, not i64")


def test_random_word() -> None:
    text = "func.func @main(%k: {0}, %p: {0}) {{\n  %w = elem.random_word {1} of %k, %p : {0}\n  func.return\n}}"
    for first in (0, 1 << 40):
        for kind in ("i64", "vector<8xi64>"):
            round_trip(text.format(kind, first))
    refused(
        text.format("i64", 1 << 62), "elem.random_word begins at a counter in [0, 2^62), not at 4611686018427387904"
    )
    refused(text.format("i32", 0), "elem.random_word is on i64, not on i32")


def test_select() -> None:
    types = [shape for scalar in ALL for shape in shapes(scalar)]
    arguments = ", ".join(f"%a{k}: {value}" for k, value in enumerate(types))
    lines = [
        f"  %b{k} = elem.select {'%v' if value.startswith('vector') else '%c'}, %a{k}, %a{k} : {value}"
        for k, value in enumerate(types)
    ]
    head = f"func.func @main(%c: i1, %v: vector<8xi1>, {arguments}) {{"
    round_trip("\n".join([head, *lines, "  func.return", "}"]))


FLOATS = [
    ("0.0", 0.0),
    ("-0.0", -0.0),
    ("1.0", 1.0),
    ("-3.5", -3.5),
    ("0.1", 0.1),
    ("1.0e-30", 1e-30),
    ("1.0e30", 1e30),
    ("5.0e-324", 5e-324),
    ("1.7976931348623157e308", 1.7976931348623157e308),
    ("3", 3.0),
    ("-7", -7.0),
    ("inf", math.inf),
    ("-inf", -math.inf),
    ("nan", math.nan),
    ("-nan", math.nan),
    ("16777217.0", 16777217.0),
]


def constant_of(text: str, value_type: str) -> elem.ConstantOp:
    """The constant as it is read; checks on the way that it prints as what is read as the same."""
    source = f"func.func @main() {{\n  %c = elem.constant {text} : {value_type}\n  func.return\n}}"
    (op,) = [op for op in parse(source).walk() if isinstance(op, elem.ConstantOp)]
    canonical = str(op).removeprefix("%c = elem.constant ").partition(" : ")[0]
    again = round_trip(f"func.func @main() {{\n  %c = elem.constant {canonical} : {value_type}\n  func.return\n}}")
    (same,) = [op for op in again.walk() if isinstance(op, elem.ConstantOp)]
    assert bits(same.value) == bits(op.value)
    return op


def bits(value: float | int) -> object:
    return ("f", struct.pack("<d", value)) if isinstance(value, float) else ("i", value)


@pytest.mark.parametrize("value_type", ["f64", "vector<4xf64>"])
@pytest.mark.parametrize(("text", "value"), FLOATS)
def test_float_constants(text: str, value: float, value_type: str) -> None:
    found = constant_of(text, value_type).value
    assert isinstance(found, float)
    assert math.isnan(found) if math.isnan(value) else bits(found) == bits(value)


@pytest.mark.parametrize(
    ("value_type", "text", "rounded"),
    [
        ("f32", "0.1", 0.10000000149011612),
        ("f32", "16777217.0", 16777216.0),
        ("f32", "1.0e39", math.inf),
        ("f32", "-1.0e39", -math.inf),
        ("f32", "1.0e-46", 0.0),
        ("f32", "-1.0e-46", -0.0),
        ("f16", "0.1", 0.0999755859375),
        ("f16", "65519.0", 65504.0),
        ("f16", "65520.0", math.inf),
        ("f16", "-1.0e6", -math.inf),
        ("f16", "1.0e-9", 0.0),
        ("bf16", "0.1", 0.10009765625),
        ("bf16", "257.0", 256.0),
        ("bf16", "259.0", 260.0),
        ("bf16", "3.4e38", math.inf),
        ("bf16", "1.0e39", math.inf),
        ("bf16", "nan", math.nan),
    ],
)
def test_float_constants_are_rounded_to_their_type(value_type: str, text: str, rounded: float) -> None:
    found = constant_of(text, value_type).value
    assert math.isnan(found) if math.isnan(rounded) else bits(found) == bits(rounded)


@pytest.mark.parametrize(
    ("value_type", "text", "value"),
    [
        ("i8", "-128", -128),
        ("i8", "127", 127),
        ("ui8", "255", 255),
        ("i32", "-2147483648", -(2**31)),
        ("i64", "9223372036854775807", 2**63 - 1),
        ("i64", "-9223372036854775808", -(2**63)),
        ("ui64", "18446744073709551615", 2**64 - 1),
        ("i64", "2.0", 2),
        ("vector<4xi32>", "7", 7),
        ("i1", "true", 1),
        ("i1", "false", 0),
        ("i1", "1", 1),
        ("vector<4xi1>", "true", 1),
    ],
)
def test_integer_constants(value_type: str, text: str, value: int) -> None:
    assert bits(constant_of(text, value_type).value) == bits(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("elem.constant 1.5 : i64", "1.5 is not a constant of i64"),
        ("elem.constant inf : i32", "inf is not a constant of i32"),
        ("elem.constant nan : i1", "nan is not a constant of i1"),
        ("elem.constant 300 : i8", "300 is not a constant of i8"),
        ("elem.constant -1 : ui8", "-1 is not a constant of ui8"),
        ("elem.constant 18446744073709551616 : ui64", "18446744073709551616 is not a constant of ui64"),
        (f"elem.constant {10**400} : i64", "is not a constant of i64"),
        ("elem.constant 2 : i1", "2 is not a constant of i1"),
        ("elem.constant -true : i1", "-1 is not a constant of i1"),
        ("elem.constant 1 : index", "has no constants of type index"),
        ("elem.constant 1.0 : tensor<4xf32>", "has no constants of type tensor<4xf32>"),
        ('"elem.constant"() <{value = 1 : i64}> : () -> f32', "of type f32 cannot hold 1 : i64"),
        ('"elem.constant"() <{value = 1.0 : f32}> : () -> i64', "of type i64 cannot hold 1.000000e+00 : f32"),
        ('"elem.constant"() : () -> i64', "of type i64 cannot hold None"),
        ('"elem.constant"() <{value = 1 : i64}> : () -> ()', "elem.constant has 0 operands, 1 results"),
        ('"elem.add"(%a) : (f32) -> f32', "elem.add has 2 operands, 1 results and no regions, not 1 operands"),
        ('"elem.add"(%a, %k) : (f32, i64) -> f32', "elem.add takes operands of one type, got f32, i64"),
        ('"elem.add"(%a, %v) : (f32, vector<8xf32>) -> f32', "operands of one type, got f32, vector<8xf32>"),
        ('"elem.add"(%a, %a) : (f32, f32) -> f64', "elem.add on f32 gives f32, not f64"),
        ('"elem.lt"(%a, %a) : (f32, f32) -> f32', "elem.lt on f32 gives i1, not f32"),
        ('"elem.lt"(%v, %v) : (vector<8xf32>, vector<8xf32>) -> i1', "elem.lt on vector<8xf32> gives vector<8xi1>"),
        ("elem.div %k, %k : i64", "elem.div is not defined on i64 (kinds: f)"),
        ("elem.convert %x : tensor<8xf32> to tensor<8xf64>", "elem.convert does not convert tensor<8xf32>"),
        ("elem.convert %i : index to i64", "elem.convert does not convert index"),
        ("elem.convert %a : f32 to vector<8xf32>", "elem.convert keeps the shape"),
        ("elem.convert %v : vector<8xf32> to vector<4xf64>", "elem.convert keeps the shape"),
        ('"elem.select"(%a, %a, %a) : (f32, f32, f32) -> f32', "elem.select on f32 takes a condition of i1, got f32"),
        ('"elem.select"(%c, %a, %k) : (i1, f32, i64) -> f32', "takes values of one type, got f32 and i64"),
        ('"elem.select"(%c, %a) : (i1, f32) -> f32', "elem.select has 3 operands"),
        (
            '"elem.select"(%c, %v, %v) : (i1, vector<8xf32>, vector<8xf32>) -> vector<8xf32>',
            "takes a condition of vector<8xi1>, got i1",
        ),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    arguments = "%a : f32, %k : i64, %v : vector<8xf32>, %c : i1, %x : tensor<8xf32>, %i : index"
    refused(f"func.func @main({arguments}) {{\n {'' if '-> ()' in text else '%r = '}{text}\n func.return\n}}", message)


def test_kinds() -> None:
    assert [elem.kind_of(t) for t in (f64, i1, IntegerType(8))] == ["f", "b", "i"]
    assert elem.kind_of(IntegerType(8, Signedness.UNSIGNED)) == "u"
    assert elem.kind_of(VectorType(Float32Type(), [4])) == "f"
    assert elem.kind_of(IntegerType(128)) == elem.kind_of(IntegerType(4)) == "?"
