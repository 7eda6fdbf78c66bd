"""What is left to `make test-thorough` is like what stays, or its turn comes."""

from __future__ import annotations

import runpy
from itertools import combinations, product

import pytest

from tests.support import turns
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


LONG = """
import pytest

@pytest.mark.parametrize("a", range(30))
def test_long(a): pass

def test_short(): pass
"""


def test_what_is_long_takes_turns(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    (listed := pytester.path / "long_tests.txt").write_text("# long\ntests/test_it.py::test_long\n", encoding="utf-8")
    monkeypatch.setattr(turns, "LONG", listed)
    pytester.makeconftest(
        "from tests.support import turns\n"
        "def pytest_collection_modifyitems(config, items): turns.take_turns(items, turns.whose_turn(config.args))"
    )
    file = pytester.mkdir("tests") / "test_it.py"
    file.write_text(LONG, encoding="utf-8")

    def ids(turn: str, *arguments: str) -> set[str]:
        monkeypatch.setenv("TURN", turn)
        said = pytester.runpytest("--collect-only", "-q", "-m", "not thorough", *arguments).outlines
        return {line for line in said if "::" in line}

    parts = [ids(str(turn)) for turn in range(turns.TURNS)]
    assert len(ids("none")) == 1, "what is not long"
    whole = ids("all")
    assert len(whole) == 31 and set[str]().union(*parts) == whole
    assert set[str].intersection(*parts) == {"tests/test_it.py::test_short"}
    assert sum(map(len, parts)) == 30 + turns.TURNS and min(map(len, parts)) > 2
    assert ids("0", "tests/test_it.py") == whole
    assert len(ids("0", *(one for one in sorted(parts[1]) if "long" in one))) == len(parts[1]) - 1


def test_of_many_parameters_a_few_run_between_edits(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makeconftest(
        "from tests.support import turns\n"
        "def pytest_collection_modifyitems(config, items): turns.take_turns(items, turns.whose_turn(config.args))"
    )
    text = LONG.replace("test_short()", "test_pair(a)").replace(
        "\n\ndef", '\n\n@pytest.mark.parametrize("a", "xy")\ndef'
    )
    (pytester.mkdir("tests") / "test_it.py").write_text(text, encoding="utf-8")

    def ids(turn: str) -> list[str]:
        monkeypatch.setenv("TURN", turn)
        said = pytester.runpytest("--collect-only", "-q", "-m", "not thorough").outlines
        return [line.partition("::")[2] for line in said if "::" in line]

    assert ids("none") == ["test_long[0]", "test_long[14]", "test_long[29]", "test_pair[x]", "test_pair[y]"]
    assert len(ids("0")) == len(ids("all")) == 32


def test_whose_turn_it_is() -> None:
    assert {turns.turn_of(bytes([number]), None) for number in range(40)} == set(range(turns.TURNS))
    assert turns.turn_of(b"", "all") is None and turns.turn_of(b"", "2") == 2
    with pytest.raises(pytest.UsageError, match=f"TURN={turns.TURNS}: all, none, or a number below {turns.TURNS}"):
        turns.turn_of(b"", str(turns.TURNS))


def test_what_is_listed_as_long_exists() -> None:
    listed = [one for one in turns.LONG.read_text(encoding="utf-8").splitlines() if not one.startswith("#")]
    assert len(listed) > 500 and listed == sorted(set(listed))
    root = turns.CHANGELOG.parent
    for file in sorted({one.partition("::")[0] for one in listed}):
        assert (root / file).is_file(), f"{file}: write the list anew (scripts/long_tests.py)"
    for one in listed:
        file, _, name = one.partition("::")
        text = (root / file).read_text(encoding="utf-8") if file.endswith(".py") else f"def {name}("
        assert f"def {name.rpartition('::')[2]}(" in text, f"{one}: write the list anew (scripts/long_tests.py)"


def test_a_test_is_long_by_the_mean_of_its_parameters() -> None:
    script = runpy.run_path(str(turns.CHANGELOG.parent / "scripts" / "long_tests.py"))
    said = """
0.20s setup    tests/test_it.py::test_set_up
0.20s call     tests/test_it.py::test_set_up
0.50s call     tests/test_it.py::test_one[a]
0.05s call     tests/test_it.py::test_one[b c]
0.29s call     tests/test_it.py::test_short
1.00s call     tests/filecheck/it.mlir::run
9.00s call     tests/fuzz/test_calls.py::test_what_was_found[a]
2 passed in 3.04s
"""
    assert script["long_tests"](said) == ["tests/filecheck/it.mlir::run", "tests/test_it.py::test_set_up"]
