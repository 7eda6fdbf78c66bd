"""Bytes and arithmetic of kernels, against what a person counts by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as functional
from torch.fx.experimental.proxy_tensor import make_fx

import cuesta
from benchmarks.on_cuda import on_cuda
from cuesta.context import make_context
from cuesta.dialects import host
from cuesta.dialects.core.locations import CuestaParser
from cuesta.dialects.layout import is_tensor
from cuesta.explain.calls import flops_of_call, operands_read
from cuesta.explain.graphs import graph_of
from cuesta.explain.measuring import Measured
from cuesta.explain.model import Kernel
from cuesta.explain.nodes import TracedGraph
from cuesta.explain.triton_text import UnreadableTextError
from cuesta.explain.watch import Watch, Watched
from cuesta.lowering.capture.fx_to_aten import import_graph
from cuesta.observing import observed
from cuesta.options import Options
from cuesta.pipeline import default_stages
from cuesta.record import CompileRecord
from cuesta.staging import run_stages

F32 = 4


@dataclass(frozen=True)
class Program:
    """A function, and the bytes read, the bytes written, the arithmetic, and the functions among it, of each kernel."""

    name: str
    function: Callable[..., Any]
    inputs: Callable[[], tuple[torch.Tensor, ...]]
    counts: tuple[tuple[int, int, int, int], ...]


def _x(*sizes: int) -> torch.Tensor:
    return torch.randn(sizes)


PROGRAMS = [
    Program(
        "pointwise",
        lambda x, y: x * y + 1.0,
        lambda: (_x(32, 64), _x(32, 64)),
        ((2 * 2048 * F32, 2048 * F32, 2 * 2048, 0),),
    ),
    Program("read twice", lambda x: x * x + x, lambda: (_x(1000),), ((1000 * F32, 1000 * F32, 2000, 0),)),
    Program("broadcast", lambda x, b: x + b, lambda: (_x(32, 64), _x(64)), (((2048 + 64) * F32, 2048 * F32, 2048, 0),)),
    Program("expanded", lambda b: b.expand(32, 64) * 2.0, lambda: (_x(64),), ((64 * F32, 2048 * F32, 2048, 0),)),
    Program(
        "no arithmetic", lambda x: torch.relu(x).to(torch.float16), lambda: (_x(500),), ((500 * F32, 500 * 2, 0, 0),)
    ),
    Program(
        "functions", lambda x: torch.exp(x) + torch.tanh(x), lambda: (_x(300),), ((300 * F32, 300 * F32, 900, 600),)
    ),
    Program("row sums", lambda x: x.sum(1), lambda: (_x(40, 50),), ((2000 * F32, 40 * F32, 2000, 0),)),
    Program("column sums", lambda x: x.sum(0), lambda: (_x(40, 50),), ((2000 * F32, 50 * F32, 2000, 0),)),
    Program("maximum", lambda x: x.amax(1), lambda: (_x(40, 50),), ((2000 * F32, 40 * F32, 0, 0),)),
    # exp(x - max) once, a sum, a division: the exponentials are kept in the program's own memory.
    Program(
        "softmax", lambda x: torch.softmax(x, 1), lambda: (_x(16, 96),), ((1536 * F32, 1536 * F32, 4 * 1536, 1536),)
    ),
    Program(
        "transposed", lambda x, y: x.t() + y, lambda: (_x(48, 32), _x(32, 48)), ((2 * 1536 * F32, 1536 * F32, 1536, 0),)
    ),
    Program("slice", lambda x: x[:, 8:24] * 3.0, lambda: (_x(32, 64),), ((512 * F32, 512 * F32, 512, 0),)),
    Program("strided", lambda x: x[:, ::4] * 3.0, lambda: (_x(32, 64),), ((512 * F32, 512 * F32, 512, 0),)),
    Program("cat", lambda x, y: torch.cat([x, y], 1), lambda: (_x(8, 10), _x(8, 30)), ((320 * F32, 320 * F32, 0, 0),)),
    Program("padding", lambda x: functional.pad(x, (2, 3)), lambda: (_x(8, 20),), ((160 * F32, 200 * F32, 0, 0),)),
    # Rows 0, 2, 4, … of 20 with windows of 2: all of it; and what no window reaches is not read.
    Program(
        "pooling",
        lambda x: functional.max_pool2d(x, 2),
        lambda: (_x(1, 3, 20, 21),),
        ((3 * 20 * 20 * F32, 300 * F32, 0, 0),),
    ),
    Program(
        "average of windows",
        lambda x: functional.avg_pool2d(x, 3, 1),
        lambda: (_x(1, 2, 12, 12),),
        ((288 * F32, 200 * F32, 200 * 9 + 200, 0),),
    ),
    # Ten rows of 32, by indices of 8 bytes.
    Program(
        "gather",
        lambda table, index: table[index],
        lambda: (_x(100, 32), torch.arange(10)),
        ((10 * 32 * F32 + 80, 320 * F32, 0, 0),),
    ),
    Program(
        "few rows, many indices",
        lambda table, index: functional.embedding(index, table),
        lambda: (_x(4, 8), torch.zeros(50, dtype=torch.int64)),
        ((32 * F32 + 400, 400 * F32, 0, 0),),
    ),
    # All is loaded, and half of it dropped.
    Program("causal mask", lambda x: torch.tril(x), lambda: (_x(16, 16),), ((256 * F32, 256 * F32, 0, 0),)),
]


def kernels(function: Callable[..., Any], *inputs: torch.Tensor, **chosen: Any) -> list[Kernel]:
    found = cuesta.explain(function, *inputs, time=False, texts=False, **chosen)
    assert not found.unseen, found.unseen
    return [kernel for graph in found.graphs for kernel in graph.kernels]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_counts_are_exact(program: Program) -> None:
    found = kernels(program.function, *program.inputs())
    counts = tuple((one.bytes_read, one.bytes_written, one.flops, one.special_functions) for one in found)
    assert counts == program.counts, [one.counted for one in found]


def test_what_is_guessed_is_said() -> None:
    (kernel,) = kernels(lambda table, index: table[index], _x(100, 32), torch.arange(10))
    assert "indices from data" in kernel.counted


def test_symbols_are_what_they_were_when_it_was_captured() -> None:
    x = _x(12, 7)
    torch._dynamo.mark_dynamic(x, 0)
    (kernel,) = kernels(lambda x: x * 2.0, x)
    assert (kernel.bytes_read, kernel.bytes_written, kernel.flops) == (84 * F32, 84 * F32, 84)
    assert kernel.counted == ""


def on_a_gpu(function: Callable[..., Any], *inputs: torch.Tensor) -> Kernel:
    """The only kernel of a program for a GPU, on a machine that may have none."""
    record, watch = CompileRecord("inference"), Watch()
    watched = watch.adopt(record, Watched(record, 0.0, TracedGraph()))
    module = on_cuda(import_graph(make_fx(function)(*inputs)).module)
    with observed(watch):
        run_stages(module, Options(), record, None, default_stages())
    watched.module = module
    (kernel,) = graph_of(watched, 0, Measured(why="there is no device")).kernels
    return kernel


def exp_and_one(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten.add(torch.ops.aten.exp(x), 1.0)


def test_on_a_gpu_functions_are_what_instructions_add_up_to_and_times_are_predicted() -> None:
    kernel = on_a_gpu(exp_and_one, _x(64, 1024))
    count = 64 * 1024
    assert (kernel.flops, kernel.special_functions, kernel.device_flops) == (2 * count, count, 11 * count)
    assert (kernel.bytes_read, kernel.bytes_written, kernel.counted) == (4 * count, 4 * count, "")
    assert kernel.predicted_us is not None and 0 < kernel.predicted_us < 100
    assert kernel.schedule is not None and kernel.schedule.rejected
    assert all(one.predicted_us is not None for one in kernel.schedule.rejected)


def test_on_a_gpu_arithmetic_is_that_of_threads() -> None:
    """Softmax, whose nest has the exponentials twice: once in the text; rows of 96 are tiles of 128 lanes."""
    kernel = on_a_gpu(lambda x: torch.ops.aten._softmax(x, 1, False), _x(4096, 96))
    lanes, warp = 4096 * 128, 32
    assert kernel.flops == 4096 * 96 * 6 and kernel.device_flops is not None
    # Of each lane a difference, an exponential, a sum, a quotient; of each row a sum between lanes.
    once = lanes * (1 + 10 + 1 + 5)
    assert once < kernel.device_flops < once + 4096 * warp * 8 + lanes * 5


def test_what_of_a_gpu_is_not_understood_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> int:
        raise UnreadableTextError("a call of tl.sort")

    monkeypatch.setattr("cuesta.explain.graphs.device_arithmetic", fails)
    kernel = on_a_gpu(exp_and_one, _x(64, 1024))
    assert kernel.device_flops == 11 * 64 * 1024
    assert kernel.counted == "arithmetic on the device is that of the program, not of its threads: a call of tl.sort"


def test_a_product_is_counted_alike_wherever_it_is_written_to() -> None:
    module = CuestaParser(
        make_context(),
        """
        host.func @main(%a : tensor<4x8xbf16>, %b : tensor<8x5xbf16>) -> (tensor<4x5xf32>) {
          %m = host.extern "aten.mm.dtype"(%a, %b, torch.float32)
            : (tensor<4x8xbf16>, tensor<8x5xbf16>) -> tensor<4x5xf32>
          %n = host.extern "aten.addmm.dtype_out"(%m, %a, %b, torch.float32, out = %m)
            : (tensor<4x5xf32>, tensor<4x8xbf16>, tensor<8x5xbf16>, tensor<4x5xf32>) -> tensor<4x5xf32>
          host.return %m : tensor<4x5xf32>
        }""",
        "<test>",
    ).parse_module()
    calls = [op for op in module.walk() if isinstance(op, host.ExternOp)]
    assert len(calls) == 2
    for call in calls:
        shapes = [tuple(one.type.get_shape()) for one in operands_read(call) if is_tensor(one)]
        assert flops_of_call(call, shapes, [(4, 5)]) == (2 * 4 * 8 * 5, "")
