"""A loss that is a mean, and what its backward pass needs, read what they are made of once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from cuesta.context import make_context
from cuesta.dialects import kernel
from cuesta.pipeline import STAGES, run_pipeline
from tests.support.differential import compiled_of
from tests.support.triton_interpreter import interpreted_cuda, parse, run
from tests.support.triton_kernels import assert_compiles, kernels_of, texts_of

pytestmark = pytest.mark.slow

Loss = Callable[[Tensor, Tensor], Tensor]


def squares(x: Tensor, y: Tensor) -> Tensor:
    return ((x - y) ** 2).mean()


def rounded(x: Tensor, y: Tensor) -> Tensor:
    return ((x.tanh() - y).abs() * 3).sum() / 4


LOSSES: tuple[Loss, ...] = (squares, rounded, F.mse_loss, F.smooth_l1_loss)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("sizes", [(128, 1024), (131, 1001), (16, 8, 32, 32)])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.covering(2)
def test_a_loss_in_training(loss: Loss, sizes: tuple[int, ...], dtype: torch.dtype) -> None:
    """The forward pass has a kernel for all large tensors, and one that adds up."""
    x, y = torch.randn(sizes), torch.randn(sizes)
    if len(sizes) == 4:
        x, y = (one.to(memory_format=torch.channels_last) for one in (x, y))
    x, y = (one.to(dtype).requires_grad_() for one in (x, y))
    with interpreted_cuda() as programs:
        found = compiled_of(loss, dynamic=False)(x, y)
        gradients = torch.autograd.grad(found, (x, y))
    expected = loss(x.double(), y.double())
    digits = 1e-5 if dtype is torch.float32 else 2e-2
    torch.testing.assert_close(found.double(), expected, rtol=digits, atol=digits)
    for one, other in zip(gradients, torch.autograd.grad(expected, (x, y)), strict=True):
        torch.testing.assert_close(one.double(), other.double(), rtol=digits, atol=digits * float(other.abs().max()))
    assert len(kernels_of(programs[0])) == 2, [text.source for text in texts_of(programs[0])]


@pytest.mark.parametrize("sizes", [(128, 1024), (131, 1001)])
def test_it_is_machine_code(sizes: tuple[int, ...]) -> None:
    x, y = torch.randn(sizes).requires_grad_(), torch.randn(sizes)
    with interpreted_cuda(run_it=False) as programs:
        compiled_of(squares, dynamic=False)(x, y)
    texts = texts_of(programs[0])
    assert_compiles(texts)
    assert len(texts) == 2


@pytest.mark.parametrize("points", [6 * 10240, 6 * 10240 - 77])
def test_long_parts_are_stored_as_they_are_summed(points: int) -> None:
    """In one kernel, by programs that go through their part in several steps."""
    x = f'tensor<{points}xf32, #aten.layout<device = "cuda:0">>'
    t = 'tensor<6xf32, #aten.layout<device = "cuda:0">>'
    module = parse(f"""
    builtin.module attributes {{cuesta.machine = #cuesta.machine<lanes = 8, processors = 3>}} {{
      func.func @main(%x : {x}) -> ({t}, {x}) {{
        %t = loops.nest (%p : 6) outs(%o : {t}) {{
          %s = loops.reduce sum (%j : 10240) {{
            %n = loops.index [%p * 10240 + %j] : i32
            %l = elem.constant {points} : i32
            %m = elem.lt %n, %l : i32
            %z = elem.constant 0.0 : f32
            %a = loops.load %x[%p * 10240 + %j] if %m else %z : {x}
            %b = elem.mul %a, %a : f32
            loops.yield %b : f32
          }} : f32
          loops.store %s, %o[%p] : {t}
        }}
        %y = loops.nest (%i : {points}) outs(%o : {x}) {{
          %a = loops.load %x[%i] : {x}
          %b = elem.add %a, %a : f32
          loops.store %b, %o[%i] : {x}
        }}
        func.return %t, %y : {t}, {x}
      }}
    }}""")
    stages = STAGES[[stage.label for stage in STAGES].index("join-points-and-parts") :]
    run_pipeline(make_context(), module, stages, verify_each=True)
    assert sum(isinstance(op, kernel.FuncOp) for op in module.body.ops) == 1
    given = torch.randn(points)
    sums, doubled = run(module, [given])
    padded = torch.cat((given, torch.zeros(6 * 10240 - points)))
    torch.testing.assert_close(sums, padded.double().square().view(6, -1).sum(1).float(), rtol=1e-5, atol=1e-3)
    torch.testing.assert_close(doubled, 2 * given, rtol=0, atol=0)
