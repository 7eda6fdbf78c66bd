"""One of two labels for every node of a graph, where nodes have preferences and neighbours would rather agree.

Σ alone(v)[label of v] + Σ pair(u, v)[label of u][label of v] is to be least. On a tree dynamic programming finds it; a
graph with cycles is taken as a tree again and again, with what the tree leaves out as the last time it was. That may
stop above the least, never above where it began, and takes a bounded number of walks over the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

Costs: TypeAlias = "tuple[float, float]"
"""Of the labels 0 and 1."""
Pair: TypeAlias = "tuple[Costs, Costs]"
"""Of both labels of one node, by both of the other: `pair[label of the first][label of the second]`."""

_WALKS: Final = 4
"""How often a graph with cycles is taken as a tree from each beginning.

Source: a bound, so that the time is linear: what is not found by then is left.
"""


class Labelling:
    """A graph that is built node by node, then solved."""

    def __init__(self) -> None:
        self._alone: list[Costs] = []
        self._edges: list[tuple[int, int, Pair]] = []
        self._edges_of: list[list[int]] = []

    def node(self, zero: float = 0.0, one: float = 0.0) -> int:
        """A new node, by its number, and what the labels cost it."""
        self._alone.append((zero, one))
        self._edges_of.append([])
        return len(self._alone) - 1

    def charge(self, node: int, zero: float = 0.0, one: float = 0.0) -> None:
        """Lets labels cost a node more."""
        before = self._alone[node]
        self._alone[node] = (before[0] + zero, before[1] + one)

    def pair(self, first: int, second: int, costs: Pair) -> None:
        """Lets labels of two nodes cost something together."""
        if first == second:
            self.charge(first, costs[0][0], costs[1][1])
            return
        self._edges_of[first].append(len(self._edges))
        self._edges_of[second].append(len(self._edges))
        self._edges.append((first, second, costs))

    def cost(self, labels: Sequence[int]) -> float:
        """What the labels cost in all."""
        alone = sum(costs[label] for costs, label in zip(self._alone, labels, strict=True))
        return alone + sum(costs[labels[first]][labels[second]] for first, second, costs in self._edges)

    def change(self, labels: Sequence[int], node: int) -> float:
        """What it would cost more if one node had its other label."""
        was, new = labels[node], 1 - labels[node]
        total = self._alone[node][new] - self._alone[node][was]
        for edge in self._edges_of[node]:
            other, costs = self._seen_from(node, edge)
            total += costs[new][labels[other]] - costs[was][labels[other]]
        return total

    def solve(self) -> list[int]:
        """The labels. Of several solutions, one with fewer ones."""
        count = len(self._alone)
        best = [0] * count
        least = self.cost(best)
        for beginning in (0, 1):
            labels, same = [beginning] * count, 0
            for walk in range(_WALKS):
                before, labels = labels, self._as_tree(labels, backwards=walk % 2 == 1)
                same = same + 1 if labels == before else 0
                if same == 2:  # neither order changes anything any more
                    break
                cost = self.cost(labels)
                if cost < least:
                    best, least = labels, cost
        return best

    def _as_tree(self, labels: Sequence[int], *, backwards: bool) -> list[int]:
        """The best labels, if the edges outside of a spanning forest led to nodes with the labels given."""
        order, above = self._forest(backwards=backwards)
        inside = set(above)
        below = [list(costs) for costs in self._alone]
        for number, (first, second, costs) in enumerate(self._edges):
            if number not in inside:
                for label in (0, 1):
                    below[first][label] += costs[label][labels[second]]
                    below[second][label] += costs[labels[first]][label]
        for node in reversed(order):
            if (edge := above[node]) is not None:
                up, costs = self._seen_from(node, edge)
                zero, one = below[node]
                for label in (0, 1):
                    below[up][label] += min(zero + costs[0][label], one + costs[1][label])
        result = [0] * len(order)
        for node in order:
            zero, one = below[node]
            if (edge := above[node]) is not None:
                up, costs = self._seen_from(node, edge)
                zero, one = zero + costs[0][result[up]], one + costs[1][result[up]]
            result[node] = int(one < zero)
        return result

    def _forest(self, *, backwards: bool) -> tuple[list[int], list[int | None]]:
        """All nodes, each after the one above it, and the edges that lead there."""
        count = len(self._alone)
        above: list[int | None] = [None] * count
        seen = [False] * count
        order: list[int] = []
        for root in reversed(range(count)) if backwards else range(count):
            if seen[root]:
                continue
            seen[root] = True
            order.append(root)
            position = len(order) - 1
            while position < len(order):
                node = order[position]
                position += 1
                for edge in reversed(self._edges_of[node]) if backwards else self._edges_of[node]:
                    other, _ = self._seen_from(node, edge)
                    if not seen[other]:
                        seen[other] = True
                        above[other] = edge
                        order.append(other)
        return order, above

    def _seen_from(self, node: int, edge: int) -> tuple[int, Pair]:
        """The other end of an edge, and the costs by the label of this end first."""
        first, second, costs = self._edges[edge]
        if node == first:
            return second, costs
        (a, b), (c, d) = costs
        return first, ((a, c), (b, d))


__all__ = ["Costs", "Labelling", "Pair"]
