"""Does a call leave behind what it leaves in eager? What is equal to the bit needs no judge; the rest is measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from cuesta.testing import Comparison, Results, compare, effects, leaves

SEED = 42
"""The database's own wrappers of random operators set this seed in eager; a traced graph does not."""

NUDGES = 4
"""How often eager is asked again, with other roundings."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an operator as a function of its tensors: everything else is part of the function."""

    function: Callable[..., Any]
    tensors: tuple[torch.Tensor, ...]
    gradients: bool


def differences(
    call: Call, compiled: Callable[..., Any], captured_only: Callable[..., Any], *, values: bool = True
) -> tuple[list[Comparison], list[Comparison]]:
    """What is off: in our answer for it, and in that of PyTorch's capture, with which `captured_only` runs the call.

    A result passes when it is as close to the float64 truth as eager is, or as eager would be with other roundings.
    Integers must be eager's; so must random numbers, but for a few roundings. Without `values`, only what results
    look like counts.
    """
    expected = _effects(call.function, call)
    actual = _effects(compiled, call)
    assert actual.keys() == expected.keys(), f"{sorted(actual)}, eager {sorted(expected)}"
    if not values:
        actual = {name: _blank(value) for name, value in actual.items()}
        expected = {name: _blank(value) for name, value in expected.items()}
    doubtful = [name for name in expected if not same(actual[name], expected[name])]
    if not doubtful:
        return [], []
    random = _draws_random_numbers(call)
    truth = _effects(call.function, call, torch.float64) if values and not random else expected
    found = {name: compare(name, actual[name], expected[name], truth[name]) for name in doubtful}
    captured: list[Comparison] = []
    if random or any(one.problem is not None for one in found.values()):
        without_us, promised = _effects(captured_only, call), _promised_strides(call)
        for name, one in list(found.items()):
            if random and same(actual[name], without_us[name]):
                captured.append(one)
                del found[name]
            elif one.problem is not None and _look_alike(actual[name], without_us[name], promised.get(name)):
                captured.append(one)
                found[name] = compare(name, actual[name], without_us[name], truth[name], strides=False)
    for seed in range(NUDGES):
        close = [name for name, one in found.items() if not one.passes and one.problem is None]
        if not close:
            break
        nudged = _nudged_effects(call, _NudgeMode(seed))
        for name in close:
            found[name] = compare(name, actual[name], nudged[name], truth[name], strides=False)
    return [one for one in found.values() if not one.passes], captured


def same(actual: Any, expected: Any) -> bool:
    """Whether a result is eager's to the bit, metadata included."""
    if not isinstance(expected, torch.Tensor) or not isinstance(actual, torch.Tensor):
        return compare("", actual, expected, None).passes
    if (actual.dtype, actual.shape, actual.layout) != (expected.dtype, expected.shape, expected.layout):
        return False
    if actual.layout is not torch.strided:
        return torch.equal(actual.to_dense(), expected.to_dense())
    if actual.numel() and actual.stride() != expected.stride():
        return False
    return torch.allclose(actual, expected, rtol=0, atol=0, equal_nan=True)


def _look_alike(actual: Any, captured: Any, promised: tuple[int, ...] | None) -> bool:
    if not isinstance(actual, torch.Tensor) or not isinstance(captured, torch.Tensor):
        return bool(actual == captured)
    if (actual.dtype, actual.shape, actual.layout) != (captured.dtype, captured.shape, captured.layout):
        return False
    return actual.stride() in (captured.stride(), promised)


def _promised_strides(call: Call) -> dict[str, tuple[int, ...]]:
    """The strides that PyTorch's fake tensors give the outputs: a compiler's word for what the outputs look like."""
    mode = FakeTensorMode()
    tensors = [mode.from_tensor(tensor.detach()) for tensor in call.tensors]
    with mode:
        outputs = call.function(*tensors)
    return {name: value.stride() for name, value in leaves(outputs, "output") if isinstance(value, torch.Tensor)}


def _blank(value: Any) -> Any:
    return value.detach().clone().zero_() if isinstance(value, torch.Tensor) else value


def _effects(function: Callable[..., Any], call: Call, dtype: torch.dtype | None = None) -> Results:
    torch.manual_seed(SEED)
    return effects(function, call.function, call.tensors, gradients=call.gradients, dtype=dtype)


def _nudged_effects(call: Call, mode: _NudgeMode) -> Results:
    tensors = [mode.nudged(one.detach().clone()).requires_grad_(one.requires_grad) for one in call.tensors]
    torch.manual_seed(SEED)
    return effects(call.function, call.function, tensors, gradients=call.gradients, mode=mode)


class _NudgeMode(TorchDispatchMode):
    """Moves every result, and every tensor read, by at most a rounding: x · (1 + ε · u), u in [-1/2, 1/2].

    Eager is sometimes right by luck, as when a sum cancels whose terms happen to round well. How far it is from the
    truth when every operation rounds as it pleases says what the arithmetic can do (Monte Carlo arithmetic). Whole
    numbers stay: they are exact more often than not, and may be where a function jumps.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        # What aliases an argument is no new number.
        fresh = not any(returned.alias_info for returned in func._schema.returns)
        return tree_map(self.nudged, result) if fresh else result

    def nudged(self, value: Any) -> Any:
        """The tensor, moved in place."""
        if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.layout is not torch.strided:
            return value
        noise = torch.rand(value.shape, generator=self.generator, dtype=torch.float64) - 0.5
        moved = value.double() * (1.0 + torch.finfo(value.dtype).eps * noise)
        return value.copy_(torch.where(value == value.round(), value, moved))


class _RandomMode(TorchDispatchMode):
    """Notices random numbers being drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.drawn |= torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **(kwargs or {}))


def _draws_random_numbers(call: Call) -> bool:
    with _RandomMode() as mode, torch.no_grad():
        call.function(*[tensor.detach().clone() for tensor in call.tensors])
    return mode.drawn
