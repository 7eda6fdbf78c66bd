"""What is left to `make test-thorough` is like what stays."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from tests.support.selection import covering

pytest_plugins = ["pytester"]

MEMBERS = list(product("abc", "de", "fgh", "ij"))


@pytest.mark.parametrize(("strength", "most"), [(1, 3), (2, 12), (3, 24), (4, 36)])
def test_every_combination_of_so_many_values_stays(strength: int, most: int) -> None:
    kept = [MEMBERS[place] for place in covering(MEMBERS, strength)]
    found = [
        {pair for member in some for pair in combinations(enumerate(member), strength)} for some in (kept, MEMBERS)
    ]
    assert found[0] == found[1] and len(kept) <= most


def test_a_list_alone_is_kept() -> None:
    assert covering([("a",), ("b",), ("c",)], 1) == covering([("a",), ("b",), ("c",)], 2) == [0, 1, 2]
    assert covering([], 1) == []


CASES = """
import pytest

@pytest.mark.covering
@pytest.mark.parametrize("a", [1, 2, 3])
@pytest.mark.parametrize("b", [1, 2])
def test_covering(a, b): pass

@pytest.mark.every(3, also=("5",))
@pytest.mark.parametrize("a", range(8))
def test_every(a): pass
"""


def test_what_is_run_and_by_whom(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        "from tests.support.selection import choose\n\ndef pytest_collection_modifyitems(items): choose(items)"
    )
    pytester.makepyfile(CASES)

    def ids(*arguments: str) -> list[str]:
        said = pytester.runpytest("--collect-only", "-q", *arguments).outlines
        return [line.partition("::")[2] for line in said if "::" in line]

    stay = ["test_covering[1-1]", "test_covering[2-2]", "test_covering[1-3]"]
    stay += [f"test_every[{number}]" for number in (0, 3, 5, 6)]
    assert sorted(ids("-m", "not thorough")) == sorted(stay)
    assert len(ids("-m", "thorough")) == 14 - len(stay)
    assert ids("test_what_is_run_and_by_whom.py::test_every[1]", "-m", "not thorough") == ["test_every[1]"]
