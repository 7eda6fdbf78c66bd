"""Scheduling choices change how long a kernel takes, never what it computes: all that is tried, on random programs."""

from __future__ import annotations

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from xdsl.dialects.builtin import ModuleOp

from cuesta.context import make_context
from cuesta.dialects import kernel, loops
from cuesta.dialects.core.entry import entry_block, symbol_ranges
from cuesta.dialects.core.machine import Machine
from cuesta.dialects.loops.analysis import analyse
from cuesta.dialects.loops.merge_axes import merge_axes
from cuesta.lowering.capture.decompositions import decomposition_table
from cuesta.lowering.capture.fx_to_aten import import_graph
from cuesta.lowering.schedule.gpu.schedule_choices import candidates
from cuesta.lowering.schedule.tune_kernels import program_of
from cuesta.pipeline import STAGES, run_pipeline
from cuesta.targets.reference import check_equivalent
from cuesta.targets.triton.emit_kernel import emit_kernel
from tests.support.lowering import to_kernel
from tests.support.random_programs import program
from tests.support.triton_interpreter import on_cuda, parse


def nests_of(seed: int) -> list[ModuleOp]:
    """The nests of a random program, each a program of its own on a CUDA device."""
    function, inputs = program(seed)
    graph_module = make_fx(function, tracing_mode="fake", decomposition_table=decomposition_table())(*inputs)
    module = on_cuda(import_graph(graph_module).module)
    names = [stage.name for stage in STAGES]
    run_pipeline(make_context(), module, STAGES[: names.index("tune-kernels")])
    return [program_of([op]) for op in entry_block(module).ops if isinstance(op, loops.NestOp)]


def tried(nest: loops.NestOp, module: ModuleOp) -> list[dict[str, int]]:
    copy = next(op for op in entry_block(module.clone()).ops if isinstance(op, loops.NestOp))
    analysis = analyse(copy, symbol_ranges(module), tuple(True for _ in nest.results))
    merge_axes(analysis)
    return candidates(analysis, Machine(processors=4))


@pytest.mark.parametrize(
    "seeds",
    [
        range(4),
        pytest.param(range(200, 215), marks=pytest.mark.slow),
        pytest.param(range(215, 280), marks=pytest.mark.thorough),
    ],
    ids=str,
)
def test_whatever_is_tried_means_the_same(seeds: range) -> None:
    """Most by `make test-thorough`."""
    count = 0
    for seed in seeds:
        for module in nests_of(seed):
            nest = next(op for op in entry_block(module).ops if isinstance(op, loops.NestOp))
            if any(isinstance(op, loops.CombineOp | loops.BoundOp) for op in nest.walk()):
                continue
            for choices in tried(nest, module):
                nest.properties["schedule"] = loops.ScheduleAttr.of(choices)
                after = module.clone()
                to_kernel(after, machine=Machine(processors=4))
                check_equivalent(module, after, pass_name=f"{choices} on the program of seed {seed}", seed=seed)
                for func in after.body.ops:
                    if isinstance(func, kernel.FuncOp):
                        emit_kernel(func)
                count += 1
    assert count > 2 * len(seeds)


def test_several_rows_of_a_row_that_does_not_merge() -> None:
    text = """
    func.func @main(%x : tensor<6x5x40xf32>, %b : tensor<5xf32>) -> tensor<6x5xf32> {
      %y = loops.nest (%i : 6, %j : 5) outs(%o : tensor<6x5xf32>) schedule #loops.schedule<rows = 8, lanes = 16> {
        %c = loops.load %b[%j] : tensor<5xf32>
        %s = loops.reduce sum (%k : 40) {
          %a = loops.load %x[%i, %j, %k] : tensor<6x5x40xf32>
          %d = elem.mul %a, %c : f32
          loops.yield %d : f32
        } : f32
        loops.store %s, %o[%i, %j] : tensor<6x5xf32>
      }
      func.return %y : tensor<6x5xf32>
    }"""
    module = on_cuda(parse(text))
    after = module.clone()
    to_kernel(after)
    (func,) = [op for op in after.body.ops if isinstance(op, kernel.FuncOp)]
    assert func.schedule.grid == (4,)
    check_equivalent(module, after, [torch.randn(6, 5, 40), torch.randn(5)])


@pytest.mark.parametrize("rows", [0, 3])
def test_no_points_along_axes_that_become_one(rows: int) -> None:
    x, y = f"tensor<7x{rows}x5xf32>", f"tensor<7x5x{rows}xf32>"
    text = f"""
    func.func @main(%x : {x}, %b : tensor<{rows}xf32>) -> {y} {{
      %y = loops.nest (%i : 7, %j : 5, %k : {rows}) outs(%o : {y}) {{
        %a = loops.load %x[%i, %k, %j] : {x}
        %c = loops.load %b[%k] : tensor<{rows}xf32>
        %d = elem.mul %a, %c : f32
        loops.store %d, %o[%i, %j, %k] : {y}
      }}
      func.return %y : {y}
    }}"""
    module = on_cuda(parse(text))
    after = module.clone()
    to_kernel(after)
    check_equivalent(module, after)
