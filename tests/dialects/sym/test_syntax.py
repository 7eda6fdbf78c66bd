from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects import test
from xdsl.dialects.builtin import Builtin, IndexType
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError

from cuesta.dialects import sym
from cuesta.dialects.sym.syntax import (
    canonical_operands,
    parse_expr,
    parse_indices,
    parse_size,
    parse_text,
    print_expr,
    print_indices,
)

d0, d1, d2, s0 = sym.dim(0), sym.dim(1), sym.dim(2), sym.symbol("s0")


def parser_of(text: str) -> Parser:
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(sym.SYM)
    return Parser(context, text)


@pytest.mark.parametrize(
    ("text", "e"),
    [
        ("d0*s0", d0 * s0),
        ("-1", -1),
        ("- d0 * 4", d0 * -4),
        ("d0-1", d0 - 1),
        ("d0 - -1", d0 + 1),
        ("2 * (d0 + d1) mod 3", (2 * (d0 + d1)) % 3),
        ("d0 floordiv 4 * 2", (d0 // 4) * 2),
        ("d0 + d1 ceildiv 4", d0 + (d1 + 3) // 4),
        ("min(d0, d1, 3)", sym.minimum(sym.minimum(d0, d1), 3)),
        ("max(d0, s0 - 1)", sym.maximum(d0, s0 - 1)),
        ("0x10", 16),
    ],
)
def test_reads(text: str, e: sym.IndexExpr):
    assert parse_text(text) == e


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("d0 +", "index expression expected"),
        ("d0 floordiv 0", "division by zero"),
        ("d0 mod (3 - 3)", "division by zero"),
        ("4x", "end of expression expected"),
        ("(d0", "'\\)' expected"),
        ("min", "'\\(' expected"),
        ("min()", "min of nothing"),
        ("floordiv", "'floordiv' cannot name a symbol"),
        ("%i", "index expression expected"),
        ("2.5", "index expression expected"),
    ],
)
def test_refuses(text: str, message: str):
    with pytest.raises(ParseError, match=message):
        parse_text(text)


def test_a_size_has_no_dimensions():
    assert parse_size(parser_of("s0 * 4)")) == s0 * 4
    with pytest.raises(ParseError, match="'d0' cannot name a symbol"):
        parse_size(parser_of("d0"))


@pytest.mark.parametrize(
    "text",
    [
        "#sym.map<(d0, d1)[s0] -> (d0 * s0 + d1)>",
        "#sym.map<() -> ()>",
        "#sym.map<(d0) -> (0, -d0 + 3, d0 mod 4)>",
        "#sym.map<(d0)[a, s0] -> (d0 + a, min(d0, s0))>",
        "#sym.expr<s0 * 2 + 1>",
        "#sym.expr<-1>",
        "#sym.symbols<s0 in [2, 4096], s1 in [0, inf], u0 in [-inf, -3]>",
        "#sym.symbols<>",
        "!sym.int<s0 * 2>",
    ],
)
def test_attributes_round_trip(text: str):
    attribute = parser_of(text).parse_attribute()
    assert str(attribute) == text
    assert parser_of(str(attribute)).parse_attribute() == attribute


def test_a_map_may_name_its_dimensions_otherwise():
    assert str(parser_of("#sym.map<(i, j) -> (j, i * 2)>").parse_attribute()) == "#sym.map<(d0, d1) -> (d1, d0 * 2)>"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#sym.map<(d0) -> (d1)>", "'d1' is not declared"),
        ("#sym.map<(d0) -> (s0)>", "'s0' is not declared"),
        ("#sym.map<(d0, d0) -> (d0)>", "declared twice"),
        ("#sym.map<(d0)[d0] -> (d0)>", "declared twice"),
        ("#sym.symbols<s0 in [1, 2], s0 in [1, 2]>", "declared twice"),
        ("#sym.symbols<s0 in [inf, 2]>", "integer"),
        ("!sym.int<d0>", "'d0' cannot name a symbol"),
    ],
)
def test_attributes_refuse(text: str, message: str):
    with pytest.raises(ParseError, match=message):
        parser_of(text).parse_attribute()


def test_value_op_round_trips():
    text = "builtin.module {\n  %0 = sym.value : !sym.int<s0 * 2>\n}"
    module = parser_of(text).parse_module()
    module.verify()
    assert str(module) == text
    op = module.body.block.first_op
    assert isinstance(op, sym.ValueOp) and op.expression is s0 * 2
    assert sym.ValueOp(s0 * 2).is_structurally_equivalent(op)


def values(count: int) -> Any:
    op = test.TestOp(result_types=[IndexType()] * count)
    for result, name in zip(op.results, "ijklm", strict=False):
        result.name_hint = name
    return op.results


def printed(operands: Any, results: Any) -> str:
    stream = StringIO()
    print_indices(Printer(stream), operands, results)
    return stream.getvalue()


def test_indices_over_values():
    i, j = values(2)
    assert printed((i, j), (d0 * 64 + d1, (d1 // 4) % 8, s0 - 1)) == "[%i * 64 + %j, (%j floordiv 4) mod 8, s0 - 1]"
    operands, results = parse_indices(parser_of("[%i * 64 + %j, (%j floordiv 4) mod 8, s0 - 1]"))
    assert [operand.operand_name for operand in operands] == ["i", "j"]
    assert results == (d0 * 64 + d1, (d1 // 4) % 8, s0 - 1)
    assert parse_indices(parser_of("[]")) == ([], ())


def test_indices_are_read_in_canonical_form():
    """Dimensions are numbered as the text will show them, not as it was written; what cancels is dropped."""
    operands, results = parse_indices(parser_of("[(%a floordiv 2) + %b, %c - %c]"))
    assert [operand.operand_name for operand in operands] == ["b", "a"]
    assert results == (d0 + d1 // 2, 0)


def test_results_of_one_op_are_different_values():
    operands, results = parse_indices(parser_of("[%a#0 + %a#1 * 2]"))
    assert [operand.index for operand in operands] == [0, 1] and results == (d0 + d1 * 2,)


def test_several_expressions_share_a_list_of_operands():
    operands: list[Any] = []
    parser = parser_of("%p * 4 to min(%p * 4 + 4, s0) lanes 8")
    low = parse_expr(parser, operands)
    parser.parse_keyword("to")
    high = parse_expr(parser, operands)
    parser.parse_keyword("lanes")
    assert (low, high, len(operands)) == (d0 * 4, sym.minimum(d0 * 4 + 4, s0), 1)


def test_canonical_operands():
    assert canonical_operands("ab", (d1, d0)) == (("b", "a"), (d0, d1))
    assert canonical_operands("aab", (d0 + d1 * 2 + d2,)) == (("a", "b"), (d0 * 3 + d1,))
    assert canonical_operands("abc", (d1 + 1,)) == (("b",), (d0 + 1,))
    assert canonical_operands("", (3,)) == ((), (3,))


ATOMS = st.sampled_from([sym.dim(k) for k in range(5)] + [s0])
EXPRESSIONS = st.recursive(
    st.one_of(ATOMS, st.integers(-3, 9)),
    lambda inner: st.one_of(
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, b: a * b, inner, st.one_of(ATOMS, st.integers(-2, 4))),
        st.builds(lambda a, b: a // b, inner, st.integers(2, 5)),
        st.builds(lambda a, b: a % b, inner, st.integers(2, 5)),
        st.builds(sym.minimum, inner, inner),
    ),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(EXPRESSIONS, max_size=3), st.lists(st.integers(0, 4), min_size=5, max_size=5))
def test_canonical_indices_round_trip(results: list[sym.IndexExpr], choice: list[int]):
    """Any operands, repeated or unused: the canonical form prints to what parses back to it, with the same meaning."""
    pool = values(5)
    operands, canonical = canonical_operands([pool[k] for k in choice], results)
    text = printed(operands, canonical)
    read, parsed = parse_indices(parser_of(text))
    assert parsed == canonical
    assert [operand.operand_name for operand in read] == [operand.name_hint for operand in operands]
    numbers = {value: 10 + 7 * position for position, value in enumerate(pool)}
    for before, after in zip(results, canonical, strict=True):
        assert sym.evaluate(before, [numbers[pool[k]] for k in choice], {"s0": 3}) == sym.evaluate(
            after, [numbers[operand] for operand in operands], {"s0": 3}
        )


def test_print_expr_writes_no_brackets():
    stream = StringIO()
    print_expr(Printer(stream), values(1), d0 * 4 + 1)
    assert stream.getvalue() == "%i * 4 + 1"
