"""The `loops` dialect: nests over index domains with elementwise bodies. See docs/levels.md, section "loops"."""

from cuesta.dialects.loops.access import BoundOp, IndexOp, LoadOp, StoreOp
from cuesta.dialects.loops.graph import LOOPS, ExternOp, ViewOp
from cuesta.dialects.loops.structure import (
    REDUCTIONS,
    DomainOp,
    ForOp,
    NestOp,
    ReduceOp,
    YieldOp,
    enclosing_nest,
    enclosing_sizes,
)

__all__ = [
    "LOOPS",
    "REDUCTIONS",
    "BoundOp",
    "DomainOp",
    "ExternOp",
    "ForOp",
    "IndexOp",
    "LoadOp",
    "NestOp",
    "ReduceOp",
    "StoreOp",
    "ViewOp",
    "YieldOp",
    "enclosing_nest",
    "enclosing_sizes",
]
