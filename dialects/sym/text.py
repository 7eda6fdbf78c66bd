"""Index expressions as text: `d0 * 64 + d1`, `(d0 + 1) floordiv 4`, `min(d0, 4)`. Read back by `syntax`."""

from __future__ import annotations

from collections.abc import Sequence

from cuesta.dialects.sym.nodes import Atom, Dim, Expr, FloorDiv, Function, IndexExpr, Min, Mod, Monomial, Symbol


def format_expr(e: IndexExpr, dim_names: Sequence[str] | None = None) -> str:
    """The text of an expression, which parses back to the same expression.

    Dimension k is written `dim_names[k]`, or `d<k>` without names.
    """
    if isinstance(e, int):
        return str(e)
    terms = e.terms
    if len(terms) == 1 and not e.constant and terms[0][1] == 1 and len(terms[0][0].atoms) == 1:
        return _atom_text(terms[0][0].atoms[0], dim_names)
    parts: list[str] = []
    for monomial, coefficient in terms:
        if not parts:
            parts.append("-" if coefficient < 0 else "")
        else:
            parts.append(" - " if coefficient < 0 else " + ")
        parts.append(_product_text(monomial, abs(coefficient), dim_names))
    if e.constant:
        parts.append(f" - {-e.constant}" if e.constant < 0 else f" + {e.constant}")
    return "".join(parts)


def _product_text(monomial: Monomial, coefficient: int, dim_names: Sequence[str] | None) -> str:
    factors = [_factor_text(atom, dim_names) for atom in monomial.atoms]
    if coefficient != 1:
        factors.append(str(coefficient))
    return " * ".join(factors)


def _factor_text(atom: Atom, dim_names: Sequence[str] | None) -> str:
    text = _atom_text(atom, dim_names)
    return f"({text})" if isinstance(atom, (FloorDiv, Mod)) else text


def _atom_text(atom: Atom, dim_names: Sequence[str] | None) -> str:
    if isinstance(atom, Dim):
        return f"d{atom.index}" if dim_names is None else dim_names[atom.index]
    if isinstance(atom, Symbol):
        return atom.name
    assert isinstance(atom, Function)
    if isinstance(atom, (FloorDiv, Mod)):
        word = "floordiv" if isinstance(atom, FloorDiv) else "mod"
        return f"{_operand_text(atom.left, dim_names)} {word} {_operand_text(atom.right, dim_names)}"
    word = "min" if isinstance(atom, Min) else "max"
    return f"{word}({format_expr(atom.left, dim_names)}, {format_expr(atom.right, dim_names)})"


def _operand_text(e: IndexExpr, dim_names: Sequence[str] | None) -> str:
    text = format_expr(e, dim_names)
    if isinstance(e, int) or _is_one_word(e):
        return text
    return f"({text})"


def _is_one_word(e: Expr) -> bool:
    if e.constant or len(e.terms) != 1:
        return False
    monomial, coefficient = e.terms[0]
    return coefficient == 1 and len(monomial.atoms) == 1 and not isinstance(monomial.atoms[0], (FloorDiv, Mod))
