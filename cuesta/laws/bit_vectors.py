"""Laws of integers of 64 bits, proved by z3 for all operands: the meaning of the ops as bit vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute

from cuesta.dialects import elem
from cuesta.laws.fold import Fold
from cuesta.transforms.algebra.law import Condition, Law
from cuesta.transforms.algebra.terms import (
    Apply,
    Constant,
    Convert,
    Number,
    Points,
    Reduce,
    Select,
    Term,
    Type,
    Variable,
    subterms,
)

EFFORT = 60_000_000
"""How much z3 may do for one proof, in its own units: some seconds. A time limit would depend on what else runs."""


def applies(law: Law, types: Mapping[Type, Attribute]) -> bool:
    """Whether there are integers of 64 bits, nothing but integers, and z3 is installed."""
    if not all(isinstance(scalar, IntegerType) for scalar in types.values()):
        return False
    if not any(isinstance(scalar, IntegerType) and scalar.bitwidth == 64 for scalar in types.values()):
        return False
    terms = [*subterms(law.lhs), *subterms(law.right)]
    if any(isinstance(term, Reduce | Points) or (isinstance(term, Apply) and term.row not in _KNOWN) for term in terms):
        return False
    return _z3() is not None


def _z3() -> Any:
    try:
        import z3
    except ImportError:
        return None
    return z3


def refute(law: Law, types: Mapping[Type, Attribute]) -> str | None:
    """Operands for which the law does not hold, in words; None when there are none.

    Errors: ValueError for a condition on constants that is no term; what z3 cannot decide counts as refuted.
    """
    z3 = _z3()
    translation = _Translation(law, types)
    solver = z3.Solver()
    solver.set("rlimit", EFFORT)
    for condition in law.conditions:
        if isinstance(condition, Condition):
            if any(isinstance(one, Constant) for one in condition.of):
                raise ValueError(f"{law.name}: state the condition on constants as a term, so that z3 can read it")
        else:
            solver.add(translation.value(condition))
    left = translation.value(law.lhs)
    solver.add(*translation.defined)
    translation.defined.clear()
    right = translation.value(law.right)
    solver.add(z3.Not(z3.And(left == right, *translation.defined)))
    found = solver.check()
    if found == z3.unsat:
        return None
    if found == z3.unknown:
        return "z3 cannot decide it"
    model = solver.model()
    leaves = [term for term in translation.values if isinstance(term, Variable | Constant)]
    shown = ", ".join(f"{leaf} = {model.eval(translation.values[leaf], True)}" for leaf in leaves)
    sides = f"the left-hand side is {model.eval(left, True)}, the right-hand side {model.eval(right, True)}"
    return f"with {shown} {sides} (z3)"


class _Translation(Fold[Any]):
    def __init__(self, law: Law, types: Mapping[Type, Attribute]) -> None:
        super().__init__(law, types, {})
        self.defined: list[Any] = []

    def type(self, term: Term) -> IntegerType:
        scalar = super().type(term)
        assert isinstance(scalar, IntegerType)
        return scalar

    def make(self, term: Term) -> Any:
        z3 = _z3()
        scalar = self.type(term)
        if isinstance(term, Variable | Constant):
            return z3.Bool(term.name) if scalar.bitwidth == 1 else z3.BitVec(term.name, scalar.bitwidth)
        if isinstance(term, Number):
            number = elem.constant(term.value, scalar).value
            return z3.BoolVal(bool(number)) if scalar.bitwidth == 1 else z3.BitVecVal(int(number), scalar.bitwidth)
        operands = [self.value(part) for part in term.parts]
        if isinstance(term, Select):
            return z3.If(*operands)
        source = self.type(term.parts[0])
        if isinstance(term, Convert):
            return _convert(z3, operands[0], source, scalar)
        assert isinstance(term, Apply)
        return self.apply(z3, term.row, operands, source)

    def apply(self, z3: Any, row: str, operands: list[Any], scalar: IntegerType) -> Any:
        signed = elem.kind_of(scalar) == "i"
        a, b = operands[0], operands[-1]
        if scalar.bitwidth == 1:
            return _LOGIC[row](z3, a, b)
        if row in ("trunc_div", "fmod"):
            self.defined.append(b != 0)
            if signed:
                least = z3.BitVecVal(-(1 << (scalar.bitwidth - 1)), scalar.bitwidth)
                self.defined.append(z3.Not(z3.And(a == least, b == -1)))
        if row in ("shl", "shr"):
            self.defined.append(z3.ULT(b, scalar.bitwidth))
        return _KNOWN[row][0 if signed else 1](z3, a, b)


def _convert(z3: Any, value: Any, source: IntegerType, target: IntegerType) -> Any:
    if target.bitwidth == 1:
        return value if source.bitwidth == 1 else value != 0
    if source.bitwidth == 1:
        return z3.If(value, z3.BitVecVal(1, target.bitwidth), z3.BitVecVal(0, target.bitwidth))
    added = target.bitwidth - source.bitwidth
    if added <= 0:
        return z3.Extract(target.bitwidth - 1, 0, value)
    return z3.SignExt(added, value) if elem.kind_of(source) == "i" else z3.ZeroExt(added, value)


def _both(function: Any) -> tuple[Any, Any]:
    return function, function


# For each op what it does to signed and to unsigned integers.
_KNOWN: dict[str, tuple[Any, Any]] = {
    "add": _both(lambda z3, a, b: a + b),
    "sub": _both(lambda z3, a, b: a - b),
    "mul": _both(lambda z3, a, b: a * b),
    "trunc_div": (lambda z3, a, b: a / b, lambda z3, a, b: z3.UDiv(a, b)),
    "fmod": (lambda z3, a, b: z3.SRem(a, b), lambda z3, a, b: z3.URem(a, b)),
    "neg": _both(lambda z3, a, b: -a),
    "abs": _both(lambda z3, a, b: z3.If(a < 0, -a, a)),
    "maximum": (lambda z3, a, b: z3.If(a < b, b, a), lambda z3, a, b: z3.If(z3.ULT(a, b), b, a)),
    "minimum": (lambda z3, a, b: z3.If(a < b, a, b), lambda z3, a, b: z3.If(z3.ULT(a, b), a, b)),
    "eq": _both(lambda z3, a, b: a == b),
    "ne": _both(lambda z3, a, b: a != b),
    "lt": (lambda z3, a, b: a < b, lambda z3, a, b: z3.ULT(a, b)),
    "le": (lambda z3, a, b: a <= b, lambda z3, a, b: z3.ULE(a, b)),
    "gt": (lambda z3, a, b: a > b, lambda z3, a, b: z3.UGT(a, b)),
    "ge": (lambda z3, a, b: a >= b, lambda z3, a, b: z3.UGE(a, b)),
    "and": _both(lambda z3, a, b: a & b),
    "or": _both(lambda z3, a, b: a | b),
    "xor": _both(lambda z3, a, b: a ^ b),
    "shl": _both(lambda z3, a, b: a << b),
    "shr": (lambda z3, a, b: a >> b, lambda z3, a, b: z3.LShR(a, b)),
    "not": _both(lambda z3, a, b: ~a),
}
_LOGIC: dict[str, Any] = {
    "and": lambda z3, a, b: z3.And(a, b),
    "or": lambda z3, a, b: z3.Or(a, b),
    "xor": lambda z3, a, b: z3.Xor(a, b),
    "not": lambda z3, a, b: z3.Not(a),
    "eq": lambda z3, a, b: a == b,
    "ne": lambda z3, a, b: z3.Xor(a, b),
    "lt": lambda z3, a, b: z3.And(z3.Not(a), b),
    "le": lambda z3, a, b: z3.Or(z3.Not(a), b),
    "gt": lambda z3, a, b: z3.And(a, z3.Not(b)),
    "ge": lambda z3, a, b: z3.Or(a, z3.Not(b)),
    "maximum": lambda z3, a, b: z3.Or(a, b),
    "minimum": lambda z3, a, b: z3.And(a, b),
}
