"""Reductions and scans by whole blocks give what Triton's interpreter gives one point after the other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("triton")

import numpy
import triton.language as tl
from triton.runtime.interpreter import ReduceOps, ScanOps, TensorHandle

from tests.support.whole_blocks import reduce_blocks, scan_blocks


def tensor(values: Any) -> Any:
    return tl.core.tensor(TensorHandle(values, tl.int64), tl.block_type(tl.int64, list(values.shape)))


def then(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, Any]:
    """First x·a + b, then x·c + d: which comes first matters."""
    a, b, c, d = (numpy.asarray(one.handle.data) for one in (a, b, c, d))
    found = (a * c, b * c + d)
    return tuple(tensor(one) for one in found)  # type: ignore[return-value]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_as_one_after_the_other(axis: int) -> None:
    numbers = numpy.random.default_rng(axis)
    given = tuple(tensor(numbers.integers(-3, 4, (4, 8, 2))) for _ in range(2))
    function: Any = SimpleNamespace(fn=then)
    for keep in (False, True):
        ops = ReduceOps(axis, function, keep)
        for ours, theirs in zip(reduce_blocks(ops, given), ReduceOps.generic_reduce(ops, given), strict=True):
            assert ours.shape == theirs.shape and (ours.handle.data == theirs.handle.data).all()
    scan = ScanOps(axis, function, reverse=False)
    for ours, theirs in zip(scan_blocks(scan, given), ScanOps.generic_scan(scan, given), strict=True):
        assert (ours.handle.data == theirs.handle.data).all() and ours.shape == theirs.shape


@pytest.mark.parametrize("keep", [False, True])
def test_all_axes_at_once(keep: bool) -> None:
    """Of one operand, as its own takes no more."""
    function: Any = SimpleNamespace(fn=lambda a, b: tensor(numpy.asarray(a.handle.data * b.handle.data)))
    ops = ReduceOps(None, function, keep)
    given = (tensor(numpy.arange(2, 18).reshape(4, 4) % 3 + 1),)
    (ours,), (theirs,) = reduce_blocks(ops, given), ReduceOps.generic_reduce(ops, given)
    assert numpy.shape(ours.handle.data) == numpy.shape(theirs.handle.data)
    assert (ours.handle.data == theirs.handle.data).all() and ours.handle.data.min() > 1
