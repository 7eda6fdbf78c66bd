"""Operators without a kernel for autograd: eager records gradients within their kernels, and so do we."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.ao.quantization.fx._decomposed
from torch import Tensor
from torch.autograd import Function
from torch.testing._internal.two_tensor import TwoTensor

import cuesta
from cuesta.packages.graph import PackageError
from tests.support.differential import compiled_of

pytestmark = pytest.mark.slow

LIBRARY: Any = torch.library.Library("cuesta_unregistered", "FRAGMENT")
for _name, _key in (("everywhere", "CompositeExplicitAutograd"), ("device", "CPU"), ("passed", "CPU")):
    LIBRARY.define(f"{_name}(Tensor x) -> Tensor")
    LIBRARY.impl(_name, lambda x: x.sin() * 2, _key)
for _name in ("device", "passed"):
    LIBRARY.impl(_name, torch.empty_like, "Meta")
LIBRARY.impl("passed", torch.library.fallthrough_kernel, "Autograd")

theirs: Any = torch.ops.cuesta_unregistered
decomposed: Any = torch.ops.quantized_decomposed
WORDS = torch.arange(12, dtype=torch.int8).view(4, 3)
TRACED: dict[str, Callable[[Tensor], Tensor]] = {
    "places of a token": lambda x: decomposed.choose_qparams_per_token_asymmetric(x, torch.int8)[0],
    "scales of a token": lambda x: decomposed.choose_qparams_per_token(x, torch.int8)[0],
    "scales of channels": lambda x: decomposed.dequantize_per_channel(
        WORDS, x.sum(1), torch.zeros(4, dtype=torch.int64), 0, -128, 127, torch.int8
    ),
    "scales of tokens": lambda x: decomposed.dequantize_per_token(
        WORDS, x.sum(1, True), torch.zeros(4, 1, dtype=torch.int64), -128, 127, torch.int8, torch.float32
    ),
}


class Wrapped(Function):
    """An operator of somebody's, with a gradient of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return theirs.device(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return gradients[0] * ctx.saved_tensors[0].cos() * 2


def gradient(function: Callable[[Tensor], Tensor]) -> Tensor:
    x = torch.arange(12.0).view(4, 3).sin().requires_grad_()
    (function(x) * 3 + x.sum() * 0).sum().backward()
    assert x.grad is not None
    return x.grad


@pytest.mark.filterwarnings("error:cuesta", "ignore:.*autograd kernel was not registered")
@pytest.mark.parametrize("name", TRACED)
def test_decomposed_quantization_has_the_gradients_of_what_it_calls(name: str) -> None:
    """They were zero, in silence, with every backend."""
    expected = gradient(TRACED[name])
    assert expected.abs().sum() > 0
    torch.testing.assert_close(gradient(compiled_of(TRACED[name])), expected)


@pytest.mark.filterwarnings("ignore:.*autograd kernel was not registered")
@pytest.mark.parametrize("name", ("everywhere", "device", "passed"))
def test_gradients_are_recorded_within_a_kernel(name: str) -> None:
    """They were zero, in silence, with every backend."""
    function = getattr(theirs, name)
    expected = gradient(lambda x: function(x))
    with pytest.warns(UserWarning, match=f"cuesta runs a graph in eager: .*{name}.* has no kernel for autograd"):
        found = gradient(compiled_of(lambda x: function(x)))
    assert torch.equal(found, expected) and expected.abs().sum() > 0


@pytest.mark.filterwarnings("error:cuesta", "ignore:.*autograd kernel was not registered")
@pytest.mark.parametrize("name", ("places of a token", "scales of a token"))
def test_of_a_tensor_of_parts_nothing_is_recorded(name: str) -> None:
    """Its parts' operators run behind autograd, in eager, too: we gave a gradient that eager has none of."""

    def found(function: Callable[[Tensor], Tensor]) -> Tensor | None:
        x: Any = TwoTensor(torch.arange(12.0).view(4, 3), torch.ones(4, 3)).requires_grad_()
        result = function(x)
        assert result.requires_grad
        return torch.autograd.grad(result, x, torch.ones_like(result), allow_unused=True)[0]

    assert found(TRACED[name]) is None
    assert found(compiled_of(TRACED[name])) is None


@pytest.mark.filterwarnings("ignore:.*autograd kernel was not registered")
def test_a_kernel_that_asks_for_numbers_runs_in_eager() -> None:
    def function(x: Tensor) -> Tensor:
        return decomposed.choose_qparams.tensor(x, -128, 127, 1e-5, torch.int8)[0]

    with pytest.warns(UserWarning, match="cuesta runs a graph in eager: .*choose_qparams.tensor has no kernel"):
        found = compiled_of(function)(torch.ones(3, requires_grad=True))
    assert torch.equal(found, function(torch.ones(3)))


@pytest.mark.filterwarnings("error:cuesta")
def test_nothing_is_said_where_nothing_is_recorded() -> None:
    function = compiled_of(lambda x: theirs.device(x) + 1)
    x = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        assert torch.equal(function(x), x.sin() * 2 + 1)
    assert torch.equal(function(x.detach()), x.sin() * 2 + 1)
    torch.testing.assert_close(gradient(compiled_of(Wrapped.apply)), gradient(Wrapped.apply))


@pytest.mark.filterwarnings("ignore:.*autograd kernel was not registered")
def test_a_package_for_training_has_them_or_is_refused(tmp_path: Path) -> None:
    class Model(torch.nn.Module):
        def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
            super().__init__()
            self.function = function

        def forward(self, x: Tensor) -> Tensor:
            return self.function(x) * 3 + x.sum() * 0

    path = str(tmp_path / "model.cuesta")
    for name in ("everywhere", "device"):
        model, x = Model(getattr(theirs, name)), torch.ones(4, 3, requires_grad=True)
        with pytest.raises(PackageError, match=r"cannot be packaged: .* has no kernel for autograd"):
            cuesta.package(model, (x,), path, training=True)
        cuesta.package(model, (x.detach(),), path)
        torch.testing.assert_close(cuesta.load_package(path)(x.detach()), model(x).detach())
    cuesta.package(Model(TRACED["scales of channels"]), (torch.ones(4, 3, requires_grad=True),), path, training=True)
    loaded = cuesta.load_package(path)
    torch.testing.assert_close(gradient(lambda x: loaded(x) / 3), gradient(TRACED["scales of channels"]))
