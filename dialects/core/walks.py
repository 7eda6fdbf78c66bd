"""Reductions that may go over their points together: as one walk reads once what all of them read.

    %s = reduce sum (%i : 4096) { load %g[%i] }
    %t = reduce sum (%i : 4096) { load %g[%i] * (load %x[%i] - %m) }        %g is read once for both

Nothing is moved: the ops stand where they stood, and who writes the first of them may write the others with it.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Operation

from cuesta.dialects.core.structs import struct

Test = Callable[[Operation], bool]


@struct
class Together:
    """What may be done with a reduction: `others`, of the same points; and `before`, which these need, in order."""

    others: tuple[Operation, ...]
    before: tuple[Operation, ...]


def together_with(first: Operation, is_alike: Test, is_free: Test, writes: type[Operation]) -> Together:
    """The ops behind `first` in its block that are alike, and need nothing of `first` or of one another, nor of what
    stands between but what is free: it may as well be done before.

    Up to the first op that writes to memory: what comes after it may read that.
    """
    others: list[Operation] = []
    late, free = {first}, dict[Operation, None]()
    needed = set[Operation]()
    other = first.next_op
    while other is not None and not any(isinstance(inner, writes) for inner in other.walk()):
        owners = _owners(other)
        if not late.isdisjoint(owners):
            late.add(other)
        elif is_alike(other):
            others.append(other)
            late.add(other)
            needed.update(owners & free.keys())
        elif is_free(other):
            free[other] = None
        else:
            late.add(other)
        other = other.next_op
    for op in reversed(free):
        if op in needed:
            needed.update(_owners(op) & free.keys())
    return Together(tuple(others), tuple(op for op in free if op in needed))


def _owners(op: Operation) -> set[Operation]:
    """The ops that give what an op, or one in it, needs."""
    every = (value.owner for inner in op.walk() for value in inner.operands)
    return {owner for owner in every if isinstance(owner, Operation)}


__all__ = ["Together", "together_with"]
