"""`overlap-collectives` where a text of tests/filecheck/ cannot say it: operators of users, programs that race before.

The reference reads what is sent, and writes what is received, when somebody waits: as late as any other process may.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp

from cuesta.context import make_context
from cuesta.dialects.core.locations import CuestaParser
from cuesta.dialects.host import ExternOp
from cuesta.pipeline import run_pipeline, stages_of
from cuesta.targets.reference import run
from cuesta.transforms.host.overlap_collectives import OverlapCollectivesPass

SCATTER = """
kernel.func @scatter(%y : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) updates 1
    schedule #kernel.schedule<grid = [2]> {
  %p = kernel.program_id 0
  %a = kernel.load %y[%p] : f32
  kernel.store %a, %o[%p] : f32
}
"""


@torch.library.custom_op("cuesta_test::meets", mutates_args=())
def meets(x: Tensor) -> Tensor:
    return x + 1


def after(text: str) -> tuple[ModuleOp, list[str]]:
    """The program after the pass, and its ops by name."""
    module = CuestaParser(make_context(), text).parse_module()
    run_pipeline(make_context(), module, stages_of("overlap-collectives"), verify_each=True)
    names = [op.overload if isinstance(op, ExternOp) else op.name for op in module.walk()]
    return module, [name.rpartition("::")[2].removesuffix(".default") for name in names]


def test_nobody_passes_an_operator_that_may_communicate() -> None:
    _, names = after(
        """
host.func @main(%x : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %m = host.extern "cuesta_test::meets.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %s = host.extern "_c10d_functional::all_reduce.default"(%x, "sum", "0") : (tensor<4xf32>) -> tensor<4xf32>
  %w = host.extern "_c10d_functional::wait_tensor.default"(%s) : (tensor<4xf32>) -> tensor<4xf32>
  %n = host.extern "cuesta_test::meets.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  host.return %m, %w, %n : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}"""
    )
    assert names[2:] == ["meets", "all_reduce", "wait_tensor", "meets", "host.return"]


def test_who_changes_what_is_still_sent_is_waited_for() -> None:
    """%x is changed between the start that reads it and the wait, which rises, with the alias that it is given."""
    module, names = after(
        SCATTER
        + """
host.func @main(%x : tensor<4xf32>, %y : tensor<2xf32>) -> (tensor<2x4xf32>) attributes {aten.writes_to = [0]} {
  %s = host.extern "_c10d_functional::all_gather_into_tensor.default"(%x, 2, "0") : (tensor<4xf32>) -> tensor<8xf32>
  host.launch @scatter(%y, %x) : tensor<2xf32>, tensor<4xf32>
  %v = host.reinterpret %s offset 0 : tensor<8xf32> to tensor<2x4xf32>
  %w = host.extern "_c10d_functional::wait_tensor.default"(%v) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  host.return %w : tensor<2x4xf32>
}"""
    )
    assert names[-5:] == ["all_gather_into_tensor", "host.reinterpret", "wait_tensor", "host.launch", "host.return"]
    x, y = torch.randn(4), torch.randn(2)
    (found,) = run(module, [x.clone(), y])
    torch.testing.assert_close(found, torch.stack([x, x]))


def test_work_grows_as_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen times the calls, each of which stays near its place: sixteen times the work, not 256 times."""
    tensor = "tensor<4xf32>"

    def step(number: int) -> list[str]:
        return [
            f'%s{number} = host.extern "_c10d_functional::all_reduce.default"(%x{number}, "sum", "0")',
            f'%w{number} = host.extern "_c10d_functional::wait_tensor.default"(%s{number})',
            f'%x{number + 1} = host.extern "cuesta_test::meets.default"(%w{number})',
        ]

    def compared(count: int) -> int:
        """How often ops are compared with each other: what looking one up in a list does."""
        lines = [f"{line} : ({tensor}) -> {tensor}" for number in range(count) for line in step(number)]
        text = "\n".join([f"host.func @main(%x0 : {tensor}) -> ({tensor}) {{", *lines])
        module = CuestaParser(make_context(), f"{text}\nhost.return %x{count} : {tensor}\n}}").parse_module()
        times = 0

        def same(one: object, other: object) -> bool:
            nonlocal times
            times += 1
            return one is other

        with monkeypatch.context() as patched:
            patched.setattr(ExternOp, "__eq__", same)
            OverlapCollectivesPass().apply(make_context(), module)
        return times

    assert compared(160) <= 20 * (compared(10) + 10)
