"""Calls that mean more in eager than in a functional graph: what their arguments may be, and what a flag changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._higher_order_ops import while_loop
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import cuesta
from tests.support.differential import check, compiled_of

aten = torch.ops.aten
deterministic: Any = torch.utils.deterministic


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    cuesta.clear_records()


def nothing_in_eager() -> None:
    """Everything was compiled, and no operator fell back."""
    assert cuesta.records
    assert not any(record.fallbacks for record in cuesta.records)


# -- arguments ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [F.mse_loss, F.huber_loss, F.binary_cross_entropy])
def test_the_gradient_of_a_loss_of_tensors_of_two_types(loss: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Eager refuses those of some losses, by the version of torch, and some losses themselves; so do we."""
    torch._dynamo.reset()

    def gradient(run: Callable[[Tensor, Tensor], Tensor]) -> Tensor | str:
        x, y = torch.tensor([0.25, 0.5], requires_grad=True), torch.tensor([0.5, 1.0], dtype=torch.bfloat16)
        try:
            return torch.autograd.grad(run(x, y), x)[0]
        except RuntimeError as error:
            return str(error)

    expected, actual = gradient(loss), gradient(compiled_of(loss))
    if isinstance(expected, str):
        assert actual == expected
    else:
        torch.testing.assert_close(actual, expected)


def test_filling_places_of_what_lies_otherwise() -> None:
    """PyTorch's decomposition of torch 2.11 ends in a graph that AOTAutograd refuses."""
    for x in (torch.randn(5, 2)[..., 1], torch.randn(4, 5).t(), torch.randn(5, 1).expand(5, 4)):
        torch._dynamo.reset()
        check(lambda x: (x.index_fill(0, torch.tensor([0, 2]), 3), x + 1), x)


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("targets", [[1, 2, 0], 2, [1, -100, 7]], ids=str)
def test_a_loss_of_one_sample(reduction: int, targets: list[int] | int) -> None:
    """With as many targets as classes the first is meant."""
    total, weight = torch.tensor(3.0), torch.tensor([0.5, 2.0, 3.0])
    check(
        lambda x, t, w: aten.nll_loss_backward(torch.ones(()), x, t, w, reduction, -100, total),
        torch.randn(3),
        torch.tensor(targets),
        weight,
        truth=False,
    )
    nothing_in_eager()


def test_a_loss_of_one_sample_and_another_number_of_targets() -> None:
    with pytest.raises(RuntimeError, match="size mismatch"):
        compiled_of(lambda x, t: aten.nll_loss_backward(torch.ones(()), x, t, None, 1, -100, torch.ones(())))(
            torch.randn(5), torch.tensor([1, 2, 3])
        )


ANY_INDICES = {
    "of other windows": torch.tensor([[[[15, 3], [7, 0]]]]),
    "all the same": torch.full((1, 1, 2, 2), 6),
    "of their windows": torch.tensor([[[[0, 3], [9, 14]]]]),
}


@pytest.mark.parametrize("name", ANY_INDICES)
def test_the_gradient_of_a_pooling_with_given_indices(name: str) -> None:
    def function(gradient: Tensor, x: Tensor, indices: Tensor) -> Tensor:
        return aten.max_pool2d_with_indices_backward(gradient, x, [2, 2], [2, 2], [0, 0], [1, 1], False, indices) * 2

    check(function, torch.randn(1, 1, 2, 2), torch.randn(1, 1, 4, 4), ANY_INDICES[name])
    check(function, torch.randn(3, 1, 2, 2), torch.randn(3, 1, 4, 4), ANY_INDICES[name].expand(3, 1, 2, 2))
    nothing_in_eager()


def test_the_gradient_of_a_pooling_in_three_dims_with_given_indices() -> None:
    def function(gradient: Tensor, x: Tensor, indices: Tensor) -> Tensor:
        return aten.max_pool3d_with_indices_backward(
            gradient, x, [2], [2], padding=[0], dilation=[1], ceil_mode=False, indices=indices
        )

    check(function, torch.randn(2, 3, 1, 2, 2), torch.randn(2, 3, 2, 4, 4), torch.randint(0, 32, (2, 3, 1, 2, 2)))


def test_the_gradient_of_a_pooling_by_what_another_found() -> None:
    """In a training step, where the indices are found by a pooling: but by windows of another stride."""

    def function(x: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
        values, indices = aten.max_pool2d_with_indices(x * 1.0, [2, 2], [1, 1])
        indices = indices[:, :, ::2, :1].expand(1, 1, 2, 2)
        detached = x.detach()
        return values, aten.max_pool2d_with_indices_backward(
            gradient, detached, [2, 2], [2, 2], [0, 0], [1, 1], False, indices
        )

    check(function, torch.randn(1, 1, 4, 4, requires_grad=True), torch.randn(1, 1, 2, 2))


@pytest.mark.parametrize("window", [(2, 2), (3, 1, 1), (3, 2, 1)], ids=str)
@pytest.mark.slow
def test_the_gradient_of_a_pooling_by_what_it_found_is_a_gather(window: tuple[int, ...], tmp_path: Path) -> None:
    """The usual training step: nothing is scattered, which would cost more."""
    x = torch.randn(2, 3, 9, 9, requires_grad=True)
    pooling: Any = F.max_pool2d
    check(lambda x: pooling(x.sin(), *window), x, options={"dump": str(tmp_path)})
    texts = "".join(path.read_text() for path in tmp_path.rglob("fx.py"))
    assert "max_pool2d_with_indices_backward" in texts
    assert "adaptive" not in texts


Lists = tuple[list[int], list[int], list[int], list[int], int]
TRILINEAR: dict[str, tuple[list[tuple[int, ...]], Lists]] = {
    "rank 0": ([(), (), ()], ([0], [0], [0], [0], 0)),
    "rank 0, nothing summed": ([(), (), ()], ([0], [0], [0], [], 0)),
    "all expand a summed dim": ([(3,), (3,), (3,)], ([0], [0], [0], [0], 1)),
    "all expand, which is unrolled": ([(3,), (3,), (3,)], ([0], [0], [0], [0], 0)),
    "all expand a dim that stays": ([(3,), (3,), (3,)], ([1], [1], [1], [], 0)),
    "rank 0 and 1": ([(), (4,), (4,)], ([0], [], [], [], 0)),
    "expanded backwards": ([(5, 2), (3, 2), (5, 3)], ([-2], [0], [2], [1, -1], 2)),
    "bilinear": ([(2, 3), (5, 3, 4), (2, 4)], ([1, 3], [0], [1, 2], [2, 3], 1)),
    "nothing": ([(0, 3), (0, 3, 4), (0, 4)], ([1, 3], [0], [1, 2], [2, 3], 1)),
    "no samples": ([(0, 3), (5, 3, 4), (0, 4)], ([1, 3], [0], [1, 2], [2, 3], 1)),
    "no features": ([(2, 0), (5, 0, 4), (2, 4)], ([1, 3], [0], [1, 2], [2, 3], 1)),
    "no results": ([(2, 3), (0, 3, 4), (2, 4)], ([1, 3], [0], [1, 2], [2, 3], 1)),
    "nothing of one": ([(0,), (4,), (4,)], ([], [], [], [], 0)),
}


@pytest.mark.parametrize("name", TRILINEAR)
@pytest.mark.every(2)
def test_trilinear(name: str) -> None:
    sizes, lists = TRILINEAR[name]
    check(lambda a, b, c: aten._trilinear(a, b, c, *lists), *[torch.randn(size) for size in sizes])
    nothing_in_eager()


def test_trilinear_without_the_dim_that_is_unrolled() -> None:
    one = torch.ones(())
    with pytest.raises(RuntimeError, match=r"unroll_dim must be in \[0,0\]"):
        compiled_of(lambda x: aten._trilinear(x, x, x, [0], [0], [0], [0], 1))(one)


# -- memory that nobody has written ------------------------------------------------------------------------------------

EMPTY: dict[str, Callable[[Tensor], Tensor]] = {
    "empty": lambda x: torch.empty(2, 3, dtype=x.dtype),
    "channels last": lambda x: torch.empty(2, 3, 2, 2, dtype=x.dtype, memory_format=torch.channels_last),
    "empty_like": lambda x: torch.empty_like(x.t()),
    "empty_strided": lambda x: torch.empty_strided((2, 3), (1, 2), dtype=x.dtype),
    "empty_permuted": lambda x: torch.empty_permuted((2, 3, 4), (1, 0, 2), dtype=x.dtype),
    "new_empty": lambda x: x.new_empty(3, 2),
    "in part": lambda x: torch.empty(4, 3, dtype=x.dtype).index_copy(0, torch.tensor([1, 2]), x),
}


@pytest.fixture
def _deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


TYPES = [torch.float32, torch.bfloat16, torch.float64, torch.int32, torch.uint8, torch.bool, torch.complex64]


@pytest.mark.usefixtures("_deterministic")
@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[pytest.mark.slow] * (place > 2)) for place, one in enumerate(EMPTY)]
)
def test_empty_is_filled_under_deterministic_algorithms(name: str) -> None:
    for dtype in TYPES:
        check(EMPTY[name], torch.ones(2, 3).to(dtype), truth=False)


@pytest.mark.usefixtures("_deterministic")
def test_empty_is_filled_in_training() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.cat([x * 2, torch.empty(3)])

    check(function, torch.ones(3, requires_grad=True))


def test_what_is_compiled_with_the_flag_is_not_used_without() -> None:
    compiled = compiled_of(lambda x: torch.empty(3) + x * 0)
    x = torch.ones(3)
    for filled in (False, True, False, True):
        torch.use_deterministic_algorithms(filled)
        try:
            assert compiled(x).isnan().all() == filled
        finally:
            torch.use_deterministic_algorithms(False)
    before = deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    deterministic.fill_uninitialized_memory = False
    torch._dynamo.reset()
    try:
        assert not compiled(x).isnan().any()
    finally:
        deterministic.fill_uninitialized_memory = before
        torch.use_deterministic_algorithms(False)


# -- updates of elements that are one number in memory -----------------------------------------------------------------


def _assign(x: Tensor) -> Tensor:
    x.expand(3, 4)[:2] = torch.ones(2, 4)
    return x


def _add(x: Tensor) -> Tensor:
    expanded = x.expand(3, 4)
    expanded += 1
    return expanded


def test_an_operator_of_pythons_is_no_update() -> None:
    """95001093: `operator.and_` was taken for one by its name, and eager ran the graph, with a warning."""
    x = torch.arange(4).expand(3, 4)
    cuesta.clear_records()
    check(lambda x: ((x & 3) | (x[:1] << 1), (x.sum() > 0) & (x[0] > 1)), x)
    assert len(cuesta.records) == 1


REFUSED: dict[str, Callable[[Tensor], Any]] = {
    "add_": lambda x: x.expand(3, 4).add_(1),
    "+=": _add,
    "of a view": lambda x: x.sin().expand(3, 4).t()[1:].mul_(2),
    "overload": lambda x: aten.add_.Tensor(x.expand(3, 4), x),
    "out": lambda x: torch.add(x.expand(3, 4), 1, out=x.expand(3, 4)),
    "inplace": lambda x: F.relu(x.expand(3, 4), inplace=True),
    "dropout": lambda x: F.dropout(x.expand(3, 4), inplace=True),
    "foreach": lambda x: aten._foreach_add_.Scalar([x + 1, x.expand(3, 4)], 1),
    "copy_": lambda x: x.expand(3, 4).copy_(torch.ones(3, 4)),
    "assigned": _assign,
}
LEFT_TO_EAGER = pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager. .*one number in memory")


@LEFT_TO_EAGER
@pytest.mark.parametrize("name", REFUSED)
def test_an_update_that_eager_refuses(name: str) -> None:
    function = REFUSED[name]
    for call in (function, compiled_of(function)):
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            call(torch.ones(1, 4))


def _assign_row(x: Tensor) -> Tensor:
    x.expand(3, 4)[1] = torch.tensor([1.0, 2.0, 3.0, 4.0])
    return x * 2


WRITTEN: dict[str, Callable[[Tensor], Tensor]] = {
    "fill_": lambda x: x.clone().expand(3, 4).fill_(2.0) + 1,
    "zero_": lambda x: x.expand(3, 4).zero_() + x,
    "one row": lambda x: x.expand(3, 4)[1].add_(1) + x,
    "assigned": _assign_row,
}


@LEFT_TO_EAGER
@pytest.mark.parametrize("name", WRITTEN)
def test_an_update_that_eager_does(name: str) -> None:
    """AOTAutograd would make the sum of the three rows of it."""
    check(WRITTEN[name], torch.ones(1, 4))
    check(lambda x: x[1].add_(1) * 2, torch.ones(1, 4).expand(3, 4))


DERIVED: dict[str, Callable[[Tensor], Any]] = {
    "jvp": lambda x: torch.func.jvp(lambda x: (x * x).sum(-1), (x,), (torch.arange(15.0).view(3, 5),)),
    "jacfwd": lambda x: torch.func.jacfwd(lambda x: x.sin().cumsum(0))(x),
    "hessian": lambda x: torch.func.hessian(lambda x: (x * x * x).sum())(x),
}


@LEFT_TO_EAGER
@pytest.mark.filterwarnings("ignore:.*performance drop because we have not yet implemented the batching rule")
@pytest.mark.parametrize("name", DERIVED)
@pytest.mark.every(2)
def test_a_forward_derivative_by_what_shares_elements(name: str) -> None:
    """Eager writes tangents to where the elements lie, and of those of one place one is left."""
    x = torch.arange(1.0, 36.0)
    for strides in ((1, 1), (2, 1), (5, 1), (7, 1)):
        cuesta.clear_records()
        torch._dynamo.reset()
        given = x.as_strided((3, 5), strides, 1)
        have, want = compiled_of(DERIVED[name])(given), DERIVED[name](given)
        torch.testing.assert_close(have, want)
        assert bool(cuesta.records) == (strides[0] >= 5)
    by_one = DERIVED[name](x.as_strided((3, 5), (1, 1), 1).contiguous())
    given = DERIVED[name](x.as_strided((3, 5), (1, 1), 1))
    pairs = zip(*(one if isinstance(one, tuple) else (one,) for one in (given, by_one)), strict=True)
    assert not all(torch.allclose(one, other) for one, other in pairs), "eager has mended it: generate it"


def _with_gaps(write: Callable[[Tensor], Any]) -> Callable[[Tensor], Tensor]:
    def function(x: Tensor) -> Tensor:
        doubled = x * 2
        write(doubled)
        write(x)
        return doubled

    return function


WINDOWS: dict[str, Callable[[Tensor], Any]] = {
    "not all": lambda x: x.unfold(0, 3, 3).zero_(),
    "gaps": lambda x: x.unfold(0, 2, 3).mul_(3),
    "a view of windows": lambda x: x.view(2, 5).unfold(1, 2, 2)[0, 1:].t().add_(1),
    "a part of windows": lambda x: x.unfold(0, 2, 3).chunk(2)[0].neg_(),
    "what was written to": lambda x: x.unfold(0, 2, 4).add_(1).mul_(2),
    "all": lambda x: x.unfold(0, 2, 2).zero_(),
    "read": lambda x: x.add_(x.unfold(0, 3, 3).sum()),
}


@pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager. .*windows that leave elements out")
@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("dynamic", (None, True))
def test_an_update_of_windows(name: str, dynamic: bool | None) -> None:
    """AOTAutograd would make 0 of what no window holds (`unfold_inverse`)."""
    torch._dynamo.reset()
    cuesta.clear_records()
    function, x = _with_gaps(WINDOWS[name]), torch.arange(1.0, 11.0)
    mine = x.clone()
    compiled = torch.compile(function, backend="cuesta", fullgraph=True, dynamic=dynamic)
    torch.testing.assert_close(compiled(mine), function(x), rtol=0, atol=0)
    torch.testing.assert_close(mine, x, rtol=0, atol=0)
    assert bool(cuesta.records) == (name == "read" or (name == "all" and not dynamic))


SHARED: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "an element": lambda x, y: (x.add_(1), y[0])[1],
    "all of it": lambda x, y: (x.add_(1), y.view(-1))[1],
    "detached": lambda x, y: (x.add_(1), y.detach())[1],
    "of what is written to": lambda x, y: (y.add_(x.sum()), y[1:], x * 2)[1:],
    "itself": lambda x, y: (x.add_(1), y)[1],
    "updated": lambda x, y: x.add_(1).mul_(y.sum()),
    "returned, too": lambda x, y: (x.add_(1).mul_(y.sum()), x)[1],
    "nothing written": lambda x, y: (x + y, y[1:])[1],
}


@pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager. .*shares memory with another")
@pytest.mark.parametrize("dynamic", (None, True))
@pytest.mark.parametrize("name", SHARED)
@pytest.mark.covering
def test_a_view_of_an_input_that_shares_memory(name: str, dynamic: bool | None) -> None:
    """AOTAutograd would make y[0] the first element of the tensor that both are views of."""
    function = SHARED[name]
    for apart in (False, True):
        torch._dynamo.reset()
        cuesta.clear_records()
        results: list[Any] = []
        for call in (function, torch.compile(function, backend="cuesta", fullgraph=True, dynamic=dynamic)):
            base = torch.arange(12.0)
            result = call(base[1:5], base[5:9] if apart else base[3:7])
            last = result[0] if isinstance(result, tuple) else result
            last.neg_()  # it is memory of the base
            results.append((result, last.storage_offset(), base))
        torch.testing.assert_close(*results, rtol=0, atol=0)
        assert bool(cuesta.records) == (apart or name == "nothing written")


MOVED: dict[str, Callable[[Tensor], Tensor]] = {
    "updated before": lambda x: (x.add_(1), x.float().t_(), x + 1)[2],
    "updated after": lambda x: (F.alpha_dropout(x, 0.5).t_(), x.add_(1), x[1:])[2],
    "not updated": lambda x: (x.float().t_(), x + 1)[1],
}


@pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager. .*its sizes or strides are changed")
@pytest.mark.parametrize("grad", (False, True))
@pytest.mark.parametrize("name", MOVED)
@pytest.mark.covering
def test_an_update_of_an_input_that_lies_otherwise_afterwards(name: str, grad: bool) -> None:
    """81016041: AOTAutograd lays the input out as the update is, which begins at 0 and has no gaps."""
    function = MOVED[name]
    for cut in (lambda base: base.view(-1)[12:].view(3, 4), lambda base: base[:, ::2], lambda base: base.t()):
        torch._dynamo.reset()
        cuesta.clear_records()
        found: list[Any] = []
        for backend in (None, "cuesta"):
            program = lambda x, w: (w * 2, function(x))  # noqa: E731
            call = program if backend is None else torch.compile(program, backend=backend, fullgraph=True)
            base = torch.arange(24.0).view(4, 6)
            x, w = cut(base), torch.ones(2, requires_grad=grad)
            found.append((call(x, w), base, x, (x.shape, x.stride(), x.storage_offset(), x._base is base)))
        assert found[0][3] == found[1][3]
        torch.testing.assert_close(found[0][:3], found[1][:3], rtol=0, atol=0)
        assert any(record.kernels for record in cuesta.records) == (name == "not updated")


def _with_data(x: Tensor, data: Tensor) -> Tensor:
    x.data = data
    return x


def _data_unrecorded(x: Tensor, w: Tensor) -> Tensor:
    _with_data(x, x.data * 2)
    with torch.no_grad():
        scaled = x * 3
    return w * 2 + scaled


GIVEN_DATA: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], bool]] = {
    "used afterwards": (lambda x, w: _with_data(x, x.data * 2) / 3, True),
    "used before": (lambda x, w: (x.sin(), _with_data(x, x.data * 2))[0], True),
    "a view of before": (lambda x, w: (x.view(-1), _with_data(x, x.data * 2))[0] * 2, True),
    "of another": (lambda x, w: _with_data(x, w.data * 2) * w, True),
    "with another bit": (lambda x, w: _with_data(x, torch.ops.aten._neg_view(w.data)) * 2, True),
    "not used": (lambda x, w: (_with_data(x, x.data * 2), w * 2)[1], False),
    "used without gradients": (_data_unrecorded, False),
    "detached": (lambda x, w: _with_data(x, x.data * 2).detach() + w, False),
}
"""Programs, and whether eager runs them: 91000158 and its kin."""


@pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager. .*(given other data|another negative)")
@pytest.mark.parametrize("name", GIVEN_DATA)
def test_gradients_of_an_input_that_is_given_other_data(name: str) -> None:
    """AOTAutograd would give it none, in silence."""
    function, in_eager = GIVEN_DATA[name]
    torch._dynamo.reset()
    cuesta.clear_records()
    found: list[Any] = []
    for call in (function, torch.compile(function, backend="cuesta", fullgraph=True)):
        x, w = (torch.tensor(one, requires_grad=True) for one in ([0.7, 0.8], [0.2, 0.3]))
        result = call(x, w)
        found.append((result, x.detach().clone(), *torch.autograd.grad(result.sum(), (x, w), allow_unused=True)))
    for theirs, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)
    assert bool(cuesta.records) != in_eager


BESIDE_SHARED: dict[str, Callable[[Tensor, Tensor], tuple[Tensor, ...]]] = {
    "expanded": lambda x, y: (x.add_(x), y.var(), v := y.sin(), v.expand(2, len(v)))[1:],
    "both views": lambda x, y: (x.add_(x), y.var(), (v := y.sin()).view(-1, 1), v[1:])[1:],
    "detached": lambda x, y: (x.add_(x), y.var(), v := y.sin(), v.detach())[1:],
    "apart": lambda x, y: (x.add_(x), y.var(), y.sin(), y.cos()[1:])[1:],
    "nothing written": lambda x, y: (x.var(), v := y.sin(), v.expand(2, len(v))),
}


@pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager. .*shares memory with another result")
@pytest.mark.parametrize("name", BESIDE_SHARED)
def test_a_view_of_a_result_beside_inputs_that_share_memory(name: str) -> None:
    """AOTAutograd would make the view of another result (41014649)."""
    function = BESIDE_SHARED[name]
    torch._dynamo.reset()
    cuesta.clear_records()
    outcomes: list[Any] = []
    for call in (function, torch.compile(function, backend="cuesta", fullgraph=True)):
        x = torch.arange(6.0).requires_grad_()
        y = x * 0.3
        results = call(y[:4], y)
        (gradient,) = torch.autograd.grad(
            sum((one.sum() for one in results if one.requires_grad), torch.tensor(0.0)), x
        )
        owner = results[1].untyped_storage().data_ptr()
        outcomes.append(([one.detach() for one in results], gradient, results[2].untyped_storage().data_ptr() == owner))
    torch.testing.assert_close(*outcomes)
    assert bool(cuesta.records) == (name in ("apart", "nothing written"))


@LEFT_TO_EAGER
@pytest.mark.parametrize("dynamic", (None, True))
def test_an_update_of_rows_that_meet(dynamic: bool | None) -> None:
    """Eager computes all new numbers before it writes one; a kernel that writes in place would read what it wrote."""

    def function(x: Tensor) -> Tensor:
        doubled = x * 2
        x.copy_(-x.clamp(-2, 2))
        return doubled

    torch._dynamo.reset()
    bases = [torch.arange(24.0) - 4, torch.arange(24.0) - 4]
    for call, base in zip((torch.compile(function, backend="cuesta", dynamic=dynamic), function), bases, strict=True):
        call(base.as_strided((4, 3), (1, 1), 2))
        call(base.as_strided((4, 3), (2, 3), 2))
        call(base.as_strided((4, 3), (3, 1), 2))
    assert torch.equal(*bases)


@pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager")
def test_a_dropout_beside_it_is_computed_again_with_the_same_numbers() -> None:
    def function(x: Tensor) -> Tensor:
        x.detach().clone().expand(3, 64)[1].add_(1)
        return checkpoint(lambda x: F.dropout(x, 0.5) * x, x, use_reentrant=False)

    x = torch.ones(64, requires_grad=True)
    result = compiled_of(function)(x)
    (gradient,) = torch.autograd.grad(result.sum(), x)
    assert torch.equal(gradient, result * 2) and 0 < int((result == 0).sum()) < 64


DIAGONALS: dict[str, Callable[[Tensor], Tensor]] = {
    "a row": lambda x: x[0].neg_() + x,
    "a column": lambda x: x.t()[1].neg_().sum() + x,
    "windows": lambda x: x[0].unfold(0, 2, 1)[0].mul_(2) + x.sum(),
    "all": lambda x: x.add_(1) * 2,
}


@LEFT_TO_EAGER
@pytest.mark.parametrize("name", DIAGONALS)
@pytest.mark.parametrize("dynamic", (False, True))
def test_an_update_of_a_tensor_whose_rows_overlap(name: str, dynamic: bool) -> None:
    function = DIAGONALS[name]
    compiled = compiled_of(function, dynamic=dynamic)
    for size in (2, 3):
        bases = [torch.arange(1.0, 9.0) for _ in range(2)]
        calls = zip((compiled, function), bases, strict=True)
        results = [call(base.as_strided((2, size), (1, 1), 1)) for call, base in calls]
        assert torch.equal(*results) and torch.equal(*bases)


INSERTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "a slice": lambda x: torch.slice_scatter(x, -x[:1], 0, 0, 1),
    "a row": lambda x: x.select_scatter(src=-x[1], dim=0, index=1) * 2,
    "a diagonal": lambda x: aten.diagonal_scatter(x, -x[0, 1:], 1) + 1,
    "all": lambda x: aten.copy.default(x, -x) * 2,
    "of a view": lambda x: torch.slice_scatter((-x).flatten().as_strided((2, 2), (1, 1)), x[:1, :2], 0, 0, 1),
}


@LEFT_TO_EAGER
@pytest.mark.parametrize("name", INSERTIONS)
@pytest.mark.parametrize("dynamic", (False, True))
def test_an_insertion_into_a_copy_whose_rows_overlap(name: str, dynamic: bool) -> None:
    """What is copied are not the elements, but the storage: what is put into one row is in the other, too."""
    compiled = compiled_of(INSERTIONS[name], dynamic=dynamic)
    for size in (2, 3):
        x = torch.arange(1.0, 9.0).as_strided((2, size), (1, 1), 1)
        result, expected = compiled(x), INSERTIONS[name](x)
        assert torch.equal(result, expected) and result.stride() == expected.stride()


def test_an_insertion_into_a_copy_of_rows_that_are_repeated_is_compiled() -> None:
    for name in ("a slice", "a row", "a diagonal", "all"):
        check(INSERTIONS[name], torch.arange(1.0, 4.0).expand(2, 3))
    assert cuesta.records  # what runs in eager has none, and warns


def test_an_update_where_no_element_is_another_is_compiled() -> None:
    """Strides of 1 along 1 element, of 3 past 3, of 0 along none."""
    for sizes, strides in (((1, 3), (1, 1)), ((3, 3), (1, 3)), ((0, 3), (0, 1))):
        x, y = (torch.arange(9.0).as_strided(sizes, strides) for _ in range(2))
        assert torch.equal(compiled_of(lambda x: x.mul_(2) + 1)(x), y * 2 + 1) and torch.equal(x, y * 2)


def _write_beside(x: Tensor) -> Tensor:
    seen = x.expand(3, 4)
    x.add_(1)
    return seen * 2


# -- numbers that are taken --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [torch.tensor(4), torch.tensor(-1), torch.tensor([[0, 5]])], ids=str)
def test_an_index_without_dims_takes_a_number(index: Tensor) -> None:
    check(lambda x, i: x.take(i) * 2, torch.randn(2, 3), index)
    nothing_in_eager()


# -- updates of several tensors that overlap ---------------------------------------------------------------------------


def _update(views: Callable[[Tensor], list[Tensor]]) -> Callable[[Tensor], Tensor]:
    def function(x: Tensor) -> Tensor:
        torch._foreach_mul_(views(x), 2)  # pyright: ignore[reportPrivateImportUsage]  # there is no other name
        return x + 1

    return function


OVERLAPPING: dict[str, Callable[[Tensor], list[Tensor]]] = {
    "twice the same": lambda x: [x, x],
    "a view": lambda x: [x, x.view(-1)],
    "parts": lambda x: [x[:2], x[1:]],
    "of a value": lambda x: [x, x[1]],
}


@pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager. .*tensors that overlap")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", OVERLAPPING)
def test_tensors_that_overlap_are_updated_one_after_the_other(name: str, dynamic: bool) -> None:
    """AOTAutograd would compute all updates of what the tensors were before."""
    check(_update(OVERLAPPING[name]), torch.ones(3, 4), dynamic=dynamic)
    check(lambda x: _update(OVERLAPPING[name])(x.clone()), torch.ones(3, 4), dynamic=dynamic)


def _copy_on(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    torch._foreach_copy_([x, y], [z, x])  # pyright: ignore[reportPrivateImportUsage]  # there is no other name
    return y * 2


def _add_on(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    torch._foreach_addcmul_([x[1:], y], [z[1:], z], [z[1:], x], 0.5)  # pyright: ignore[reportPrivateImportUsage]
    return x + y


@pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager. .*tensors that overlap")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", [_copy_on, _add_on])
def test_a_tensor_that_is_read_when_it_was_updated(function: Callable[..., Tensor], dynamic: bool) -> None:
    """AOTAutograd would read what it was before."""
    check(function, *(torch.randn(3, 4) for _ in range(3)), dynamic=dynamic)


@pytest.mark.parametrize("dynamic", [False, True])
def test_tensors_that_are_read_before_they_are_updated_are_compiled(dynamic: bool) -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        torch._foreach_add_([x[:2], x[2:]], [x[2:], y[2:]])  # pyright: ignore[reportPrivateImportUsage]
        torch._foreach_mul_([x, y], [x, y])  # pyright: ignore[reportPrivateImportUsage]
        return x + 1

    check(function, torch.randn(4, 4), torch.randn(4, 4), dynamic=dynamic)
    assert cuesta.records  # what runs in eager has none, and warns


@pytest.mark.parametrize("dynamic", [False, True])
def test_tensors_that_lie_beside_each_other_are_compiled(dynamic: bool) -> None:
    for views in (lambda x: [x[:2], x[2:]], lambda x: [x[0], x[2]], lambda x: list(x.split(1))):
        torch._dynamo.reset()
        check(_update(views), torch.ones(4, 4), dynamic=dynamic)
        assert cuesta.records  # what runs in eager has none, and warns


PAIRS: dict[str, Callable[[Tensor], tuple[Tensor, Tensor]]] = {
    "a part": lambda y: (y, y[1:]),
    "of a part": lambda y: (y[1:], y),
    "the same elements": lambda y: (y.view(-1, 1), y),
    "another memory": lambda y: (y, y * 2),
}


@pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager. .*with a gradient that shares memory")
@pytest.mark.parametrize("name", PAIRS)
def test_gradients_of_what_shares_memory_with_an_updated_list(name: str) -> None:
    """AOTAutograd gives a view of what a list's update writes the gradient that it had before."""

    def function(x: Tensor) -> Tensor:
        written, read = PAIRS[name](x * 3)
        torch._foreach_mul_([written], 2)  # pyright: ignore[reportPrivateImportUsage]
        return read.sum()

    cuesta.clear_records()
    check(function, torch.randn(5, requires_grad=True))
    assert bool(cuesta.records) == (name == "another memory")


def test_a_list_that_shares_memory_is_compiled_where_no_gradient_is_recorded() -> None:
    def function(x: Tensor) -> Tensor:
        y = x * 3
        z = y[1:]
        with torch.no_grad():
            torch._foreach_mul_([y], 2)  # pyright: ignore[reportPrivateImportUsage]
        return z + 1

    check(function, torch.randn(5, requires_grad=True))
    assert cuesta.records  # what runs in eager has none, and warns


# -- tensors of one float64 --------------------------------------------------------------------------------------------


def _count(x: Tensor, count: Tensor) -> Tensor:
    count.mul_(2)
    return x * count


COUNTED: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "alone": lambda x, count: count.add_(1),
    "read": _count,
    "copied": lambda x, count: count.copy_(x.sum()),
    "zeroed": lambda x, count: (count.zero_(), x + 1)[1],
    "beside a number that changes": lambda x, count: (count.add_(1), x * float(len(x)) / 3)[1],
}


@pytest.mark.parametrize("name", COUNTED)
def test_one_float64_is_updated(name: str) -> None:
    """Dynamo would trace a second time, and drop the update."""
    check(COUNTED[name], torch.ones(3), torch.tensor(3.0, dtype=torch.float64))


def test_one_float64_is_updated_beside_pythons_floats() -> None:
    """They do make Dynamo trace a second time."""

    def function(x: Tensor, count: Tensor, rate: float) -> Tensor:
        count.mul_(2)
        return torch.where(x > 0, x.new_full(x.shape, rate // 2), x) * count

    compiled, count, same = (
        compiled_of(function),
        torch.ones((), dtype=torch.float64),
        torch.ones((), dtype=torch.float64),
    )
    for rate in (5.5, 7.25, 9.125):
        torch.testing.assert_close(compiled(torch.ones(3), count, rate), function(torch.ones(3), same, rate))
        assert count == same


NO_ELEMENT_SHARED: dict[str, Callable[[Tensor], Tensor]] = {
    "one row": lambda x: x.clone().expand(1, 4).add_(1),
    "new": lambda x: (x.expand(3, 4) + 1).add_(x.expand(3, 4)),
    "beside": _write_beside,
    "no element": lambda x: x.expand(3, 4).unsqueeze_(0) + 1,
    "read": lambda x: aten.index.Tensor(x.expand(3, 4), [torch.tensor([1, 0])]),
    "batched": lambda x: torch.vmap(lambda row: row.clone().add_(1))(x.expand(3, 4)),
}


@pytest.mark.parametrize("name", NO_ELEMENT_SHARED)
def test_an_update_of_elements_of_their_own(name: str) -> None:
    """Near misses: warnings are errors in tests, so that these are compiled."""
    check(NO_ELEMENT_SHARED[name], torch.ones(1, 4))
    assert cuesta.records


# -- a rounded value is one number -------------------------------------------------------------------------------------

OF_ONE_VALUE: dict[str, Callable[[Tensor], Tensor]] = {
    "is the greatest": lambda y: (y == y.amax(-1, keepdim=True)).any(-1),
    "at least the greatest": lambda y: (y >= y.max(-1, keepdim=True).values).any(-1),
    "less the greatest": lambda y: (y - y.amax(-1, keepdim=True)).amax(-1),
    "less itself in a sum": lambda y: y + (torch.zeros_like(y)[None] - y).sum((0,), True).view(y.shape),
}


@pytest.mark.parametrize("name", OF_ONE_VALUE)
@pytest.mark.parametrize("dtype", [torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.thorough)])
def test_a_rounded_value_is_one_number(name: str, dtype: torch.dtype) -> None:
    """What is stored rounded and read back is not compared with, or taken from, what was not rounded."""
    for sizes in ((4, 16), (16, 512)):
        for function in (torch.sqrt, lambda x: x * 1.1, lambda x: torch.exp(x).sin() + 2)[: 3 if sizes[0] == 4 else 1]:
            x = torch.rand(sizes).to(dtype)
            program = OF_ONE_VALUE[name]
            result = compiled_of(lambda x, f=function, p=program: p(f(x)))(x)
            expected = program(function(x))
            assert torch.equal(result, expected)


def _computed(x: Tensor) -> Tensor:
    return (x * 3).sqrt()


EXPANSIONS_OF_NOTHING: dict[str, Callable[[Tensor], Tensor]] = {
    "one in front": lambda x: x.expand(1, *x.shape).zero_() + x,
    "as it is": lambda x: x.expand(x.shape).fill_(1) + x,
    "keyword": lambda x: torch.broadcast_to(x, size=(1, 1, 2, 3)).fill_(1) + x,
    "as another": lambda x: x.expand_as(torch.empty(1, 2, 3)).copy_(x + 1) + x,
    "overload": lambda x: aten.expand.default(x, [1, -1, 3]).zero_() + x,
    "of what is computed": lambda x: (y := _computed(x)).expand(1, 2, 3)[..., 1:].zero_().sum() + y,
    "strides": lambda x: x.t().expand(1, 3, 2).add_(1) * 2,
}


@pytest.mark.parametrize("name", EXPANSIONS_OF_NOTHING)
@pytest.mark.parametrize("dynamic", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.covering
def test_an_update_through_an_expansion_of_nothing_is_exact(name: str, dynamic: bool) -> None:
    """AOTAutograd's x + sum(y - x) would be 0 or NaN."""
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.tensor([[1e10, math.inf, 1.7], [2.3, math.nan, 3e8]], dtype=dtype)
        check(EXPANSIONS_OF_NOTHING[name], x, truth=False, dynamic=dynamic)


# -- loops -------------------------------------------------------------------------------------------------------------


def _sines(x: Tensor) -> Tensor:
    start = (torch.tensor(0), x)
    return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, (x * x).sin()), start)[1]


@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.slow
def test_a_loop_with_gradients(fullgraph: bool) -> None:
    compiled = compiled_of(_sines, fullgraph=fullgraph)
    for size in (5, 7):
        x, y = torch.randn(2, size).unbind()
        y.copy_(x)
        x.requires_grad_()
        y.requires_grad_()
        expected = y
        for _ in range(3):  # eager's `while_loop` has no gradients
            expected = (expected * expected).sin()
        expected.sum().backward()
        compiled(x).sum().backward()
        torch.testing.assert_close(x.grad, y.grad)
    assert {"forward", "backward"} <= {record.kind for record in cuesta.records}


def _last_row(x: Tensor) -> Tensor:
    count, y = while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 0.5 + 1), (torch.tensor(0), x))
    return y[count % y.shape[0]] + 1


def _written_row(x: Tensor) -> Tensor:
    count, y = while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 0.5 + 1), (torch.tensor(0), x))
    z = x * 2
    z[count % 2] = 4
    return y + z


@pytest.mark.parametrize("function", [_last_row, pytest.param(_written_row, marks=pytest.mark.slow)])
def test_an_index_that_a_loop_counts(function: Callable[[Tensor], Tensor]) -> None:
    """PyTorch would have to know the number; Dynamo runs what asks for it in eager."""
    x = torch.randn(4, 3)
    assert torch.equal(compiled_of(function, fullgraph=False)(x), function(x))


@pytest.mark.slow
def test_a_loop_over_a_number() -> None:
    check(lambda x: while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (0, x)), torch.randn(5))
    check(
        lambda x: (
            while_loop(lambda i, j, x: i + j < 9, lambda i, j, x: (i + 1, j + i, x + x[i] * j), (0, 2, x.sin()))[2] * 2
        ),
        torch.randn(12),
    )
    loop = "higher_order.while_loop"
    assert [set(record.fallbacks) for record in cuesta.records] == [{loop}, {loop, "aten.select.int"}]


@pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager")
def test_a_part_of_what_shares_elements_is_updated_as_in_eager() -> None:
    """The part is one of several views: it has no elements twice, but what it is a part of does."""

    def function(x: Tensor) -> Tensor:
        x.chunk(2, 0)[-1].fill_(0)
        return x * 2

    x, y = (torch.arange(1.0, 6.0).as_strided((2, 2), (1, 1)) for _ in range(2))
    assert torch.equal(compiled_of(function)(x), function(y))
    assert torch.equal(x, y)


@pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager", "ignore:Error detected")
def test_a_gradient_that_needs_what_is_overwritten_fails_where_it_is_asked_for() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        v = x / (y.abs() + 1)
        x.mul_(0.5)
        return v + 1

    x, y = torch.randn(5), torch.randn(5, requires_grad=True)
    expected = function(x.clone(), y)
    found = compiled_of(function)(x, y)
    assert torch.equal(found, expected)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        found.sum().backward()
