"""How much work the elementwise ops are."""

from __future__ import annotations

from xdsl.dialects.builtin import Float32Type
from xdsl.ir import Operation

from cuesta.dialects.elem.base import scalar_of
from cuesta.dialects.elem.dot import DotOp
from cuesta.dialects.elem.ops import OPS, BitcastOp, ConstantOp, ConvertOp, PhiloxOp, RandomWordOp, SelectOp, TableOp
from cuesta.dialects.elem.table import Row

_DEAR = {"div": 3.0, "sqrt": 3.0, "rsqrt": 4.0, "fmod": 8.0, "trunc_div": 8.0, "pow": 16.0, "gcd": 40.0}

SHARING = 8
"""Dividends of one divisor from which on its reciprocal is computed once for all of them.

Source: a choice; a kernel of 201 million elements, which moves 3.2 GB, on an H100 (three divisions by norms of columns
and rows, and two more, took 1.14 ms so, as if they were approximations, 1.89 one by one).
"""


def work_of(row: Row) -> float:
    """How much work an op of the table is, in float adds."""
    return _DEAR.get(row.name, 8.0 if any(text.startswith("math:") for text in row.llvm.values()) else 1.0)


def has_subroutine(op: Operation) -> bool:
    """Whether a GPU has a subroutine for an op, which it calls where a quick way may be off: correctly rounded
    quotients and roots. What a thread computes of one element then waits for what it computes of the one before.
    """
    if not isinstance(op, TableOp) or op.row.name not in ("div", "sqrt") or op.precision is not None:
        return False
    divisor = op.operands[-1].owner
    return isinstance(scalar_of(op.results[0].type), Float32Type) and not isinstance(divisor, ConstantOp)


WORK: dict[type[Operation], float] = {
    ConstantOp: 0.0,
    BitcastOp: 0.0,
    ConvertOp: 1.0,
    DotOp: 1.0,
    PhiloxOp: 40.0,
    RandomWordOp: 40.0,
    SelectOp: 1.0,
    **{op: work_of(op.row) for op in OPS.values()},
}
"""How much work an elementwise op is, in float adds."""
