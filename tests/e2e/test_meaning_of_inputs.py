"""Inputs whose memory is not what they mean: the negative and the conjugate bit, and numbers that Dynamo wraps."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.fuzz.calls.scope import Pair
from tests.support.differential import check, compiled_of

pytestmark = pytest.mark.slow
neg_view: Callable[[Tensor], Tensor] = torch.ops.aten._neg_view.default


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def complex_numbers(*sizes: int) -> Tensor:
    return torch.randn(*sizes, dtype=torch.complex64)


def negated(*sizes: int) -> Tensor:
    """Reals with the negative bit, every second element of their memory."""
    value = complex_numbers(*sizes).conj().imag
    assert value.is_neg()
    return value


# -- bits that a program makes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda z: z.conj().imag * 2 + 1,
        lambda z: neg_view(z.real) * 2 + 1,
        lambda z: (z.conj().imag + 0, z.conj().real, z.conj().imag),
        lambda z: neg_view(z).imag * 2,
        lambda z: torch.view_as_real(z.conj().resolve_conj()) * 2,
        lambda z: z.conj().imag[1:].view(-1, 2).sum(0),
        lambda z: torch.stack([z.conj().imag, z.imag]).T.reshape(-1) * 3,
        lambda z: (z.conj() * z).imag + z.conj().imag,
        lambda z: z.conj().imag.add_(1),
        lambda z: neg_view(z.real).mul_(2).sum(),
        lambda z: (neg_view(z.real).resolve_neg().mul_(2), z.real * 1),
        lambda z: (torch.resolve_neg(z.conj().imag)[None].add_(1), z.imag * 1),
    ],
)
def test_bits_of_values(function: Callable[[Tensor], Any]) -> None:
    z = complex_numbers(5)
    expected_z, actual_z = z.clone(), z.clone()
    expected, actual = function(expected_z), compiled_of(function)(actual_z)
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(actual_z, expected_z)


@pytest.mark.parametrize("dynamic", (None, True))
@pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager")
def test_results_with_the_negative_bit(dynamic: bool | None) -> None:
    def of_an_input(x: Tensor) -> tuple[Tensor, ...]:
        flat = x.view(x.size(0) * x.size(1))
        return neg_view(flat), flat == flat.abs(), neg_view(flat)[1:]

    def of_what_is_computed(x: Tensor) -> tuple[Tensor, ...]:
        sums = neg_view(x.cumsum(-1)).view(-1)
        return sums, sums.detach()

    x = torch.randn(4, 3, requires_grad=True)
    for function in (of_an_input, of_what_is_computed):
        torch._dynamo.reset()
        found = torch.compile(function, backend="cuesta", dynamic=dynamic)(x)
        for ours, theirs in zip(found, function(x), strict=True):
            assert torch.equal(ours, theirs) and ours.requires_grad == theirs.requires_grad
        ours, theirs = (torch.autograd.grad(each[0].sum(), x)[0] for each in (found, function(x)))
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("dynamic", (None, True))
@pytest.mark.parametrize("gradient", (False, True))
def test_computed_results_have_the_negative_bit(gradient: bool, dynamic: bool | None) -> None:
    """81014350: what is set to other memory afterwards, reads that with the bit."""

    def function(x: Tensor) -> tuple[Tensor, ...]:
        return x.sin(), neg_view(x * 2), torch.complex(x, x + 1).conj().imag

    torch._dynamo.reset()
    x = torch.arange(12.0).view(4, 3).requires_grad_(gradient)
    found = torch.compile(function, backend="cuesta", dynamic=dynamic, fullgraph=True)(x)
    for ours, theirs in zip(found, function(x), strict=True):
        torch.testing.assert_close(ours, theirs)
        assert ours.is_neg() == theirs.is_neg() and ours._is_view() == theirs._is_view()
    if gradient:
        ours, theirs = (torch.autograd.grad([one.sum() for one in each], x)[0] for each in (found, function(x)))
        torch.testing.assert_close(ours, theirs)
    else:
        given = torch.ones(3, 4)
        ours, theirs = (torch.Tensor.set_(each[1], given) for each in (found, function(x)))  # pyright: ignore[reportArgumentType]
        assert torch.equal(ours, theirs) and torch.equal(ours, -given)


@pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager. AOTAutograd cannot capture it")
def test_results_have_the_negative_bit_where_eager_runs_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuesta.lowering.capture.dynamo_graph.copy_what_is_resolved", lambda gm: 1 // 0)
    x = torch.arange(12.0)
    result = compiled_of(lambda x: neg_view(x * 2))(x)
    assert torch.equal(result, -2 * x) and result.is_neg()


@pytest.mark.parametrize("dynamic", (None, True))
@pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager")
def test_results_with_the_negative_bit_share_memory(dynamic: bool | None) -> None:
    def of_an_input(x: Tensor) -> tuple[Tensor, ...]:
        return neg_view(x)[1:], x * 2

    def of_one_memory(x: Tensor) -> tuple[Tensor, ...]:
        return (y := x * 2), neg_view(y)

    def of_a_part(x: Tensor) -> tuple[Tensor, ...]:  # whose own size is known, dynamic or not
        first, rest = neg_view(x.view(-1)).split([1, x.numel() - 1], 0)
        return first, rest + 1, x * 2

    def of_one_taken_back(x: Tensor) -> tuple[Tensor, ...]:
        y = x * 2
        return neg_view(neg_view(y).view(-1)[1:].unsqueeze(0)), y

    def of_one_written_before(x: Tensor) -> tuple[Tensor, ...]:  # once, and not again on the way back
        y = x * 2
        return neg_view(neg_view(y).view(-1).mul_(3).add_(1)), y + 1

    functions = (of_an_input, of_one_memory, of_a_part, of_one_taken_back, of_one_written_before)
    for function in functions:
        torch._dynamo.reset()
        results = [(x := torch.arange(12.0).view(4, 3)), *torch.compile(function, backend="cuesta", dynamic=dynamic)(x)]
        expected = [(x := torch.arange(12.0).view(4, 3)), *function(x)]
        for values in (results, expected):
            values[1].add_(5)
        assert all(torch.equal(ours, theirs) for ours, theirs in zip(results, expected, strict=True))


@pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager")
def test_parts_of_a_subclass_with_the_negative_bit_begin_where_eagers_do() -> None:
    x = Pair(torch.arange(6.0), torch.arange(6.0) + 10)
    functions: list[Callable[[Tensor], Any]] = [
        lambda x: neg_view(x.narrow(0, 4, 1)),
        lambda x: (x * 2, neg_view(x[2:]))[1],
    ]
    for function in functions:
        torch._dynamo.reset()
        found, expected = torch.compile(function, backend="cuesta")(x), function(x)
        for ours, theirs in ((found.a, expected.a), (found.b, expected.b)):
            assert torch.equal(ours, theirs) and ours.storage_offset() == theirs.storage_offset()


@pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager. .* is a tensor subclass of which a part has")
def test_parts_of_a_subclass_with_a_bit_are_read_as_eager_reads_them() -> None:
    """On the way, given, and given later to what was compiled for parts without one. AOTAutograd forgets the bit."""
    x = Pair(torch.randn(4), torch.randn(4))
    z = Pair(complex_numbers(4), complex_numbers(4) + 1)
    cases: list[tuple[Callable[[Tensor], Any], list[Tensor]]] = [
        (lambda x: neg_view(x) * 2, [x]),
        (lambda x: x * 2, [x, neg_view(x), x]),
        (lambda z: z.conj() * 2, [z]),
        (lambda z: torch.stack([part.conj() * 2 for part in z.split(2)]), [z]),
        (lambda z: z * 2, [z.conj(), z]),
        (lambda z: z.conj(), [z]),
    ]
    for function, given in cases:
        torch._dynamo.reset()
        compiled = torch.compile(function, backend="cuesta")
        for one in given:
            found, expected = compiled(one), function(one)
            assert torch.equal(found.a, expected.a) and torch.equal(found.b, expected.b)


@pytest.mark.parametrize("by_name", [False, True])
def test_what_has_a_bit_is_resolved_before_something_is_inserted(by_name: bool) -> None:
    """So the result is no part of a storage, and its strides and addresses are those of a tensor of its own."""

    def select(x: Tensor) -> tuple[Tensor, Tensor]:
        part = x.conj().imag
        given: dict[str, Any] = {"src": part[0] + 1, "dim": 0, "index": 0}
        found = torch.select_scatter(input=part, **given) if by_name else torch.select_scatter(part, **given)
        return found, found.as_strided((1,), (1,), 0)

    def cut(x: Tensor) -> tuple[Tensor, Tensor]:
        part = x[::2].conj()
        found = torch.slice_scatter(part, part[:1] + 1, 0, 0, 1)
        return found, found.as_strided((1,), (1,), 0)

    def diagonal(x: Tensor) -> tuple[Tensor, Tensor]:
        part = x.conj().imag.resolve_conj()
        return torch.diagonal_scatter(part, part.diagonal() + 1), part

    for function in (select, cut, diagonal):
        torch._dynamo.reset()
        x = complex_numbers(6).view(3, 2)
        for ours, theirs in zip(torch.compile(function, backend="cuesta")(x), function(x), strict=True):
            assert torch.equal(ours, theirs) and ours.stride() == theirs.stride()


@pytest.mark.parametrize("requires_grad", [False, True])
def test_what_is_negated_twice_is_a_view(requires_grad: bool) -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        part = (x * 2).flatten()[::2]
        twice = neg_view(neg_view(part))
        return twice, twice + part

    x = torch.randn(3, 4, requires_grad=requires_grad)
    for ours, theirs in zip(compiled_of(function)(x), function(x), strict=True):
        assert torch.equal(ours, theirs) and ours.stride() == theirs.stride() and not ours.is_neg()


def test_gradients_through_bits() -> None:
    z = complex_numbers(5).requires_grad_()
    check(lambda z: z.conj().imag.sin() * z.real, z, truth=False)


# -- inputs with bits --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 2 + 1,
        lambda x: x.add_(1),
        lambda x: x.fill_(3),
        lambda x: x.mul_(2) + x,
        lambda x: x[1:].mul_(2).sum(),
        lambda x: (x.view(-1), x.exp()),
        lambda x: x,
        lambda x: (x.softmax(0), x.copy_(x.flip(0))),
    ],
)
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.covering
def test_the_negative_bit_of_inputs(function: Callable[[Tensor], Any], requires_grad: bool) -> None:
    z = complex_numbers(5)
    expected_z, actual_z = (z.clone().requires_grad_(requires_grad) for _ in range(2))
    compiled = compiled_of(function)
    for _ in range(2):  # the second call writes to what the first one wrote
        expected, actual = (
            run((own * 1 if requires_grad else own).conj().imag)
            for run, own in ((function, expected_z), (compiled, actual_z))
        )
        torch.testing.assert_close(actual, expected)
        torch.testing.assert_close(actual_z, expected_z)
    if requires_grad:
        for one in (expected, actual):
            parts = one if isinstance(one, tuple) else (one,)
            torch.stack([part.sum() for part in parts]).sum().backward()
        torch.testing.assert_close(actual_z.grad, expected_z.grad)


@pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager. .*has the negative bit")
@pytest.mark.parametrize("dynamic", (None, True))
@pytest.mark.parametrize("make", [lambda: negated(6), lambda: complex_numbers(6).conj()], ids=["negative", "conjugate"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.expand(2, *x.shape),
        lambda x: x.expand(2, 3, *x.shape).mT,
        lambda x: (x[1:].expand(2, 5), x[::2] + 1),
        lambda x: (x.unfold(0, 3, 1), x.unsqueeze(0)),
    ],
)
@pytest.mark.covering
def test_results_whose_elements_lie_on_one_another(
    function: Callable[[Tensor], Any], make: Callable[[], Tensor], dynamic: bool | None
) -> None:
    """Views of an input with a bit, which no kernel may write: the compilation of these ended."""
    x = make()
    results = compiled_of(function, dynamic=dynamic)(x), function(x)
    found, expected = ((one,) if isinstance(one, Tensor) else one for one in results)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.stride() == theirs.stride() and torch.equal(ours, theirs)
        shared = [one.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() for one in (ours, theirs)]
        assert shared[0] == shared[1]


def test_what_is_saved_of_an_input_with_the_bit() -> None:
    x = neg_view(torch.randn(5)).requires_grad_()
    check(lambda x: x.clamp(-4, 3).exp().clamp(-4, 3).exp(), x, truth=False)


def test_plain_inputs_after_some_with_the_bit() -> None:
    compiled = compiled_of(function := lambda x: x * 2 + 1)
    for x in (negated(5), torch.randn(10)[::2], negated(5)):
        torch.testing.assert_close(compiled(x), function(x))


@pytest.mark.parametrize(
    "function", [lambda z: (z.real * 2, z.imag + 1, z.conj().imag, z * z), lambda z: z.mul_(1j), lambda z: z.fill_(1j)]
)
def test_the_conjugate_bit_of_inputs(function: Callable[[Tensor], Any]) -> None:
    expected_z = complex_numbers(5)
    actual_z = expected_z.clone()
    expected, actual = function(expected_z.conj()), compiled_of(function)(actual_z.conj())
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(actual_z, expected_z)


@pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager. .*views an input with the conjugate bit")
@pytest.mark.parametrize("dynamic", (None, True))
@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x * y,
        lambda x, y: x[::2].mT.conj().exp() * y.sum(),
        lambda x, y: (x.conj(), (x.conj() * y).imag.sin(), x.T.conj()),
        lambda x, y: torch.split(x.flatten(), 4)[1].conj() * y.flatten()[:4],
    ],
)
@pytest.mark.covering
def test_what_is_saved_of_an_input_with_the_conjugate_bit(function: Callable[..., Any], dynamic: bool | None) -> None:
    """The conjugates of such an input came to the backward pass with the bit, of which its program knew nothing."""
    gradients: list[Tensor] = []
    x = complex_numbers(3, 3).conj()
    for run in (function, compiled_of(function, dynamic=dynamic)):
        y = torch.ones(3, 3, requires_grad=True)
        results = run(x, y)
        results = results if isinstance(results, tuple) else (results,)
        loss = torch.stack([torch.view_as_real(one.resolve_conj() * (1 + 0j)).sum() for one in results]).sum()
        gradients += torch.autograd.grad(loss, y)
    torch.testing.assert_close(gradients[1], gradients[0])


@pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager. .*views an input with the conjugate bit")
@pytest.mark.parametrize("bit", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.expand(2, *x.shape).conj(),
        lambda x: x.narrow(0, 1, x.shape[0] - 1).conj(),
        lambda x: x.narrow(0, 1, x.shape[0] - 1).real,
        lambda x: x.narrow(0, 1, x.shape[0] - 1),
    ],
)
def test_views_of_conjugates_of_sizes_that_change(function: Callable[[Tensor], Tensor], bit: bool) -> None:
    """AOTAutograd makes them anew of the input, with the input's bit."""
    compiled = torch.compile(function, backend="cuesta", dynamic=True)
    for size in (4, 5):
        x = complex_numbers(size)
        x = x.conj() if bit else x
        result = compiled(x)
        assert torch.equal(result, function(x)) and result.is_conj() == function(x).is_conj()
        assert result.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


@pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager. .*share memory have the negative")
@pytest.mark.parametrize("make", [lambda: negated(4), lambda: complex_numbers(4).conj()], ids=["negative", "conjugate"])
def test_inputs_with_a_bit_that_share_memory(make: Callable[[], Tensor]) -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        x.mul_(2)
        return y + 1

    x = make()
    check(function, x, x[1:])
    check(lambda x, y: x * 2 + y.sum(), x, x[1:])


def test_tangents_with_the_negative_bit() -> None:
    x, y = (torch.ones(5, requires_grad=True) for _ in range(2))
    tangent = neg_view(torch.randn(5))
    (x.sin() * 2).backward(tangent)
    compiled_of(lambda x: x.sin() * 2)(y).backward(tangent)
    torch.testing.assert_close(y.grad, x.grad)


def test_operators_that_give_the_negative_bit() -> None:
    @torch.library.custom_op("cuesta_test::negative_view", mutates_args=())
    def negative(x: Tensor) -> Tensor:
        return neg_view(x.clone())

    @negative.register_fake
    def _(x: Tensor) -> Tensor:
        return neg_view(torch.empty_like(x))

    x = torch.randn(5)
    torch.testing.assert_close(compiled_of(lambda x: negative(x) * 2)(x), -2 * x)


# -- numbers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * random.uniform(1, 2),
        lambda x: x * random.randint(1, 20) + random.uniform(0, 1),
        lambda x: x[random.randint(0, 3) :] * 2 if x.dim() else x,
        lambda x, r=random: (x + r.uniform(-1, 1)).double() + r.uniform(0, 1),
    ],
)
def test_random_numbers_of_python(function: Callable[[Tensor], Tensor]) -> None:
    x = torch.randn(5)
    compiled = torch.compile(function, backend="cuesta")
    for seed in range(3):
        random.seed(seed)
        expected = function(x)
        random.seed(seed)
        torch.testing.assert_close(compiled(x), expected)
