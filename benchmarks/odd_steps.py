"""More steps of random problems, of the kind "odd": sorts, gathers, scatters, windows, resizing, casts, whole numbers.

They are apart from the usual ones so that the seeds of those say what they said before there were any of these.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.random_steps import Arguments, Kind, Made, Shape, along, images, need, over, pointwise, with_another


def _number(name: str) -> Kind:
    """`NAME NUMBER`: with one of a few whole numbers."""
    function, choices = _WITH_A_NUMBER[name]
    return Kind(
        lambda shape, arguments: Made(lambda x, weights: function(x, *arguments)),
        lambda rng, shape: (rng.choice(choices),),
    )


def _axis_of(rng: random.Random, shape: Shape) -> Arguments:
    return (rng.randrange(len(shape)),)


def _indexed(function: Callable[[Tensor, int, Tensor], Tensor], *, whole: bool) -> Kind:
    """`NAME AXIS`: with an index for each place along an axis, or (`whole`) for each element."""

    def make(shape: Shape, arguments: Arguments) -> Made:
        (axis,) = arguments
        need(0 <= axis < len(shape) and shape[axis] > 1)
        index = shape if whole else (shape[axis],)
        return Made(lambda x, given: function(x, axis, given[-1]), (), 0, ((index, shape[axis]),))

    return Kind(make, _axis_of)


def _scattered(function: Callable[[Tensor, int, Tensor, Tensor], Tensor], *, whole: bool) -> Kind:
    """As `_indexed`, with a source of the same sizes."""

    def make(shape: Shape, arguments: Arguments) -> Made:
        (axis,) = arguments
        need(0 <= axis < len(shape) and shape[axis] > 1)
        index = shape if whole else (shape[axis],)
        return Made(lambda x, given: function(x, axis, given[1], given[0]), (shape,), 0, ((index, shape[axis]),))

    return Kind(make, _axis_of)


def _embedding(shape: Shape, arguments: Arguments) -> Made:
    """`embedding COUNT`: so many rows of the table that comes."""
    need(len(shape) == 2)
    return Made(lambda x, given: F.embedding(given[0], x), (), 0, (((arguments[0],), shape[0]),))


def _top(shape: Shape, arguments: Arguments) -> Made:
    """`topk AXIS COUNT`."""
    axis, count = arguments
    need(0 <= axis < len(shape) and count <= shape[axis])
    return Made(lambda x, weights: x.topk(count, axis).values)


def _resized(mode: dict[int, str]) -> Kind:
    """`NAME HALVES`: images so many halves as high and wide as they were."""

    def make(shape: Shape, arguments: Arguments) -> Made:
        rank = images(shape)
        need(rank in mode)
        sizes = [max(1, size * arguments[0] // 2) for size in shape[2:]]
        return Made(lambda x, weights: F.interpolate(x, sizes, mode=mode[rank]))

    def draw(rng: random.Random, shape: Shape) -> Arguments:
        images(shape)
        return (rng.choice((1, 3, 4)),)

    return Kind(make, draw)


def _padded_images(mode: str) -> Kind:
    """`NAME COUNT`: so many points more at every side of the images."""

    def make(shape: Shape, arguments: Arguments) -> Made:
        around = [arguments[0]] * (2 * images(shape))
        return Made(lambda x, weights: F.pad(x, around, mode))

    return Kind(make, lambda rng, shape: (rng.choice((1, 2, 3)),))


def _adaptive(shape: Shape, arguments: Arguments) -> Made:
    """`adaptive_pool SIZE`."""
    need(len(shape) == 4)
    return Made(lambda x, weights: F.adaptive_avg_pool2d(x, arguments[0]))


def _columns(shape: Shape, arguments: Arguments) -> Made:
    """`unfold WINDOW`: windows as columns."""
    need(len(shape) == 4)
    return Made(lambda x, weights: F.unfold(x, arguments[0], padding=arguments[0] // 2))


def _shuffled(shape: Shape, arguments: Arguments) -> Made:
    """`pixel_shuffle FACTOR`."""
    need(len(shape) == 4)
    return Made(lambda x, weights: F.pixel_shuffle(x, arguments[0]))


def _repeated(shape: Shape, arguments: Arguments) -> Made:
    """`repeat_each AXIS TIMES`."""
    axis, times = arguments
    need(0 <= axis < len(shape))
    return Made(lambda x, weights: x.repeat_interleave(times, axis))


_WITH_A_NUMBER: dict[str, tuple[Callable[[Tensor, int], Tensor], tuple[int, ...]]] = {
    "pow": (lambda x, n: x**n, (2, 3, 5)),
    "divide_by": (lambda x, n: torch.div(x, n, rounding_mode="floor"), (2, 3, 8)),
    "remainder_by": (lambda x, n: x % n, (2, 3, 8)),
    "shift": (lambda x, n: x << n, (1, 3)),
    "tril": (lambda x, n: x.tril(n), (0, 1)),
}
_CASTS = {
    "to_f32": torch.float32,
    "to_f64": torch.float64,
    "to_bf16": torch.bfloat16,
    "to_f16": torch.float16,
    "to_i8": torch.int8,
    "to_i64": torch.int64,
    "to_bool": torch.bool,
}


def _cast(dtype: torch.dtype) -> Kind:
    return pointwise(lambda x: x.to(dtype))


ODD_STEPS: dict[str, Kind] = {
    **{name: _number(name) for name in _WITH_A_NUMBER},
    **{name: _cast(dtype) for name, dtype in _CASTS.items()},
    "exp": pointwise(torch.exp),
    "log1p": pointwise(lambda x: x.abs().log1p()),
    "sin": pointwise(torch.sin),
    "sqrt": pointwise(lambda x: x.abs().sqrt()),
    "erf": pointwise(torch.erf),
    "erfc": pointwise(torch.erfc),
    "erfinv": pointwise(lambda x: (x * 0.2).clamp(-0.9, 0.9).erfinv()),
    "sinh": pointwise(torch.sinh),
    "atan": pointwise(torch.atan),
    "acos": pointwise(lambda x: x.clamp(-1, 1).acos()),
    "round": pointwise(torch.round),
    "sign": pointwise(torch.sign),
    "negate": pointwise(torch.neg),
    "copy": pointwise(torch.clone),
    "where": pointwise(lambda x: torch.where(x > 0, x, x * 2)),
    "nan_to_num": pointwise(torch.nan_to_num),
    "divide": with_another(torch.div),
    "maximum": with_another(torch.maximum),
    "greater": with_another(torch.gt),
    "remainder": with_another(torch.remainder),
    "atan2": with_another(torch.atan2),
    "prod": along(lambda x, axis: x.prod(axis)),
    "any": along(lambda x, axis: x.any(axis)),
    "all": along(lambda x, axis: x.all(axis)),
    "nonzero_count": over(lambda x, axes: x.count_nonzero(axes)),
    "max_value": along(lambda x, axis: x.max(axis).values),
    "std_kept": over(lambda x, axes: x.std(axes, keepdim=True)),
    "cumprod": along(lambda x, axis: x.cumprod(axis)),
    "cummin": along(lambda x, axis: x.cummin(axis).values),
    "logcumsumexp": along(lambda x, axis: x.logcumsumexp(axis)),
    "sort": along(lambda x, axis: x.sort(axis).values),
    "argsort": along(lambda x, axis: x.argsort(axis)),
    "median": along(lambda x, axis: x.median(axis).values),
    "topk": Kind(_top, lambda rng, shape: (rng.randrange(len(shape)), rng.choice((1, 5, 50)))),
    "flip": along(lambda x, axis: x.flip(axis)),
    "diff": along(lambda x, axis: x.diff(dim=axis)),
    "stack": along(lambda x, axis: torch.stack((x, -x), axis)),
    "repeat_each": Kind(_repeated, lambda rng, shape: (rng.randrange(len(shape)), rng.choice((2, 3)))),
    "index_select": _indexed(lambda x, axis, index: x.index_select(axis, index), whole=False),
    "gather": _indexed(lambda x, axis, index: x.gather(axis, index), whole=True),
    "index_add": _scattered(lambda x, axis, index, source: x.index_add(axis, index, source), whole=False),
    "index_copy": _scattered(lambda x, axis, index, source: x.index_copy(axis, index, source), whole=False),
    "scatter_add": _scattered(lambda x, axis, index, source: x.scatter_add(axis, index, source), whole=True),
    "scatter_amax": _scattered(
        lambda x, axis, index, source: x.scatter_reduce(axis, index, source, "amax"), whole=True
    ),
    "embedding": Kind(_embedding, lambda rng, shape: (rng.choice((100, 4000, 50000)),)),
    "nearest": _resized({1: "nearest", 2: "nearest", 3: "nearest"}),
    "linear_resize": _resized({1: "linear", 2: "bilinear", 3: "trilinear"}),
    "cubic_resize": _resized({2: "bicubic"}),
    "area_resize": _resized({1: "area", 2: "area", 3: "area"}),
    "reflect": _padded_images("reflect"),
    "replicate": _padded_images("replicate"),
    "zeros_around": _padded_images("constant"),
    "adaptive_pool": Kind(_adaptive, lambda rng, shape: (rng.choice((1, 7, 8)),)),
    "unfold": Kind(_columns, lambda rng, shape: (rng.choice((2, 3)),)),
    "pixel_shuffle": Kind(_shuffled, lambda rng, shape: (rng.choice((2, 4)),)),
}
