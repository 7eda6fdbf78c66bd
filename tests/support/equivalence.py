"""Is a rewrite right? The example of a text test, run before and after every pass of its RUN line."""

from __future__ import annotations

from pathlib import Path

from cuesta.context import make_context
from cuesta.dialects.core.machine import Machine, state_machine
from cuesta.opt import parse_module, split_input
from cuesta.passes import parse_passes
from cuesta.pipeline import Stage, run_pipeline
from cuesta.replaying.comparing import keeps_bits
from cuesta.targets.reference import NotEquivalentError, Watched

__all__ = ["NotEquivalentError", "check_example"]


def check_example(path: Path, passes: str, machine: str = "") -> None:
    """Runs every program of the file, pass by pass, and compares what it computes before and after each.

    To the bit, except for the passes that say they change roundings.

    Errors: NotEquivalentError naming the pass.
    """
    context = make_context()
    for chunk in split_input(path.read_text(encoding="utf-8")):
        module = parse_module(context, chunk, str(path))
        if machine:
            state_machine(module, Machine.parse(machine))
        watched = Watched(module)
        for one in parse_passes(passes):
            run_pipeline(context, module, [Stage(str(one.pipeline_pass_spec()), "under test")], verify_each=True)
            watched.check(module, exact=keeps_bits(one.name, module), pass_name=one.name)
