"""Iteration spaces: which points surround an op, and whether an access walks a tensor in the order of those points."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from cuesta.dialects import loops, sym
from cuesta.dialects.core.indexed import IndexedOp
from cuesta.dialects.loops.surgery import Substitution


def volume(sizes: Sequence[sym.IndexExpr]) -> sym.IndexExpr:
    """The number of points."""
    product: sym.IndexExpr = 1
    for size in sizes:
        product = product * size
    return product


class Space:
    """The induction variables that surround an op, outermost first, with their sizes."""

    def __init__(self, op: Operation) -> None:
        domains: list[loops.DomainOp] = []
        parent = op.parent_op()
        while isinstance(parent, loops.DomainOp):
            domains.append(parent)
            parent = parent.parent_op()
        domains.reverse()
        self.domains = domains
        self.variables: list[SSAValue] = [variable for domain in domains for variable in domain.induction_variables]
        self.sizes: list[sym.IndexExpr] = [size for domain in domains for size in domain.sizes]

    @property
    def volume(self) -> sym.IndexExpr:
        """How often the op runs."""
        return volume(self.sizes)

    def expressions(self, op: IndexedOp) -> list[sym.IndexExpr] | None:
        """The op's index expressions with dim k for `variables[k]`; None when they use other index values (gathers)."""
        substitution = Substitution(self.variables)
        expressions = substitution.expressions(op.map.results, op.indices)
        if len(substitution.axes) > len(self.variables):
            return None
        return [sym.simplify(expression, self.sizes) for expression in expressions]

    def walks_in_order(self, op: IndexedOp, sizes: Sequence[sym.IndexExpr]) -> bool:
        """Whether the op touches every element of a tensor of `sizes` once, in row-major order, as its points go by."""
        if volume(sizes) != self.volume:
            return False
        expressions = self.expressions(op)
        if expressions is None:
            return False
        axes = [sym.dim(k) for k in range(len(self.sizes))]
        if tuple(self.sizes) == tuple(sizes):
            return all(
                expression == axis or size == 1 for expression, axis, size in zip(expressions, axes, sizes, strict=True)
            )
        if self.volume == 0:
            return False  # without an element any two walks are one, of tensors of other sizes, too
        touched = sym.simplify(sym.linearize(expressions, sizes), self.sizes)
        return touched == sym.simplify(sym.linearize(axes, self.sizes), self.sizes)

    def walks_once(self, op: IndexedOp, sizes: Sequence[sym.IndexExpr]) -> list[sym.IndexExpr] | None:
        """The op's index expressions, when it touches every element of a tensor of `sizes` once: in row-major order, or
        axis by axis in another order. None when that is not known.
        """
        expressions = self.expressions(op)
        if expressions is None:
            return None
        walked = [(expression, size) for expression, size in zip(expressions, sizes, strict=True) if size != 1]
        axes = {sym.dim(k): size for k, size in enumerate(self.sizes) if size != 1}
        axis_by_axis = len(walked) == len(axes) and dict(walked) == axes
        return expressions if axis_by_axis or self.walks_in_order(op, sizes) else None
