"""Hypothesis looks for a loop over windows that `split-index-sets` splits wrongly; the interpreter is the judge.

`make test` tries 100 kernels and 20 calls, `make test-thorough` other 200 and 40; `make fuzz` as many as it is told.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, note, settings
from xdsl.dialects.builtin import ModuleOp

from cuesta.context import make_context
from cuesta.dialects import kernel
from cuesta.pipeline import STAGES, Stage, run_pipeline
from cuesta.targets.reference import check_equivalent
from tests.fuzz.test_programs import COMMON, EXAMPLES
from tests.fuzz.windows import Call, calls, kernels
from tests.support.levels import captured_graphs
from tests.support.text import parse

pytestmark = pytest.mark.slow

SPLIT = Stage("split-index-sets", "under test")


def split(module: ModuleOp) -> ModuleOp:
    """A copy of a program after the pass, which says what it said before; twice is as good as once."""
    after = module.clone()
    run_pipeline(make_context(), after, [SPLIT], verify_each=True)
    again = after.clone()
    run_pipeline(make_context(), again, [SPLIT], verify_each=True)
    check_equivalent(module, after, exact=True, pass_name=SPLIT.name)
    check_equivalent(module, again, exact=True, pass_name=f"{SPLIT.name}, twice,")
    return after


def check_kernel(text: str) -> None:
    note(text)
    split(parse(text))


def check_call(call: Call) -> None:
    """Every graph of a call as it comes to the pass."""
    note(f"{call.text} of {call.sizes}")
    torch._dynamo.reset()
    with captured_graphs() as captured:
        torch.compile(call.function(), backend="cuesta")(torch.randn(call.sizes))
    names = [stage.name for stage in STAGES]
    for graph in captured:
        module = graph.module.clone()
        run_pipeline(make_context(), module, STAGES[: names.index(SPLIT.name)])
        split(module)


def masks_go(text: str) -> bool:
    """Whether the pass makes several loops of one, some of which ask for nothing."""
    module = parse(text)
    run_pipeline(make_context(), module, [SPLIT])
    loops = [op for op in module.walk() if isinstance(op, kernel.ForOp) and not _inner(op)]
    masked = [any(isinstance(op, kernel.LoadOp) and op.mask is not None for op in loop.walk()) for loop in loops]
    return len(loops) > 1 and not all(masked) and any(masked)


def _inner(loop: kernel.ForOp) -> bool:
    return any(isinstance(op, kernel.ForOp) for op in loop.body.ops)


@settings(max_examples=100, derandomize=True, database=None, **COMMON)
@given(kernels())
def test_a_few_kernels(text: str) -> None:
    check_kernel(text)


@settings(max_examples=20, derandomize=True, database=None, **COMMON)
@given(calls())
def test_a_few_calls(call: Call) -> None:
    check_call(call)


@pytest.mark.thorough
@pytest.mark.slow
@settings(max_examples=EXAMPLES or 200, derandomize=not EXAMPLES, print_blob=True, **COMMON)
@given(kernels())
def test_kernels(text: str) -> None:
    check_kernel(text)


@pytest.mark.thorough
@pytest.mark.slow
@settings(max_examples=EXAMPLES or 40, derandomize=not EXAMPLES, print_blob=True, **COMMON)
@given(calls())
def test_calls(call: Call) -> None:
    check_call(call)


@pytest.mark.slow
def test_there_are_kernels_that_are_split() -> None:
    """Otherwise the tests above would say nothing."""
    found: list[bool] = []

    @settings(max_examples=60, derandomize=True, database=None, **COMMON)
    @given(kernels())
    def look(text: str) -> None:
        found.append(masks_go(text))

    look()
    assert sum(found) >= 5, f"of {len(found)} kernels {sum(found)} have loops that are split"
