"""The `loops` dialect: nests over index domains with elementwise bodies. See docs/levels.md, section "loops"."""

from cuesta.dialects.loops.access import BoundOp, IndexOp, LoadOp, StoreOp, TensorWriteOp
from cuesta.dialects.loops.folds import CarryOp, FoldOp
from cuesta.dialects.loops.graph import LOOPS, ExternOp, ViewOp
from cuesta.dialects.loops.join import JoinOp, part_type
from cuesta.dialects.loops.meeting import MeetOp, counters_of, meeting_of
from cuesta.dialects.loops.scans import AtomicOp, CombineOp, RunningOp, ScanOp
from cuesta.dialects.loops.schedule import ScheduleAttr
from cuesta.dialects.loops.structure import (
    REDUCTIONS,
    DomainOp,
    ForOp,
    NestOp,
    ReduceOp,
    StatementOp,
    YieldOp,
    enclosing_nest,
    enclosing_sizes,
)
from cuesta.dialects.loops.words import WordsOp

__all__ = [
    "LOOPS",
    "REDUCTIONS",
    "AtomicOp",
    "BoundOp",
    "CarryOp",
    "CombineOp",
    "DomainOp",
    "ExternOp",
    "FoldOp",
    "ForOp",
    "IndexOp",
    "JoinOp",
    "LoadOp",
    "MeetOp",
    "NestOp",
    "ReduceOp",
    "RunningOp",
    "ScanOp",
    "ScheduleAttr",
    "StatementOp",
    "StoreOp",
    "TensorWriteOp",
    "ViewOp",
    "WordsOp",
    "YieldOp",
    "counters_of",
    "enclosing_nest",
    "enclosing_sizes",
    "meeting_of",
    "part_type",
]
