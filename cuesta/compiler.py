"""One graph, from FX to a function: look up, import, run the stages, generate, keep.

A program that is in the cache is loaded without any of these: modules of the compiler are imported where they are used.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from cuesta.caching.place import Place
from cuesta.dialects.core.extension import active
from cuesta.fallbacks import watched
from cuesta.finishing import BoxedFunction, Keep, finish, with_constants
from cuesta.frozen import FROZEN, freeze
from cuesta.observing import observing
from cuesta.options import Options
from cuesta.record import DUMP, CompileRecord, recorded
from cuesta.structured_trace import trace_code, trace_program
from cuesta.targets.lookup import running_on
from cuesta.targets.program import CudaError

if TYPE_CHECKING:
    import torch
    from xdsl.dialects.builtin import ModuleOp

    from cuesta.dump import Dump
    from cuesta.lowering.capture.fx_to_program import ImportedProgram
    from cuesta.pipeline import Stage
    from cuesta.targets.host.runtime import Wrapper


WEIGHTS = "cuesta.weights"
"""Where the `meta` of a graph says at which addresses a model's own tensors begin, when its inputs are to be kept."""


def compile_graph(
    gm: torch.fx.GraphModule, record: CompileRecord, options: Options, place: Place | None = None
) -> BoxedFunction:
    """Compiles a functional ATen graph; the function takes a list of inputs, which it empties. What it became, and what
    that cost, is put down in `record`, which is one of `cuesta.records` from now on. The program is taken from its
    `place`, and kept there: in the cache, if nobody says another.

    What no level can say, eager runs, with the rest compiled around it (`lowering/capture/plan.py`). A graph that
    nothing can be made of, or that lies on a device we have no target for, runs in eager as a whole, with a warning
    that says why.
    """
    from cuesta.lowering.capture.plan import complete_metadata

    if active():
        from cuesta.extensions import named

        record.extensions = tuple(named(active()))
    with recorded(record):
        with running_on(options.target):
            device = _unsupported_device(gm)
        observer = observing()
        if observer is not None and (function := observer.graph(gm, record)) is not None:
            return function
        if device is not None:
            return _in_eager(gm, record, f"there is no target for the device {device}")
        complete_metadata(gm)
        place = place or (Place.of(gm, record, options) if observer is None else Place(gm, record, None, None))
        try:
            known = None if options.wants_stages else place.look_up()
            if known is not None or options.wants_stages:
                return known or _compile_fresh(gm, options, record, place)
            with place.turn() as known:
                return known or place.finished(_compile_fresh(gm, options, record, place))
        except CudaError as error:  # it is the device or its driver that refuses
            return _in_eager(gm, record, error)


def _compile_fresh(gm: torch.fx.GraphModule, options: Options, record: CompileRecord, place: Place) -> BoxedFunction:
    from cuesta.lowering.capture.fx_to_aten import UnsupportedGraphError

    with running_on(options.target):
        _prepare_workers(gm)
    try:
        imported = imported_program(gm, record)
    except UnsupportedGraphError as error:
        return _in_eager(gm, record, error)
    names, constants = [name for name, _ in imported.constants], [value for _, value in imported.constants]
    dump = _dump_of(gm, options, record)
    before = imported.module.clone() if options.validate == "stages" else None
    with nullcontext() if dump is None else dump.failures_kept():
        function = compile_module(
            imported.module, options, record, dump, lambda program: place.keep(program, names), place.key
        )
    if before is not None:
        from cuesta.validating.stages import checked_at_first

        function = checked_at_first(function, before, options)
    if dump is not None and options.dump_inputs:
        from cuesta.programs.kept_inputs import keep_first

        function = keep_first(function, dump.folder, gm.meta.get(WEIGHTS, frozenset()), len(constants))
    return with_constants(function, constants)


def imported_program(gm: torch.fx.GraphModule, record: CompileRecord) -> ImportedProgram:
    """The program of a functional ATen graph, before its first stage.

    Errors: UnsupportedGraphError for a graph that runs in eager.
    """
    from cuesta.dialects.core.entry import entry_function, given
    from cuesta.lowering.capture.fx_to_program import import_program
    from cuesta.saved_results import given_results

    with record.stage("import"):
        imported = import_program(gm)
    record.aten_ops = imported.aten_ops
    trace_program("aten", imported.module)
    if positions := gm.meta.get(FROZEN):
        freeze(imported.module, positions)
    if (count := given_results(record.kind)) is not None:
        entry_function(imported.module).attributes["aten.given"] = given(count)
    return imported


def compile_module(
    module: ModuleOp,
    options: Options,
    record: CompileRecord,
    dump: Dump | None = None,
    keep: Keep | None = None,
    key: str | None = None,
    stages: Sequence[Stage] | None = None,
    *,
    checked: bool = False,
) -> Wrapper:
    """Compiles a program at any level, by `stages`, or else those it still has before it. `keep` is shown the compiled
    program, and `key` is what it keeps it by. A program from a text is `checked` where it cannot be believed.

    Returns the wrapper's function, which takes the list of @main's arguments and empties it.
    Errors: CuestaError, CudaError.
    """
    from cuesta.code_generation import begin
    from cuesta.saved_results import strides_of_results
    from cuesta.staging import run_stages

    run_stages(module, options, record, dump, stages, checked=checked)
    observer = observing()
    with running_on("checked" if options.validate == "kernels" else options.target):
        readers: list[Callable[[str, str], object]] = [] if dump is None else [dump.text]
        if observer is not None:
            readers.append(partial(observer.text, record))

        def write(name: str, text: str) -> None:
            for reader in readers:
                reader(name, text)

        generated = begin(
            module,
            record,
            write if readers else None,
            checked=checked,
            checks_calls=options.checks == "calls",
            writer=None if observer is None else observer.writer(),
        )
    _count(module, record)
    trace_program("host", module)
    trace_code(generated.program.source)
    record.result_strides = strides_of_results(module)
    function = finish(generated, record, keep, key)
    if observer is not None:
        return observer.made(record, module, generated, function)
    return watched(function, generated.program.overloads, record.kind)


def _dump_of(gm: torch.fx.GraphModule, options: Options, record: CompileRecord) -> Dump | None:
    """The folder for a graph's texts, if they are asked for."""
    if not options.dump:
        return None
    from cuesta.dump import Dump

    dump = Dump.create(options.dump, record.kind)
    record.dump = str(dump.folder)
    with record.stage(DUMP):
        dump.text("fx.py", gm.print_readable(print_output=False))
        dump.about(record.kind, options)
    return dump


def _in_eager(gm: torch.fx.GraphModule, record: CompileRecord, reason: object) -> BoxedFunction:
    from functorch.compile import make_boxed_func  # pyright: ignore[reportPrivateImportUsage]  # documented there

    record.in_eager = str(reason)
    warnings.warn(f"cuesta runs a graph in eager: {reason}", stacklevel=4)
    return make_boxed_func(gm.forward)


def _unsupported_device(gm: torch.fx.GraphModule) -> str | None:
    """The device of some value of the graph, if it is one that we have no target for; why, when it may be had."""
    import torch

    from cuesta.targets.lookup import obstacle

    known: dict[torch.device, str | None] = {}
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        for one in value if isinstance(value, tuple | list) else (value,):
            if not isinstance(one, torch.Tensor):
                continue
            if one.device not in known:
                known[one.device] = obstacle(str(one.device))
            if (reason := known[one.device]) is not None:
                return reason
    return None


def _prepare_workers(gm: torch.fx.GraphModule) -> None:
    """Tells the targets how much is to come: some start processes that compile kernels."""
    import torch

    from cuesta.targets.lookup import target_of

    ops = Counter[str]()
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        if node.op == "call_function":
            # An operator of lists is one for each tensor.
            for one in value if isinstance(value, tuple | list) else (value,):
                if isinstance(one, torch.Tensor):
                    ops[one.device.type] += 1
    for kind, count in ops.items():
        target_of(kind).prepare(count)


def _count(module: ModuleOp, record: CompileRecord) -> None:
    from cuesta.dialects import host
    from cuesta.lowering.aten.library_calls import is_library_call

    for function in module.body.ops:
        if not isinstance(function, host.FuncOp):
            continue
        for op in function.body.ops:
            if isinstance(op, host.ExternOp) and is_library_call(op.overload):
                record.library_calls += 1
            elif isinstance(op, host.ExternOp) or (isinstance(op, host.EagerOp) and op.is_operator and op.is_used):
                record.fallbacks[op.overload] += 1
