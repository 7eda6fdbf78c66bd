"""Launches of one kernel as one launch: in Triton's interpreter, as machine code, and how many are left."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp

from cuesta.dialects import host
from cuesta.testing import assert_close_to_float64
from tests.support.triton_interpreter import interpreted_cuda, to_host
from tests.support.triton_kernels import assert_compiles, texts_of

pytestmark = pytest.mark.slow


def launches_in(program: ModuleOp) -> Counter[str]:
    """How often each kernel is launched."""
    return Counter(op.kernel for op in to_host(program).walk() if isinstance(op, host.LaunchOp))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_many_programs_compute_for_tensors_of_their_own(dtype: torch.dtype) -> None:
    """Sizes that fill a program and that do not, as matrices and as vectors, and one that is alone."""
    sizes = [(3, 5), (1031,), (15,), (1031,), (5, 3), (1031,), (15,), (1031,), (2,)]

    def function(*tensors: Tensor) -> Any:
        halves: Any = tensors[: len(sizes)], tensors[len(sizes) :]
        return torch._foreach_lerp(torch._foreach_sigmoid(halves[0]), halves[1], 0.25)  # pyright: ignore[reportPrivateImportUsage]

    compiled = torch.compile(function, backend="cuesta", fullgraph=True)
    with interpreted_cuda() as programs:
        inputs = [torch.randn(size).to(dtype) for size in (*sizes, *sizes)]
        assert_close_to_float64(compiled, function, inputs)
    assert sorted(name.partition("_of_")[2] for name in launches_in(programs[0])) == ["", "4", "4"]
    assert_compiles(texts_of(programs[0]))


@pytest.mark.filterwarnings("ignore:.*record_function.*")
def test_a_step_of_an_optimizer_is_a_few_launches() -> None:
    sizes = [(64, 64), (64,), (128, 32), (256,)] * 4
    parameters = [torch.nn.Parameter(torch.randn(size)) for size in sizes]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    optimizer = torch.optim.AdamW(parameters, foreach=True)
    with interpreted_cuda(run_it=False) as programs:
        torch.compile(optimizer.step, backend="cuesta")()
    assert sum(launches_in(programs[0]).values()) <= 8
    assert_compiles(texts_of(programs[0]))
