"""Symbols in terms of what is told: linear equations, solved over the integers."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import field

from cuesta.dialects.core.structs import struct
from cuesta.dialects.sym.expr import line_of, substitute, symbol, symbols_of
from cuesta.dialects.sym.nodes import Expr, IndexExpr, Symbol


@struct(frozen=False)
class Solution:
    """What expressions are, given the values of some of them.

    `s0 + s1` may be told, and neither `s0` nor `s1`. Then the sum has a name of its own, and an expression can be said
    if nothing else of the two is left in it.
    """

    values: dict[str, IndexExpr] = field(default_factory=dict[str, IndexExpr])
    """Symbols that no line tells, in terms of names, of known symbols and of `free` ones."""
    names: dict[IndexExpr, IndexExpr] = field(default_factory=dict[IndexExpr, IndexExpr])
    """For an expression that is told, and is none of known symbols, the symbol that stands for all of it."""
    free: frozenset[str] = frozenset()
    """Symbols that what is told leaves open. One of those in `values` stands for itself and what was added to it."""

    def say(self, e: IndexExpr) -> IndexExpr | None:
        """`e` by what is told; None if that does not say it."""
        if not self.values or isinstance(e, int):
            return e
        found = self.names.get(e)
        if found is None:
            found = substitute(e, symbols=self.values)
        return None if not self.free.isdisjoint(symbols_of(found)) else found


def solve(told: Iterable[IndexExpr]) -> Solution:
    """What the values of expressions tell. One that is linear in a single symbol tells that symbol, which keeps its
    name; where others are left, expressions that are linear in them are solved in their order. One that is not linear
    tells itself alone.

    s0, s0 + 2 · s1    ->  s1 = (s0_s1 − s0) // 2, which is exact: sizes are integers
    s0 + s1            ->  s0 = s0_s1 − s1, where s1 is free
    """
    expressions = list(dict.fromkeys(e for e in told if not isinstance(e, int)))
    known = {line[0] for line in map(line_of, expressions) if line is not None}
    unknown = dict.fromkeys(name for e in expressions for name in sorted(e.symbols) if name not in known)
    if not unknown:
        return Solution()
    solution = Solution({name: symbol(name) for name in unknown}, {}, frozenset(unknown))
    taken = known | unknown.keys()
    for e in expressions:
        _learn(solution, e, taken)
    return solution


def _learn(solution: Solution, e: Expr, taken: set[str]) -> None:
    """Solves e = its name for one of the symbols that are free.

    3·a + 5·b + k  ->  3·a + 2·b + k, where a stood for a − b: as Euclid does with numbers, until one symbol is left
    """
    left = substitute(e, symbols=solution.values)
    if solution.free.isdisjoint(symbols_of(left)):
        return
    own = symbol(_fresh("_".join(sorted(e.symbols & solution.values.keys())), taken))
    solution.names[e] = own
    factors = _factors(left, solution.free)
    if factors is None:
        return
    while len(factors) > 1:
        least = min(factors, key=lambda name, of=factors: abs(of[name]))
        step: IndexExpr = symbol(least)
        for name, factor in factors.items():
            if name != least:
                step = step - symbol(name) * (factor // factors[least])
        left = _put_in(solution, left, least, step)
        factors = _factors(left, solution.free) or {}
    ((last, factor),) = factors.items()
    rest = left - symbol(last) * factor
    _put_in(solution, left, last, (own - rest) // factor)
    solution.free -= {last}


def _put_in(solution: Solution, e: IndexExpr, name: str, value: IndexExpr) -> IndexExpr:
    """Puts `value` in the place of a free symbol: everywhere, and in `e`."""
    step = {name: value}
    solution.values = {one: substitute(known, symbols=step) for one, known in solution.values.items()}
    return substitute(e, symbols=step)


def _factors(e: IndexExpr, free: Collection[str]) -> dict[str, int] | None:
    """What free symbols are multiplied by; None if `e` is not linear in them."""
    found: dict[str, int] = {}
    for monomial, factor in e.terms if isinstance(e, Expr) else ():
        if monomial.symbols.isdisjoint(free):
            continue
        match monomial.atoms:
            case (Symbol() as only,):
                found[only.name] = factor
            case _:
                return None
    return found


def _fresh(name: str, taken: set[str]) -> str:
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    taken.add(found)
    return found
