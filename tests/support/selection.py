"""Which parameters of a test the suite runs; `make test-thorough` runs the others, and a test that is named runs alone.

`@pytest.mark.covering` keeps of a product of lists as few members as have every value of every list once;
`@pytest.mark.covering(2)` as few as have every pair of values, in which nearly all faults of a product show.
`@pytest.mark.every(4)` keeps every fourth member of a list, from the first on; `also=(…)` names others, by their ids.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from itertools import combinations
from typing import TypeAlias

import pytest

Values: TypeAlias = tuple[Hashable, ...]
"""One member of a product: a value of each list."""


def covering(members: Sequence[Values], strength: int) -> list[int]:
    """The places of a few members in which occurs whatever combination of so many values occurs in any of them.

    Greedy: of those that add most, the one whose values were taken least, so that they are mixed; of these the first.
    """
    sets = [set(combinations(enumerate(member), min(strength, len(member)))) for member in members]
    missing = set[object]().union(*sets)
    kept: list[int] = []
    taken = Counter[object]()
    while missing:
        worth = [
            (len(some & missing), -sum(taken[value] for value in enumerate(member)))
            for some, member in zip(sets, members, strict=True)
        ]
        kept.append(best := worth.index(max(worth)))
        missing -= sets[best]
        taken.update(enumerate(members[best]))
    return sorted(kept)


def _values(item: pytest.Function) -> Values:
    """The ids of the item's values, one of each list. Pytest numbers the values otherwise: each item has its own."""
    return tuple(item.callspec._idlist)


def choose(items: Iterable[pytest.Item]) -> None:
    """Marks as `thorough` what the marks above leave out."""
    groups = defaultdict[object, list[pytest.Function]](list)
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec") and not item.get_closest_marker("thorough"):
            groups[item.parent, item.originalname].append(item)
    for group in groups.values():
        if mark := group[0].get_closest_marker("covering"):
            kept = set(covering([_values(item) for item in group], *(mark.args or (1,))))
        elif mark := group[0].get_closest_marker("every"):
            also = mark.kwargs.get("also", ())
            kept = {place for place, item in enumerate(group) if not place % mark.args[0] or item.callspec.id in also}
        else:
            continue
        for place, item in enumerate(group):
            if place not in kept:
                item.add_marker(pytest.mark.thorough)
