"""Gradients: of every family of ops, of the usual layers and losses, under every mode of autograd."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn, randn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import cuesta
from tests.support.differential import check, check_call, compiled_of

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    cuesta.clear_records()


def leaf(*sizes: int) -> Tensor:
    return randn(*sizes, requires_grad=True)


# -- families of ops ---------------------------------------------------------------------------------------------------

ANY_NUMBER: tuple[Callable[[Tensor], Tensor], ...] = (
    torch.sin, torch.cos, torch.tanh, torch.exp, torch.sigmoid, torch.atan, torch.erf, torch.erfc, torch.square,
    torch.abs, torch.sinh, torch.expm1, torch.neg, torch.nan_to_num, lambda x: x**3, lambda x: x.clamp(-0.5, 0.5),
)  # fmt: skip
POSITIVE_NUMBERS: tuple[Callable[[Tensor], Tensor], ...] = (
    torch.log, torch.sqrt, torch.rsqrt, torch.log1p, torch.reciprocal, torch.log2, torch.log10, torch.lgamma,
)  # fmt: skip
ACTIVATIONS: tuple[Callable[[Tensor], Tensor], ...] = (
    F.relu, F.gelu, F.silu, F.elu, F.selu, F.celu, F.softplus, F.mish, F.hardswish, F.hardsigmoid, F.hardtanh,
    F.leaky_relu, F.relu6, F.softsign, F.logsigmoid, F.hardshrink, F.softshrink, F.tanhshrink, F.glu,
    lambda x: F.gelu(x, approximate="tanh"), lambda x: F.threshold(x, 0.1, 0.2),
)  # fmt: skip


def test_pointwise_ops_of_one_tensor() -> None:
    def function(x: Tensor) -> list[Tensor]:
        return [op(x) for op in ANY_NUMBER] + [op(x.abs() + 0.5) for op in POSITIVE_NUMBERS]

    check(function, leaf(5, 6))


def test_activations() -> None:
    check(lambda x: [op(x) for op in ACTIVATIONS], leaf(5, 6))


def test_pointwise_ops_of_several_tensors() -> None:
    def function(x: Tensor, y: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        plain = (x + b, x * b, x / (y.abs() + 1), x - 2 * b, x.pow(2) * y, torch.addcmul(x, y, y, value=0.5), x % 2.0)
        chosen = (torch.maximum(x, y), torch.minimum(x, b), torch.where(x > 0, x, y), torch.fmax(x, y), x.clamp(min=b))
        curved = (
            torch.atan2(x, y),
            torch.hypot(x, y),
            torch.logaddexp(x, y),
            (x.abs() + 0.5) ** y,
            torch.lerp(x, y, 0.3),
        )
        return *plain, *chosen, *curved, torch.stack([x, y]), torch.cat([x, y], 1), x.T @ y, x @ b, torch.outer(b, b)

    check(function, leaf(5, 6), leaf(5, 6), leaf(6))


def test_reductions() -> None:
    def function(x: Tensor) -> tuple:
        sums = (x.sum(), x.mean(0), x.var(1), x.std(), x.prod(1), x.cumsum(1), x.norm(), x.norm(dim=1), F.normalize(x))
        extremes = (x.amax(1), x.amin(0), x.max(1), x.min(), x.median(), x.sort(1), x.topk(2), x.aminmax(dim=1))
        return (
            *sums,
            *extremes,
            x.logsumexp(1),
            F.softmax(x, 0),
            F.log_softmax(x, 1),
            x.softmax(-1, dtype=torch.float64),
        )

    check(function, leaf(4, 6))


def test_views_and_copies() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        views = (x.view(2, 12) * 2, x.t() + 1, x[1:, ::2] * 3, x.expand(2, 4, 6) * 1.5, x.permute(1, 0).reshape(-1))
        parts = (
            x.narrow(1, 1, 2).exp(),
            x.select(0, 1) * 2,
            x.split(2, 1)[1].sin(),
            x.unbind(0)[2] * 2,
            x.chunk(3, 1)[0] * 1,
        )
        moved = (x.flip(0) * 2, x.roll(1, 0), x.repeat(2, 1), x.diagonal() * 2, x.unfold(1, 3, 2) * 2, x.tril())
        padded = (F.pad(x, (1, 2)), F.pad(x, (1, -1), value=3.0), torch.stack([x, y], -1).flatten(1) * 2)
        indexed = (
            x[[0, 2, 2]],
            x.index_select(0, torch.tensor([1, 1])),
            x.gather(1, torch.zeros(4, 2, dtype=torch.long)),
        )
        return *views, *parts, *moved, *padded, *indexed, x.masked_fill(x > 0, 0)

    check(function, leaf(4, 6), leaf(4, 6))


# -- layers and losses -------------------------------------------------------------------------------------------------


class Tied(nn.Module):
    """An embedding whose weight is also that of the last layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 6, padding_idx=1)
        self.last = nn.Linear(6, 10, bias=False)
        self.last.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.last(F.layer_norm(self.embedding(tokens), (6,)))


@pytest.mark.parametrize(
    ("make", "inputs"),
    [
        (lambda: nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3)), (leaf(4, 6),)),
        (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)), (leaf(2, 3, 8, 8),)),
        (lambda: nn.BatchNorm1d(4, momentum=0.2), (leaf(6, 4),)),
        (lambda: nn.Sequential(nn.GroupNorm(2, 4), nn.SiLU(), nn.InstanceNorm2d(4, affine=True)), (leaf(2, 4, 3, 5),)),
        (lambda: nn.RMSNorm(6), (leaf(4, 6),)),
        (Tied, (torch.tensor([[1, 2, 3], [3, 3, 0]]),)),
        (lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), (leaf(2, 5, 8),)),
        (lambda: nn.LSTMCell(4, 5), (leaf(3, 4),)),
    ],
    ids=["perceptron", "batch_norm_2d", "batch_norm_1d", "group_norm", "rms_norm", "tied", "transformer", "lstm"],
)
def test_layer(make: Callable[[], nn.Module], inputs: tuple[Tensor, ...]) -> None:
    # Drawn again from the seed: what was drawn at import depends on what was imported before.
    again = (torch.randn_like(x).requires_grad_(x.requires_grad) if x.is_floating_point() else x for x in inputs)
    check(make(), *again)


def test_channels_last_layers() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.AvgPool2d(2))
    x = randn(2, 3, 8, 8).to(memory_format=torch.channels_last).requires_grad_()
    check(model.to(memory_format=torch.channels_last), x)  # pyright: ignore[reportCallIssue]  # torch's stubs


def test_losses() -> None:
    def function(x: Tensor, target: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
        y, p = weight.expand(5, 7).clamp(0, 1), torch.sigmoid(x)
        entropies = (
            F.cross_entropy(x, target),
            F.cross_entropy(x, target, weight=weight),
            F.cross_entropy(x, y.softmax(1)),
        )
        variants = [F.cross_entropy(x, target, reduction=reduction) for reduction in ("none", "sum")]
        smoothed = (F.cross_entropy(x, target, label_smoothing=0.1), F.nll_loss(F.log_softmax(x, 1), target))
        distances = (F.mse_loss(x, y), F.l1_loss(x, y), F.smooth_l1_loss(x, y), F.huber_loss(x, y))
        binary = (F.binary_cross_entropy(p, y), F.binary_cross_entropy_with_logits(x, y))
        others = (F.kl_div(F.log_softmax(x, 1), y.softmax(1), reduction="batchmean"), F.cosine_similarity(x, y))
        return *entropies, *variants, *smoothed, *distances, *binary, *others

    check(function, leaf(5, 7), torch.tensor([0, 6, -100, 3, 2]), torch.rand(7) + 0.1)


def test_attention() -> None:
    def function(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        plain = F.scaled_dot_product_attention(q, k, v)
        causal = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        masked = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        biased = F.scaled_dot_product_attention(q, k, v, attn_mask=mask.float())
        return plain, causal, masked, biased, F.scaled_dot_product_attention(q[:, :, :3], k, v, scale=0.3)

    q, k, v = (leaf(2, 4, 5, 8) for _ in range(3))
    check(function, q, k, v, (randn(5, 5) > 0) | torch.eye(5, dtype=torch.bool))


def test_convolutions_and_pooling() -> None:
    def function(x: Tensor, weight: Tensor, bias: Tensor, deep: Tensor, line: Tensor) -> tuple[Tensor, ...]:
        y = F.conv2d(x, weight, bias)
        strided = (F.conv2d(x, weight, bias, stride=2, padding=1), F.conv2d(x, weight, None, dilation=2))
        others = (F.conv_transpose2d(y, weight, stride=2), F.conv2d(x, deep, groups=3), F.conv1d(line, weight[..., 0]))
        pooled = (
            F.max_pool2d(x, 3, 2, 1),
            F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
            F.adaptive_avg_pool2d(x, 3),
        )
        scaled = (
            F.interpolate(x, scale_factor=2),
            F.interpolate(x, scale_factor=2, mode="bilinear"),
            F.pixel_shuffle(y, 2),
        )
        return y, *strided, *others, *pooled, *scaled, F.pad(x, (1, 1, 1, 1), mode="reflect"), F.unfold(x, 2)

    check(function, leaf(2, 3, 8, 8), leaf(4, 3, 3, 3), leaf(4), leaf(3, 1, 3, 3), leaf(2, 3, 9))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_other_precisions(dtype: torch.dtype) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 4)).to(dtype)
    check(model, randn(4, 8).to(dtype))
    check(lambda q: F.scaled_dot_product_attention(q, q, q), randn(2, 2, 5, 8).to(dtype).requires_grad_())


# -- modes of autograd -------------------------------------------------------------------------------------------------


def test_with_and_without_gradients() -> None:
    model = nn.Linear(4, 3)
    compiled = compiled_of(function := lambda x: F.relu(model(x)).sum())
    x = randn(5, 4)
    compiled(x).backward()
    with torch.no_grad():
        assert not compiled(x).requires_grad
    with torch.inference_mode():
        assert compiled(x).is_inference()
        torch.testing.assert_close(compiled(x.clone()), function(x))
    compiled(x).backward()
    accumulated, model.weight.grad = model.weight.grad, None
    (2 * function(x)).backward()
    torch.testing.assert_close(accumulated, model.weight.grad)


def test_the_graph_may_be_kept() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    y = compiled_of(model)(x := randn(3, 4))
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    twice = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    (2 * model(x).sum()).backward()
    torch.testing.assert_close(twice, [parameter.grad for parameter in model.parameters()])
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()


def test_writing_to_a_parameter_without_gradients() -> None:
    def function(x: Tensor, average: Tensor) -> Tensor:
        with torch.no_grad():
            average.mul_(0.9).add_(x, alpha=0.1)
        return (x * average.detach()).sum()

    check(function, leaf(4), randn(4))


@pytest.mark.parametrize(
    "change",
    [
        lambda state, x: state.add_(1),
        lambda state, x: state.copy_(state.sin()),
        lambda state, x: state[1:].zero_(),
        lambda state, x: state.copy_(x.detach()[0]),
        lambda state, x: state.data.mul_(2),
    ],
)
@pytest.mark.parametrize(
    "read", [lambda s: s.clone(), lambda s: s.clone().view(2, 2).t().reshape(4), lambda s: s.expand(3, 4).clone()]
)
@pytest.mark.covering
def test_a_buffer_saved_for_backward_and_then_changed(
    read: Callable[[Tensor], Tensor], change: Callable[[Tensor, Tensor], Tensor]
) -> None:
    def function(x: Tensor, weight: Tensor, state: Tensor) -> Tensor:
        y = (x * weight * read(state)).sin()
        change(state, x)
        return y + read(state)

    check(function, leaf(3, 4), leaf(4), randn(4))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: torch.linalg.inv(x) @ y,
        torch.linalg.solve,
        lambda x, y: torch.linalg.cholesky(x @ x.mT + torch.eye(4)) @ y.sigmoid(),
        lambda x, y: torch.linalg.lu_factor(x)[0] * 2,
        lambda x, y: torch.linalg.inv(torch.linalg.inv(x).tanh() + 3 * torch.eye(4)),
        lambda x, y: (torch.linalg.inv(x), y[1:], x.view(-1)),
    ],
)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.covering
def test_gradients_of_what_may_raise(function: Callable[[Tensor, Tensor], Any], dynamic: bool) -> None:
    """Such calls take and give tokens, which keep them in order; AOTAutograd counts inputs and results without them."""
    x = (torch.eye(4) * 3 + torch.randn(4, 4) * 0.3).double().requires_grad_()
    compiled = compiled_of(function, dynamic=dynamic)
    check_call(compiled, function, x, torch.randn(4, 5).double().requires_grad_())
    check_call(compiled, function, x.detach(), torch.randn(4, 6).double())


def test_what_may_raise_does() -> None:
    compiled = compiled_of(torch.linalg.inv)
    compiled(torch.eye(3).requires_grad_()).sum().backward()
    with pytest.raises(RuntimeError, match="singular"):
        compiled(torch.zeros(3, 3).requires_grad_())


def test_a_buffer_saved_beside_what_may_raise_and_then_changed() -> None:
    def function(x: Tensor, weight: Tensor, state: Tensor) -> Tensor:
        y = torch.linalg.inv(x) @ (weight * state.clone()).sin()
        state.mul_(2)
        return y * state.clone()

    weight, state = torch.randn(4, 4, dtype=torch.float64, requires_grad=True), torch.randn(4, 4, dtype=torch.float64)
    check(function, (torch.eye(4) * 3).double().requires_grad_(), weight, state, truth=False)


def test_an_input_saved_for_backward_and_then_changed() -> None:
    def hidden(x: Tensor, weight: Tensor) -> Tensor:
        y = (x * weight.clone()).sin()
        with torch.no_grad():
            weight.mul_(2)
        return y

    def seen(x: Tensor, weight: Tensor) -> Tensor:
        moved = x * 1.5
        y = moved.clone() * weight
        moved.mul_(2)
        return y + moved.sin()

    check(hidden, leaf(3, 4), leaf(4))
    check(seen, leaf(3, 4), leaf(4))


def test_an_input_saved_for_backward_and_changed_where_autograd_sees_it() -> None:
    def function(x: Tensor, weight: Tensor) -> Tensor:
        y = x.clone() * weight
        x.mul_(2)
        return y * y

    leaves = leaf(4), leaf(4)
    twins = [one.detach().clone().requires_grad_() for one in leaves]
    for (x, weight), run in ((leaves, function), (twins, compiled_of(function))):
        run(x * 1, weight).sum().backward()
    for actual, expected in zip(twins, leaves, strict=True):
        torch.testing.assert_close(actual.grad, expected.grad)


@pytest.mark.parametrize("saved", ("weight.t()", "weight[:, :2]", "weight.view(-1).view(4, 4)"))
def test_a_view_of_an_input_saved_for_backward_and_then_changed_is_an_error(saved: str) -> None:
    function = eval(f"lambda x, weight: (x @ {saved}).sin()")
    for run in (function, compiled_of(function)):
        x, weight = leaf(4, 4), leaf(4, 4)
        result = run(x, weight)
        with torch.no_grad():
            weight.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.sum().backward()


def test_spectral_normalisation() -> None:
    model = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))
    twin = copy.deepcopy(model)
    compiled = compiled_of(model)
    x = randn(3, 4)
    for _ in range(3):
        for one in (compiled, twin):
            one.zero_grad()
            one(x).square().sum().backward()
        torch.testing.assert_close(
            [p.grad for p in model.parameters()], [p.grad for p in twin.parameters()], rtol=1e-4, atol=1e-5
        )
    torch.testing.assert_close(dict(model.named_buffers()), dict(twin.named_buffers()))


def test_optimizer_steps() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    twin = copy.deepcopy(model)
    x = randn(8, 4)
    for trained, parameters in ((compiled_of(model), model.parameters()), (twin, twin.parameters())):
        optimizer = torch.optim.AdamW(parameters, lr=0.1)
        for _ in range(4):
            optimizer.zero_grad()
            trained(x).square().mean().backward()
            optimizer.step()
    torch.testing.assert_close(list(model.parameters()), list(twin.parameters()), rtol=1e-4, atol=1e-5)


def test_a_compiled_optimizer_step() -> None:
    parameters = [leaf(3, 4), leaf(5)]
    twins = [parameter.detach().clone().requires_grad_() for parameter in parameters]
    for own in (parameters, twins):
        optimizer = torch.optim.Adam(own, lr=0.1)
        step = torch.compile(optimizer.step, backend="cuesta") if own is parameters else optimizer.step
        for number in range(3):
            for parameter in own:
                parameter.grad = torch.full_like(parameter, number - 0.5)
            step()
    torch.testing.assert_close(parameters, twins)


def test_autocast() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 4))
    compiled, x = compiled_of(model), leaf(4, 8)
    gradients: list[list[Tensor]] = []
    for function in (compiled, model):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = function(x)
        assert y.dtype == torch.bfloat16
        gradients.append([y.detach(), *torch.autograd.grad(y.float().square().sum(), [x, *model.parameters()])])
    for actual, expected in zip(*gradients, strict=True):
        assert actual.dtype == expected.dtype
        assert (actual - expected).norm() < 0.02 * expected.norm()  # both round to bf16, at other places


def test_random_numbers_in_training() -> None:
    def function(x: Tensor, weight: Tensor) -> Tensor:
        return F.dropout(F.linear(F.dropout(x, 0.3), weight), 0.5).sum()

    check(function, leaf(6, 8), leaf(4, 8), seed=3, truth=False)


def test_custom_functions_checkpoints_and_hooks() -> None:
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: Tensor) -> Tensor:
            context.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(context: Any, gradient: Tensor) -> Tensor:
            return gradient * 3 + context.saved_tensors[0]

    linear = nn.Linear(4, 4)

    def function(x: Tensor) -> Tensor:
        inner = checkpoint(lambda y: F.gelu(linear(y)), x, use_reentrant=False)
        return Doubled.apply(inner) + 1

    check(function, leaf(3, 4), truth=False)
    seen: list[Tensor] = []
    y = compiled_of(lambda x: x.sin() * 2)(leaf(3))
    y.register_hook(seen.append)
    y.sum().backward()
    assert len(seen) == 1


def test_functional_transforms() -> None:
    gradient = torch.func.grad(lambda x: (x**3).sum())
    check(lambda x: (gradient(x), torch.vmap(lambda row: row.softmax(0))(x)), randn(3, 4))


def test_another_size_is_another_program() -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8))
    compiled = compiled_of(model)
    for size in (4, 7, 1, 9):
        check_call(compiled, model, leaf(size, 6), unit_strides=False)


@pytest.mark.parametrize("dim", [1, 3])
def test_the_gradient_of_a_gated_unit_lies_row_major(dim: int) -> None:
    """As eager's, whatever its argument and the gradient that it is given lie like."""
    compiled = torch.compile(lambda x: F.glu(x, dim), backend="cuesta")
    for order, given in ((torch.channels_last, torch.contiguous_format), (torch.channels_last, torch.channels_last)):
        x = randn(3, 8, 4, 2).contiguous(memory_format=order).requires_grad_()
        expected = F.glu(x, dim)
        gradient = torch.randn_like(expected).contiguous(memory_format=given)
        (ours,) = torch.autograd.grad(compiled(x), x, gradient)
        (eager,) = torch.autograd.grad(expected, x, gradient)
        torch.testing.assert_close(ours, eager)
        assert ours.stride() == eager.stride()
