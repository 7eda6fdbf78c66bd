"""Which graphs that an operator calls are compiled: a loop's where all that it is given lies as it was traced."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor
from torch.fx import Graph, GraphModule

from cuesta.lowering.capture.compiled_bodies import has_compiled_body

DENSE, GAPS = torch.empty(2, 5), torch.empty(2, 10)[:, :5]


def loop(given: Tensor, taken: Tensor, returned: Tensor, other: Sequence[Tensor] = (DENSE, DENSE)) -> bool:
    """Whether the body of a `while_loop` over a count and a tensor is compiled, given how tensors lie."""
    count = torch.zeros((), dtype=torch.int64)
    body, outer = Graph(), Graph()
    placeholders = [body.placeholder(name) for name in ("i", "x", "y")]
    results = [
        body.call_function(operator.add, (placeholders[0], 1)),
        body.call_function(operator.neg, (placeholders[1],)),
    ]
    body.output(tuple(results))
    for node, value in zip((*placeholders, *results), (count, taken, other[1], count, returned), strict=True):
        node.meta["val"] = value
    graphs = {name: GraphModule({}, body) for name in ("cond", "body")}
    functions = [outer.create_node("get_attr", name) for name in graphs]
    inputs = [outer.placeholder(name) for name in ("i", "x", "y")]
    for node, value in zip(inputs, (count, given, other[0]), strict=True):
        node.meta["val"] = value
    call = outer.call_function(torch.ops.higher_order.while_loop, (*functions, tuple(inputs[:2]), (inputs[2],)))
    return has_compiled_body(call, GraphModule(graphs, outer))


def test_a_body_that_is_given_what_it_was_traced_with() -> None:
    assert loop(DENSE, DENSE, DENSE) and loop(GAPS, GAPS, GAPS)
    one = torch.empty(1, 5).as_strided((1, 5), (77, 1))
    assert loop(one, torch.empty(1, 5), one), "the stride of a dim of one element does not count"


@pytest.mark.parametrize(
    ("given", "taken", "returned"), [(GAPS, DENSE, DENSE), (GAPS, GAPS, DENSE), (DENSE, DENSE, GAPS)]
)
def test_a_body_that_is_given_tensors_that_lie_otherwise(given: Tensor, taken: Tensor, returned: Tensor) -> None:
    """The gradient of a loop begins with a part of a larger gradient (torch 2.11)."""
    assert not loop(given, taken, returned)


def test_a_body_that_reads_another_tensor_that_lies_otherwise() -> None:
    assert not loop(DENSE, DENSE, DENSE, other=(GAPS, DENSE))
