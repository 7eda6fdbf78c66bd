"""Softmax, norms, pooling, losses, and their derivatives, against torch."""

from __future__ import annotations

import math

import pytest
import torch

aten = torch.ops.aten
DTYPES = [torch.float32, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_softmax(lower, dim, dtype):
    x = torch.randn(3, 4, 5).to(dtype)
    lower(lambda x: (torch.softmax(x, dim), torch.log_softmax(x, dim)), x)
    assert lower.ops() == ["loops.nest", "loops.nest"]


def test_softmax_of_special_rows(lower):
    inf, nan = math.inf, math.nan
    x = torch.tensor([[0.0, -inf, 1.0], [-inf, -inf, -inf], [nan, 0.0, 1.0], [inf, 0.0, 1.0], [1e30, -1e30, 0.0]])
    lower(lambda x: (torch.softmax(x, -1), torch.log_softmax(x, -1)), x)


def test_softmax_of_a_scalar_and_of_symbolic_sizes(lower):
    lower(lambda x: torch.softmax(x, 0), torch.tensor(3.0))
    lower(lambda x: torch.softmax(x, 1), torch.randn(3, 7), dynamic=True)
    lower(lambda x: torch.softmax(x, 1, dtype=torch.float32), torch.randn(3, 7).bfloat16())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_softmax_backward(lower, dtype):
    g, y = torch.randn(3, 4, 5).to(dtype), torch.softmax(torch.randn(3, 4, 5), 1).to(dtype)
    lower(lambda g, y: aten._softmax_backward_data(g, y, 1, dtype), g, y)
    lower(lambda g, y: aten._log_softmax_backward_data(g, y.log(), 1, dtype), g, y)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(5,), (4, 5)], ids=str)
@pytest.mark.parametrize("affine", [True, False])
def test_layer_norm_and_its_derivative(lower, shape, affine, dtype):
    x, w, b = torch.randn(3, 4, 5).to(dtype), torch.randn(shape).to(dtype), torch.randn(shape).to(dtype)
    if not affine:
        w = b = None

    def forward(x):
        return aten.native_layer_norm(x, shape, w, b, 1e-5)

    if not affine:
        lower(forward, x)
        return
    lower(lambda x, w, b: aten.native_layer_norm(x, shape, w, b, 1e-5), x, w, b)
    assert lower.ops() == ["loops.nest"]
    _, mean, scale = forward(x)
    g = torch.randn_like(x)
    lower(
        lambda g, x, m, s, w, b: aten.native_layer_norm_backward(g, x, shape, m, s, w, b, [True, True, True]),
        g, x, mean, scale, w, b,
        rtol=2e-2 if dtype == torch.bfloat16 else 1e-5, atol=2e-2 if dtype == torch.bfloat16 else 1e-5,
    )  # fmt: skip
    assert lower.ops() == ["loops.nest"] * 3


def test_layer_norm_backward_of_some_inputs(lower):
    x, w, b = torch.randn(3, 5), torch.randn(5), torch.randn(5)
    _, mean, scale = aten.native_layer_norm(x, [5], w, b, 1e-5)
    lower(
        lambda g, x, m, s, w, b: aten.native_layer_norm_backward(g, x, [5], m, s, w, b, [True, False, True])[::2],
        torch.randn_like(x), x, mean, scale, w, b,
        rtol=1e-5, atol=1e-5,
    )  # fmt: skip


@pytest.mark.parametrize("epsilon", [None, 1e-6])
def test_rms_norm(lower, epsilon):
    x, w = torch.randn(3, 4, 5), torch.randn(5)
    lower.call("_fused_rms_norm.default", x, [5], w, epsilon)
    _, scale = aten._fused_rms_norm(x, [5], w, epsilon)
    g = torch.randn_like(x)
    x.requires_grad_(), w.requires_grad_()
    expected = torch.autograd.grad(torch.rms_norm(x, [5], w, epsilon), (x, w), g)
    arguments = (g, x.detach(), [5], scale.detach(), w.detach(), [True, True])
    lower.call("_fused_rms_norm_backward.default", *arguments, expected=expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(4, 6), (4, 6, 5), (2, 6, 3, 4)], ids=str)
def test_batch_norm(lower, shape):
    x, (w, b, mean, variance) = torch.randn(shape), [torch.rand(6) + 0.5 for _ in range(4)]
    lower(
        lambda x, w, b, m, v: aten._native_batch_norm_legit_functional(x, w, b, m, v, True, 0.1, 1e-5),
        x, w, b, mean, variance, rtol=1e-5, atol=1e-5,
    )  # fmt: skip
    assert lower.ops() == ["loops.nest"]
    lower.call("_native_batch_norm_legit_no_training.default", x, w, b, mean, variance, 0.1, 1e-5)


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_backward(lower, training):
    x, (w, b, mean, variance) = torch.randn(2, 6, 3, 4), [torch.rand(6) + 0.5 for _ in range(4)]
    _, m, s = aten.native_batch_norm(x, w, b, mean.clone(), variance.clone(), training, 0.1, 1e-5)
    arguments = (torch.randn_like(x), x, w, mean, variance, m, s, training, 1e-5, [True] * 3)
    lower.call("native_batch_norm_backward.default", *arguments, rtol=1e-5, atol=1e-5)


def test_batch_norm_of_symbolic_sizes(lower):
    x, (w, b, mean, variance) = torch.randn(3, 6, 4, 4), [torch.rand(6) + 0.5 for _ in range(4)]
    lower(
        lambda x, w, b, m, v: aten._native_batch_norm_legit_functional(x, w, b, m, v, True, 0.1, 1e-5),
        x, w, b, mean, variance, dynamic=True, rtol=1e-5, atol=1e-5,
    )  # fmt: skip


@pytest.mark.parametrize("shape", [(2, 6), (2, 6, 5), (2, 6, 3, 4)], ids=str)
@pytest.mark.parametrize("groups", [1, 3])
def test_group_norm(lower, shape, groups):
    x, w, b = torch.randn(shape), torch.randn(6), torch.randn(6)
    count = math.prod(shape[2:])
    if len(shape) == 2 and groups == 6:
        pytest.skip("groups of one element")
    lower(lambda x, w, b: aten.native_group_norm(x, w, b, 2, 6, count, groups, 1e-5), x, w, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "window", [(2, 2, 0, 1, False), (3, 2, 1, 1, False), (3, 2, 1, 1, True), ((3, 2), (1, 2), 0, 2, False)], ids=str
)
def test_max_pool(lower, window, dtype):
    x = torch.randn(2, 3, 9, 8).to(dtype)
    lower.call("max_pool2d_with_indices.default", x, *_pairs(window))
    lower.call("max_pool2d_with_indices.default", x[0], *_pairs(window))


def test_max_pool_of_minus_infinity_points_into_the_source(lower):
    lower(lambda x: aten.max_pool2d_with_indices(x, [3, 3], [2, 2], [1, 1]), torch.full((1, 1, 4, 4), -math.inf))


@pytest.mark.parametrize(
    "window", [(2, 2, 0, 1, False), (3, 2, 1, 1, False), (3, 1, 1, 1, False), (2, 3, 0, 1, True)], ids=str
)
def test_max_pool_backward(lower, window):
    x = torch.randn(2, 3, 9, 8)
    y, indices = aten.max_pool2d_with_indices(x, *_pairs(window))
    lower.call("max_pool2d_with_indices_backward.default", torch.randn_like(y), x, *_pairs(window), indices)


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("window", [(2, 2, 0, False), (3, 2, 1, False), (3, 2, 1, True)], ids=str)
def test_average_pool(lower, window, include):
    kernel, stride, padding, ceil = window
    x = torch.randn(2, 3, 8, 8)
    for divisor in (None, 5):
        arguments = ([kernel] * 2, [stride] * 2, [padding] * 2, ceil, include, divisor)
        lower.call("avg_pool2d.default", x, *arguments)


def test_adaptive_average_pool(lower):
    lower(lambda x: aten._adaptive_avg_pool2d(x, [2, 4]), torch.randn(2, 3, 8, 8))
    lower(lambda x: aten._adaptive_avg_pool2d(x, [3, 3]), torch.randn(2, 3, 8, 8))


def _pairs(window):
    kernel, stride, padding, dilation, ceil = window
    pairs = [list(value) if isinstance(value, tuple) else [value] * 2 for value in (kernel, stride, padding, dilation)]
    return *pairs, ceil


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("weighted", [True, False])
def test_nll_loss(lower, reduction, weighted):
    x, target = torch.log_softmax(torch.randn(5, 4), 1), torch.tensor([0, 3, -100, 2, 1])
    weight = torch.rand(4) + 0.5
    total = aten.nll_loss_forward(x, target, weight if weighted else None, reduction, -100)[1]
    g = torch.randn(5) if reduction == 0 else torch.randn(())
    weight = weight if weighted else None
    lower.call("nll_loss_forward.default", x, target, weight, reduction, -100)
    lower.call("nll_loss_backward.default", g, x, target, weight, reduction, -100, total)


def test_nll_loss_of_one_sample(lower):
    lower(lambda x, t: aten.nll_loss_forward(x, t, None, 1, -100), torch.randn(4), torch.tensor(2))
