"""How arguments are arranged, in words: positional ones and those with names, and the containers they lie in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torch.utils import _pytree as pytree


def children_of(taken: pytree.TreeSpec) -> Sequence[pytree.TreeSpec]:
    """What a container has in it."""
    children: Any = getattr(taken, "children", None)  # `children_specs` in torch 2.11
    return children() if children is not None else taken.children_specs


def difference(taken: pytree.TreeSpec, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """What is wrong with a call of what takes arguments so: how many there are, their names, or the first container
    that is another.

    Requires: a difference.
    """
    every, named = children_of(taken)
    positional, names = children_of(every), list(named.context)
    said = list(_miscounted(len(positional), len(args), names, kwargs))
    if said:
        return "it " + ", and ".join(said)
    expected = [(f"argument {k}", spec) for k, spec in enumerate(positional)]
    expected += [(f"argument {name!r}", spec) for name, spec in zip(names, children_of(named), strict=True)]
    given = [*args, *(kwargs[name] for name in names)]
    for (name, spec), value in zip(expected, given, strict=True):
        if (found := pytree.tree_structure(value)) != spec:
            return f"{name} is {shown(found)}, and it takes {shown(spec)}"
    return f"it is called with {shown(pytree.tree_structure((tuple(args), dict(kwargs))))}, and takes {shown(taken)}"


def _miscounted(positional: int, given: int, names: Sequence[str], kwargs: Mapping[str, Any]) -> Iterator[str]:
    if given != positional:
        yield f"takes {_counted(positional)}, and is given {given}"
    if missing := [name for name in names if name not in kwargs]:
        yield f"is not given {_listed(missing)}"
    if unknown := [name for name in kwargs if name not in names]:
        yield f"takes no argument with the name {_listed(unknown)}"


def _counted(count: int) -> str:
    return f"{count or 'no'} positional argument{'' if count == 1 else 's'}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))


def shown(spec: pytree.TreeSpec) -> str:
    """A container as it would be written, with `…` for each value: `[…, {'a': …}]`."""
    if spec.is_leaf():
        return "…"
    kind, inner = spec.type, [shown(one) for one in children_of(spec)]
    if kind is list:
        return f"[{', '.join(inner)}]"
    if kind is tuple:
        return f"({', '.join(inner)}{',' if len(inner) == 1 else ''})"
    if kind is dict:
        return "{" + ", ".join(f"{key!r}: {one}" for key, one in zip(spec.context, inner, strict=True)) + "}"
    return f"{getattr(kind, '__name__', kind)}({', '.join(inner)})"


def misfit(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    """Why a function cannot be called so, as its signature says; None where it can, or says nothing."""
    import inspect

    try:
        signature = inspect.signature(function)
    except ValueError:  # built in
        return None
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        given = f"{len(args)} positional" + "".join(f", {name!r}" for name in kwargs)
        return f"it takes {signature}, and inputs give {given}: {error}"
    return None


__all__ = ["children_of", "difference", "misfit", "shown"]
