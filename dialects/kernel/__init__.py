"""The `kernel` dialect: tile programs for one launch. See docs/levels.md, section "kernel"."""

from cuesta.dialects.kernel.access import BoundOp, BroadcastOp, IndexOp, LoadOp, LocalOp, StoreOp
from cuesta.dialects.kernel.dialect import KERNEL
from cuesta.dialects.kernel.structure import (
    ForOp,
    FuncOp,
    LaunchOp,
    LoopOp,
    ProgramIdOp,
    ReduceOp,
    YieldOp,
)
from cuesta.dialects.kernel.types import PointerType, ScheduleAttr

__all__ = [
    "KERNEL",
    "BoundOp",
    "BroadcastOp",
    "ForOp",
    "FuncOp",
    "IndexOp",
    "LaunchOp",
    "LoadOp",
    "LocalOp",
    "LoopOp",
    "PointerType",
    "ProgramIdOp",
    "ReduceOp",
    "ScheduleAttr",
    "StoreOp",
    "YieldOp",
]
