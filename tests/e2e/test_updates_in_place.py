"""Updates of a part of an argument write that part and no more; what fails changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cuesta.context import make_context
from cuesta.dialects import host
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.layout import sizes_of, tensor_type_of
from cuesta.pipeline import STAGES, run_pipeline
from tests.support.differential import check, compiled_of
from tests.support.levels import capture, check_levels
from tests.support.triton_interpreter import check as check_on_gpu

pytestmark = pytest.mark.slow

Update = Callable[[Tensor, Tensor, Tensor], Any]


def by_index_copy(cache: Tensor, x: Tensor, where: Tensor) -> None:
    cache.index_copy_(1, where, x)


def by_index(cache: Tensor, x: Tensor, where: Tensor) -> None:
    cache[:, where] = x


def by_index_add(cache: Tensor, x: Tensor, where: Tensor) -> None:
    cache.index_add_(1, where, x)


def by_scatter(cache: Tensor, x: Tensor, where: Tensor) -> None:
    cache.scatter_(1, where.view(1, 1, 1).expand(4, 1, 32), x)


def by_index_put(cache: Tensor, x: Tensor, where: Tensor) -> None:
    cache.index_put_((torch.tensor([0]), where), x[0])


def a_slice(cache: Tensor, x: Tensor, where: Tensor) -> None:
    cache[:, 10:11].copy_(x)


def a_column(cache: Tensor, x: Tensor, where: Tensor) -> None:
    cache[..., 3].add_(x[..., 0])


def the_last_rows(cache: Tensor, x: Tensor, where: Tensor) -> None:
    cache[:, -1].mul_(x[:, 0])


def a_row_set_to_zero(cache: Tensor, x: Tensor, where: Tensor) -> None:
    cache[1].zero_()


def a_slice_scaled(cache: Tensor, x: Tensor, where: Tensor) -> None:
    cache[:, 10:12].mul_(2)


def the_last_row_set(cache: Tensor, x: Tensor, where: Tensor) -> None:
    cache[:, -1] = x[:, 0]


def two_slices(cache: Tensor, x: Tensor, where: Tensor) -> None:
    cache[:, 10:11].copy_(x)
    cache[:, 20:21].copy_(x * 2)


def slices_that_overlap(cache: Tensor, x: Tensor, where: Tensor) -> None:
    cache[:, 10:13].copy_(x)
    cache[:, 12:15].copy_(x * 2)


def returning(cache: Tensor, x: Tensor, where: Tensor) -> Tensor:
    cache[:, where] = x
    return cache.sum(-1)


def a_slice_before_a_product(cache: Tensor, x: Tensor, where: Tensor) -> Tensor:
    cache[:, 10:11].copy_(x)
    return cache @ x.mT


PARTS: tuple[Update, ...] = (
    by_index_copy,
    by_index,
    by_index_add,
    by_scatter,
    by_index_put,
    a_slice,
    a_column,
    the_last_rows,
    a_row_set_to_zero,
    a_slice_scaled,
    two_slices,
    slices_that_overlap,
    returning,
    a_slice_before_a_product,
)


# What has to be written as a whole, or copied first.


def a_shifted_slice(cache: Tensor, x: Tensor, where: Tensor) -> None:
    cache[:, 0:3] = cache[:, 1:4]


def old_elements_later(cache: Tensor, x: Tensor, where: Tensor) -> Tensor:
    before = cache.clone()
    cache[:, 10:11].copy_(x)
    return before.sum(-1) + cache.sum(-1)


def old_elements_in_a_later_slice(cache: Tensor, x: Tensor, where: Tensor) -> None:
    doubled = cache * 2
    cache[:, 0:11] = x
    cache[:, 10:12] = doubled[:, 10:12]


def every_second(cache: Tensor, x: Tensor, where: Tensor) -> None:
    cache[:, ::2] = 1


def most(cache: Tensor, x: Tensor, where: Tensor) -> None:
    cache[:, 1:].mul_(3)


def by_mask(cache: Tensor, x: Tensor, where: Tensor) -> None:
    cache.masked_fill_(x > 0, 2.0)


WHOLES: tuple[Update, ...] = (
    a_shifted_slice, old_elements_later, old_elements_in_a_later_slice, every_second, most, by_mask,
)  # fmt: skip


def arguments() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(4, 64, 32), torch.randn(4, 1, 32), torch.tensor([5])


@pytest.mark.parametrize("update", [*PARTS, *WHOLES])
def test_updates_are_as_in_eager(update: Update) -> None:
    torch._dynamo.reset()
    check(update, *arguments())


@pytest.mark.parametrize("update", [*PARTS, *WHOLES])
@pytest.mark.every(3)
def test_updates_are_the_same_at_every_level(update: Update) -> None:
    with torch.no_grad():
        (captured,) = capture(update, *arguments())
    check_levels(captured, reenter_at_levels=False)


def lowered(update: Callable[..., Any], *inputs: Tensor) -> list[Any]:
    """The ops of the host program."""
    torch._dynamo.reset()
    with torch.no_grad():
        (captured,) = capture(update, *inputs)
    module = captured.module.clone()
    run_pipeline(make_context(), module, STAGES)
    return list(entry_block(module).ops)


@pytest.mark.parametrize("update", PARTS)
def test_a_part_is_written_and_no_more(update: Update) -> None:
    ops = lowered(update, *arguments())
    assert not [op.overload for op in ops if isinstance(op, host.ExternOp) and op.overload.startswith("aten.c")]
    made = [sizes_of(tensor_type_of(op.result)) for op in ops if isinstance(op, host.AllocOp)]
    assert (4, 64, 32) not in made


@pytest.mark.parametrize("update", [by_index_copy, by_index_add, by_index, by_index_put, a_slice])
def test_a_part_of_a_cache_of_columns_is_written_and_no_more(update: Update) -> None:
    """As a cache of positions that is seen by heads."""
    cache, x, where = arguments()
    columns = cache.permute(2, 1, 0).contiguous().permute(2, 1, 0)
    ops = lowered(update, columns, x, where)
    made = [sizes_of(tensor_type_of(op.result)) for op in ops if isinstance(op, host.AllocOp)]
    assert (4, 64, 32) not in made
    check(update, columns, x, where)


@pytest.mark.parametrize("update", [by_index, by_index_put, the_last_row_set, a_slice])
def test_a_part_of_a_cache_of_8_bits_is_written_and_no_more(update: Update) -> None:
    """As caches of keys and values are, that are kept in floats of 8 bits."""

    def narrowed(cache: Tensor, x: Tensor, where: Tensor) -> None:
        update(cache, (x * 2).to(cache.dtype), where)

    cache, x, where = arguments()
    cache = cache.to(torch.float8_e4m3fn)
    ops = lowered(narrowed, cache, x, where)
    assert not any(isinstance(op, host.ExternOp) for op in ops)
    made = [sizes_of(tensor_type_of(op.result)) for op in ops if isinstance(op, host.AllocOp)]
    assert (4, 64, 32) not in made
    torch._dynamo.reset()
    check(narrowed, cache, x, where, truth=False)


def test_an_index_out_of_range_is_found_before_anything_is_written() -> None:
    def function(cache: Tensor, x: Tensor, first: Tensor, second: Tensor) -> None:
        x.add_(1)
        cache[:, first] = x
        cache[:, second] = x * 2

    torch._dynamo.reset()
    cache, x, _ = arguments()
    before = cache.clone(), x.clone()
    compiled = compiled_of(function)
    with pytest.raises(IndexError, match="index 64 is out of bounds"):
        compiled(cache, x, torch.tensor([3]), torch.tensor([64]))
    torch.testing.assert_close((cache, x), before, rtol=0, atol=0)
    compiled(cache, x, torch.tensor([3]), torch.tensor([-1]))
    function(*before, torch.tensor([3]), torch.tensor([-1]))
    torch.testing.assert_close((cache, x), before)


def test_statistics_are_written_in_place_before_a_loss_that_may_fail() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.LazyLinear(10))
    loss = nn.CrossEntropyLoss()
    images, labels = torch.randn(4, 3, 8, 8), torch.tensor([1, 2, 3, 9])
    model(images)
    running: Any = model[1].running_mean

    def step(images: Tensor, labels: Tensor) -> Tensor:
        return loss(model(images), labels)

    torch._dynamo.reset()
    captured = capture(step, images, labels)[0]
    module = captured.module.clone()
    run_pipeline(make_context(), module, STAGES)
    calls = [op.overload for op in entry_block(module).ops if isinstance(op, host.ExternOp)]
    assert "aten.copy_.default" not in calls
    torch._dynamo.reset()
    compiled, before = compiled_of(step), running.clone()
    with pytest.raises(IndexError):
        compiled(images, labels + 1)
    assert torch.equal(running, before)
    compiled(images, labels).backward()
    assert not torch.equal(running, before)


@pytest.mark.parametrize("update", [a_slice, a_column, slices_that_overlap, by_index, a_shifted_slice])
def test_on_a_gpu(update: Update) -> None:
    torch._dynamo.reset()
    inputs = arguments()
    with torch.no_grad():
        (captured,) = capture(update, *inputs)
    check_on_gpu(captured.module, captured.inputs)
