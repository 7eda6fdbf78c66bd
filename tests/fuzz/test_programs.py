"""Hypothesis looks for a program on which compiled code is wrong.

`make test` tries 12, `make test-thorough` other 40; `make fuzz` looks for as long as it is let.
"""

from __future__ import annotations

import os
from random import Random

import pytest
import torch
from hypothesis import HealthCheck, example, given, note, settings

from cuesta.context import make_context
from cuesta.dialects.core.entry import entry_block
from cuesta.pipeline import STAGES, run_pipeline
from cuesta.replaying.comparing import INEXACT
from cuesta.targets.reference import Watched
from cuesta.testing import Float64Mode, effects
from tests.fuzz.expressions import MAKERS, Value
from tests.fuzz.programs import Input, Program, compare, programs
from tests.support.differential import copied
from tests.support.levels import captured_graphs

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "0"))
COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck)}


def has_gradients(program: Program, inputs: list[torch.Tensor]) -> bool:
    """Whether eager can differentiate: not when a value that the backward pass needs was written to."""
    try:
        roots = [root for root in program.function()(*copied(inputs)) if root.requires_grad]
        if roots:
            torch.autograd.backward(roots, [torch.ones_like(root) for root in roots])
        function = program.function()
        effects(function, function, inputs, gradients=True, dtype=torch.float64)  # where casts make no copies
    except RuntimeError:
        return False
    return True


VIEWS_OF_WHAT_IS_UPDATED = Program(
    inputs=[Input("x", "numbers(57, torch.float32, 1, 2, 1).transpose(-1, -2)")],
    statements=[
        "x.index_copy_(0, torch.tensor([0]), x.narrow(0, 0, 1) + 1)",
        "x.narrow(0, 0, 1).copy_(x)",
        "x.narrow(0, 0, 1).zero_()",
        "v4 = x.permute(0, 1, 2)",
        "v10 = v4.diagonal(0, 0, 1)",
    ],
    results=["v10"],
    dynamic=True,
    written={"x"},
    writes=True,
)
"""Returned, it was a view of the old values at one level and of the new ones at the next (eager runs it now)."""


def check_program(program: Program) -> None:
    """Compiled against eager and float64; then every graph of it, before and after each stage, in the interpreter.

    The stages that change roundings have float64 as their judge, and are not compared by themselves: how much a last
    bit matters depends on the program.
    """
    note(f"\n--- to see it again:\n{program.reproducer()}---")
    torch._dynamo.reset()
    inputs = program.arguments()
    for one, value in zip(program.inputs, inputs, strict=True):
        may_be_leaf = one.name not in program.written and value.is_leaf and value.is_contiguous()
        value.requires_grad_(value.dtype == torch.float32 and may_be_leaf)
    if not has_gradients(program, inputs):
        for value in inputs:
            value.requires_grad_(False)
    with captured_graphs() as captured:
        compare(program.function(), inputs, program.dynamic, strides=not program.writes)
    context = make_context()
    # Products of one memory and of another, aligned otherwise, may differ in their last bits: the library's do.
    is_exact = not any("torch.mm" in statement for statement in program.statements)
    for graph in captured:
        if entry_block(graph.module).args and not graph.inputs:
            continue  # the gradient of what no result depends on: nobody asked for it
        module = graph.module.clone()
        watched = Watched(module, graph.inputs)
        for stage in STAGES:
            run_pipeline(context, module, [stage], verify_each=True)
            if stage.name in INEXACT:
                watched = Watched(module, graph.inputs)
            else:
                watched.check(module, exact=is_exact, pass_name=stage.name)


@pytest.mark.parametrize("seed", range(2))
def test_rounding_decides_no_derivative(seed: int) -> None:
    """Beside numbers that results often are, what is drawn on values that are not exact has one derivative."""
    rng = Random(seed)
    x = torch.arange(-32, 33, dtype=torch.float64)[1:].view(8, 8) / 8
    checked = 0
    for make in MAKERS * 8:
        drawn = make(rng, [Value("x", x.float(), exact=False)])
        if drawn is None or "torch.mm" in drawn[0]:
            continue
        found: list[torch.Tensor] = []
        for step in (-1e-9, 1e-9):
            leaf = (x + step).requires_grad_()
            with Float64Mode():
                result = eval(drawn[0], {"torch": torch, "x": leaf})
            if result.is_floating_point():
                found += torch.autograd.grad(result.sum(), leaf)
                checked += 1
        if found:
            torch.testing.assert_close(found[0], found[1], rtol=1e-5, atol=1e-5, msg=drawn[0])
    assert checked > 400


@settings(max_examples=4, derandomize=True, database=None, **COMMON)
@example(program=VIEWS_OF_WHAT_IS_UPDATED)
@given(programs(most_statements=8))
def test_a_few_programs(program: Program) -> None:
    check_program(program)


@pytest.mark.slow
@settings(max_examples=12, derandomize=True, database=None, **COMMON)
@given(programs())
def test_programs(program: Program) -> None:
    check_program(program)


@pytest.mark.slow
@pytest.mark.thorough
@settings(max_examples=EXAMPLES or 40, derandomize=not EXAMPLES, print_blob=True, **COMMON)
@given(programs())
def test_more_programs(program: Program) -> None:
    check_program(program)
