"""Whether reducing the parts of concatenations once is less work than reducing every concatenation.

On a GPU in bytes, as `gpu_cost.py` counts them: a nest as it is costs its best as whole rows or in parts; apart, what
is not reduced yet, what comes after, and two more launches. It must not cost more than programs that meet, either,
which only rows that lie in order can, as those of a convolution's result may or may not. On a processor in accesses,
where a stage after the first finds its row in a cache, and a nest more costs what waking the other threads does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import SSAValue

from cuesta.dialects import loops, sym
from cuesta.dialects.core.machine import Machine
from cuesta.dialects.core.structs import struct
from cuesta.dialects.loops.analysis import byte_width
from cuesta.dialects.loops.surgery import all_ops, loads_of, stores_of
from cuesta.transforms.fusion.cost import arithmetic_cost
from cuesta.transforms.fusion.space import volume
from cuesta.transforms.reductions import gpu_cost, when


@struct
class Work:
    """What a nest does for one tensor, whole. Units: bytes."""

    rows: int
    points: int
    """Of a row."""
    width: int
    """Of an element that is read."""
    stages: int
    """Reductions, one after the other."""
    after: bool
    """Whether a loop over all points comes after them, which can be a nest of its own."""
    reads_after: bool
    """Whether that reads the tensor once more."""
    written: int
    """By that loop, for a point."""
    arithmetic: int
    """For a point, in float adds."""

    @classmethod
    def of(
        cls, nest: loops.NestOp, tensor: SSAValue, reductions: Sequence[loops.ReduceOp], loop: loops.ForOp | None
    ) -> Work | None:
        """The work of a nest with these reductions of a tensor, and this loop behind them; None where only a call knows
        the sizes.
        """
        rows, points = _number(nest.sizes), max((_number(one.sizes) or 0 for one in reductions), default=0)
        if not rows or not points or any(_number(one.sizes) is None for one in reductions):
            return None
        return cls(
            rows,
            points,
            byte_width(tensor),
            len(reductions),
            loop is not None,
            loop is not None and any(load.source is tensor for load in loads_of(loop)),
            0 if loop is None else sum(byte_width(store.target) for store in stores_of(loop)),
            sum(arithmetic_cost(op) for stage in (*reductions, *([loop] if loop else [])) for op in all_ops(stage)),
        )

    @property
    def read(self) -> int:
        """By one stage."""
        return self.rows * self.points * self.width

    def part(self, share: float) -> Work:
        """The reductions alone, of a share of the rows."""
        rows = max(1, round(self.rows * share))
        return Work(rows, self.points, self.width, self.stages, False, False, 0, self.arithmetic)


@struct
class Site:
    """A nest, and the share of its rows of which nothing before it has reduced the part."""

    work: Work
    fresh: float


def pays(sites: Sequence[Site], machine: Machine, *, blocks: bool) -> bool:
    """Whether it is less work for all nests together. `blocks`: they are for a GPU."""
    of_whole, of_shared = (_gpu_whole, _gpu_shared) if blocks else (_cpu_whole, _cpu_shared)
    before = sum(of_whole(site.work, machine) for site in sites)
    after = sum(of_shared(site, machine) for site in sites)
    if blocks and after > sum(_gpu_meeting(site.work, machine) for site in sites):
        return False
    return after <= when.WORTH * before


def _rows(work: Work) -> gpu_cost.Rows:
    return gpu_cost.Rows(
        work.rows,
        work.points,
        work.rows * work.points,
        work.read,
        work.rows * work.points * work.written,
        work.stages + work.reads_after,
        int(work.reads_after),
        work=work.arithmetic,
        later=work.stages - 1,
    )


def _gpu_whole(work: Work, machine: Machine) -> float:
    rows = _rows(work)
    return min(gpu_cost.of_whole_rows(rows, machine), gpu_cost.of_parts(rows, machine))


def _gpu_meeting(work: Work, machine: Machine) -> float:
    """Infinite where nothing comes after the reductions: such programs do not meet."""
    if not work.after:
        return math.inf
    return gpu_cost.of_meeting(_rows(work), math.ceil(work.points / when.TILE), machine)


def _gpu_shared(site: Site, machine: Machine) -> float:
    work = site.work
    # What each row becomes is a kernel, as the whole nest was; beside it are that of the points, and of what is fresh.
    cost = float(machine.launch_bytes * (work.after + (site.fresh > 0)))
    if site.fresh:
        cost += _gpu_whole(work.part(site.fresh), machine)
    return cost + work.reads_after * work.read + work.rows * work.points * work.written


def _cpu_whole(work: Work, machine: Machine) -> float:
    stages = work.stages + work.reads_after - 1
    return work.rows * work.points * (1 + stages * machine.cache_cost + (work.written > 0))


def _cpu_shared(site: Site, machine: Machine) -> float:
    work = site.work
    nests = work.after + (site.fresh > 0)
    cost = float(nests * machine.waking)
    if site.fresh:
        cost += _cpu_whole(work.part(site.fresh), machine)
    return cost + work.rows * work.points * (work.reads_after + (work.written > 0))


def _number(sizes: Sequence[sym.IndexExpr]) -> int | None:
    points = volume(sizes)
    return points if isinstance(points, int) else None


__all__ = ["Site", "Work", "pays"]
