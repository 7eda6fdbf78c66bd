"""What wrappers call at run time: the results of operators, checked and opened."""

from __future__ import annotations

import ctypes

import pytest
import torch

from cuesta.targets.cpu.emit_index import BoundSite
from cuesta.targets.host.runtime import check_metadata, flattened, index_error_raiser, with_strides


def test_results_are_opened() -> None:
    assert flattened(None) == (None,)
    assert flattened([1]) == (1,)
    assert flattened((1, [2, (3,)], None, [])) == (1, 2, 3, None)


def test_metadata_is_checked() -> None:
    value = torch.zeros(2, 3)
    check_metadata(value, (2, 3), torch.float32, "mylib::foo.default")
    for sizes, dtype in (((3, 2), torch.float32), ((2, 3), torch.float64), ((6,), torch.float32)):
        with pytest.raises(RuntimeError, match=r"mylib::foo.default gave a tensor of torch.float32 and size \(2, 3\)"):
            check_metadata(value, sizes, dtype, "mylib::foo.default")


def test_strides_are_made_right() -> None:
    value = torch.arange(7.0)[1:].view(2, 3)
    turned = with_strides(value, (1, 2))
    assert turned.stride() == (1, 2) and torch.equal(turned, value)
    column = value[:, :1]
    same = with_strides(column, (3, 99))  # a dimension of size 1 has no stride worth a copy
    assert same.data_ptr() == column.data_ptr() and torch.equal(same, column) and same.stride() == (3, 99)


def test_an_index_error_names_the_line_once() -> None:
    record = (ctypes.c_int64 * 3)(2, 7, 5)
    raise_index_error = index_error_raiser([BoundSite(""), BoundSite("model.py:42")])
    with pytest.raises(IndexError, match=r"index 7 is out of bounds for dimension with size 5 \(model.py:42\)"):
        raise_index_error(ctypes.addressof(record))
    assert record[0] == 0
    record[0] = 1
    with pytest.raises(IndexError, match=r"with size 5$"):
        raise_index_error(ctypes.addressof(record))
