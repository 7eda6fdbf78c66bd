"""The wrapper's native calls: how many, and with how many arguments."""

from __future__ import annotations

import ctypes

import pytest
import torch
from torch import Tensor

from cuesta.targets.host import wrapper


def test_ctypes_takes_what_a_native_call_may_be_given() -> None:
    ctypes.CFUNCTYPE(ctypes.c_int64, *([ctypes.c_void_p] * wrapper.MOST_PARAMETERS))


def test_a_run_of_kernels_with_many_buffers_is_several_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(*tensors: Tensor) -> list[Tensor]:
        return [tensor * 2 + 1 for tensor in tensors]

    written: list[int] = []
    original = wrapper.WrapperWriter.write

    def write(self: wrapper.WrapperWriter) -> wrapper.Wrapper:
        result = original(self)
        written.extend(run.pointers for run in result.runs)
        return result

    monkeypatch.setattr(wrapper, "MOST_PARAMETERS", 5)
    monkeypatch.setattr(wrapper.WrapperWriter, "write", write)
    inputs = [torch.randn(size) for size in range(2, 9)]
    compiled = torch.compile(function, backend="cuesta", options={"cache": False}, dynamic=False)
    for result, expected in zip(compiled(*inputs), function(*inputs), strict=True):
        torch.testing.assert_close(result, expected)
    assert written == [4, 4, 4, 2]
