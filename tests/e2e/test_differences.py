"""What docs/differences.md says of us and of eager: each row names its test, most of which are here.

Where eager is said to do something, it is asked, too: a row that is no longer true goes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import pytest
import torch
from torch import Tensor
from torch._higher_order_ops import while_loop
from torch._subclasses import FakeTensorMode
from torch.nn import functional as F

from cuesta.lowering.capture import rows_in_parts
from tests.support.differential import compiled_of

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "differences.md"
aten = torch.ops.aten
deterministic: Any = torch.utils.deterministic
inf, nan = math.inf, math.nan


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def ours(function: Callable[..., Any], *inputs: Tensor) -> Any:
    return compiled_of(function)(*inputs)


def test_every_row_names_a_test() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if re.match(r"\| (?!-|what)", line)]
    assert len(rows) > 10
    here = set(re.findall(r"^def (test_\w+)", Path(__file__).read_text(encoding="utf-8"), re.MULTILINE))
    named: set[str] = set()
    for row in rows:
        file, name = re.findall(r"`(tests/(?:e2e|fuzz|targets/triton)/\w+\.py)`, `(test_\w+)`", row)[-1]
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), row
        named |= {name} if file.endswith("test_differences.py") else set()
    assert here - named == {"test_every_row_names_a_test"}


# -- roundings ---------------------------------------------------------------------------------------------------------


def test_half_precision_is_rounded_once() -> None:
    x = torch.full((64,), 60000.0, dtype=torch.float16)

    def function(x: Tensor) -> Tensor:
        return x * 2 / 2

    assert function(x).isinf().all()
    assert torch.equal(ours(function, x), x)


def test_the_derivative_of_a_sigmoid_in_f16() -> None:
    gradient, y = torch.full((2, 64), 65504.0, dtype=torch.float16)
    y = torch.full_like(y, -0.3)
    assert aten.sigmoid_backward(gradient, y).isinf().all()
    truth = aten.sigmoid_backward(gradient.double(), y.double()).half()
    assert torch.equal(ours(aten.sigmoid_backward, gradient, y), truth)


def test_zeros_in_the_greater_and_the_lesser_of_bf16() -> None:
    x, y = torch.tensor([[0.0, -0.0], [-0.0, 0.0]], dtype=torch.bfloat16).repeat(1, 32)
    for function in (torch.fmax, torch.fmin):
        result = ours(function, x, y)
        assert torch.equal(result.signbit(), x.signbit())
        assert torch.equal(result, function(x, y))  # −0 = 0


def test_a_product_that_is_added_is_computed_in_the_order_of_the_cpu() -> None:
    """(value · y) · z; value · (y · z), which is in eager's source for CUDA, would overflow."""
    x = torch.full((64,), 2e19)
    expected = torch.addcmul(x, x, x, value=0.5)
    assert expected.isfinite().all()
    assert torch.equal(ours(lambda x: torch.addcmul(x, x, x, value=0.5), x), expected)
    x = torch.full((64,), 2e38)
    assert torch.equal(ours(lambda x: torch.rsub(x, x, alpha=2), x), torch.rsub(x, x, alpha=2))


# -- eager has two kernels, and we are one of them ---------------------------------------------------------------------

BETWEEN: dict[str, tuple[Callable[[Tensor], Tensor], float]] = {
    "hardtanh_backward": (lambda x: aten.hardtanh_backward(torch.ones_like(x), x, -1.0, 1.0), nan),
    "hardswish_backward": (lambda x: aten.hardswish_backward(torch.ones_like(x), x), nan),
    "elu_backward": (lambda x: aten.elu_backward(torch.ones_like(x), 1.0, 1.0, 1.0, False, x), nan),
    "gelu": (F.gelu, inf),
    "fmod": (lambda x: torch.fmod(x, 0.5), 3e38),
    "remainder": (lambda x: torch.remainder(x, 0.5), 3e38),
}


WIDE = pytest.mark.skipif(torch.backends.cpu.get_cpu_capability() != "AVX512", reason="of vectors of AVX-512 only")


@pytest.mark.parametrize("name", [pytest.param(name, marks=WIDE if name == "gelu" else ()) for name in BETWEEN])
def test_where_eager_differs_from_itself(name: str) -> None:
    """By itself an element goes through the kernel that is not for vectors."""
    function, number = BETWEEN[name]
    of_vectors, alone = function(torch.full((64,), number)), function(torch.full((1,), number))
    assert not torch.allclose(of_vectors, alone.expand(64), equal_nan=True)
    result = ours(function, torch.full((64,), number))
    torch.testing.assert_close(result, alone.expand(64), rtol=0, atol=0, equal_nan=True)


# -- functions ---------------------------------------------------------------------------------------------------------


def test_roots_as_powers_in_f16() -> None:
    x = torch.tensor([-inf, -0.0] * 32, dtype=torch.float16)
    assert x.pow(0.5)[:2].tolist() == [inf, 0.0]
    result = ours(lambda x: x.pow(0.5), x)
    torch.testing.assert_close(result, x.sqrt(), equal_nan=True, rtol=0, atol=0)
    torch.testing.assert_close(result, x.bfloat16().pow(0.5).half(), equal_nan=True, rtol=0, atol=0)


CLOSER: dict[str, tuple[Callable[[Tensor], Tensor], torch.dtype, float, float]] = {
    "gelu far below 0": (lambda x: F.gelu(x, approximate="tanh"), torch.float64, -7.0, -2.315442262072538e-15),
    "the derivative of gelu": (
        lambda x: aten.gelu_backward(torch.full_like(x, 3e38), x, approximate="tanh"),
        torch.float32,
        -7.0,
        -8.2956e24,
    ),
    "the derivative of hardsigmoid": (
        lambda x: aten.hardsigmoid_backward(torch.ones_like(x), x),
        torch.float64,
        1.0,
        1 / 6,
    ),
    "polygamma": (lambda x: torch.polygamma(1, x), torch.float64, 1.5, math.pi**2 / 2 - 4),
    "erf of denormal numbers": (torch.erf, torch.bfloat16, 1e-38, 1e-38 * 2 / math.sqrt(math.pi)),
}


@pytest.mark.parametrize("name", CLOSER)
def test_functions_that_keep_more_digits(name: str) -> None:
    function, dtype, number, truth = CLOSER[name]
    x = torch.full((64,), number, dtype=dtype)
    eager, result = function(x)[0].item(), ours(function, x)[0].item()
    assert abs(result - truth) < 0.02 * abs(truth)
    assert abs(result - truth) < 0.2 * abs(eager - truth)


def test_functions_that_are_off_by_a_few_ulps() -> None:
    x = torch.tensor([0.5, 0.75, 1.5, 1.25] * 16, dtype=torch.float64)
    for function in (torch.digamma, torch.erfinv, lambda x: aten.mish_backward(torch.ones_like(x), x - 2)):
        inputs = x - 0.6 if function is torch.erfinv else x
        torch.testing.assert_close(ours(function, inputs), function(inputs), rtol=1e-14, atol=1e-15, equal_nan=True)


def test_logarithms_beside_one_of_denormal_numbers() -> None:
    least = torch.full((64,), 5e-324, dtype=torch.float64)
    assert (torch.log1p(least) == 0).all()  # eager's own kernel for it
    assert (torch.special.xlog1py(torch.full_like(least, 1e300), least) > 0).all()
    assert (ours(lambda x: torch.special.xlog1py(torch.full_like(x, 1e300), x), least) == 0).all()


def test_sums_of_complex_infinities() -> None:
    z, w = torch.tensor([1 + 2j, 3j] * 8), torch.tensor([complex(0, inf), complex(2, -inf)] * 8)

    def function(z: Tensor, w: Tensor) -> Tensor:
        return torch.view_as_real(z + w)

    assert function(z, w).isnan().any()
    expected = torch.tensor([[1, inf], [2, -inf]] * 8)
    assert torch.equal(ours(function, z, w), expected)


def test_zeros_of_complex_numbers_that_are_negated() -> None:
    def function(z: Tensor) -> Tensor:
        return torch.view_as_real(-z).signbit()

    z = torch.zeros(37, dtype=torch.complex64)
    eager = function(z)
    assert eager.any() and not eager.all(), "vectors subtract from 0, what is left over changes the sign"
    assert ours(function, z).all()


def test_squares_of_complex_numbers_that_overflow() -> None:
    z = torch.full((37,), complex(3e38, 3e38))

    def function(z: Tensor) -> Tensor:
        return torch.view_as_real(z.square())

    eager = function(z)[:, 0].isnan()
    assert eager.any() and not eager.all()
    assert ours(function, z)[:, 0].isnan().all()


def test_incomplete_gamma_where_eager_is_off() -> None:
    """Beside series of its own that end at nine digits; Q(a, x) of a denormal a is a E₁(x)."""
    a, x = (torch.tensor(one, dtype=torch.float64) for one in ([86.6, 1e-300], [61.47, 1.0]))
    truth = torch.tensor([0.00143858629539, 2.1938393439552e-301], dtype=torch.float64)
    assert abs(torch.igamma(a, x)[0] / ours(torch.igamma, a, x)[0] - 1) > 1e-10
    actual = torch.stack([ours(torch.igamma, a, x)[0], ours(torch.igammac, a, x)[1]])
    torch.testing.assert_close(actual, truth, rtol=1e-8, atol=0)
    assert torch.igammac(a, x)[1] > 7e-301
    assert torch.igamma(a.new_tensor([1e38]).float(), x[:1].float()).isnan().all()
    assert not ours(torch.igamma, a.new_tensor([1e38]).float(), x[:1].float()).any()


def test_zeta_where_eager_is_off() -> None:
    power, place = torch.tensor([2.0, inf, 33.0]).double(), torch.tensor([inf, 2.0, -1.5]).double()
    eager = torch.special.zeta(power, place)
    assert eager[:2].isnan().all() and eager[2] < 0
    # What is left of the sum is that from 2.5 on.
    expected = torch.tensor([0.0, 0.0, sum((k + 2.5) ** -33 for k in range(9))], dtype=torch.float64)
    torch.testing.assert_close(ours(torch.special.zeta, power, place), expected, rtol=1e-9, atol=0)
    # ζ(1 + ε, ε) is about 1/ε twice: of the first term, and of the power.
    power, place = (torch.tensor([one], dtype=torch.float64) for one in (1 + 2**-52, 2.0**-52))
    assert torch.special.zeta(power, place) < 5e15 and abs(ours(torch.special.zeta, power, place) - 2.0**53) < 64


def test_the_digits_of_zeta() -> None:
    cases = [(s, a) for s in (1.001, 1.5, 2.0, 2.5, 7.0, 30.0) for a in (1e-3, 0.1, 0.5, 1.5, 3.3, 10.0, 1e4)]
    power, place = torch.tensor(cases, dtype=torch.float64).unbind(1)
    with mpmath.workdps(40):
        found = [float(mpmath.zeta(mpmath.mpf(s), mpmath.mpf(a))) for s, a in cases]
        truth = torch.tensor(found, dtype=torch.float64)
    power32, place32 = torch.tensor(cases).unbind(1)
    exact = torch.special.zeta(power32.double(), place32.double())
    for actual, true, eps in (
        (ours(torch.special.zeta, power, place), truth, 2.0**-52),
        (ours(torch.special.zeta, power32, place32), exact, 2.0**-23),
    ):
        there = (true > 1e-30) & (true < 1e30)
        assert int(there.sum()) > 30 and bool(((actual - true).abs()[there] <= 3.5 * eps * true[there]).all())


def test_the_gradients_of_parts_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_in_parts, "LEAST_BYTES", 1 << 14)
    x, weight = torch.randn(128, 8, requires_grad=True), torch.randn(256, 8)

    def function(x: Tensor) -> Tensor:
        return torch.nn.functional.cross_entropy(x @ weight.t(), torch.zeros(128, dtype=torch.int64))

    def gradient(loss: Tensor) -> Tensor:
        return torch.autograd.grad(loss, x, torch.tensor(inf))[0]

    torch._dynamo.reset()
    assert gradient(function(x)).isnan().all()
    assert gradient(torch.compile(function, backend="cuesta")(x)).isinf().all()


def test_logarithms_beside_one_of_complex_infinities() -> None:
    z = torch.complex(torch.tensor([1e-30, 1e-30]), torch.tensor([math.inf, -math.inf]))
    compiled = torch.compile(lambda z: z.log1p(), backend="cuesta", fullgraph=True)(z)
    assert z.log1p().isnan().all() and z.log1p().real.isnan().all()
    assert torch.equal(compiled.real, z.log().real) and torch.equal(compiled.imag, z.log().imag)


def test_the_sigmoid_of_complex_infinities() -> None:
    z = torch.full((3,), complex(-inf, 1.0))
    assert torch.sigmoid(z).isnan().all() and ours(torch.sigmoid, z).eq(0).all()


def test_fake_quantization_of_numbers_beyond_all_levels() -> None:
    x, scale = torch.tensor([[1e30, -1e30, inf]]), torch.tensor([0.5])

    def function(x: Tensor, scale: Tensor) -> Tensor:
        return torch.fake_quantize_per_channel_affine(x, scale, torch.zeros(1, dtype=torch.int32), 0, -8, 7)

    assert function(x, scale).tolist() == [[-4.0, -4.0, -4.0]]
    assert ours(function, x, scale).tolist() == [[3.5, -4.0, 3.5]]


def test_quantization_of_what_is_no_number() -> None:
    import torch.ao.quantization.fx._decomposed  # defines the operators

    operators: Any = torch.ops.quantized_decomposed

    def quantize(x: Tensor) -> Tensor:
        scales, zeros = torch.ones(1, 1), torch.zeros(1, 1, dtype=torch.int64)
        return operators.quantize_per_channel_group(x, scales, zeros, -128, 127, torch.int8, 4)

    x = torch.tensor([[1.0, nan, 2.0, 3.0]])
    with pytest.raises(AssertionError):
        quantize(x)
    assert ours(quantize, x)[0, 2:].tolist() == [2, 3]


# -- reductions --------------------------------------------------------------------------------------------------------


def test_variances_at_the_ends_of_the_range() -> None:
    """In between they are eager's; beyond, squares in f32 overflow, or are 0."""
    x = torch.randn(1000)
    for function in (torch.std, lambda x: x.std(0), lambda x: torch.std_mean(x)[0]):
        for scale in (1e17, 1e-17):
            torch.testing.assert_close(ours(function, x * scale), function(x * scale))
        assert function(x * 1e19).isfinite()
        assert ours(function, x * 1e19).isinf()
        assert function(x * 1e-25) > 0
        assert ours(function, x * 1e-25) == 0


def test_means_of_infinities() -> None:
    x = torch.full((3,), inf)
    variance, mean = torch.var_mean(x)
    assert variance.isnan()
    assert mean.isnan()
    variance, mean = ours(torch.var_mean, x)
    assert variance.isnan()
    assert mean == inf == x.mean()


def test_norms_of_rows_that_are_one_number() -> None:
    """Off by what the mean's rounding is of the deviation; eager's running mean of equal numbers is the number."""
    for number in (0.1, 1e5 / 3):
        x = torch.full((1, 1), number).expand(3, 768)
        mean, deviation = x.double().mean(), torch.finfo(torch.float32).eps * number
        assert (F.layer_norm(x, (768,)) == 0).all()
        result = ours(lambda x: F.layer_norm(x, (768,)), x)
        bound = 2 * deviation / math.sqrt(deviation**2 + 1e-5)
        assert 0 < result.abs().max() <= bound, (mean, bound)


# -- arguments and settings --------------------------------------------------------------------------------------------


def test_indices_of_maxima_that_are_outside() -> None:
    gradient, x, indices = torch.ones(1, 1, 2, 2), torch.ones(1, 1, 4, 4), torch.tensor([[[[0, 1], [-1, 2]]]])

    def function(gradient: Tensor, x: Tensor, indices: Tensor) -> Tensor:
        return aten.max_pool2d_with_indices_backward(gradient, x, [2, 2], [2, 2], [0, 0], [1, 1], False, indices)

    assert function(gradient, x, indices).sum() == 3
    with pytest.raises(IndexError):
        ours(function, gradient, x, indices)


def test_the_order_of_what_an_index_finds() -> None:
    table, index = torch.randn(17), torch.arange(15).view(5, 3).t()
    assert table[index].stride() == index.stride() == (1, 3)
    result = ours(lambda table, index: table[index], table, index)
    assert result.stride() == table.to("meta")[index.to("meta")].stride() == (5, 1)
    assert torch.equal(result, table[index])


def test_the_order_of_complex_angles() -> None:
    z = torch.randn(9, 5, dtype=torch.complex64).t()
    assert z.angle().stride() == (9, 1)
    result = ours(torch.angle, z)
    assert result.stride() == z.to("meta").angle().stride() == (1, 5)
    torch.testing.assert_close(result, z.angle())


def test_the_order_of_arithmetic_with_an_expanded_half() -> None:
    def function(y: Tensor) -> Tensor:
        return torch.func.grad(lambda x: (x * x).sum())(y)

    y = torch.randn(5, 9).t()
    assert function(y.half()).stride() == function(y).stride() == ours(function, y).stride() == (1, 9)
    result = ours(function, y.half())
    one = torch.ones((), dtype=torch.float16, device="meta").expand(9, 5)
    assert result.stride() == (one * y.half().to("meta")).stride() == (5, 1)
    assert torch.equal(result, function(y.half()))


def test_the_order_of_arithmetic_on_operands_of_several_sizes() -> None:
    def function(x: Tensor) -> Tensor:
        return x + x.unfold(0, 1, 3)

    x = torch.randn(3, 3).t()
    result = ours(function, x)
    assert function(x).stride() == (1, 3, 1) and result.stride() == function(x.to("meta")).stride() == (3, 1, 3)
    assert torch.equal(result, function(x))


def test_the_stride_of_a_dim_of_one_element() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        return x.expand(1, 3), (x * 2).expand(1, 3)

    x = torch.tensor(2.0)
    expected, result = function(x), ours(function, x)
    assert [one.stride() for one in expected] == [(0, 0), (0, 0)]
    assert [one.stride() for one in result] == [(0, 0), (1, 0)]


def test_the_order_of_gradients_of_norms() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.linalg.vector_norm(x, dim=(0, 2))

    x = torch.randn(3, 2, 4, 5).contiguous(memory_format=torch.channels_last).requires_grad_()
    calls = (function, torch.compile(function, backend="aot_eager"), compiled_of(function))
    expected, captured, result = (torch.autograd.grad(call(x), x, torch.ones(2, 5))[0] for call in calls)
    assert expected.stride() == (40, 5, 10, 1) and result.stride() == captured.stride() == (40, 20, 5, 1)
    torch.testing.assert_close(result, expected)
    compiled_of(function)(x).sum().backward()
    assert x.grad is not None and x.grad.stride() == x.stride()


def test_the_order_of_arithmetic_on_a_dim_of_one_element() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        scaled = x.diagonal(0, 0, 1) * 2
        return scaled, scaled != x

    x = torch.randn(3, 1, 3, 1)
    scaled, compared = function(x)
    results = ours(function, x)
    assert scaled.stride() == (1, 1, 3) and compared.stride() == (9, 1, 3, 9)
    said = function(x.to("meta"))
    assert [one.stride() for one in results] == [one.stride() for one in said] == [(1, 1, 1), (9, 3, 1, 1)]
    assert torch.equal(results[0], scaled) and torch.equal(results[1], compared)


def test_a_result_with_the_negative_bit_lies_alone() -> None:
    def function(z: Tensor) -> Tensor:
        return (z * 2).conj().imag

    z = torch.randn(5, dtype=torch.complex64)
    result = ours(function, z)
    assert function(z).stride() == (2,) and result.stride() == (1,) and result.is_neg()
    assert torch.equal(result, function(z))


def test_a_gradient_beside_one_that_needs_what_was_overwritten() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        v = y.roll(1, -1)
        return x * y, v, v.sin()

    for one in (function, compiled_of(function), torch.compile(function, backend="aot_eager")):
        torch._dynamo.reset()
        x, y = torch.randn(3), torch.randn(3, requires_grad=True)
        product, v, sine = one(x, y)
        v.add_(1)
        with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
            torch.autograd.grad(sine.sum(), y, retain_graph=True)
        if one is function:
            assert torch.equal(torch.autograd.grad(product.sum(), y)[0], x)
            continue
        with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
            torch.autograd.grad(product.sum(), y)


def test_a_hook_that_eager_refuses() -> None:
    def function(x: Tensor) -> Tensor:
        y = x * 2
        y.register_hook(lambda gradient: gradient * 2)
        return y

    found: list[bool] = []
    for one in (function, compiled_of(function), torch.compile(function, backend="eager")):
        torch._dynamo.reset()
        try:
            found.append(torch.equal(one(torch.ones(3)), torch.full((3,), 2.0)))
        except RuntimeError as error:
            assert "doesn't require gradient" in str(error)
            found.append(False)
    refused = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 13)
    assert not found[0] and found[1] == found[2] and (not found[1] or not refused)


@pytest.mark.filterwarnings("ignore:cuesta leaves a function to Python")
def test_an_update_that_capture_rewrites_is_refused_in_one_graph() -> None:
    half: Any = torch.tensor(0.5)

    def function(x: Tensor) -> Tensor:
        return x.addcmul_(x, x, value=half)

    def windows() -> Tensor:
        return torch.ones(4).as_strided((3, 2), (1, 1))

    if torch.__version__ >= "2.12":
        with pytest.raises(RuntimeError, match="found no compiled frames"):
            compiled_of(function)(windows())
        torch._dynamo.reset()
    assert torch.equal(compiled_of(function, fullgraph=False)(windows()), function(windows()))
    torch._dynamo.reset()
    assert not torch.equal(torch.compile(function, backend="eager")(windows()), function(windows()))


def test_a_result_of_a_loop_and_the_same_detached() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        last = while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x))[1]
        return last, last.detach()

    for one in (compiled_of(function), torch.compile(function, backend="aot_eager", fullgraph=True)):
        torch._dynamo.reset()
        with pytest.raises(AssertionError, match="after application of ViewMeta sequence"):
            one(torch.ones(3, requires_grad=True) * 1)


def test_gradients_by_what_a_graph_has_computed() -> None:
    """Those of what it was made of are right."""
    gradients: list[Any] = []
    for call in ((function := lambda x: (x.mul_(2), x.sqrt())[1]), torch.compile(function, backend="cuesta")):
        base = torch.arange(1.0, 4.0).requires_grad_()
        x = base * 1
        result = call(x).sum()
        own = torch.autograd.grad(result, x, retain_graph=True, allow_unused=True)[0]
        gradients.append((own, torch.autograd.grad(result, base)[0]))
    assert gradients[0][0] is not None and gradients[1][0] is None
    torch.testing.assert_close(gradients[0][1], gradients[1][1])


def test_random_numbers_that_nothing_uses() -> None:
    def function(x: Tensor) -> Tensor:
        F.dropout(x, 0.5, training=True)
        return x + torch.rand(5)

    x, found = torch.zeros(5), []
    for one in (function, compiled_of(function), torch.compile(function, backend="aot_eager")):
        torch._dynamo.reset()
        torch.manual_seed(5)
        found.append([one(x), torch.rand(3)])
    torch.manual_seed(5)
    undrawn = [torch.rand(5), torch.rand(3)]
    assert not torch.equal(found[0][0], undrawn[0])
    assert not torch.equal(found[0][1], undrawn[1])
    for result in found[1:]:
        assert all(map(torch.equal, result, undrawn))


def test_a_view_of_what_is_computed_is_a_tensor_of_its_own() -> None:
    """A name for memory that nothing else has a name for. Where the base is returned, it is a view of it."""

    def function(x: Tensor) -> Tensor:
        return (x * 2)[1:]

    x = torch.ones(2, 4)
    assert function(x)._is_view() and not ours(function, x)._is_view()
    torch._dynamo.reset()
    base, view = ours(lambda x: ((y := x * 2), y[1:]), x)
    assert view._base is base
    torch._dynamo.reset()
    assert ours(lambda x: x[1:], x)._base is x


def test_filling_memory_is_decided_when_compiled() -> None:
    compiled = compiled_of(lambda: torch.empty(3))
    before = deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    try:
        assert compiled().isnan().all()
        deterministic.fill_uninitialized_memory = False
        assert compiled().isnan().all()
    finally:
        deterministic.fill_uninitialized_memory = before
        torch.use_deterministic_algorithms(False)


def test_the_order_of_the_gradient_of_a_batch_norm() -> None:
    """What PyTorch's metadata function says of a GPU; eager's kernel there gave (48, 8, 2, 1) (H100, torch 2.11)."""
    with FakeTensorMode():
        x = torch.empty_strided((16, 6, 4, 2), (48, 1, 12, 6), device="cuda")
        each = torch.empty(6, device="cuda")
        backward = torch.ops.aten.native_batch_norm_backward.default
        gradient = backward(torch.empty_like(x), x, each, None, None, each, each, True, 1e-5, [True] * 3)[0]
        assert gradient.stride() == x.stride()
