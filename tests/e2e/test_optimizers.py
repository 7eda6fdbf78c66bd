"""What PyTorch's optimizers call on lists of tensors: generated, and written where the state is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.optim import ASGD, SGD, Adadelta, Adagrad, Adam, Adamax, AdamW, NAdam, RAdam, RMSprop, Rprop

from cuesta.record import records

SIZES = ((33, 7), (5,), (4, 3, 2), ())
slow = pytest.mark.slow


def tensors(seed: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(sizes, generator=generator).to(dtype) for sizes in SIZES]


def same(run: Callable[[Any], Sequence[Tensor]]) -> Counter[str]:
    """Runs with our backend and with what Dynamo makes of the program in eager, which is not always eager's formula;
    gives our fallbacks.
    """
    before = len(records)
    results: list[Sequence[Tensor]] = []
    for backend in ("eager", "cuesta"):
        torch._dynamo.reset()
        results.append(run(backend))
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, equal_nan=True)
    assert len(records) > before
    return sum((record.fallbacks for record in records[before:]), Counter[str]())


@pytest.mark.filterwarnings("ignore:.*record_function.*")
@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        (AdamW, {"amsgrad": True}),
        *(
            pytest.param(optimizer, options, marks=slow)
            for optimizer, options in (
                (SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
                (Adam, {"capturable": True}),
                (RMSprop, {"centered": True, "momentum": 0.9}),
                (Adagrad, {"lr_decay": 0.1}),
                (Adadelta, {}),
                (NAdam, {}),
                (RAdam, {"capturable": True}),
                (Adamax, {}),
                (ASGD, {}),
                (Rprop, {}),
            )
        ),
        *(  # each optimizer once more
            pytest.param(optimizer, options, marks=pytest.mark.thorough)
            for optimizer, options in (
                (SGD, {"maximize": True}),
                (Adam, {"weight_decay": 0.1}),
                (AdamW, {"capturable": True}),
                (RMSprop, {"capturable": True}),
                (Adadelta, {"capturable": True}),
                (NAdam, {"capturable": True}),
                (RAdam, {}),
                (Adamax, {"capturable": True}),
            )
        ),
    ],
)
@pytest.mark.every(2)
def test_steps_over_lists(optimizer: Callable[..., torch.optim.Optimizer], options: dict[str, Any]) -> None:
    assert not same(steps_of(optimizer, foreach=True, **options))


def test_an_operator_that_gives_several_lists() -> None:
    def run(backend: str) -> list[Tensor]:
        values, means, squares = tensors(0), tensors(2), [one.abs() for one in tensors(3)]
        greatest, steps = [one + 0.1 for one in squares], [torch.tensor(2.0) for _ in values]
        options = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1, "eps": 1e-8}

        @torch.compile(backend=backend, fullgraph=True)
        def step(gradients: list[Tensor]) -> None:
            torch.ops.aten._fused_adamw_(
                values, gradients, means, squares, greatest, steps, **options, amsgrad=True, maximize=False
            )

        step(tensors(1))
        return [*values, *means, *squares, *greatest]

    assert same(run)["aten._fused_adamw.default"] == 1


def steps_of(optimizer: Callable[..., torch.optim.Optimizer], **options: Any) -> Callable[[str], Sequence[Tensor]]:
    """Parameters and states after four steps."""

    def run(backend: str) -> list[Tensor]:
        parameters = [torch.nn.Parameter(one) for one in tensors(0)]
        own = optimizer(parameters, lr=0.1, **options)
        step = torch.compile(own.step, backend=backend)
        for number in range(4):
            for parameter, gradient in zip(parameters, tensors(number + 1), strict=True):
                parameter.grad = gradient
            step()
        states = [own.state[parameter] for parameter in parameters]
        return [*parameters, *(value for state in states for value in state.values() if isinstance(value, Tensor))]

    return run


def test_parameters_that_do_not_lie_row_by_row() -> None:
    """Adamax asks its number of steps with a graph of its own, which gives back a tensor that it holds."""

    def run(backend: str) -> list[Tensor]:
        parameter = torch.nn.Parameter(torch.arange(12.0).view(3, 4).t())
        own = Adamax([parameter], foreach=False)
        step = torch.compile(own.step, backend=backend)
        for number in range(3):
            parameter.grad = torch.linspace(-1, number, 12).view(3, 4).t()
            step()
        return [parameter, *(one for one in own.state[parameter].values() if isinstance(one, Tensor))]

    same(run)


def test_moving_averages_of_parameters() -> None:
    def run(backend: str) -> list[Tensor]:
        averages = tensors(0)

        @torch.compile(backend=backend, fullgraph=True)
        def update(values: list[Tensor], weight: float) -> None:
            torch.ops.aten._foreach_lerp_.Scalar(averages, values, weight)

        for weight in (0.01, 0.9):
            update(tensors(1), weight)
        return averages

    assert not same(run)


@pytest.mark.parametrize("order", [2.0, pytest.param(float("inf"), marks=slow), pytest.param(3.0, marks=slow)])
def test_clipped_gradients(order: float) -> None:
    def run(backend: str) -> list[Tensor]:
        parameters = [torch.nn.Parameter(one) for one in tensors(0)]
        for parameter, gradient in zip(parameters, tensors(1), strict=True):
            parameter.grad = gradient

        @torch.compile(backend=backend, fullgraph=True)
        def clip() -> Tensor:
            return torch.nn.utils.clip_grad_norm_(parameters, 0.5, norm_type=order, foreach=True)

        total = clip()
        return [total, *(parameter.grad for parameter in parameters if parameter.grad is not None)]

    assert not same(run)


@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.float16, marks=slow)])
@pytest.mark.parametrize("bad", [None, float("inf"), float("-inf"), float("nan")])
@pytest.mark.covering
def test_unscaled_gradients(dtype: torch.dtype, bad: float | None) -> None:
    """What `GradScaler.unscale_` calls, with a scale that f16 has no reciprocal of."""

    def run(backend: str) -> list[Tensor]:
        gradients, found = [*tensors(1, dtype), torch.empty(0, dtype=dtype)], torch.zeros(1)
        if bad is not None:
            gradients[1][3] = bad

        @torch.compile(backend=backend, fullgraph=True)
        def unscale(scale: Tensor) -> None:
            torch.ops.aten._amp_foreach_non_finite_check_and_unscale_(gradients, found, scale)

        unscale(torch.full((1,), 2.0**-26))
        return [*gradients, found]

    assert not same(run)


@pytest.mark.slow
def test_a_step_under_a_gradient_scaler() -> None:
    def run(backend: str) -> list[Tensor]:
        torch.manual_seed(0)
        model = torch.nn.Linear(8, 4)
        optimizer = SGD(model.parameters(), lr=0.1, foreach=True)
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)

        @torch.compile(backend=backend)
        def step(x: Tensor) -> None:
            optimizer.zero_grad()
            scaler.scale(model(x).square().mean()).backward()
            scaler.step(optimizer)
            scaler.update()

        for number in range(4):
            step(torch.randn(3, 8) if number != 2 else torch.full((3, 8), torch.inf))
        return [*model.parameters(), torch.tensor(scaler.get_scale())]

    same(run)
