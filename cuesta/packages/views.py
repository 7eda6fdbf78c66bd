"""Results of a captured graph that are views: how each lies in the memory of an input, or of another result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from cuesta.packages.graph import PackageError, Plan, Result, View
from cuesta.packages.sizes import size_text


def with_views(plan: Plan, gm: torch.fx.GraphModule, inputs: Sequence[Any], mode: Any) -> Plan:
    """Notes of results that are views how they lie: the graph is run once more, on fake tensors.

    What a program gives there need be no view: it has the values, and AOTAutograd takes the view anew, as we do.

    Errors: PackageError for a view of which a call does not show how it lies.
    """
    if not any(one.view is not None for one in plan.results):
        return plan
    with torch.no_grad(), mode:
        found = gm(*inputs)
    values = found if isinstance(found, tuple | list) else (found,)
    results: list[Result] = []
    used: set[str] = set()
    for one, value in zip(plan.results, values, strict=True):
        if one.view is not None:
            # A base that is a result of the program's own begins where its memory does.
            begin = 0 if one.input is None else _begin(inputs[one.input], value)
            numbers = (*value.shape, *value.stride(), value.storage_offset() - begin)
            used.update(str(symbol) for number in numbers for symbol in _symbols(number))
            *laid, offset = map(size_text, numbers)
            sizes, strides = tuple(laid[: value.dim()]), tuple(laid[value.dim() :])
            dtype = str(value.dtype).removeprefix("torch.")
            view = View(sizes, strides, offset, dtype, value.is_neg(), value.is_conj(), one.view.is_detached)
            one = replace(one, view=view)
        results.append(one)
    given = [(str(one.node.expr), k) for k, one in enumerate(inputs) if isinstance(one, torch.SymInt)]
    shown = tuple(_shown(used - {name for name, _ in given}, results, values))
    return replace(plan, results=tuple(results), symbols=tuple(given), shown=shown)


def _begin(source: torch.Tensor, value: torch.Tensor) -> Any:
    """Where an input begins in its memory, counted in elements of a view of it. Errors: PackageError."""
    begin: Any = source.storage_offset()
    if source.dtype == value.dtype:
        return begin
    size, own = source.dtype.itemsize, value.dtype.itemsize
    if isinstance(begin, torch.SymInt) or begin * size % own:
        raise PackageError(f"a result that is a part of an input's memory as {value.dtype}: give a copy of it")
    return begin * size // own


def _symbols(number: Any) -> Any:
    return number.node.expr.free_symbols if isinstance(number, torch.SymInt) else ()


def _shown(wanted: set[str], results: Sequence[Result], values: Sequence[Any]) -> Iterator[tuple[str, int, int]]:
    """Where results show symbols that only the data says: each with a result of the forward pass and a dim.

    Errors: PackageError for one that no size is.
    """
    places = {
        str(size.node.expr): (one.result, axis)
        for one, value in zip(results, values, strict=True)
        for axis, size in enumerate(value.shape if isinstance(value, torch.Tensor) and one.input is None else ())
        if isinstance(size, torch.SymInt)
    }
    for name in sorted(wanted):
        if name not in places:
            raise PackageError("a result that is a view of sizes that only the data says: give a copy of it")
        yield (name, *places[name])


__all__ = ["with_views"]
