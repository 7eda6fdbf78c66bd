"""Random programs for hypothesis: PyTorch functions as Python text, and inputs for them.

A program is drawn statement by statement; each is run in eager as it is drawn, so that every program is one that eager
accepts. What is drawn is text, because what a failure has to show is text: see `Program.reproducer`.

Rounding decides nothing: comparisons, floors, sorts and arg-reductions are drawn only on values that are exact (inputs,
their views and copies, integers), since a last bit may turn them over. Saturating functions are drawn where they do
not saturate: their gradients would be differences of nearly equal numbers.

Values are written to as well, also inputs and what shares memory with them; and some have the negative bit.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from cuesta.testing import assert_close_to_float64
from tests.support.differential import check_call, compiled_of

SIZES = (1, 2, 3, 4, 5, 7, 8, 16, 17, 33)
DTYPES = (torch.float32, torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64)
MOST_ELEMENTS = 40_000

Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass(frozen=True, slots=True)
class Input:
    """One argument: `make` is an expression that gives it anew, always with the same numbers."""

    name: str
    make: str

    def tensor(self) -> Tensor:
        """The argument."""
        return eval(self.make, {"torch": torch, "numbers": numbers})


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the program under construction, as eager computed it."""

    name: str
    tensor: Tensor
    exact: bool


@dataclass(slots=True)
class Program:
    """A function of the inputs, as text."""

    inputs: list[Input] = field(default_factory=list[Input])
    statements: list[str] = field(default_factory=list[str])
    results: list[str] = field(default_factory=list[str])
    dynamic: bool = False
    written: set[str] = field(default_factory=set[str])
    """The inputs that it changes."""
    writes: bool = False
    """Whether it changes any value."""

    @property
    def source(self) -> str:
        """The function `program`."""
        arguments = ", ".join(one.name for one in self.inputs)
        body = "\n".join([*self.statements, f"return {', '.join(self.results)},"])
        return f"def program({arguments}):\n{textwrap.indent(body, '    ')}\n"

    def function(self) -> Callable[..., tuple[Tensor, ...]]:
        """The function, made anew: no other has been compiled from its code."""
        scope: dict[str, Any] = {"torch": torch}
        exec(compile(self.source, f"<fuzz {abs(hash(self.source))}>", "exec"), scope)
        return scope["program"]

    def arguments(self) -> list[Tensor]:
        """The inputs, made anew."""
        return [one.tensor() for one in self.inputs]

    def reproducer(self) -> str:
        """A script that shows the failure by itself."""
        inputs = "\n".join(f"{one.name} = {one.make}" for one in self.inputs)
        names = ", ".join(one.name for one in self.inputs)
        return f"""\
import torch
from tests.fuzz.programs import compare, numbers

{self.source}
{inputs}
compare(program, [{names}], {self.dynamic}, strides={not self.writes})
"""


def numbers(seed: int, dtype: torch.dtype, *sizes: int) -> Tensor:
    """Numbers of moderate size, none near a point where a function of the list below has a pole; integers 0 to 7."""
    generator = torch.Generator().manual_seed(seed)
    if not dtype.is_floating_point:
        return torch.randint(0, 8, sizes, generator=generator).to(dtype)
    # Multiples of 1/8: exact in every dtype, so that ties occur.
    return (torch.randint(-24, 25, sizes, generator=generator) / 8).to(dtype)


def compare(function: Callable[..., Any], inputs: list[Tensor], dynamic: bool, *, strides: bool = True) -> None:
    """Compiled against eager in every respect (strides only if asked), and against float64.

    Strides of dimensions of size 1 do not count: AOTAutograd makes some views anew, with others than eager's.
    """
    compiled = compiled_of(function, dynamic=dynamic or None)
    check_call(compiled, function, *inputs, unit_strides=False, strides=strides)
    assert_close_to_float64(compiled, function, inputs, strides=False)


Maker = Callable[[Draw, list[Value]], tuple[str, bool] | None]
"""Draws an expression over the values so far, and whether it is exact when its operands are; None when none fits."""


def _one(draw: Draw, pool: list[Value], suits: Callable[[Value], bool]) -> Value | None:
    fitting = [value for value in pool if suits(value)]
    # The most recent are the likeliest, so that programs are deep.
    return fitting[-1 - min(draw(st.integers(0, 5)), len(fitting) - 1)] if fitting else None


def _floating(value: Value) -> bool:
    return value.tensor.is_floating_point()


def _any(value: Value) -> bool:
    return True


def _number(value: Value) -> bool:
    return value.tensor.dtype != torch.bool


def _has_axes(count: int) -> Callable[[Value], bool]:
    return lambda value: value.tensor.dim() >= count


def _unary(template: str, suits: Callable[[Value], bool] = _floating, *, keeps_exact: bool = False) -> Maker:
    def make(draw: Draw, pool: list[Value]) -> tuple[str, bool] | None:
        value = _one(draw, pool, suits)
        return None if value is None else (template.format(x=value.name), keeps_exact and value.exact)

    return make


def _decided(template: str, suits: Callable[[Value], bool] = _number) -> Maker:
    """An op that rounding may turn over: only on exact values."""

    def make(draw: Draw, pool: list[Value]) -> tuple[str, bool] | None:
        value = _one(draw, pool, lambda value: value.exact and suits(value))
        return None if value is None else (template.format(x=value.name), True)

    return make


def _binary(template: str, *, exact_only: bool = False) -> Maker:
    def make(draw: Draw, pool: list[Value]) -> tuple[str, bool] | None:
        x = _one(draw, pool, lambda value: _number(value) and (value.exact or not exact_only))
        if x is None:
            return None
        y = _one(draw, pool, lambda value: _number(value) and (value.exact or not exact_only) and _fits(x, value))
        return None if y is None else (template.format(x=x.name, y=y.name), exact_only)

    return make


def _fits(x: Value, y: Value) -> bool:
    try:
        sizes = torch.broadcast_shapes(x.tensor.shape, y.tensor.shape)
    except RuntimeError:
        return False
    return torch.Size(sizes).numel() <= MOST_ELEMENTS


def _along_axis(
    template: str, *, axes: int = 1, exact_only: bool = False, suits: Callable[[Value], bool] = _floating
) -> Maker:
    def make(draw: Draw, pool: list[Value]) -> tuple[str, bool] | None:
        def good(value: Value) -> bool:
            return suits(value) and value.tensor.dim() >= axes and (value.exact or not exact_only)

        value = _one(draw, pool, good)
        if value is None:
            return None
        axis = draw(st.integers(-value.tensor.dim(), value.tensor.dim() - 1))
        size = value.tensor.shape[axis]
        other = draw(st.integers(-value.tensor.dim(), value.tensor.dim() - 1))
        low = draw(st.integers(0, max(size - 1, 0)))
        length = draw(st.integers(1, max(size - low, 1)))
        text = template.format(
            x=value.name, axis=axis, other=other, low=low, high=low + length, length=length, size=size,
            keep=draw(st.booleans()), step=draw(st.integers(1, 3)), shift=draw(st.integers(-size, size)),
        )  # fmt: skip
        return text, (exact_only or suits is _any) and value.exact

    return make


def _permutation(draw: Draw, pool: list[Value]) -> tuple[str, bool] | None:
    value = _one(draw, pool, _has_axes(2))
    if value is None:
        return None
    order = draw(st.permutations(range(value.tensor.dim())))
    return f"{value.name}.permute({', '.join(map(str, order))})", value.exact


def _reshape(draw: Draw, pool: list[Value]) -> tuple[str, bool] | None:
    value = _one(draw, pool, _has_axes(1))
    if value is None or value.tensor.numel() == 0:
        return None
    left = value.tensor.numel()
    sizes: list[int] = []
    for _ in range(draw(st.integers(0, 2))):
        size = draw(st.sampled_from([d for d in (1, 2, 3, 4, 5, 7, 8, 16) if left % d == 0]))
        sizes.append(size)
        left //= size
    order = draw(st.permutations([*sizes, left]))
    return f"{value.name}.reshape({', '.join(map(str, order))})", value.exact


def _cat(draw: Draw, pool: list[Value]) -> tuple[str, bool] | None:
    x = _one(draw, pool, _has_axes(1))
    if x is None:
        return None
    axis = draw(st.integers(0, x.tensor.dim() - 1))

    def alike(y: Value) -> bool:
        a, b = list(x.tensor.shape), list(y.tensor.shape)
        return len(a) == len(b) and [*a[:axis], *a[axis + 1 :]] == [*b[:axis], *b[axis + 1 :]]

    y = _one(draw, pool, alike) or x
    return f"torch.cat([{x.name}, {y.name}], {axis})", x.exact and y.exact and x.tensor.dtype == y.tensor.dtype


def _where(draw: Draw, pool: list[Value]) -> tuple[str, bool] | None:
    condition = _one(draw, pool, lambda value: value.tensor.dtype == torch.bool)
    if condition is None:
        return None
    x = _one(draw, pool, lambda value: _number(value) and _fits(condition, value))
    if x is None:
        return None
    return f"torch.where({condition.name}, {x.name}, {draw(st.sampled_from(['0.5', '-1.0', '2.0']))})", False


def _gather(draw: Draw, pool: list[Value]) -> tuple[str, bool] | None:
    value = _one(draw, pool, _has_axes(1))
    index = _one(draw, pool, lambda value: value.tensor.dtype == torch.int64 and value.exact and value.tensor.dim() > 0)
    if (
        value is None
        or index is None
        or value.tensor.shape[0] == 0
        or index.tensor.numel() * value.tensor[0].numel() > MOST_ELEMENTS
    ):
        return None
    return f"{value.name}[{index.name} % {value.tensor.shape[0]}]", value.exact


def _matmul(draw: Draw, pool: list[Value]) -> tuple[str, bool] | None:
    x = _one(draw, pool, lambda value: _floating(value) and value.tensor.dim() == 2)
    if x is None:
        return None
    y = _one(
        draw,
        pool,
        lambda y: y.tensor.dim() == 2 and y.tensor.dtype == x.tensor.dtype and y.tensor.shape[1] == x.tensor.shape[1],
    )
    return None if y is None else (f"torch.mm({x.name}, {y.name}.t()) * 0.1", False)


MAKERS: tuple[Maker, ...] = (
    *(_unary(text) for text in (
        "torch.exp({x}.clamp(-4, 3))", "torch.log({x}.abs() + 1.5)", "torch.sqrt({x}.abs() + 0.5)",
        "torch.tanh({x}.clamp(-1, 1))",
        "torch.sigmoid({x}.clamp(-3, 3))", "torch.erf({x})", "torch.sin({x})", "torch.nn.functional.gelu({x})",
        "torch.nn.functional.silu({x})", "torch.rsqrt({x}.abs() + 0.5)", "torch.expm1({x}.clamp(-3, 3))",
        "torch.nn.functional.softplus({x})", "torch.nn.functional.elu({x})", "{x} / 3", "1.0 / ({x}.abs() + 1)",
        "{x}.double().cos().to({x}.dtype)", "{x}.float()", "{x} ** 2",
        "torch.view_as_real(torch.polar({x}.double(), {x}.double()) * (1 - 2j)).flatten()",
        "(torch.complex({x}.float(), {x}.float() + 1).conj() * 1j).imag.to({x}.dtype)",
    )),
    *(_unary(text, _number, keeps_exact=True) for text in (
        "{x}.abs()", "-{x}", "{x}.clone()", "{x}.clamp(-2, 2)", "torch._neg_view({x})",
    )),
    *(_decided(text) for text in (
        "{x} > 0", "{x}.floor()", "{x} == {x}.abs()", "{x}.sign()", "{x}.to(torch.int32)", "{x}.to(torch.int64)",
    )),
    *(_binary(text) for text in (
        "{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} / ({y}.abs() + 1)", "torch.maximum({x}, {y})",
        "torch.addcmul({x}, {y}, {y}, value=0.5)",
    )),
    *(_binary(text, exact_only=True) for text in ("{x} < {y}", "torch.minimum({x}, {y})", "{x} != {y}")),
    *(_along_axis(text) for text in (
        "{x}.sum({axis}, keepdim={keep})", "{x}.mean({axis}, keepdim={keep})", "torch.softmax({x}, {axis})",
        "torch.log_softmax({x}, {axis})", "{x}.logsumexp({axis})", "{x}.var({axis}, correction=0)",
        "{x}.cumsum({axis})", "{x}.norm(dim={axis})", "torch.nn.functional.layer_norm({x}, {x}.shape[-1:])",
    )),
    *(_along_axis(text, exact_only=True, suits=_number) for text in (
        "{x}.amax({axis}, keepdim={keep})", "{x}.amin({axis})", "{x}.argmax({axis})", "{x}.max({axis}).values",
        "{x}.any({axis})", "{x}.sum({axis}).to(torch.int64)",
    )),
    *(_along_axis(text, suits=_any) for text in (
        "{x}.select({axis}, {low})", "{x}.narrow({axis}, {low}, {length})", "{x}.flip({axis})",
        "{x}.transpose({axis}, {other})", "{x}.unsqueeze({axis})", "{x}.roll({shift}, {axis})", "{x}.squeeze({axis})",
        "torch.stack([{x}, {x}], {axis})", "{x}.expand(2, *{x}.shape)", "torch.nn.functional.pad({x}, (1, 2))",
        "{x}.repeat_interleave(2, {axis})",
    )),
    _along_axis("{x}.unfold({axis}, {length}, {step})", suits=_any),
    _along_axis("{x}.tril()", axes=2, suits=_number),
    _along_axis("{x}.diagonal(0, 0, 1)", axes=2, suits=_any),
    _permutation,
    _reshape,
    _cat,
    _where,
    _gather,
    _matmul,
)  # fmt: skip


Writer = Callable[[Draw, list[Value]], tuple[str, Value, bool] | None]
"""Draws a statement that changes a value: its text, the value, and whether what that holds is exact afterwards."""


def _write(template: str, *, exact: bool = False, axes: int = 0) -> Writer:
    def make(draw: Draw, pool: list[Value]) -> tuple[str, Value, bool] | None:
        x = _one(draw, pool, lambda value: _number(value) and value.tensor.dim() >= axes and value.tensor.numel() > 0)
        if x is None:
            return None
        axis = draw(st.integers(0, x.tensor.dim() - 1)) if x.tensor.dim() else 0
        size = x.tensor.shape[axis] if x.tensor.dim() else 1
        low = draw(st.integers(0, size - 1))
        high = draw(st.integers(low + 1, size))
        part = f"{x.name}.narrow({axis}, {low}, {high - low})" if x.tensor.dim() else x.name
        found: Tensor = eval(part, {x.name: x.tensor})

        def suits(value: Value) -> bool:
            try:
                sizes = torch.broadcast_shapes(value.tensor.shape, found.shape)
            except RuntimeError:
                return False
            fits = sizes == found.shape and torch.can_cast(value.tensor.dtype, found.dtype)
            return fits and _number(value) and (value.exact or not exact or value.tensor.dtype == found.dtype)

        y = _one(draw, pool, suits) if "{y}" in template else x
        places = [draw(st.integers(0, size - 1)) for _ in range(2)]
        if y is None:
            return None
        text = template.format(
            x=x.name, y=y.name, part=part, axis=axis, two=f"torch.tensor({places})", one=f"torch.tensor({places[:1]})"
        )
        return text, x, exact and y.exact

    return make


WRITERS: tuple[Writer, ...] = (
    *(_write(text, exact=True) for text in (
        "{part}.copy_({y})", "{part}.zero_()", "{part}.fill_(2)", "{part}.clamp_(-1, 1)", "{part}.neg_()",
    )),
    *(_write(text) for text in ("{part}.add_({y})", "{part}.mul_({y} * 0.5)", "{part}.sub_(1)")),
    _write("{x}.index_fill_({axis}, {two}, 1)", exact=True, axes=1),
    _write("{x}.index_copy_({axis}, {one}, {x}.narrow({axis}, 0, 1) + 1)", axes=1),
    _write("{x}.index_add_({axis}, {two}, {x}.narrow({axis}, 0, 1).repeat_interleave(2, {axis}))", axes=1),
    _write("{x}[torch.arange({x}.shape[0]) % 3 == 1] = {x}[0] + 1", axes=1),
    _write("{x}.scatter_reduce_({axis}, torch.zeros_like({x}, dtype=torch.int64), {x} * 2, 'mean')", axes=1),
)  # fmt: skip


def _writes(draw: Draw, pool: list[Value], program: Program) -> bool:
    """Draws a statement that changes a value, and does it; False when eager refuses."""
    made = draw(st.sampled_from(WRITERS))(draw, pool)
    if made is None:
        return False
    text, target, exact = made
    try:
        exec(text, {"torch": torch, **{value.name: value.tensor for value in pool}})
    except (RuntimeError, IndexError, TypeError):
        return False
    memory = target.tensor.untyped_storage()._cdata
    inputs = {one.name for one in program.inputs}
    for position, value in enumerate(pool):
        if value.tensor.untyped_storage()._cdata == memory:
            pool[position] = Value(value.name, value.tensor, value.exact and exact)
            program.written |= {value.name} & inputs
    program.statements.append(text)
    program.writes = True
    return True


@st.composite
def programs(draw: Draw, *, most_statements: int = 12) -> Program:
    """Programs over one to three inputs, some of them strided, with one to three results."""
    program = Program(dynamic=draw(st.integers(0, 3)) == 0)
    pool: list[Value] = []
    sizes = [draw(st.sampled_from(SIZES)) for _ in range(draw(st.integers(1, 3)))]
    for number in range(draw(st.integers(1, 3))):
        # Inputs share sizes, so that they meet.
        own = sizes[draw(st.integers(0, len(sizes) - 1)) :] if number else sizes
        dtype = draw(st.sampled_from(DTYPES)) if number else torch.float32
        make = f"numbers({draw(st.integers(0, 99))}, {dtype}, {', '.join(map(str, own))})"
        layout = draw(st.sampled_from(["", "", "", "transposed", "strided", "negated"]))
        if layout == "transposed" and len(own) > 1:
            turned = (*own[:-2], own[-1], own[-2])
            make = f"numbers({draw(st.integers(0, 99))}, {dtype}, {', '.join(map(str, turned))}).transpose(-1, -2)"
        elif layout == "strided":
            make = f"numbers({draw(st.integers(0, 99))}, {dtype}, {', '.join(map(str, own))}, 2)[..., 1]"
        elif layout == "negated":
            make = f"torch._neg_view({make})"
        one = Input("xyz"[number], make)
        program.inputs.append(one)
        pool.append(Value(one.name, one.tensor(), True))
    for _ in range(draw(st.integers(1, most_statements))):
        if draw(st.integers(0, 7)) == 0 and _writes(draw, pool, program):
            continue
        made = draw(st.sampled_from(MAKERS))(draw, pool)
        if made is None:
            continue
        text, exact = made
        try:
            result = eval(text, {"torch": torch, **{value.name: value.tensor for value in pool}})
        except (RuntimeError, IndexError, TypeError):
            continue
        finite = not result.is_floating_point() or bool(result.isfinite().all() and (result.abs() < 1e4).all())
        if result.numel() > MOST_ELEMENTS or not finite:
            continue
        name = f"v{len(program.statements)}"
        program.statements.append(f"{name} = {text}")
        pool.append(Value(name, result, exact))
    own_values = [value.name for value in pool if value.name.startswith("v")] or [pool[0].name + " + 1"]
    program.results = list(dict.fromkeys([own_values[-1], *draw(st.lists(st.sampled_from(own_values), max_size=2))]))
    return program
