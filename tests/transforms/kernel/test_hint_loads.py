"""What the cache is told of what a kernel reads: in a program, by who reads it later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

from cuesta.context import make_context
from cuesta.dialects import kernel
from cuesta.dialects.core.locations import print_text
from cuesta.lowering.capture.decompositions import decomposition_table
from cuesta.lowering.capture.fx_to_aten import import_graph
from cuesta.pipeline import default_stages, run_pipeline
from cuesta.targets.reference import check_equivalent
from tests.support.triton_interpreter import on_cuda, parse

FIRST, LAST = "evict_first", "evict_last"


def hints(function: Callable[..., Any], *sizes: tuple[int, ...], dtype: torch.dtype = torch.bfloat16) -> list[str]:
    """What is said by the loads of the kernels of a function of inputs of these sizes, in order; of those that have
    lanes.
    """
    with FakeTensorMode():
        inputs = [torch.empty(size, dtype=dtype) for size in sizes]
        graph = make_fx(function, tracing_mode="fake", decomposition_table=decomposition_table())(*inputs)
    module = on_cuda(import_graph(graph).module)
    stages = default_stages()
    before = [stage.label for stage in stages].index("hint-loads")
    run_pipeline(make_context(), module, stages[:before])
    plain = module.clone()
    run_pipeline(make_context(), module, stages[before : before + 1])
    assert print_text(parse(print_text(module))) == print_text(module)
    if all(len(size) == 1 for size in sizes):
        check_equivalent(plain, module)
    loads = [op for op in module.walk() if isinstance(op, kernel.LoadOp) and op.shape]
    return [op.eviction or "-" for op in loads]


def test_a_sum_of_rows_of_16_bits() -> None:
    assert hints(lambda x: x.sum(1), (4096, 8192)) == [FIRST]
    assert hints(lambda x: x.sum(0), (4096, 32768)) == [FIRST]
    assert hints(lambda x: x.argmax(1), (4096, 8192)) == [FIRST]


def test_a_sum_of_f32_about_as_large_as_the_cache() -> None:
    assert hints(lambda x: x.sum(1), (8192, 1883), dtype=torch.float32) == [FIRST]
    assert hints(lambda x: x.amax(0), (500, 20000), dtype=torch.float32) == [FIRST]


def test_rows_that_are_walked_along_stay_until_the_last_time() -> None:
    assert hints(lambda x: x.softmax(1), (2048, 32768)) == [LAST, LAST, FIRST]


def test_steps_within_a_sector_say_nothing() -> None:
    """Rows of 25 are gone along by 4, 8 bytes of a sector that the next steps read on; rows of 41 by 16, a sector."""
    assert hints(lambda x: x.sum(1), (1000003, 25)) == ["-"]
    assert hints(lambda x: x.sum(1), (500003, 41)) == [FIRST]


def two_readers(x: Tensor) -> tuple[Tensor, Tensor]:
    """The second is of other rows, and no kernel does both."""
    return x.sum(1), (x.view(8192, 4096).float().softmax(1) * 2).bfloat16()


def test_who_reads_later_finds_it() -> None:
    """Nothing is said of the first reading, and the second one writes as much as it reads."""
    assert FIRST not in hints(two_readers, (4096, 8192))


def test_a_call_of_a_library_reads_later_too() -> None:
    assert hints(lambda x, y: (x.sum(1), torch.mm(x, y)), (4096, 8192), (8192, 64))[0] == "-"
    assert hints(lambda x, y: (torch.mm(x, y), x.sum(1)), (4096, 8192), (8192, 64))[0] == FIRST


@pytest.mark.parametrize(
    ("function", "size", "dtype"),
    [
        (lambda x: x.sum(1), (2048, 2048), torch.float32),
        (lambda x: x.sum(1), (16384, 8192), torch.float32),
        (lambda x: x * 2, (4096, 8192), torch.float32),
        (lambda x: x * 2, (4096, 8192), torch.bfloat16),
        (lambda x: x[:, 1:] * 2, (4096, 4096), torch.bfloat16),
        (lambda x: x.softmax(1), (4096, 4096), torch.bfloat16),
        (lambda x: F.avg_pool2d(x, 3, 1, 1), (8, 64, 128, 128), torch.bfloat16),
        (lambda x: F.max_pool2d(x, 2, 1), (8, 64, 128, 128), torch.bfloat16),
        (lambda x: x.softmax(1), (2048, 65536), torch.float32),
    ],
    ids=[
        "f32 in the cache",
        "much f32",
        "f32 as much written",
        "as much written",
        "with a rest",
        "one tile",
        "windows",
        "small windows",
        "long rows of f32",
    ],
)
def test_near_misses(function: Callable[..., Any], size: tuple[int, ...], dtype: torch.dtype) -> None:
    said = hints(function, size, dtype=dtype)
    assert said
    meets = size == (2048, 65536)  # a part of a row stays in registers
    assert set(said) <= ({"-", FIRST} if meets else {"-"})


def test_what_is_said_changes_no_value() -> None:
    assert FIRST in hints(lambda x: x.sum(), (70000,))
