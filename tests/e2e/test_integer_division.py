"""Integers divided by tensors: as eager at the ends of the range, for every pair of signs, and by zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

import cuesta
from cuesta.dialects import host, loops
from tests.support.differential import check
from tests.support.triton_interpreter import interpreted_cuda, to_host
from tests.support.triton_kernels import assert_compiles, texts_of

DIVISIONS: dict[str, Callable[[Any, Any], Tensor]] = {
    "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "floor": lambda x, y: x // y,
    "remainder": lambda x, y: x % y,
    "fmod": torch.fmod,
}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    cuesta.clear_records()


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function, backend="cuesta", options={"verify": "each"})


def edges(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """All pairs of some integers, but for division by zero and for what ends eager's process."""
    ends = torch.iinfo(dtype)
    few = {ends.min, ends.min + 1, ends.max - 1, ends.max, 0, 1, 2, 3, 7, 100}
    values = torch.tensor(sorted(few | ({-1, -2, -3, -7} if ends.min else set())), dtype=dtype)
    x, y = values.repeat_interleave(len(values)), values.repeat(len(values))
    good = (y != 0) & ~((x == ends.min) & (y == torch.tensor(-1).to(dtype)) & (ends.min != 0))
    return x[good], y[good]


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.float32, torch.bfloat16], ids=str)
def test_a_number_in_the_first_place(dtype: torch.dtype) -> None:
    """Of these, PyTorch has overloads that begin with a number."""

    def rests(y: Tensor) -> tuple[Tensor, ...]:
        return 7 % y, -7 % y, torch.remainder(0, y)

    def bits(y: Tensor) -> tuple[Tensor, ...]:
        return 5 & y, 5 | y, 5 ^ y, 300 % y

    y = torch.tensor([3, 250, 5, 1, 7, 2]).to(dtype)
    check(rests, y, truth=False)
    if not dtype.is_floating_point:
        check(bits, y, truth=False)
    assert not any(record.fallbacks for record in cuesta.records)


@pytest.mark.parametrize(
    "dtype",
    [torch.int64, *(pytest.param(one, marks=pytest.mark.slow) for one in (torch.int32, torch.int8, torch.uint8))],
    ids=str,
)
def test_by_tensors(dtype: torch.dtype) -> None:
    x, y = edges(dtype)

    def function(x: Tensor, y: Tensor) -> list[Tensor]:
        whole = [divide(x, y) for divide in DIVISIONS.values()]
        return [*whole, 7 // y, x // y[:1], torch.where(y > 3, x // y, x), (x % y).sum()]

    result, expected = compiled(function)(x, y), function(x, y)
    assert all(
        ours.dtype is theirs.dtype and torch.equal(ours, theirs) for ours, theirs in zip(result, expected, strict=True)
    )
    assert not cuesta.records[-1].fallbacks


@pytest.mark.parametrize("dtype", [torch.int64, torch.int16], ids=str)
def test_by_numbers(dtype: torch.dtype) -> None:
    x = edges(dtype)[0]
    x = x[x != torch.iinfo(dtype).min]

    def function(x: Tensor) -> list[Tensor]:
        return [divide(x, number) for divide in DIVISIONS.values() for number in (3, -5, 1, -1)]

    assert all(map(torch.equal, compiled(function)(x), function(x)))
    assert not cuesta.records[-1].fallbacks


@pytest.mark.parametrize("name", DIVISIONS)
def test_by_zero(name: str) -> None:
    """An error as eager's, with the line of the model; and the next call is as if it had not been."""
    divide = DIVISIONS[name]
    x, y = torch.arange(40), torch.arange(40) - 20
    function = compiled(divide)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="ZeroDivisionError") as theirs:
            divide(x, y)
        with pytest.raises(RuntimeError, match="ZeroDivisionError") as ours:
            function(x, y)
        assert type(theirs.value) is type(ours.value)
        assert torch.equal(function(x, y + 100), divide(x, y + 100))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        compiled(lambda x: divide(x, 0))(x)


def test_by_zero_in_what_is_left_out() -> None:
    """Eager divides all of them, whoever reads the quotients. No elements are none by zero."""
    x, y = torch.arange(12), torch.arange(12)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        compiled(lambda x, y: torch.where(y > 0, x // y, 0))(x, y)
    assert compiled(lambda x, y: x // y)(x[:0], y[:0]).shape == (0,)
    padded = compiled(lambda x, y: torch.nn.functional.pad(x[1:] // y[1:], (1, 2)))(x, y)
    assert padded.tolist() == [0, *[1] * 11, 0, 0]


def test_by_zero_an_argument_stays_as_it_was() -> None:
    x, y = torch.arange(12), torch.arange(12)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        compiled(lambda x, y: x.floor_divide_(y))(x, y)
    assert torch.equal(x, torch.arange(12))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8], ids=str)
def test_the_least_integer_by_minus_one(dtype: torch.dtype) -> None:
    """Eager's process ends there."""
    x = torch.full((9,), torch.iinfo(dtype).min, dtype=dtype)
    quotients = compiled(lambda x, y: [divide(x, y) for divide in DIVISIONS.values()])(x, torch.full_like(x, -1))
    assert all(map(torch.equal, quotients, [x, x, x * 0, x * 0]))


def divisors(x: Tensor, y: Tensor) -> list[Tensor]:
    return [torch.gcd(x, y), torch.lcm(x, y), torch.gcd(x, torch.full_like(y, 12)), torch.gcd(y, y[:1])]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8], ids=str)
def test_common_divisors(dtype: torch.dtype) -> None:
    ends = torch.iinfo(dtype)
    few, least = [0, 1, 2, 3, 6, 35, 64, 97, ends.max, ends.max - 1], ends.min + 1 if ends.min else 0
    values = torch.tensor(sorted({*few, *([-1, -6, -64, least] if least else [])}), dtype=dtype)
    more = torch.randint(least, ends.max, (2, 300), dtype=dtype)
    x = torch.cat([values.repeat_interleave(len(values)), more[0]])
    y = torch.cat([values.repeat(len(values)), more[1]])
    assert all(map(torch.equal, compiled(divisors)(x, y), divisors(x, y)))
    assert not cuesta.records[-1].fallbacks


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8], ids=str)
def test_common_divisors_of_the_least_integer(dtype: torch.dtype) -> None:
    """Eager's remainders of it have its sign: a row of docs/differences.md."""
    least = torch.iinfo(dtype).min
    x, y = torch.tensor([least] * 4, dtype=dtype), torch.tensor([6, 96, 0, least], dtype=dtype)
    assert torch.gcd(x, y).tolist() == [-2, -32, least, least]
    assert compiled(torch.gcd)(x, y).tolist() == [2, 32, least, least]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8], ids=str)
def test_common_divisors_on_a_gpu(dtype: torch.dtype) -> None:
    pytest.importorskip("triton")
    x, y = torch.randint(0, 200, (2, 150)).to(dtype)
    if dtype is torch.int64:
        x, y = torch.cat([x - 100, torch.randint(0, 1 << 62, (50,))]), torch.cat([y, torch.randint(0, 1 << 62, (50,))])
    with interpreted_cuda() as programs:
        ours = torch.compile(divisors, backend="cuesta", fullgraph=True)
        assert all(map(torch.equal, ours(x, y), divisors(x, y)))
    for program in programs:
        assert not any(isinstance(op, host.ExternOp) for op in to_host(program).walk())
        assert_compiles(texts_of(program))


@pytest.mark.slow
def test_a_gpu_does_not_check_divisors() -> None:
    pytest.importorskip("triton")
    x, y = edges(torch.int32)

    def function(x: Tensor, y: Tensor) -> list[Tensor]:
        return [divide(x, y) for divide in DIVISIONS.values()]

    with interpreted_cuda(run_it=True, lowered=True) as programs:
        ours = torch.compile(function, backend="cuesta", fullgraph=True)
        assert all(map(torch.equal, ours(x, y), function(x, y)))
        assert [one.tolist() for one in ours(x, y * 0)] == [x.tolist(), x.tolist(), [0] * len(x), [0] * len(x)]
    for program in programs:
        assert not any(isinstance(op, loops.BoundOp | host.ExternOp) for op in to_host(program).walk())


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8], ids=str)
@pytest.mark.slow
def test_powers(dtype: torch.dtype) -> None:
    x, y = edges(dtype)

    def function(x: Tensor, y: Tensor) -> Tensor | list[Tensor]:
        return [x**y, 3**y, x**17, x**70]

    result, expected = compiled(function)(x, y), function(x, y)
    assert all(map(torch.equal, tree_leaves(result), tree_leaves(expected)))
    assert not cuesta.records[-1].fallbacks


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("divisor", [2, -2, 4])
@pytest.mark.covering
def test_quotients_of_products_of_short_ranges(dtype: torch.dtype, divisor: int) -> None:
    """LLVM 22 leaves out an i64's division by 2 there (`_emit_half` of targets/cpu/emit_ops.py)."""

    def function(x: Tensor) -> tuple[Tensor, ...]:
        x = x.clamp(0, 8)
        products = x * (x - 1), x * (x - 5), (x - 3) * (x - 3)
        rounded = [torch.div(one, divisor, rounding_mode=mode) for one in products for mode in ("trunc", "floor")]
        return *rounded, *[one % divisor for one in products], *[one.fmod(divisor) for one in products]

    check(function, (torch.arange(75) % 11 - 1).to(dtype), truth=False)


def test_a_pair_is_found_by_halves_of_products() -> None:
    for rows in (9, 20, 32):
        check(torch.pdist, torch.randn(rows, 3))
