"""Constructors and dispatchers of tensor subclasses, which Dynamo is not to compile.

Where eager runs an operator on a subclass within a function that is compiled (the graph is broken there, or the
function is left to Python), the subclass makes its results in Python, and Dynamo takes the constructor for one more
function to compile. To know the argument `self` it asks for the parts, which the constructor has still to set, and
fails the call (torch 2.11; 2.13 compiles it):

    def __init__(self, a, b):
        self.a, self.b = a, b        # AttributeError: 'Pair' object has no attribute 'a'

`__torch_dispatch__`, which is called for every operator, is such a function, too. Where sizes are symbols Dynamo knows
only those of the parts of what it is given, and fails (`sources must not be empty for symbol`, or a `SyntaxError` of
its guards; torch 2.11, 2.13).

What is called within a graph is traced as before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

if TYPE_CHECKING:
    from torch.fx import GraphModule


def leave_constructors(gm: GraphModule, inputs: Sequence[Any]) -> None:
    """Lets Python run the constructors and dispatchers of the tensor subclasses that a graph of Dynamo's is given or
    gives, and of their parts.
    """
    from torch._dynamo.eval_frame import skip_code

    from cuesta.lowering.capture.dynamo_graph import value_of

    values = (*inputs, *map(value_of, gm.graph.output_node().all_input_nodes))
    kinds: set[Any] = {kind for value in values for kind in _kinds(value)}
    for kind in kinds:
        functions: Any = (kind.__new__, kind.__init__, getattr(kind.__torch_dispatch__, "__func__", None))
        for function in functions:
            if isinstance(function, FunctionType):
                skip_code(function.__code__)


def _kinds(value: object) -> Iterator[type[torch.Tensor]]:
    if not isinstance(value, torch.Tensor) or not is_traceable_wrapper_subclass(value):
        return
    yield type(value)
    for name in cast("Any", value).__tensor_flatten__()[0]:
        yield from _kinds(getattr(value, name))


__all__ = ["leave_constructors"]
