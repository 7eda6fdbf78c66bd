"""The laws of `floordiv`, `mod`, `min` and `max` on an index space.

Every law is stated above its code. `a floordiv b` is ⌊a / b⌋ and `a mod b` is a − b·⌊a / b⌋, as in Python; b ≠ 0.
Nothing here makes an expression worse: each law removes a function, or makes its operands smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from cuesta.dialects.core.interning import Memo
from cuesta.dialects.sym.division import common_factors, divide_terms, exact_quotient
from cuesta.dialects.sym.expr import (
    Dim,
    Expr,
    FloorDiv,
    Function,
    IndexExpr,
    Max,
    Min,
    Mod,
    Symbol,
    maximum,
    minimum,
)
from cuesta.dialects.sym.nodes import Atom, Monomial, accumulate, monomial_expr, product_of_atoms, sum_of_terms
from cuesta.dialects.sym.ranges import MOST_ANSWERS, Interval, Space, SymbolRanges

__all__ = [
    "SymbolRanges",
    "bounds",
    "delinearize",
    "linearize",
    "prove_equal",
    "prove_less_equal",
    "simplify",
]

_NO_RANGES: SymbolRanges = {}


def simplify(e: IndexExpr, sizes: Sequence[IndexExpr], symbol_ranges: SymbolRanges | None = None) -> IndexExpr:
    """An expression with the same value at every point of the space d_k in [0, sizes[k]), in simpler words."""
    if isinstance(e, int):
        return e
    if e.pure:
        for k in e.dims:
            if sizes[k] == 1:
                break
        else:
            return e
    return _space(sizes, symbol_ranges).simplify(e)


def bounds(e: IndexExpr, sizes: Sequence[IndexExpr], symbol_ranges: SymbolRanges | None = None) -> Interval:
    """An inclusive interval that holds every value of `e`; None is infinite."""
    return (e, e) if isinstance(e, int) else _space(sizes, symbol_ranges).bounds(e)


def prove_equal(
    a: IndexExpr, b: IndexExpr, sizes: Sequence[IndexExpr], symbol_ranges: SymbolRanges | None = None
) -> bool:
    """Whether a = b on the whole space can be proved."""
    return a == b or simplify(a - b, sizes, symbol_ranges) == 0


def prove_less_equal(
    a: IndexExpr, b: IndexExpr, sizes: Sequence[IndexExpr], symbol_ranges: SymbolRanges | None = None
) -> bool:
    """Whether a ≤ b on the whole space can be proved."""
    difference = simplify(b - a, sizes, symbol_ranges)
    return difference >= 0 if isinstance(difference, int) else _space(sizes, symbol_ranges).is_non_negative(difference)


def linearize(indices: Sequence[IndexExpr], sizes: Sequence[IndexExpr]) -> IndexExpr:
    """The row-major position of a point: Σ indices[k] · Π sizes[k+1:]."""
    position: IndexExpr = 0
    for index, size in zip(indices, sizes, strict=True):
        position = position * size + index
    return position


def delinearize(linear: IndexExpr, sizes: Sequence[IndexExpr]) -> tuple[IndexExpr, ...]:
    """The point at a row-major position. Requires: 0 ≤ linear < Π sizes."""
    indices: list[IndexExpr] = []
    stride: IndexExpr = 1
    for position in range(len(sizes) - 1, -1, -1):
        quotient = linear // stride
        size = sizes[position]
        if isinstance(size, int):
            size = max(size, 1)  # an empty space has no points, and must not divide by zero
        indices.append(quotient if position == 0 and size != 1 else quotient % size)
        stride = stride * size
    return tuple(reversed(indices))


_spaces = Memo[Hashable, "Simplifier"](4096)


def _space(sizes: Sequence[IndexExpr], symbol_ranges: SymbolRanges | None) -> Simplifier:
    sizes = tuple(sizes)
    key = (sizes, frozenset(symbol_ranges.items())) if symbol_ranges else sizes
    found = _spaces.get(key)
    return _spaces.keep(key, Simplifier(sizes, symbol_ranges or _NO_RANGES)) if found is None else found


class Simplifier(Space):
    """A space with a memo of what was simplified on it."""

    def __init__(self, sizes: tuple[IndexExpr, ...], ranges: SymbolRanges):
        super().__init__(sizes, ranges)
        self._simple: dict[Expr, IndexExpr] = {}
        self._simple_atoms: dict[Atom, IndexExpr] = {}
        self._functions: dict[tuple[type[Function], IndexExpr, IndexExpr], IndexExpr] = {}

    def forget(self) -> None:
        """Forgets all answers."""
        super().forget()
        for memo in (self._simple, self._simple_atoms, self._functions):
            memo.clear()

    def simplify(self, e: IndexExpr) -> IndexExpr:
        """Simplify from the leaves up."""
        if isinstance(e, int):
            return e
        found = self._simple.get(e)
        if found is None:
            total: dict[Monomial, int] = {}
            constant = e.constant
            for monomial, c in e.terms:
                image: IndexExpr = 1
                for atom in monomial.atoms:
                    image = image * self._simplify_atom(atom)
                constant += accumulate(total, image, c)
            found = self._recombine(sum_of_terms(total, constant))
            if len(self._simple) >= MOST_ANSWERS:
                self.forget()
            self._simple[e] = found
            if isinstance(found, Expr):
                self._simple.setdefault(found, found)
        return found

    def _simplify_atom(self, atom: Atom) -> IndexExpr:
        if isinstance(atom, Symbol):
            return atom.expr
        if isinstance(atom, Dim):
            # d_k -> 0 where the size is 1
            return 0 if self.sizes[atom.index] == 1 else atom.expr
        found = self._simple_atoms.get(atom)
        if found is None:
            assert isinstance(atom, Function)
            left, right = self.simplify(atom.left), self.simplify(atom.right)
            if isinstance(atom, FloorDiv):
                found = self.floordiv(left, right)
            elif isinstance(atom, Mod):
                found = self.mod(left, right)
            elif isinstance(atom, Min):
                # min(a, b) -> a where a ≤ b
                found = self._choose(minimum, left, right, right - left)
            else:
                assert isinstance(atom, Max)
                # max(a, b) -> a where b ≤ a
                found = self._choose(maximum, left, right, left - right)
            self._simple_atoms[atom] = found
        return found

    def _choose(
        self, function: Callable[[IndexExpr, IndexExpr], IndexExpr], a: IndexExpr, b: IndexExpr, gain: IndexExpr
    ) -> IndexExpr:
        if self.is_non_negative(gain):
            return a
        return b if self.is_non_negative(-gain) else function(a, b)

    def floordiv(self, a: IndexExpr, b: IndexExpr) -> IndexExpr:
        """The quotient a floordiv b, simplified. Requires: a and b are."""
        return self._memoised(FloorDiv, a, b, self._floordiv)

    def mod(self, a: IndexExpr, b: IndexExpr) -> IndexExpr:
        """The remainder a mod b, simplified. Requires: a and b are."""
        return self._memoised(Mod, a, b, self._mod)

    def _memoised(
        self,
        kind: type[Function],
        a: IndexExpr,
        b: IndexExpr,
        compute: Callable[[IndexExpr, IndexExpr], IndexExpr],
    ) -> IndexExpr:
        key = (kind, a, b)
        found = self._functions.get(key)
        if found is None:
            found = self._functions[key] = compute(a, b)
        return found

    def _floordiv(self, a: IndexExpr, b: IndexExpr) -> IndexExpr:
        plain = a // b
        if not isinstance(_lone_function(plain), FloorDiv):
            return plain
        # a floordiv −c -> (−a) floordiv c
        if isinstance(b, int) and b < 0:
            return self.floordiv(-a, -b)
        # r floordiv c -> k where k·c ≤ r < (k + 1)·c
        constant = self._constant_quotient(a, b)
        if constant is not None:
            return constant
        # (c·q + r) floordiv c -> q + r floordiv c
        quotient, rest = self._split(a, b)
        if quotient != 0:
            return quotient + self.floordiv(rest, b)
        # (e floordiv c + q) floordiv b -> (e + c·q) floordiv (c·b), b > 0
        inner = _first_floordiv(a)
        if inner is not None and self.is_positive(b):
            return self.floordiv(self.simplify(inner.left + (a - inner.expr) * inner.right), inner.right * b)
        # (e mod (b·c)) floordiv b -> (e floordiv b) mod c, c > 0
        function = _lone_function(a)
        if isinstance(function, Mod):
            modulus = exact_quotient(function.right, b)
            if modulus is not None and self.is_positive(modulus):
                return self.mod(self.floordiv(function.left, b), modulus)
        # (g·q + r) floordiv (g·c) -> (q + k) floordiv c where k·g ≤ r < (k + 1)·g, c > 0
        for factor in common_factors(a, b):
            part = self._take_out(a, b, factor)
            if part is not None:
                reduced, divisor, _ = part
                return self.floordiv(reduced, divisor)
        return plain

    def _mod(self, a: IndexExpr, b: IndexExpr) -> IndexExpr:
        plain = a % b
        if not isinstance(_lone_function(plain), Mod):
            return plain
        # a mod −c -> −((−a) mod c)
        if isinstance(b, int) and b < 0:
            return -self.mod(-a, -b)
        # r mod c -> r − k·c where k·c ≤ r < (k + 1)·c
        constant = self._constant_quotient(a, b)
        if constant is not None:
            return a - b * constant
        # (c·q + r) mod c -> r mod c
        quotient, rest = self._split(a, b)
        if quotient != 0:
            return self.mod(rest, b)
        # (k·(e mod c) + r) mod b -> (k·e + r) mod b where b divides k·c
        if isinstance(a, Expr):
            for monomial, c in a.terms:
                atom = monomial.atoms[0]
                if not isinstance(atom, Mod) or len(monomial.atoms) > 1:
                    continue
                if exact_quotient(atom.right * c, b) is not None:
                    return self.mod(self.simplify(a + (atom.left - atom.expr) * c), b)
        # (g·q + r) mod (g·c) -> g·((q + k) mod c) + r − k·g where k·g ≤ r < (k + 1)·g, c > 0
        for factor in common_factors(a, b):
            part = self._take_out(a, b, factor)
            if part is not None:
                reduced, divisor, rest = part
                return factor * self.mod(reduced, divisor) + rest
        return plain

    def _constant_quotient(self, a: IndexExpr, b: IndexExpr) -> int | None:
        """The k with k·b ≤ a < (k + 1)·b on the whole space, if that can be proved."""
        low, high = self.bounds(a)
        if isinstance(b, int):
            if low is not None and high is not None and low // b == high // b:
                return low // b
            if isinstance(a, int):
                return None
        if (low is None or low >= 0) and self.is_non_negative(b - 1 - a) and self.is_non_negative(a):
            return 0
        if high is not None and high < 0 and self.is_non_negative(a + b):
            return -1
        return None

    def _split(self, a: IndexExpr, b: IndexExpr) -> tuple[IndexExpr, IndexExpr]:
        """The q and r with a = b·q + r, where r has no multiple of b left; (0, a) when there is none."""
        if isinstance(a, int):
            return 0, a
        if isinstance(b, int) or (len(b.terms) == 1 and not b.constant):
            return divide_terms(a, b)
        return self._long_division(a, b)

    def _long_division(self, a: Expr, b: Expr) -> tuple[IndexExpr, IndexExpr]:
        # By the term of highest degree. Kept only if it ends in a remainder that is in [0, b).
        leading = max(b.terms, key=lambda term: len(term[0].atoms))
        head = monomial_expr(*leading)
        quotient: IndexExpr = 0
        rest: IndexExpr = a
        for _ in range(len(a.terms) + 1):
            if isinstance(rest, int):
                break
            step, _ = divide_terms(rest, head)
            if step == 0:
                break
            quotient, rest = quotient + step, rest - step * b
        if quotient != 0 and (rest == 0 or self._constant_quotient(rest, b) is not None):
            return quotient, rest
        return 0, a

    def _take_out(self, a: IndexExpr, b: IndexExpr, factor: IndexExpr) -> tuple[IndexExpr, IndexExpr, IndexExpr] | None:
        """The (n, c, r) with a = factor·n + r, 0 ≤ r < factor, b = factor·c, if dividing n by c may ignore r."""
        assert isinstance(a, Expr)
        divisor = exact_quotient(b, factor)
        if divisor is None:
            return None
        quotient, rest = divide_terms(a, factor)
        if isinstance(quotient, int):
            return None
        if rest == 0:
            return quotient, divisor, 0
        constant = rest // factor if isinstance(rest, int) and isinstance(factor, int) else None
        if constant is None:
            constant = self._constant_quotient(rest, factor)
        if constant is None or not self.is_positive(divisor):
            return None
        return quotient + constant, divisor, rest - constant * factor

    def _recombine(self, e: IndexExpr) -> IndexExpr:
        """Joins what reshapes take apart, in sums, with a common factor k."""
        while isinstance(e, Expr) and not e.pure:
            joined = self._join_once(e)
            if joined is None:
                return e
            e = joined
        return e

    def _join_once(self, e: Expr) -> IndexExpr | None:
        terms = dict(e.terms)
        for monomial, c in e.terms:
            for position, atom in enumerate(monomial.atoms):
                if not isinstance(atom, Mod):
                    continue
                others = product_of_atoms(monomial.atoms[:position] + monomial.atoms[position + 1 :]) * c
                quotient = self.floordiv(atom.left, atom.right)
                if isinstance(quotient, int):
                    continue
                # k·c·(e floordiv c) + k·(e mod c) -> k·e
                block = others * atom.right * quotient
                if _holds(terms, block):
                    return e - block + others * (atom.left - atom.expr)
                # k·c·((e floordiv c) mod b) + k·(e mod c) -> k·(e mod (c·b)), b > 0
                for modulus in _moduli(e, quotient):
                    block = others * atom.right * (quotient % modulus)
                    if _holds(terms, block) and self.is_positive(modulus):
                        return e - block + others * (self.mod(atom.left, atom.right * modulus) - atom.expr)
        return None


def _lone_function(e: IndexExpr) -> Function | None:
    """The function that `e` is."""
    if isinstance(e, int) or e.constant or len(e.terms) != 1 or e.terms[0][1] != 1:
        return None
    atoms = e.terms[0][0].atoms
    return atoms[0] if len(atoms) == 1 and isinstance(atoms[0], Function) else None


def _first_floordiv(e: IndexExpr) -> FloorDiv | None:
    """The f in e = f + rest."""
    if isinstance(e, Expr):
        for monomial, c in e.terms:
            atom = monomial.atoms[0]
            if c == 1 and len(monomial.atoms) == 1 and isinstance(atom, FloorDiv):
                return atom
    return None


def _holds(terms: dict[Monomial, int], block: IndexExpr) -> bool:
    return isinstance(block, Expr) and all(terms.get(monomial) == c for monomial, c in block.terms)


def _moduli(e: Expr, left: IndexExpr) -> list[IndexExpr]:
    """The m for which (left mod m) occurs as a factor in e."""
    return [
        atom.right for monomial, _ in e.terms for atom in monomial.atoms if isinstance(atom, Mod) and atom.left is left
    ]
