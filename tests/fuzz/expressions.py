"""What random programs are made of: expressions and statements of PyTorch over the values that a program has so far.

Rounding decides nothing: comparisons, floors, sorts and arg-reductions are drawn only on values that are exact (inputs,
their views and copies, integers), since a last bit may turn them over. So may it the derivative of `abs` or `clamp`:
where a value is not exact, they bend beside the numbers that results often are (an element that is the mean of its row
is 0 in a layer norm; in float64, too, the sign is a rounding's). Saturating functions are drawn where they do
not saturate: their gradients would be differences of nearly equal numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor

MOST_ELEMENTS = 40_000


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the program under construction, as eager computed it."""

    name: str
    tensor: Tensor
    exact: bool


Maker = Callable[[Random, list[Value]], tuple[str, bool] | None]
"""Draws an expression over the values so far, and whether it is exact when its operands are; None when none fits."""


def _one(rng: Random, pool: list[Value], suits: Callable[[Value], bool]) -> Value | None:
    fitting = [value for value in pool if suits(value)]
    # The most recent are the likeliest, so that programs are deep.
    return fitting[-1 - min(rng.randint(0, 5), len(fitting) - 1)] if fitting else None


def _floating(value: Value) -> bool:
    return value.tensor.is_floating_point()


def _any(value: Value) -> bool:
    return True


def _number(value: Value) -> bool:
    return value.tensor.dtype != torch.bool


def _has_negative(value: Value) -> bool:
    """Eager negates no bools and no floats of 8 bits: of their negative views it raises here and there."""
    return _number(value) and not (value.tensor.is_floating_point() and value.tensor.dtype.itemsize == 1)


def _has_axes(count: int) -> Callable[[Value], bool]:
    return lambda value: value.tensor.dim() >= count


def _unary(template: str, suits: Callable[[Value], bool] = _floating, *, keeps_exact: bool = False) -> Maker:
    def make(rng: Random, pool: list[Value]) -> tuple[str, bool] | None:
        value = _one(rng, pool, suits)
        return None if value is None else (template.format(x=value.name), keeps_exact and value.exact)

    return make


def _bent(exact: str, otherwise: str) -> Maker:
    """An op whose derivative rounding may turn over: another, that bends elsewhere, on values that are not exact."""

    def make(rng: Random, pool: list[Value]) -> tuple[str, bool] | None:
        value = _one(rng, pool, _number)
        if value is None:
            return None
        integral = not value.tensor.is_floating_point()
        return (exact if value.exact or integral else otherwise).format(x=value.name), value.exact

    return make


def _decided(template: str, suits: Callable[[Value], bool] = _number) -> Maker:
    """An op that rounding may turn over: only on exact values."""

    def make(rng: Random, pool: list[Value]) -> tuple[str, bool] | None:
        value = _one(rng, pool, lambda value: value.exact and suits(value))
        return None if value is None else (template.format(x=value.name), True)

    return make


def _binary(template: str, *, exact_only: bool = False) -> Maker:
    def make(rng: Random, pool: list[Value]) -> tuple[str, bool] | None:
        x = _one(rng, pool, lambda value: _number(value) and (value.exact or not exact_only))
        if x is None:
            return None
        y = _one(rng, pool, lambda value: _number(value) and (value.exact or not exact_only) and _fits(x, value))
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
    def make(rng: Random, pool: list[Value]) -> tuple[str, bool] | None:
        def good(value: Value) -> bool:
            return suits(value) and value.tensor.dim() >= axes and (value.exact or not exact_only)

        value = _one(rng, pool, good)
        if value is None:
            return None
        axis = rng.randint(-value.tensor.dim(), value.tensor.dim() - 1)
        size = value.tensor.shape[axis]
        other = rng.randint(-value.tensor.dim(), value.tensor.dim() - 1)
        low = rng.randint(0, max(size - 1, 0))
        length = rng.randint(1, max(size - low, 1))
        text = template.format(
            x=value.name, axis=axis, other=other, low=low, high=low + length, length=length, size=size,
            keep=rng.random() < 0.5, step=rng.randint(1, 3), shift=rng.randint(-size, size),
        )  # fmt: skip
        return text, (exact_only or suits is _any) and value.exact

    return make


def _permutation(rng: Random, pool: list[Value]) -> tuple[str, bool] | None:
    value = _one(rng, pool, _has_axes(2))
    if value is None:
        return None
    order = rng.sample(range(value.tensor.dim()), value.tensor.dim())
    return f"{value.name}.permute({', '.join(map(str, order))})", value.exact


def _reshape(rng: Random, pool: list[Value]) -> tuple[str, bool] | None:
    value = _one(rng, pool, _has_axes(1))
    if value is None or value.tensor.numel() == 0:
        return None
    left = value.tensor.numel()
    sizes: list[int] = []
    for _ in range(rng.randint(0, 2)):
        size = rng.choice([d for d in (1, 2, 3, 4, 5, 7, 8, 16) if left % d == 0])
        sizes.append(size)
        left //= size
    order = rng.sample([*sizes, left], len(sizes) + 1)
    return f"{value.name}.reshape({', '.join(map(str, order))})", value.exact


def _cat(rng: Random, pool: list[Value]) -> tuple[str, bool] | None:
    x = _one(rng, pool, _has_axes(1))
    if x is None:
        return None
    axis = rng.randint(0, x.tensor.dim() - 1)

    def alike(y: Value) -> bool:
        a, b = list(x.tensor.shape), list(y.tensor.shape)
        return len(a) == len(b) and [*a[:axis], *a[axis + 1 :]] == [*b[:axis], *b[axis + 1 :]]

    y = _one(rng, pool, alike) or x
    return f"torch.cat([{x.name}, {y.name}], {axis})", x.exact and y.exact and x.tensor.dtype == y.tensor.dtype


def _where(rng: Random, pool: list[Value]) -> tuple[str, bool] | None:
    condition = _one(rng, pool, lambda value: value.tensor.dtype == torch.bool)
    if condition is None:
        return None
    x = _one(rng, pool, lambda value: _number(value) and _fits(condition, value))
    if x is None:
        return None
    return f"torch.where({condition.name}, {x.name}, {rng.choice(['0.5', '-1.0', '2.0'])})", False


def _gather(rng: Random, pool: list[Value]) -> tuple[str, bool] | None:
    value = _one(rng, pool, _has_axes(1))
    index = _one(rng, pool, lambda value: value.tensor.dtype == torch.int64 and value.exact and value.tensor.dim() > 0)
    if (
        value is None
        or index is None
        or value.tensor.shape[0] == 0
        or index.tensor.numel() * value.tensor[0].numel() > MOST_ELEMENTS
    ):
        return None
    return f"{value.name}[{index.name} % {value.tensor.shape[0]}]", value.exact


def _matmul(rng: Random, pool: list[Value]) -> tuple[str, bool] | None:
    x = _one(rng, pool, lambda value: _floating(value) and value.tensor.dim() == 2)
    if x is None:
        return None
    y = _one(
        rng,
        pool,
        lambda y: y.tensor.dim() == 2 and y.tensor.dtype == x.tensor.dtype and y.tensor.shape[1] == x.tensor.shape[1],
    )
    return None if y is None else (f"torch.mm({x.name}, {y.name}.t()) * 0.1", False)


MAKERS: tuple[Maker, ...] = (
    *(_unary(text) for text in (
        "torch.exp({x}.clamp(-3.97, 2.93))", "torch.log(({x} - 0.03).abs() + 1.5)", "{x} / 3", "torch.erf({x})",
        "torch.tanh({x}.clamp(-0.97, 0.93))", "torch.sqrt(({x} - 0.03).abs() + 0.5)", "torch.sin({x})",
        "torch.sigmoid({x}.clamp(-2.97, 2.93))", "torch.nn.functional.gelu({x})", "torch.nn.functional.silu({x})",
        "torch.rsqrt(({x} + 0.03).abs() + 0.5)", "torch.expm1({x}.clamp(-2.97, 2.93))",
        "torch.nn.functional.softplus({x})", "torch.nn.functional.elu({x})", "1.0 / (({x} - 0.03).abs() + 1)",
        "{x}.double().cos().to({x}.dtype)", "{x}.float()", "{x} ** 2",
        "torch.view_as_real(torch.polar({x}.double() + 0.03, {x}.double()) * (1 - 2j)).flatten()",
        "(torch.complex({x}.float(), {x}.float() + 1).conj() * 1j).imag.to({x}.dtype)",
    )),
    _bent("{x}.abs()", "({x} - 0.03).abs()"),
    _unary("-{x}", _number, keeps_exact=True),
    _unary("{x}.clone()", _number, keeps_exact=True),
    _bent("{x}.clamp(-2, 2)", "{x}.clamp(-1.97, 1.93)"),
    _unary("torch._neg_view({x})", _has_negative, keeps_exact=True),
    *(_decided(text) for text in (
        "{x} > 0", "{x}.floor()", "{x} == {x}.abs()", "{x}.sign()", "{x}.to(torch.int32)", "{x}.to(torch.int64)",
    )),
    *(_binary(text) for text in (
        "{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} / (({y} - 0.03).abs() + 1)", "torch.maximum({x}, {y})",
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


Writer = Callable[[Random, list[Value]], tuple[str, Value, bool] | None]
"""Draws a statement that changes a value: its text, the value, and whether what that holds is exact afterwards."""


def _write(template: str, *, exact: bool = False, axes: int = 0) -> Writer:
    def make(rng: Random, pool: list[Value]) -> tuple[str, Value, bool] | None:
        x = _one(rng, pool, lambda value: _number(value) and value.tensor.dim() >= axes and value.tensor.numel() > 0)
        if x is None:
            return None
        axis = rng.randint(0, x.tensor.dim() - 1) if x.tensor.dim() else 0
        size = x.tensor.shape[axis] if x.tensor.dim() else 1
        low = rng.randint(0, size - 1)
        high = rng.randint(low + 1, size)
        part = f"{x.name}.narrow({axis}, {low}, {high - low})" if x.tensor.dim() else x.name
        found: Tensor = eval(part, {x.name: x.tensor})

        def suits(value: Value) -> bool:
            try:
                sizes = torch.broadcast_shapes(value.tensor.shape, found.shape)
            except RuntimeError:
                return False
            fits = sizes == found.shape and torch.can_cast(value.tensor.dtype, found.dtype)
            return fits and _number(value) and (value.exact or not exact or value.tensor.dtype == found.dtype)

        y = _one(rng, pool, suits) if "{y}" in template else x
        places = [rng.randint(0, size - 1) for _ in range(2)]
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
