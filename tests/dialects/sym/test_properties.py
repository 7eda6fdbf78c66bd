"""Random expressions: whatever is done to them, their value at a point is that of plain Python arithmetic."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cuesta.dialects import sym
from cuesta.dialects.sym.syntax import parse_text

# A tree is an int, ("d", k), ("s", name) or (operator, left, right); its value needs none of the code under test.
DIMS = 3
RANGES = {"s0": (1, 6), "s1": (1, None), "s2": (-3, 5), "s3": (-4, 4)}
SIZES = st.one_of(
    st.integers(1, 8),
    st.sampled_from([sym.symbol("s0"), sym.symbol("s1"), sym.symbol("s0") * sym.symbol("s1"), sym.symbol("s0") * 4]),
)
DIVISORS = st.one_of(
    st.integers(1, 12),
    st.sampled_from(
        [
            -1,
            -4,
            ("s", "s0"),
            ("s", "s3"),
            ("*", ("s", "s3"), 3),
            ("s", "s1"),
            ("*", ("s", "s0"), 4),
            ("*", ("s", "s0"), ("s", "s1")),
        ]
    ),
)
LEAVES = st.one_of(
    st.integers(-6, 12),
    st.integers(0, DIMS - 1).map(lambda k: ("d", k)),
    st.sampled_from(sorted(RANGES)).map(lambda s: ("s", s)),
)
TREES: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["+", "-", "min", "max"]), inner, inner),
        st.tuples(st.just("*"), inner, st.one_of(st.integers(-3, 8), LEAVES)),
        st.tuples(st.sampled_from(["//", "%"]), inner, DIVISORS),
    ),
    max_leaves=9,
)
OPERATORS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}
PLAIN = {**OPERATORS, "min": min, "max": max}
BUILT = {**OPERATORS, "min": sym.minimum, "max": sym.maximum}


def fold(tree: Any, dims: Any, symbols: Any, operators: Any) -> Any:
    if isinstance(tree, int):
        return tree
    match tree:
        case ("d", k):
            return dims[k]
        case ("s", name):
            return symbols[name]
        case (operator, left, right):
            return operators[operator](fold(left, dims, symbols, operators), fold(right, dims, symbols, operators))


def build(tree: Any) -> sym.IndexExpr:
    return fold(tree, [sym.dim(k) for k in range(DIMS)], {name: sym.symbol(name) for name in RANGES}, BUILT)


# s3 is a divisor of unknown sign; divisors are never zero.
NON_ZERO = st.sampled_from([-4, -3, -1, 1, 2, 4])
SYMBOL_VALUES = st.fixed_dictionaries(
    {"s0": st.integers(1, 6), "s1": st.integers(1, 9), "s2": st.integers(-3, 5), "s3": NON_ZERO}
)


@st.composite
def points(draw: st.DrawFn, sizes: tuple[sym.IndexExpr, ...]) -> tuple[list[int], dict[str, int]]:
    symbols = draw(SYMBOL_VALUES)
    return [draw(st.integers(0, sym.evaluate(size, [], symbols) - 1)) for size in sizes], symbols


@st.composite
def spaces(draw: st.DrawFn) -> tuple[tuple[sym.IndexExpr, ...], list[tuple[list[int], dict[str, int]]]]:
    sizes = tuple(draw(st.lists(SIZES, min_size=DIMS, max_size=DIMS)))
    return sizes, draw(st.lists(points(sizes), min_size=1, max_size=6))


@settings(max_examples=100, deadline=None)
@given(TREES, spaces())
def test_constructors_simplify_and_bounds_keep_the_value(tree: Any, space: Any):
    sizes, where = space
    e = build(tree)
    simple = sym.simplify(e, sizes, RANGES)
    low, high = sym.bounds(e, sizes, RANGES)
    for dims, symbols in where:
        value = fold(tree, dims, symbols, PLAIN)
        assert sym.evaluate(e, dims, symbols) == value
        assert sym.evaluate(simple, dims, symbols) == value
        assert low is None or low <= value
        assert high is None or value <= high


@settings(max_examples=100, deadline=None)
@given(TREES, TREES, spaces())
def test_proofs_hold(left: Any, right: Any, space: Any):
    sizes, where = space
    a, b = build(left), build(right)
    less_equal = sym.prove_less_equal(a, b, sizes, RANGES)
    equal = sym.prove_equal(a, b, sizes, RANGES)
    for dims, symbols in where:
        assert not less_equal or sym.evaluate(a, dims, symbols) <= sym.evaluate(b, dims, symbols)
        assert not equal or sym.evaluate(a, dims, symbols) == sym.evaluate(b, dims, symbols)


@settings(max_examples=100, deadline=None)
@given(TREES, spaces())
def test_simplification_settles(tree: Any, space: Any):
    sizes, _ = space
    simple = sym.simplify(build(tree), sizes, RANGES)
    assert sym.simplify(simple, sizes, RANGES) is simple or sym.simplify(simple, sizes, RANGES) == simple


@settings(max_examples=100, deadline=None)
@given(TREES, st.lists(TREES, min_size=DIMS, max_size=DIMS), TREES, spaces())
def test_substitute_is_evaluation_with_other_values(tree: Any, images: list[Any], image: Any, space: Any):
    e, inner, other = build(tree), [build(t) for t in images], build(image)
    result = sym.substitute(e, inner, {"s2": other})
    composed = sym.MapAttr.get(DIMS, [e]).compose(sym.MapAttr.get(DIMS, inner)).results[0]
    for dims, symbols in space[1]:
        values = [sym.evaluate(t, dims, symbols) for t in inner]
        assert sym.evaluate(composed, dims, symbols) == sym.evaluate(e, values, symbols)
        assert sym.evaluate(result, dims, symbols) == sym.evaluate(
            e, values, {**symbols, "s2": sym.evaluate(other, dims, symbols)}
        )


@settings(max_examples=100, deadline=None)
@given(TREES)
def test_text_parses_back_to_the_same_object(tree: Any):
    e = build(tree)
    parsed = parse_text(sym.format_expr(e))
    assert parsed is e or (isinstance(e, int) and parsed == e)


@settings(max_examples=100, deadline=None)
@given(TREES, spaces())
def test_coefficient_splits_off_a_dimension(tree: Any, space: Any):
    e = build(tree)
    for k in range(DIMS):
        c = sym.coefficient(e, k)
        if c is None:
            continue
        rest = e - sym.dim(k) * c
        assert k not in sym.dims_of(c) and k not in sym.dims_of(rest)


FACTORS = st.lists(st.sampled_from([1, 2, 3, 4, 6, sym.symbol("s0"), sym.symbol("s1")]), min_size=1, max_size=4)


@settings(max_examples=150, deadline=None)
@given(FACTORS, st.data())
def test_a_reshape_there_and_back_is_nothing(factors: list[sym.IndexExpr], data: st.DataObject):
    """Merge some factors of a size, permute the others: linearize ∘ delinearize is found to be the identity."""
    cut = data.draw(st.integers(0, len(factors)))
    order = data.draw(st.permutations(factors))
    there = (sym.product_of(order[:cut]), *order[cut:])
    here_dims, there_dims = [sym.dim(k) for k in range(len(factors))], [sym.dim(k) for k in range(len(there))]
    linear = sym.linearize(here_dims, factors)
    view = sym.MapAttr.get(len(factors), sym.delinearize(linear, there)).simplified(factors, RANGES)
    assert sym.prove_equal(sym.linearize(view.results, there), linear, factors, RANGES)
    back = sym.MapAttr.get(len(there), sym.delinearize(sym.linearize(there_dims, there), factors))
    identity = back.compose(view).simplified(factors, RANGES)
    for d, e, size in zip(here_dims, identity.results, factors, strict=True):
        assert e == (0 if size == 1 else d)
