"""What shares memory with what is as in eager: a caller that writes to a result must not change its input, or must."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import cuesta
from cuesta.context import make_context
from cuesta.dialects.core.entry import entry_block
from cuesta.pipeline import STAGES, run_pipeline
from tests.fuzz.calls import scope
from tests.support.levels import capture, check_levels

pytestmark = pytest.mark.slow

PROGRAMS: dict[str, Callable[[Tensor], tuple[Tensor, ...]]] = {
    "two flips": lambda x: (x.flip(0).flip(0),),
    "a part of two flips": lambda x: (x.flip(0).flip(0)[::2],),
    "one row of a flip, expanded": lambda x: (x.flip(0)[0].expand(4, 4),),
    "a flip transposed": lambda x: (x.flip(0).t(), x.flip(0)),
    "rolled back": lambda x: (x.roll(2, 0).roll(-2, 0),),
    "channels shuffled in one group": lambda x: ((y := x + 1), torch.nn.functional.channel_shuffle(y[None], 1)),
    "repeated once": lambda x: (x.repeat(1, 1),),
    "the same computed twice": lambda x: (x.exp(), x.exp()),
    "a result and a view of the same computed again": lambda x: (x.exp(), x.exp().t()),
    "views of the input": lambda x: (x.t(), x[1:], x.view(-1)),
    "a view, and a flip of it": lambda x: (x.t(), x.t().flip(0)),
    "an expression and its view": lambda x: ((y := x + 1), y.t()),
    "complex numbers repeated, and a part of them": lambda x: (
        (z := torch.complex(x, x * 2).repeat_interleave(2, 0)),
        z.real,
    ),
    "parts of views of complex numbers": lambda x: (
        (z := torch.complex(x, x * 2)).view(4, 8).real[None],
        z.view(-1).imag,
        torch.view_as_real(z.t()[1:]),
    ),
    "complex numbers as pairs, and in another shape": lambda x: (
        torch.view_as_real(z := torch.complex(x, x).repeat_interleave(2, -1)),
        z.view(-1),
        z,
    ),
    "complex numbers and their real parts": lambda x: ((z := torch.complex(x, x).exp().roll(4, 1)), z.real),
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


@pytest.mark.parametrize("name", PROGRAMS)
def test_changes_are_counted_as_in_eager(name: str) -> None:
    torch._dynamo.reset()
    function = PROGRAMS[name]
    counts: list[list[int]] = []
    for run in (function, torch.compile(function, backend="cuesta", fullgraph=True)):
        x = torch.randn(8, 4)
        results = run(x)
        torch.autograd.graph.increment_version(results[0])
        counts.append([one._version for one in (x, *results)])
    assert counts[0] == counts[1]


def _set_to(x: Tensor, value: Tensor) -> Tensor:
    x.data = value
    return value


SETS: dict[str, Callable[[Tensor, Tensor], tuple[Tensor, ...]]] = {
    "times one": lambda x, y: (_set_to(x, x.data * 2) * True,),
    "computed twice": lambda x, y: (_set_to(x, y * 2 + 1), y * 2 + 1)[1:],
    "computed twice by a library": lambda x, y: (_set_to(x, y @ y), y @ y)[1:],
    "a part of what is computed twice": lambda x, y: (_set_to(x, (y * 2)[1:]), (y * 2)[1:])[1:],
    "two inputs": lambda x, y: (_set_to(x, x.data * 2), _set_to(y, x.data * 1), y.neg())[2:],
    "what is returned": lambda x, y: (_set_to(x, y * 2),),
    "what is returned, transposed": lambda x, y: (_set_to(x, (y * 2).t()).t(),),
}
"""81017162 and its kin: what an input is set to, the caller has as well."""


@pytest.mark.parametrize("gradient", (False, True))
@pytest.mark.parametrize("name", SETS)
@pytest.mark.covering
def test_memory_that_an_input_is_set_to_is_its_own(name: str, gradient: bool) -> None:
    torch._dynamo.reset()
    function = SETS[name]

    def program(x: Tensor, y: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        return (w.sin(), *function(x, y))

    found: list[Any] = []
    for run in (program, torch.compile(program, backend="cuesta")):
        x, y, w = (torch.arange(16.0).view(4, 4) + k for k in range(3))
        tensors = [x, y, *run(x, y, w.requires_grad_(gradient))]
        pointers = [one.untyped_storage().data_ptr() for one in tensors]
        found.append([pointers.index(one) for one in pointers])
        found.append([one.tolist() for one in (x, y, *tensors[3:])])
    assert found[:2] == found[2:]


def test_a_view_of_a_result_that_changes_goes_on_with_all_sizes() -> None:
    def function(x: Tensor) -> Tensor:
        whole = x * 2
        part = whole.split([1, whole.shape[1] - 1], 1)[0]
        torch._dynamo.graph_break()
        whole.mul_(2)
        return part + 1

    torch._dynamo.reset()
    x = torch.randn(5, 4)
    torch._dynamo.maybe_mark_dynamic(x, 0)
    torch.testing.assert_close(torch.compile(function, backend="cuesta", dynamic=True)(x), function(x))


RESHAPES: dict[str, Callable[[Tensor], tuple[Tensor, ...]]] = {
    "flat": lambda x: (x.reshape(-1),),
    "a part of a flat one": lambda x: (x.reshape(-1).squeeze()[None, 1:],),
    "two dims as one, and what is computed": lambda x: (x.view(x.shape[0], -1), x * 2),
    "every second one": lambda x: (x[..., ::2].reshape(-1), x[..., ::2].flatten()[1:]),
    "a view of what is computed": lambda x: ((y := x + 1), y.view(-1)),
}


@pytest.mark.parametrize("name", RESHAPES)
@pytest.mark.parametrize("step", (1, 2))
@pytest.mark.covering
def test_reshapes_share_memory_where_strides_are_symbols(name: str, step: int) -> None:
    torch._dynamo.reset()
    function = RESHAPES[name]
    compiled = torch.compile(function, backend="cuesta")
    for sizes in ((1, 2, 1), (2, 3, 4), (5, 2, 3)):
        x = torch.randn(*sizes, step)[..., step - 1]
        expected, found = function(x), compiled(x)
        assert owners(x, found) == owners(x, expected)
        for ours, theirs in zip(found, expected, strict=True):
            assert torch.equal(ours, theirs) and ours.storage_offset() == theirs.storage_offset()


def test_a_reshape_of_a_part_is_a_view_whose_strides_have_two_spellings() -> None:
    """Half of what is left without one is half of one more, less one: how a view composed of views says it."""

    def function(x: Tensor) -> tuple[Tensor, ...]:
        rest = x.split([1, x.shape[0] - 1], 0)[1].reshape(2, 3, 4)
        return rest.permute(1, 2, 0).reshape(-1), rest.view_as(rest)

    compiled = torch.compile(function, backend="cuesta")
    torch._dynamo.reset()
    for sizes in ((4, 8), (9, 3), (3, 12)):
        x = torch.randn(sizes)
        torch._dynamo.maybe_mark_dynamic(x, 0)
        expected, found = function(x), compiled(x)
        assert owners(x, found) == owners(x, expected)
        for ours, theirs in zip(found, expected, strict=True):
            assert torch.equal(ours, theirs) and ours.storage_offset() == theirs.storage_offset()


@pytest.mark.parametrize("requires_grad", (False, True))
def test_a_view_of_a_product_counts_changes_with_it(requires_grad: bool) -> None:
    """A product of three dims ends in `_unsafe_view`: to functional tensors a view, to autograd none."""

    def function(x: Tensor) -> tuple[Tensor, ...]:
        square = torch.bmm(x[None], x[None].mT)
        product = square @ square.mT
        return product, product.unfold(0, 1, 1)

    torch._dynamo.reset()
    x = torch.randn(2, 3, requires_grad=requires_grad)
    for run in (function, torch.compile(function, backend="cuesta", fullgraph=True)):
        product, windows = run(x)
        torch.autograd.graph.increment_version(product)
        assert windows._version == product._version == 1


COPIED: dict[str, Callable[[Tensor], Tensor]] = {
    "by a reshape": lambda x: x.mT.reshape(-1),
    "by a product": lambda x: x[None] @ x.mT[None].sin(),
    "of complex numbers": lambda x: torch.view_as_real(torch.complex(x, x.sin()).mT.reshape(-1)).mT.reshape(-1),
    "by a product with a vector": lambda x: x.expand(2, *x.shape) @ x[0],
    "of a transform": lambda x: torch.func.vmap(lambda row: row.expand(3, -1).mT.reshape(-1))(x).mT.reshape(-1),
}


@pytest.mark.parametrize(("name", "dynamic"), [*((name, False) for name in COPIED), ("by a reshape", True)])
def test_a_copy_that_is_returned_twice_is_one_object(name: str, dynamic: bool) -> None:
    """A reshape that copies ends in `_unsafe_view`: what it gives is no view, and so is made anew nowhere. (PyTorch's
    product of sizes that are symbols ends in a view.)
    """

    def function(x: Tensor) -> tuple[Tensor, ...]:
        copied = COPIED[name](x)
        return copied, copied.contiguous(), copied.to(copied.dtype), copied.view(-1)

    torch._dynamo.reset()
    x, y = (torch.arange(12.0).view(3, 4).div(8).requires_grad_() for _ in range(2))
    expected, found = function(x), torch.compile(function, backend="cuesta", fullgraph=True, dynamic=dynamic)(y)
    assert found[0] is found[1] is found[2] and expected[0] is expected[1] is expected[2]
    assert owners(y, found) == owners(x, expected)
    for one, other in zip(expected, found, strict=True):
        torch.testing.assert_close(one, other)
    for one in (expected, found):
        torch.stack([part.sin().sum() for part in one]).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)


WRITABLE: dict[str, Callable[[Tensor], tuple[Tensor, ...]]] = {
    "a reshape and a part": lambda x: ((y := x.mT.reshape(-1)), y[1:]),
    "two parts of a reshape": lambda x: ((y := x.mT.sin().reshape(2, -1))[:, 1:], y[0]),
    "a product and its transpose": lambda x: ((y := x[None] @ x.mT[None]), y.mT),
    "of a scan": lambda x: ((y := scope.running(lambda a, b: a + b, x)), y.T),
}


@pytest.mark.parametrize("written", (0, 1))
@pytest.mark.parametrize("name", WRITABLE)
@pytest.mark.covering
def test_what_shares_memory_with_another_result_may_be_written_to(name: str, written: int) -> None:
    """Autograd lets nobody write to a view that a function of its own has made: the base is none (41009840)."""
    torch._dynamo.reset()
    function, compiled = WRITABLE[name], torch.compile(WRITABLE[name], backend="cuesta", fullgraph=True)
    seen: list[list[Tensor]] = []
    for run in (function, compiled):
        x = torch.arange(12.0).view(3, 4).div(8).requires_grad_()
        results = run(x)
        results[written].mul_(3)
        assert results[0]._version == results[1]._version == 1
        sum((one.sin().sum() for one in results), torch.tensor(0.0)).backward()
        assert x.grad is not None
        seen.append([*results, x.grad])
    for one, other in zip(*seen, strict=True):
        torch.testing.assert_close(one, other)


DETACHED: dict[str, tuple[Callable[[Tensor], tuple[Tensor, ...]], int]] = {
    "parts of a view": (lambda x: ((y := x.mT.sin().reshape(2, -1))[:, 1:], y[0]), 1),
    "parts of what is no view": (lambda x: ((y := x @ x.mT).view(-1), y[0]), 0),
    "a view and what it is of": (lambda x: ((y := x.sin()), y.mT), 0),
    "a view alone": (lambda x: (x.mT.sin().reshape(2, -1),), 0),
    "a view of what is saved": (lambda x: ((y := (x @ x.mT)[None].squeeze(0)).mT, (y.sin() @ y.mT).sum()), 0),
}


@pytest.mark.parametrize("name", DETACHED)
def test_only_views_that_results_are_made_of_are_detached(name: str) -> None:
    """That is a call of eager's in a forward pass, and costs."""
    torch._dynamo.reset()
    cuesta.clear_records()
    function, calls = DETACHED[name]
    torch.compile(function, backend="cuesta", fullgraph=True)(torch.ones(3, 4).requires_grad_())
    assert cuesta.records[0].fallbacks["aten.detach.default"] == calls


OF_SIZES_THAT_DATA_KNOWS: dict[str, Callable[[Tensor], tuple[Tensor, ...]]] = {
    "a permutation that changes nothing": lambda x: ((y := x.nonzero() % 3).permute(0, 1), y),
    "transposed, and a part": lambda x: ((y := x.nonzero() % 3), y.T, y[:, 1:]),
    "in another shape": lambda x: ((y := x.nonzero() % 3).view(y.shape), y),
}


@pytest.mark.parametrize("name", OF_SIZES_THAT_DATA_KNOWS)
def test_memory_of_a_size_that_only_the_data_knows_is_shared(name: str) -> None:
    """The stride beside it is max(u, 1), which is u where there is an element (51012526)."""
    function = OF_SIZES_THAT_DATA_KNOWS[name]
    for count in (5, 1, 0):
        torch._dynamo.reset()
        x = torch.arange(6.0).view(2, 3).flip(0).clamp(max=count) * (torch.arange(6).view(2, 3) < count)
        expected = function(x)
        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
            found = torch.compile(function, backend="cuesta", fullgraph=True)(x)
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
        assert owners(x, found) == owners(x, expected)
        if len(expected[0]) > 1:
            assert [one.stride() for one in found] == [one.stride() for one in expected]


@pytest.mark.parametrize("requires_grad", (False, True))
def test_an_unsafe_view_of_what_is_written_to_sees_it(requires_grad: bool) -> None:
    """Whoever calls it says that nothing else sees what it is of, which need not be so."""

    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = x * 2
        z = torch.ops.aten._unsafe_view(y, [6])
        y.add_(1)
        return z * 3, y.sin()

    torch._dynamo.reset()
    x = torch.arange(6.0).view(2, 3).requires_grad_(requires_grad)
    for one, other in zip(function(x), torch.compile(function, backend="cuesta", fullgraph=True)(x), strict=True):
        torch.testing.assert_close(one, other)


UNSAFE_PARTS: dict[str, Callable[[Tensor], Any]] = {
    "chunks": lambda x: torch.unsafe_chunk(x, 2),
    "a method": lambda x: x.unsafe_split_with_sizes([1, 3]),
    "an overload": lambda x: torch.ops.aten.unsafe_split.Tensor(x, 3),
}


@pytest.mark.parametrize("is_made", [False, True], ids=["of an input", "of what is made"])
@pytest.mark.parametrize("name", UNSAFE_PARTS)
def test_unsafe_parts_of_what_is_written_to_see_it(name: str, is_made: bool) -> None:
    def function(x: Tensor) -> Any:
        y = x * 1 if is_made else x
        parts = UNSAFE_PARTS[name](y)
        y.mul_(2)
        parts[1].add_(1)
        return y, *parts

    torch._dynamo.reset()
    given, meant = torch.arange(4.0), torch.arange(4.0)
    found = torch.compile(function, backend="cuesta")(given)
    torch.testing.assert_close([given, *found], [meant, *function(meant)], rtol=0, atol=0)


@pytest.mark.parametrize("updated", (lambda y: y, lambda y: y + 1), ids=("by itself", "by what is computed"))
def test_a_view_of_what_a_list_operator_updates_begins_where_the_input_does(
    updated: Callable[[Tensor], Tensor],
) -> None:
    """One of the tensors that `_foreach_copy` gives is no view of its first argument."""

    def function(y: Tensor) -> Tensor:
        torch._foreach_copy_([y], [updated(y)])  # pyright: ignore[reportPrivateImportUsage]  # there is no other name
        return y.expand(2, *y.shape)

    torch._dynamo.reset()
    compiled = torch.compile(function, backend="cuesta")
    for size in (3, 5):
        bases = [torch.arange(2.0 * size).view(size, 2) for _ in range(2)]
        given = [base[:, 1] for base in bases]
        torch._dynamo.maybe_mark_dynamic(given[0], 0)
        found, expected = compiled(given[0]), function(given[1])
        assert torch.equal(found, expected) and torch.equal(*bases)
        assert found.storage_offset() == expected.storage_offset() == 1


AS_ANOTHER_TYPE: dict[str, Callable[[Tensor], tuple[Tensor, ...]]] = {
    "as many bits": lambda x: (x[:, 1:].view(torch.int32).split([1, x.shape[1] - 2], 1)[0],),
    "fewer bits": lambda x: (x.view(torch.int16)[:, : x.shape[1]], x + 1),
    "fewer bits, detached": lambda x: (x.view(torch.float16)[:, : x.shape[1]].detach(),),
    "and back": lambda x: (x.view(torch.int16)[:, 2:].view(torch.float32),),
}


@pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager. .*of sizes that change")
@pytest.mark.parametrize("name", AS_ANOTHER_TYPE)
def test_an_input_read_as_another_type_is_returned_as_that(name: str) -> None:
    """AOTAutograd would make such a result anew with strides that count numbers of the input's type."""
    torch._dynamo.reset()
    function = AS_ANOTHER_TYPE[name]
    compiled = torch.compile(function, backend="cuesta", dynamic=True)
    for sizes in ((3, 5), (4, 6)):
        x = torch.randn(sizes)
        expected, found = function(x), compiled(x)
        assert owners(x, found) == owners(x, expected)
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.dtype == theirs.dtype
            assert torch.equal(ours.view(torch.uint8), theirs.view(torch.uint8))


def swap(x: Tensor, y: Tensor) -> None:
    kept = x.clone()
    x.copy_(y)
    y.copy_(kept)


def swap_transposed(x: Tensor, y: Tensor) -> None:
    kept = x.t().clone()
    x.copy_(y.t())
    y.copy_(kept)


def change_and_return(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    before = x.clone()
    x.add_(y)
    return x, x.t(), before, x * 2


def change_a_part(x: Tensor, y: Tensor) -> Tensor:
    x[1:3].mul_(y[0])
    return y + x.sum()


def change_by_rows(x: Tensor, y: Tensor) -> Tensor:
    x.copy_(x.softmax(-1))
    return (x @ y).relu()


def change_after_a_library_call(x: Tensor, y: Tensor) -> None:
    x.copy_(torch.tanh(x @ y) + x)


def change_both(x: Tensor, y: Tensor) -> Tensor:
    x.mul_(2)
    y.copy_(x.flip(0))
    return x * y


def change_through_a_view(x: Tensor, y: Tensor) -> Tensor:
    row = x.view(-1)[4:8]
    row.sigmoid_()
    return row + y[0]


CHANGES: tuple[Callable[..., object], ...] = (
    swap,
    swap_transposed,
    change_and_return,
    change_a_part,
    change_by_rows,
    change_after_a_library_call,
    change_both,
    change_through_a_view,
)


@pytest.mark.parametrize("function", CHANGES)
def test_inputs_change_as_in_eager(function: Callable[..., object]) -> None:
    torch._dynamo.reset()
    inputs = torch.randn(4, 4), torch.randn(4, 4)
    ours, theirs = [x.clone() for x in inputs], [x.clone() for x in inputs]
    expected = function(*theirs)
    found = torch.compile(function, backend="cuesta", fullgraph=True)(*ours)
    torch.testing.assert_close((found, ours), (expected, theirs))
    if isinstance(expected, tuple) and isinstance(found, tuple):
        assert owners(ours[0], found) == owners(theirs[0], expected)


@pytest.mark.parametrize(
    "function",
    [pytest.param(one, marks=pytest.mark.thorough if one in (swap_transposed, change_both) else ()) for one in CHANGES],
)
def test_changes_of_inputs_are_the_same_at_every_level(function: Callable[..., object]) -> None:
    """Two that are much like `swap` by `make test-thorough`."""
    with torch.no_grad():
        (captured,) = capture(function, torch.randn(4, 4), torch.randn(4, 4))
    check_levels(captured, reenter_at_levels=False)


def test_an_optimizer_step_writes_its_state_where_it_is() -> None:
    def step(parameter: Tensor, gradient: Tensor, momentum: Tensor) -> None:
        momentum.mul_(0.9).add_(gradient)
        parameter.sub_(momentum, alpha=0.1)

    with torch.no_grad():
        (captured,) = capture(step, *(torch.randn(64, 33) for _ in range(3)))
        module = captured.module.clone()
        run_pipeline(make_context(), module, STAGES)
    names = [op.name for op in entry_block(module).ops]
    assert names == ["host.launch", "host.free", "host.return"]


@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_view_of_a_part_that_changes_begins_where_eagers_does(requires_grad: bool) -> None:
    """Its size is a symbol, so AOTAutograd makes the view anew from where ours begins."""

    def function(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        first, rest = x.split([1, x.shape[0] - 1], 0)
        first.select(0, 0).fill_(0)
        return first, rest[1:], (x * w).sum()

    def called(run: Callable[..., tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        x, w = torch.arange(8.0)[3:7], torch.ones(4, requires_grad=requires_grad)
        return *run(x, w)[:2], x

    torch._dynamo.reset()
    for ours, theirs in zip(
        called(torch.compile(function, backend="cuesta", dynamic=True)), called(function), strict=True
    ):
        assert torch.equal(ours, theirs) and ours.storage_offset() == theirs.storage_offset()


@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_view_through_another_shape_begins_where_eagers_does(requires_grad: bool) -> None:
    """What is written back is itself a view of what is computed: of one row."""

    def function(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        flat = x.flatten()[::2]
        flat.narrow(0, 3, 1).mul_(2)
        return flat, x.view(-1, 2)[1:], (x * w).sum()

    def called(run: Callable[..., tuple[Tensor, ...]], size: int) -> tuple[Tensor, ...]:
        x, w = torch.arange(4.0 * size).view(size, 4)[1:-1], torch.ones(4, requires_grad=requires_grad)
        return *run(x, w)[:2], x

    torch._dynamo.reset()
    compiled = torch.compile(function, backend="cuesta")
    for size in (5, 7, 9):
        for ours, theirs in zip(called(compiled, size), called(function, size), strict=True):
            assert torch.equal(ours, theirs) and ours.storage_offset() == theirs.storage_offset()


UPDATED: dict[str, Callable[[Tensor], Tensor]] = {
    "all but the last": lambda x: x[: x.shape[0] - 1],
    "transposed, and cut": lambda x: x.t()[: x.shape[1] - 1, 1:],
    "a row, expanded": lambda x: x[x.shape[0] - 2].unsqueeze(0).expand(x.shape[0], 3),
    "windows": lambda x: x.narrow(0, 1, x.shape[0] - 1).unfold(0, 2, 1),
    "another shape": lambda x: x.view(x.shape[0], 3, 1)[: x.shape[0] - 1],
    "the second": lambda x: x[1:],
}
LYING: dict[str, Callable[[int], Tensor]] = {
    "with gaps": lambda size: torch.arange(6.0 * size).view(size, 3, 2)[..., 1],
    "later": lambda size: torch.arange(3.0 * size + 5)[5:].view(size, 3),
    "across": lambda size: torch.arange(3.0 * size + 2)[2:].view(3, size).t(),
    "alone": lambda size: torch.arange(3.0 * size).view(size, 3),
    "first, then later": lambda size: torch.arange(4.0 * size)[size - 4 : 4 * size - 4].view(size, 3),
}


@pytest.mark.parametrize("lying", LYING)
@pytest.mark.parametrize("name", UPDATED)
@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager. a view of an input of sizes that change")
@pytest.mark.covering(2)
def test_a_view_of_what_was_updated_lies_where_it_does(name: str, lying: str, training: bool) -> None:
    """51001150: what is computed for the update has no gaps, and begins at 0; the argument need not. 300001573: where
    it begins in the first call says nothing of the next.
    """

    def function(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        x.div_(x.abs() + 1)
        return UPDATED[name](x), w * x.detach().sum()

    torch._dynamo.reset()
    compiled = torch.compile(function, backend="cuesta", dynamic=True)
    for size in (4, 6, 9):
        w = torch.ones(2, requires_grad=training)
        ours, theirs = LYING[lying](size), LYING[lying](size)
        (found, sums), (expected, _) = compiled(ours, w), function(theirs, w)
        assert torch.equal(ours, theirs) and torch.equal(found, expected) and sums.requires_grad == training
        assert found.stride() == expected.stride() and found.storage_offset() == expected.storage_offset()
        ours.add_(1)
        assert torch.equal(found, expected + 1)


@pytest.mark.parametrize("backend", ["cuesta", "aot_eager"])
def test_what_is_written_to_beside_a_view_of_it_has_other_sizes_later(backend: str) -> None:
    """300018006: no guard can tell the sizes that AOTAutograd asks for, where x is called the base of the view."""

    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        x[1:].copy_(x[:-1].clone())
        return y, y * 2

    torch._dynamo.reset()
    compiled = torch.compile(function, backend=backend)
    x = torch.ones(1, 1)
    compiled(x, x.T)
    ours, theirs = (torch.arange(6.0).view(3, 2).clone() for _ in range(2))
    if backend != "cuesta":
        with pytest.raises(Exception, match="list index out of range"):  # or there need be nothing of ours
            compiled(ours, ours.T)
        return
    expected = function(theirs, theirs.T)
    for _ in range(2):
        for one, other in zip(compiled(ours, ours.T), expected, strict=True):
            assert torch.equal(one, other)
        ours = torch.arange(6.0).view(3, 2).clone()
    ours, theirs = (torch.arange(20.0).view(4, 5).clone() for _ in range(2))
    assert torch.equal(compiled(ours, ours.T)[1], function(theirs, theirs.T)[1]) and torch.equal(ours, theirs)


def test_what_is_detached_and_returned_twice_is_one_tensor() -> None:
    def function(x: Tensor, z: Tensor) -> tuple[Tensor, ...]:
        detached = x.exp().detach()
        return z * 2, detached, detached.contiguous()

    torch._dynamo.reset()
    x, z = torch.randn(2, 2), torch.randn(2, requires_grad=True)
    _, first, second = torch.compile(function, backend="cuesta")(x, z)
    assert first is second and not first.requires_grad


@pytest.mark.parametrize("kind", ["plain", "gradient", "subclass"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.covering
def test_what_is_one_object_is_one_object_wherever_it_is_returned(kind: str, dynamic: bool) -> None:
    """71000778. AOTAutograd makes a subclass, or a view that has a gradient, anew for each result."""

    def function(x: Any) -> tuple[Any, ...]:
        v = (x * 2)[1:]
        w = v.add_(1)
        return v, v.contiguous(), w, v.view(v.shape), x, v.to(v.dtype)

    def called(run: Any) -> tuple[Any, ...]:
        x = torch.arange(6.0).view(3, 2).requires_grad_(kind == "gradient")
        results = run(scope.Pair(x, x + 1) if kind == "subclass" else x)
        if kind == "gradient":
            results[1].sum().backward()
            results = (*results, x.grad)
        return results

    torch._dynamo.reset()
    ours, theirs = called(torch.compile(function, backend="cuesta", dynamic=dynamic)), called(function)
    assert [[a is b for a in ours] for b in ours] == [[a is b for a in theirs] for b in theirs]
    assert ours[0] is ours[1] and ours[0] is not ours[3]
    if kind == "gradient":
        assert torch.equal(ours[-1], theirs[-1])


def test_an_input_is_one_object_beside_inputs_that_share_memory() -> None:
    """93000393. To AOTAutograd of torch 2.13 it has another number then, and is made anew."""

    def function(x: Tensor, view: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        x.mul_(3)
        return view + 1, y.to(y.dtype), y.contiguous()

    torch._dynamo.reset()
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([1, 2])
    ours = torch.compile(function, backend="cuesta")(x, view := x.expand(2, 2), y)
    assert ours[1] is y and ours[2] is y and torch.equal(x, torch.tensor([3.0, 6.0])) and torch.equal(ours[0], view + 1)


def test_a_view_of_a_result_stays_one_beside_a_complex_result() -> None:
    """Only of what lies in the complex result's memory AOTAutograd makes another view. Of two tensors that share memory
    without either being a view it can make no graph that writes to one and has sizes that change.
    """

    def first(x: Tensor, z: Tensor) -> tuple[Tensor, ...]:
        y = torch.empty_like(x)
        torch.sin(x, out=y)
        x.cumsum_(0)
        return x - z, y, y.permute(1, 2, 0)

    def then(y: Tensor, turned: Tensor) -> Tensor:
        turned.mul_(2)
        return y.view(-1) + 1

    torch._dynamo.reset()
    x, z = torch.randn(2, 1, 7), torch.randn(7, dtype=torch.complex64)
    made, run = (torch.compile(one, backend="cuesta", dynamic=True) for one in (first, then))
    expected, found = first(x.clone(), z), made(x.clone(), z)
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours._base is None) == (theirs._base is None)
    torch.testing.assert_close(run(*found[1:]), then(*expected[1:]))


@pytest.mark.parametrize("order", ["before", "after", "both"])
def test_nothing_changes_when_an_index_is_out_of_range(order: str) -> None:
    def function(x: Tensor, y: Tensor, rows: Tensor) -> Tensor:
        if order != "after":
            x.add_(1)
        result = y[rows] * 2
        if order != "before":
            x.mul_(2).sub_(3)
        return result

    torch._dynamo.reset()
    x, y = torch.zeros(4), torch.randn(4)
    compiled = torch.compile(function, backend="cuesta", fullgraph=True)
    with pytest.raises(IndexError):
        compiled(x, y, torch.tensor([0, 4]))
    assert torch.equal(x, torch.zeros(4))


@pytest.mark.slow
def test_what_is_kept_for_the_backward_pass_is_not_written_over() -> None:
    def function(x: Tensor, weight: Tensor) -> Tensor:
        for _ in range(3):
            x = torch.tanh(x @ weight).sigmoid() + x
        return x

    torch._dynamo.reset()
    x = torch.randn(8, 8, requires_grad=True)
    weight = torch.randn(8, 8, requires_grad=True)
    result = torch.compile(function, backend="cuesta", fullgraph=True)(x, weight)
    expected = torch.autograd.grad(function(x, weight).sum(), (x, weight))
    for _ in range(2):  # the graph is kept: a second pass finds what the first found
        found = torch.autograd.grad(result.sum(), (x, weight), retain_graph=True)
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ((v := x.sin())[0], v.detach()),
        lambda x: ((v := x.sin()).detach(), v[0], v),
        lambda x: ((v := x.sin()).detach()[1:], v.expand(2, 4, 3)),
        lambda x: ((v := x.sin()).detach().split(2)[1], v[0]),
        lambda x: ((x * 2).detach(), x.exp().detach().sum()),
    ],
    ids=["after a view", "before a view", "a part", "a piece", "alone"],
)
def test_what_is_detached_has_no_gradient(function: Callable[[Tensor], tuple[Tensor, ...]]) -> None:
    """Beside views of the same memory: it would be one of them, and have the gradient of their base."""
    torch._dynamo.reset()
    x = torch.randn(4, 3, requires_grad=True)
    results, expected = torch.compile(function, backend="cuesta")(x), function(x)
    assert [one.requires_grad for one in results] == [one.requires_grad for one in expected]
    shares = [
        [one.untyped_storage().data_ptr() == each[0].untyped_storage().data_ptr() for one in each]
        for each in (results, expected)
    ]
    assert shares[0] == shares[1]
    for one, other in zip(results, expected, strict=True):
        torch.testing.assert_close(one, other)
