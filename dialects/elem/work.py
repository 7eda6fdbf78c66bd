"""How much work the elementwise ops are."""

from __future__ import annotations

from xdsl.ir import Operation

from cuesta.dialects.elem.dot import DotOp
from cuesta.dialects.elem.ops import OPS, BitcastOp, ConstantOp, ConvertOp, PhiloxOp, RandomWordOp, SelectOp
from cuesta.dialects.elem.table import Row

_DEAR = {"div": 3.0, "sqrt": 3.0, "rsqrt": 4.0, "fmod": 8.0, "trunc_div": 8.0, "pow": 16.0, "gcd": 40.0}


def work_of(row: Row) -> float:
    """How much work an op of the table is, in float adds."""
    return _DEAR.get(row.name, 8.0 if any(text.startswith("math:") for text in row.llvm.values()) else 1.0)


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
