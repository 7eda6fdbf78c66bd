"""View-like ops: each is one `loops.view`, and nothing is computed."""

from __future__ import annotations

import pytest
import torch

aten = torch.ops.aten

CASES = {
    "view": lambda x: x.view(6, 4),
    "view_to_flat": lambda x: x.view(-1),
    "view_split": lambda x: x.view(2, 3, 2, 2),
    "view_regroup": lambda x: x.view(3, 8),
    "view_ones": lambda x: x.view(1, 2, 1, 3, 4, 1),
    "unsafe_view": lambda x: aten._unsafe_view(x, [4, 6]),
    "permute": lambda x: x.permute(2, 0, -2),
    "transpose": lambda x: x.transpose(-1, 0),
    "t": lambda x: x[0].t(),
    "expand": lambda x: x[:, :1].expand(5, 2, 3, 4),
    "unsqueeze": lambda x: (x.unsqueeze(0), x.unsqueeze(-1), x.unsqueeze(2)),
    "squeeze": lambda x: (x[:, :1].squeeze(), x[:1, :, :1].squeeze(0), x[:1, :, :1].squeeze((0, 2)), x.squeeze(1)),
    "slice": lambda x: (x[1:], x[:, -2:], x[..., 1:4:2], x[:, 5:], x[:, :-1], x[:, -10:2]),
    "select": lambda x: (x[1], x[..., -1]),
    "split": lambda x: torch.split(x, 2, 1),
    "split_with_sizes": lambda x: torch.split(x, [1, 0, 3], -1),
    "chunk": lambda x: torch.chunk(x, 3, 2),
    "unbind": lambda x: torch.unbind(x, 1),
    "flip": lambda x: (x.flip(0), x.flip([1, -1])),
    "roll": lambda x: (torch.roll(x, 1, 0), torch.roll(x, (-1, 5), (1, 2)), torch.roll(x, 7)),
    "diagonal": lambda x: (x.diagonal(), x.diagonal(1, 1, 2), x.diagonal(-2, 2, 0)),
    "unfold": lambda x: (x.unfold(1, 2, 1), x.unfold(-1, 2, 2)),
    "narrow": lambda x: x.narrow(1, 1, 2),
    "movedim": lambda x: x.movedim((0, 1), (-1, 0)),
    "repeat": lambda x: aten.repeat(x, [2, 1, 3, 1]),
    "detach": lambda x: (x.detach()[1:], aten.alias(x)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool], ids=str)
def test_views(lower, name, dtype):
    lower(CASES[name], torch.randn(2, 3, 4).to(dtype))
    assert set(lower.ops()) <= {"loops.view"} or name in ("roll", "repeat")


def test_what_is_a_copy_in_eager_aliases_nothing(lower):
    lower(lambda x: (torch.roll(x, 0, 0), x.flip(0), aten.repeat(x, [2, 1])), torch.randn(1, 3))
    assert lower.ops() == ["loops.nest"] * 3


@pytest.mark.parametrize("name", ["view_to_flat", "permute", "transpose", "unsqueeze", "select", "flip", "slice"])
def test_views_of_symbolic_sizes(lower, name):
    lower(CASES[name], torch.randn(2, 3, 4), dynamic=True)
    assert set(lower.ops()) <= {"loops.view", "sym.value"}


def test_reshape_with_symbolic_sizes_keeps_equal_dims_apart(lower):
    lower(lambda x: x.view(x.shape[0], x.shape[1] * x.shape[2]), torch.randn(4, 3, 5), dynamic=True)
    assert "(d0, d1 floordiv" in str(lower.module)


def test_a_reshape_of_equal_groups_has_no_division(lower):
    lower(lambda x: x.view(6, 4).view(6, 2, 2), torch.randn(2, 3, 4))
    second = next(line for line in str(lower.module).splitlines() if "6x2x2" in line and "loops.view" in line)
    assert "(d0, d1 * 2 + d2)" in second


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4)], ids=str)
def test_views_without_elements(lower, shape):
    def views(x):
        return x.view(0), x.flip(0), x[1:], torch.roll(x, 1), aten.repeat(x, [1, 2, 2])

    lower(views, torch.randn(shape))


def test_views_of_a_scalar(lower):
    lower(lambda x: (x.view(1, 1), x.expand(3), x.unsqueeze(0), x.flip([]), x.t()), torch.tensor(3.0))


AS_STRIDED = "aten.as_strided.default"


def test_as_strided_of_what_fills_its_storage(lower):
    lower(lambda x: torch.as_strided(x + 1, (2, 3), (6, 2), 1), torch.randn(3, 4))
    assert lower.ops() == ["loops.nest", "loops.view"]


def test_as_strided_of_an_input_with_an_offset_is_left_to_eager(lower):
    # The input may be a part of a larger storage, from whose start the offset counts.
    x = torch.randn(3, 4)
    lower(lambda x: torch.as_strided(x, (2, 3), (6, 2), 1), x, externs=(AS_STRIDED,))
    lower(lambda x: torch.as_strided_copy(x, (2, 3), (6, 2), 1), x, externs=("aten.as_strided_copy.default",))


STRIDED = [((2, 3), (6, 2)), ((10,), (0,)), ((2, 4, 3), (4, 1, 2)), ((), ()), ((3, 0), (1, 1)), ((1, 5), (99, 2))]


@pytest.mark.parametrize(("size", "stride"), STRIDED)
def test_as_strided_without_an_offset_starts_where_the_tensor_does(lower, size, stride):
    """Also where elements lie on one another, and where the source is dense in another order."""
    x = torch.randn(5, 12)[2:4]
    for source in (x, x.view(2, 3, 4), x.clone().t(), x.clone().view(4, 3, 2).permute(1, 0, 2)):
        for dtype in (torch.float32, torch.bfloat16, torch.bool):
            lower(lambda y: y.as_strided(size, stride), source.to(dtype))
        lower(lambda y: torch.as_strided_copy(y, size, stride), source)
        lower(lambda y: (y + 1).as_strided(size, stride) * 2, source)


def test_as_strided_of_a_part_of_what_fills_its_storage(lower):
    """An offset counts from the start of the storage, of whatever the tensor is a view."""
    lower(lambda x: (x + 1)[1:].as_strided((2, 3), (4, 1), 1), torch.randn(3, 4))
    lower(lambda x: (x + 1).t()[1:, ::2].as_strided((2, 3), (4, 1), 1), torch.randn(3, 4))
    lower(lambda x: (x + 1).view(2, 6)[:, 2].as_strided((2, 3), (4, 1), 5), torch.randn(3, 4))
    lower(lambda x: (x + 1).flip(0).as_strided((2, 3), (4, 1), 0), torch.randn(3, 4), externs=(AS_STRIDED,))


@pytest.mark.slow
def test_a_long_chain_of_copies_of_a_storage(lower):
    def function(x):
        for k in range(300):
            x = aten.slice_scatter(x, x[:1] + 1, 0, k % 4, k % 4 + 1)
        return x

    lower(function, torch.randn(8, 4)[1:5])


def test_as_strided_across_gaps_is_left_to_eager(lower):
    lower(lambda x: x.as_strided((2, 3), (4, 1)), torch.randn(5, 8)[:, 1:], externs=(AS_STRIDED,))
    lower(lambda x: x.as_strided((2, 3), (0, 0)), torch.randn(1).expand(8), externs=(AS_STRIDED,))
    with pytest.raises(RuntimeError, match="out of bounds"):  # the interpreter's tensors end where they end
        lower(lambda x: x[:2].as_strided((2, 3), (4, 1)), torch.randn(20), externs=(AS_STRIDED,))


def test_as_strided_of_symbolic_sizes(lower):
    def windows(x):
        rows, columns = x.shape
        return x.as_strided((rows, columns - 1, 2), (columns, 1, 1)) * 2

    lower(windows, torch.randn(5, 6), dynamic=True)


def test_other_readings_of_the_bits_are_left_to_eager(lower):
    lower(lambda x: x.view(torch.int32), torch.randn(3), externs=("aten.view.dtype", "aten.detach.default"))


def test_what_is_detached_and_returned_is_left_to_eager(lower):
    """Autograd would take a view for a tensor with the gradient of its base."""
    lower(lambda x: x.exp().detach(), torch.randn(3), externs=("aten.detach.default",))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize(
    ("size", "stride", "offset"),
    [
        ((3, 4), (8, 1), 1),
        ((3, 4), (1, 8), 2),  # the small stride first
        ((2, 3, 2), (24, 8, 3), 4),
        ((5,), (9,), 0),
        ((), (), 7),
        ((1, 4), (0, 2), 0),
    ],
)
def test_what_is_written_through_strides(lower, size, stride, offset, dtype):
    def function(x, y):
        return torch.as_strided_scatter(x.clone(), y, size, stride, offset)

    lower(function, torch.randn(6, 8).to(dtype), torch.randn(size).to(dtype))


@pytest.mark.parametrize(
    ("size", "stride", "offset"),
    [
        ((3, 4), (2, 5), 1),  # rows between one another
        ((3, 0), (8, 1), 0),
    ],
)
def test_strides_that_are_not_nested_are_left_to_the_library(lower, size, stride, offset):
    def function(x, y):
        return torch.as_strided_scatter(x.clone(), y, size, stride, offset)

    lower(function, torch.randn(6, 8), torch.randn(size), externs=("aten.as_strided_scatter.default",))


def test_what_is_written_through_strides_without_an_offset(lower):
    for x in (torch.randn(9, 8)[3:], torch.randn(8, 6).t()):
        for size, stride in (((3, 4), (8, 1)), ((3, 4), (1, 8)), ((2, 3, 2), (24, 8, 3)), ((), ())):
            lower.call("as_strided_scatter.default", x, torch.randn(size), list(size), list(stride))


def test_strides_over_an_argument_are_left_to_the_library(lower):
    """Where its storage begins is not known, if there is an offset."""
    externs = ("aten.as_strided_scatter.default",)
    lower(lambda x, y: torch.as_strided_scatter(x, y, (2,), (3,), 1), torch.randn(8), torch.randn(2), externs=externs)
