"""What a sceptic would try: extreme numbers, odd sizes, empty tensors, and calls that eager refuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.support.differential import check, compiled_of

pytestmark = pytest.mark.slow

nan, inf = torch.nan, torch.inf


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


FAR = [0.0, -0.0, 1.9, -1.9, 255.9, 256.0, -129.0, 32768.0, -32769.0, 65536.0, 70000.0, 1e20, inf, -inf, nan]
FAR += [sign * 2.0**power + rest for sign in (1, -1) for power in (31, 32, 40, 63) for rest in (-1, 0, 7, 300, 70000)]


@pytest.mark.parametrize("source", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_integers_of_floats_that_do_not_fit(source: torch.dtype) -> None:
    """Undefined in C++, but the same as eager's on the same machine."""

    def function(x: Tensor) -> list[Tensor]:
        types = (torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.int64, torch.bool)
        return [x.to(to) for to in types]

    check(function, torch.tensor(FAR, dtype=torch.float64).to(source).repeat(3), truth=False)


REFUSED: dict[str, Callable[[Tensor], object]] = {
    "argmax of bools": lambda x: (x > 0).argmax(1),
    "argmin of bools": lambda x: (x > 0).argmin(),
    "abs of bools": lambda x: (x > 0).abs(),
    "relu of bools": lambda x: torch.relu(x > 0),
    "ceil of bools": lambda x: torch.ceil(x > 0),
    "round of bools": lambda x: torch.round(x > 0),
    "variance of integers": lambda x: x.int().var(),
    "softmax of integers": lambda x: x.int().softmax(0),
    "gelu of integers": lambda x: F.gelu(x.int()),
    "silu of bools": lambda x: F.silu(x > 0),
    "hypot of integers": lambda x: torch.hypot(x.int(), x.int()),
    "max of nothing": lambda x: x[:0].max(),
    "min over no rows": lambda x: x[:0].min(0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_eager_refuses_is_refused_alike(name: str) -> None:
    function, x = REFUSED[name], torch.randn(3, 5)
    with pytest.raises((RuntimeError, TypeError, IndexError)) as expected:
        function(x)
    with pytest.raises(type(expected.value)):
        compiled_of(function)(x)


def test_a_gradient_whose_sizes_are_sums_of_symbols() -> None:
    """In the graph of the backward pass no input has a size that is the symbol."""
    x = torch.randn(5, requires_grad=True)
    check(lambda x: torch.diag_embed(x, offset=2), x, dynamic=True)
    check(lambda x: F.pad(x, (1, 2)), x, dynamic=True)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_functions_that_llvm_makes_others_of(dtype: torch.dtype) -> None:
    """`sincos` of a sine and a cosine, `exp10` and `ldexp` of powers."""

    def function(x: Tensor) -> tuple[Tensor, ...]:
        whole = x.round()
        return x.sin() * x.cos(), torch.pow(10.0, x), torch.pow(2.0, whole), torch.exp2(whole), x.sinc()

    for size in (1, 17):
        check(function, torch.linspace(0.3, 4.0, size, dtype=dtype, requires_grad=True))


SIZES = (1, 3, 17, 1023)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "every second", "expanded"])
@pytest.mark.every(2)
def test_reductions_of_odd_sizes(layout: str) -> None:
    def function(*tensors: Tensor) -> list[Tensor]:
        results: list[Tensor] = []
        for x in tensors:
            for dim in (0, -1):
                results += [x.sum(dim), x.mean(dim, keepdim=True), x.amax(dim), x.argmin(dim), x.softmax(dim)]
                results += [*x.max(dim), x.logsumexp(dim), x.cumsum(dim), (x > 1).any(dim), (x > 1).sum(dim)]
        return results

    def tensor(rows: int, columns: int) -> Tensor:
        match layout:
            case "transposed":
                return torch.randn(columns, rows).t()
            case "every second":
                return torch.randn(rows, 2 * columns)[:, ::2]
            case "expanded":
                return torch.randn(rows, 1).expand(rows, columns)
            case _:
                return torch.randn(rows, columns)

    check(function, *[tensor(3, size) for size in SIZES], *[tensor(size, 3) for size in SIZES if size != 3])


def test_large_sums_in_narrow_types_are_taken_in_f32() -> None:
    ones = torch.ones(70_000, dtype=torch.bfloat16)
    thirds = torch.full((4099,), 1 / 3, dtype=torch.float16)

    def function(x: Tensor, y: Tensor, flags: Tensor) -> tuple[Tensor, ...]:
        return (
            x.sum(),
            x.mean(),
            y.sum(),
            y.norm(),
            flags.sum(),
            flags.cumsum(0)[-1],
            flags.int().sum(dtype=torch.uint8),
        )

    check(function, ones, thirds, ones > 0)


def test_empty_tensors() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        reduced = (x.sum(), x.sum(0), x.mean(0), x.prod(1), x.any(), x.all(0), x.amax(1), x.argmax(1), x.norm(dim=0))
        same = (x + 1, x.softmax(0), x.cumsum(1), F.gelu(x), F.layer_norm(x, (5,)), x.tril())
        moved = (x.t(), x.reshape(5, 0), torch.cat([x, x]), torch.cat([x, x.new_ones(2, 5)]), F.pad(x, (0, 0, 1, 1)))
        return *reduced, *same, *moved, x @ x.new_ones(5, 3), x.new_ones(3, 0) @ x, x.repeat(2, 2), x[:, 1:]

    check(function, torch.empty(0, 5))


def test_indices_that_are_negative_or_repeated() -> None:
    def function(x: Tensor, i: Tensor, j: Tensor, values: Tensor) -> tuple[Tensor, ...]:
        read = (x[i], x[i, j], x[:, j], x[i][:, i], x[..., -1], x[[0, -1, 0]], x[i, None], x.take(i))
        added = (x.index_put((i,), values, accumulate=True), x.index_put((i, j), values[0, :1], accumulate=True))
        written = x.clone()
        written[i[:3]] = values[:1]
        written[:, -1] = written[:, 0]
        written[written > 1] = 0
        return *read, *added, written

    i, j = torch.tensor([0, -1, 4, 4, -5, 2]), torch.tensor([6, -7, 0, 0, -1, 3])
    check(function, torch.randn(5, 7), i, j, torch.randn(6, 7))


@pytest.mark.parametrize("reduction", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.covering
def test_scatter_reduce(reduction: str, include_self: bool) -> None:
    def function(x: Tensor, i: Tensor, source: Tensor) -> tuple[Tensor, ...]:
        return (
            x.scatter_reduce(0, i, source, reduction, include_self=include_self),
            x.scatter_reduce(0, i[:2, :3], source, reduction, include_self=include_self),
            x.int().scatter_reduce(0, i, source.int(), reduction, include_self=include_self),
        )

    source = torch.randn(5, 7) * 4
    source[1, 2] = nan
    check(function, torch.randn(5, 7), torch.randint(0, 5, (5, 7)), source)


@pytest.mark.slow
def test_integers_wrap_and_divide_as_eager_does() -> None:
    def function(*tensors: Tensor) -> list[Tensor]:
        results: list[Tensor] = []
        for x in tensors:
            results += [x * 100, x**3, -x, x + 127, x.sum(), x.prod(), x // 3, x % 3, torch.fmod(x, 3), x << 3, x >> 1]
            results += [torch.div(x, 7, rounding_mode="trunc"), x / 3, x.clamp(2, 5), x.sum(dtype=x.dtype), x * 2.5]
            if x.dtype.is_signed:
                results += [x // -3, x % -3, x // -1, x % -1, torch.fmod(x, -3), x.abs(), x.sign()]
        return results

    types = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
    limits = [(torch.iinfo(one).min, torch.iinfo(one).max) for one in types]
    inputs = [
        torch.tensor([0, 1, 7, 100, high, high - 1, low, low + 1], dtype=one)
        for one, (low, high) in zip(types, limits, strict=True)
    ]
    check(function, *inputs)
