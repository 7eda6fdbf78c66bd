"""The referee itself: it passes what is right, and fails what is subtly wrong."""

from __future__ import annotations

import pytest
import torch

from cuesta.testing import assert_close_to_float64, compare


def test_the_same_function_passes() -> None:
    comparisons = assert_close_to_float64(torch.tanh, torch.tanh, [torch.randn(100, requires_grad=True)])
    assert [one.name for one in comparisons] == [
        "output",
        "gradient of input[0]",
        "differentiable",
        "input[0] afterwards",
        "shared memory",
    ]
    assert 0 < comparisons[0].eager_largest < 1e-6


def test_a_wrong_value_fails_with_its_name() -> None:
    with pytest.raises(AssertionError, match="FAIL output: max error"):
        assert_close_to_float64(lambda x: x.exp() + 1e-4, torch.exp, [torch.randn(100)])


def test_a_wrong_gradient_fails() -> None:
    def wrong(x: torch.Tensor) -> torch.Tensor:
        return x * x.detach()

    with pytest.raises(AssertionError, match=r"gradient of input\[0\]"):
        assert_close_to_float64(wrong, torch.square, [torch.randn(8, requires_grad=True)])


def test_module_gradients_and_buffers() -> None:
    model = torch.nn.BatchNorm1d(4)
    names = {one.name for one in assert_close_to_float64(model, model, [torch.randn(16, 4)])}
    assert {"gradient of weight", "gradient of bias", "buffer running_mean afterwards"} <= names
    assert torch.equal(model.running_mean, torch.zeros(4))  # pyright: ignore[reportArgumentType]


def test_a_forgotten_mutation_fails() -> None:
    with pytest.raises(AssertionError, match=r"input\[0\] afterwards"):
        assert_close_to_float64(lambda x: x + 1, lambda x: x.add_(1), [torch.randn(4)])


def test_another_relation_to_the_inputs_fails() -> None:
    """What eager returns as a view must be one, and what eager copies must not."""
    with pytest.raises(AssertionError, match="shared memory"):
        assert_close_to_float64(lambda x: x[0].clone(), lambda x: x[0], [torch.randn(3, 4)])
    with pytest.raises(AssertionError, match="shared memory"):
        assert_close_to_float64(lambda x: x[0], lambda x: x[0].clone(), [torch.randn(3, 4)])
    assert_close_to_float64(lambda x: x[0], lambda x: x[0], [torch.randn(3, 4)])


def test_a_lost_gradient_fails() -> None:
    with pytest.raises(AssertionError):
        assert_close_to_float64(lambda x: (x + 1).detach(), lambda x: x + 1, [torch.randn(3, requires_grad=True)])


def test_float32_inside_the_model_does_not_spoil_the_truth() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.float32).exp().to(x.dtype)

    (output, *_) = assert_close_to_float64(function, function, [torch.randn(1000)])
    assert output.eager_largest > 0


def test_metadata_must_be_eagers() -> None:
    x = torch.randn(3, 4)
    assert compare("x", x.t().contiguous().t(), x, x.double()).problem == "strides (1, 3), eager (4, 1)"
    assert compare("x", x.t().contiguous().t(), x, x.double(), strides=False).passes
    assert compare("x", x.double(), x, x.double()).problem == "dtype torch.float64, eager torch.float32"
    assert not compare("x", x[:2], x, x.double()).passes
    assert not compare("x", None, x, x.double()).passes


def test_integers_are_exact_and_plain_values_equal() -> None:
    assert compare("x", torch.tensor([1, 2]), torch.tensor([1, 2]), None).passes
    assert not compare("x", torch.tensor([1, 3]), torch.tensor([1, 2]), None).passes
    assert compare("x", float("nan"), float("nan"), 0.0).passes
    assert not compare("x", 1, True, True).passes


def test_non_finite_values() -> None:
    nan, inf = float("nan"), float("inf")
    eager = torch.tensor([nan, inf, 1.0])
    assert compare("x", eager.clone(), eager, eager.double()).passes
    assert not compare("x", torch.tensor([0.0, inf, 1.0]), eager, eager.double()).passes
    assert not compare("x", torch.tensor([nan, -inf, 1.0]), eager, eager.double()).passes
    assert not compare("x", torch.tensor([nan, inf, inf]), eager, eager.double()).passes
    overflowed = torch.tensor([inf], dtype=torch.float16)
    assert compare("x", torch.tensor([65504.0]).half(), overflowed, torch.tensor([65500.0]).double()).passes


def test_a_finite_result_where_eager_overflows_is_held_to_the_truth() -> None:
    eager, truth = torch.tensor([1.0, torch.inf]).half(), torch.tensor([1.0, 60_000.0]).double()
    assert compare("x", truth.half(), eager, truth).passes
    assert not compare("x", torch.tensor([1.0, 40_000.0]).half(), eager, truth).passes
    assert compare("x", eager, eager, truth).passes


def test_overlapping_and_offset_inputs_keep_their_memory() -> None:
    seen = []

    def function(x: torch.Tensor) -> torch.Tensor:
        seen.append((x.stride(), x.storage_offset()))
        return x * 2

    assert_close_to_float64(function, function, [torch.randn(10)[2:6].expand(3, 4)])
    assert seen == [((0, 1), 2)] * 3


def test_the_largest_error_of_noise_is_a_draw() -> None:
    """Of what is 0 in truth; of numbers with digits it counts as it is."""
    noise = torch.full((64,), 1e-9)
    ours = noise * 2
    ours[5] = 11e-9
    zero = torch.zeros(64, dtype=torch.float64)
    assert compare("x", ours, noise, zero).passes
    assert not compare("x", ours * 1.2, noise, zero).passes  # the largest is beyond even that
    assert not compare("x", torch.full((64,), 3.1e-9), noise, zero).passes  # the root mean square is compared as always
    one = torch.ones(64, dtype=torch.float64)
    assert not compare("x", 1 + ours * 1e4, 1 + noise * 1e4, one, ulps=0.0).passes
