"""Places that only the backward pass reads are kept in 16 bits: which, and that gradients are eager's to the bit."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import cuesta  # noqa: F401  # the backend
from cuesta.lowering.capture.narrow_places import narrow_places


def kept(function: Callable[[Tensor], Any], x: Tensor, *, dynamic: bool = False) -> set[torch.dtype]:
    """The types of the integers that a step keeps, whose result and gradient are checked against eager's."""
    saved: list[torch.dtype] = []
    gradients: list[Tensor] = []
    for side in (function, torch.compile(function, backend="cuesta", dynamic=dynamic, fullgraph=True)):
        saved.clear()
        leaf = x.clone().requires_grad_()

        def note(tensor: Tensor) -> Tensor:
            saved.append(tensor.dtype)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            results = side(leaf)
        first = results[0] if isinstance(results, tuple) else results
        numbers = torch.arange(first.numel(), dtype=first.dtype).reshape(first.shape)
        gradients += torch.autograd.grad(first, leaf, numbers)
    assert torch.equal(*gradients)
    return {dtype for dtype in saved if not dtype.is_floating_point}


SMALL: dict[str, tuple[Callable[[Tensor], Any], tuple[int, ...]]] = {
    "images": (lambda x: F.max_pool2d(x, 3, 2, 1), (2, 3, 17, 19)),
    "images with gaps": (lambda x: F.max_pool2d(x, 3, 1, 1, dilation=2), (2, 3, 17, 19)),
    "rows": (lambda x: F.max_pool1d(x, 3, 2, 1), (2, 3, 40)),
    "volumes": (lambda x: F.max_pool3d(x, 2, 2), (2, 3, 8, 9, 10)),
    "as many windows as asked for": (lambda x: F.adaptive_max_pool2d(x, (5, 4)), (2, 3, 17, 19)),
    "more than half of the numbers": (lambda x: F.max_pool2d(x, 3, 2, 1), (1, 1, 300, 200)),
    "a dim": (lambda x: x.max(1).values * 2, (4, 33, 5)),
    "sorted": (lambda x: x.sort(0).values.cumsum(0), (44, 5)),
    "the first few": (lambda x: x.topk(3).values, (44, 50)),
    "so far": (lambda x: x.cummax(1).values, (44, 50)),
    "the middle": (lambda x: x.median(-1).values, (2, 3, 16)),
    "of one number": (lambda x: x.max(0).values, ()),
}


@pytest.mark.parametrize("name", SMALL)
def test_kept_in_16_bits(name: str) -> None:
    function, sizes = SMALL[name]
    assert kept(function, torch.randn(sizes)) == {torch.int16}


@pytest.mark.parametrize("x", [torch.full((1, 2, 9, 9), torch.nan), torch.full((1, 2, 9, 9), -torch.inf)])
def test_a_window_without_a_greatest_number(x: Tensor) -> None:
    assert kept(lambda x: F.max_pool2d(x, 3, 2, 1), x) == {torch.int16}


def test_the_last_of_65536_places() -> None:
    x = torch.zeros(1, 1, 256, 256)
    x[..., -1, -1] = 1
    assert kept(lambda x: F.max_pool2d(x, 2), x) == {torch.int16}


def test_near_misses() -> None:
    """What is returned, too; more places than there are numbers of 16 bits; a number that only the call knows."""
    pool = lambda x: F.max_pool2d(x, 3, 2, 1)  # noqa: E731
    assert kept(lambda x: F.max_pool2d(x, 2, return_indices=True), torch.randn(2, 3, 16, 16)) == {torch.int64}
    assert kept(pool, torch.randn(1, 1, 257, 256)) == {torch.int64}
    assert kept(pool, torch.randn(2, 3, 17, 19), dynamic=True) == {torch.int64}


def test_what_the_forward_pass_reads_it_reads_as_it_is() -> None:
    def function(x: Tensor) -> Tensor:
        greatest, place = x.max(1)
        return greatest * place

    assert kept(function, torch.randn(4, 9)) <= {torch.int16, torch.int64}


def test_whoever_reads_first_finds_it() -> None:
    """The reader that was made last stands first."""
    graph = torch.fx.Graph()
    x, tangent = graph.placeholder("primals_1"), graph.placeholder("tangents_1")
    call = graph.call_function(torch.ops.aten.max.dim, (x, 1))
    greatest, place = (graph.call_function(operator.getitem, (call, k)) for k in (0, 1))
    late = graph.call_function(torch.ops.aten.mul.Tensor, (tangent, place))
    with graph.inserting_before(late):
        early = graph.call_function(torch.ops.aten.add.Tensor, (tangent, place))
    graph.output([greatest, late, early])
    values = torch.randn(4, 9), torch.randn(4)
    x.meta["val"], tangent.meta["val"] = values
    place.meta["val"] = values[0].max(1).indices
    gm = torch.fx.GraphModule(torch.nn.Module(), graph)
    expected = gm(*values)
    assert narrow_places(gm, 1) == 1
    graph.lint()
    gm.recompile()
    assert all(map(torch.equal, gm(*values), expected))
