"""What an update in place changes lies as it lay, to all that follows."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from cuesta.testing import assert_close_to_float64

Update = Callable[[Tensor], Any]
ROWS = torch.tensor([1, 0, 3])
UPDATES: dict[str, Update] = {
    "scatter_": lambda x: x.scatter_(0, torch.ones_like(x, dtype=torch.int64), 2.0),
    "scatter_ of a tensor": lambda x: x.scatter_(0, torch.ones_like(x, dtype=torch.int64), x.exp()),
    "scatter_add_": lambda x: x.scatter_add_(0, torch.ones_like(x, dtype=torch.int64), x.exp()),
    "scatter_reduce_": lambda x: x.scatter_reduce_(0, torch.ones_like(x, dtype=torch.int64), x.exp(), "amax"),
    "index_add_": lambda x: x.index_add_(0, ROWS, x[:3].exp(), alpha=2),
    "index_copy_": lambda x: x.index_copy_(0, ROWS, x[:3].exp()),
    "index_fill_": lambda x: x.index_fill_(0, ROWS, 3),
    "masked_fill_": lambda x: x.masked_fill_(x > 0, 3),
    "masked_scatter_": lambda x: x.masked_scatter_(x > 0, torch.arange(40.0)),
    "put_": lambda x: x.put_(ROWS, x[0, :3].exp()),
    "renorm_": lambda x: x.renorm_(2, 0, 1.0),
    "tril_": lambda x: x.tril_(1),
    "cumsum_": lambda x: x.cumsum_(0),
    "addmm_": lambda x: x.addmm_(x[:, :4].exp(), x[:4].exp()),
    "zero_": lambda x: x.zero_(),
    "bernoulli_": lambda x: x.bernoulli_(0.3),
}
FOLLOWING: dict[str, Update] = {
    "elements": lambda x: F.gelu(x),
    "a view of all": lambda x: x.t().view(-1) * 2,
    "a draw": lambda x: F.dropout(x),
    "a draw in place": lambda x: x.t().bernoulli_(0.5),
}
PAIRS = [
    pair
    for pair in itertools.product(UPDATES, FOLLOWING)
    if pair != ("bernoulli_", "a draw in place")  # nobody reads the first numbers: they are not drawn
]


@pytest.mark.parametrize(("update", "following"), PAIRS, ids=lambda name: str(name))
@pytest.mark.filterwarnings("error:cuesta runs a graph in eager")
def test_an_update_of_columns(update: str, following: str) -> None:
    def function(x: Tensor) -> Tensor:
        UPDATES[update](x)
        return FOLLOWING[following](x)

    torch._dynamo.reset()
    found: list[tuple[Tensor, Tensor]] = []
    for called in (function, torch.compile(function, backend="cuesta")):
        torch.manual_seed(5)
        x = torch.randn(7, 5).t()
        found.append((x, called(x)))
    for expected, actual in zip(*found, strict=True):
        assert actual.stride() == expected.stride()
        torch.testing.assert_close(actual, expected)


@pytest.mark.filterwarnings("error:cuesta runs a graph in eager")
def test_gradients_through_an_update_of_columns() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        z = (x * 2).t()
        z.scatter_(0, torch.ones_like(z, dtype=torch.int64), y)
        z.t().view(-1)[:3].mul_(y.reshape(-1)[:3])
        return z.sin()

    torch._dynamo.reset()
    inputs = (torch.randn(7, 5, requires_grad=True), torch.randn(5, 7, requires_grad=True))
    assert_close_to_float64(torch.compile(function, backend="cuesta"), function, inputs)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("is_made", [False, True], ids=["of an input", "of what is made"])
def test_the_order_of_what_is_made_of_an_update(is_made: bool, dynamic: bool) -> None:
    """92001293, 92001380"""

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        x = x * 1 if is_made else x
        x.index_add_(0, torch.arange(x.shape[0]), x.clone())
        return x * 2, x

    torch._dynamo.reset()
    compiled = torch.compile(function, backend="cuesta", dynamic=dynamic)
    expected, actual = function(torch.ones(5, 3).t()), compiled(torch.ones(5, 3).t())
    for one, other in zip(actual, expected, strict=True):
        assert one.stride() == other.stride() == (1, 3) and torch.equal(one, other)


VIEWS: dict[str, Update] = {
    "conj": torch.conj,
    "a transposed one": torch.t,
    "all of it": lambda x: x.view(-1).view(5, 5),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("is_made", [False, True], ids=["of an input", "of what is made"])
def test_a_copy_of_a_view_is_a_copy(name: str, is_made: bool) -> None:
    """130003509: the copy was the view, and what was written to afterwards was seen through it."""

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 2 if is_made else x
        view = VIEWS[name](y)
        copied = torch.empty_like(view)
        copied.copy_(view)
        if not is_made:
            x.mul_(3)
        return copied, y

    torch._dynamo.reset()
    given = torch.randn(5, 5, dtype=torch.complex64)
    expected = function(given.clone())
    copied, y = torch.compile(function, backend="cuesta", options={"cache": False})(given)
    assert torch.equal(copied, expected[0]) and torch.equal(y, expected[1])
    y.zero_()
    assert torch.equal(copied, expected[0]), "memory of its own"
