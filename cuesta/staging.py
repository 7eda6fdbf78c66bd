"""The stages that a program goes through: which ones, and running them, with what options ask to see of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from cuesta.logs import FUSION, SCHEDULE, tell_stage, topics
from cuesta.observing import observing
from cuesta.options import Options
from cuesta.record import DUMP, CompileRecord

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from cuesta.dump import Dump
    from cuesta.lowering.schedule.tune_kernels import Question
    from cuesta.pipeline import Stage


def run_stages(
    module: ModuleOp,
    options: Options,
    record: CompileRecord,
    dump: Dump | None = None,
    stages: Sequence[Stage] | None = None,
    *,
    checked: bool = False,
) -> None:
    """Runs `stages`, or else those that options ask for and the program still has before it, in place. A program from
    a text is `checked` where it cannot be believed.

    Errors: CuestaError.
    """
    from cuesta.context import make_context
    from cuesta.dialects.core.machine import state_machine
    from cuesta.dialects.core.tracing import active_trace, trace_rewrites
    from cuesta.machine import machine_for
    from cuesta.pipeline import CHECK_BOUNDS, level_of, run_pipeline
    from cuesta.targets.progress import progress

    state_machine(module, machine_for(module))
    if stages is None:
        stages = stages_for(module, options)
    if checked:
        stages = (*(stage for stage in stages if stage.name != CHECK_BOUNDS.name), CHECK_BOUNDS)
    if dump is not None:
        with record.stage(DUMP):
            dump.begin(level_of(module), module, [stage.name for stage in stages])

    observer = observing()
    if observer is not None:
        with record.stage(DUMP):
            observer.begin(record, module, stages)

    done = 0

    def after_stage(name: str, current: ModuleOp, seconds: float) -> None:
        nonlocal done
        done += 1
        tell(done)
        record.seconds[name] = record.seconds.get(name, 0.0) + seconds
        if dump is not None:
            with record.stage(DUMP):
                dump.level(name, current)
        if told:
            with record.stage(DUMP):
                tell_stage(name, current, active_trace())
        if observer is not None:
            with record.stage(DUMP):
                observer.stage(record, name, current, seconds)
        elif told and trace is not None:
            trace.apart.clear()

    told = topics() & {FUSION, SCHEDULE}
    traced = options.trace or observer is not None or FUSION in told
    wants_texts = options.trace and observer is None  # who looks on takes the trace away, stage by stage
    tracing = trace_rewrites(texts=wants_texts) if traced else nullcontext()
    with (
        tracing as trace,
        _tuning(options, stages, dump, lambda: stages[done].label),
        progress(len(stages), "stages done") as tell,
    ):
        run_pipeline(
            make_context(),
            module,
            stages,
            verify_each=options.verify == "each",
            after_stage=after_stage,
            keep_input=None if dump is None else dump.before,
        )
    if checked:
        from cuesta.programs.texts import verify_lowered

        verify_lowered(module)
    if trace is None or not wants_texts:
        return
    if dump is not None:
        dump.text("rewrites.txt", trace.summary())
    else:
        print(trace.summary(), file=sys.stderr)


def stages_for(module: ModuleOp, options: Options) -> Sequence[Stage]:
    """The stages that options ask for, those of them that a program at this level still has before it."""
    import torch

    from cuesta.dialects.host import is_in_pieces
    from cuesta.pipeline import default_stages, remaining_stages, stages_of
    from cuesta.precisions import tf32_of_convolutions, tf32_of_products

    if options.pipeline is not None:
        return stages_of(options.pipeline)
    every = default_stages(
        emulate_precision_casts=options.emulate_precision_casts,
        relax_accuracy=options.relax_accuracy,
        deterministic=torch.are_deterministic_algorithms_enabled(),
        random=options.random,
        tune=options.tunes,
        tf32=tf32_of_products(),
        tf32_convolutions=tf32_of_products() and tf32_of_convolutions(),
        pieces=is_in_pieces(module),
    )
    return remaining_stages(module, every)


def can_ask() -> bool:
    """Whether there is a device, and nobody records what is launched on it just now."""
    import torch

    return torch.cuda.is_available() and not torch.cuda.is_current_stream_capturing()


@contextmanager
def _tuning(options: Options, stages: Sequence[Stage], dump: Dump | None, running: Callable[[], str]) -> Iterator[None]:
    """The `with` block in which stages that ask a device run, if there are any and it may be asked; `running` says
    which one does. A dump gets what was measured.
    """
    from cuesta.tuning import BY_DEFAULT, tuners_for

    labels = {stage.label for stage in stages}
    asks = "tune-kernels" in labels or (not labels.isdisjoint(BY_DEFAULT) and options.measure_unsure and can_ask())
    if not asks or options.target != "device":
        yield
        return
    from cuesta.dialects.core.tracing import untraced
    from cuesta.lowering.schedule.tune_kernels import measuring

    tuners = tuners_for(options, stages)

    def measure(questions: Sequence[Question]) -> Sequence[Sequence[float]]:
        with untraced():
            return tuners[running()](questions)

    with measuring(measure):
        yield
    if dump is not None and (log := next(iter(tuners.values())).log):
        dump.text("tuning.txt", "\n".join(log))
