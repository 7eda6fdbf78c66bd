"""Complex tensors: pairs of real ones inside of a program, complex outside. Everything beside eager, with gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import cuesta
from tests.support.differential import check, check_call, compiled_of

ONLY_NAMES = {"aten.view.default"}
"""What eager is called for: other names for memory."""
EDGES = [0.0, -0.0, 1.0, -2.5, 1e30, math.inf, -math.inf, math.nan, 1e-30]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    cuesta.clear_records()


def numbers(*sizes: int, dtype: torch.dtype = torch.complex64) -> Tensor:
    return torch.randn(sizes, dtype=dtype)


def rope(x: Tensor, frequencies: Tensor) -> Tensor:
    """As in Llama's own code."""
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * frequencies[None, :, None]).flatten(3).type_as(x)


def rope_before_attention(x: Tensor, frequencies: Tensor) -> Tensor:
    return rope(x, frequencies).transpose(1, 2) * 0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("function", [rope, rope_before_attention])
def test_rotary_embedding_is_one_kernel(function: Callable[..., Tensor], dtype: torch.dtype) -> None:
    frequencies = torch.polar(torch.ones(6, 8), torch.randn(6, 8))
    check(function, torch.randn(2, 6, 3, 16).to(dtype), frequencies)
    assert cuesta.records
    for record in cuesta.records:
        assert record.kernels == 1 and set(record.fallbacks) <= ONLY_NAMES


@pytest.mark.slow
def test_rotary_embedding_trains() -> None:
    frequencies = torch.polar(torch.ones(5, 7), torch.randn(5, 7))
    x = torch.randn(2, 5, 3, 14, requires_grad=True)
    check(rope, x, frequencies.requires_grad_())
    check(rope, torch.randn(2, 3, 5, 14).transpose(1, 2).requires_grad_(), frequencies)


@pytest.mark.slow
def test_rotary_embedding_of_many_lengths() -> None:
    compiled = compiled_of(rope, dynamic=True)
    for length in (5, 9, 1, 17):
        frequencies = torch.polar(torch.ones(length, 8), torch.randn(length, 8))
        x = torch.randn(2, length, 3, 16)
        torch.testing.assert_close(compiled(x, frequencies), rope(x, frequencies))
    check(lambda x: (torch.view_as_complex(x) * 1j).abs(), torch.randn(0, 5, 2))


FORMULAS: list[Callable[[Tensor, Tensor], Any]] = [
    lambda z, w: z * w,
    lambda z, w: z / w,
    lambda z, w: (z.abs(), z.angle(), z.sgn()),
    lambda z, w: (z + w * 2, 3 - z, z - w, torch.sub(z, w, alpha=2.5)),
    lambda z, w: (z.exp(), z.reciprocal(), z.square(), -z),
    lambda z, w: (z == w, z != w, z * 2j, z * w.real, z / 2),
    lambda z, w: (z.conj() * w, z.conj().imag + 1, z.real * w.imag),
    lambda z, w: (torch.where(w.real > 0, z, w), z.masked_fill(w.real > 0, 1j)),
    lambda z, w: (torch.polar(z.real, w.real), torch.complex(z.real, w.imag)),
    lambda z, w: (z.log(), z.log2(), w.log10()),
    lambda z, w: (z.sinh(), z.cosh(), z.sin(), z.cos()),
    lambda z, w: (z.tanh(), z.tan()),
    lambda z, w: (z.sqrt(), z.rsqrt(), z**0.5, z**-2),
    lambda z, w: (z.isnan(), z.isinf(), z.isfinite(), z.real.sum()),
    lambda z, w: (torch.pow(1, z), z**0, z**1),
    lambda z, w: (torch.special.expm1(z), torch.expm1(w)),
    lambda z, w: (z**3, z.sigmoid(), torch.addcmul(z, w, z, value=2), torch.addcdiv(z, w, z + 2)),
]
"""The first three are those in which the range of the type matters; the others are run in the second type by
`make test-thorough`.
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "dtype"),
    [pytest.param(one, torch.complex64, id=f"complex64-{place}") for place, one in enumerate(FORMULAS)]
    + [
        pytest.param(one, torch.complex128, id=f"complex128-{place}", marks=pytest.mark.thorough if place > 2 else ())
        for place, one in enumerate(FORMULAS)
    ],
)
@pytest.mark.every(2)
def test_every_formula_at_the_edges(function: Callable[..., Any], dtype: torch.dtype) -> None:
    """Sums and squares are left out where eager multiplies by 1 + 0i, or does not round a product."""
    edges = torch.tensor(EDGES, dtype=torch.float64)
    z = torch.complex(edges[:, None].expand(9, 9), edges[None].expand(9, 9)).to(dtype).contiguous()
    w = z.reshape(-1)[torch.randperm(81)].reshape(9, 9)
    finite = numbers(9, 9, dtype=dtype), numbers(9, 9, dtype=dtype)
    check(function, *(one.requires_grad_() for one in finite), truth=False)
    compiled, sums = compiled_of(function), "alpha" in function.__code__.co_consts or 3 in function.__code__.co_consts
    for actual, expected in zip(_tree(compiled(z, w)), _tree(function(z, w)), strict=True):
        if not sums:
            actual = torch.where(_within_digits_of_the_modulus(actual, expected), expected, actual)
            torch.testing.assert_close(actual, expected, equal_nan=True, rtol=1e-5, atol=1e-40)
    assert set(list(cuesta.records)[-1].fallbacks) <= ONLY_NAMES


POWERS: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]]] = {
    "2.5": (lambda z, w: z**2.5, lambda z, w: z.log() * 2.5),
    "-1.3": (lambda z, w: z**-1.3, lambda z, w: z.log() * -1.3),
    "7": (lambda z, w: z**7, lambda z, w: z.log() * 7),
    "1 + 2i": (lambda z, w: z ** (1 + 2j), lambda z, w: z.log() * (1 + 2j)),
    "of a tensor": (lambda z, w: z**w, lambda z, w: z.log() * w),
    "of 2": (lambda z, w: 2.0**w, lambda z, w: w * math.log(2.0)),
    "of 1 - 2i": (lambda z, w: (1 - 2j) ** w, lambda z, w: w * torch.tensor(1 - 2j).log()),
}
"""Powers, and the exponents of e that they are: by so much as those are great, a last digit of them counts."""


@pytest.mark.parametrize("name", POWERS)
def test_powers_at_the_edges(name: str) -> None:
    power, exponent = POWERS[name]
    edges = torch.tensor(EDGES)
    z = torch.complex(edges[:, None].expand(9, 9), edges[None].expand(9, 9)).contiguous()
    w = z.reshape(-1)[torch.randperm(81)].reshape(9, 9)
    z, w = torch.cat([z, numbers(9, 9)]), torch.cat([w, numbers(9, 9)])
    actual, expected = compiled_of(power)(z, w), power(z, w)
    assert not set(list(cuesta.records)[-1].fallbacks) - ONLY_NAMES
    wide = z.to(torch.complex128), w.to(torch.complex128)
    allowed = 4 * torch.finfo(torch.float32).eps * (1 + exponent(*wide).abs())
    within = (actual - power(*wide)).abs() <= allowed * power(*wide).abs() + 1e-37
    alike = torch.view_as_real(actual) == torch.view_as_real(expected)
    alike |= torch.view_as_real(actual).isnan() & torch.view_as_real(expected).isnan()
    endless = power(*wide).abs() > 3.4e38  # its smaller part, too, is infinite, with the sign of a last digit
    assert (within | alike.all(-1) | (endless & actual.abs().isinf() & expected.abs().isinf())).all()


def test_exponentials_at_the_end_of_the_range() -> None:
    z = torch.complex(torch.linspace(87.0, 91.0, 90), torch.linspace(0.1, 3.0, 90))
    actual, expected = compiled_of(lambda z: z.exp())(z), torch.view_as_real(z.exp())
    assert expected[:, 0].isfinite().sum() > (z.real.exp().isfinite()).sum()
    torch.testing.assert_close(torch.view_as_real(actual), expected, rtol=1e-5, atol=0)


def test_a_power_by_a_size() -> None:
    compiled = compiled_of(lambda z: z ** z.shape[0] + z.shape[1] ** z, dynamic=True)
    for sizes in ((4, 3), (5, 2), (7, 4)):
        z = numbers(*sizes) * 0.5
        torch.testing.assert_close(compiled(z), z ** sizes[0] + sizes[1] ** z, rtol=2e-5, atol=2e-5)


def test_silu_has_no_gradient() -> None:
    check(lambda z: torch.nn.functional.silu(z * 2), numbers(9, 9))
    assert not set(list(cuesta.records)[-1].fallbacks) - ONLY_NAMES


def test_variances_are_those_of_the_parts() -> None:
    check(lambda z: (z.var(1), z.std(), torch.var_mean(z, 0, correction=0)), numbers(6, 7).requires_grad_())
    check(lambda z: (z.std(0, keepdim=True), torch.std_mean(z, 1)), numbers(6, 7).conj())
    assert not set(list(cuesta.records)[-1].fallbacks) - ONLY_NAMES


def test_logarithms_of_what_is_beside_one() -> None:
    z = torch.view_as_complex(torch.randn(2000, 2) * torch.logspace(-12, 3, 2000)[:, None])
    check(lambda z: z.log1p(), torch.cat([z, torch.tensor([0, -0.5, -1 + 1e-4j, -1e-4 + 1e-2j])]).requires_grad_())
    assert not set(list(cuesta.records)[-1].fallbacks) - ONLY_NAMES


def _within_digits_of_the_modulus(actual: Tensor, expected: Tensor) -> Tensor:
    """Where two parts of numbers, or real numbers, differ by a few of the last digits of the greater part: eager's
    z**-2 of 1e-30 + 1e-30j has a real part of 1.5e43 beside an imaginary one of 5e59, ours has none.
    """
    if not expected.is_floating_point() or expected.shape[-1:] != (2,):
        return torch.zeros_like(expected, dtype=torch.bool)
    greater = expected.abs().amax(-1, keepdim=True)
    return (actual - expected).abs() <= 4 * torch.finfo(expected.dtype).eps * greater


@pytest.mark.parametrize("dtype", (torch.complex64, torch.complex128))
def test_a_modulus_is_eagers_to_the_last_digit(dtype: torch.dtype) -> None:
    z = numbers(1001, 3, dtype=dtype)
    compiled = compiled_of(lambda z: (z.abs(), torch.hypot(z.real, z.imag)))
    for scale in (1.0, 1e19, 1e-19):
        modulus, of_parts = compiled(z * scale)
        assert torch.equal(modulus, (z * scale).abs()) and torch.equal(of_parts, modulus)


def test_functions_near_the_ends_of_the_range() -> None:
    """Nothing overflows, or loses its digits, before the result does."""

    def function(z: Tensor) -> tuple[Tensor, ...]:
        return z.log(), z.sinh(), z.cosh(), z.sin(), z.tan(), z.sqrt(), z.tanh(), z.sigmoid()

    ends = torch.tensor(
        [3e38 + 3e38j, 89.2 + 1.5j, -89.1 - 1.4j, 1.5 + 89.2j, 1e-42 + 1e-42j, -0.97 - 0.22j, 87 - 100j]
    )
    near = torch.polar(1 + torch.linspace(-1e-3, 1e-3, 50), torch.linspace(-3, 3, 50))
    z = torch.cat([ends.to(torch.complex64), near])
    for actual, truth in zip(compiled_of(function)(z), function(z.to(torch.complex128)), strict=True):
        torch.testing.assert_close(actual, truth.to(torch.complex64), rtol=1e-5, atol=1e-43)
    assert not list(cuesta.records)[-1].fallbacks


def _tree(results: Any) -> list[Tensor]:
    tensors = [results] if isinstance(results, Tensor) else list(results)
    return [torch.view_as_real(one.resolve_conj()) if one.is_complex() else one for one in tensors]


MOVES: list[Callable[[Tensor], Any]] = [
    lambda z: (z * 2).transpose(0, 1)[1:, ::2].reshape(-1) + 1,
    lambda z: torch.cat([z, z * 1j], 1).flip(0).roll(1, 1) * z[:1, :1],
    lambda z: torch.stack([z, z.conj()], -1).sum((0, 2)),
    lambda z: (z.mean(1), z.sum(), z.cumsum(0)),
    lambda z: z[torch.tensor([1, 0, 1])] * z.index_select(0, torch.tensor([2, 2, 0])),
    lambda z: torch.nn.functional.pad(z, (1, 2)) * 2,
    lambda z: (torch.zeros_like(z) + z, torch.ones_like(z) * z, torch.full_like(z, 2 - 1j) * z),
    lambda z: z.to(torch.complex128) * 2,
    lambda z: (z * 2).conj().transpose(0, 1),
    lambda z: torch.fft.fft(z * 2).mul(z).abs().square().sum(),
    lambda z: (z * 2) @ z.mH,
    lambda z: torch.view_as_real(z) * 3,
    lambda z: z.tril() + z.triu(),
    lambda z: torch.linalg.vector_norm(z * 2, dim=1),
    lambda z: (z, z.T, z * 1),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "layout"),
    [
        pytest.param(
            one,
            layout,
            id=f"{layout}-{place}",
            marks=pytest.mark.thorough if layout != "every second" and place % 3 else (),
        )
        for place, one in enumerate(MOVES)
        for layout in ("rows", "columns", "every second")
    ],
)
@pytest.mark.every(2)
def test_moving_and_adding_up(function: Callable[..., Any], layout: str) -> None:
    """The layout is that of pairs of numbers, whatever is done with them: two of three in one layout, and every third
    in all; all in all by `make test-thorough`.
    """
    z = {"rows": numbers(4, 6), "columns": numbers(6, 4).T, "every second": numbers(4, 12)[:, ::2]}[layout]
    z.requires_grad_()
    check_call(compiled_of(function), function, z, strides=False)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(), (1,), (0, 3), (17,), (3, 1, 33)])
def test_sizes(sizes: tuple[int, ...]) -> None:
    check(lambda z, w: (z * w + w).conj() * z.abs(), numbers(*sizes).requires_grad_(), numbers(*sizes).requires_grad_())


@pytest.mark.slow
def test_half_precision_beside_complex_numbers() -> None:
    check(lambda z, x: (z * x).real + x, numbers(5, 7), torch.randn(5, 7).bfloat16(), truth=False)
    check(lambda z: z * 2, numbers(5, 7).to(torch.complex32), truth=False)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32], ids=str)
def test_real_numbers_among_complex_ones(dtype: torch.dtype) -> None:
    """What is real has no imaginary part: it is not its own."""

    def function(x: Tensor, z: Tensor) -> tuple[Tensor, ...]:
        written = z.clone()
        written[:1] = x[:1]
        return torch.cat([x, z]), torch.cat([z, x]).conj() * 2, written, torch.cat([x[:1], z[:1]])

    check(function, torch.ones(3).to(dtype), numbers(3))


def test_inputs_that_are_written_to() -> None:
    def update(state: Tensor, decay: Tensor, x: Tensor) -> Tensor:
        state.mul_(decay).add_(x)
        return state.real.sum(1)

    check(update, numbers(3, 8), numbers(8), torch.randn(3, 8), truth=False)


@pytest.mark.slow
def test_inputs_with_the_conjugate_bit() -> None:
    z = numbers(5, 6)
    check(lambda z: torch.view_as_real(z.resolve_conj()) + z.imag[..., None], z.conj(), truth=False)
    check(lambda z: z * 2 + z.abs(), z.conj().T, truth=False)
    written = z.clone()
    compiled_of(lambda z: z.mul_(1j))(written.conj())
    torch.testing.assert_close(written, (z.conj() * 1j).conj().resolve_conj())
    tangents = numbers(5, 6).conj()
    for function in (lambda z: z * z, compiled_of(lambda z: z * z)):
        leaf = z.clone().requires_grad_()
        function(leaf).backward(tangents)
        torch.testing.assert_close(leaf.grad, tangents * (2 * z).conj())


def test_what_a_decomposition_of_pytorch_refuses_stays_a_call() -> None:
    nan, inf = float("nan"), float("inf")
    z = torch.tensor([complex(nan, 1), complex(1, -inf), complex(inf, nan)])
    torch._dynamo.reset()
    assert torch.equal(torch.compile(lambda z: z.nan_to_num() * 2, backend="cuesta")(z), z.nan_to_num() * 2)


def test_a_view_of_a_conjugate_whose_size_is_a_symbol() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda z: z.expand(2, *z.shape), backend="cuesta", dynamic=True)
    for size in (5, 4):
        z = numbers(size).conj()
        result = compiled(z)
        assert torch.equal(result, z.expand(2, size)) and result.data_ptr() == z.data_ptr()


@pytest.mark.parametrize(
    "function",
    [
        lambda z: z.conj().conj().imag,
        lambda z: z.conj().T.conj().real,
        lambda z: z.conj()[None, 1:].conj().squeeze(0).imag.unfold(0, 1, 1),
        lambda z: z.conj().detach().mT.conj()[..., 1:].imag,
    ],
)
def test_conjugates_of_conjugates_are_the_memory_itself(function: Callable[[Tensor], Tensor]) -> None:
    def both(z: Tensor) -> tuple[Tensor, Tensor]:
        return (own := -z), function(own)

    z = numbers(3, 4)
    own, view = compiled_of(both)(z)
    assert torch.equal(view, function(-z)) and view.stride() == function(-z).stride()
    own.zero_()
    assert not view.any()


@pytest.mark.slow
def test_state_space_kernel_of_many_exponentials() -> None:
    def kernel(rates: Tensor, weights: Tensor, steps: Tensor) -> Tensor:
        decays = torch.exp(torch.complex(-rates.exp(), rates)[..., None] * steps)
        return 2 * (torch.view_as_complex(weights)[..., None] * decays).sum(1).real

    check(kernel, torch.randn(3, 4, requires_grad=True), torch.randn(3, 4, 2, requires_grad=True), torch.arange(9.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_columns_that_are_stacked_are_one_kernel(dtype: torch.dtype) -> None:
    def interleaved(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
        turned = torch.stack([a * cosines - b * sines, a * sines + b * cosines], -1)
        return turned.flatten(-2).type_as(x).transpose(1, 2)

    check(interleaved, torch.randn(2, 6, 3, 34).to(dtype), torch.randn(17), torch.randn(17))
    assert list(cuesta.records)[-1].kernels == 1


def test_a_call_whose_parts_have_no_rule_stays_one() -> None:
    index = torch.tensor(0)
    check(lambda x: x.scatter_add(0, index, x * 2) + 1, numbers())


def _crosses(z: Tensor) -> Tensor:
    conjugate = (z * 2).conj()
    picked = torch.cond(z.real.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (z.real,))
    return torch.view_as_real(conjugate * picked)


def _crosses_in_backward(z: Tensor) -> Tensor:
    turned = torch.view_as_real(z * (1 - 2j)).flatten()
    return turned * torch.cond(turned.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (turned,))


@pytest.mark.parametrize("function", (_crosses, _crosses_in_backward))
def test_a_conjugate_may_be_of_another_piece(function: Callable[[Tensor], Tensor]) -> None:
    """What eager runs parts a program in pieces, which hand each other tensors that may have the bit."""
    torch._dynamo.reset()
    found: list[tuple[Tensor, ...]] = []
    for run in (function, torch.compile(function, backend="cuesta", fullgraph=True)):
        z = torch.randn(3, dtype=torch.complex64, generator=torch.Generator().manual_seed(0)).requires_grad_()
        result = run(z)
        found.append((result.detach(), *torch.autograd.grad(result.sum(), z)))
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize(
    "function",
    [
        lambda z: torch.view_as_real(z * 2).flatten(),
        lambda z: (z * 2).imag,
        lambda z: torch.view_as_real(torch.tensordot(z, z, 0)).flatten(),
        lambda z: torch.view_as_complex((z.real * 2).repeat(2).view(-1, 2)),
    ],
    ids=["pairs", "parts", "pairs of a product", "numbers out of pairs"],
)
def test_views_of_another_type_that_autograd_makes_anew(function: Callable[[Tensor], Tensor]) -> None:
    """Where a size is a symbol it makes them of the base that is returned, by what the result is a view of."""

    def both(x: Tensor) -> tuple[Tensor, Tensor]:
        first = function(torch.complex(x, x.cos()))
        return first, first.view_as(first)

    compiled = torch.compile(both, backend="cuesta", dynamic=True)
    for size in (6, 5):
        given, results = [torch.randn(size, requires_grad=True)], []
        given.append(given[0].detach().clone().requires_grad_())
        for run, x in zip((both, compiled), given, strict=True):
            first, second = run(x)
            assert first.data_ptr() == second.data_ptr()
            results.append([first, second, *torch.autograd.grad([first, second], x, [first.detach()] * 2)])
        for one, other in zip(*results, strict=True):
            torch.testing.assert_close(other, one)
            assert other.stride() == one.stride()


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_the_first_call_of_an_operator_that_is_made_of_others(dtype: torch.dtype) -> None:
    """In the first call AOTAutograd looks on, and conjugates that `pinv` reads within PyTorch had no bit."""
    torch._dynamo.reset()
    compiled = torch.compile(torch.linalg.pinv, backend="cuesta", options={"cache": False})
    z = torch.randn(4, 4, dtype=dtype, generator=torch.Generator().manual_seed(3))
    for _ in range(2):
        torch.testing.assert_close(compiled(z), torch.linalg.pinv(z))
