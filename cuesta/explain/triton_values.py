"""Values in the text of a Triton kernel, as far as its arithmetic is counted, and what they are made of."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cuesta.explain.triton_layouts import Layout, Limits, Shape, Spacing


@dataclass(eq=False, slots=True)
class Node:
    """Something that is computed of others, `steps` instructions in a thread and so many times in all."""

    steps: float
    times: float
    made_of: list[Node] = field(default_factory=list["Node"])
    users: int = 0
    chosen: tuple[Node, Node] | None = None
    """What it is one of, if it is."""
    size: int = 1
    """Its elements."""
    apart: float | None = None
    """The instructions where it does not lie as a larger block does that it comes from."""


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """A value: of floats (`f`), whole numbers and conditions (`i`), or addresses (`p`)."""

    kind: str
    shape: Shape = ()
    nodes: tuple[Node, ...] = ()
    """What it is made of that arithmetic may have a part in."""
    loop: int = 0
    """In how many loops, one in the other, it is known; it changes in the last of them."""
    layout: Layout | None = None
    spacing: Spacing | None = None
    number: Any = None
    """Of a whole number or a condition, what it is: an array has one for each program that is looked at."""
    constant: float | None = None
    """Of a float, what it is in all elements."""
    width: int = 4
    """Bytes; those of an address are the elements' there."""
    of: str = "f"
    """What is at an address: floats or whole numbers."""
    lanes_from: tuple[int, int] | None = None
    """Of whole numbers that count the lanes of one dimension: which, and from what."""
    limits: Limits = ()
    """Of a condition, where it is false; of what it masks, what nobody needs."""
    same: int = field(default_factory=itertools.count().__next__)
    """What is the same expression of the same has the same number."""

    def spaced(self) -> Spacing:
        """How its numbers are spaced."""
        return self.spacing or (Spacing.unknown(self.shape) if self.shape else Spacing.scalar(1))


def whole_number(number: Any, loop: int = 0) -> Value:
    """A whole number, or an array of one for each program."""
    divisor = math.gcd(*(int(one) for one in np.unique(number)[:64])) if isinstance(number, np.ndarray) else int(number)
    return Value("i", loop=loop, spacing=Spacing.scalar(abs(divisor)), number=number)


def float_constant(number: float, shape: Shape = ()) -> Value:
    """A number of floating point."""
    return Value("f", shape, constant=number)


def joint_shape(values: Iterable[Value]) -> Shape:
    """The shape of what is made of values element by element. Errors: ValueError."""
    return tuple(int(size) for size in np.broadcast_shapes(*(one.shape for one in values)))


def joint_layout(values: Sequence[Value], shape: Shape) -> Layout | None:
    """How that lies: as one of them that is no smaller."""
    return next((one.layout for one in values if one.layout is not None and one.shape == shape), None)


def live_arithmetic(needed: Collection[Node]) -> float:
    """The instructions of all that something is needed for, each thread's.

    What is computed only to be chosen, by data, is computed under the condition: half of the threads do it; of two such
    arms only one is. What comes from a reduction lies as the block did that was reduced, many threads having the same,
    unless it is only stored.
    """
    live: dict[Node, None] = {}
    pending = list(needed)
    while pending:
        node = pending.pop()
        if node not in live:
            live[node] = None
            pending += node.made_of
    apart = _apart(live, set(needed))
    total = 0.0
    for node in live:
        steps = node.steps if node.apart is None or node not in apart else min(node.steps, node.apart)
        total += steps * node.times
    for node in live:
        if node.chosen is not None:
            alone = [arm for arm in dict.fromkeys(node.chosen) if arm.steps and arm.users == 1]
            if alone and node.chosen[0] is not node.chosen[1]:
                total -= alone[0].steps * alone[0].times / 2
    return total


def _apart(live: Iterable[Node], needed: Collection[Node]) -> set[Node]:
    """What does not lie as a larger block does that it comes from: with all that it is made of and that is made of it,
    as long as they have as many elements, it is needed once, and by nothing larger.
    """
    users: dict[Node, list[Node]] = {}
    for node in live:
        for one in node.made_of:
            users.setdefault(one, []).append(node)
    found: set[Node] = set()
    seen: set[Node] = set()
    for first in live:
        if first.apart is None or first in seen:
            continue
        together: dict[Node, None] = {}
        pending = [first]
        while pending:
            node = pending.pop()
            if node not in together:
                together[node] = None
                pending += [one for one in (*node.made_of, *users.get(node, ())) if one.size == node.size]
        seen |= together.keys()
        larger = any(user.size > node.size for node in together for user in users.get(node, ()))
        if not larger and sum(node in needed for node in together) <= 1:
            found |= together.keys()
    return found


__all__ = ["Node", "Value", "float_constant", "joint_layout", "joint_shape", "live_arithmetic", "whole_number"]
