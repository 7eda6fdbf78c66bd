"""What makes, moves or chooses values in the text of a Triton kernel, and computes nothing: see `triton_text.py`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from cuesta.explain.triton_layouts import WARP, Spacing, joint_limits
from cuesta.explain.triton_values import Value, joint_layout, joint_shape

if TYPE_CHECKING:
    from cuesta.explain.triton_text import Reader

Arguments = Sequence[Any]
Named = Mapping[str, Any]


def as_float(reader: Reader, value: Value) -> Value:
    """A value as one of floats."""
    if value.kind == "f":
        return value
    constant = float(value.number) if isinstance(value.number, int) and not value.shape else None
    return reader.made("as float", [value], "f", value.shape, 0, value.layout, constant=constant)


def converted(reader: Reader, value: Value, dtype: str, *, bits: bool = False) -> Value:
    """A value as one of another type; with `bits`, its bits."""
    kind = "f" if dtype.startswith(("tl.float", "tl.bfloat")) else "i"
    if kind == value.kind:
        return value
    if kind == "f" and not bits:
        return as_float(reader, value)
    return reader.made(f"to {dtype}", [value], kind, value.shape, 0, value.layout)


def _program_id(reader: Reader, _arguments: Arguments, _named: Named) -> Value:
    return Value("i", spacing=Spacing.scalar(1), number=reader.looked_at)


def _rolled(reader: Reader, arguments: Arguments, _named: Named) -> Value:
    return reader.value(arguments[0])


def _arange(_reader: Reader, arguments: Arguments, _named: Named) -> Value:
    size = int(arguments[1])
    return Value("i", (size,), spacing=Spacing.lanes(size), lanes_from=(0, 0))


def _full(reader: Reader, arguments: Arguments, _named: Named) -> Value:
    shape = tuple(int(size) for size in arguments[0])
    one = converted(reader, reader.value(arguments[1]), arguments[2])
    spacing = one.spaced().repeated((), shape)
    return reader.made("full", [one], one.kind, shape, spacing=spacing, number=one.number, constant=one.constant)


def _zeros(reader: Reader, arguments: Arguments, named: Named) -> Value:
    return _full(reader, [arguments[0], 0.0, arguments[1]], named)


def _load(reader: Reader, arguments: Arguments, named: Named) -> Value:
    others = [one for one in (*arguments[1:], *named.values()) if isinstance(one, Value)]
    limits = named["mask"].limits if "mask" in named else ()
    return reader.read(arguments[0], others, limits if len(limits) == len(arguments[0].shape) else ())


def _where(reader: Reader, arguments: Arguments, _named: Named) -> Value:
    test, one, other = map(reader.value, arguments)
    if "f" in (one.kind, other.kind):
        one, other = as_float(reader, one), as_float(reader, other)
    values = (test, one, other)
    shape = joint_shape(values)
    number = None
    if all(value.number is not None for value in values):
        number = np.where(test.number, one.number, other.number)
    known = {"number": number, "of": one.of, "width": one.width}
    if other.constant is not None:
        known["limits"] = joint_limits(value.limits for value in (test, one) if len(value.shape) == len(shape))
    found = reader.made("where", values, one.kind, shape, 0, joint_layout(values, shape), **known)
    arms = [*one.nodes, *other.nodes]
    if test.nodes and one.kind == "f" and len(arms) == 2 and len(found.nodes) == 1 and found.nodes[0] not in arms:
        found.nodes[0].chosen = arms[0], arms[1]
    return found


def _cast(reader: Reader, arguments: Arguments, _named: Named) -> Value:
    return converted(reader, reader.value(arguments[0]), arguments[1])


def _broadcast_to(reader: Reader, arguments: Arguments, _named: Named) -> Value:
    value, shape = reader.value(arguments[0]), tuple(int(size) for size in arguments[1])
    spacing = value.spaced().repeated(value.shape, shape)
    known = {"of": value.of, "width": value.width, "constant": value.constant}
    return reader.made("broadcast", [value], value.kind, shape, spacing=spacing, **known)


def _max_contiguous(reader: Reader, arguments: Arguments, _named: Named) -> Value:
    """The same numbers, of which more is said to be side by side."""
    value = reader.value(arguments[0])
    spacing = value.spaced()
    said = (int(size) for size in arguments[1])
    contiguity = tuple(max(pair) for pair in zip(spacing.contiguity, said, strict=True))
    return replace(value, spacing=Spacing(contiguity, spacing.divisor, spacing.constancy))


def _reshape(reader: Reader, arguments: Arguments, _named: Named) -> Value:
    value = reader.value(arguments[0])
    return reader.made("reshape", [value], value.kind, tuple(int(size) for size in arguments[1]))


def _join(reader: Reader, arguments: Arguments, _named: Named) -> Value:
    return reader.made("join", arguments, arguments[0].kind, (*joint_shape(arguments), 2))


def _split(reader: Reader, arguments: Arguments, _named: Named) -> list[Value]:
    (value,) = arguments
    return [reader.made(("split", half), [value], value.kind, value.shape[:-1]) for half in range(2)]


def _trans(reader: Reader, arguments: Arguments, _named: Named) -> Value:
    (value,) = arguments
    return reader.made("trans", [value], value.kind, value.shape[::-1])


def _dot(reader: Reader, arguments: Arguments, named: Named) -> Value:
    """A product of matrices, which units of their own compute: so many multiplications and additions as it says."""
    a, b = arguments[:2]
    values = [one for one in (*arguments, *named.values()) if isinstance(one, Value)]
    shape = a.shape[0], b.shape[1]
    return reader.made("dot", values, "f", shape, 2 * math.prod(shape) * a.shape[1] / (reader.warps * WARP))


def _random_words(reader: Reader, arguments: Arguments, _named: Named) -> Value:
    """Four whole numbers for each call, side by side along a dimension."""
    calls, dim = reader.value(arguments[1]), int(arguments[3])
    shape = tuple(size * 4 if place == dim else size for place, size in enumerate(calls.shape))
    return reader.made(("random words", dim), [calls], "i", shape)


MOVES: Final[Mapping[str, Callable[[Reader, Arguments, Named], Any]]] = {
    "tl.program_id": _program_id,
    "functions.rolled": _rolled,
    "functions.random_words": _random_words,
    "tl.arange": _arange,
    "tl.full": _full,
    "tl.zeros": _zeros,
    "tl.load": _load,
    "tl.where": _where,
    "tl.cast": _cast,
    "tl.broadcast_to": _broadcast_to,
    "tl.max_contiguous": _max_contiguous,
    "tl.reshape": _reshape,
    "tl.join": _join,
    "tl.split": _split,
    "tl.trans": _trans,
    "tl.dot": _dot,
}

__all__ = ["MOVES", "as_float", "converted"]
