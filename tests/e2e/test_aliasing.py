"""What shares memory with what is as in eager: a caller that writes to a result must not change its input, or must."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

PROGRAMS: dict[str, Callable[[Tensor], tuple[Tensor, ...]]] = {
    "two flips": lambda x: (x.flip(0).flip(0),),
    "a part of two flips": lambda x: (x.flip(0).flip(0)[::2],),
    "one row of a flip, expanded": lambda x: (x.flip(0)[0].expand(4, 4),),
    "a flip transposed": lambda x: (x.flip(0).t(), x.flip(0)),
    "rolled back": lambda x: (x.roll(2, 0).roll(-2, 0),),
    "repeated once": lambda x: (x.repeat(1, 1),),
    "the same computed twice": lambda x: (x.exp(), x.exp()),
    "a result and a view of the same computed again": lambda x: (x.exp(), x.exp().t()),
    "views of the input": lambda x: (x.t(), x[1:], x.view(-1)),
    "a view, and a flip of it": lambda x: (x.t(), x.t().flip(0)),
    "an expression and its view": lambda x: ((y := x + 1), y.t()),
}


def owners(x: Tensor, results: tuple[Tensor, ...]) -> list[int]:
    """Which of the input and the results is the first that has each one's memory."""
    tensors = [x, *results]
    pointers = [tensor.untyped_storage().data_ptr() for tensor in tensors]
    return [pointers.index(pointer) for pointer in pointers if pointer]


@pytest.mark.parametrize("name", PROGRAMS)
def test_memory_is_shared_as_in_eager(name: str) -> None:
    torch._dynamo.reset()
    function, x = PROGRAMS[name], torch.randn(8, 4)
    expected = function(x)
    found = torch.compile(function, backend="cuesta", fullgraph=True)(x)
    assert owners(x, found) == owners(x, expected)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)
        assert ours.numel() == 0 or ours.stride() == theirs.stride()
