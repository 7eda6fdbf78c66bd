"""The `KERNEL` dialect object."""

from __future__ import annotations

from xdsl.ir import Dialect

from cuesta.dialects.kernel.access import BoundOp, BroadcastOp, IndexOp, LoadOp, LocalOp, StoreOp
from cuesta.dialects.kernel.structure import ForOp, FuncOp, LaunchOp, ProgramIdOp, ReduceOp, YieldOp
from cuesta.dialects.kernel.types import PointerType, ScheduleAttr

KERNEL = Dialect(
    "kernel",
    [
        BoundOp,
        BroadcastOp,
        ForOp,
        FuncOp,
        IndexOp,
        LaunchOp,
        LoadOp,
        LocalOp,
        ProgramIdOp,
        ReduceOp,
        StoreOp,
        YieldOp,
    ],
    [PointerType, ScheduleAttr],
)
