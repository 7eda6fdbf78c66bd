"""Terms evaluated on tensors, by the meaning that the reference interpreter gives the ops."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute

from cuesta.dialects import elem
from cuesta.dialects.elem.meaning import compute
from cuesta.laws.fold import Fold
from cuesta.targets.reference import reductions
from cuesta.targets.reference.numerics import dtype_of
from cuesta.transforms.algebra.law import Law, row_named
from cuesta.transforms.algebra.terms import Apply, Convert, Number, Points, Reduce, Select, Term, Type


class Evaluation(Fold[Tensor]):
    """The values of a law's terms, for many values of its variables at a time.

    Shapes: of one axis, along which the operands vary; in laws of reductions of two, the second of which is the points
    of the domain, where a value differs from point to point.
    """

    def __init__(
        self, law: Law, types: Mapping[Type, Attribute], values: Mapping[Term, Tensor], points: int | None = None
    ) -> None:
        super().__init__(law, types, values)
        self.points = points
        self.defined: Tensor = torch.tensor(True)
        """Where all that was evaluated so far has a meaning."""

    def make(self, term: Term) -> Tensor:
        """The values of a term."""
        if isinstance(term, Number | Points):
            number = term.value if isinstance(term, Number) else self.points or 0
            scalar = self.type(term)
            return torch.tensor([elem.constant(number, scalar).value], dtype=dtype_of(scalar))
        if isinstance(term, Reduce):
            return self._reduce(term)
        operands = [self.value(part) for part in term.parts]
        if isinstance(term, Apply):
            operands = self._defined_operands(term, operands)
            return compute(row_named(term.row), operands)
        if isinstance(term, Convert):
            return self._convert(operands[0], self.type(term.operand), self.type(term))
        assert isinstance(term, Select)
        return torch.where(operands[0], indexable(operands[1]), indexable(operands[2])).view(operands[1].dtype)

    def _defined_operands(self, term: Apply, operands: list[Tensor]) -> list[Tensor]:
        """The operands, with others in the place of those for which the op has no meaning."""
        scalar = self.type(term.operands[0])
        if not isinstance(scalar, IntegerType) or term.row not in ("trunc_div", "fmod", "shl", "shr"):
            return operands
        a, b = (indexable(operand) for operand in operands)
        if term.row in ("shl", "shr"):
            wrong = (b < 0) | (b >= scalar.bitwidth)
        else:
            wrong = b == 0
            if elem.kind_of(scalar) == "i":
                wrong = wrong | ((b == -1) & (a == -(1 << (scalar.bitwidth - 1))))
        self.defined = self.defined & ~wrong
        return [operands[0], torch.where(wrong, torch.ones((), dtype=b.dtype), b).view(operands[1].dtype)]

    def _convert(self, value: Tensor, source: Attribute, target: Attribute) -> Tensor:
        if elem.kind_of(source) == "f" and isinstance(target, IntegerType) and target.bitwidth > 1:
            signed = elem.kind_of(target) == "i"
            low, high = -(2.0 ** (target.bitwidth - 1)) if signed else 0.0, 2.0 ** (target.bitwidth - signed)
            whole = value.double().trunc()
            wrong = ~((whole >= low) & (whole < high))
            self.defined = self.defined & ~wrong
            value = torch.where(wrong, torch.zeros((), dtype=value.dtype), value)
        return value.to(dtype_of(target))

    def _reduce(self, term: Reduce) -> Tensor:
        assert self.points is not None
        body = self.value(term.body)
        body = body.expand(body.shape[0], self.points)
        position = torch.arange(self.points).expand(body.shape)
        return reductions.reduce(term.kind, body, None, lambda: position)[0].unsqueeze(-1)


def indexable(value: Tensor) -> Tensor:
    """The same bits in a dtype that torch can compare and choose from."""
    wide = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
    return value.view(wide[value.dtype]) if value.dtype in wide else value
