"""The nodes of index expressions: interned, canonical polynomials with integer coefficients.

An expression is Σ coefficient · product of atoms + constant. Atoms are dimensions `d0`, symbols `s0`, and the
functions `floordiv`, `mod`, `min`, `max` of expressions. Sums and products are always expanded and sorted, so two
expressions that are equal as polynomials are the same object: `==` is identity, and a dictionary lookup costs
nothing. Anything that needs to know ranges is not done here but in `simplify`.

Python's integers are the constants: an operator whose result has no atom left returns an `int`.
A divisor is taken to be non-zero wherever the expression is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeAlias, TypeVar
from weakref import ReferenceType

from cuesta.dialects.core.interning import Interned

_T = TypeVar("_T")
_NO_NAMES: frozenset[Any] = frozenset()


class Atom:
    """One indivisible factor. `key` orders atoms, independently of the process and of creation order."""

    __slots__ = ("__weakref__", "_expr", "dims", "key", "symbols")
    key: tuple[Any, ...]
    dims: frozenset[int]
    symbols: frozenset[str]
    # Held strongly it would hold the atom, and the tables of expressions would hold both for ever.
    _expr: ReferenceType[Expr] | None

    @property
    def expr(self) -> Expr:
        """The expression that is just this atom."""
        reference = self._expr
        if reference is not None and (found := reference()) is not None:
            return found
        found = monomial_expr(_monomial((self,)))
        self._expr = ReferenceType(found)
        return found


class Dim(Atom):
    """The k-th dimension of the index space, `d<k>`."""

    __slots__ = ("index",)

    def __init__(self, index: int):
        self.index, self.key, self._expr = index, (0, index), None
        self.dims, self.symbols = frozenset((index,)), _NO_NAMES


class Symbol(Atom):
    """An integer that is fixed for one run of the program, such as a dynamic size."""

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name, self.key, self._expr = name, (1, name), None
        self.dims, self.symbols = _NO_NAMES, frozenset((name,))


class Function(Atom):
    """A function of two expressions."""

    __slots__ = ("left", "right")
    rank: int  # the place of this kind of atom in the order

    def __init__(self, left: IndexExpr, right: IndexExpr):
        self.left, self.right, self._expr = left, right, None
        self.key = (self.rank, _key_of(left), _key_of(right))
        parts = [part for part in (left, right) if isinstance(part, Expr)]
        self.dims = _union([part.dims for part in parts])
        self.symbols = _union([part.symbols for part in parts])


class FloorDiv(Function):
    """`left floordiv right`, rounding towards minus infinity, as in Python."""

    __slots__ = ()
    rank = 2


class Mod(Function):
    """`left mod right`, with the sign of the divisor, as in Python."""

    __slots__ = ()
    rank = 3


class Min(Function):
    """`min(left, right)`; the operands are sorted."""

    __slots__ = ()
    rank = 4


class Max(Function):
    """`max(left, right)`; the operands are sorted."""

    __slots__ = ()
    rank = 5


class Monomial:
    """A product of atoms, sorted; a power is a repeated atom."""

    __slots__ = ("__weakref__", "atoms", "dims", "key", "pure", "symbols")

    def __init__(self, atoms: tuple[Atom, ...]):
        self.atoms = atoms
        self.key = tuple(atom.key for atom in atoms)
        self.dims = _union([atom.dims for atom in atoms])
        self.symbols = _union([atom.symbols for atom in atoms])
        self.pure = not any(isinstance(atom, Function) for atom in atoms)


Term: TypeAlias = "tuple[Monomial, int]"


class Expr:
    """A non-constant index expression. Made by `dim`, `symbol` and the operators, never directly."""

    __slots__ = ("__weakref__", "constant", "dims", "key", "pure", "symbols", "terms")

    def __init__(self, terms: tuple[Term, ...], constant: int):
        self.terms, self.constant = terms, constant
        self.key = (0, tuple((monomial.key, coefficient) for monomial, coefficient in terms), constant)
        self.dims = _union([monomial.dims for monomial, _ in terms])
        self.symbols = _union([monomial.symbols for monomial, _ in terms])
        self.pure = all(monomial.pure for monomial, _ in terms)

    def __add__(self, other: IndexExpr) -> IndexExpr:
        if isinstance(other, int):
            return self if other == 0 else _sum_of(self.terms, self.constant + other)
        if type(other) is not Expr:
            return NotImplemented
        left, right, constant = self.terms, other.terms, self.constant + other.constant
        if left[-1][0].key < right[0][0].key:
            return _sum_of(left + right, constant)
        total = dict(left)
        accumulate(total, other, 1)
        return sum_of_terms(total, constant)

    __radd__ = __add__

    def __neg__(self) -> Expr:
        return _sum_of(tuple([(monomial, -c) for monomial, c in self.terms]), -self.constant)

    def __sub__(self, other: IndexExpr) -> IndexExpr:
        return self + (-other)

    def __rsub__(self, other: IndexExpr) -> IndexExpr:
        return -self + other

    def __mul__(self, other: IndexExpr) -> IndexExpr:
        if isinstance(other, int):
            if other == 0:
                return 0
            if other == 1:
                return self
            return _sum_of(tuple([(monomial, c * other) for monomial, c in self.terms]), self.constant * other)
        if type(other) is not Expr:
            return NotImplemented
        total: dict[Monomial, int] = {}
        for left, factor in self.terms:
            for right, c in other.terms:
                product = multiply_monomials(left, right)
                total[product] = total.get(product, 0) + factor * c
            if other.constant:
                total[left] = total.get(left, 0) + factor * other.constant
        if self.constant:
            accumulate(total, other, self.constant)
        return sum_of_terms(total, self.constant * other.constant)

    __rmul__ = __mul__

    def __floordiv__(self, other: IndexExpr) -> IndexExpr:
        return _floordiv(self, other)

    def __rfloordiv__(self, other: IndexExpr) -> IndexExpr:
        return _floordiv(other, self)

    def __mod__(self, other: IndexExpr) -> IndexExpr:
        return _mod(self, other)

    def __rmod__(self, other: IndexExpr) -> IndexExpr:
        return _mod(other, self)

    def __repr__(self) -> str:
        from cuesta.dialects.sym.text import format_expr

        return format_expr(self)

    # One object per expression: copies are the object itself, and unpickling goes through the constructors.
    def __copy__(self) -> Expr:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Expr:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        from cuesta.dialects.sym.syntax import parse_text

        return parse_text, (repr(self),)


IndexExpr: TypeAlias = "int | Expr"

# The tables that make nodes unique: a node is one object for as long as anybody holds it.
_atoms = Interned[tuple[Any, ...], Atom]()
_monomials = Interned[tuple[Atom, ...], Monomial]()
_sums = Interned[tuple[tuple[Term, ...], int], Expr]()
_find_atom, _find_monomial, _find_sum = _atoms.find, _monomials.find, _sums.find

_RESERVED = re.compile(r"d[0-9]+|floordiv|ceildiv|mod|min|max|inf|in|true|false")
_IDENTIFIER = re.compile(r"[a-zA-Z_][a-zA-Z0-9_$.]*")


def dim(k: int) -> Expr:
    """The expression `d<k>`."""
    reference = _find_atom((Dim, k))
    if reference is not None and (atom := reference()) is not None:
        return atom.expr
    return _atoms.add((Dim, k), Dim(k)).expr


def is_symbol_name(name: str) -> bool:
    """Whether a symbol can be called that: an identifier that is neither `d<k>` nor a keyword."""
    return _IDENTIFIER.fullmatch(name) is not None and _RESERVED.fullmatch(name) is None


def symbol(name: str) -> Expr:
    """The expression that is the symbol `name`. Errors: ValueError unless `is_symbol_name(name)`."""
    reference = _find_atom((Symbol, name))
    if reference is not None and (atom := reference()) is not None:
        return atom.expr
    if not is_symbol_name(name):
        raise ValueError(f"{name!r} cannot name a symbol")
    return _atoms.add((Symbol, name), Symbol(name)).expr


def minimum(a: IndexExpr, b: IndexExpr) -> IndexExpr:
    """min(a, b); decided at once when the two differ by a constant."""
    difference = a - b
    if isinstance(difference, int):
        return a if difference <= 0 else b
    return _function(Min, *_sorted_pair(a, b))


def maximum(a: IndexExpr, b: IndexExpr) -> IndexExpr:
    """max(a, b); decided at once when the two differ by a constant."""
    difference = a - b
    if isinstance(difference, int):
        return a if difference >= 0 else b
    return _function(Max, *_sorted_pair(a, b))


def ceildiv(a: IndexExpr, b: IndexExpr) -> IndexExpr:
    """The quotient a / b rounded up. Requires: b > 0."""
    return (a + b - 1) // b


def accumulate(total: dict[Monomial, int], value: IndexExpr, scale: int) -> int:
    """Add scale · value into `total`; returns the constant part, which `total` does not hold."""
    if isinstance(value, int):
        return value * scale
    for monomial, c in value.terms:
        total[monomial] = total.get(monomial, 0) + c * scale
    return value.constant * scale


def sum_of_terms(total: dict[Monomial, int], constant: int) -> IndexExpr:
    """The expression Σ total[monomial] · monomial + constant."""
    terms = [term for term in total.items() if term[1]]
    if not terms:
        return constant
    if len(terms) > 1:
        terms.sort(key=_term_key)
    return _sum_of(tuple(terms), constant)


def monomial_expr(monomial: Monomial, coefficient: int = 1) -> Expr:
    """The expression coefficient · monomial. Requires: coefficient ≠ 0."""
    return _sum_of(((monomial, coefficient),), 0)


def product_of_atoms(atoms: Iterable[Atom]) -> IndexExpr:
    """The product of atoms, 1 when there are none."""
    ordered = tuple(sorted(atoms, key=_atom_key))
    return _sum_of(((_monomial(ordered), 1),), 0) if ordered else 1


def multiply_monomials(left: Monomial, right: Monomial) -> Monomial:
    """The product of two monomials."""
    return _monomial(tuple(sorted(left.atoms + right.atoms, key=_atom_key)))


def _floordiv(a: IndexExpr, b: IndexExpr) -> IndexExpr:
    if isinstance(b, int):
        if isinstance(a, int):
            return a // b
        if b == 0:
            raise ZeroDivisionError(f"({a}) floordiv 0")
        if all(c % b == 0 for _, c in a.terms):
            return _sum_of(tuple([(monomial, c // b) for monomial, c in a.terms]), a.constant // b)
    elif type(b) is not Expr:
        return NotImplemented
    elif a == 0:
        return 0
    elif a is b:
        return 1
    return _function(FloorDiv, a, b)


def _mod(a: IndexExpr, b: IndexExpr) -> IndexExpr:
    if isinstance(b, int):
        if isinstance(a, int):
            return a % b
        if b == 0:
            raise ZeroDivisionError(f"({a}) mod 0")
        if all(c % b == 0 for _, c in a.terms):
            return a.constant % b
    elif type(b) is not Expr:
        return NotImplemented
    elif a == 0 or a is b:
        return 0
    return _function(Mod, a, b)


def _function(kind: type[Function], a: IndexExpr, b: IndexExpr) -> Expr:
    key = (kind, a, b)
    reference = _find_atom(key)
    if reference is not None and (atom := reference()) is not None:
        return atom.expr
    return _atoms.add(key, kind(a, b)).expr


def _sum_of(terms: tuple[Term, ...], constant: int) -> Any:
    # `terms` is sorted and free of zeros. The result is typed Any because callers know more: it is an int only
    # when there are no terms.
    if not terms:
        return constant
    key = (terms, constant)
    reference = _find_sum(key)
    if reference is not None and (found := reference()) is not None:
        return found
    return _sums.add(key, Expr(terms, constant))


def _monomial(atoms: tuple[Atom, ...]) -> Monomial:
    reference = _find_monomial(atoms)
    if reference is not None and (found := reference()) is not None:
        return found
    return _monomials.add(atoms, Monomial(atoms))


def _atom_key(atom: Atom) -> tuple[Any, ...]:
    return atom.key


def _term_key(term: Term) -> tuple[Any, ...]:
    return term[0].key


def _key_of(e: IndexExpr) -> tuple[Any, ...]:
    return (1, e) if isinstance(e, int) else e.key


def _sorted_pair(a: IndexExpr, b: IndexExpr) -> tuple[IndexExpr, IndexExpr]:
    return (a, b) if _key_of(a) <= _key_of(b) else (b, a)


def _union(sets: list[frozenset[_T]]) -> frozenset[_T]:
    if len(sets) == 1:
        return sets[0]
    empty: frozenset[_T] = frozenset()
    return empty.union(*sets)
