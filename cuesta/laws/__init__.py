"""Proving laws of the algebra: `prove(law)` finds out whether one holds, or shows the operands for which it does not.

    from cuesta.laws import prove
    prove(Law("add-zero", x + 0.0, x, "f"))     # NotALawError: x + 0.0 = x in bf16: for x = -0.0 … 0.0 is not -0.0

A law is checked against the meaning of the ops that the reference interpreter uses (`proof.py`): over all of bf16, f16
and the integers of 8 bits where that can be done, over pairs of them with every special value and many others, over
special and random f32, f64 and wider integers; integers of 64 bits by z3, when it is installed (`bit_vectors.py`). Then
the rewrite itself is: it must fire on a program of its left-hand side, change nothing of what that computes, and leave
programs alone that are nearly its left-hand side (`programs.py`).
"""

from cuesta.laws.programs import check_rewrite
from cuesta.laws.proof import NotALawError, Proof, check_equation
from cuesta.transforms.algebra.law import Law

__all__ = ["NotALawError", "Proof", "check_equation", "check_rewrite", "prove"]


def prove(law: Law, *, effort: float = 1.0) -> Proof:
    """Proves a law and its rewrite; says what was checked.

    `effort` scales how many operands are tried: 1.0 means ten million pairs for each type of 16 bits.
    Errors: NotALawError, which shows operands and both results, or the program on which the rewrite goes wrong.
    """
    proof = check_equation(law, effort=effort)

    check_rewrite(law)
    return proof
