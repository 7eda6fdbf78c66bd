"""PyTorch's semantics: what a function does to its inputs, what its outputs are, in every dtype and layout."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn, randn
from torch.nn import functional as F

from cuesta.record import records
from cuesta.testing import assert_close_to_float64
from tests.support.differential import check, check_call, compiled_of

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


# -- mutation and aliasing ---------------------------------------------------------------------------------------------


def test_inputs_and_their_views_are_written_to() -> None:
    def function(x: Tensor, y: Tensor, half: Tensor) -> tuple[Tensor, ...]:
        x[1:3].mul_(y[1:3])
        x.t()[0].zero_()
        x[0] = 5
        y.view(-1)[3] = 9
        y.add_(1).clamp_(-1, 1)
        half.copy_(x)
        torch.add(x, 1, out=y)
        z = x.clone()
        z[:, 1].mul_(2)
        return x + y, x[1], z, y.t(), half

    check(function, randn(3, 4), randn(3, 4), torch.zeros(3, 4, dtype=torch.float16), truth=False)


def test_writes_through_indices() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        x.index_put_((torch.tensor([0, 0]),), y[:2], accumulate=True)
        x.index_add_(0, torch.tensor([1]), y[:1])
        y.scatter_(0, torch.tensor([[1, 0, 1, 0]]), 7.0)
        x.masked_fill_(y > 1, -1.0)
        return x.sum()

    check(function, randn(3, 4), randn(3, 4))


def test_writes_to_inputs_of_other_layouts() -> None:
    check(lambda x: x.zero_(), randn(4, 5)[1:, ::2].t(), truth=False)
    check(lambda x: x.add_(1), randn(2, 3, 4, 4).to(memory_format=torch.channels_last), truth=False)


def test_inputs_that_alias_each_other() -> None:
    def function(x: Tensor, y: Tensor, whole: Tensor) -> tuple[Tensor, Tensor]:
        x.add_(1)
        y.mul_(2)
        return x + y, whole.sum()

    whole = randn(10)
    check(function, whole[:6], whole[4:], whole, truth=False)

    def twice(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        x.add_(1)
        return x * y, y

    check(twice, whole, whole, truth=False)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_returned_views_and_aliases_are_tensors_of_their_own(requires_grad: bool) -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = x.exp()
        same = (y, y, y.detach(), y.view(2, 6), y[:], y.expand(2, 6), y.t().t(), y.squeeze(), y.contiguous())
        return x, x.t(), *same, y.t(), y.t(), y[0], y[:, 1:3], y.view(3, 4), y.diagonal(), y.clone(), x[:, 1:3]

    check(function, randn(2, 6, requires_grad=requires_grad))


def test_views_that_only_eager_can_say() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = x * 2
        bits = y.view(torch.int32)
        return y, bits, bits + 1, y.as_strided((2, 2), (1, 2), 1), x.as_strided((2, 3), (1, 1), 2), x.view(torch.uint8)

    check(function, randn(9)[2:], truth=False)


def test_strides_from_the_first_element_of_a_part() -> None:
    """Of an argument that is a part of a larger storage, dense in another order; reads and writes, with and without an
    offset from the storage's start.
    """

    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        y.as_strided((4,), (2,)).add_(1)
        y.as_strided((2,), (3,), 5).mul_(2)
        y[1:2].sub_(3)
        x[:, 1:].neg_()
        windows = x.as_strided((3, 2, 2), (1, 2, 1)) + 1
        return windows, x.as_strided((2, 2), (1, 2)), (x * 2)[1:].as_strided((2,), (3,), 1).exp()

    check(function, randn(16)[4:].view(4, 3).t(), randn(20)[5:].view(3, 5))


@pytest.mark.parametrize(
    "changed",
    [
        lambda x: torch.select_scatter(x, x[0] * 2, 0, 1),
        lambda x: torch.select_scatter(x.t(), x[:, 0] * 2, 0, -1),
        lambda x: torch.slice_scatter(x, x[:2] * 2, 0, 0, 2),
        lambda x: torch.diagonal_scatter(x, x[:, 0] * 2),
        lambda x: torch.ops.aten.copy(x, x * 2),
    ],
    ids=["select", "select of a transpose", "slice", "diagonal", "copy"],
)
def test_what_copies_a_storage_is_addressed_from_its_start(changed: Callable[[Tensor], Tensor]) -> None:
    for x in (randn(6, 5)[1:5], randn(4, 9)[:, 2:7], randn(4, 5)):
        check(lambda x: changed(x).as_strided((3,), (1,), 2) * 2, x, truth=False)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.ops.aten.copy((x * 2)[1:], x[1:] + 1).as_strided((1,), (1,), 0),
        lambda x: torch.slice_scatter((x * 2)[1:, 1:], x[1:2, 1:], 0, 0, 1).as_strided((2,), (1,), 1) + 1,
        lambda x: torch.select_scatter((y := (x * 2)[0]).expand(2, *y.shape), y + 1, 0, 1).as_strided((3,), (1,), 1),
        lambda x: torch.as_strided_scatter((x * 2)[1:], x[0], (5,), (1,), 6).as_strided((6,), (1,), 1) * 2,
    ],
    ids=["copy", "slice", "select of an expanded row", "strides"],
)
def test_what_copies_the_storage_of_a_part_is_addressed_from_its_start(function: Callable[[Tensor], Tensor]) -> None:
    """A part of what is computed: the copy was taken to fill its storage."""
    check(function, randn(4, 5), truth=False)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_equal_expressions_have_memory_of_their_own(requires_grad: bool) -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        return x + 1, x + 1, (x + 1) * 2, torch.zeros(3), torch.zeros(3), x.exp(), x.exp()

    check(function, randn(2, 6, requires_grad=requires_grad))


# -- what may be passed and returned -----------------------------------------------------------------------------------


def test_outputs_that_are_no_tensors() -> None:
    def function(x: Tensor, integer: int, real: float, truth: bool, nothing: None) -> dict:
        rest = (integer, real, truth, [x + real, 3.25, "text"])
        return {"x": x * integer, "none": None, "rest": rest, "nothing": nothing, "next": integer + 1}

    check(function, randn(2, 6), 3, 2.5, True, None)


def test_graphs_without_inputs_or_without_work() -> None:
    check(lambda: torch.ones(3) + 1)
    check(lambda: torch.tensor([1, 2]))
    check(lambda x: x, randn(2))
    check(lambda x: (x, x, {"again": x.t()}), randn(2, 3))
    check(lambda *all_of_them: sum(all_of_them), *[randn(3) for _ in range(40)])
    x = randn(2)
    assert compiled_of(nn.Identity())(x) is x


def test_constants() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        table, number = torch.tensor([1.0, 2, 3, 4, 5, 6]), torch.tensor(3)
        return x * table, x + number, table, number, table + number, torch.full((2,), 7), torch.arange(3), torch.eye(3)

    check(function, randn(2, 6))


def test_buffers() -> None:
    class Counting(nn.Module):
        calls: Tensor
        scale: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))
            self.register_buffer("scale", randn(3))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            self.calls += 1
            self.scale[0] = self.calls
            return x * self.scale, self.scale

    model = Counting()
    compiled = compiled_of(model)
    for call in (1, 2, 3):
        product, scale = compiled(torch.ones(3))
        assert scale is model.scale
        assert (model.calls.item(), product[0].item()) == (call, call)


# -- sizes and layouts -------------------------------------------------------------------------------------------------


def test_scalars() -> None:
    def function(x: Tensor, i: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        reduced = (x.sum(), y.max(), y.argmax(), y.var())
        shapes = (x.view(1), x.expand(3), x[None], x.reshape(1, 1))
        return x * 2, x + i, i // 2, y * x, y * i, i * 2.5, i / 2, *reduced, *shapes

    check(function, torch.tensor(2.0), torch.tensor(3), randn(3))


@pytest.mark.slow
def test_empty_tensors() -> None:
    def function(x: Tensor, y: Tensor, z: Tensor, w: Tensor, i: Tensor) -> tuple[Tensor, ...]:
        reduced = (x.sum(), x.sum(0), x.sum(1), z.mean(1), z.prod(1), z.any(1), z.all(1), x.cumsum(0), x.norm())
        normal = (F.softmax(x, -1), F.softmax(y, -1), F.layer_norm(x, (4,)), F.softmax(x, 0))
        joined = (torch.cat([x, w]), torch.cat([x, x]), torch.cat([randn(0), w.sum(1)]), torch.stack([x, x]))
        products = (x @ y, y @ x, F.linear(x, w), F.scaled_dot_product_attention(x[None], w[None], w[None]))
        moved = (
            x.exp(),
            x.view(2, 0, 2),
            z.flatten(),
            x[:, :0],
            w[:0] * 2,
            w[i],
            F.embedding(i, w),
            F.pad(x, (1, 1, 1, 1)),
        )
        return *reduced, *normal, *joined, *products, *moved, F.conv2d(x.view(0, 1, 2, 2), w[:, None, :2, None])

    inputs = (randn(0, 4), randn(4, 0), randn(3, 0, 2), randn(2, 4), torch.zeros(0, dtype=torch.long))
    check(function, *inputs)
    check(nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3)), randn(0, 4, requires_grad=True))


@pytest.mark.slow
@pytest.mark.parametrize("size", [pytest.param(3, marks=pytest.mark.slow), 37])
def test_layouts(size: int) -> None:
    def function(a: Tensor, b: Tensor, c: Tensor, d: Tensor, e: Tensor) -> tuple[object, ...]:
        pointwise = (a + 1, b * 2, c.exp(), d.exp(), e.relu(), a.clone(), c.clone(), e.double(), e.bfloat16(), e > 0)
        mixed = (e + e.contiguous(), torch.where(e > 0, e, 0.0), torch.zeros_like(e), torch.ones_like(c), a.T @ a)
        reduced = (a.sum(0), b.sum(1), b.sum(), e.argmax(0), e.max(1), e.mean((0, 2), keepdim=True), e.var((0, 1)))
        shaped = (a.contiguous(), e.reshape(-1), e.flatten(1), e.flip(0, 2), e.roll((1, 2), (0, 2)), e[::3, 1:].cos())
        joined = (torch.cat([a, a], 1), torch.stack([a, a]), F.pad(e, (1, 2, 3, 4)), e.permute(1, 2, 0) + 1)
        normal = (torch.softmax(e, 0), torch.softmax(e, 2), F.layer_norm(a, a.shape[1:]), e.logsumexp(1), e.cumsum(1))
        return *pointwise, *mixed, *reduced, *shaped, *joined, *normal

    check(
        function,
        randn(size, size + 2).t(),
        randn(2 * size, 5 * size)[::2, 1::3],
        randn(size, 1).expand(size, size + 2),
        randn(10 * size)[3:],
        randn(5, size, 4).permute(2, 0, 1),
    )


def test_channels_last() -> None:
    def function(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        z = F.conv2d(x, weight, bias, padding=1)
        pointwise = (F.relu(z), z + 1, x + y, y + x, F.gelu(z), x.clamp(0, 1), x.to(torch.bfloat16))
        pooled = (F.max_pool2d(x, 2), F.avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, 1), F.interpolate(x, scale_factor=2))
        normal = (F.batch_norm(x, None, None, training=True), F.group_norm(x, 3), F.instance_norm(x), x.softmax(1))
        shaped = (torch.cat([x, x], 1), torch.cat([x, y], 1), x.permute(0, 2, 3, 1), F.pad(x, (1, 1)), x.flatten(1))
        copied = (x.contiguous(), y.contiguous(memory_format=torch.channels_last), x[:, :2], F.conv2d(y, weight))
        return z, *pointwise, *pooled, *normal, *shaped, *copied, x.mean((2, 3)), x.sum(1)

    x, y = randn(2, 3, 4, 5).to(memory_format=torch.channels_last), randn(2, 3, 4, 5)
    check(function, x, y, randn(4, 3, 3, 3), randn(4))


def test_memory_that_is_not_aligned() -> None:
    def function(x: Tensor) -> Tensor:
        return x * 2 + 1

    compiled = compiled_of(function)
    for start in (0, 1, 3):
        bytes_of = bytearray(4 * 67 + 4)
        check_call(compiled, function, torch.frombuffer(bytes_of, dtype=torch.float32, offset=start, count=67))


def test_more_elements_than_32_bits_count() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        return x[2**31 + 2 :] + 1, x[:: 2**20].sum()

    x = torch.ones(1, dtype=torch.int8).expand(2**31 + 7)
    for actual, expected in zip(compiled_of(function)(x), function(x), strict=True):
        assert torch.equal(actual, expected)


# -- dtypes and numbers ------------------------------------------------------------------------------------------------

DTYPES = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
)  # fmt: skip


def _sample(dtype: torch.dtype) -> Tensor:
    values = torch.randint(-5 if dtype.is_signed else 0, 6, (21,))
    return values > 2 if dtype == torch.bool else values.to(dtype)


@pytest.mark.slow
def test_every_pair_of_dtypes() -> None:
    def function(*tensors: Tensor) -> list[Tensor]:
        return [
            result
            for number, a in enumerate(tensors)
            for b in tensors[number:]
            for result in (a + b, a < b, torch.where(a > 1, a, b))
        ]

    check(function, *map(_sample, DTYPES), truth=False)


@pytest.mark.parametrize(
    "dtype",
    [pytest.param(one, marks=[] if one in (torch.bfloat16, torch.int32) else pytest.mark.slow) for one in DTYPES],
    ids=str,
)
def test_dtype(dtype: torch.dtype) -> None:
    def function(a: Tensor) -> list[Tensor]:
        reduced = [a.sum(), a[:5].prod(), a.any(), a.all(), a.amax(), a.cumsum(0), a.float().mean()]
        pointwise = [a * 2, a + 1.5, a > 0, a == 1, a.exp(), a.sqrt(), a**2, a.logical_not(), a.masked_fill(a > 1, 0)]
        converted = [a.float(), a.int(), a.bool(), a.half(), a.bfloat16(), a.double(), a.to(torch.int8)]
        moved = [torch.cat([a, a]), a.flip(0), a[::2], a.clone(), a.view(7, 3).t().contiguous(), F.pad(a, (1, 2))]
        others: list[Tensor] = []
        if a.dtype != torch.bool:
            others += [a.abs(), a.argmax(), a.max(0).indices, a.clamp(0, 2), a - 1]
        if a.is_floating_point():
            others += [F.softmax(a, 0), F.layer_norm(a, (21,)), a.mean(), a.var(), F.gelu(a), a.norm(), a.logsumexp(0)]
        elif a.dtype != torch.bool:
            others += [a << 1, a >> 1, a & 3, a | 4, a ^ 5, ~a, -a, a // 2, a % 3, 7 // (a.abs() + 1)]
        return reduced + pointwise + converted + moved + others

    check(function, _sample(dtype))


def test_type_promotion() -> None:
    def function(
        f: Tensor, h: Tensor, b: Tensor, d: Tensor, i: Tensor, u: Tensor, z: Tensor, n: Tensor
    ) -> list[Tensor]:
        tensors = [f + h, h + b, h + d, f + i, h + i, b + i, u + i, u + n, h + z.double(), i + z, i + n, n * n, z + n]
        numbers = [u + 1, u + 1.0, h + 1, h * 1e6, b / 3, i / 2, u / 2, n / 2, i * True, u < 300, u == -1, i < 2.5]
        chosen = [torch.where(f > 0, h, 1.0), torch.where(f > 0, i, 1.5), torch.where(f > 0, 1, 2), torch.cat([i, f])]
        powers = [
            torch.pow(i, 2.0),
            torch.pow(2, f),
            torch.pow(2, i),
            f**i,
            torch.clamp(i, 0.5, 1.5),
            torch.lerp(f, f, z),
        ]
        return tensors + numbers + chosen + powers + [h.sum(dtype=torch.float32), F.softmax(h, 0, dtype=torch.float32)]

    i = torch.arange(3)
    f = randn(3)
    check(
        function,
        f,
        f.half(),
        f.bfloat16(),
        f.double(),
        i,
        i.to(torch.uint8),
        torch.tensor(2.0),
        torch.tensor(3),
        truth=False,
    )


def test_default_dtype() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        check(
            lambda i, x: (i + 1.5, i / 2, torch.ones(3), i > 0.5, i.exp(), x.float() + 0.1), torch.arange(4), randn(3)
        )
    finally:
        torch.set_default_dtype(torch.float32)


def test_integer_division_and_remainder() -> None:
    def function(a: Tensor, b: Tensor, f: Tensor) -> tuple[Tensor, ...]:
        tensors = (a // b, a % b, torch.fmod(a, b), a / b, torch.div(a, b, rounding_mode="trunc"), f // b, f % b)
        numbers = (a // 3, a % -3, a // -1, 100 // b, 7 % b, -7 % b, a // 2.5, a % 2.5, 2.5 % f, 2.5 // f, 3 / f)
        return *tensors, *numbers, f // 0.0, f % 0.0, f / 0, torch.div(f, 0.3, rounding_mode="trunc"), f % -2.5

    check(
        function,
        torch.tensor([-7, 7, -8, 0, 5]),
        torch.tensor([2, -2, 3, -3, -5]),
        torch.tensor([-7.0, 7.0, -8.0, 0.0, 5.0]),
    )


def test_integers_wrap() -> None:
    def function(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> tuple[Tensor, ...]:
        wrapped = (a + 1, a * 2, -a, a.abs(), b + 1, b * 2, -b, b - 1, c + 1, -c, c.abs(), d + 1, d * 3, a**2, c**3)
        sums = (a.sum(), b.sum(), c.prod(), b.sum(dtype=torch.uint8))
        narrowed = (b.to(torch.int8), a.to(torch.int8), d.to(torch.int32), c.to(torch.uint8), d.double())
        return (
            *wrapped,
            *sums,
            *narrowed,
            b > c,
            a > d,
            a >> 1,
            c >> 1,
            d // 7,
            d % 7,
            a // -7,
            a.clamp(-3, 3),
            a.sign(),
        )

    check(
        function,
        torch.tensor([2**31 - 1, -(2**31), 5, -7, 0], dtype=torch.int32),
        torch.tensor([255, 0, 128, 1, 7], dtype=torch.uint8),
        torch.tensor([127, -128, 0, 1, -1], dtype=torch.int8),
        torch.tensor([2**63 - 1, -(2**63), 3, -3, 0]),
    )


SPECIAL = [math.inf, -math.inf, math.nan, -0.0, 0.0, 1, -1, 3e38, 1e-45, -1e-40, 88.8, -104.0]


@pytest.mark.slow
def test_infinities_and_nan() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        binary = (
            x + y,
            x * y,
            x / y,
            torch.maximum(x, y),
            torch.fmin(x, y),
            x > y,
            x != y,
            x**y,
            torch.atan2(x, y),
            x % y,
        )
        more = (
            x // y,
            torch.fmod(x, y),
            torch.hypot(x, y),
            torch.logaddexp(x, y),
            torch.copysign(x, y),
            torch.xlogy(x, y),
        )
        unary = (x.exp(), x.log(), x.sqrt(), x.rsqrt(), x.sigmoid(), x.tanh(), x.erf(), x.log1p(), x.expm1(), x.sign())
        rounded = (
            x.floor(),
            x.round(),
            x.trunc(),
            x.frac(),
            x.bool(),
            x.isnan(),
            x.isinf(),
            x.signbit(),
            x.nan_to_num(),
        )
        powers = (x.pow(2), x.pow(0.5), x.pow(-1), 2**x, x.reciprocal(), x.cosh(), x.sinh(), x.sin(), x.atan())
        gelu = F.gelu(x.clamp(max=1e30))  # eager's own gelu(inf) depends on the machine
        active = (F.relu(x), gelu, F.silu(x), F.softplus(x), F.elu(x), F.hardtanh(x), F.leaky_relu(x), F.mish(x))
        reduced = (
            x.max(),
            x.min(),
            x.argmax(),
            x.argmin(),
            x.sum(),
            x.prod(),
            x.any(),
            x.logsumexp(0),
            x.norm(),
            x.std(),
        )
        return *binary, *more, *unary, *rounded, *powers, *active, *reduced

    x = torch.tensor(SPECIAL)
    check(function, x, x.roll(5))


def test_gelu_of_infinity() -> None:
    x = torch.tensor([math.inf] * 40)
    assert torch.equal(compiled_of(F.gelu)(x), x)


def test_signs_of_zero() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return (
            -x,
            x * y,
            x / 3,
            x + x,
            x - y,
            x.abs().sqrt(),
            x.round(),
            x.ceil(),
            x.trunc(),
            x.sin(),
            x.tanh(),
            x.float() * 1,
        )

    x, y = torch.tensor([0.0, -0.0, -0.3, 0.3]), torch.tensor([-0.0, -2.0, 0.0, 0.0])
    for actual, expected in zip(compiled_of(function)(x, y), function(x, y), strict=True):
        assert torch.equal(torch.signbit(actual), torch.signbit(expected))


def test_reductions_over_rows_of_infinities_and_ties() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[object, ...]:
        softmaxes = (x.softmax(-1), x.log_softmax(-1), x.softmax(0), x.logsumexp(-1), x.nan_to_num().softmax(1))
        extremes = (x.amax(-1), x.max(-1), x.min(-1), x.argmax(-1), x.argmin(0), y.argmax(1), y.argmax(0), y.max(0))
        return *softmaxes, *extremes, x.sum(-1), x.var(-1), torch.nansum(x, 1), x.isnan().any(1)

    x = randn(20, 40)
    x[3] = -math.inf
    x[4, :39] = -math.inf
    x[5, 2] = math.inf
    x[6, 0] = math.nan
    x[7] = math.nan
    check(function, x, torch.randint(0, 3, (33, 70)))


@pytest.mark.slow
def test_large_tensors_in_parallel() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        reduced = (x.sum(), x.sum(0), x.sum(1), x.mean(), x.max(), x.std(), x.amax(0), x.argmax(1), x.argmax(0))
        counts = ((x > 0).sum(0), x.any(), x.all(0))
        return *reduced, *counts, x.softmax(1), x.softmax(0), x.t() + 1, x.t().reshape(-1), F.layer_norm(x, (300,))

    x = randn(200, 300)
    compiled = compiled_of(function)
    threads = torch.get_num_threads()
    try:
        for number in (2, 1, 5):
            torch.set_num_threads(number)
            for actual, expected in zip(compiled(x), function(x), strict=True):
                torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-3)
    finally:
        torch.set_num_threads(threads)
    assert_close_to_float64(compiled, function, [x])


def test_complex_numbers_run_in_eager() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        products = (x * y, x.conj() * x, x @ x.mH, x + 1j, torch.cat([x, x]), x.sum(0), torch.where(y > 0, x, 0))
        parts = (x.abs() * 2, x.real, x.imag + 1, torch.view_as_real(x) * 2, x.angle(), torch.complex(y, y), x == x)
        return *products, *parts, torch.fft.irfft(torch.fft.rfft(y)) + 1, torch.fft.fft(y).abs()

    check(function, randn(5, 5, dtype=torch.complex64), randn(5), truth=False)


def test_dtypes_without_arithmetic() -> None:
    def function(eight: Tensor, sixteen: Tensor) -> tuple[Tensor, ...]:
        small = (eight.float() + 1, eight.to(torch.bfloat16), (eight.float() * 2).to(torch.float8_e4m3fn).float())
        return *small, sixteen.to(torch.int64) + 1, sixteen.float(), sixteen == sixteen

    check(function, randn(4).to(torch.float8_e4m3fn), torch.tensor([1, 2], dtype=torch.uint16), truth=False)


# -- indexing, sorting, random numbers ---------------------------------------------------------------------------------


def test_indexing_and_its_fallbacks() -> None:
    def function(x: Tensor, i: Tensor, j: Tensor, mask: Tensor, k: Tensor, s: Tensor) -> tuple:
        read = (
            x[i],
            x[:, j],
            x[i[:2], j[0]],
            x.gather(0, k),
            x.index_select(1, i.abs()),
            x.take(i.abs()),
            x[-1],
            x[i, -2],
        )
        scattered = (x.scatter(0, k, s), x.scatter_add(0, k, s), x.scatter_reduce(0, k, s, "amax"))
        written = (
            x.index_put((i,), s[:1], accumulate=True),
            x.index_add(0, i.abs(), s[[0, 1, 2, 0]]),
            x.select_scatter(x[0], 0, 1),
        )
        sorted_ = (x.sort(1), x.topk(2, dim=1), x.argsort(0), x.kthvalue(2), x.median(1), x.cumsum(0), x.cumprod(1))
        masked = (torch.where(mask[:, None], x, 0), x.masked_fill(mask[:, None], -math.inf), x.tril(), x.triu(1))
        moved = (x.roll(2, 1), x.flip(0, 1), x.unfold(1, 3, 2), x.repeat(2, 3), x.unbind(0), x.split(2), x.chunk(4, 1))
        others = (F.one_hot(i.abs(), 6), torch.cdist(x, x), torch.einsum("ij,kj->ik", x, x), torch.linalg.norm(x))
        return *read, *scattered, *written, *sorted_, *masked, *moved, *others

    check(
        function,
        randn(5, 6),
        torch.tensor([0, 2, -1, 4]),
        torch.tensor([[0, 1], [2, -3]]),
        torch.tensor([True, False, True, True, False]),
        torch.randint(0, 5, (3, 6)),
        randn(3, 6),
        truth=False,
    )


@pytest.mark.parametrize("requires_grad", [False, True])
def test_random_numbers_are_those_of_eager(requires_grad: bool) -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        dropped = (
            F.dropout(x, 0.3),
            F.dropout(x * 2, 0.5),
            F.dropout2d(x[None, None], 0.5),
            F.alpha_dropout(x, 0.2, True),
        )
        drawn = (
            torch.rand_like(x),
            torch.randn(3),
            torch.randint(0, 5, (3,)),
            torch.bernoulli(torch.full((3, 4), 0.3)),
        )
        more = (
            torch.randperm(5),
            torch.normal(0.0, 1.0, (3,)),
            torch.empty(3).uniform_(),
            torch.empty(3).exponential_(),
        )
        return *dropped, *drawn, *more, torch.multinomial(torch.ones(5), 2)

    check(function, randn(4, 6, requires_grad=requires_grad), seed=5, truth=False)


def test_steps_of_an_optimizer_stay_in_kernels() -> None:
    def step(weight: Tensor, gradient: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, ...]:
        first = first.lerp(gradient, 0.1)
        second = (second * 0.99).addcmul(gradient, gradient, value=0.01)
        return weight.addcdiv(first, second.sqrt() + 1e-8, value=-0.1), first, second

    before = len(records)
    check(step, randn(40, 30), randn(40, 30), randn(40, 30), randn(40, 30).abs())
    assert len(records) > before and all(not record.fallbacks for record in records[before:])


def test_dynamos_own_forms_of_products_and_sums_stay_in_kernels() -> None:
    """Dynamo writes these in terms of a primitive that multiplies and adds in one rounding."""

    def step(weight: Tensor, gradient: Tensor, second: Tensor) -> tuple[Tensor, ...]:
        weight.addcmul_(gradient, gradient, value=0.01)
        weight.addcdiv_(gradient, second, value=-0.1)
        return torch.add(weight, gradient, alpha=0.3), weight.add_(gradient, alpha=torch.tensor(0.5).item())

    before = len(records)
    check(step, randn(40, 30), randn(40, 30), randn(40, 30).abs() + 1, fullgraph=False)
    assert not any(name.startswith("prims") for record in records[before:] for name in record.fallbacks)
