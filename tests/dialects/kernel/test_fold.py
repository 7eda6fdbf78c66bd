"""`kernel.fold`: its text, what it means, each way to get it wrong, and contractions within others."""

from __future__ import annotations

import pytest
import torch

from cuesta.dialects.kernel import contracted_shape
from cuesta.dialects.texts.kernels import kernels_are_sane
from cuesta.targets import reference
from tests.support.attention_kernels import Attention
from tests.support.text import parse, refused, round_trip

FOLD = """
kernel.func @fibonacci(%x: !kernel.ptr<f32>, %n: !kernel.ptr<i64>) outs(%y: !kernel.ptr<f32>, %z: !kernel.ptr<f32>) schedule #kernel.schedule<grid = [3], target = cuda> {
  %p = kernel.program_id 0
  kernel.for (%i = 0 to 4 lanes 4) {
    %0 = kernel.load %x[%i] : vector<4xf32>
    %1 = elem.constant 1.0 : vector<4xf32>
    %a, %b = kernel.fold (%c = 2 to %p * 2 + 1) from (%0, %1) carries (%d: vector<4xf32>, %e: vector<4xf32>) {
      %f = elem.add %d, %e : vector<4xf32>
      kernel.carry %e, %f : vector<4xf32>, vector<4xf32>
    } : vector<4xf32>, vector<4xf32>
    kernel.store %a, %y[%p * 4 + %i] : vector<4xf32>
    kernel.store %b, %z[%p * 4 + %i] : vector<4xf32>
  }
}
func.func @main(%x: tensor<4xf32>, %n: tensor<1xi64>) -> (tensor<3x4xf32>, tensor<3x4xf32>) {
  %y, %z = kernel.launch @fibonacci(%x, %n) : (tensor<4xf32>, tensor<1xi64>) -> (tensor<3x4xf32>, tensor<3x4xf32>)
  func.return %y, %z : tensor<3x4xf32>, tensor<3x4xf32>
}
"""
TYPES = "vector<4xf32>, vector<4xf32>"
END = FOLD[FOLD.index("} : vector") : FOLD.index("\n  }\n}\nfunc")]


def test_round_trip() -> None:
    round_trip(FOLD)


def test_points_come_in_order_and_each_program_has_its_own() -> None:
    x = torch.tensor([1.0, 2.0, -3.0, 5.0])
    y, z = reference.run(parse(FOLD), [x, torch.zeros(1, dtype=torch.int64)])
    assert isinstance(y, torch.Tensor) and isinstance(z, torch.Tensor)
    for program, points in enumerate((0, 1, 3)):
        a, b = x, torch.ones(4)
        for _ in range(points):
            a, b = b, a + b
        assert torch.equal(y[program], a) and torch.equal(z[program], b), program


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("(%c = 2 to %p * 2 + 1)", "(%c = 2 to 4, %g = 0 to 3)", "one axis, without lanes"),
        ("(%c = 2 to %p * 2 + 1)", "(%c = 2 to 4 lanes 4 dim 1)", "one axis, without lanes"),
        ("from (%0, %1)", "from (%0)", "carries 2 values, from 1"),
        (END, "} : vector<4xf32>, vector<4xf64>", "kernel.fold gives vector<4xf32>, vector<4xf64>, but begins with"),
        (f"kernel.carry %e, %f : {TYPES}", "kernel.carry %e : vector<4xf32>", "but hands on vector<4xf32>"),
        (f"kernel.carry %e, %f : {TYPES}", "kernel.yield %e : vector<4xf32>", "at the end of a kernel.reduce"),
        (f"}} : {TYPES}", f"}} : {TYPES}\nkernel.carry %a : vector<4xf32>", "stands at the end of a kernel.fold"),
        ("to %p * 2 + 1)", "to %i)", "defined with type vector<4xindex>"),
    ],
)
def test_refused(old: str, new: str, message: str) -> None:
    assert old in FOLD
    refused(FOLD.replace(old, new, 1), message)


def test_the_cpu_has_none() -> None:
    program = parse(FOLD.replace(", target = cuda", ""))
    found = {op.name for op, message in kernels_are_sane(program) if message == "the CPU target has none of these"}
    assert found == {"kernel.fold", "kernel.carry"}
    assert not list(kernels_are_sane(parse(FOLD)))


@pytest.mark.parametrize(
    ("left", "right", "lanes", "result"),
    [
        ((64, 1, 1, 64), (1, 1, 64, 64), 64, (64, 1, 64)),
        ((64, 1, 32), (1, 16, 32), 32, (64, 16)),
        ((1, 64, 1, 32), (1, 1, 16, 32), 32, (1, 64, 16)),
        ((1, 16, 32), (64, 1, 32), 32, None),  # rows are further out than columns
        ((64, 8, 1, 32), (1, 1, 16, 32), 32, None),  # one axis each
        ((64, 1, 32), (1, 1, 16, 32), 32, None),
        ((64, 1, 32), (1, 16, 16), 32, None),
        ((64,), (64,), 64, None),
    ],
)
def test_shapes_of_contractions(
    left: tuple[int, ...], right: tuple[int, ...], lanes: int, result: tuple[int, ...] | None
) -> None:
    assert contracted_shape(left, right, lanes) == result


@pytest.mark.parametrize(
    "case",
    [Attention(), Attention(queries=19, keys=37, head=12, element="f32", bias=True), Attention(keys=41, causal=False)],
)
def test_attention_is_one(case: Attention) -> None:
    module = parse(case.program)
    inputs = reference.random_inputs(module)
    (found,) = reference.run(module, inputs, precise=True)
    q, k, v, *bias = (one.double() for one in inputs if isinstance(one, torch.Tensor))
    scores = q @ k.mT * case.scale
    if bias:
        scores = scores + bias[0]
    if case.causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -torch.inf)
    assert isinstance(found, torch.Tensor) and torch.allclose(found, scores.softmax(-1) @ v, rtol=1e-6, atol=1e-6)
