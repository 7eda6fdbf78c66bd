"""Walks a program down the levels and checks every step: what is printed is the program, and no stage changes what it computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from xdsl.dialects.builtin import ModuleOp, UnknownLoc

import cuesta.compiler
from cuesta.context import make_context
from cuesta.dialects.core.diagnostics import verify_module
from cuesta.dialects.core.fingerprint import structurally_equal
from cuesta.dialects.core.locations import CuestaParser, print_text
from cuesta.pipeline import STAGES, Stage, run_pipeline
from cuesta.record import CompileRecord
from cuesta.targets.reference import check_equivalent

INEXACT = frozenset({"aten-to-loops", "elide-roundings"})
"""The passes that may change roundings. The first compares our formulas with eager's kernels; the second is policy.

The others are compared bit by bit: they regroup sums at most, which the interpreter adds up in float64.
"""


@dataclass(frozen=True, slots=True)
class Captured:
    """One graph as it came from the importer: its kind, the program at the `aten` level, and what it was first run on.

    Random numbers would not do as inputs: a backward pass relies on what the forward pass saved (indices, masks, deviations).
    """

    kind: str
    module: ModuleOp
    inputs: list[object]


@contextmanager
def captured_graphs() -> Iterator[list[Captured]]:
    """Collects every program that the backend compiles in the `with` block: a copy of it before its first stage."""
    found: list[Captured] = []
    original = cuesta.compiler.compile_module

    def record_and_compile(module: ModuleOp, options: Any, record: CompileRecord, dump: Any = None) -> Any:
        captured = Captured(record.kind, module.clone(), [])
        found.append(captured)
        function = original(module, options, record, dump)

        def record_and_call(arguments: list[Any]) -> Any:
            if not captured.inputs:
                captured.inputs.extend(_kept(argument) for argument in arguments)
            return function(arguments)

        return record_and_call

    cuesta.compiler.compile_module = record_and_compile
    try:
        yield found
    finally:
        cuesta.compiler.compile_module = original


def _kept(value: object) -> object:
    if not isinstance(value, torch.Tensor):
        return value
    kept = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype)
    return kept.copy_(value.detach()) if value.is_contiguous() else value.detach().clone(memory_format=torch.preserve_format)


def capture(
    function: Callable[..., Any], *inputs: Any, backward: bool = False, dynamic: bool | None = None, **named: Any
) -> list[Captured]:
    """The graphs that one call of `torch.compile(function)` gives, and with `backward` those of its gradient too."""
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="cuesta", fullgraph=True, dynamic=dynamic)
    with captured_graphs() as found, torch.set_grad_enabled(backward):
        result = compiled(*inputs, **named)
        if backward:
            loss = result if isinstance(result, torch.Tensor) else result[0]
            loss.sum().backward()
    return found


def check_levels(captured: Captured, *, reenter_everywhere: bool = True, seed: int = 0) -> None:
    """Checks every stage of the pipeline on the program, run on the inputs it was captured with: its text, what it computes, and that text can go on from there.

    After every stage (a) the text parses back to the same program, with and without locations, (b) the program computes what it
    computed before the stage, and (c) the stages that remain give the same machine code when they start from the text. With
    `reenter_everywhere` off, (c) starts only where a level begins.

    Errors: AssertionError naming the stage.
    """
    module = captured.module
    levels = [("import", module.clone()), *_run_stages(module.clone())]
    for name, program in levels:
        check_text(program, name)
    for stage, (_, before), (_, after) in zip(STAGES, levels, levels[1:], strict=False):
        check_equivalent(before, after, captured.inputs, exact=stage.name not in INEXACT, pass_name=stage.name, seed=seed)
    expected = machine_code(levels[-1][1])
    for position, (name, program) in enumerate(levels):
        if not reenter_everywhere and position and STAGES[position - 1].begins is None:
            continue
        again = reparse(program)
        for _ in _run_stages(again, STAGES[position:]):
            pass
        assert machine_code(again) == expected, f"{name}: the text of this level goes on to other machine code"
    assert machine_code(_through_text(module)) == expected, "by way of the text of every level the machine code is another"


def _run_stages(module: ModuleOp, stages: Sequence[Stage] = STAGES) -> Iterator[tuple[str, ModuleOp]]:
    """Runs the stages in place; gives a copy of the program after each."""
    context = make_context()
    for stage in stages:
        run_pipeline(context, module, [stage], verify_each=True)
        yield stage.name, module.clone()


def _through_text(module: ModuleOp) -> ModuleOp:
    context = make_context()
    for stage in STAGES:
        module = reparse(module)
        run_pipeline(context, module, [stage])
    return reparse(module)


def reparse(module: ModuleOp) -> ModuleOp:
    """The program, by way of its text."""
    return CuestaParser(make_context(), print_text(module, locations=True), "<printed>").parse_module()


def check_text(module: ModuleOp, name: str = "") -> None:
    """The text of the program parses back to the same program and prints the same. Errors: AssertionError."""
    for generic in (False, True):
        text = print_text(module, generic=generic)
        again = CuestaParser(make_context(), text, "<printed>").parse_module()
        verify_module(again)
        assert structurally_equal(module, again), f"{name}: another program comes back from this text:\n{text}"
        assert print_text(again, generic=generic) == text, f"{name}: it prints differently the second time"
    for op, read in zip(module.walk(), reparse(module).walk(), strict=True):
        known = not isinstance(op.location, UnknownLoc)
        assert not known or read.location == op.location, f"{name}: {op.name} comes back from {read.location}"


def machine_code(module: ModuleOp) -> str:
    """The LLVM text of a program at the `host` level."""
    from cuesta.targets.cpu.emit_module import emit_module
    from cuesta.targets.host.wrapper import WrapperWriter

    writer = WrapperWriter(module)
    wrapper = writer.write()
    return emit_module(writer.kernels, wrapper.runs).text
