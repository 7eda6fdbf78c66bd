"""Eager and compiled side by side: values, dtypes, exact layouts, identities, aliases, mutations and gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._pytree import keystr, tree_flatten, tree_flatten_with_path, tree_map

from cuesta.testing import assert_close_to_float64

Results = dict[str, Any]
Counted = Callable[[int], bool] | None
"""Whether the stride of a dimension of a size counts; None when no stride does."""


def compiled_of(function: Callable[..., Any], **settings: Any) -> Callable[..., Any]:
    """The function compiled by Cuesta, in one graph unless the settings say otherwise."""
    return torch.compile(function, **{"backend": "cuesta", "fullgraph": True, **settings})


@contextmanager
def compiled_autograd(enabled: bool = True) -> Iterator[None]:
    """Backward passes are captured by compiled autograd in the `with` block, and run in eager after AOTAutograd.

    PyTorch's own helper gives what it captures to TorchInductor, which takes seconds and is not what is tested.
    """
    if not enabled:
        yield
        return
    from torch._dynamo import compiled_autograd as of_torch
    from torch._dynamo.utils import counters

    def compiler(gm: Any) -> Any:
        return torch.compile(gm, backend="aot_eager", dynamic=False)

    before = counters["compiled_autograd"]["captures"]
    with of_torch._enable(compiler):  # pyright: ignore[reportPrivateUsage]
        yield
    assert counters["compiled_autograd"]["captures"] > before, "nothing was captured"


def check(
    function: Callable[..., Any], *inputs: Any, truth: bool = True, seed: int | None = None, **settings: Any
) -> None:
    """Compile the function and compare one call with eager in every respect, and with float64 unless `truth` is off."""
    compiled = compiled_of(function, **settings)
    check_call(compiled, function, *inputs, seed=seed, judged=truth)
    if truth:
        assert_close_to_float64(compiled, function, inputs)


def check_call(
    compiled: Callable[..., Any],
    function: Callable[..., Any],
    *inputs: Any,
    seed: int | None = None,
    unit_strides: bool = True,
    strides: bool = True,
    judged: bool = False,
) -> None:
    """Compare one call with eager's: the tree of outputs, values, dtypes, sizes, strides, offsets, which tensors are
    one object or share memory, what became of the inputs, gradients and their strides.

    16-bit floats are compared loosely: they are rounded fewer times than in eager, and float64 is their judge. So are
    gradients of all floats where float64 is to judge them (`judged`): sums of many terms in another order, of which a
    library's depends on the machine.
    Without `unit_strides`, the strides of dimensions of size 1 do not count (AOTAutograd's views replayed on another
    size than they were traced with have others than eager's); without `strides`, none do, nor offsets (what is written
    to lies as AOTAutograd's functional operators say, which is not always as eager's in-place ones leave it).
    """
    counted = (lambda size: size > 1 or unit_strides) if strides else None
    parameters = dict(function.named_parameters()) if isinstance(function, torch.nn.Module) else {}
    expected = _call(function, inputs, seed, parameters, counted)
    actual = _call(compiled, inputs, seed, parameters, counted)
    assert actual.keys() == expected.keys(), f"{list(actual)}, but eager {list(expected)}"
    problems = [
        f"{name}: {said}"
        for name, want in expected.items()
        if (said := difference(actual[name], want, judged=judged and name.startswith("gradient")))
    ]
    assert not problems, "\n".join(problems)


def copied(tree: Any) -> Any:
    """The same inputs in memory of their own: offsets, strides, overlaps, bits and aliases among them
    are kept.
    """
    storages: dict[int, torch.Tensor] = {}
    tensors: dict[int, torch.Tensor] = {}

    def copy(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in tensors:
            storage = value.untyped_storage()
            if storage._cdata not in storages:
                storages[storage._cdata] = torch.empty(0, dtype=torch.uint8).set_(storage).clone()
            own = storages[storage._cdata].untyped_storage()
            fresh = torch.empty(0, dtype=value.dtype).set_(own, value.storage_offset(), value.shape, value.stride())
            fresh = torch.ops.aten._neg_view.default(fresh) if value.is_neg() else fresh
            fresh = torch.ops.aten._conj.default(fresh) if value.is_conj() else fresh
            tensors[id(value)] = fresh.requires_grad_(value.requires_grad)
        return tensors[id(value)]

    return tree_map(copy, tree)


def _call(
    function: Callable[..., Any],
    inputs: tuple[Any, ...],
    seed: int | None,
    parameters: dict[str, torch.nn.Parameter],
    counted: Counted,
) -> Results:
    arguments = copied(inputs)
    if seed is not None:
        torch.manual_seed(seed)
    outputs = function(*arguments)
    results: Results = {"structure": str(tree_flatten(outputs)[1])}
    if seed is not None:
        results["random state"] = torch.get_rng_state()
    leaves = [(f"input{keystr(path)}", value) for path, value in tree_flatten_with_path(arguments)[0]]
    leaves += [(f"output{keystr(path)}", value) for path, value in tree_flatten_with_path(outputs)[0]]
    for number, (name, value) in enumerate(leaves):
        if not isinstance(value, torch.Tensor):
            results[name] = (type(value), value)
            continue
        results[name] = value.detach().clone()
        results[f"{name} layout"] = (value.dtype, *_layout(value, counted), value.storage_offset() if counted else 0)
        results[f"{name} autograd"] = (value.requires_grad, value.is_leaf)
        earlier = leaves[:number]
        results[f"{name} is"] = next((other for other, one in earlier if one is value), None)
        results[f"{name} shares memory with"] = next((other for other, one in earlier if _share(one, value)), None)
    return results | _gradients(leaves, parameters, counted)


def _gradients(leaves: list[tuple[str, Any]], parameters: dict[str, torch.nn.Parameter], counted: Counted) -> Results:
    wanted = {name: value for name, value in leaves if name.startswith("input") and _is_differentiable_leaf(value)}
    wanted |= {name: value for name, value in parameters.items() if value.requires_grad}
    roots = [value for name, value in leaves if name.startswith("output") and getattr(value, "grad_fn", None)]
    if not wanted or not roots:
        return {}
    generator = torch.Generator().manual_seed(1)
    cotangents = [torch.randn(root.shape, generator=generator).to(root.dtype) for root in roots]
    found = torch.autograd.grad(roots, list(wanted.values()), cotangents, allow_unused=True)
    results: Results = {}
    for name, gradient in zip(wanted, found, strict=True):
        results[f"gradient of {name}"] = gradient
        if gradient is not None:
            results[f"gradient of {name} layout"] = (gradient.dtype, *_layout(gradient, counted))
    return results


def _layout(value: torch.Tensor, counted: Counted) -> tuple[tuple[int, ...], tuple[int, ...]]:
    pairs = zip(value.shape, value.stride(), strict=True)
    return tuple(value.shape), tuple(stride if counted and counted(size) else -1 for size, stride in pairs)


def _share(a: Any, b: torch.Tensor) -> bool:
    return isinstance(a, torch.Tensor) and a.untyped_storage()._cdata == b.untyped_storage()._cdata


def _is_differentiable_leaf(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad and value.is_leaf


def difference(actual: Any, expected: Any, *, judged: bool = False) -> str | None:
    """What is off about a value, by the tolerances of `torch.testing` (looser in 16 bits, and of f32 that float64 has
    `judged`); None when nothing is.
    """
    if not isinstance(expected, torch.Tensor) or not isinstance(actual, torch.Tensor):
        return None if actual is expected or actual == expected else f"{actual!r}, eager {expected!r}"
    rtol, atol = (0.1, 0.05) if expected.dtype in (torch.float16, torch.bfloat16) else (None, None)
    if judged and expected.dtype == torch.float32:
        rtol, atol = 1e-4, 1e-4
    try:
        torch.testing.assert_close(actual, expected, equal_nan=True, rtol=rtol, atol=atol)
    except AssertionError as error:
        return str(error)
    return None
