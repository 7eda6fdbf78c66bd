"""Gathers, insertions, padding, concatenation and creation, against torch."""

from __future__ import annotations

import pytest
import torch

aten = torch.ops.aten
DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.bool]


def values(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return (torch.randn(shape) * 4).to(dtype)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
def test_embedding(lower, dtype):
    lower(lambda w, i: aten.embedding(w, i), torch.randn(7, 3), torch.tensor([[0, 6], [3, 3]], dtype=dtype))


def test_an_index_out_of_range_raises(lower):
    with pytest.raises(IndexError):
        lower(lambda w, i: aten.embedding(w, i), torch.randn(7, 3), torch.tensor([7]))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_index(lower, dtype):
    x = values(dtype, 3, 4, 5)
    i, j = torch.tensor([0, -1, 2]), torch.tensor([[1], [-2]])
    lower(
        lambda x, i, j: (
            x[i],
            x[:, i],
            x[i, i],
            x[i, :, i],
            x[:, j, i],
            x[j, :, i],
            x[..., j],
            aten.index(x, [None, i[0]]),
        ),
        x,
        i,
        j,
    )


def test_index_by_a_mask_is_left_to_eager(lower):
    lower.call("index.Tensor", torch.randn(3), [torch.tensor([True, False, True])], externs=("aten.index.Tensor",))


def test_index_of_symbolic_sizes(lower):
    lower(lambda x, i: (x[i], x[:, i]), torch.randn(5, 6), torch.tensor([0, 2, -1]), dynamic=True)


def test_index_select_and_gather(lower):
    x, i = torch.randn(3, 4), torch.tensor([2, 0, 0])
    lower(lambda x, i: (x.index_select(0, i), x.index_select(-1, i)), x, i)
    lower(lambda x, i: (x.gather(1, i), x.gather(0, i[:2])), x, torch.tensor([[0, 1], [2, 0], [1, 1]]))


def test_insertions(lower):
    x, y = torch.randn(4, 6), torch.randn(4)
    lower(
        lambda x, y: (
            aten.select_scatter(x, y, 1, -2),
            aten.slice_scatter(x, x[:, 1:3] * 2, 1, 2, 4),
            aten.slice_scatter(x, x[:, :2] * 2, 1, 1, 5, 2),
            aten.slice_scatter(x, x * 2),
            aten.slice_scatter(x, x[:, :3] * 2, 1, -3),
            aten.select_backward(y, [4, 5], 1, 3),
            aten.slice_backward(x[:, :2] * 1, [4, 7], 1, 3, 5, 1),
            aten.slice_backward(x[:, :2] * 1, [4, 7], 1, 0, 3, 2),
        ),
        x,
        y,
    )


@pytest.mark.parametrize("offset", [0, 2, -1, 3, -4, 9])
@pytest.mark.parametrize(
    ("sizes", "dims"), [((4, 5), (0, 1)), ((4, 5), (1, 0)), ((2, 4, 3, 5), (1, -1)), ((0, 3), (0, 1))]
)
def test_diagonal_scatter(lower, sizes, dims, offset):
    x = torch.randn(sizes)
    if not -sizes[dims[0]] <= offset <= sizes[dims[1]]:
        offset = 0
    source = torch.randn(x.diagonal(offset, *dims).shape)
    lower.call("diagonal_scatter.default", x, source, offset, *dims)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_pad(lower, dtype):
    x = values(dtype, 3, 4)
    lower(
        lambda x: (
            aten.constant_pad_nd(x, [1, 2]),
            aten.constant_pad_nd(x, [0, 1, 2, 0], 1),
            aten.constant_pad_nd(x, [-1, 2, 1, -1], 1),
            aten.constant_pad_nd(x, [-1, 0]),
            aten.constant_pad_nd(x, [0, 0]),
        ),
        x,
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("count", [1, 2, 4, 6])
@pytest.mark.parametrize("dim", [0, -1])
def test_cat(lower, dtype, count, dim):
    pieces = [values(dtype, *((k + 1, 3) if dim == 0 else (3, k + 1))) for k in range(count)]
    lower(lambda *pieces: torch.cat(pieces, dim), *pieces)
    assert lower.ops() == ["loops.nest"]


def test_cat_at_the_edge(lower):
    x = torch.randn(2, 3)
    lower(
        lambda x: (
            torch.cat([x, x.double()]),
            torch.cat([torch.zeros(0), x]),
            torch.cat([x[:, :0], x, x[:, 3:]], 1),
            torch.stack([x, x * 2, x], 1),
            torch.stack([x, x], -1),
        ),
        x,
    )


def test_cat_of_symbolic_sizes(lower):
    lower(lambda x, y: (torch.cat([x, y, x]), torch.stack([x, x])), torch.randn(5, 3), torch.randn(7, 3), dynamic=True)


def test_creation(lower):
    x = torch.randn(2, 3)
    lower(
        lambda x: (
            torch.full((2, 2), 0.1, dtype=torch.bfloat16),
            torch.full_like(x, -1),
            torch.zeros(3, dtype=torch.int64),
            torch.ones_like(x, dtype=torch.bool),
            x.new_ones(2),
            x.new_full((2,), 7),
            torch.scalar_tensor(2.5),
            aten.fill(x, 3),
            aten.fill(x, x[0, 0]),
            torch.eye(3),
            torch.eye(2, 4, dtype=torch.int64),
            torch.tril(x),
            torch.triu(x, 1),
            torch.tril(x > 0, -1),
        ),
        x,
    )
    lower(lambda x: (torch.empty(2, 3), torch.empty_like(x)), x, values=False)


def test_ranges(lower):
    lower(
        lambda: (
            torch.arange(5),
            torch.arange(2, 7, 2),
            torch.arange(5, 0, -2),
            torch.arange(5, dtype=torch.float32),
            torch.arange(0, 1, 0.1),
            torch.arange(3.0, dtype=torch.bfloat16),
            torch.arange(0),
            torch.ops.prims.iota(4, start=1, step=3, dtype=torch.int32, device="cpu", requires_grad=False),
        ),
    )
    lower(lambda x: torch.arange(x.shape[0]), torch.randn(5), dynamic=True)


def test_sorts_are_left_to_eager(lower):
    externs = ("aten.sort.default", "aten.kthvalue.default")
    lower(lambda x: (torch.sort(x)[0], x.kthvalue(2)[0]), torch.randn(2, 3), externs=externs)
