"""Random numbers: eager's own on the CPU unless Philox is asked for; masks are drawn, and everything else is fused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import cuesta
from tests.fuzz.calls.scope import distributed
from tests.support.differential import compiled_of

pytestmark = pytest.mark.slow


def dropout(x: Tensor) -> Tensor:
    return functional.dropout(functional.gelu(x), 0.25, True).sin()


LAYOUTS: dict[str, Callable[[], Tensor]] = {
    "contiguous": lambda: torch.randn(64, 10),
    "transposed": lambda: torch.randn(10, 64).t(),
    "channels last": lambda: torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "every other": lambda: torch.randn(20, 30)[:, ::2],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_dropout_draws_eagers_numbers(layout: str) -> None:
    x = LAYOUTS[layout]().requires_grad_()
    results = []
    for function in (dropout, compiled_of(dropout)):
        torch.manual_seed(5)
        y = function(x)
        assert y.stride() == dropout(x).stride()
        results.append((y, *torch.autograd.grad(y, x, torch.ones_like(y) * 3)))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)


DRAWN: dict[str, Callable[[Tensor], Any]] = {
    "a mask": lambda x: x.bernoulli_(0.5),
    "dropout": lambda x: functional.dropout(x, 0.5, inplace=True),
    "alpha dropout": lambda x: functional.alpha_dropout(x, 0.5, True),
    "of what is computed": lambda x: torch.empty_like(x).bernoulli_(0.5),
    "bools": lambda x: torch.empty_like(x, dtype=torch.bool).bernoulli_(0.5),
    "of a part": lambda x: x[1:3].bernoulli_(0.3),
    "not in place": lambda x: torch.bernoulli(x, 0.5),
    "of its elements": lambda x: torch.bernoulli(x.abs().clamp(0, 1)),
    "uniform": lambda x: x.uniform_(),
    "normal": lambda x: x.normal_(),
    "of deviations": lambda x: torch.normal(0.0, x.abs()),
    "of Poisson's": lambda x: torch.poisson(x.abs()),
    "slopes": lambda x: functional.rrelu(x, training=True),
}


@pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager. .*for a tensor with gaps")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.covering
def test_numbers_are_drawn_in_eagers_order(name: str, layout: str) -> None:
    """In place in the order of memory, else row by row: AOTAutograd writes both as one operator."""
    function, x = DRAWN[name], LAYOUTS[layout]()
    results: list[Any] = []
    for call in (function, compiled_of(function)):
        torch.manual_seed(5)
        mine = x.clone() if x._base is None else x._base.clone().as_strided(x.shape, x.stride())
        drawn = call(mine)
        results.append((drawn, mine, drawn.stride(), torch.rand(3)))
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("count", (15, 16))
def test_normal_numbers_for_a_tensor_with_gaps(count: int, recwarn: pytest.WarningsRecorder) -> None:
    """Few are drawn one by one, whatever the tensor lies like: no reason for eager."""
    results: list[Any] = []
    for call in ((function := lambda x: x.normal_() + 1), compiled_of(function)):
        torch.manual_seed(5)
        results.append((call(torch.zeros(count, 2)[:, 0]), torch.rand(3)))
    torch.testing.assert_close(*results)
    assert any("with gaps" in str(one.message) for one in recwarn) == (count == 16)


def test_eagers_stream_goes_on_where_it_would() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        noise = torch.empty(9).bernoulli_(0.3) + torch.empty(9, dtype=torch.int32).bernoulli_(0.7)
        return dropout(x), noise, torch.rand(5) + torch.randn_like(x)[0, :5]

    results = []
    for one in (function, compiled_of(function)):
        torch.manual_seed(3)
        results.append((*one(torch.ones(6, 50)), torch.rand(4)))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_only_the_draw_is_a_call_and_a_byte_an_element_is_kept() -> None:
    x = torch.randn(64, 100, requires_grad=True)
    compiled_of(dropout)(x).sum().backward()
    forward, backward = cuesta.records[-2:]
    assert not forward.fallbacks and not backward.fallbacks
    assert (forward.library_calls, forward.kernels, backward.kernels) == (1, 1, 1)
    saved = [tensor for tensor in compiled_of(dropout)(x).grad_fn.saved_tensors if tensor.dtype is torch.bool]  # type: ignore[union-attr]
    assert [tuple(mask.shape) for mask in saved] == [(64, 100)]


PHILOX: dict[str, Any] = {"options": {"random": "philox"}}


def test_philox_on_the_cpu_forward_and_backward() -> None:
    compiled = compiled_of(dropout, **PHILOX)
    x = torch.rand(400, 100, requires_grad=True)
    torch.manual_seed(1)
    y = compiled(x)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert abs(float((y == 0).double().mean()) - 0.25) < 0.01
    assert torch.equal(y == 0, gradient == 0)
    torch.testing.assert_close(y, torch.where(y == 0, 0, (functional.gelu(x) / 0.75).sin()))
    torch.manual_seed(1)
    assert torch.equal(compiled(x), y)
    assert not torch.equal(compiled(x), y)
    assert all(set(record.fallbacks) <= {"aten.randint.low"} for record in cuesta.records[-2:])


@pytest.mark.parametrize("dynamic", [False, True])
def test_checkpoints_draw_again_by_key(dynamic: bool) -> None:
    """What is in a checkpoint draws the same again: of a key, which alone is saved."""

    def layer(x: Tensor) -> Tensor:
        return functional.dropout(torch.sin(x), 0.4, True)

    def function(x: Tensor) -> Any:
        return checkpoint(layer, x, use_reentrant=False)

    compiled = compiled_of(function, dynamic=dynamic, **PHILOX)
    for sizes in ((40, 53), (7, 64)):
        x = torch.rand(sizes, dtype=torch.float64).add_(0.1).requires_grad_()
        y = compiled(x)
        saved = [one for one in y.grad_fn.saved_tensors if one is not x]
        assert [(one.dtype, one.numel()) for one in saved] == [(torch.int64, 1)]
        (gradient,) = torch.autograd.grad(y.sum(), x)
        mask = (y != 0) / 0.6
        assert abs(float(mask.mean()) - 1) < 0.15
        torch.testing.assert_close(y, torch.sin(x) * mask)
        torch.testing.assert_close(gradient, torch.cos(x) * mask)
        assert not torch.equal(compiled(x) != 0, y != 0)
    assert [record.kernels for record in cuesta.records[-2:]] == [1, 1]


@pytest.mark.filterwarnings("error:cuesta")
@pytest.mark.parametrize("has_gradient", [False, True])
def test_a_checkpoint_that_draws_is_compiled_without_a_gradient_too(has_gradient: bool) -> None:
    """111000065: AOTAutograd refused it with torch 2.13, and the whole graph ran in eager."""

    def function(x: Tensor) -> Any:
        return checkpoint(lambda x: functional.dropout(x, 0.5) * x.sin(), x, use_reentrant=False)

    x = torch.arange(40.0).requires_grad_(has_gradient)
    results: list[Any] = []
    for call in (function, compiled_of(function)):
        torch.manual_seed(3)
        results.append((call(x), torch.get_rng_state()))
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "dynamic"])
@pytest.mark.filterwarnings("ignore:DTensor random operators")
def test_a_checkpoint_that_draws_for_a_distributed_tensor(dynamic: bool) -> None:
    """130000609: the call took the mesh, which is saved before the generator's state, for a tensor (torch 2.13)."""

    def function(x: Tensor, sizes: Tensor) -> Any:
        return checkpoint(lambda x: functional.dropout(x, 0.5) * x * sizes.shape[0], x, use_reentrant=False)

    x: Any = distributed(torch.arange(1.0, 41), None).requires_grad_()
    y: Any = compiled_of(function, dynamic=dynamic)(x, torch.ones(3))
    y.sum().backward()
    given, result, gradient = (one.to_local().detach() for one in (x, y, x.grad))
    mask = (result != 0) * 2.0
    assert 0 < mask.count_nonzero() < 40
    assert torch.equal(result, mask * given**2 * 3)
    assert torch.equal(gradient, mask * given * 6), "the numbers that the forward pass drew (eager draws others here)"


def test_gradients_of_dropped_attention_in_a_checkpoint() -> None:
    """By differences, with the same seed at every point."""

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return functional.dropout((q @ k.mT).softmax(-1), 0.3, True) @ v

    compiled = compiled_of(lambda *inputs: checkpoint(attention, *inputs, use_reentrant=False), **PHILOX)

    def seeded(*inputs: Tensor) -> Tensor:
        torch.manual_seed(4)
        return compiled(*inputs)

    inputs = [torch.randn(sizes, dtype=torch.float64).requires_grad_() for sizes in ((2, 5, 3), (2, 7, 3), (2, 7, 4))]
    assert torch.autograd.gradcheck(seeded, inputs)


def test_philox_with_symbolic_sizes() -> None:
    compiled = compiled_of(lambda x: torch.rand_like(x) + x * 0, dynamic=True, **PHILOX)
    for sizes in ((3, 5), (40, 30)):
        y = compiled(torch.zeros(sizes))
        assert y.shape == sizes and y.min() >= 0 and y.max() < 1 and len(y.unique()) == y.numel()


@pytest.mark.parametrize("sizes", [(), (1,), (1, 1), (0, 3), (5,)])
def test_philox_of_hardly_any_numbers(sizes: tuple[int, ...]) -> None:
    """One number has one place: lanes that were to store it there were refused, and with them the graph."""

    def draw(x: torch.Tensor) -> list[torch.Tensor]:
        return [torch.rand_like(x) + x, torch.randn_like(x) + x, torch.rand_like(x.double())]

    torch._dynamo.reset()
    for y in compiled_of(draw, **PHILOX)(torch.zeros(sizes)):
        assert y.shape == sizes and bool(y.isfinite().all()) and len(y.unique()) == y.numel()
