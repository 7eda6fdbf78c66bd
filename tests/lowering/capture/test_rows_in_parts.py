"""A product much larger than what it is made of, in parts of its rows: the same loss and gradients, never whole."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx import GraphModule
from torch.utils.checkpoint import checkpoint

import cuesta.backend
from cuesta.dialects.core.locations import print_text
from cuesta.lowering.capture import rows_in_parts as passes
from tests.support.triton_interpreter import interpreted_cuda, to_host

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("products_are_calls")]  # 30 s together

ROWS, WIDTH, COLUMNS = 256, 16, 512
PARTS = 4
Loss = Callable[[Tensor, Tensor, Tensor], Any]


class Clipped(torch.autograd.Function):
    """The identity, whose gradient is not linear."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Any:
        return gradients[0].clamp(-1e-3, 1e-3)


def logits_of(x: Tensor, weight: Tensor) -> Tensor:
    return F.linear(x, weight).view(-1, COLUMNS)


def plain(x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(logits_of(x, weight), target)


def wide_with_what_does_not_count(x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(logits_of(x, weight).float(), target, ignore_index=3, reduction="sum")


def smoothed_and_capped(x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    logits = torch.tanh(logits_of(x, weight) / 5) * 5
    sums = logits.logsumexp(-1)
    return F.cross_entropy(logits, target, label_smoothing=0.1) * 3 + (sums * sums).mean() * 0.01


def weighted_by_row(x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    losses = F.cross_entropy(logits_of(x, weight), target, reduction="none")
    return (losses * target).sum() / 100


def biased_squares(x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    hidden = F.relu(x.view(-1, WIDTH) @ weight.t() + weight.sum(1))
    return (hidden.square().mean(-1) * target).sum() / 100


def of_what_is_multiplied_on_the_right(x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(torch.mm(x.view(-1, WIDTH), weight.t().contiguous()), target)


def of_all_of_them(x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    """A sum over the rows that is no product; in 16 bits, it must not be rounded once a part."""
    logits = logits_of(x, weight)
    return logits.square().sum() * 1e-3 + (logits.sum(0).float() * target[:1]).sum() * 1e-3


def of_weights_alone(x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(logits_of(x.detach(), weight), target)


TAKEN = [
    plain, wide_with_what_does_not_count, smoothed_and_capped, weighted_by_row, biased_squares,
    of_what_is_multiplied_on_the_right, of_all_of_them, of_weights_alone,
]  # fmt: skip


def returns_the_logits(x: Tensor, weight: Tensor, target: Tensor) -> Any:
    logits = logits_of(x, weight)
    return F.cross_entropy(logits, target), logits


def one_loss_a_row(x: Tensor, weight: Tensor, target: Tensor) -> Any:
    losses = F.cross_entropy(logits_of(x, weight), target, reduction="none")
    return losses.sum(), losses


def two_losses(x: Tensor, weight: Tensor, target: Tensor) -> Any:
    logits = logits_of(x, weight)
    return F.cross_entropy(logits, target), logits.exp().mean()


def along_the_rows(x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    return (logits_of(x, weight).softmax(0).square().sum(-1) * target).sum()


def of_all_rows_together(x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    logits = logits_of(x, weight)
    return F.cross_entropy(logits - logits.mean(), target)


def random(x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(F.dropout(logits_of(x, weight), 0.5), target)


def not_linear(x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(Clipped.apply(logits_of(x, weight)), target)


def random_afterwards(x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    losses = F.cross_entropy(logits_of(x, weight), target, reduction="none")
    return (F.dropout(losses, 0.5) + F.dropout(target.float(), 0.5) * 0.01).mean()


def checkpointed(x: Tensor, weight: Tensor, target: Tensor) -> Any:
    return checkpoint(plain, x, weight, target, use_reentrant=False)


REFUSED = [
    returns_the_logits, one_loss_a_row, two_losses, along_the_rows, of_all_rows_together, random, not_linear,
    checkpointed,
]  # fmt: skip


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "LEAST_BYTES", ROWS * COLUMNS * 4 // PARTS)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many products of a graph were taken apart."""
    counts: list[int] = []
    original = passes.rows_in_parts

    def counted(gm: GraphModule) -> int:
        counts.append(original(gm))
        gm.graph.lint()
        return counts[-1]

    monkeypatch.setattr(passes, "rows_in_parts", counted)
    yield counts


def leaves(dtype: torch.dtype, rows: int = ROWS) -> list[Tensor]:
    torch.manual_seed(0)
    x, weight = torch.randn(2, rows // 2, WIDTH), torch.randn(COLUMNS, WIDTH) * 0.3
    return [*(one.to(dtype).requires_grad_() for one in (x, weight)), torch.randint(0, 9, (rows,))]


def loss_and_gradients(function: Loss, inputs: list[Tensor], tangent: float) -> list[Tensor]:
    result = function(*inputs)
    loss = result[0] if isinstance(result, tuple) else result
    wanted = [one for one in inputs if one.requires_grad]
    given = torch.autograd.grad(loss, wanted, torch.tensor(tangent, dtype=loss.dtype), allow_unused=True)
    return [loss.detach(), *(one for one in given if one is not None)]


def compiled_of(function: Loss) -> Loss:
    torch._dynamo.reset()
    return torch.compile(function, backend="cuesta")


def errors(values: list[Tensor], truth: list[Tensor]) -> list[float]:
    pairs = zip(values, truth, strict=True)
    return [float((one.double() - true).norm() / true.norm()) for one, true in pairs]


@pytest.mark.parametrize(
    ("loss", "dtype"),
    [
        *[(loss, torch.float32) for loss in TAKEN],
        *[(loss, torch.bfloat16) for loss in (plain, smoothed_and_capped, of_all_of_them)],
    ],
)
@pytest.mark.every(
    11,
    also=(
        "wide_with_what_does_not_count-dtype1",
        "weighted_by_row-dtype3",
        "biased_squares-dtype4",
        "of_what_is_multiplied_on_the_right-dtype5",
        "of_weights_alone-dtype7",
        "smoothed_and_capped-dtype9",
        "of_all_of_them-dtype10",
    ),
)
def test_loss_and_gradients_are_as_near_to_the_truth_as_eagers(
    loss: Loss, dtype: torch.dtype, found: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    if dtype == torch.bfloat16:
        monkeypatch.setattr(passes, "LEAST_BYTES", ROWS * COLUMNS * 2 // PARTS)
    inputs = leaves(dtype)
    exact = [one.detach().double().requires_grad_() if one.is_floating_point() else one for one in inputs]
    truth = loss_and_gradients(loss, exact, 2.5)
    eager = errors(loss_and_gradients(loss, inputs, 2.5), truth)
    cuesta.clear_records()
    ours = errors(loss_and_gradients(compiled_of(loss), inputs, 2.5), truth)
    assert found == [1]
    products = 3 if loss is not of_weights_alone else 2
    assert sum(record.library_calls for record in cuesta.records) == products * PARTS
    # In 16 bits the gradient of rows, which is of 1, is rounded before the tangent multiplies it.
    least = 4e-3 if dtype == torch.bfloat16 else 1e-6
    assert all(one <= 2 * max(other, least) for one, other in zip(ours, eager, strict=True)), (ours, eager)


@pytest.mark.parametrize(
    ("loss", "tangent"),
    [
        *((loss, 1.0) for loss in (plain, wide_with_what_does_not_count, smoothed_and_capped, of_all_of_them)),
        (plain, 2.5),
        *(
            pytest.param(loss, 2.5, marks=pytest.mark.thorough)
            for loss in (wide_with_what_does_not_count, smoothed_and_capped, of_all_of_them)
        ),
    ],
)
@pytest.mark.every(2)
def test_sums_of_many_parts_in_16_bits_are_rounded_once(
    loss: Loss, tangent: float, found: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounded once a part, the weight's gradient was 1.3 to 2.6 times as far from the truth as eager's."""
    parts = passes.MOST_PARTS
    monkeypatch.setattr(passes, "LEAST_BYTES", ROWS * COLUMNS * 2 // parts)
    monkeypatch.setattr(passes, "FEWEST", ROWS // parts)
    inputs = leaves(torch.bfloat16)
    exact = [one.detach().double().requires_grad_() if one.is_floating_point() else one for one in inputs]
    truth = loss_and_gradients(loss, exact, tangent)
    eager = errors(loss_and_gradients(loss, inputs, tangent), truth)
    cuesta.clear_records()
    ours = errors(loss_and_gradients(compiled_of(loss), inputs, tangent), truth)
    assert found == [1] and sum(record.library_calls for record in cuesta.records) == 3 * parts
    assert ours[-1] <= 1.02 * eager[-1], (ours, eager)


def test_on_a_gpu_the_library_adds_parts_up_in_f32(found: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """In Triton's interpreter: each product of a part is added to memory of f32, and nothing is copied."""
    monkeypatch.setattr(passes, "LEAST_BYTES", ROWS * COLUMNS * 2 // PARTS)
    inputs = leaves(torch.bfloat16)
    exact = [one.detach().double().requires_grad_() if one.is_floating_point() else one for one in inputs]
    truth = loss_and_gradients(plain, exact, 2.5)
    eager = errors(loss_and_gradients(plain, inputs, 2.5), truth)
    with interpreted_cuda() as programs:
        ours = errors(loss_and_gradients(torch.compile(plain, backend="cuesta"), inputs, 2.5), truth)
        texts = [print_text(to_host(program)) for program in programs]
    assert found == [1] and ours[-1] <= 1.02 * eager[-1], (ours, eager)
    (forward,) = [text for text in texts if "addmm" in text]
    assert forward.count('"aten.addmm.dtype_out"') == PARTS - 1 and '"aten.addmm.dtype"' not in forward


@pytest.mark.parametrize("tangent", [0.0, -3.0, float("inf"), float("nan")])
@pytest.mark.every(3)
def test_any_tangent(tangent: float, found: list[int]) -> None:
    inputs = leaves(torch.float32)
    expected = loss_and_gradients(plain, inputs, tangent)
    actual = loss_and_gradients(compiled_of(plain), inputs, tangent)
    assert found == [1]
    for ours, theirs in zip(actual, expected, strict=True):
        if tangent == float("inf"):  # eager's sums of infinities of both signs are NaN, ours are one of them
            assert not ours.isfinite().any() or ours.dim() == 0
        else:
            torch.testing.assert_close(ours, theirs, equal_nan=True)


@pytest.mark.parametrize("loss", REFUSED)
def test_near_misses_stay_whole_and_right(loss: Loss, found: list[int]) -> None:
    inputs = leaves(torch.float32)
    torch.manual_seed(1)
    actual = loss_and_gradients(compiled_of(loss), inputs, 2.5)
    torch.manual_seed(1)
    expected = loss_and_gradients(loss, inputs, 2.5)
    assert found == [0]
    for ours, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_random_numbers_are_drawn_in_the_same_order() -> None:
    inputs = leaves(torch.float32)
    compiled = compiled_of(random_afterwards)
    for _ in range(2):
        torch.manual_seed(1)
        actual = [*loss_and_gradients(compiled, inputs, 2.5), torch.rand(3)]
        torch.manual_seed(1)
        for ours, theirs in zip(
            actual, [*loss_and_gradients(random_afterwards, inputs, 2.5), torch.rand(3)], strict=True
        ):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_half_precision_stays_whole(found: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tangents are large because gradients of 1 would be denormal."""
    monkeypatch.setattr(passes, "LEAST_BYTES", ROWS * COLUMNS * 2 // PARTS)
    loss_and_gradients(compiled_of(wide_with_what_does_not_count), leaves(torch.float16), 1.0)
    assert found == [0]


@pytest.mark.parametrize("rows", [2 * 127, 250, 262])
def test_rows_that_cannot_be_parted_evenly(rows: int, found: list[int]) -> None:
    inputs = leaves(torch.float32, rows)
    actual = loss_and_gradients(compiled_of(smoothed_and_capped), inputs, 1.0)
    assert found == [1]
    for ours, theirs in zip(actual, loss_and_gradients(smoothed_and_capped, inputs, 1.0), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_a_graph_that_writes_to_an_argument_is_right() -> None:
    """Parts stand at the end of a graph: they would read what was written meanwhile."""

    def run(is_compiled: bool) -> list[Tensor]:
        offset, inputs = torch.linspace(0, 1, COLUMNS), leaves(torch.float32)

        def shifted(x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
            loss = F.cross_entropy(logits_of(x, weight) + offset, target)
            with torch.no_grad():
                offset.mul_(3)
            return loss

        return [*loss_and_gradients(compiled_of(shifted) if is_compiled else shifted, inputs, 1.0), offset]

    for ours, theirs in zip(run(True), run(False), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_sizes_that_change_stay_whole(found: list[int]) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(plain, backend="cuesta", dynamic=True)
    for rows in (ROWS, 2 * ROWS):
        inputs = leaves(torch.float32, rows)
        for ours, theirs in zip(
            loss_and_gradients(compiled, inputs, 1.0), loss_and_gradients(plain, inputs, 1.0), strict=True
        ):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
    assert not any(found)


def test_nothing_is_as_large_as_the_whole(found: list[int], tmp_path: Any) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(plain, backend="cuesta", options={"dump": str(tmp_path)})
    loss_and_gradients(compiled, leaves(torch.float32), 1.0)
    texts = [path.read_text() for path in tmp_path.glob("*/*_kernel-to-host.mlir")]
    assert len(texts) == 2 and found == [1]
    assert not any(f"tensor<{ROWS}x{COLUMNS}x" in text for text in texts)
    assert any(f"tensor<{ROWS // PARTS}x{COLUMNS}x" in text for text in texts)


def test_of_many_large_products_the_last_ones_are_looked_at(found: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look goes through all that comes after a product: looking at all of them would be quadratic."""
    looks: list[str] = []
    original = passes._Region.around  # pyright: ignore[reportPrivateUsage]

    def around(graph: Any, product: Any, *rest: Any) -> Any:
        looks.append(product.name)
        return original(graph, product, *rest)

    monkeypatch.setattr(passes._Region, "around", staticmethod(around))  # pyright: ignore[reportPrivateUsage]

    def deep(x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
        hidden = x.view(-1, WIDTH)
        for _ in range(6):  # sums of columns: none of these can be taken apart
            large = hidden @ weight.t()
            hidden = (large - large.mean(0)).relu() @ weight / 100
        return F.cross_entropy(logits_of(hidden, weight), target)

    inputs = leaves(torch.float32)
    actual = loss_and_gradients(compiled_of(deep), inputs, 1.0)
    assert found == [0] and len(looks) == passes.MOST_TRIED
    for ours, theirs in zip(actual, loss_and_gradients(deep, inputs, 1.0), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("parts", [4, 8])
@pytest.mark.every(2)
def test_parts_share_their_kernels(parts: int, found: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """As many kernels, however many parts: where one begins was written into them."""
    monkeypatch.setattr(passes, "LEAST_BYTES", ROWS * COLUMNS * 2 // parts)
    monkeypatch.setattr(passes, "FEWEST", ROWS // parts)
    with interpreted_cuda(run_it=False) as programs:
        torch.compile(plain, backend="cuesta")(*leaves(torch.bfloat16))
    text = print_text(to_host(programs[0]))
    kernels = re.findall(r"kernel.func @(\w+)\(", text)
    launched = Counter(re.findall(r"host.launch @(\w+)\(", text))
    assert found == [1] and max(launched.values()) == parts
    assert len(kernels) <= 6 and set(launched) == set(kernels)
