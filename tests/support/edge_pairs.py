"""Every pointwise overload on all pairs of edge values, compiled, against eager.

The overloads are those of the pointwise table, so that a new row is searched by itself. Eager has two kernels for most
of them, one for vectors and one for what is left over or lies apart, and they differ at the edges: a result may be
either's.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cuesta.lowering.aten.pointwise_table import TABLE
from tests.support.differential import compiled_of

ULPS = 2
"""How far a function may be from eager's kernel, where both round: 0 for what is computed exactly."""

APPROXIMATE = frozenset(
    {
        *("acos", "acosh", "angle", "asin", "asinh", "atan", "atan2"),
        *("atanh", "celu", "cos", "cosh", "digamma", "elu", "elu_backward"),
        *("erf", "erfc", "erfinv", "exp", "exp2", "expm1", "gelu"),
        *("gelu_backward", "hardswish", "hardswish_backward", "hypot", "ldexp", "lgamma", "log", "log10"),
        *("log1p", "log2", "logaddexp", "mish", "mish_backward", "polygamma", "pow"),
        *("rsqrt", "selu", "sigmoid", "silu", "silu_backward", "sin", "sinh"),
        *("softplus", "softplus_backward", "special_entr", "special_xlog1py", "sqrt", "tan", "tanh"),
        *("tanh_backward", "xlogy"),
    }
)
"""Operators that compute functions, or round in another order than eager: they may be off by `ULPS`, or nearer to
float64 than eager's is. All others are eager's to the last bit and the sign of zero.
"""


def edge_values(dtype: torch.dtype) -> Tensor:
    """Zeros, denormals, the ends of the range, whole numbers about 2ᵖ, halves, infinities, NaN: 44 of them."""
    kind = torch.finfo(dtype)
    least, unit, whole = kind.smallest_normal, kind.eps, 1 / kind.eps
    small = [0.0, least * unit, 3 * least * unit, least * (1 - unit), least, least * 1.5, unit]
    middle = [
        0.1,
        1 / 3,
        0.5 - unit / 4,
        0.5,
        0.7,
        1 - unit / 2,
        1.0,
        1 + unit,
        1.5,
        2.0,
        2.5,
        3.0,
        5.0,
        7.0,
        10.0,
        88.0,
    ]
    large = [whole - 1, whole, 2 * whole - 2, kind.max / 3, kind.max / 2, kind.max, math.inf]
    negative = [0.0, least * unit, least, 0.3, 0.5, 1.0, 1.5, 2.5, 3.0, 7.0, whole - 1, kind.max, math.inf]
    values = [*small, *middle, *large, *(-value for value in negative), math.nan]
    return torch.tensor(values, dtype=torch.float64).to(dtype)


def edge_arguments(dtype: torch.dtype) -> list[Tensor]:
    """All pairs of edge values, a third value that goes with each, and a mask."""
    values = edge_values(dtype)
    count = len(values)
    third = values[(torch.arange(count * count) * 17 + 3) % count].view(count, count)
    return [values[:, None].expand(count, count).contiguous(), values.repeat(count, 1), third, third > 0]


@dataclass(frozen=True)
class Place:
    """Stands for one of the tensors."""

    number: int


@dataclass(frozen=True)
class Case:
    """An overload and its arguments, in the order of the schema."""

    overload: Any
    arguments: tuple[Any, ...]

    @property
    def name(self) -> str:
        """The operator's name, without namespace and overload."""
        return self.overload._schema.name.split("::")[1]

    def __str__(self) -> str:
        told = ["xyzm"[one.number] if isinstance(one, Place) else repr(one) for one in self.arguments]
        return f"{self.overload}({', '.join(told)})"

    def function(self) -> Callable[..., Tensor]:
        """The call, of the tensors."""
        overload, formals = self.overload, self.overload._schema.arguments
        of_keyword = [formal.name if formal.kwarg_only else None for formal in formals]
        given = [(name, one) for name, one in zip(of_keyword, self.arguments, strict=True)]

        def call(*tensors: Tensor) -> Tensor:
            values = [(name, tensors[one.number] if type(one) is Place else one) for name, one in given]
            positional = [value for name, value in values if name is None]
            return overload(*positional, **{name: value for name, value in values if name is not None})

        return call


def cases() -> Iterator[Case]:
    """Every overload of ATen in the table, with telling numbers, modes and flags."""
    for name in TABLE:
        namespace, _, rest = name.replace("::", ".").partition(".")
        operator, _, overload = rest.partition(".")
        if namespace == "aten":
            found = getattr(getattr(torch.ops.aten, operator), overload)
            yield from (Case(found, chosen) for chosen in itertools.product(*_choices(found._schema)))


def _choices(schema: Any) -> list[list[Any]]:
    places = itertools.count()
    return [_choices_of(formal, places) for formal in schema.arguments]


_NUMBERS = {
    "exponent": [0.5, 2.0, 3.0, -0.5, -1.0, -2.0, 1.0, 0.0],
    "other": [0.5, 2.0, -3.0, 0.0, 1e-6],
    "min": [-1.0],
    "n": [-1.0, 0.0, 1.0, 2.0, 5.0, 10.0],
}
_BY_TYPE: dict[str, list[Any]] = {
    "Optional[str]": ["trunc", "floor", None],
    "str": ["none", "tanh"],
    "int": [1],
    "bool": [True, False],
}


def _choices_of(formal: Any, places: Iterator[int]) -> list[Any]:
    kind = str(formal.type)
    if formal.name in ("mask", "condition"):
        return [Place(3)]
    if kind in ("Tensor", "Optional[Tensor]"):
        return [Place(next(places))]
    if kind in ("number", "float"):
        return _NUMBERS.get(formal.name, [0.5, 2.0, 1.0])
    if kind in ("Optional[number]", "Optional[float]") and formal.name in ("min", "max"):
        return [-1.0 if formal.name == "min" else 2.0]
    return [formal.default_value] if formal.has_default_value() and kind not in _BY_TYPE else _BY_TYPE[kind]


def differences(
    dtype: torch.dtype,
    chosen: Callable[[Case], bool] = lambda case: True,
    compile_it: Callable[..., Callable[..., Any]] = compiled_of,
) -> dict[str, list[str]]:
    """What differs from eager, by operator: a line for each case, with the worst pair. What eager refuses is left out.

    Many cases are compiled together, because a compilation takes longer than a case.
    """
    tensors = edge_arguments(dtype)
    apart = [torch.stack([one, one], -1)[..., 0] for one in tensors]
    accepted: list[tuple[Case, Callable[..., Tensor], list[Tensor]]] = []
    for case in filter(chosen, cases()):
        try:
            function = case.function()
            accepted.append((case, function, [function(*tensors), function(*apart)]))
        except (RuntimeError, NotImplementedError):
            continue
    assert accepted
    found: dict[str, list[str]] = {}
    for start in range(0, len(accepted), 40):
        part = accepted[start : start + 40]
        torch._dynamo.reset()
        functions = [function for _, function, _ in part]
        results = compile_it(lambda *given, functions=functions: [one(*given) for one in functions])(*tensors)
        for (case, _, eager), result in zip(part, results, strict=True):
            if line := _difference(case, tensors, eager, result):
                found.setdefault(case.name, []).append(f"{case} {line}")
    return found


def _difference(case: Case, tensors: list[Tensor], eager: list[Tensor], result: Tensor) -> str:
    assert result.dtype == eager[0].dtype, f"{case}: {result.dtype}"
    right = _same(result, eager[0]) | _same(result, eager[1])
    if case.name in APPROXIMATE and result.dtype.is_floating_point:
        right |= _distance(result, eager[0]) <= ULPS
        wide = [one.double() if one.is_floating_point() else one for one in tensors]
        truth = case.function()(*wide)
        right |= _same(result, truth.to(result.dtype))
        right |= (result.double() - truth).abs() <= (eager[0].double() - truth).abs()
    if right.all():
        return ""
    worst = int((~right).flatten().nonzero()[0])
    pair = ", ".join(repr(one.flatten()[worst].item()) for one in tensors[:3])
    told = [one.flatten()[worst].item() for one in (eager[0], result)]
    return f"at {int((~right).sum())} places, first ({pair}): eager {told[0]!r}, compiled {told[1]!r}"


def _same(x: Tensor, y: Tensor) -> Tensor:
    """To the bit; all NaN are the same."""
    if not x.dtype.is_floating_point:
        return x == y
    return ((x == y) & (x.signbit() == y.signbit())) | (x.isnan() & y.isnan())


def _distance(x: Tensor, y: Tensor) -> Tensor:
    """In units in the last place, where both are finite."""
    integers = {2: torch.int16, 4: torch.int32, 8: torch.int64}[x.dtype.itemsize]

    def place(one: Tensor) -> Tensor:
        bits = one.contiguous().view(integers).long()
        return torch.where(bits < 0, -(bits & torch.iinfo(integers).max), bits)

    far = ~(x.isfinite() & y.isfinite())
    return torch.where(far, 1 << 40, (place(x) - place(y)).abs())
