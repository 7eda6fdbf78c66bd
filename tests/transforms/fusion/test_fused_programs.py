"""What is left of well-known programs after fusion: how many nests, and nothing large that nobody asked for."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional
from xdsl.dialects.builtin import ModuleOp

from cuesta.context import make_context
from cuesta.dialects import loops
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.layout import tensor_type_of
from cuesta.lowering.capture.decompositions import decomposition_table
from cuesta.lowering.capture.fx_to_aten import import_graph
from cuesta.pipeline import STAGES, run_pipeline
from cuesta.targets.reference import check_equivalent

pytestmark = pytest.mark.slow

Function = Callable[..., Tensor | tuple[Tensor, ...]]

LOGITS, IMAGES = (64, 1024), (4, 32, 16, 32)


def fused(function: Function, inputs: list[Tensor]) -> ModuleOp:
    """The program as it is before it is lowered to kernels, after a check that it computes what it did."""
    graph_module = make_fx(function, tracing_mode="fake", decomposition_table=decomposition_table())(*inputs)
    module, context = import_graph(graph_module).module, make_context()
    stages = [stage.name for stage in STAGES]
    run_pipeline(context, module, STAGES[:1])
    before = module.clone()
    run_pipeline(context, module, STAGES[1 : stages.index("loops-to-kernel")], verify_each=True)
    check_equivalent(before, module, inputs, exact=False, pass_name="the loops level")
    return module


def nests_of(module: ModuleOp) -> list[loops.NestOp]:
    return [op for op in entry_block(module).ops if isinstance(op, loops.NestOp)]


def large_results(module: ModuleOp, least: int) -> int:
    """How many results of nests, in use outside of them, have at least so many elements."""
    return sum(
        bool(result.uses) and math.prod(tensor_type_of(result).get_shape()) >= least
        for nest in nests_of(module)
        for result in nest.results
    )


def cross_entropy(x: Tensor, target: Tensor) -> Tensor:
    return functional.cross_entropy(x, target)


def smooth_cross_entropy(x: Tensor, target: Tensor) -> Tensor:
    logarithms = torch.log_softmax(x, -1)
    chosen = logarithms.gather(1, target[:, None]).squeeze(1)
    return -torch.where(target == 3, 0.0, chosen * 0.9 + logarithms.mean(-1) * 0.1).mean()


def batch_norm_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch.relu(functional.batch_norm(x, None, None, weight, bias, training=True))


def batch_norm_relu_backward(x: Tensor, y: Tensor, weight: Tensor, mean: Tensor, scale: Tensor) -> tuple[Tensor, ...]:
    gradient = torch.ops.aten.threshold_backward(y * 2, y, 0)
    mask = [True, True, True]
    return torch.ops.aten.native_batch_norm_backward(gradient, x, weight, mean, scale, mean, scale, True, 1e-5, mask)


def squared_layer_norm(x: Tensor) -> Tensor:
    return functional.layer_norm(x, (x.shape[-1],)).pow(2).mean()


def long_chain(x: Tensor, y: Tensor) -> Tensor:
    for step in range(8):
        x = torch.where(x > y, x * 0.75 + y, y * 0.5 - x)
        x = x.abs().clamp(max=4.0) - 0.125 * step
    return x


def two_statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.sum(-1), (x * x).amax(-1)


@pytest.mark.parametrize(
    ("function", "inputs", "nests", "large"),
    [
        (cross_entropy, lambda: [torch.randn(LOGITS), torch.randint(0, 1024, (64,))], 2, 0),
        (smooth_cross_entropy, lambda: [torch.randn(LOGITS), torch.randint(0, 1024, (64,))], 2, 0),
        (batch_norm_relu, lambda: [torch.randn(IMAGES), torch.randn(32), torch.randn(32)], 1, 1),
        (
            batch_norm_relu_backward,
            lambda: [torch.randn(IMAGES), torch.randn(IMAGES), *(torch.rand(32) + 0.5 for _ in range(3))],
            1,
            1,
        ),
        (squared_layer_norm, lambda: [torch.randn(LOGITS)], 2, 0),
        (two_statistics, lambda: [torch.randn(LOGITS)], 1, 0),
        # Every op has conversions and constants of its own until they meet.
        (long_chain, lambda: [torch.randn(LOGITS).bfloat16() for _ in range(2)], 1, 1),
    ],
    ids=lambda value: getattr(value, "__name__", "") if callable(value) else str(value),
)
def test_what_is_left(function: Function, inputs: Callable[[], list[Tensor]], nests: int, large: int) -> None:
    torch.manual_seed(0)
    module = fused(function, inputs())
    assert len(nests_of(module)) == nests
    assert large_results(module, math.prod(LOGITS)) == large
