"""The `kernel` dialect: tile programs for one launch. See docs/levels.md, section "kernel"."""

from cuesta.dialects.kernel.access import BoundOp, BroadcastOp, IndexOp, LoadOp, LocalOp, MemoryWriteOp, StoreOp
from cuesta.dialects.kernel.atomics import AtomicOp, is_atomic
from cuesta.dialects.kernel.contract import ContractOp, FactorsOp, contracted_shape
from cuesta.dialects.kernel.dialect import KERNEL
from cuesta.dialects.kernel.fold import CarryOp, FoldOp
from cuesta.dialects.kernel.function import FuncOp, LaunchOp, ProgramIdOp
from cuesta.dialects.kernel.meeting import MeetOp, counters, meeting_of
from cuesta.dialects.kernel.pick import PickOp, picked
from cuesta.dialects.kernel.scans import CombineOp, RunningOp, ScanOp
from cuesta.dialects.kernel.structure import (
    ForOp,
    LoopOp,
    ReduceOp,
    StatementOp,
    YieldOp,
)
from cuesta.dialects.kernel.types import PointerType, ScheduleAttr
from cuesta.dialects.kernel.within import WithinOp, checks_in

__all__ = [
    "KERNEL",
    "AtomicOp",
    "BoundOp",
    "BroadcastOp",
    "CarryOp",
    "CombineOp",
    "ContractOp",
    "FactorsOp",
    "FoldOp",
    "ForOp",
    "FuncOp",
    "IndexOp",
    "LaunchOp",
    "LoadOp",
    "LocalOp",
    "LoopOp",
    "MeetOp",
    "MemoryWriteOp",
    "PickOp",
    "PointerType",
    "ProgramIdOp",
    "ReduceOp",
    "RunningOp",
    "ScanOp",
    "ScheduleAttr",
    "StatementOp",
    "StoreOp",
    "WithinOp",
    "YieldOp",
    "checks_in",
    "contracted_shape",
    "counters",
    "is_atomic",
    "meeting_of",
    "picked",
]
