"""A labelling costs least on trees, and nowhere more than labels that are all alike."""

from __future__ import annotations

import itertools
import random

import pytest

from cuesta.transforms.views.labelling import Labelling, Pair


def built(nodes: int, edges: list[tuple[int, int]], seed: int) -> Labelling:
    """A graph whose costs are random, of both signs and with pairs that would rather differ."""
    chance = random.Random(seed)
    labelling = Labelling()
    for _ in range(nodes):
        labelling.node(chance.uniform(-3, 3), chance.uniform(-3, 3))
    for first, second in edges:
        a, b, c, d = (chance.uniform(-2, 2) for _ in range(4))
        costs: Pair = ((a, b), (c, d))
        labelling.pair(first, second, costs)
    return labelling


def least(labelling: Labelling, nodes: int) -> float:
    return min(labelling.cost(labels) for labels in itertools.product((0, 1), repeat=nodes))


@pytest.mark.parametrize("seed", range(40))
def test_trees_are_solved(seed: int) -> None:
    chance = random.Random(seed)
    nodes = chance.randint(1, 10)
    # Several trees, and nodes in an order that is not theirs.
    names = chance.sample(range(nodes), nodes)
    edges = [(names[k], names[chance.randrange(k)]) for k in range(1, nodes) if chance.random() < 0.9]
    labelling = built(nodes, edges, seed)
    labels = labelling.solve()
    assert labelling.cost(labels) == pytest.approx(least(labelling, nodes))


def test_graphs_with_cycles_are_nearly_solved() -> None:
    missed = 0
    for seed in range(60):
        chance = random.Random(seed)
        nodes = chance.randint(3, 10)
        edges = [tuple(chance.sample(range(nodes), 2)) for _ in range(nodes + 2)]
        labelling = built(nodes, edges, seed)  # type: ignore[arg-type]
        found = labelling.cost(labelling.solve())
        assert found <= min(labelling.cost([label] * nodes) for label in (0, 1))
        missed += found > least(labelling, nodes) + 1e-9
    assert missed <= 6


def test_a_change_is_what_the_cost_becomes() -> None:
    labelling = built(6, [(0, 1), (1, 2), (2, 0), (3, 4), (2, 2)], 3)
    for labels in itertools.product((0, 1), repeat=6):
        for node in range(6):
            other = [1 - label if k == node else label for k, label in enumerate(labels)]
            change = labelling.cost(other) - labelling.cost(labels)
            assert labelling.change(labels, node) == pytest.approx(change)


def test_what_must_not_be_is_not() -> None:
    """A reader of a copy pays for the copy; two readers pay once."""
    for saving, expected in ((4.0, [0, 0, 0]), (6.0, [1, 1, 1])):
        labelling = Labelling()
        copy = labelling.node(one=10.0)
        for _ in range(2):
            labelling.pair(copy, labelling.node(zero=saving), ((0.0, float("inf")), (0.0, 0.0)))
        assert labelling.solve() == expected
