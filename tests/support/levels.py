"""Walks a program down the levels and checks each step: its text is the program, and no stage changes its results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from xdsl.dialects.builtin import ModuleOp, UnknownLoc

import cuesta.compiler
from cuesta.context import make_context
from cuesta.dialects.complete import COMPLETE
from cuesta.dialects.core.diagnostics import verify_module
from cuesta.dialects.core.dominance import verify_dominance
from cuesta.dialects.core.fingerprint import fingerprint, structurally_equal
from cuesta.dialects.core.locations import CuestaParser, origin_of, print_text
from cuesta.dialects.levels import FUSED, SLICED
from cuesta.pipeline import STAGES, level_of, remaining_stages, run_pipeline
from cuesta.programs.inputs_of import copies_of
from cuesta.record import CompileRecord
from cuesta.replaying.comparing import keeps_bits
from cuesta.targets.reference import Watched


@dataclass(frozen=True, slots=True)
class Captured:
    """One graph as it came from the importer: its kind, the program at the `aten` level, and what it was first run on.

    Random numbers would not do as inputs: a backward pass relies on what the forward pass saved (indices, deviations).
    """

    kind: str
    module: ModuleOp
    inputs: list[object]


@contextmanager
def captured_graphs() -> Iterator[list[Captured]]:
    """Collects every program that the backend compiles in the `with` block: a copy of it before its first stage."""
    found: list[Captured] = []
    original = cuesta.compiler.compile_module

    def record_and_compile(module: ModuleOp, options: Any, record: CompileRecord, *rest: Any) -> Any:
        captured = Captured(record.kind, module.clone(), [])
        found.append(captured)
        function = original(module, options, record, *rest)

        def record_and_call(arguments: list[Any]) -> Any:
            if not captured.inputs:
                captured.inputs.extend(copies_of(arguments))
            return function(arguments)

        return record_and_call

    cuesta.compiler.compile_module = record_and_compile
    try:
        yield found
    finally:
        cuesta.compiler.compile_module = original


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
    assert len(found) > backward, "no graph was captured, or none of a gradient"
    return found


def check_levels(captured: Captured, *, reenter_at_levels: bool = True, seed: int = 0) -> None:
    """Checks every stage of the pipeline on the program, run on the inputs it was captured with.

    After every stage (a) the text parses back to the same program, (b) the program computes what it computed before the
    stage, and (c) the next stage makes of the text what it makes of the program itself, so that the machine code at the
    end is the same to the byte. With `reenter_at_levels` all the stages that remain are also run on the text of each
    level, without text between.

    Errors: AssertionError naming the stage.
    """
    context = make_context()
    program, by_text = captured.module.clone(), check_text(captured.module, "import", generic=True)
    texts: list[tuple[int, ModuleOp]] = [(0, by_text.clone())]
    watched = Watched(program, captured.inputs, seed=seed)
    before = fingerprint(program)
    for position, stage in enumerate(STAGES, start=1):
        run_pipeline(context, program, [stage])
        run_pipeline(context, by_text, [stage])
        now = fingerprint(program)
        assert fingerprint(by_text) == now, f"{stage.name} gives another program when it starts from text"
        if now == before and stage.begins is None:
            continue
        before = now
        verify_module(program)
        verify_dominance(program)
        watched.check(program, exact=keeps_bits(stage.name, program), pass_name=stage.name)
        left_out = [
            f"{found.name}: {what}" for rule in COMPLETE.get(level_of(program), ()) for found, what in rule(program)
        ]
        assert not left_out, f"{stage.name} leaves something out: {left_out}"
        text = print_text(program)
        same = print_text(by_text) == text
        assert same, f"{stage.name} gives a program that prints differently when it starts from text"
        by_text = check_text(program, stage.name, generic=stage.begins is not None, text=text)
        if stage.begins is not None:
            texts.append((position, by_text.clone()))
    expected = machine_code(program)
    assert machine_code(by_text) == expected, "by way of text the machine code is another"
    if not reenter_at_levels:
        return
    for position, module in texts:
        if position == 0 or STAGES[position - 1].begins not in (FUSED, SLICED):
            assert remaining_stages(module, STAGES) == STAGES[position:], "the level is not what the text says it is"
        run_pipeline(context, module, STAGES[position:])
        name = STAGES[position - 1].name if position else "import"
        assert machine_code(module) == expected, f"the text of the program after {name} goes on to other machine code"


def check_text(module: ModuleOp, name: str = "", *, generic: bool = False, text: str | None = None) -> ModuleOp:
    """Checks that the text of the program parses back to it, locations included; with `generic`, in that form too.
    `text` is its text without locations, where that is known.

    Returns the program that comes back. Errors: AssertionError.
    """
    again = _parse(print_text(module, locations=True))
    assert structurally_equal(module, again), f"{name}: another program comes back from the text"
    assert print_text(again) == (text or print_text(module)), f"{name}: it prints differently the second time"
    for op, read in zip(module.walk(), again.walk(), strict=True):
        known = not isinstance(op.location, UnknownLoc)
        assert not known or origin_of(read.location) == origin_of(op.location), (
            f"{name}: {op.name} comes back from {read.location}"
        )
    if generic:
        other = _parse(print_text(module, generic=True))
        assert structurally_equal(module, other), f"{name}: another program comes back from the generic form"
    return again


def _parse(text: str) -> ModuleOp:
    module = CuestaParser(make_context(), text, "<printed>").parse_module()
    verify_module(module)
    return module


def machine_code(module: ModuleOp) -> str:
    """The LLVM text of a program at the `host` level."""
    from cuesta.targets.cpu.python_calls import with_shared
    from cuesta.targets.host.wrapper import WrapperWriter

    writer = WrapperWriter(module)
    found = writer.write().runs_by_target().items()
    return with_shared("\n".join(target.start(writer.kernels, ()).native(runs, []) for target, runs in found))
