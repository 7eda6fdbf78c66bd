"""What is known about the values of an expression on an index space: intervals and proofs of inequality.

The space is given by `sizes`, d_k in [0, sizes[k]), and by the inclusive ranges of symbols. A symbol without a range
may be anything, except that the space is taken to have a point: where `s0` is the size of a dimension, s0 ≥ 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

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
    substitute,
    symbol,
)
from cuesta.dialects.sym.nodes import Atom, Monomial, accumulate, product_of_atoms, sum_of_terms

Interval: TypeAlias = "tuple[int | None, int | None]"
"""Inclusive; None is infinite."""

SymbolRanges: TypeAlias = "Mapping[str, Interval]"

_MAXIMAL_DEPTH = 8  # of proofs that need other proofs; real expressions need three or four
_MAXIMAL_STEPS = 32  # atoms replaced in one proof
MOST_ANSWERS = 4096  # about one space; a graph asks for tens


class Space:
    """An index space with memoised answers about expressions on it."""

    def __init__(self, sizes: tuple[IndexExpr, ...], ranges: SymbolRanges):
        self.sizes = sizes
        self.ranges: dict[str, Interval] = dict(ranges)
        self._intervals: dict[Expr, Interval] = {}
        self._proofs: dict[Expr, bool] = {}
        self._depth = 0
        for size in sizes:
            self._assume_positive(size)

    def _assume_positive(self, size: IndexExpr) -> None:
        # c · s · t ≥ 1 with c > 0 means that s and t are not zero; they are positive if none can be negative.
        if isinstance(size, int) or len(size.terms) != 1 or size.constant > 0 or size.terms[0][1] < 0:
            return
        atoms = size.terms[0][0].atoms
        names = [atom.name for atom in atoms if isinstance(atom, Symbol)]
        if len(names) < len(atoms):
            return
        ends = [self.ranges.get(name, (None, None)) for name in names]
        if len(atoms) == 1 or all(low is not None and low >= 0 for low, _ in ends):
            for name, (low, high) in zip(names, ends, strict=True):
                self.ranges[name] = (max(low or 1, 1), high)

    def forget(self) -> None:
        """Forgets all answers."""
        self._intervals.clear()
        self._proofs.clear()

    def bounds(self, e: IndexExpr) -> Interval:
        """An interval that holds every value of `e`; exact for sums of distinct dimensions."""
        if isinstance(e, int):
            return e, e
        found = self._intervals.get(e)
        if found is None:
            low: int | None = e.constant
            high: int | None = e.constant
            for monomial, c in e.terms:
                term_low, term_high = _scale(self._product_bounds(monomial), c)
                low = None if low is None or term_low is None else low + term_low
                high = None if high is None or term_high is None else high + term_high
            if len(self._intervals) >= MOST_ANSWERS:
                self.forget()
            found = self._intervals[e] = (low, high)
        return found

    def _product_bounds(self, monomial: Monomial) -> Interval:
        atoms = monomial.atoms
        result = self._atom_bounds(atoms[0])
        for atom in atoms[1:]:
            result = _multiply(result, self._atom_bounds(atom))
        return result

    def _atom_bounds(self, atom: Atom) -> Interval:
        if isinstance(atom, Dim):
            size = self.sizes[atom.index]
            high = size if isinstance(size, int) else self.bounds(size)[1]
            return 0, None if high is None else max(high - 1, 0)
        if isinstance(atom, Symbol):
            return self.ranges.get(atom.name, (None, None))
        assert isinstance(atom, Function)
        left, right = self.bounds(atom.left), self.bounds(atom.right)
        if isinstance(atom, FloorDiv):
            return _divide(left, right)
        if isinstance(atom, Mod):
            return _remainder(left, right)
        if isinstance(atom, Min):
            return _smaller(left[0], right[0], both=True), _smaller(left[1], right[1], both=False)
        assert isinstance(atom, Max)
        return _larger(left[0], right[0], both=False), _larger(left[1], right[1], both=True)

    def is_non_negative(self, e: IndexExpr) -> bool:
        """Whether e ≥ 0 on the whole space can be proved."""
        if isinstance(e, int):
            return e >= 0
        low = self.bounds(e)[0]
        if low is not None and low >= 0:
            return True
        found = self._proofs.get(e)
        if found is None:
            if self._depth >= _MAXIMAL_DEPTH or not self._is_symbolic(e):
                return False
            self._depth += 1
            try:
                least = self._least(e)
                found = least is not None and self._is_non_negative_in_symbols(least)
            finally:
                self._depth -= 1
            if self._depth == 0 or found:  # a failure may be due to the depth at which it was tried
                self._proofs[e] = found
        return found

    def is_positive(self, e: IndexExpr) -> bool:
        """Whether e ≥ 1 on the whole space can be proved."""
        return self.is_non_negative(e - 1)

    def _is_symbolic(self, e: Expr) -> bool:
        return bool(e.symbols) or not self._has_static_dims(e)

    def _has_static_dims(self, e: Expr | Atom) -> bool:
        return all(isinstance(self.sizes[k], int) for k in e.dims)

    def _least(self, e: IndexExpr) -> IndexExpr | None:
        """An expression over symbols alone that is ≤ e everywhere.

        Functions are replaced first, each by an end of its range, then dimensions, since these may occur in functions.
        """
        for _ in range(_MAXIMAL_STEPS):
            if isinstance(e, int):
                return e
            atoms = {atom: None for monomial, _ in e.terms for atom in monomial.atoms if not isinstance(atom, Symbol)}
            if not atoms:
                return e
            ordered = sorted(atoms, key=lambda atom: isinstance(atom, Dim))
            for atom in ordered:
                smaller = self._replace_by_end(e, atom)
                if smaller is not None:
                    break
            else:
                return None
            e = smaller
        return None

    def _replace_by_end(self, e: Expr, atom: Atom) -> IndexExpr | None:
        factor: dict[Monomial, int] = {}
        rest: dict[Monomial, int] = {}
        factor_constant = 0
        for monomial, c in e.terms:
            count = monomial.atoms.count(atom)
            if count > 1:
                return None
            if count:
                others = product_of_atoms([other for other in monomial.atoms if other is not atom])
                factor_constant += accumulate(factor, others, c)
            else:
                rest[monomial] = c
        slope = sum_of_terms(factor, factor_constant)
        if self.is_non_negative(slope):
            end = self._end(atom, upper=False)
        elif self.is_non_negative(-slope):
            end = self._end(atom, upper=True)
        else:
            return None
        return None if end is None else sum_of_terms(rest, e.constant) + slope * end

    def _end(self, atom: Atom, upper: bool) -> IndexExpr | None:
        """The least or greatest value of an atom, or a bound for it."""
        if isinstance(atom, Dim):
            return self.sizes[atom.index] - 1 if upper else 0
        symbolic = self._symbolic_end(atom, upper) if atom.symbols or not self._has_static_dims(atom) else None
        return self._atom_bounds(atom)[1 if upper else 0] if symbolic is None else symbolic

    def _symbolic_end(self, atom: Atom, upper: bool) -> IndexExpr | None:
        # Tried before the numbers: s0 − 1 says more than its greatest value where s0 occurs elsewhere, too.
        if isinstance(atom, Mod) and self.is_positive(atom.right):
            return atom.right - 1 if upper else 0
        if isinstance(atom, FloorDiv) and self.is_positive(atom.right):
            if not upper:
                return 0 if self.is_non_negative(atom.left) else None
            if not atom.dims:
                return atom.left if self.is_non_negative(atom.left) else None
            greatest = self._least(-atom.left)
            return None if greatest is None else self.floordiv(-greatest, atom.right)
        return None

    def floordiv(self, a: IndexExpr, b: IndexExpr) -> IndexExpr:
        """The quotient a floordiv b; the simplifier knows better."""
        return a // b

    def _is_non_negative_in_symbols(self, e: IndexExpr) -> bool:
        if isinstance(e, int):
            return e >= 0
        # Measured from its least value every symbol is non-negative, and so is every product of them.
        shifted: dict[str, IndexExpr] = {}
        room: dict[str, int | None] = {}
        for name in e.symbols:
            low, high = self.ranges.get(name, (None, None))
            if low is None:
                return False
            shifted[name] = symbol(name) + low
            room[name] = None if high is None else high - low
        e = substitute(e, None, shifted)
        if isinstance(e, int):
            return e >= 0
        least = e.constant
        for monomial, c in e.terms:
            if c > 0:
                continue
            greatest = 1
            for atom in monomial.atoms:
                extent = room[atom.name] if isinstance(atom, Symbol) else None
                if extent is None:
                    return False
                greatest *= extent
            least += c * greatest
        return least >= 0


def _scale(a: Interval, c: int) -> Interval:
    low, high = a if c >= 0 else (a[1], a[0])
    return None if low is None else low * c, None if high is None else high * c


def _multiply(a: Interval, b: Interval) -> Interval:
    (al, ah), (bl, bh) = a, b
    if al is not None and bl is not None and al >= 0 and bl >= 0:
        return al * bl, None if ah is None or bh is None else ah * bh
    if al is None or ah is None or bl is None or bh is None:
        return None, None
    corners = (al * bl, al * bh, ah * bl, ah * bh)
    return min(corners), max(corners)


def _divide(a: Interval, b: Interval) -> Interval:
    (al, ah), (bl, bh) = a, b
    if bh is not None and bh < 0:
        return _divide(_scale(a, -1), _scale(b, -1))
    if bl is None or bl < 0:
        return None, None
    bl = max(bl, 1)  # a divisor is not zero
    low = high = None
    if al is not None:
        low = al // bl if al < 0 else 0 if bh is None else al // max(bh, 1)
    if ah is not None:
        high = ah // bl if ah >= 0 else -1 if bh is None else ah // max(bh, 1)
    return low, high


def _remainder(a: Interval, b: Interval) -> Interval:
    (al, ah), (bl, bh) = a, b
    if bh is not None and bh < 0:
        return (None if bl is None else bl + 1), 0
    if bl is None or bl < 0:
        return None, None
    bl = max(bl, 1)
    if al is not None and ah is not None and bl == bh and al // bl == ah // bl:
        return al % bl, ah % bl
    high = None if bh is None else max(bh, 1) - 1
    if al is not None and al >= 0 and ah is not None:
        if ah < bl:
            return a
        high = ah if high is None else min(high, ah)
    return 0, high


def _smaller(a: int | None, b: int | None, both: bool) -> int | None:
    if a is None or b is None:
        return None if both else (b if a is None else a)
    return min(a, b)


def _larger(a: int | None, b: int | None, both: bool) -> int | None:
    if a is None or b is None:
        return None if both else (b if a is None else a)
    return max(a, b)
