"""Eager and compiled side by side: values, dtypes, exact strides, identities, aliases, mutations and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import keystr, tree_flatten, tree_flatten_with_path, tree_map

from cuesta.testing import assert_close_to_float64


def compiled_of(function: Callable[..., Any], **settings: Any) -> Callable[..., Any]:
    """The function compiled by Cuesta in one graph, unless the settings say otherwise."""
    return torch.compile(function, **{"backend": "cuesta", "fullgraph": True, **settings})


def check(
    function: Callable[..., Any], *inputs: Any, truth: bool = True, seed: int | None = None, **settings: Any
) -> Callable[..., Any]:
    """Compile the function, compare it with eager in every respect, and with float64; gives the compiled function."""
    compiled = compiled_of(function, **settings)
    check_call(compiled, function, *inputs, seed=seed)
    if truth:
        assert_close_to_float64(compiled, function, inputs)
    return compiled


def check_call(
    compiled: Callable[..., Any], function: Callable[..., Any], *inputs: Any, seed: int | None = None
) -> None:
    """Compare one call with eager's: values, dtypes, shapes, strides, identities and aliases, gradients, mutations."""
    expected = _call(function, inputs, seed)
    actual = _call(compiled, inputs, seed)
    assert actual.keys() == expected.keys(), f"{list(actual)} but eager {list(expected)}"
    problems = [f"{name}: {problem}" for name, want in expected.items() for problem in _differences(actual[name], want)]
    assert not problems, "\n".join(problems)


def copied(tree: Any) -> Any:
    """The same inputs in memory of their own: offsets, strides, overlaps and aliases among them are kept."""
    storages: dict[int, torch.Tensor] = {}
    made: dict[int, torch.Tensor] = {}

    def copy(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) in made:
            return made[id(value)]
        storage = value.untyped_storage()
        if storage._cdata not in storages:
            raw = torch.empty(0, dtype=torch.uint8, device=value.device).set_(storage)
            storages[storage._cdata] = raw.clone()
        fresh = torch.empty(0, dtype=value.dtype, device=value.device)
        fresh.set_(storages[storage._cdata].untyped_storage(), value.storage_offset(), value.shape, value.stride())
        made[id(value)] = fresh.requires_grad_(value.requires_grad)
        return made[id(value)]

    return tree_map(copy, tree)


def _call(function: Callable[..., Any], inputs: tuple[Any, ...], seed: int | None) -> dict[str, Any]:
    arguments = copied(inputs)
    if seed is not None:
        torch.manual_seed(seed)
    outputs = function(*arguments)
    results: dict[str, Any] = {"structure": str(tree_flatten(outputs)[1])}
    leaves = [(f"input{keystr(path)}", value) for path, value in tree_flatten_with_path(arguments)[0]]
    leaves += [(f"output{keystr(path)}", value) for path, value in tree_flatten_with_path(outputs)[0]]
    if seed is not None:
        results["random state"] = torch.get_rng_state()
    for number, (name, value) in enumerate(leaves):
        results[name] = value.detach().clone() if isinstance(value, torch.Tensor) else value
        if not isinstance(value, torch.Tensor):
            results[f"{name} type"] = type(value).__name__
            continue
        earlier = leaves[:number]
        results[f"{name} layout"] = (str(value.dtype), tuple(value.shape), value.stride(), value.storage_offset())
        results[f"{name} autograd"] = (value.requires_grad, value.is_leaf)
        results[f"{name} is"] = next((other for other, one in earlier if one is value), None)
        results[f"{name} shares memory with"] = next((other for other, one in earlier if _share(one, value)), None)
    wanted = [value for name, value in leaves if name.startswith("input") and _differentiable(value) and value.is_leaf]
    roots = [value for name, value in leaves if name.startswith("output") and _differentiable(value)]
    roots = [value for value in roots if value.grad_fn is not None]
    if isinstance(function, torch.nn.Module):
        wanted += [value for value in function.parameters() if value.requires_grad]
    if wanted and roots:
        generator = torch.Generator().manual_seed(1)
        cotangents = [torch.randn(root.shape, generator=generator).to(root.dtype) for root in roots]
        for number, gradient in enumerate(torch.autograd.grad(roots, wanted, cotangents, allow_unused=True)):
            results[f"gradient {number}"] = gradient
            if gradient is not None:
                results[f"gradient {number} layout"] = (str(gradient.dtype), gradient.stride())
    return results


def _share(a: Any, b: torch.Tensor) -> bool:
    return isinstance(a, torch.Tensor) and a.untyped_storage()._cdata == b.untyped_storage()._cdata


def _differentiable(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _differences(actual: Any, expected: Any) -> list[str]:
    if not isinstance(expected, torch.Tensor):
        same = actual == expected or (expected != expected and actual != actual)
        return [] if same else [f"{actual!r}, eager {expected!r}"]
    if not isinstance(actual, torch.Tensor):
        return [f"{actual!r}, eager a tensor"]
    if expected.dtype in (torch.float16, torch.bfloat16) and actual.dtype == expected.dtype:
        actual, expected = actual.float(), expected.float()  # rounded fewer times than eager; float64 is the judge
        if torch.allclose(actual, expected, rtol=0.1, atol=0.05, equal_nan=True):
            return []
    try:
        torch.testing.assert_close(actual, expected, equal_nan=True)
    except AssertionError as error:
        return [str(error)]
    return []
