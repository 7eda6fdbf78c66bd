"""Index expressions as Triton text."""

from __future__ import annotations

from collections.abc import Sequence

from cuesta.dialects import sym
from cuesta.dialects.sym.nodes import Atom, Dim, FloorDiv, Function, Max, Min, Mod, Symbol

ANY = 1 << 62
"""More than any index."""


def index_text(e: sym.IndexExpr, dims: Sequence[str]) -> str:
    """The text of an expression; dim k is called `dims[k]`.

    Requires: every dim is ≥ 0, and divisors are > 0.
    """
    if isinstance(e, int):
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
