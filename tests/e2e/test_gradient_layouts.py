"""Gradients that a backward pass is given: they are read as they lie, nobody copies them, and the pass is compiled once
for those that come alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._functorch import config
from torch.nn import functional as F
from xdsl.dialects.builtin import ModuleOp

import cuesta
from cuesta import gradient_layouts
from tests.support.differential import compiled_autograd, compiled_of
from tests.support.triton_interpreter import interpreted_cuda, to_host

pytestmark = pytest.mark.slow

SIZES = (4, 16, 16, 16)
CONVOLVED = torch.randn(16, 16, 3, 3)
Function = Callable[..., Any]


@pytest.fixture(autouse=True)
def compile_anew() -> None:
    torch._dynamo.reset()


def images() -> Tensor:
    """They lie channels last, as what is computed of them does."""
    return torch.randn(SIZES).to(memory_format=torch.channels_last).requires_grad_()


def scaled(x: Tensor) -> Tensor:
    return (x * 2).sigmoid()


def normed(x: Tensor) -> Tensor:
    return F.relu(F.batch_norm(x, None, None, training=True))


def convolved(x: Tensor) -> Tensor:
    return F.relu(F.conv2d(x, CONVOLVED.to(memory_format=torch.channels_last), padding=1) * 2)


FUNCTIONS = (scaled, normed, convolved)
LAYOUTS: dict[str, Callable[[], Tensor]] = {
    "row-major": lambda: torch.randn(SIZES),
    "as the result": lambda: torch.randn(SIZES).to(memory_format=torch.channels_last),
    "one number": lambda: torch.tensor(2.5).expand(SIZES),
    "one number a channel": lambda: torch.randn(1, 16, 1, 1).expand(SIZES),
    "a part": lambda: torch.randn(4, 32, 16, 16)[:, 16:],
    "every second": lambda: torch.randn(4, 16, 16, 32)[..., ::2],
    "turned": lambda: torch.randn(16, 16, 4, 16).permute(2, 3, 0, 1),
}


@contextmanager
def backward_passes() -> Iterator[list[Any]]:
    """The records of the backward passes that are compiled meanwhile."""
    before, found = len(cuesta.records), list[Any]()
    yield found
    found += [one for one in cuesta.records[before:] if one.kind == "backward"]


def gradient(function: Function, x: Tensor, given: Tensor, **settings: Any) -> Tensor:
    (found,) = torch.autograd.grad(function(x), x, given, **settings)
    return found.detach()


def check(compiled: Function, function: Function, x: Tensor, given: Tensor) -> None:
    torch.testing.assert_close(gradient(compiled, x, given), gradient(function, x, given), rtol=1e-4, atol=1e-4)


def moves(function: Function, x: Tensor, given: Tensor) -> list[str]:
    """What moves a tensor as a whole while gradients are computed, outside of machine code of ours."""
    result = function(x)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        torch.autograd.grad(result, x, given)
    copies = ("aten::copy_", "aten::clone", "aten::contiguous", "aten::fill_")
    return [one.name for one in profile.events() or () if one.name in copies]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.covering
def test_they_are_read_as_they_lie(function: Function, layout: str) -> None:
    """AOTAutograd copies them; where only the copy is ours, the kernels are as many as for what it guesses."""
    x, given = images(), LAYOUTS[layout]()
    compiled = compiled_of(function, dynamic=False)
    with backward_passes() as passes:
        check(compiled, function, x, given)
    assert moves(compiled, x, given) == []
    other = compiled_of(lambda x: function(x), dynamic=False)
    with backward_passes() as guessed:
        gradient(other, x, LAYOUTS["as the result"]())
    assert [one.kernels for one in passes] == [one.kernels for one in guessed]


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_pass_is_compiled_for_a_few_layouts_and_once_for_each(dynamic: bool) -> None:
    x, compiled = images(), compiled_of(scaled, dynamic=dynamic)
    with backward_passes() as passes:
        for _ in range(2):
            for layout in LAYOUTS:
                check(compiled, scaled, x, LAYOUTS[layout]())
    most = gradient_layouts.MOST + 1 if not dynamic else 5  # a part and every second are copied
    assert len(passes) == most


def test_what_comes_first_is_compiled_alone() -> None:
    x, compiled = images(), compiled_of(scaled, dynamic=False)
    with backward_passes() as passes:
        for _ in range(3):
            check(compiled, scaled, x, torch.randn(SIZES))
    assert len(passes) == 1


def test_strides_of_axes_with_one_element_count_for_nothing() -> None:
    x = torch.randn(128, 1, 128).requires_grad_()
    compiled = compiled_of(scaled, dynamic=False)
    with backward_passes() as passes:
        for stride in (1, 128, 5):
            check(compiled, scaled, x, torch.randn(128, 1, 128).as_strided((128, 1, 128), (128, stride, 1)))
    assert len(passes) == 1


def test_small_ones_are_copied_as_before() -> None:
    x, compiled = torch.randn(8, 8).requires_grad_(), compiled_of(scaled)
    with backward_passes() as passes:
        check(compiled, scaled, x, torch.randn(8, 8))
        check(compiled, scaled, x, torch.randn(8, 8).T)
    assert len(passes) == 1


def test_sizes_that_change() -> None:
    compiled = compiled_of(normed, dynamic=True)
    with backward_passes() as passes:
        for size in (20, 24, 28):
            x = torch.randn(4, 16, size, 18).to(memory_format=torch.channels_last).requires_grad_()
            check(compiled, normed, x, torch.randn(x.shape))
            check(compiled, normed, x, torch.tensor(0.5).expand(x.shape))
            check(compiled, normed, x, torch.randn(size, 4, 16, 18).permute(1, 2, 0, 3))
            assert moves(compiled, x, torch.randn(x.shape)) == []
    assert len(passes) == 3


def test_no_elements() -> None:
    compiled = compiled_of(scaled, dynamic=True)
    for sizes in (SIZES, (0, *SIZES[1:])):
        x = torch.randn(sizes).to(memory_format=torch.channels_last).requires_grad_()
        check(compiled, scaled, x, torch.randn(sizes))
        check(compiled, scaled, x, torch.tensor(0.5).expand(sizes))


def test_hooks_see_what_comes_and_what_is_differentiated_again_is_refused() -> None:
    x, given, seen = images(), torch.randn(SIZES), []
    compiled = compiled_of(scaled, dynamic=False)
    result = compiled(x)
    result.register_hook(lambda one: seen.append(one.stride()))
    with config.patch(donated_buffer=False):
        (found,) = torch.autograd.grad(result, x, given.requires_grad_(), create_graph=True)
        torch.testing.assert_close(found, gradient(scaled, x, given))
        assert seen == [given.stride()]
        with pytest.raises(RuntimeError, match="double backward"):
            found.sum().backward()


def test_one_of_several_results() -> None:
    """What nobody asked for is no gradient, and none is made."""
    both = lambda x: (scaled(x), x.cos())  # noqa: E731
    compiled = compiled_of(both, dynamic=False)
    for chosen in ((0,), (1,), (0, 1), (0,)):
        x, given = images(), [torch.randn(SIZES) for _ in chosen]
        found, expected = (
            torch.autograd.grad([function(x)[k] for k in chosen], x, given)[0] for function in (compiled, both)
        )
        torch.testing.assert_close(found, expected)


def test_compiled_autograd_gets_them_as_it_expects() -> None:
    """It takes the graph of the pass to pieces, which was traced for gradients that lie as results do: two numbers that
    lie apart are no complex one.
    """
    parts = lambda x: torch.view_as_real(torch.complex(x, x.sin()) * 2)  # noqa: E731
    weights = torch.randn(2, *SIZES).movedim(0, -1)
    results: list[Any] = []
    for call in (parts, compiled_of(parts)):
        for again in range(2):
            x = torch.ones(SIZES, requires_grad=True)
            with compiled_autograd(call is not parts and not again):
                (call(x) * weights).sum().backward()
            results.append(x.grad)
    for one in results[1:]:
        torch.testing.assert_close(one, results[0])


def test_a_pass_from_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUESTA_CACHE", "1")
    monkeypatch.setenv("CUESTA_CACHE_DIR", str(tmp_path))
    x, given = images(), torch.randn(SIZES)
    for kept in (False, True):
        torch._dynamo.reset()
        compiled = compiled_of(scaled, dynamic=False)
        with backward_passes() as passes:
            check(compiled, scaled, x, given)
            check(compiled, scaled, x, torch.tensor(0.5).expand(SIZES))
        assert [one.from_cache for one in passes] == [kept] * 2


@pytest.mark.parametrize("layout", ["row-major", "one number", "a part"])
def test_on_a_gpu(layout: str) -> None:
    """No kernel copies them: there are as many as for what AOTAutograd guesses."""
    x, given = images(), LAYOUTS[layout]()
    with interpreted_cuda() as programs:
        found = gradient(compiled_of(scaled, dynamic=False), x, given)
        gradient(compiled_of(lambda x: scaled(x), dynamic=False), x, LAYOUTS["as the result"]())
    torch.testing.assert_close(found, gradient(scaled, x, given), rtol=1e-4, atol=1e-4)
    _, backward, _, guessed = map(launches, programs)
    assert backward == guessed == 1


@pytest.mark.parametrize("layout", LAYOUTS)
def test_reductions_on_a_gpu(layout: str) -> None:
    x, given = images(), LAYOUTS[layout]()
    with interpreted_cuda():
        found = gradient(compiled_of(normed, dynamic=False), x, given)
    torch.testing.assert_close(found, gradient(normed, x, given), rtol=1e-4, atol=1e-4)


def launches(module: ModuleOp) -> int:
    return sum(op.name == "host.launch" for op in to_host(module).walk())


SHARED: dict[str, Callable[[Tensor], Tensor]] = {
    "windows": lambda x: (x * 2).unfold(0, 2, 1),
    "windows of windows": lambda x: x.sin().unfold(0, 3, 1).unfold(0, 2, 1),
    "diagonals": lambda x: (x * x).as_strided((3, 3), (1, 1)),
    "expanded": lambda x: (x * 2).expand(3, *x.shape),
}


@pytest.mark.parametrize("dynamic", (None, True))
@pytest.mark.parametrize("name", SHARED)
@pytest.mark.covering
def test_each_element_of_what_shares_elements_has_its_gradient(name: str, dynamic: bool | None) -> None:
    """A gradient was copied to memory that lies as the result does: one of several elements was that of all."""

    def gradient(function: Callable[[Tensor], Tensor]) -> Tensor:
        x = torch.arange(1.0, 10).requires_grad_()
        result = function(x)
        given = torch.arange(float(result.numel())).view(result.shape).cos()
        return torch.autograd.grad(result, x, given)[0]

    torch.testing.assert_close(gradient(compiled_of(SHARED[name], dynamic=dynamic)), gradient(SHARED[name]))
