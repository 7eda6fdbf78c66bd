"""`options={"target": "reference"}`: the interpreter runs the kernels, to compare with."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

import cuesta
from cuesta.options import OptionError, Options


def softmax(x: Tensor, w: Tensor) -> Tensor:
    return torch.softmax(x @ w, -1)


def test_it_gives_what_the_kernels_mean() -> None:
    x, w = torch.randn(8, 16), torch.randn(16, 32)
    cuesta.clear_records()
    result = torch.compile(softmax, backend="cuesta", options={"target": "reference"})(x, w)
    torch.testing.assert_close(result, softmax(x, w))
    (record,) = cuesta.records
    assert record.kernels == 1 and record.library_calls == 1 and not record.fallbacks
    assert "llvm" not in record.seconds, "there is no machine code"


def test_what_it_compiled_is_not_kept() -> None:
    x, w = torch.randn(4, 5), torch.randn(5, 6)
    for _ in range(2):
        torch._dynamo.reset()
        cuesta.clear_records()
        torch.compile(softmax, backend="cuesta", options={"target": "reference"})(x, w)
        assert not cuesta.records[0].from_cache
    torch._dynamo.reset()
    torch.compile(softmax, backend="cuesta")(x, w)
    assert "llvm" in cuesta.records[-1].seconds, "it is another program in the cache"


def test_training_and_an_index_that_is_out_of_range() -> None:
    def step(x: Tensor, w: Tensor) -> Tensor:
        loss = torch.compile(softmax, backend="cuesta", options={"target": "reference"})(x, w).square().sum()
        loss.backward()
        assert x.grad is not None
        return x.grad

    x, w = torch.randn(4, 5, requires_grad=True), torch.randn(5, 6)
    ours = step(x, w)
    x.grad = None
    softmax(x, w).square().sum().backward()
    torch.testing.assert_close(ours, x.grad)
    take = torch.compile(lambda x, i: x[i] * 2, backend="cuesta", options={"target": "reference"})
    with pytest.raises(IndexError, match="index 9 is out of bounds for dimension with size 4"):
        take(torch.randn(4, 3), torch.tensor([1, 9]))


def test_a_dumped_text_can_be_loaded_on_it(tmp_path: Path) -> None:
    x = torch.randn(6, 7)
    expected = torch.compile(lambda x: x.exp().sum(1), backend="cuesta", options={"dump": str(tmp_path)})(x)
    (folder,) = tmp_path.iterdir()
    (text,) = folder.glob("*loops-to-kernel*.mlir")
    (result,) = cuesta.load(text, options={"target": "reference"})(x)
    torch.testing.assert_close(result, expected)


def test_there_are_no_others() -> None:
    with pytest.raises(OptionError, match="option 'target' must be one of 'device', 'reference', not 'c'"):
        Options.parse(None, {"target": "c"})
