"""Calls of operators whose schema may lie: what they must not change, and what their results must not lie in.

    before = copies_of(x, y)
    out = foo(x, y)
    check_call(before, (x, y), (out,), "mylib::foo.default")

The compiler believes a schema: it may put a later result into the memory of an argument that nobody reads any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from cuesta.targets.host.runtime import resolve_overload


def copies_of(*arguments: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What they hold. (Torch counts who writes to a tensor, but not below autograd, where operators run.)"""
    return tuple(_bits(one).clone() for one in arguments)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """The elements as integers: NaN is equal to itself, and 0 is not -0."""
    real = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    return real.detach().view(_INTEGERS[real.element_size()])


_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def check_call(
    before: Sequence[torch.Tensor],
    arguments: Sequence[torch.Tensor],
    results: Sequence[Any],
    overload: str,
    where: str = "",
) -> None:
    """Holds an operator to its schema: it has changed none of the arguments, and no result lies in the memory of one.

    Errors: RuntimeError, which names the operator.
    """
    pairs = zip(before, arguments, strict=True)
    changed = [number for number, (copy, one) in enumerate(pairs) if not torch.equal(copy, _bits(one))]
    places = {one.untyped_storage().data_ptr() for one in arguments if one.numel()}
    within = [
        number
        for number, result in enumerate(results)
        if isinstance(result, torch.Tensor) and result.numel() and result.untyped_storage().data_ptr() in places
    ]
    if (not changed and not within) or not _denies(overload):
        return
    said = f"{where}  {overload}" if where else overload
    if changed:
        raise RuntimeError(f"{said} changed tensor {changed[0]} of those it is given, which its schema denies")
    raise RuntimeError(
        f"{said} gave as result {within[0]} memory of a tensor that it is given, which its schema denies"
    )


def _denies(overload: str) -> bool:
    """Whether the schema of an operator denies that it changes arguments, or gives aliases of them."""
    schema = getattr(resolve_overload(overload), "_schema", None)
    return schema is not None and not schema.is_mutable and all(one.alias_info is None for one in schema.returns)
