"""Equal nodes of a joint graph become one, as PyTorch's own helper of its partitioner has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from functorch.compile import (
    aot_function,
    default_partition,
    make_boxed_func,  # pyright: ignore[reportPrivateImportUsage]
)
from torch import Tensor
from torch.fx import Graph, GraphModule, symbolic_trace
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

from cuesta.lowering.capture.equal_nodes import merge_equal_nodes
from cuesta.lowering.capture.undefined_gradients import mark_gradients_of_nothing
from tests.support.fresh import said_by

aten = torch.ops.aten


def merged(function: Callable[..., Any], *arguments: Any) -> list[str]:
    """The operators of a function after the rewrite, in order."""
    gm = make_fx(function, tracing_mode="fake")(*arguments)
    merge_equal_nodes(gm.graph)
    gm.graph.lint()
    return [str(node.target) for node in gm.graph.nodes if node.op == "call_function"]


def test_gradients_of_nothing_are_run_for_what_either_is_run_for() -> None:
    """Of a joint graph: the gradient of x ** 0 is run for the results that led to it, and always if it is more."""

    def run_for(function: Callable[..., Any]) -> list[frozenset[str]]:
        joint = list[Graph]()

        def partition(gm: GraphModule, *arguments: Any, num_fwd_outputs: int, **settings: Any) -> Any:
            mark_gradients_of_nothing(gm.graph, num_fwd_outputs)
            merge_equal_nodes(gm.graph)
            joint.append(gm.graph)
            return default_partition(gm, *arguments, num_fwd_outputs=num_fwd_outputs, **settings)

        compiler: Any = lambda graph, _: make_boxed_func(graph.forward)  # noqa: E731 - what AOTAutograd calls
        x = torch.ones(3, requires_grad=True)
        aot_function(function, compiler, compiler, partition_fn=partition)(x)
        found = joint[0].find_nodes(op="call_function", target=aten.zeros_like.default)
        return [frozenset(node.meta.get("cuesta_run_for", ())) for node in found]

    assert run_for(lambda x: ((x**0).sin(), x.exp())) == [{"tangents_1"}]
    assert run_for(lambda x: (x.exp(), (x**0).sin(), (x**0).cos())) == [{"tangents_2", "tangents_3"}]
    assert run_for(lambda x: ((x**0).sin() + (x**0).detach(), x.exp(), (x**0).tan())) == [{"tangents_1", "tangents_3"}]


@pytest.mark.parametrize(
    ("one", "other", "left"),
    [
        ({"a"}, {"b"}, [{"a", "b"}]),
        (None, None, [None]),
        # Near misses: what is always run is not what is run for some.
        ({"a"}, None, [{"a"}, None]),
        (None, {"b"}, [None, {"b"}]),
    ],
)
def test_what_is_run_for_some_is_one_with_what_is_run_for_others(one: Any, other: Any, left: list[Any]) -> None:
    graph = Graph()
    nodes = [graph.call_function(aten.zeros.default, ([3],)) for _ in range(2)]
    for node, names in zip(nodes, (one, other), strict=True):
        node.meta |= {"cuesta_run_for": frozenset(names)} if names else {}
    graph.output(tuple(graph.call_function(aten.add.Tensor, (node, 1)) for node in nodes))
    merge_equal_nodes(graph)
    found = graph.find_nodes(op="call_function", target=aten.zeros.default)
    assert [node.meta.get("cuesta_run_for") for node in found] == left


def test_equal_calls_are_one() -> None:
    x = torch.randn(4, 5)
    assert merged(lambda x: x.relu().exp() + x.relu().exp(), x) == [
        "aten.relu.default",
        "aten.exp.default",
        "aten.add.Tensor",
    ]
    names = merged(lambda x: x.topk(2)[0] + x.topk(2)[1], x)
    assert names.count("aten.topk.default") == 1 and names.count("<built-in function getitem>") == 2


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (lambda x: torch.rand_like(x) + torch.rand_like(x) + x, "aten.rand_like.default"),
        (lambda x: x.bernoulli(0.5) + x.bernoulli(0.5), "aten.bernoulli.p"),
        (
            lambda x: aten.native_dropout(x, 0.5, True)[0] + aten.native_dropout(x, 0.5, True)[0],
            "aten.native_dropout.default",
        ),
        (lambda x: torch.empty_like(x).copy_(x) + torch.empty_like(x).fill_(1), "aten.empty_like.default"),
        (lambda x: (x.relu(), x.relu()), "aten.relu.default"),
        (lambda x: x.add(1) + x.add(1.0) + x.add(True), "aten.add.Tensor"),
        (lambda x: aten.div(aten.mul(x, 0.0), aten.mul(x, -0.0)), "aten.mul.Tensor"),
    ],
    ids=["rand", "bernoulli", "dropout", "empty", "outputs", "types of numbers", "signs of zero"],
)
def test_near_misses(function: Callable[[Tensor], Any], operator: str) -> None:
    names = merged(function, torch.randn(4, 5))
    assert names.count(operator) == [str(n.target) for n in traced(function).nodes].count(operator) > 1


def traced(function: Callable[[Tensor], Any]) -> Graph:
    return make_fx(function, tracing_mode="fake")(torch.randn(4, 5)).graph


def test_a_write_stands_between() -> None:
    names = merged(lambda x: (x.exp().sum(), x.add_(1), x.exp().sum(), x.exp().sum()), torch.randn(4))
    assert names.count("aten.exp.default") == 2
    assert names.count("aten.sum.default") == 3, "results of the function share no memory"


def test_arguments_that_cannot_be_compared_and_what_is_not_of_aten() -> None:
    gm = symbolic_trace(lambda x: (x + 1, x + 1, torch.relu(x), torch.relu(x)))
    before = len(gm.graph.nodes)
    merge_equal_nodes(gm.graph)
    assert len(gm.graph.nodes) < before  # arithmetic of Python's; there is no metadata, so no memory is known
    graph = Graph()
    x = graph.placeholder("x")
    y, z = (graph.call_function(aten.clone.default, (x,), {"memory_format": object()}) for _ in range(2))  # pyright: ignore
    graph.output((y, z))
    merge_equal_nodes(graph)
    assert len(graph.nodes) == 4


def test_random_operators_say_so() -> None:
    from torch._functorch.compile_utils import rand_ops

    for packet in rand_ops:
        for name in packet.overloads():
            tags = getattr(packet, name).tags
            assert torch.Tag.nondeterministic_seeded in tags or getattr(packet, name)._schema.is_mutable, (packet, name)


def _model(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    for _ in range(2):
        y = F.layer_norm(x, (8,), w[0], b)
        x = x + F.dropout(F.gelu(y @ w) @ w.t(), 0.5) * y.softmax(-1)
    return F.cross_entropy(x, x.argmax(-1))


@pytest.mark.slow
def test_the_graph_is_that_of_pytorch() -> None:
    from torch._functorch.compile_utils import fx_graph_cse

    seen: list[int] = []

    def partition(gm: GraphModule, *arguments: Any, **options: Any) -> Any:
        gm.graph.eliminate_dead_code()
        theirs = [(n.name, n.target, str(n.args), str(n.kwargs)) for n in fx_graph_cse(gm.graph).nodes]
        before = len(gm.graph.nodes)
        merge_equal_nodes(gm.graph)
        assert [(n.name, n.target, str(n.args), str(n.kwargs)) for n in gm.graph.nodes] == theirs
        seen.append(before - len(theirs))
        return default_partition(gm, *arguments, **options)

    def compiler(gm: GraphModule, example_inputs: Any) -> Callable[..., Any]:
        return make_boxed_func(gm.forward)

    function = aot_function(_model, compiler, partition_fn=partition, decompositions={})
    arguments = [torch.randn(6, 8, requires_grad=True), torch.randn(8, 8, requires_grad=True), torch.randn(8)]
    function(*arguments).backward()
    assert seen and seen[0] > 3


@pytest.mark.slow
def test_a_training_step_imports_no_more_of_inductor_than_pytorch_does() -> None:
    script = """
import sys, torch
f = torch.compile(lambda x: (x.relu() * x.relu()).sum(), backend="cuesta", options={"cache": False})
f(torch.ones(3, requires_grad=True)).backward()
assert torch._functorch.config.cse
print([name for name in ("pattern_matcher", "lowering", "scheduler") if f"torch._inductor.{name}" in sys.modules])
"""
    assert said_by(script).strip() == "[]"
