"""Distances of rows and their derivatives, at the level `loops`, against torch."""

from __future__ import annotations

import pytest
import torch

aten = torch.ops.aten
NORMS = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, torch.inf]


def rows(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Small whole numbers and halves: some differences, and whole distances, are zero."""
    return (torch.randint(-3, 4, shape) / 2).to(dtype)


@pytest.mark.parametrize("p", NORMS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_of_two_sets(lower, p, dtype):
    x, y = rows(2, 4, 3, dtype=dtype), rows(2, 5, 3, dtype=dtype)
    y[:, 0] = x[:, 0]
    lower.call("_cdist_forward.default", x, y, p, None)
    lower.call("_cdist_forward.default", x[0].t().contiguous().t(), y[0], p, 2)
    gradient, distances = torch.randn(2, 4, 5, dtype=dtype), aten._cdist_forward(x, y, p, None)
    lower.call("_cdist_backward.default", gradient, x, y, p, distances)
    lower.call("_cdist_backward.default", gradient.mT.contiguous(), y, x, p, distances.mT.contiguous())


@pytest.mark.parametrize("p", NORMS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_of_one_set(lower, p, dtype):
    for count in (1, 2, 3, 7):
        x = rows(count, 3, dtype=dtype)
        x[-1] = x[0]
        lower.call("_pdist_forward.default", x, p)
        distances = aten._pdist_forward(x, p)
        lower.call("_pdist_backward.default", torch.randn(distances.shape, dtype=dtype), x, p, distances)


@pytest.mark.parametrize("p", NORMS, ids=str)
def test_of_nothing(lower, p):
    for x, y in ((rows(0, 3), rows(2, 3)), (rows(2, 3), rows(0, 3)), (rows(2, 0), rows(3, 0))):
        lower.call("_cdist_forward.default", x, y, p, None)
    lower.call("_pdist_forward.default", rows(4, 0), p)


def test_nan_and_infinities(lower):
    x = torch.tensor([[0.0, torch.nan], [1.0, 2.0], [torch.inf, 0.0], [torch.inf, 1.0]])
    for p in NORMS:
        lower.call("_cdist_forward.default", x, x, p, 2)


def test_every_pair_is_found_among_many(lower):
    """The rows of a pair are computed; at the first and the last pair of each row the root is nearly whole."""
    x = torch.arange(120.0)[:, None] ** 2
    lower.call("_pdist_forward.default", x, 1.0)


def test_many_rows_are_a_product(lower):
    """Euclidean distances only, and unless eager is told not to."""
    x, y = torch.randn(26, 3), torch.randn(4, 3)
    left = ("aten._cdist_forward.default",)
    lower.call("_cdist_forward.default", x, y, 2.0, None, externs=left)
    lower.call("_cdist_forward.default", y, x, 2.0, 0, externs=left)
    lower.call("_cdist_forward.default", y, y, 2.0, 1, externs=left)
    lower.call("_cdist_forward.default", x, y, 2.0, 2)
    lower.call("_cdist_forward.default", x, y, 1.0, None)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, torch.inf], ids=str)
def test_pairs_of_long_rows_are_the_librarys_where_it_has_vectors(lower, p):
    """The norms 1, 2 and infinity, from 8 columns on; the derivative of the norm 1 is a nest again from 128 on."""
    for columns in (7, 8, 127, 128):
        x = torch.randn(4, columns)
        distances = aten._pdist_forward(x, p)
        vectors = columns >= 8 and p in (1.0, 2.0, torch.inf)
        lower.call("_pdist_forward.default", x, p, externs=("aten._pdist_forward.default",) if vectors else ())
        left = ("aten._pdist_backward.default",) if vectors and (p != 1 or columns < 128) else ()
        lower.call("_pdist_backward.default", torch.randn(distances.shape), x, p, distances, externs=left)


def test_symbolic_sizes(lower):
    x, y = torch.randn(5, 4), torch.randn(3, 4)
    lower(lambda x, y: (torch.cdist(x, y, p=1.0), torch.nn.functional.pdist(x, 3.0)), x, y, dynamic=True)
