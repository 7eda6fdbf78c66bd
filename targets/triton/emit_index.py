"""Index expressions as Triton text."""

from __future__ import annotations

from collections.abc import Sequence

from cuesta.dialects import sym
from cuesta.dialects.sym.nodes import (
    Atom,
    Dim,
    Expr,
    FloorDiv,
    Function,
    Max,
    Min,
    Mod,
    Monomial,
    Symbol,
    monomial_expr,
)

ANY = 1 << 62
"""More than any index."""


def index_text(e: sym.IndexExpr, dims: Sequence[str]) -> str:
    """The text of an expression; dim k is called `dims[k]`.

    Requires: every dim is ≥ 0, and divisors are > 0.
    """
    if isinstance(e := without_remainders(e), int):
        return str(e)
    terms: list[str] = []
    for monomial, factor in e.terms:
        factors = [_atom_text(atom, dims) for atom in monomial.atoms]
        if abs(factor) != 1:
            factors.append(str(abs(factor)))
        sign = "-" if factor < 0 else "+"
        terms.append(f"{sign} {' * '.join(factors)}")
    if e.constant:
        terms.append(f"{'-' if e.constant < 0 else '+'} {abs(e.constant)}")
    first = terms[0].removeprefix("+ ")
    if first.startswith("- "):
        first = f"0 - {first[2:]}"
    return " ".join([first, *terms[1:]])


def without_remainders(e: sym.IndexExpr) -> sym.IndexExpr:
    """The same sum, in which a remainder whose quotient is computed anyway is no division of its own:

        a · (x // c) + b · (x % c)  =  b · x + (a − b · c) · (x // c)         where a ≥ b · c

    LLVM makes remainders by what is no power of two in 64 bits where they lead to an address: 33 instructions for an
    element of 4 bytes, where memory leaves time for 28.
    """
    while not isinstance(e, int):
        divisions: set[Atom] = set()
        _collect(e, divisions)
        others = (_without(e, monomial, factor, divisions) for monomial, factor in e.terms if _is_remainder(monomial))
        found = next((one for one in others if one is not None and _only_adds(one)), None)
        if found is None:
            break
        e = found
    return e


def _without(e: Expr, monomial: Monomial, factor: int, divisions: set[Atom]) -> sym.IndexExpr | None:
    """The sum without one of its remainders; None where its quotient is not computed."""
    (atom,) = monomial.atoms
    assert isinstance(atom, Mod) and isinstance(atom.right, int)
    for quotient in _quotients(atom.left, atom.right):
        if quotient in divisions:
            return e + factor * (atom.left - atom.right * quotient.expr) - monomial_expr(monomial, factor)
    return None


def _only_adds(e: sym.IndexExpr) -> bool:
    """Whether no term is taken from another: then none is more than the sum, which fits where an index has to."""
    return isinstance(e, int) or all(factor > 0 for _, factor in e.terms)


def _is_remainder(monomial: Monomial) -> bool:
    """Whether a monomial is a remainder by a number that is no power of two."""
    if len(monomial.atoms) != 1 or not isinstance(atom := monomial.atoms[0], Mod) or not isinstance(atom.right, int):
        return False
    return atom.right & (atom.right - 1) != 0


def _quotients(e: sym.IndexExpr, divisor: int) -> list[Atom]:
    """e // divisor, and y // (d · divisor) where e is y // d."""
    found = [e // divisor]
    if isinstance(e, Expr) and len(e.terms) == 1 and not e.constant and e.terms[0][1] == 1:
        atoms = e.terms[0][0].atoms
        if len(atoms) == 1 and isinstance(inner := atoms[0], FloorDiv) and isinstance(inner.right, int):
            found.append(inner.left // (inner.right * divisor))
    return [
        one.terms[0][0].atoms[0] for one in found if isinstance(one, Expr) and len(one.terms) == 1 and not one.constant
    ]


def _collect(e: sym.IndexExpr, divisions: set[Atom]) -> None:
    """Adds the divisions in an expression."""
    if isinstance(e, int):
        return
    for monomial, _ in e.terms:
        for atom in monomial.atoms:
            if isinstance(atom, Function):
                if isinstance(atom, FloorDiv):
                    divisions.add(atom)
                _collect(atom.left, divisions)
                _collect(atom.right, divisions)


def operand_text(e: sym.IndexExpr, dims: Sequence[str]) -> str:
    """The same, in parentheses where that matters."""
    text = index_text(e, dims)
    return f"({text})" if " " in text or text.startswith("-") else text


def _atom_text(atom: Atom, dims: Sequence[str]) -> str:
    if isinstance(atom, Dim):
        return dims[atom.index]
    if isinstance(atom, Symbol):
        return atom.name
    assert isinstance(atom, Function)
    if isinstance(atom, Min | Max):
        name = "tl.minimum" if isinstance(atom, Min) else "tl.maximum"
        return f"{name}({index_text(atom.left, dims)}, {index_text(atom.right, dims)})"
    left, right = operand_text(atom.left, dims), operand_text(atom.right, dims)
    # Triton's division rounds towards 0, as C's does; ours rounds down.
    if is_natural(atom.left):
        return f"({left} {'//' if isinstance(atom, FloorDiv) else '%'} {right})"
    remainder = f"(({left} % {right} + {right}) % {right})"
    return remainder if isinstance(atom, Mod) else f"(({left} - {remainder}) // {right})"


def is_natural(e: sym.IndexExpr) -> bool:
    """Whether the expression is never negative, whatever the sizes are."""
    if isinstance(e, int):
        return e >= 0
    low, _ = sym.bounds(e, [ANY] * (max(e.dims, default=-1) + 1))
    return low is not None and low >= 0
