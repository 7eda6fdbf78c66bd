"""Records add up, and the package is cheap to import."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable, MutableMapping

import pytest

import cuesta
from cuesta.record import CompileRecord, Seconds, statistics


def test_statistics_sum_records() -> None:
    first = CompileRecord("forward", aten_ops=3, kernels=1, fallbacks=Counter({"aten.sort.default": 2}))
    second = CompileRecord("backward", aten_ops=4, library_calls=2, fallbacks=Counter({"aten.sort.default": 1}))
    first.seconds = {"import": 0.5, "fuse": 0.25}
    second.seconds = {"fuse": 1.0}
    total = statistics([first, second])
    assert (total.graphs, total.aten_ops, total.kernels, total.library_calls) == (2, 7, 1, 2)
    assert total.fallbacks == {"aten.sort.default": 3}
    assert total.seconds == {"import": 0.5, "fuse": 1.25}
    assert total.own_seconds == 1.75


def test_stage_accumulates_and_counts_failures() -> None:
    record = CompileRecord("inference")
    with record.stage("fuse"):
        pass
    once = record.seconds["fuse"]
    with pytest.raises(RuntimeError), record.stage("fuse"):
        raise RuntimeError
    assert record.seconds["fuse"] > once > 0


def test_times_are_kept_in_the_order_of_their_stages() -> None:
    found = Seconds({"fuse": 1.0, "import": 0.5})
    found["emit"], found["fuse"] = 2.0, 3.0
    assert list(found.items()) == [("fuse", 3.0), ("import", 0.5), ("emit", 2.0)] == list(Seconds(found).items())
    assert found == {"fuse": 3.0, "import": 0.5, "emit": 2.0} and repr(found) == repr(dict(found))
    del found["import"]
    assert dict(found) == {"fuse": 3.0, "emit": 2.0} and found.get("import", 0.0) == 0.0 and len(found) == 2
    for name in ("import", "never counted"):
        with pytest.raises(KeyError, match=name):
            found[name]
        with pytest.raises(KeyError, match=name):
            del found[name]


def test_records_that_are_kept_are_small() -> None:
    """A process that compiles for ever keeps them all: a dictionary of so many times took three times as much."""
    names = [f"stage {number}" for number in range(60)]
    Seconds(dict.fromkeys(names, 0.0))

    def bytes_of(made: Callable[[], MutableMapping[str, float]]) -> float:
        kept = list[MutableMapping[str, float]]()
        tracemalloc.start()
        try:
            for number in range(100):
                kept.append(seconds := made())
                for name in names:
                    seconds[name] = seconds.get(name, 0.0) + number / 7
            return tracemalloc.get_traced_memory()[0] / len(kept)
        finally:
            tracemalloc.stop()

    assert type(CompileRecord("inference").seconds) is Seconds
    assert bytes_of(Seconds) < bytes_of(dict[str, float]) / 3


def test_importing_the_package_loads_no_torch() -> None:
    program = "import sys, cuesta; cuesta.statistics(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_unknown_attribute() -> None:
    with pytest.raises(AttributeError, match="module 'cuesta' has no attribute 'recrods'"):
        _ = cuesta.recrods  # pyright: ignore[reportAttributeAccessIssue]


def test_writing_a_dump_is_no_share_of_compiling() -> None:
    record = CompileRecord(kind="inference", seconds={"dump": 5.0, "llvm": 0.25})
    assert record.own_seconds == 0.25
    assert statistics([record]).own_seconds == 0.25
    assert statistics([record]).seconds["dump"] == 5.0
