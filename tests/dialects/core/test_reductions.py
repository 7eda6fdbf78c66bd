"""The identities of reductions and scans: joined with them, every value stays what it is."""

from __future__ import annotations

import itertools

import pytest
import torch
from xdsl.ir import Attribute

from cuesta.dialects.aten.dtypes import dtype_to_type
from cuesta.dialects.core.reductions import EXTREMES, JOINS, REDUCTIONS, identity
from cuesta.dialects.core.scans import RUNNING
from cuesta.targets.reference import reductions, scans

FLOATS = ("float16", "bfloat16", "float32", "float64")
SIGNED, UNSIGNED = ("int8", "int16", "int32", "int64"), ("uint8",)
ARITHMETIC = (*FLOATS, *SIGNED, *UNSIGNED)


def kinds() -> list[tuple[str, str]]:
    found = [(kind, dtype) for kind in ("sum", "prod") for dtype in ARITHMETIC]
    found += [(kind, dtype) for kind in ("maximum", "minimum") for dtype in (*ARITHMETIC, "bool")]
    return [*found, ("any", "bool"), ("all", "bool")]


def samples(dtype: str) -> torch.Tensor:
    kind = getattr(torch, dtype)
    if dtype == "bool":
        return torch.tensor([False, True])
    if kind.is_floating_point:
        most = torch.finfo(kind).max
        return torch.tensor([0.0, 1.5, -2.0, most, -most, float("inf"), float("-inf"), float("nan")], dtype=kind)
    ends = torch.iinfo(kind)
    return torch.tensor([0, 1, 7, ends.min, ends.max], dtype=kind)


@pytest.mark.parametrize(("kind", "dtype"), kinds())
def test_joining_with_the_identity_changes_nothing(kind: str, dtype: str) -> None:
    values = samples(dtype)
    beside = torch.tensor(identity(kind, dtype_to_type(dtype)), dtype=values.dtype).expand_as(values)
    (joined,) = reductions.reduce(kind, torch.stack([beside, values], -1), None, lambda: torch.arange(2))
    torch.testing.assert_close(joined, values, rtol=0, atol=0, equal_nan=True)


def test_every_kind_of_every_type_has_one_of_the_type() -> None:
    """A float for floats, an integer that the type can hold for the others: it is written into texts as it stands."""
    for kind, dtype in itertools.product((*REDUCTIONS, *RUNNING), (*ARITHMETIC, "bool")):
        element: Attribute = dtype_to_type(dtype)
        if (kind in ("welford", "logaddexp") and dtype not in FLOATS) or (kind in ("any", "all") and dtype != "bool"):
            continue
        number = identity(kind, element)
        assert type(number) is (float if dtype in FLOATS else int), (kind, dtype)
        torch.tensor(number, dtype=getattr(torch, dtype))


@pytest.mark.parametrize("kind", ["sum", "prod", "logaddexp"])
def test_points_that_are_not_there_do_not_count_in_a_scan(kind: str) -> None:
    values, active = torch.tensor([3.0, 5.0, 7.0]), torch.tensor([True, False, True])
    (running,) = scans.running(kind, values, active, torch.arange(3))
    (without,) = scans.running(kind, values[active], None, torch.arange(2))
    torch.testing.assert_close(running[active], without)


def test_each_kind_has_a_join_or_is_an_extreme_with_its_place_or_welford() -> None:
    assert {*JOINS, *EXTREMES, "welford"} == set(REDUCTIONS)
    assert all(REDUCTIONS[kind].join for kind in EXTREMES.values())
