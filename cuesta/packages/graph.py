"""A graph of tensors as data: the programs of its passes, and how results become what a caller gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

from cuesta.caching.entry import Entry
from cuesta.dialects.core.structs import struct


class PackageError(RuntimeError):
    """Something cannot be packaged, or a package cannot be used here: the message says what, and what to do."""


Size: TypeAlias = "int | str"
"""A number, or an expression of symbols as Python has it."""


@struct
class View:
    """How a view lies in the memory of a tensor: from so many of its elements behind the tensor's first on; whether its
    elements are those of the memory with the other sign, or conjugated; of which dtype they are, which may not be the
    tensor's; and whether no gradient flows through it.
    """

    sizes: tuple[Size, ...]
    strides: tuple[Size, ...]
    offset: Size
    dtype: str
    is_negative: bool = False
    is_conjugate: bool = False
    is_detached: bool = False


@struct
class Result:
    """One result of a graph: that of the forward pass with the number `result`; or the input with the number `input`
    itself; or a view of that input, or of the result number `base`.
    """

    result: int
    input: int | None = None
    base: int | None = None
    view: View | None = None


@struct
class Tangent:
    """Gradients that the backward pass takes: of the forward pass's result number `result`, laid out as said: with
    these strides, or in a memory format of torch's, by name.
    """

    result: int
    strides: tuple[int, ...] | None
    format: str


@struct
class Plan:
    """How programs and results of a graph go together. Inputs and results are counted from 0, without tokens."""

    results: tuple[Result, ...]
    tokens: int = 0
    """So many inputs and results of the forward pass come first that only put effects in their order."""
    symbols: tuple[tuple[str, int], ...] = ()
    """The symbols that views are made of, each with the input that is its value."""
    shown: tuple[tuple[str, int, int], ...] = ()
    """Those that only the data says, each with a result of the forward pass, and the dim of it whose size it is."""
    copied_back: tuple[tuple[int, int], ...] = ()
    """Inputs that the graph changes without writing to them, each with the result that has its new value."""
    hidden: tuple[int, ...] = ()
    """Those of them that change behind autograd's back: x.detach().add_(1)."""
    written: tuple[int, ...] = ()
    """Inputs that change, in whatever way."""
    visible: int = 0
    """Of a forward pass: how many results, the first, are not saved for the backward pass."""
    saved: tuple[int, ...] = ()
    """The forward pass's results that the backward pass takes first."""
    tangents: tuple[Tangent, ...] = ()
    """What it takes then."""

    @classmethod
    def of_json(cls, head: Mapping[str, Any]) -> Plan:
        """The plan in what `asdict` gave. Errors: LookupError, TypeError, ValueError."""

        def numbers(name: str) -> tuple[int, ...]:
            return tuple(map(int, cast("Sequence[Any]", head[name])))

        def tangent(one: Mapping[str, Any]) -> Tangent:
            strides = one["strides"]
            return Tangent(
                int(one["result"]), None if strides is None else tuple(map(int, strides)), str(one["format"])
            )

        def result(one: Mapping[str, Any]) -> Result:
            view = one["view"]
            if view is not None:
                view = View(**{**view, "sizes": tuple(view["sizes"]), "strides": tuple(view["strides"])})
            return Result(**{**one, "view": view})

        return cls(
            results=tuple(map(result, head["results"])),
            tokens=int(head["tokens"]),
            symbols=tuple((str(name), int(place)) for name, place in head["symbols"]),
            shown=tuple((str(name), int(result), int(axis)) for name, result, axis in head["shown"]),
            copied_back=tuple((int(a), int(b)) for a, b in head["copied_back"]),
            hidden=numbers("hidden"),
            written=numbers("written"),
            visible=int(head["visible"]),
            saved=numbers("saved"),
            tangents=tuple(tangent(one) for one in head["tangents"]),
        )


@struct(eq=False)
class Pass:
    """A compiled pass, and the tensors that it holds, which its program takes last."""

    entry: Entry
    constants: Sequence[Any] = ()


@struct(eq=False)
class Graph:
    """A graph without its parameters: flat inputs (tensors, and the numbers that are sizes) → flat results."""

    plan: Plan
    forward: Pass
    backward: Pass | None = None
