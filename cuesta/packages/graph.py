"""A graph of tensors as data: the programs of its passes, and how results become what a caller gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from cuesta.cache_entry import Entry
from cuesta.dialects.core.structs import struct


class PackageError(RuntimeError):
    """Something cannot be packaged, or a package cannot be used here: the message says what, and what to do."""


@struct
class Result:
    """One result of a graph: that of the forward pass with the number `result`; or the input with the number `input`
    itself; or a view of that input, or of the result number `base`, laid out as `result` is.
    """

    result: int
    input: int | None = None
    base: int | None = None
    is_view: bool = False
    differentiable: bool = False


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
    """How programs and results of a graph go together. Inputs and results are counted from 0."""

    results: tuple[Result, ...]
    copied_back: tuple[tuple[int, int], ...] = ()
    """Inputs that the graph changes without writing to them, each with the result that has its new value."""
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

        return cls(
            results=tuple(Result(**one) for one in head["results"]),
            copied_back=tuple((int(a), int(b)) for a, b in head["copied_back"]),
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
