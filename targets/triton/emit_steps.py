"""Digits of a point of a contraction: what is the same for all lanes of a step is computed once for them.

    for k_start in range(0, 576, 64):
        k = k_start + lanes
        a = tl.load(x + (row * 64 + k // 192 * 3584 + k % 192 - 3648))
    →
        step = k_start // 64
        a = tl.load(x + (row * 64 + lanes - 3648) + (step // 3 * 3584 + step % 3 * 64))

A step is `depth` points from a multiple of `depth` on. So k = step · depth + lane, of which a digit is a number where
`depth` divides its weight: an implicit convolution, whose points are counted by elements of a window and channels,
asks then once a step which element that is. What does not change from step to step stands together, before the loop
for whoever compiles the text.

Exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from cuesta.dialects import sym
from cuesta.dialects.kernel.shapes import Shape
from cuesta.dialects.sym.nodes import Expr, Function, sum_of_terms
from cuesta.targets.triton.emit_index import ANY, index_text

if TYPE_CHECKING:
    from cuesta.targets.triton.emit_kernel import KernelEmitter


@dataclass(frozen=True)
class Steps:
    """The points of a contraction's loop, in the text that is being written."""

    first: str
    """The first point of the step."""
    lanes: str
    """0, 1, …, depth − 1."""
    depth: int
    points: sym.IndexExpr
    """How many there are in all."""


@dataclass(frozen=True)
class Split:
    """An index expression in two: what is the same in every step, and what is not, in parentheses."""

    same: str
    rest: str
    shape: Shape
    """Of both together."""

    @property
    def whole(self) -> str:
        """Both together."""
        if self.rest == "0":
            return self.same
        return self.rest if self.same == "0" else f"({self.same}) + {self.rest}"


def split_by_steps(emitter: KernelEmitter, e: sym.IndexExpr, operands: Sequence[SSAValue]) -> Split | None:
    """An expression that has digits of a point of a contraction; None for others."""
    if not emitter.steps or not isinstance(e, Expr):
        return None
    found = [(place, emitter.steps[value]) for place, value in enumerate(operands) if value in emitter.steps]
    if len(found) != 1 or not _has_digits(e, found[0][0]):
        return None
    (place, steps), count = found[0], len(operands)
    images: list[sym.IndexExpr] = [sym.dim(k) for k in range(count)]
    images[place] = sym.dim(count) * steps.depth + sym.dim(place)
    sizes: list[sym.IndexExpr] = [ANY] * count
    sizes[place] = steps.depth
    rounds = -(-steps.points // steps.depth) if isinstance(steps.points, int) else ANY
    written = sym.simplify(sym.substitute(e, images), [*sizes, rounds])
    names = [*(emitter.names[value] for value in operands), emitter.bind(f"{steps.first} // {steps.depth}", "step")]
    names[place] = steps.lanes
    reals = [*(emitter.real_of(value) for value in operands), ()]
    shape = emitter.joint([reals[k] for k in sym.dims_of(written)])
    if not isinstance(written, Expr):
        return Split("0", index_text(written, names), shape)
    changing = {monomial: factor for monomial, factor in written.terms if count in monomial.dims}
    rest = sum_of_terms(changing, 0)
    text = index_text(rest, names)
    return Split(index_text(written - rest, names), f"({text})" if " " in text else text, shape)


def _has_digits(e: Expr, place: int) -> bool:
    """Whether an expression has quotients or remainders in which a dim occurs."""
    return any(
        isinstance(atom, Function) and place in (sym.dims_of(atom.left) | sym.dims_of(atom.right))
        for monomial, _ in e.terms
        for atom in monomial.atoms
    )


__all__ = ["Split", "Steps", "split_by_steps"]
