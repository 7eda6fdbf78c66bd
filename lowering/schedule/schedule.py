"""A schedule: what a target decides about a nest before it becomes a kernel. Data only; `schedule_cpu` makes one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from xdsl.ir import Operation, SSAValue

from cuesta.dialects import sym
from cuesta.dialects.core.structs import struct


@struct(frozen=False)
class ParallelAxis:
    """What becomes of one axis of the parallel domain.

    Without `loop`, every point is a program. With `loop`, a program runs through `tile` points of it (all, when None).
    With a `tile` but no `loop`, which only a schedule that slides has, it has one piece of text for each of them.
    """

    axis: int
    loop: bool = False
    tile: int | None = None


@struct
class Contraction:
    """A reduction that is a sum of products of two factors, one for rows and one for columns."""

    left: SSAValue
    right: SSAValue
    left_out: frozenset[Operation]
    """The ops of its body that only lead from the factors to their product."""
    rows: int
    columns: int
    """The parallel axes that only the left, and only the right factor varies along."""
    precision: str = ""
    """How factors of type f32 are taken (`kernel.contract`)."""


@struct(frozen=False)
class Schedule:
    """The decisions about one nest, whose axes are merged already."""

    parallel: list[ParallelAxis]
    """The axes of the parallel domain, as the grid has them: outermost first."""
    order: list[int] = field(default_factory=list[int])
    """The axes that each program runs through itself, outermost first; the last has `lanes`."""
    lanes: int = 1
    """Lanes of the last of these axes; with 1, the loops inside may have lanes of their own."""
    around: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Axes with lanes of their own around `order`, outermost first, and their lanes: tiles of several dimensions."""
    loops: dict[Operation, tuple[list[int], int]] = field(default_factory=dict[Operation, tuple[list[int], int]])
    """For every inner loop its axes, outermost first, and the lanes of the last."""
    locals: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    """The handles that become scratch memory of the program, with their sizes."""
    contractions: dict[Operation, Contraction] = field(default_factory=dict[Operation, Contraction])
    """The reductions that become a `kernel.contract`."""
    steps: Callable[[sym.IndexExpr], tuple[sym.IndexExpr, sym.IndexExpr]] | None = None
    """Of a nest that folds, the first step and one past the last that a program needs, by its first row."""
    within: tuple[sym.IndexExpr, int] | None = None
    """Where a schedule that slides takes an axis to have more points than there are: which of them a point is, as an
    expression over the axes, and how many there are.
    """
    slides: bool = False
    """Whether everything is written out point by point but the lanes, and what several points compute only once."""
    choices: dict[str, int | str] = field(default_factory=dict[str, "int | str"])
    """What the `#kernel.schedule` says beside the grid."""
