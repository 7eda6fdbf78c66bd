"""Dividing polynomials: quotients and common factors of the sums in `nodes`, without any knowledge of ranges."""

from __future__ import annotations

from math import gcd

from cuesta.dialects.sym.expr import Expr, IndexExpr
from cuesta.dialects.sym.nodes import Atom, Monomial, accumulate, product_of_atoms, sum_of_terms


def divide_terms(a: Expr, b: IndexExpr) -> tuple[IndexExpr, IndexExpr]:
    """The q and r with a = b·q + r, taking exactly the terms that b divides, and of the constant what an int divides.

    Requires: b is an int or a single term.
    """
    quotient: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    if isinstance(b, int):
        for monomial, c in a.terms:
            if c % b == 0:
                quotient[monomial] = c // b
            else:
                rest[monomial] = c
        return sum_of_terms(quotient, a.constant // b), sum_of_terms(rest, a.constant % b)
    (divisor, scale) = b.terms[0]
    constant = 0
    for monomial, c in a.terms:
        others = _without(monomial, divisor) if c % scale == 0 else None
        if others is None:
            rest[monomial] = c
        else:
            constant += accumulate(quotient, product_of_atoms(others), c // scale)
    return sum_of_terms(quotient, constant), sum_of_terms(rest, a.constant)


def _without(monomial: Monomial, divisor: Monomial) -> list[Atom] | None:
    others = list(monomial.atoms)
    for atom in divisor.atoms:
        if atom not in others:
            return None
        others.remove(atom)
    return others


def exact_quotient(a: IndexExpr, b: IndexExpr) -> IndexExpr | None:
    """The quotient when b divides a as a polynomial; only for b an int or a single term."""
    if isinstance(a, int):
        return a // b if isinstance(b, int) and a % b == 0 else None
    if a is b:
        return 1
    if isinstance(b, Expr) and (len(b.terms) != 1 or b.constant):
        return None
    quotient, rest = divide_terms(a, b)
    return quotient if rest == 0 else None


def common_factors(a: IndexExpr, b: IndexExpr) -> list[IndexExpr]:
    """The factors ≠ 1 that b shares with some term of a, the greatest first."""
    if isinstance(a, int):
        return []
    factors: dict[IndexExpr, None] = {}
    if isinstance(b, int):
        for _, c in a.terms:
            factors.setdefault(gcd(c, b))
        return [factor for factor in sorted(factors, key=_size, reverse=True) if factor not in (1, b)]
    if len(b.terms) != 1 or b.constant:
        content = gcd(b.constant, *[c for _, c in b.terms], *[c for _, c in a.terms])
        return [content] if content != 1 else []
    divisor, scale = b.terms[0]
    for monomial, c in a.terms:
        left = list(monomial.atoms)
        common: list[Atom] = []
        for atom in divisor.atoms:
            if atom in left:
                left.remove(atom)
                common.append(atom)
        factors.setdefault(product_of_atoms(common) * gcd(c, scale))
    return [factor for factor in sorted(factors, key=_size, reverse=True) if factor != 1 and factor is not b]


def _size(factor: IndexExpr) -> tuple[int, int]:
    return (0, factor) if isinstance(factor, int) else (len(factor.terms[0][0].atoms), factor.terms[0][1])
