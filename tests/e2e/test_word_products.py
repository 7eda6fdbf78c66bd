"""Products of bf16 and of int8 that our own kernels compute on the CPU, two or four at a time: `nest-word-products`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cuesta
from cuesta.targets.cpu import emit_dot, facts
from cuesta.targets.cpu.features import describe
from cuesta.testing import assert_close_to_float64
from cuesta.transforms.products import nest_word_products

pytestmark = pytest.mark.slow
WAS_SAID = facts.facts_of_products
"""What is said of this machine."""


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """On whatever processor, as on one where our kernels are faster."""
    monkeypatch.setattr(facts, "facts_of_products", lambda: {"products_bf16": 1.1, "products_i8": 1.1})
    torch._dynamo.reset()
    cuesta.clear_records()


def compiled_of(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    chosen: dict[str, Any] = {"cache": False, **options}
    return torch.compile(function, backend="cuesta", fullgraph=True, options=chosen)


def library_calls() -> int:
    return sum(record.library_calls for record in cuesta.records)


def narrow(*sizes: int) -> Tensor:
    return torch.randn(sizes).bfloat16()


def small(*sizes: int) -> Tensor:
    """Bytes, the least among them."""
    return torch.randint(-128, 128, sizes, dtype=torch.int8)


def lying(make: Callable[..., Tensor], rows: int, columns: int, how: str) -> Tensor:
    return make(rows, columns) if how == "n" else make(columns, rows).t()


SIZES = [
    (512, 64, 64),  # whole blocks
    (393, 96, 130),  # rows that no block of 8 fills
    (1023, 48, 516),  # of whose columns only 16 are side by side, and a piece of a sum with two words more
    (4, 16, 2),  # one word
    (65, 32, 2050),  # a sum in nine pieces
]
LIES = ["nn", "nt", "tn", "tt"]


@pytest.fixture(params=["instructions", "shifts"])
def instructions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also as on a machine that does not have them."""
    if request.param == "shifts":
        monkeypatch.setattr(emit_dot, "has_dot", lambda parts: False)


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize(("rows", "columns", "points"), SIZES)
@pytest.mark.parametrize("lies", LIES)
@pytest.mark.covering(2)
def test_products_of_bf16_are_as_near_to_the_truth_as_a_librarys(
    rows: int, columns: int, points: int, lies: str
) -> None:
    """Whichever way the factors lie."""
    a, b = lying(narrow, rows, points, lies[0]), lying(narrow, points, columns, lies[1])
    ours = compiled_of(torch.mm)(a, b)
    assert library_calls() == 0
    truth = a.double() @ b.double()
    own, eagers = ((one.double() - truth).norm() for one in (ours, a @ b))
    assert own <= 1.01 * eagers


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize(("rows", "columns", "points"), [(64, 32, 64), (133, 48, 12), (4, 16, 4), (40, 80, 1028)])
@pytest.mark.parametrize("lies", LIES)
@pytest.mark.covering(2)
def test_products_of_bytes_are_exact(rows: int, columns: int, points: int, lies: str) -> None:
    a, b = lying(small, rows, points, lies[0]), lying(small, points, columns, lies[1])
    assert torch.equal(compiled_of(torch.ops.aten._int_mm.default)(a, b), (a.long() @ b.long()).int())
    assert library_calls() == 0


def test_the_least_bytes_of_all() -> None:
    """The largest products, and what one factor is to the instruction: 128 more."""
    for one in (-128, 127):
        for other in (-128, 0, 127):
            a, b = torch.full((16, 64), one, dtype=torch.int8), torch.full((64, 32), other, dtype=torch.int8)
            torch._dynamo.reset()
            assert torch.equal(
                compiled_of(torch.ops.aten._int_mm.default)(a, b), torch.full((16, 32), 64 * one * other).int()
            )
    assert library_calls() == 0


@pytest.mark.parametrize("added", ["row", "matrix", "column", "number"])
def test_what_is_added(added: str) -> None:
    sizes = {"row": (96,), "matrix": (200, 96), "column": (200, 1), "number": (1,)}[added]
    inputs = [narrow(*sizes), narrow(200, 144), narrow(144, 96)]
    assert_close_to_float64(compiled_of(torch.addmm), torch.addmm, inputs)
    assert library_calls() == 0


def test_what_is_scaled() -> None:
    def function(c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return torch.addmm(c, a, b, beta=0.5, alpha=2.0)

    assert_close_to_float64(compiled_of(function), function, [narrow(64, 32), narrow(64, 16), narrow(16, 32)])
    assert library_calls() == 0


@pytest.mark.parametrize("sizes", [(5, 136, 32, 64), (2, 30, 70, 32), (1, 8, 8, 16)])
def test_batches(sizes: tuple[int, int, int, int]) -> None:
    batch, rows, points, columns = sizes
    a, b = narrow(batch, rows, points), narrow(batch, points, columns)
    across, turned = narrow(batch, points, rows).transpose(1, 2), narrow(batch, columns, points).transpose(1, 2)
    for inputs in ([a, b], [a, turned], [across, turned], [across, b]):
        torch._dynamo.reset()  # strides that differ would be sizes that only the call knows
        assert_close_to_float64(compiled_of(torch.bmm), torch.bmm, inputs)
    assert library_calls() == 0


def test_factors_that_overlap_repeat_or_begin_between_words() -> None:
    """A matrix with itself, rows that are all one row, every second column, windows of one row, rows of odd length."""

    def function(x: Tensor, row: Tensor, wide: Tensor, long: Tensor, odd: Tensor) -> tuple[Tensor, ...]:
        windows = long.as_strided((160, 64), (1, 1))
        return x @ x.t(), row.expand(160, 64) @ x.t(), wide[:, ::2] @ x.t(), windows @ x.t(), odd[:, 1:] @ x.t()

    inputs = [narrow(160, 64), narrow(64), narrow(160, 128), narrow(400), narrow(160, 65)]
    assert_close_to_float64(compiled_of(function), function, inputs)
    assert library_calls() == 0


def test_memory_that_begins_anywhere() -> None:
    """A word of such a tensor lies at no multiple of its size."""
    a, b = narrow(64 * 32 + 1)[1:].view(64, 32), narrow(32 * 48 + 1)[1:].view(48, 32)
    assert_close_to_float64(compiled_of(nn.functional.linear), nn.functional.linear, [a, b])
    c, d = small(64 * 32 + 3)[3:].view(64, 32), small(32 * 48 + 1)[1:].view(48, 32)

    def function(c: Tensor, d: Tensor) -> Tensor:
        return torch.ops.aten._int_mm.default(c, d.t())

    assert torch.equal(compiled_of(function)(c, d), function(c, d))
    assert library_calls() == 0


def test_what_is_no_word_is_a_librarys() -> None:
    """Thirty-four columns fill whole vectors of no machine."""
    for a, b in ((narrow(64, 33), narrow(33, 32)), (narrow(64, 32), narrow(32, 34)), (narrow(3, 32), narrow(32, 64))):
        torch._dynamo.reset()
        assert_close_to_float64(compiled_of(torch.mm), torch.mm, [a, b])
    assert library_calls() == 3
    torch._dynamo.reset()
    c, d = small(64, 34), small(34, 32)
    assert torch.equal(compiled_of(torch.ops.aten._int_mm.default)(c, d), (c.long() @ d.long()).int())
    assert library_calls() == 4


def test_a_large_copy_takes_many_rows() -> None:
    """But not of bytes that lie as words."""
    w = narrow(1040, 1024)
    for rows, calls in ((8, 1), (256, 1), (255, 2)):
        torch._dynamo.reset()
        assert_close_to_float64(compiled_of(nn.functional.linear), nn.functional.linear, [narrow(rows, 1024), w])
        assert library_calls() == calls
    a, b = small(8, 1024), small(1040, 1024)
    torch._dynamo.reset()
    function = torch.ops.aten._int_mm.default
    assert torch.equal(compiled_of(function)(a, b.t()), (a.long() @ b.t().long()).int())
    assert library_calls() == 2


def test_infinities_and_what_is_no_number() -> None:
    """A row, and a column, with one: nothing else is touched by them."""
    a, b = narrow(200, 64), narrow(64, 96)
    a[3, 5], a[4, 6], b[7, 9] = math.inf, math.nan, -math.inf
    ours, eagers = compiled_of(torch.mm)(a, b), a @ b
    assert library_calls() == 0
    assert torch.equal(ours.isnan(), eagers.isnan())
    assert torch.equal(ours.isinf(), eagers.isinf())
    finite = eagers.isfinite()
    torch.testing.assert_close(ours[finite], eagers[finite])


def test_what_is_done_at_once() -> None:
    """A bias, an activation, what is added, of rows that are two axes; and the product itself, which others read."""

    def layer(x: Tensor, w: Tensor, b: Tensor, r: Tensor) -> Tensor:
        return nn.functional.linear(x, w, b).relu() * 0.5 + r

    def kept(x: Tensor, w: Tensor, b: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
        y = nn.functional.linear(x, w, b)
        return y.relu() + r, y.sum(-1)

    def flat(x: Tensor, w: Tensor, b: Tensor, r: Tensor) -> Tensor:
        return (nn.functional.linear(x, w, b) + r).float().flatten(0, 1)

    inputs = [narrow(3, 37, 64), narrow(96, 64), narrow(96), narrow(3, 37, 96)]
    for function, kernels in ((layer, 2), (kept, 3), (flat, 2)):
        torch._dynamo.reset()
        cuesta.clear_records()
        assert_close_to_float64(compiled_of(function), function, inputs)
        assert library_calls() == 0
        assert cuesta.records[0].kernels == kernels


def test_levels_are_those_of_the_rounded_product() -> None:
    """Between two levels the last digit decides: it is the one that the product has in memory."""

    def levels(x: Tensor, w: Tensor) -> Tensor:
        return (x @ w).float().round()

    x, w = narrow(64, 64) * 8, narrow(64, 64)
    found = compiled_of(levels)(x, w)
    assert cuesta.records[0].kernels == 2 and library_calls() == 0
    torch._dynamo.reset()
    assert torch.equal(found, compiled_of(torch.mm)(x, w).float().round())


def test_what_is_not_done_at_once() -> None:
    """What is much work, or lies the other way, or has other columns."""

    def heavy(x: Tensor, w: Tensor) -> Tensor:
        return nn.functional.gelu(x @ w)

    def turned(x: Tensor, w: Tensor) -> Tensor:
        return (x @ w).relu().t().contiguous()

    def heads(x: Tensor, w: Tensor) -> Tensor:
        return (x @ w).view(8, 8, 4, 16).transpose(1, 2).relu().contiguous()

    for function in (heavy, turned, heads):
        torch._dynamo.reset()
        cuesta.clear_records()
        assert_close_to_float64(compiled_of(function), function, [narrow(64, 32), narrow(32, 64)])
        assert library_calls() == 0
        assert cuesta.records[0].kernels == 3


def test_quantised_layers() -> None:
    """Activations that are quantised row by row, weights column by column, as they are scaled back."""

    def function(x: Tensor, w: Tensor, scales: Tensor, bias: Tensor) -> Tensor:
        most = x.abs().amax(-1, keepdim=True) / 127
        q = (x / most).round().clamp(-128, 127).to(torch.int8)
        return torch.ops.aten._int_mm.default(q, w.t()) * (most * scales) + bias

    inputs = [torch.randn(70, 64), small(96, 64), torch.rand(96), torch.randn(96)]
    ours, eagers = compiled_of(function)(*inputs), function(*inputs)
    assert library_calls() == 0
    torch.testing.assert_close(ours, eagers, rtol=1e-6, atol=1e-4)


def test_training() -> None:
    """Three products a layer but for the first, whose input has no gradient; results of one are factors of others."""
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64, bias=False), nn.Tanh(), nn.Linear(64, 128))
    model.bfloat16()
    assert_close_to_float64(compiled_of(model), model, [narrow(394, 64).requires_grad_()])
    assert library_calls() == 0


def test_what_is_added_up_may_be_written_to() -> None:
    """An argument that a product is added to in place, and is a factor of another."""

    def function(total: Tensor, a: Tensor, b: Tensor) -> Tensor:
        before = total @ b
        total.addmm_(a, b)
        return before + total

    a, b, total = narrow(200, 64), narrow(64, 64), narrow(200, 64)
    expected, ours = total.clone(), total.clone()
    wanted = function(expected, a, b)
    torch.testing.assert_close(compiled_of(function)(ours, a, b), wanted, atol=0.1, rtol=0.02)
    torch.testing.assert_close(ours, expected, atol=0.1, rtol=0.02)


def test_factors_that_are_written_to() -> None:
    """Before that, their words are read; after it, others."""

    def into_a_factor(x: Tensor, w: Tensor) -> Tensor:
        return x.copy_((x @ w).relu() + x)

    def between(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        y = x @ w
        x.add_(1)
        return y, x @ w

    def through_a_view(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        turned = x.t()
        y = turned @ w
        x.mul_(2)
        return y, turned @ w

    for function in (into_a_factor, between, through_a_view):
        torch._dynamo.reset()
        x, w = narrow(64, 64), narrow(64, 64)
        expected, ours = x.clone(), x.clone()
        wanted = function(expected, w)
        torch.testing.assert_close(compiled_of(function)(ours, w), wanted, atol=0.1, rtol=0.02)
        torch.testing.assert_close(ours, expected, atol=0.1, rtol=0.02)
    assert library_calls() == 0


def test_the_interpreter_agrees_before_and_after() -> None:
    model = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 32)).bfloat16()
    with torch.no_grad():
        x = narrow(132, 32)
        compiled = compiled_of(model, validate="stages")
        assert_close_to_float64(compiled, model, [x])
    torch._dynamo.reset()
    c, d = small(36, 32), small(32, 48)
    assert torch.equal(
        compiled_of(torch.ops.aten._int_mm.default, validate="stages")(c, d), (c.long() @ d.long()).int()
    )
    assert library_calls() == 0


def test_any_number_of_threads_gives_the_same() -> None:
    a, b = narrow(393, 130), narrow(130, 96)
    compiled, threads = compiled_of(torch.mm), torch.get_num_threads()
    results = list[Tensor]()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            results.append(compiled(a, b))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])


def test_roundings_of_eager_are_kept() -> None:
    """Whoever asks for eager's roundings gets eager's library, to the bit; and sizes that differ stay its own."""
    a, b = narrow(256, 128), narrow(128, 64)
    assert torch.equal(compiled_of(torch.mm, emulate_precision_casts=True)(a, b), a @ b)
    assert library_calls() == 1
    torch._dynamo.reset()
    cuesta.clear_records()
    for rows in (200, 301, 17):
        assert_close_to_float64(compiled_of(torch.mm), torch.mm, [narrow(rows, 128), b])


def test_nobody_said_that_they_are_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "facts_of_products", dict)
    compiled_of(torch.mm)(narrow(256, 128), narrow(128, 64))
    assert library_calls() == 1


def test_where_the_library_has_no_such_instructions_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy may be as large as it likes then."""
    a, b = small(8, 1024), small(1040, 1024)
    for rate, calls in ((1.1, 1), (12.0, 1)):
        monkeypatch.setattr(facts, "facts_of_products", lambda rate=rate: {"products_i8": rate})
        monkeypatch.setattr(nest_word_products, "MOST_COPIED", 1 << 19)
        torch._dynamo.reset()
        assert torch.equal(compiled_of(torch.ops.aten._int_mm.default)(a, b.t()), (a.long() @ b.t().long()).int())
        assert library_calls() == calls


def test_what_is_said_of_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = ("avx", "avx2", "fma", "avx512f", "avx512vl", "avx512bf16", "avx512vnni", "sse4a")

    def said(*names: str) -> set[str]:
        described = describe("x86_64-unknown-linux-gnu", {one: one in names for one in (*flags, "avxvnni")})
        monkeypatch.setattr(facts, "host_features", lambda: described)
        return set(WAS_SAID())

    monkeypatch.setattr(facts, "has_dot", lambda parts: True)
    assert said("avx", "avx2", "fma", "sse4a") == said("avx", "avx2", "fma") == {"products_i8"}
    assert said("avx", "avx2", "fma", "avxvnni") == set()
    assert said(*flags) == {"products", "products_bf16", "products_i8"}
    assert said(*flags[:-1]) == set()
    assert said() == set()
