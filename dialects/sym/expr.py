"""What one does with index expressions. Most code needs only this module and `simplify`.

`IndexExpr` is `int | Expr`: a static integer is a Python int, always, and then none of these functions does any work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from cuesta.dialects.sym.nodes import (
    Atom,
    Dim,
    Expr,
    FloorDiv,
    Function,
    IndexExpr,
    Max,
    Min,
    Mod,
    Monomial,
    Symbol,
    accumulate,
    ceildiv,
    dim,
    is_symbol_name,
    maximum,
    minimum,
    product_of_atoms,
    sum_of_terms,
    symbol,
)
from cuesta.dialects.sym.text import format_expr

__all__ = [
    "Dim",
    "Expr",
    "FloorDiv",
    "Function",
    "IndexExpr",
    "Max",
    "Min",
    "Mod",
    "Symbol",
    "alternatives",
    "apply_function",
    "ceildiv",
    "coefficient",
    "dim",
    "dims_of",
    "evaluate",
    "format_expr",
    "is_symbol_name",
    "line_of",
    "maximum",
    "minimum",
    "product_of",
    "shift_dims",
    "substitute",
    "symbol",
    "symbols_of",
]


def dims_of(e: IndexExpr) -> frozenset[int]:
    """The dimensions that occur. Iterate over `sorted(...)`."""
    return e.dims if isinstance(e, Expr) else frozenset()


def symbols_of(e: IndexExpr) -> frozenset[str]:
    """The symbols that occur. Iterate over `sorted(...)`: the order of a set of strings differs between processes."""
    return e.symbols if isinstance(e, Expr) else frozenset()


def product_of(factors: Sequence[IndexExpr]) -> IndexExpr:
    """The product, 1 when there are no factors."""
    result: IndexExpr = 1
    for factor in factors:
        result = result * factor
    return result


def apply_function(function: Function, left: IndexExpr, right: IndexExpr) -> IndexExpr:
    """The same function (floordiv, mod, min, max) of other operands."""
    if isinstance(function, FloorDiv):
        return left // right
    if isinstance(function, Mod):
        return left % right
    return minimum(left, right) if isinstance(function, Min) else maximum(left, right)


def substitute(
    e: IndexExpr, dims: Sequence[IndexExpr] | None = None, symbols: Mapping[str, IndexExpr] | None = None
) -> IndexExpr:
    """`e` with `dims[k]` for every d_k and `symbols[s]` for every symbol s that the mapping holds.

    All at once: what is put in is not substituted again. Shared subexpressions are visited once.
    Errors: IndexError when `dims` is given but too short.
    """
    if isinstance(e, int):
        return e
    if symbols:
        return _substitute(e, dims, symbols, {})
    return e if dims is None or not e.dims else _with_dims(e, tuple(dims))


@lru_cache(maxsize=4096)
def _with_dims(e: Expr, dims: tuple[IndexExpr, ...]) -> IndexExpr:
    # Of the thousands of substitutions in a model with equal layers, one in twelve is new.
    return _substitute(e, dims, None, {})


def shift_dims(e: IndexExpr, by: int, start: int = 0) -> IndexExpr:
    """`e` with d_(k+by) for every d_k with k ≥ start."""
    if isinstance(e, int) or by == 0 or not e.dims:
        return e
    return substitute(e, [dim(k + by) if k >= start else dim(k) for k in range(max(e.dims) + 1)])


def _substitute(
    e: Expr,
    dims: Sequence[IndexExpr] | None,
    symbols: Mapping[str, IndexExpr] | None,
    memo: dict[Atom, IndexExpr],
) -> IndexExpr:
    touches_dims = dims is not None and e.dims
    touches_symbols = symbols and not e.symbols.isdisjoint(symbols)
    if not touches_dims and not touches_symbols:
        return e
    total: dict[Monomial, int] = {}
    constant = e.constant
    for monomial, c in e.terms:
        image: IndexExpr = 1
        for atom in monomial.atoms:
            factor = memo.get(atom)
            if factor is None:
                factor = memo[atom] = _substitute_atom(atom, dims, symbols, memo)
            image = factor if image == 1 else image * factor
        constant += accumulate(total, image, c)
    return sum_of_terms(total, constant)


def _substitute_atom(
    atom: Atom,
    dims: Sequence[IndexExpr] | None,
    symbols: Mapping[str, IndexExpr] | None,
    memo: dict[Atom, IndexExpr],
) -> IndexExpr:
    if isinstance(atom, Dim):
        return atom.expr if dims is None else dims[atom.index]
    if isinstance(atom, Symbol):
        return symbols.get(atom.name, atom.expr) if symbols else atom.expr
    assert isinstance(atom, Function)
    left, right = atom.left, atom.right
    if isinstance(left, Expr):
        left = _substitute(left, dims, symbols, memo)
    if isinstance(right, Expr):
        right = _substitute(right, dims, symbols, memo)
    if left is atom.left and right is atom.right:
        return atom.expr
    return apply_function(atom, left, right)


def coefficient(e: IndexExpr, k: int) -> IndexExpr | None:
    """The c in e = c · d_k + rest, both free of d_k; 0 when d_k is absent, None when e is not linear in d_k."""
    if isinstance(e, int) or k not in e.dims:
        return 0
    total: dict[Monomial, int] = {}
    constant = 0
    for monomial, c in e.terms:
        if k not in monomial.dims:
            continue
        others: list[Atom] = []
        seen = False
        for atom in monomial.atoms:
            if k not in atom.dims:
                others.append(atom)
            elif isinstance(atom, Dim) and not seen:
                seen = True
            else:
                return None
        constant += accumulate(total, product_of_atoms(others), c)
    return sum_of_terms(total, constant)


def alternatives(e: IndexExpr) -> tuple[IndexExpr, ...]:
    """The expressions that a minimum chooses from; `e` itself when it is none."""
    if isinstance(e, Expr) and not e.constant and len(e.terms) == 1:
        monomial, factor = e.terms[0]
        if factor == 1 and len(monomial.atoms) == 1 and isinstance(monomial.atoms[0], Min):
            atom = monomial.atoms[0]
            return (*alternatives(atom.left), *alternatives(atom.right))
    return (e,)


def line_of(e: IndexExpr) -> tuple[str, int, int] | None:
    """The (s, c, k) with e = c · s + k, s being a symbol; None when e is no such expression."""
    if not isinstance(e, Expr) or len(e.terms) != 1:
        return None
    monomial, factor = e.terms[0]
    match monomial.atoms:
        case (Symbol() as only,):
            return only.name, factor, e.constant
        case _:
            return None


def evaluate(
    e: IndexExpr,
    dims: Sequence[Any],
    symbols: Mapping[str, Any],
    *,
    minimum: Callable[[Any, Any], Any] | None = None,
    maximum: Callable[[Any, Any], Any] | None = None,
) -> Any:
    """The value of `e` at a point, on anything with `+ * // %`: ints, integer tensors, arrays.

    `minimum` and `maximum` are used for min and max; by default Python's on ints, `clamp` on tensors, `clip` on arrays.
    """
    if isinstance(e, int):
        return e
    smaller, larger = minimum or _default_minimum, maximum or _default_maximum
    memo: dict[Atom, Any] = {}

    def value_of(e: IndexExpr) -> Any:
        if isinstance(e, int):
            return e
        total: Any = None  # None rather than 0 and 1: on tensors, adding 0 and multiplying by 1 are work
        for monomial, c in e.terms:
            product: Any = None if c == 1 else c
            for atom in monomial.atoms:
                if atom not in memo:
                    memo[atom] = atom_value(atom)
                product = memo[atom] if product is None else memo[atom] * product
            total = product if total is None else total + product
        return total + e.constant if e.constant else total

    def atom_value(atom: Atom) -> Any:
        if isinstance(atom, Dim):
            return dims[atom.index]
        if isinstance(atom, Symbol):
            return symbols[atom.name]
        assert isinstance(atom, Function)
        left, right = value_of(atom.left), value_of(atom.right)
        if isinstance(atom, FloorDiv):
            return left // right
        if isinstance(atom, Mod):
            return left % right
        return smaller(left, right) if isinstance(atom, Min) else larger(left, right)

    return value_of(e)


def _default_minimum(a: Any, b: Any) -> Any:
    if isinstance(a, int):
        a, b = b, a
    if isinstance(a, int):
        return min(a, b)
    return a.clamp(max=b) if hasattr(a, "clamp") else a.clip(max=b)


def _default_maximum(a: Any, b: Any) -> Any:
    if isinstance(a, int):
        a, b = b, a
    if isinstance(a, int):
        return max(a, b)
    return a.clamp(min=b) if hasattr(a, "clamp") else a.clip(min=b)
