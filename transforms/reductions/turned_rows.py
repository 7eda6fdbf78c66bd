"""Rows of which some tensors lie one way and others another: whoever goes along them goes across some of these."""

from __future__ import annotations

from collections.abc import Sequence

from cuesta.dialects import loops
from cuesta.dialects.core.machine import Machine
from cuesta.dialects.loops.analysis import Access, NestAnalysis
from cuesta.dialects.loops.split_axes import step

Accesses = Sequence[tuple[loops.LoadOp | loops.StoreOp, Access]]


def domain_of(op: loops.LoadOp | loops.StoreOp) -> loops.DomainOp:
    """The loop, or the nest, that an access stands in."""
    domain = op.parent_op()
    assert isinstance(domain, loops.DomainOp)
    return domain


def turned_bytes(walks: Sequence[Accesses], analysis: NestAnalysis, machine: Machine) -> int:
    """The bytes of a point that one walk over rows moves along that axis of theirs along which it moves least: a sector
    for what lies along another one. 0 where everything lies along one axis, or rows have one axis only.

    Each of the `walks` has what is read, or stored, at every point; a tensor counts once.
    """
    widths: dict[object, tuple[int, frozenset[int]]] = {}
    ranks: set[int] = set()
    for op, access in (pair for walk in walks for pair in walk):
        variables = domain_of(op).induction_variables
        ranks.add(len(variables))
        numbers = [analysis.number[variable] for variable in variables]
        along = frozenset(k for k, axis in enumerate(numbers) if step(access.address, axis, analysis) in (1, -1))
        tensor = op.source if isinstance(op, loops.LoadOp) else op.target
        _, known = widths.get(tensor, (0, along))
        widths[tensor] = access.width, along & known
    if len(ranks) != 1:
        return 0
    (rank,) = ranks
    moved = [sum(width if axis in at else machine.sector for width, at in widths.values()) for axis in range(rank)]
    return 0 if rank == 1 or min(moved) == sum(width for width, _ in widths.values()) else min(moved)


__all__ = ["domain_of", "turned_bytes"]
