"""What operators and calls in the text of a Triton kernel are worth, and what they give: see `triton_text.py`."""

from __future__ import annotations

import ast
import functools
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from cuesta.dialects.elem.table import TABLE
from cuesta.explain.device_arithmetic import ON_DEVICE
from cuesta.explain.triton_layouts import Layout, Spacing, joint_limits
from cuesta.explain.triton_moves import MOVES, as_float, converted
from cuesta.explain.triton_values import Value, joint_layout, joint_shape, live_arithmetic, whole_number

if TYPE_CHECKING:
    from cuesta.explain.triton_text import Reader

_NUMBERS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
    "Div": operator.truediv,
    "FloorDiv": operator.floordiv,
    "Mod": operator.mod,
    "BitAnd": operator.and_,
    "BitOr": operator.or_,
    "BitXor": operator.xor,
    "LShift": operator.lshift,
    "RShift": operator.rshift,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Eq": operator.eq,
    "NotEq": operator.ne,
}
_SIGNS: Final[Mapping[str, Callable[[Any], Any]]] = {"USub": operator.neg, "Invert": operator.invert}
_COMPARISONS: Final = frozenset({"Lt", "LtE", "Gt", "GtE", "Eq", "NotEq"})

_WORTH: Final[Mapping[str, int]] = {
    **dict.fromkeys(("Add", "Sub", "Mult", "Div"), 1),
    "tl.fma": 2,
    "tl.exp": 1,
    "tl.sqrt": 1,
    "libdevice.fast_dividef": 1,
    **{
        found[1]: ON_DEVICE[row.name][0]
        for row in TABLE.values()
        if row.name in ON_DEVICE
        for template in ([row.triton] if isinstance(row.triton, str) else [row.triton["f"]])
        if (found := re.fullmatch(r"([\w.]+)\(\{a\}(?:, \{b\})?\)", template))
    },
}
"""The additions and multiplications of functions; of those that are not here, and no reductions, none."""
_FREE: Final = frozenset({"tl.abs", "tl.exp2", "tl.maximum", "tl.minimum", "functions.to_e4m3", "functions.to_e5m2"})
_ROUNDS: Final = frozenset({"tl.range"})
"""What a loop is over: `triton_text.py` reads the bounds."""
_SINKS: Final = frozenset({"tl.store", "tl.device_assert", "tl.debug_barrier", "functions.outside"})
_OF_NUMBERS: Final = frozenset(
    {"functions.gcd", "functions.philox", "functions.random_word", "functions.either", "functions.both"}
)
_REDUCTIONS: Final = frozenset({"tl.reduce", "tl.associative_scan", "tl.sum", "tl.max", "tl.min", "tl.cumsum"})
_NOBODY_LEFT: Final = frozenset({"functions.meet", "functions.take"})
"""What programs that meet ask: as a rule all of a group run at the same time, and none leaves its part to others."""


def operation(reader: Reader, name: str, left: Any, right: Any) -> Any:
    """An operator or a comparison."""
    if not isinstance(left, Value) and not isinstance(right, Value):
        return _NUMBERS[name](left, right)
    a, b = reader.value(left), reader.value(right)
    if "p" in (a.kind, b.kind):
        return _address(reader, a, b, name)
    if a.kind == "i" and b.kind == "i":
        return _whole(reader, a, b, name)
    a, b = (as_float(reader, one) for one in (a, b))
    if name in _COMPARISONS:
        return reader.elementwise(name, [a, b], 0, "i")
    if a.constant is not None and b.constant is not None:
        return reader.made(name, [a, b], "f", joint_shape((a, b)), constant=_folded(name, a.constant, b.constant))
    if name == "Mult" and (a.constant in (1.0, -1.0) or b.constant in (1.0, -1.0)):
        sign = a.constant if a.constant in (1.0, -1.0) else b.constant
        return reader.elementwise(f"times {sign}", [a, b], 0)
    if name in ("Add", "Sub") and b.constant == 0.0 and math.copysign(1.0, b.constant) * (name == "Sub" or -1) > 0:
        return a
    if name not in _WORTH:
        raise ValueError(f"{name} of floats")
    if name in ("Add", "Mult") and a.same > b.same:
        a, b = b, a
    return reader.elementwise(name, [a, b], _worth(name, [a, b]))


def _folded(name: str, a: float, b: float) -> float:
    try:
        return float(_NUMBERS[name](a, b))
    except ZeroDivisionError:
        return math.copysign(math.inf, a) if a else math.nan


def _address(reader: Reader, a: Value, b: Value, name: str) -> Value:
    """An address and a distance in elements."""
    if a.kind != "p":
        a, b = b, a
    shape = joint_shape((a, b))
    spacing = a.spaced().repeated(a.shape, shape).plus(b.spaced().repeated(b.shape, shape), a.width)
    kind = "i" if name in _COMPARISONS else "p"
    return reader.made(name, [a, b], kind, shape, spacing=spacing, of=a.of, width=a.width)


def _whole(reader: Reader, a: Value, b: Value, name: str) -> Value:
    """Whole numbers or conditions: none is arithmetic that is counted."""
    shape = joint_shape((a, b))
    number = None
    if a.number is not None and b.number is not None:
        number = _NUMBERS[name](a.number, b.number) if name not in ("FloorDiv", "Mod") or np.all(b.number) else None
    one, other = a.spaced().repeated(a.shape, shape), b.spaced().repeated(b.shape, shape)
    match name:
        case "Add" | "Sub":
            spacing = one.plus(other)
        case "Mult":
            spacing = one.times(other)
        case "FloorDiv":
            spacing = one.over(other)
        case "Mod":
            spacing = one.modulo(other)
        case _:
            spacing = Spacing.unknown(shape)
    known: dict[str, Any] = {"spacing": spacing, "number": number}
    constant = b.number if isinstance(b.number, int) and not b.shape else None
    if a.lanes_from is not None and constant is not None:
        dim, start = a.lanes_from
        if name == "Lt":
            known["limits"] = tuple(constant - start if place == dim else None for place in range(len(shape)))
        elif name == "Add":
            known["lanes_from"] = dim, start + constant
    elif name == "BitAnd" and len(a.shape) == len(b.shape):
        known["limits"] = joint_limits((a.limits, b.limits))
    return reader.made(name, [a, b], "i", shape, 0, joint_layout((a, b), shape), **known)


def unary(reader: Reader, name: str, operand: Any) -> Any:
    """A sign, or a negation."""
    if not isinstance(operand, Value):
        return _SIGNS[name](operand)
    if name == "USub" and operand.kind == "f":
        return operation(reader, "Mult", operand, -1.0)
    return reader.made(name, [operand], "i", operand.shape, 0, operand.layout)


def call(reader: Reader, node: ast.Call) -> Any:
    """A call, of Triton, of a library, of a function of ours, or of a value's method."""
    if isinstance(node.func, ast.Attribute) and node.func.attr == "to":
        return _method(reader, node.func, node)
    name = ast.unparse(node.func)
    if name == "float":
        return float(ast.literal_eval(node.args[0]))
    if "." not in name:
        name = f"{reader.module}.{name}"
    if name in ("tl.reduce", "tl.associative_scan"):
        bring_together = _reduced if name == "tl.reduce" else _scanned
        return bring_together(reader, reader.expression(node.args[0]), _axis(reader, node), ast.unparse(node.args[2]))
    arguments = [reader.expression(one) for one in node.args]
    named = {one.arg: reader.expression(one.value) for one in node.keywords if one.arg is not None}
    if name in ("tl.sum", "tl.max", "tl.min"):
        return _reduced(reader, arguments[0], _axis(reader, node), "functions.add" if name == "tl.sum" else "")
    if name == "tl.cumsum":
        return _scanned(reader, arguments[0], _axis(reader, node), "functions.add")
    if name in _SINKS:
        reader.need(one for one in (*arguments, *named.values()) if isinstance(one, Value))
        return None
    if name in _NOBODY_LEFT:
        return whole_number(0)
    if (special := MOVES.get(name)) is not None:
        return special(reader, arguments, named)
    if name.startswith("tl.atomic_"):
        values = [reader.value(one) for one in (*arguments, *named.values()) if isinstance(one, Value)]
        reader.need(values)
        return Value(arguments[0].of, arguments[0].shape, (), reader.scope.loop)
    values = [reader.value(one) for one in arguments if not isinstance(one, str)]
    if name in _OF_NUMBERS:
        return reader.elementwise(name, values, 0, "i")
    if name in _WORTH or name in _FREE or name.startswith("libdevice."):
        kind = "f" if any(one.kind == "f" for one in values) else "i"
        if kind == "i":
            return _extreme(reader, name, values)
        return reader.elementwise(name, values, _worth(name, values))
    if name.startswith(("functions.", "quick.")):
        return reader.called(name, arguments)
    raise ValueError(f"a call of {name}")


@functools.lru_cache(maxsize=2)
def functions_of(module: str) -> Mapping[str, ast.FunctionDef]:
    """The functions that emitted kernels call, by their names, of `functions` or `quick`."""
    spec = find_spec(f"cuesta.targets.triton.{'device_functions' if module == 'functions' else 'quick_functions'}")
    assert spec is not None and spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    return {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef)}


def is_known(name: str) -> bool:
    """Whether a call is understood: `tl.load`, `functions.divide`."""
    module, _, short = name.partition(".")
    listed = (_WORTH, _FREE, _SINKS, _OF_NUMBERS, _NOBODY_LEFT, _ROUNDS, MOVES, _REDUCTIONS)
    if module == "libdevice" or name.startswith("tl.atomic_") or any(name in names for names in listed):
        return True
    return module in ("functions", "quick") and short in functions_of(module)


def _worth(name: str, values: Sequence[Value]) -> int:
    """The additions and multiplications of a function, or of Triton's own quotient: a reciprocal is none."""
    if name == "Div" and values[0].constant == 1.0:
        return 0
    return _WORTH.get(name, 0)


def _extreme(reader: Reader, name: str, values: Sequence[Value]) -> Value:
    """The greater or the less of whole numbers, or what else they give."""
    shape = joint_shape(values)
    numbers = [one.number for one in values]
    number = None
    if len(numbers) == 2 and all(one is not None for one in numbers):
        number = {"tl.maximum": np.maximum, "tl.minimum": np.minimum}[name](*numbers)
    return reader.made(name, values, "i", shape, 0, joint_layout(values, shape), number=number)


def _method(reader: Reader, function: ast.Attribute, node: ast.Call) -> Any:
    """`value.to(dtype)`: the only method."""
    value = reader.value(reader.expression(function.value))
    bits = any(one.arg == "bitcast" for one in node.keywords)
    return converted(reader, value, ast.unparse(node.args[0]), bits=bits)


def _axis(reader: Reader, node: ast.Call) -> tuple[int | None, bool]:
    """Along which dimension something is reduced, and whether that stays, of size 1."""
    axis = reader.expression(node.args[1]) if len(node.args) > 1 else None
    return axis, any(one.arg == "keep_dims" for one in node.keywords)


def _combination(reader: Reader, combine: str, values: Sequence[Value]) -> float:
    """The arithmetic of bringing two parts together."""
    if not combine or all(one.kind != "f" for one in values):
        return 0.0
    outer, names = reader.scopes, reader.names
    reader.scopes = [type(outer[0])(1.0 / reader.programs, 0, 0)]
    parts = [Value(one.kind, (), (reader.node(0, (), 0),)) for one in (*values, *values)]
    found = reader.called(combine, parts)
    steps = live_arithmetic([node for one in (found if isinstance(found, list) else [found]) for node in one.nodes])
    reader.scopes, reader.names = outer, names
    return steps


def _placed(reader: Reader, values: Sequence[Value]) -> Layout:
    shape = joint_shape(values)
    return joint_layout(values, shape) or Layout.plain(shape, reader.warps)


def _reduced(reader: Reader, given: Any, axis: tuple[int | None, bool], combine: str) -> Any:
    """A reduction, of one value or of several together."""
    values = given if isinstance(given, list) else [given]
    dim, keeps = axis
    shape = joint_shape(values)
    layout = _placed(reader, values)
    each = _combination(reader, combine, values)
    dims = range(len(shape)) if dim is None else [dim]
    steps, left = 0, shape
    for one in dims:
        steps += layout.steps_of_reduction(left, one, joint_limits(value.limits for value in values))
        left = tuple(1 if place == one else size for place, size in enumerate(left))
    loop = max(one.loop for one in values)
    node = reader.node(steps * each, values, loop, reader.number_of(("reduced", combine, dim), values))
    small = left if keeps else tuple(size for place, size in enumerate(left) if place not in dims)
    node.size = math.prod(small)
    found = [Value(one.kind, small, (node,), loop, layout if keeps else None) for one in values]
    return found if isinstance(given, list) else found[0]


def _scanned(reader: Reader, given: Any, axis: tuple[int | None, bool], combine: str) -> Any:
    """The reductions up to each element."""
    values = given if isinstance(given, list) else [given]
    shape = joint_shape(values)
    layout = _placed(reader, values)
    steps = layout.steps_of_scan(shape, axis[0] or 0) * _combination(reader, combine, values)
    loop = max(one.loop for one in values)
    node = reader.node(steps, values, loop)
    found = [Value(one.kind, shape, (node,), loop, layout) for one in values]
    return found if isinstance(given, list) else found[0]


__all__ = ["call", "functions_of", "is_known", "operation", "unary"]
