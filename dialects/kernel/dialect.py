"""The `KERNEL` dialect object."""

from __future__ import annotations

from xdsl.ir import Dialect

from cuesta.dialects.kernel.access import BoundOp, BroadcastOp, IndexOp, LoadOp, LocalOp, StoreOp
from cuesta.dialects.kernel.atomics import AtomicOp
from cuesta.dialects.kernel.contract import ContractOp, FactorsOp
from cuesta.dialects.kernel.fold import CarryOp, FoldOp
from cuesta.dialects.kernel.function import FuncOp, LaunchOp, ProgramIdOp
from cuesta.dialects.kernel.meeting import MeetOp
from cuesta.dialects.kernel.pick import PickOp
from cuesta.dialects.kernel.scans import CombineOp, RunningOp, ScanOp
from cuesta.dialects.kernel.structure import ForOp, ReduceOp, YieldOp
from cuesta.dialects.kernel.types import PointerType, ScheduleAttr
from cuesta.dialects.kernel.within import WithinOp

KERNEL = Dialect(
    "kernel",
    [
        AtomicOp,
        BoundOp,
        BroadcastOp,
        CarryOp,
        CombineOp,
        ContractOp,
        FactorsOp,
        FoldOp,
        ForOp,
        FuncOp,
        IndexOp,
        LaunchOp,
        LoadOp,
        LocalOp,
        MeetOp,
        PickOp,
        ProgramIdOp,
        ReduceOp,
        RunningOp,
        ScanOp,
        StoreOp,
        WithinOp,
        YieldOp,
    ],
    [PointerType, ScheduleAttr],
)
