"""Is a compiled function as right as eager is? Both are measured against float64.

A tolerance that is found by trying says little: what is close enough for a softmax is wrong for a rotation. Here the
yardstick is eager itself. The same computation in float64 is the truth; a result passes when its distance from the
truth is at most `factor` times eager's distance, plus a few units in the last place.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_map

from cuesta.replaying.comparing import Comparison, compare

Inputs = Sequence[Any] | Mapping[str, Any]
Results = dict[str, Any]

REDUCED = (torch.float32, torch.float16, torch.bfloat16)
_WIDE = {**dict.fromkeys(REDUCED, torch.float64), torch.complex32: torch.complex128, torch.complex64: torch.complex128}


def assert_close_to_float64(
    compiled: Callable[..., Any],
    eager: Callable[..., Any],
    inputs: Inputs,
    *,
    factor: float = 3.0,
    ulps: float = 4.0,
    gradients: bool = True,
    strides: bool = True,
) -> list[Comparison]:
    """Run compiled, eager and float64 on copies of the inputs, and compare all they leave behind.

    Compared are the outputs, the gradients of floating inputs that require one and of parameters (for fixed random
    cotangents), and the inputs and buffers afterwards, since either may be written to. Integers and booleans must be
    eager's exactly. `ulps` is the floor of what is allowed, in units in the last place of the tensor's largest
    magnitude: eager is sometimes right by luck.

    Requires: `compiled` shares parameters with `eager` (as `torch.compile(eager)` does), and draws no random numbers.
    Errors: AssertionError that lists every tensor that is off.
    """
    expected = effects(eager, eager, inputs, gradients=gradients)
    actual = effects(compiled, eager, inputs, gradients=gradients)
    truth_model = copy.deepcopy(eager).double() if isinstance(eager, torch.nn.Module) else eager
    truth = effects(truth_model, truth_model, inputs, gradients=gradients, dtype=torch.float64)
    assert actual.keys() == expected.keys(), (
        f"compiled gives {sorted(actual.keys() - expected.keys())}, eager {sorted(expected.keys() - actual.keys())}"
    )
    comparisons = [
        compare(name, actual[name], expected[name], truth[name], factor=factor, ulps=ulps, strides=strides)
        for name in expected
    ]
    wrong = [comparison for comparison in comparisons if not comparison.passes]
    assert not wrong, f"{len(wrong)} of {len(comparisons)} results are off:\n" + "\n".join(map(str, wrong))
    return comparisons


class Float64Mode(TorchDispatchMode):
    """Makes float64 of every narrower floating type that a model asks for by name (`x.to(torch.float32)`)."""

    supports_higher_order_operators = True  # what they call runs as it is

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = {name: torch.float64 if _is_reduced(value) else value for name, value in (kwargs or {}).items()}
        args = tuple(torch.float64 if _is_reduced(value) else value for value in args)
        return func(*args, **kwargs)


def _is_reduced(value: Any) -> bool:
    return isinstance(value, torch.dtype) and value in REDUCED


def effects(
    function: Callable[..., Any],
    owner: Callable[..., Any],
    inputs: Inputs,
    *,
    gradients: bool,
    dtype: torch.dtype | None = None,
    mode: AbstractContextManager[Any] | None = None,
) -> Results:
    """Everything that one call leaves behind, by name; with `dtype` float64, as it would be if all were float64.

    The inputs are copied first; buffers of `owner` are put back afterwards. The passes forward and backward run in
    `mode`.
    """
    module = owner if isinstance(owner, torch.nn.Module) else None
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()} if module else {}
    inputs = tree_map(lambda value: _copied(value, dtype), inputs)
    # Only the computation itself runs in the mode: copies and cotangents must be the same for every run.
    if mode is None:
        mode = Float64Mode() if dtype is torch.float64 else nullcontext()
    # Before the call: what it writes to may require a gradient afterwards.
    wanted = {name: value for name, value in leaves(inputs, "input") if _requires_gradient(value)}
    with mode:
        outputs = function(**inputs) if isinstance(inputs, Mapping) else function(*inputs)
    results = dict(leaves(outputs, "output"))
    shared = _shared_memory(results, dict(leaves(inputs, "input")))
    if gradients:
        if module:
            wanted |= {name: value for name, value in module.named_parameters() if value.requires_grad}
        named = {name: value for name, value in results.items() if _requires_gradient(value)}
        differentiable = list(named.values())
        cotangents = _cotangents(differentiable)
        if differentiable and wanted:
            with mode:
                found = torch.autograd.grad(differentiable, list(wanted.values()), cotangents, allow_unused=True)
            results |= {f"gradient of {name}": gradient for name, gradient in zip(wanted, found, strict=True)}
        results["differentiable"] = list(named)
    results |= {f"{name} afterwards": value for name, value in leaves(inputs, "input")}
    if module:
        for name, buffer in module.named_buffers():
            results[f"buffer {name} afterwards"] = buffer.clone()
            buffer.detach().copy_(buffers[name])
    results["shared memory"] = shared
    return {name: value.detach() if isinstance(value, torch.Tensor) else value for name, value in results.items()}


def _shared_memory(outputs: Mapping[str, Any], inputs: Mapping[str, Any]) -> list[str]:
    """Which outputs are the same memory as an input or another output."""
    owners: dict[int, str] = {}
    found: list[str] = []
    for name, value in [*inputs.items(), *outputs.items()]:
        if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or not value.numel():
            continue
        owner = owners.setdefault(value.untyped_storage()._cdata, name)
        if owner != name and name in outputs:
            found.append(f"{name} and {owner}")
    return found


def _cotangents(outputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Fixed random numbers that every dtype holds exactly, so that all runs get the same.

    They have the outputs' strides, which is what a traced backward pass expects; the gradients' strides may depend on
    it.
    """
    generator = torch.Generator().manual_seed(0)
    return [
        torch.empty_like(output).copy_(torch.randn(output.shape, generator=generator).bfloat16())
        for output in map(torch.Tensor.detach, outputs)
    ]


def _copied(value: Any, dtype: torch.dtype | None) -> Any:
    """A leaf with the same numbers, sizes, strides, offset and negative bit in memory of its own, overlaps included."""
    if not isinstance(value, torch.Tensor):
        return value
    wanted = value.dtype if dtype is None else _WIDE.get(value.dtype, value.dtype)
    if value.layout is not torch.strided:
        return value.detach().to(wanted, copy=True).requires_grad_(value.requires_grad)
    flat = torch.empty(0, dtype=value.dtype, device=value.device).set_(value.untyped_storage())
    flat = flat.to(wanted, copy=True)
    copied = flat.as_strided(value.shape, value.stride(), value.storage_offset()).detach()
    copied = torch.ops.aten._neg_view.default(copied) if value.is_neg() else copied
    return copied.requires_grad_(value.requires_grad)


def leaves(tree: Any, name: str) -> list[tuple[str, Any]]:
    """The leaves of a result, each with its name: `output[0]`."""
    return [(f"{name}{keystr(path)}", value) for path, value in tree_flatten_with_path(tree)[0]]


def _requires_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad
