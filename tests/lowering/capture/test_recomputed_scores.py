"""What lies between two products is computed again: the joint graph means the same, and less of it is saved."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
from functorch.compile import aot_function, min_cut_rematerialization_partition
from torch import Tensor
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import CheckpointPolicy

from cuesta.lowering.capture import recomputed_scores
from cuesta.lowering.capture.decompositions import decomposition_table
from cuesta.lowering.capture.equal_nodes import merge_equal_nodes
from cuesta.lowering.capture.keyed_draws import IsKeyed, no_keys
from cuesta.lowering.capture.recomputed_scores import key_draws, recompute_scores, save_logarithms
from cuesta.targets.reference.keyed_draws import bernoulli, define_operators

ROWS, KEYS, WIDTH = 96, 80, 32
Attention = Callable[[Tensor, Tensor, Tensor], Any]


def of_which_one_is_quick(first: Attention, *others: Attention) -> list[Any]:
    """The first is run between edits, all of them by `make test`."""
    return [first, *(pytest.param(one, marks=pytest.mark.slow, id=one.__name__) for one in others)]


@pytest.fixture(autouse=True)
def matrix_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU has none; the graphs are the same."""
    monkeypatch.setattr(recomputed_scores, "has_matrix_units", lambda device: True)


def leaves(dtype: torch.dtype = torch.bfloat16) -> list[Tensor]:
    torch.manual_seed(0)
    shapes = ((2, 3, ROWS, WIDTH), (2, 3, KEYS, WIDTH), (2, 3, KEYS, WIDTH))
    return [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]


def everywhere(device: torch.device) -> bool:
    """Draws may get keys on any device."""
    return True


KEY = torch.tensor([0x123456789ABCDEF])
"""What a graph draws in f64."""


def captured(
    function: Attention, keyed: IsKeyed = no_keys
) -> tuple[int, list[GraphModule], list[Tensor], list[Tensor]]:
    """Between how many products of a function's graph is something computed again; the forward and the backward graph;
    results and gradients without and with that, in f64.
    """
    found: list[int] = []
    graphs: list[GraphModule] = []

    def partition(gm: GraphModule, arguments: Any, *, num_fwd_outputs: int, **options: Any) -> Any:
        merge_equal_nodes(gm.graph)
        before = deepcopy(gm)
        define_operators()
        found.append(recompute_scores(gm, num_fwd_outputs, keyed))
        gm.graph.lint()
        joint[:] = before, deepcopy(gm)
        forward, backward = min_cut_rematerialization_partition(
            gm, arguments, num_fwd_outputs=num_fwd_outputs, **options
        )
        save_logarithms(forward, backward)
        graphs[:] = forward, backward
        return forward, backward

    joint: list[GraphModule] = []

    def take(gm: GraphModule, example_inputs: Any) -> Any:
        return make_boxed_func(gm)

    capture: Any = aot_function
    compiled = capture(
        function, fw_compiler=take, bw_compiler=take, partition_fn=partition, decompositions=decomposition_table()
    )
    result = compiled(*leaves())
    (result if isinstance(result, Tensor) else result[0]).float().square().sum().backward()
    torch.manual_seed(1)
    holes = joint[0].graph.find_nodes(op="placeholder")
    inputs = [torch.randn(tuple(one.meta["val"].shape), dtype=torch.float64) for one in holes]
    old, new = (in_f64(one, inputs) for one in joint)
    return found[0], graphs, old, new


def in_f64(gm: GraphModule, inputs: list[Any]) -> list[Tensor]:
    """What a graph means where nothing is rounded. Its draws are those of `KEY`, in order."""

    class Exact(torch.fx.Interpreter):
        draws = 0

        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            if str(target) == "cuesta.random_key.default":
                return KEY
            if target is torch.ops.aten.bernoulli.p:
                self.draws += 1
                return bernoulli(KEY, args[0].shape, args[1], self.draws)
            if kwargs.get("dtype") in (torch.bfloat16, torch.float32):
                kwargs = {**kwargs, "dtype": torch.float64}
            if target is torch.ops.aten._softmax.default:
                args = (*args[:2], False)
            return super().call_function(target, args, kwargs)

    return [one for one in tree_leaves(Exact(gm).run(*inputs)) if isinstance(one, Tensor)]


def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.transpose(-2, -1) * 0.2).softmax(-1) @ v


def in_f32(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = (q @ k.transpose(-2, -1)).float().masked_fill(torch.ones(ROWS, KEYS).triu(1).bool(), -torch.inf)
    return scores.softmax(-1).to(v.dtype) @ v


def sigmoids(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.sigmoid(q @ k.transpose(-2, -1)) @ v


@pytest.mark.parametrize("function", of_which_one_is_quick(plain, in_f32, sigmoids))
def test_graphs_mean_the_same_and_save_no_scores(function: Attention) -> None:
    found, (forward, backward), before, after = captured(function)
    assert found == 1
    assert len(before) == len(after) == 4
    for old, new in zip(before, after, strict=True):
        torch.testing.assert_close(new, old, rtol=1e-9, atol=1e-11)
    saved = [node.meta["val"] for node in backward.graph.find_nodes(op="placeholder")]
    assert all(one.numel() < 2 * 3 * ROWS * KEYS for one in saved)
    assert len(tree_leaves(forward.graph.output_node().args)) == 1 + len(saved) - 1


def test_one_number_of_a_row_is_saved() -> None:
    """m + log(l), and neither m nor l."""
    _, (forward, backward), _, _ = captured(plain)
    rows = [one for one in backward.graph.find_nodes(op="placeholder") if one.meta["val"].shape == (2, 3, ROWS, 1)]
    assert len(rows) == 1 and rows[0].meta["val"].dtype == torch.float32
    assert not any(node.target is torch.ops.aten.log.default for node in backward.graph.nodes)
    assert any(node.target is torch.ops.aten.log.default for node in forward.graph.nodes)


def test_the_sum_of_a_gradient_is_not_of_scores() -> None:
    """The gradient of a softmax sums what the product gave times its gradient: of rows of `WIDTH`, not of `KEYS`."""
    _, (_, backward), _, _ = captured(plain)
    (total,) = backward.graph.find_nodes(op="call_function", target=torch.ops.aten.sum.dim_IntList)
    (summed, *_) = total.all_input_nodes
    assert summed.meta["val"].shape == (6, ROWS, WIDTH)


def with_dropout(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.dropout((q @ k.transpose(-2, -1)).softmax(-1), 0.1, True) @ v


def dropout_in_f32(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = (q @ k.transpose(-2, -1)).float().masked_fill(torch.ones(ROWS, KEYS).triu(1).bool(), -torch.inf)
    return torch.dropout(scores.softmax(-1), 0.3, True).to(v.dtype) @ v


def dropped_scores(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.dropout(torch.tanh(q @ k.transpose(-2, -1)), 0.2, True).softmax(-1) @ v


def dropped_twice(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Two draws between two products, and a scale for each row between them."""
    weights = torch.dropout((q @ k.transpose(-2, -1)).softmax(-1), 0.1, True)
    return torch.dropout(weights * 3, 0.5, True) @ v


def two_layers(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return with_dropout(with_dropout(q, k, v).repeat(1, 1, 2, 1)[:, :, :ROWS], k, v)


@pytest.mark.parametrize(
    "function", of_which_one_is_quick(with_dropout, dropout_in_f32, dropped_scores, dropped_twice, two_layers)
)
def test_masks_are_drawn_again(function: Attention) -> None:
    """Of a key, which is saved: one number for all draws of a graph. The gradients are of the same masks."""
    found, (forward, backward), before, after = captured(function, everywhere)
    assert found == (2 if function is two_layers else 1)
    for old, new in zip(before, after, strict=True):
        torch.testing.assert_close(new, old, rtol=1e-9, atol=1e-11)
    saved = [node.meta["val"] for node in backward.graph.find_nodes(op="placeholder")]
    assert all(one.numel() < 2 * 3 * ROWS * KEYS for one in saved)
    assert [one.shape for one in saved if one.dtype == torch.int64] == [(1,)]
    (draws,) = {tuple(map(number_of, draws_of(graph))) for graph in (forward, backward)}
    assert draws == ((1,) if function in (with_dropout, dropout_in_f32, dropped_scores) else (1, 2))
    assert len(forward.graph.find_nodes(op="call_function", target=torch.ops.cuesta.random_key.default)) == 1
    assert not backward.graph.find_nodes(op="call_function", target=torch.ops.cuesta.random_key.default)


def draws_of(gm: GraphModule) -> list[Node]:
    """The draws of a key, by number."""
    return sorted(gm.graph.find_nodes(op="call_function", target=torch.ops.cuesta.bernoulli.default), key=number_of)


def number_of(draw: Node) -> Any:
    """Which draw of its graph it is."""
    return draw.args[3]


@pytest.mark.parametrize("function", of_which_one_is_quick(with_dropout, dropout_in_f32, dropped_twice))
def test_the_sum_of_a_gradient_is_not_of_scores_that_were_dropped(function: Attention) -> None:
    """p is multiplied by a mask and a scale, and so is its gradient: the sum of both is that of rows of `WIDTH`."""
    _, (_, backward), _, _ = captured(function, everywhere)
    (total,) = backward.graph.find_nodes(op="call_function", target=torch.ops.aten.sum.dim_IntList)
    (summed, *_) = total.all_input_nodes
    assert summed.meta["val"].shape == (6, ROWS, WIDTH)


@pytest.mark.parametrize("function", [plain, with_dropout])
def test_weights_are_only_ever_factors(function: Attention) -> None:
    """The gradient of a softmax is p · (h - t), not p · h - p · t: what is rounded as a product may be approximate."""
    _, (_, backward), _, _ = captured(function, everywhere)
    (total,) = backward.graph.find_nodes(op="call_function", target=torch.ops.aten.sum.dim_IntList)
    (difference,) = [user for view in total.users for user in view.users]
    assert difference.target is torch.ops.aten.sub.Tensor
    assert [user.target for user in difference.users] == [torch.ops.aten.mul.Tensor]


def test_draws_of_a_forward_pass_alone_get_keys_between_products() -> None:
    """Others stay: a kernel of their own makes four numbers of a call."""

    def function(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.dropout(with_dropout(q, k, v), 0.2, True)

    def keyed(gm: GraphModule, inputs: Any) -> Any:
        define_operators()
        found.append((key_draws(gm, everywhere), len(draws_of(gm))))
        found.append(len(gm.graph.find_nodes(op="call_function", target=torch.ops.aten.bernoulli.p)))
        return make_boxed_func(gm)

    found: list[Any] = []
    capture: Any = aot_function
    with torch.no_grad():
        capture(function, fw_compiler=keyed, inference_compiler=keyed, decompositions=decomposition_table())(*leaves())
    assert found == [(1, 1), 1]


def weights_too(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    weights = (q @ k.transpose(-2, -1)).softmax(-1)
    return weights @ v, weights


def by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The gradient of a maximum asks which scores are equal to it."""
    scores = (q @ k.transpose(-2, -1)).float()
    exponentials = torch.exp(scores - scores.amax(-1, keepdim=True))
    return (exponentials / exponentials.sum(-1, keepdim=True)).to(v.dtype) @ v


def normalised_along_columns(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.transpose(-2, -1)).softmax(-2) @ v


def wide(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.transpose(-2, -1)).softmax(-1) @ v.repeat(1, 1, 1, 12)


def sorted_weights(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """One of two results of an operator, which is no operator itself."""
    return (q @ k.transpose(-2, -1)).sort(-1).values @ v


def of_a_layer(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """A product with what is no batch: weights."""
    return torch.relu(q @ k[0, 0].t()) @ v[0, 0]


def few(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q[:, :, :8] @ k.transpose(-2, -1)).softmax(-1) @ v


@pytest.mark.parametrize(
    "function",
    of_which_one_is_quick(
        weights_too, with_dropout, by_hand, normalised_along_columns, wide, sorted_weights, of_a_layer, few
    ),
)
def test_what_had_better_be_saved_is(function: Attention) -> None:
    found, _, before, after = captured(function)
    assert found == 0
    for old, new in zip(before, after, strict=True):
        assert torch.equal(old, new) or function is with_dropout


def test_what_somebody_wants_saved_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy of the user's (`create_selective_checkpoint_contexts`) stands in the metadata before ours."""
    original = recomputed_scores.recompute_scores

    def with_policy(gm: GraphModule, results: int, keyed: IsKeyed) -> int:
        (softmax,) = gm.graph.find_nodes(op="call_function", target=torch.ops.aten._softmax.default)
        softmax.meta["recompute"] = CheckpointPolicy.MUST_SAVE
        return original(gm, results, keyed)

    monkeypatch.setitem(globals(), "recompute_scores", with_policy)
    assert captured(plain)[0] == 0


def test_f32_and_a_device_without_matrix_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recomputed_scores, "has_matrix_units", lambda device: False)
    assert captured(plain)[0] == 0
    monkeypatch.setattr(recomputed_scores, "has_matrix_units", lambda device: True)
    assert captured(lambda q, k, v: plain(q.float(), k.float(), v.float()))[0] == 0
