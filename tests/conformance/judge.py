"""Does a call leave behind what it leaves in eager? What is equal to the bit needs no judge; the rest is measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from cuesta.replaying.comparing import Comparison, compare
from cuesta.testing import Results, effects, leaves

SEED = 42
"""The database's own wrappers of random operators set this seed in eager; a traced graph does not."""

REORDERINGS = 8
"""How often eager is asked again, with its sums taken in another order."""
REORDERED_FACTOR = 2.0
"""How much farther from the truth a result may be than eager is with some other order of its sums."""


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

    A result passes when it is as close to the float64 truth as eager is (three times its error, and four units in the
    last place), or twice as far as eager would be had it summed in another order. Integers must be eager's; so must
    random numbers, but for a few roundings. Without `values`, only what results look like counts. Strides may be those
    that PyTorch's own metadata wrongly foretells.
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
        without_us = _effects(captured_only, call)
        for name, one in list(found.items()):
            if random and same(actual[name], without_us[name]):
                captured.append(one)
                del found[name]
            elif one.problem is not None and _look_alike(actual[name], without_us[name]):
                captured.append(one)
                found[name] = compare(name, actual[name], without_us[name], truth[name], strides=False)
        if any((one.problem or "").startswith("strides") for one in found.values()):
            foretold = _foretold(call)
            for name, one in list(found.items()):
                if (one.problem or "").startswith("strides") and _look_alike(actual[name], foretold.get(name)):
                    captured.append(one)
                    found[name] = compare(name, actual[name], expected[name], truth[name], strides=False)
    for seed in range(REORDERINGS):
        close = [name for name, one in found.items() if not one.passes and one.problem is None]
        if not close:
            break
        reordered = _effects(call.function, call, mode=_ReorderedSums(seed))
        for name in close:
            found[name] = compare(
                name, actual[name], reordered[name], truth[name], factor=REORDERED_FACTOR, strides=False
            )
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


def _look_alike(actual: Any, captured: Any) -> bool:
    if not isinstance(actual, torch.Tensor) or not isinstance(captured, torch.Tensor):
        return bool(actual == captured)
    if (actual.dtype, actual.shape, actual.layout) != (captured.dtype, captured.shape, captured.layout):
        return False
    return actual.stride() == captured.stride()


def _foretold(call: Call) -> Results:
    """The outputs as PyTorch foretells them from fake tensors: what a traced graph says of strides, right or wrong."""
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fakes = [mode.from_tensor(tensor.detach()) for tensor in call.tensors]
        return dict(leaves(call.function(*fakes), "output"))


def _blank(value: Any) -> Any:
    return value.detach().clone().zero_() if isinstance(value, torch.Tensor) else value


def _effects(
    function: Callable[..., Any],
    call: Call,
    dtype: torch.dtype | None = None,
    mode: TorchDispatchMode | None = None,
) -> Results:
    torch.manual_seed(SEED)
    return effects(function, call.function, call.tensors, gradients=call.gradients, dtype=dtype, mode=mode)


_REDUCTIONS = frozenset(
    ("sum", "mean", "prod", "nansum", "var", "var_mean", "std", "std_mean", "linalg_vector_norm", "norm", "logsumexp")
)
"""Operators on a tensor and the dims they reduce, whose result does not depend on the order of the elements."""

_PRODUCTS = dict.fromkeys(("mm", "bmm", "dot", "mv"), (0, 1)) | dict.fromkeys(("addmm", "baddbmm", "addmv"), (1, 2))
"""Products of two tensors: which arguments they are."""


class _ReorderedSums(TorchDispatchMode):
    """Has eager take every sum in another order, by mixing the elements along the dims that are summed over.

    Eager is sometimes right by luck, as when a sum cancels whose terms happen to round well. How far it is from the
    truth in any order says what the sum can do. Nothing else is changed: not what is read, nor an operation on single
    elements, which eager and we round alike.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        namespace, _, name = func._schema.name.partition("::")
        given = dict(zip((argument.name for argument in func._schema.arguments), args, strict=False)) | (kwargs or {})
        if namespace == "aten" and name in _REDUCTIONS:
            source, dims = given["self"], given.get("dim")
            if dims is None or dims == []:
                dims = range(source.dim())
            for dim in dims if isinstance(dims, list | tuple | range) else (dims,):
                source = self.mixed(dim, source)[0]
            args = (source, *args[1:])
        elif namespace == "aten" and name in _PRODUCTS:
            first, second = _PRODUCTS[name]
            left, right = args[first], args[second]
            # The dim that is summed over is the last on the left, and on the right the one before the last, if any.
            both = self.mixed(-1, left, right.movedim(max(right.dim() - 2, 0), -1))
            given = {first: both[0], second: both[1].movedim(-1, max(right.dim() - 2, 0))}
            args = tuple(given.get(place, value) for place, value in enumerate(args))
        return func(*args, **(kwargs or {}))

    def mixed(self, dim: int, *tensors: torch.Tensor) -> list[torch.Tensor]:
        """The tensors, with their elements along a dim in one and the same other order."""
        if not tensors[0].dim():
            return list(tensors)
        order = torch.randperm(tensors[0].shape[dim], generator=self.generator)
        return [tensor.index_select(dim, order) for tensor in tensors]


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
