"""Our own decompositions compute what the ATen ops compute; the table keeps what it says it keeps."""

from __future__ import annotations

import inspect
import itertools
from typing import Any

import pytest
import torch

from cuesta.lowering.capture import corrections, decompositions, insertions

aten = torch.ops.aten


def test_own_entries_override_and_kept_ops_are_absent() -> None:
    table = decompositions.decomposition_table()
    assert inspect.unwrap(table[aten.nll_loss_backward.default]) is decompositions.nll_loss_backward
    for kept in (aten.gelu_backward.default, aten.bernoulli.default, aten.roll.default):
        assert kept not in table
    assert aten.native_layer_norm_backward.default in table
    assert decompositions.decomposition_table() is table


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_transpose_matrix(rank: int) -> None:
    x = torch.randn([3, 4][:rank])
    assert torch.equal(decompositions.transpose_matrix(x), x.t())


@pytest.mark.parametrize(("dim0", "dim1"), [(0, 1), (-1, 0), (1, 1), (-2, -3)])
def test_transpose(dim0: int, dim1: int) -> None:
    x = torch.randn(2, 3, 4)
    assert torch.equal(decompositions.transpose(x, dim0, dim1), x.transpose(dim0, dim1))
    assert decompositions.transpose(torch.tensor(2.0), 0, -1) == 2.0


@pytest.mark.parametrize(
    ("reduction", "weighted", "ignore_index", "batched"),
    list(itertools.product([0, 1, 2], [False, True], [-100, 1], [True, False])),
)
def test_nll_loss_backward(reduction: int, weighted: bool, ignore_index: int, batched: bool) -> None:
    torch.manual_seed(0)
    classes = 5
    logits = torch.randn(*([7] if batched else []), classes)
    target = torch.randint(0, classes, (7,)) if batched else torch.tensor(3)
    if batched:
        target[2] = ignore_index
    weight = torch.rand(classes) if weighted else None
    loss, total_weight = aten.nll_loss_forward(logits, target, weight, reduction, ignore_index)
    arguments = (torch.randn(loss.shape), logits, target, weight, reduction, ignore_index, total_weight)
    torch.testing.assert_close(decompositions.nll_loss_backward(*arguments), aten.nll_loss_backward(*arguments))


def test_nll_loss_backward_of_nothing_but_ignored_targets_is_zero() -> None:
    logits, target = torch.randn(2, 3), torch.tensor([1, 1])
    _, total_weight = aten.nll_loss_forward(logits, target, None, 1, 1)
    gradient = decompositions.nll_loss_backward(torch.tensor(1.0), logits, target, None, 1, 1, total_weight)
    assert torch.equal(gradient, torch.zeros(2, 3))


@pytest.mark.parametrize(("dim", "index"), [(0, 0), (1, -1), (-1, 2), (-3, -2)])
def test_select_backward(dim: int, index: int) -> None:
    sizes = [2, 3, 4]
    gradient = torch.randn(torch.empty(sizes).select(dim, index).shape)
    expected = aten.select_backward(gradient, sizes, dim, index)
    assert torch.equal(decompositions.select_backward(gradient, sizes, dim, index), expected)


@pytest.mark.parametrize(
    ("dim", "start", "end", "step"),
    [(0, 0, 2, 1), (1, 1, 3, 1), (-1, -3, -1, 1), (2, 0, 2**63 - 1, 2), (1, -9, 99, 1), (2, 4, 9, 1)],
)
def test_slice_backward(dim: int, start: int, end: int, step: int) -> None:
    sizes = [2, 3, 4]
    gradient = torch.randn(aten.slice(torch.empty(sizes), dim, start, end, step).shape)
    expected = aten.slice_backward(gradient, sizes, dim, start, end, step)
    assert torch.equal(decompositions.slice_backward(gradient, sizes, dim, start, end, step), expected)


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_soft_margin_loss_backward_keeps_its_digits(reduction: int) -> None:
    x, target = torch.tensor([[-30.0, 30.0], [0.5, 9.0]]), torch.tensor([[1.0, 1.0], [-1.0, 1.0]])
    loss = aten.soft_margin_loss(x, target, reduction)
    arguments = (torch.ones_like(loss), x, target, reduction)
    expected = aten.soft_margin_loss_backward(*arguments)
    assert expected[0, 1].abs() > 0
    torch.testing.assert_close(decompositions.soft_margin_loss_backward(*arguments), expected, rtol=1e-5, atol=0.0)


def test_index_add_refuses_slices_of_another_size() -> None:
    x, index = torch.zeros(3, 2), torch.tensor([0, 2])
    source = torch.ones(2, 2)
    torch.testing.assert_close(decompositions.index_add(x, 0, index, source), aten.index_add(x, 0, index, source))
    for wrong in (torch.ones(2), torch.ones(2, 1)):
        with pytest.raises(RuntimeError, match="source tensor shape must match self tensor shape"):
            aten.index_add(x, 0, index, wrong)
        with pytest.raises(RuntimeError, match="source tensor shape must match self tensor shape"):
            decompositions.index_add(x, 0, index, wrong)


def test_max_unpool2d_keeps_channels_last() -> None:
    x = torch.randn(1, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    pooled, places = torch.nn.functional.max_pool2d(x, 2, return_indices=True)
    expected = aten.max_unpool2d(pooled, places, [4, 4])
    actual = decompositions.in_order_of_first(aten.max_unpool2d.default)(pooled, places, [4, 4])
    assert torch.equal(actual, expected)
    assert actual.stride() == expected.stride() == (48, 1, 12, 3)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    "x",
    [
        torch.randn(2, 3, 4, 5),
        torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
        torch.randn(2, 3, 4, 5).transpose(2, 3),
        torch.randn(3, 2, 4, 5).transpose(0, 1),
        torch.randn(3, 4, 5).transpose(1, 2),
        torch.randn(5, 4).t(),
    ],
    ids=lambda x: str(x.stride()),
)
def test_batch_norm_has_the_order_of_eager(x: torch.Tensor, training: bool) -> None:
    channels = x.shape[1]
    arguments = (x, None, None, torch.zeros(channels), torch.ones(channels), training, 0.1, 1e-5)
    expected = torch.nn.functional.batch_norm(x, torch.zeros(channels), torch.ones(channels), training=training)
    actual = decompositions.in_order_of_first(aten._native_batch_norm_legit_functional.default)(*arguments)[0]
    torch.testing.assert_close(actual, expected)
    assert actual.stride() == expected.stride()


def test_channel_shuffle_keeps_channels_last() -> None:
    x = torch.randn(2, 6, 4, 4).contiguous(memory_format=torch.channels_last)
    expected = torch.nn.functional.channel_shuffle(x, 3)
    actual = decompositions.in_order_of_first(aten.channel_shuffle.default)(x, 3)
    assert torch.equal(actual, expected)
    assert actual.stride() == expected.stride() == (96, 1, 24, 6)


def test_copies_of_views() -> None:
    x = torch.randn(3, 4).t()
    for copy, *arguments in (
        (aten.view_copy.default, [4, 3, 1]),
        (aten.view_copy.default, [6, 2]),
        (aten.permute_copy.default, [1, 0]),
        (aten.narrow_copy.default, 1, -2, 2),
        (aten.unbind_copy.int, 1),
    ):
        expected = copy(x, *arguments)
        actual = decompositions.decomposition_table()[copy](x, *arguments)
        assert isinstance(actual, torch.Tensor) == isinstance(expected, torch.Tensor)
        for one, other in zip(actual, expected, strict=True):
            assert torch.equal(one, other) and one.stride() == other.stride()
            assert one.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()


def test_distance_and_trilinear() -> None:
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    for p in (0, 1, 1.5, 2, torch.inf):
        torch.testing.assert_close(decompositions.distance(x, y, p), torch.dist(x, y, p))
    weight, arguments = torch.randn(5, 4, 4), ([1, 3], [0], [1, 2], [2, 3])
    torch.testing.assert_close(
        decompositions.trilinear(x, weight, y, *arguments), aten._trilinear(x, weight, y, *arguments)
    )
    bytes_ = (torch.full((3, 4), 100, dtype=torch.uint8), torch.ones(5, 4, 4).byte(), torch.ones(3, 4).byte())
    wrapped = decompositions.trilinear(*bytes_, *arguments)
    assert wrapped.dtype == torch.uint8 and torch.equal(wrapped, aten._trilinear(*bytes_, *arguments))


@pytest.mark.parametrize("include_self", [False, True])
@pytest.mark.parametrize("reduce", ["mean", "prod", "amax", "amin"])
def test_reducing_scatters(reduce: str, include_self: bool) -> None:
    x, source, index = torch.randn(4, 5), torch.randn(6, 5), torch.tensor([0, 2, 2, 3, 0, 2])
    expected = x.index_reduce(0, index, source, reduce, include_self=include_self)
    actual = decompositions.index_reduce(x, 0, index, source, reduce, include_self=include_self)
    torch.testing.assert_close(actual, expected)
    if reduce == "mean":
        expanded = index[:, None].expand(6, 5)
        actual = decompositions.scatter_reduce(x, 0, expanded, source, reduce, include_self=include_self)
        torch.testing.assert_close(actual, expected)
    integers = torch.ones(3, dtype=torch.int64)
    arguments = (integers, 0, torch.tensor([0]), integers[:1])
    assert decompositions.scatter_reduce(*arguments, reduce, include_self=include_self) is NotImplemented
    assert decompositions.index_reduce(x, 0, index[:2], source, reduce) is NotImplemented, "eager says what is wrong"


def test_resize_as_leaves_the_strides() -> None:
    x, other = torch.randn(2, 3).t(), torch.randn(3, 2)
    assert decompositions.resize_as(x, other).stride() == aten.resize_as(x, other).stride() == (1, 3)
    contiguous = {"memory_format": torch.contiguous_format}
    assert decompositions.resize_as(x, other, **contiguous).stride() == aten.resize_as(x, other, **contiguous).stride()


@pytest.mark.parametrize(("dim", "index"), [(0, 2), (0, -3), (-1, 3), (1, 7)])
def test_select_of_a_place_that_there_is_not(dim: int, index: int) -> None:
    """The metadata function of torch 2.11 does not ask."""
    for select in (aten.select.int, corrections.select):
        with pytest.raises(IndexError, match=r"select\(\): index .* out of range for tensor of size \[2, 3\]"):
            select(torch.zeros(2, 3), dim, index)
    for place in range(-2, 2):
        assert corrections.select(torch.zeros(2, 3), 0, place) is NotImplemented


@pytest.mark.parametrize(("dim", "index"), [(0, 0), (1, -1), (-1, 2), (-3, -2)])
def test_select_scatter(dim: int, index: int) -> None:
    for x in (torch.randn(2, 3, 4), torch.randn(2, 4, 3).transpose(1, 2)):
        src = torch.randn(x.select(dim, index).shape)
        expected = aten.select_scatter(x, src, dim, index)
        actual = insertions.select_scatter(x, src, dim, index)
        assert torch.equal(actual, expected)
        assert actual.stride() == expected.stride()


@pytest.mark.parametrize(
    ("sizes", "src_sizes", "dim", "index", "error"),
    [
        ([2, 3], [3], 0, 2, IndexError),
        ([2, 3], [3], 0, -3, IndexError),
        ([2, 3], [3], 2, 0, IndexError),
        ([], [], 0, 0, IndexError),
        ([2, 3], [1], 0, 0, RuntimeError),
    ],
)
def test_select_scatter_refuses_what_eager_refuses(
    sizes: list[int], src_sizes: list[int], dim: int, index: int, error: type[Exception]
) -> None:
    arguments = (torch.zeros(sizes), torch.ones(src_sizes), dim, index)
    for function in (aten.select_scatter, insertions.select_scatter):
        with pytest.raises(error):
            function(*arguments)


@pytest.mark.parametrize(
    ("overload", "src_sizes", "arguments"),
    [
        (aten.slice_scatter.default, [1, 5], (0, 0, 2)),
        (aten.slice_scatter.default, [3, 5], (0, 0, 2)),
        (aten.slice_scatter.default, [2, 1], (0, 0, 2)),
        (aten.slice_scatter.default, [4, 2], (-1, 0, None, 2)),
        (aten.slice_scatter.default, [5], (0, 0, 1)),
        (aten.slice_scatter.default, [2, 5], (2, 0, 2)),
        (aten.slice_scatter.default, [2, 5], (0, 0, 2, 0)),
        (aten.diagonal_scatter.default, [1], ()),
        (aten.diagonal_scatter.default, [5], ()),
        (aten.diagonal_scatter.default, [4], (-1,)),
    ],
)
def test_what_is_inserted_has_the_size_of_the_view(overload: Any, src_sizes: list[int], arguments: tuple[Any]) -> None:
    inputs = (torch.zeros(4, 5), torch.ones(src_sizes), *arguments)
    for function in (overload, insertions.of_aten()[overload]):
        with pytest.raises((IndexError, RuntimeError)):
            function(*inputs)


@pytest.mark.parametrize("sizes", [[4, 5], [0, 5]])
def test_what_is_inserted_fits(sizes: list[int]) -> None:
    x = torch.zeros(sizes)
    for start, end, step in ((0, None, 1), (None, -1, 1), (-2, 9, 1), (1, 4, 2), (3, 1, 1), (9, 12, 3)):
        for dim in (0, 1, -1, -2):
            src = aten.slice.Tensor(x, dim, start, end, step)
            assert insertions.slice_scatter(x, src, dim, start, end, step) is NotImplemented
    assert insertions.diagonal_scatter(x, x.diagonal(1), 1) is NotImplemented


def test_what_is_inserted_where_elements_lie_on_one_another_is_inserted_once() -> None:
    """Eager copies such a tensor; torch 2.11's fake of the result has all rows in one place."""
    x = torch.arange(4.0).expand(3, 4)
    for function in (aten.slice_scatter.default, insertions.slice_scatter):
        found = function(x, torch.zeros(1, 4), 0, 1, 2)
        assert found.stride() == (4, 1) and found.sum(1).tolist() == [6.0, 0.0, 6.0]
    assert insertions.select_scatter(x, torch.zeros(4), 0, 1).stride() == (4, 1)
    nothing = torch.zeros(0).expand(2, 0)
    assert insertions.slice_scatter(nothing, nothing[:1], 0, 0, 1) is NotImplemented


def test_a_backward_pass_keeps_two_numbers_of_each_row_of_a_cross_entropy() -> None:
    """Neither the logarithms nor the exponentials of the logits are kept: they are computed again."""
    from cuesta.record import records
    from tests.support.levels import capture

    def loss(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(logits, target)

    before = len(records)
    logits = torch.randn(64, 500, requires_grad=True)
    forward, backward = capture(loss, logits, torch.randint(0, 500, (64,)), backward=True)
    assert [graph.kind for graph in (forward, backward)] == ["forward", "backward"]
    large = [value for value in backward.inputs if isinstance(value, torch.Tensor) and value.numel() == 64 * 500]
    assert [torch.equal(value, logits) for value in large] == [True]
    assert len(records) == before + 2


def test_batch_norm_is_taken_apart_only_where_its_input_lies_in_another_order() -> None:
    overload = aten._native_batch_norm_legit_no_training.default
    decomposition = decompositions.in_order_of_first(overload, whole_if_ordered=True)
    channels = [torch.ones(3) for _ in range(4)]
    x = torch.randn(2, 3, 4, 5)
    for ordered in (x, x.to(memory_format=torch.channels_last)):
        assert decomposition(ordered, *channels, 0.1, 1e-5) is NotImplemented
    assert decomposition(x.transpose(2, 3), *channels, 0.1, 1e-5)[0].is_contiguous()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize(("sizes", "dim"), [((6, 8), 0), ((6, 8), 1), ((4, 3, 5), 0), ((4, 3, 5), 2)])
def test_the_gradient_of_a_weight_norm(dtype, sizes, dim):
    norm_sizes = [size if axis == dim else 1 for axis, size in enumerate(sizes)]
    v, slope = torch.randn(sizes).to(dtype), torch.randn(sizes).to(dtype)
    g = torch.rand(norm_sizes).to(dtype)
    norms = torch.linalg.vector_norm(v.double(), dim=[k for k in range(len(sizes)) if k != dim], keepdim=True)
    norms = norms.to(torch.float32 if dtype == torch.bfloat16 else dtype)
    operator = aten._weight_norm_interface_backward.default
    expected = operator(slope, v, g, norms, dim)
    actual = decompositions.decomposition_table()[operator](slope, v, g, norms, dim)
    for ours, theirs in zip(actual, expected, strict=True):
        assert ours.dtype == theirs.dtype
        torch.testing.assert_close(ours, theirs)
