"""One graph, from FX to a function: import, pipeline, code generation, wrapper; or from the cache on disk.

A program that is in the cache is loaded without any of these: modules of the compiler are imported where they are used.
"""

from __future__ import annotations

import sys
import threading
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from cuesta.dialects.core.extension import active
from cuesta.options import Options
from cuesta.record import DUMP, CompileRecord, GraphKind, records
from cuesta.targets.lookup import running_on
from cuesta.targets.program import CudaError

if TYPE_CHECKING:
    import torch
    from xdsl.dialects.builtin import ModuleOp

    from cuesta.cache import DiskCache
    from cuesta.code_generation import Generated
    from cuesta.dump import Dump
    from cuesta.pipeline import Stage
    from cuesta.targets.cpu.jit import LoadedModule
    from cuesta.targets.host.runtime import Wrapper
    from cuesta.targets.program import Program

BoxedFunction = Callable[[list[Any]], Any]


def compile_graph(gm: torch.fx.GraphModule, *, kind: GraphKind, options: Options) -> BoxedFunction:
    """Compiles a functional ATen graph; the function takes a list of inputs, which it empties.

    What no level can say, eager runs, with the rest compiled around it (`lowering/capture/plan.py`). A graph that lies
    on a device we have no target for runs in eager as a whole, with a warning that says why.
    """
    record = CompileRecord(kind=kind)
    if active():
        from cuesta.extensions import named

        record.extensions = tuple(named(active()))
    records.append(record)
    with running_on(options.target):
        device = _unsupported_device(gm)
    if device is not None:
        return _in_eager(gm, f"there is no target for the device {device}")
    from cuesta.lowering.capture.plan import complete_metadata

    complete_metadata(gm)
    with record.stage("cache-key"):
        cache, key = _place_in_cache(gm, kind, options)
    if cache is not None and key is None and active():
        from cuesta.cache_key import why_unnamable

        record.not_kept = why_unnamable()
    if cache is not None and key is not None and not options.wants_stages:
        if (unfinished := _unfinished.get(key)) is not None:  # an equal graph, that has not run yet
            unfinished.finish()
        known = _from_cache(cache, key, gm, record)
        if known is not None:
            return known
    return _compile_fresh(gm, options, record, cache, key)


def _place_in_cache(gm: torch.fx.GraphModule, kind: GraphKind, options: Options) -> tuple[DiskCache | None, str | None]:
    from cuesta.cache import DiskCache

    cache = DiskCache.chosen_by(options)
    if cache is None:
        return None, None
    from cuesta.cache_key import key_of

    return cache, key_of(gm, kind, options)


def _from_cache(cache: DiskCache, key: str, gm: torch.fx.GraphModule, record: CompileRecord) -> BoxedFunction | None:
    """The function of a graph that was compiled before, here or in another process."""
    with record.stage("cache-read"):
        entry = cache.load(key)
    if entry is None:
        return None
    import torch

    from cuesta.targets.cpu.jit import MachineCodeError

    try:
        function = load_program(entry.program_for(gm), record)
    except torch.cuda.OutOfMemoryError:
        raise
    except CudaError as error:
        return _in_eager(gm, error)
    except (MachineCodeError, SyntaxError, AttributeError, KeyError, RuntimeError) as error:
        cache.discard(key, error)
        return None
    record.from_cache = True
    record.aten_ops, record.kernels, record.library_calls = entry.aten_ops, entry.kernels, entry.library_calls
    record.fallbacks = entry.fallbacks
    return _with_constants(function, entry.constants_for(gm))


def _compile_fresh(
    gm: torch.fx.GraphModule, options: Options, record: CompileRecord, cache: DiskCache | None, key: str | None
) -> BoxedFunction:
    from cuesta.lowering.capture.fx_to_aten import UnsupportedGraphError
    from cuesta.lowering.capture.fx_to_program import import_program

    with running_on(options.target):
        _prepare_workers(gm)
    try:
        with record.stage("import"):
            imported = import_program(gm)
    except UnsupportedGraphError as error:
        return _in_eager(gm, error)
    record.aten_ops = imported.aten_ops
    dump: Dump | None = None
    if options.dump:
        from cuesta.dump import Dump

        dump = Dump.create(options.dump, record.kind)
        record.dump = str(dump.folder)
        with record.stage(DUMP):
            dump.text("fx.py", gm.print_readable(print_output=False))

    def keep(program: Program) -> None:
        if cache is not None and key is not None:
            with record.stage("cache-write"):
                _store(cache, key, program, gm, [name for name, _ in imported.constants], record)

    try:
        function = compile_module(imported.module, options, record, dump, keep, key)
    except CudaError as error:  # it is the device or its driver that refuses
        return _in_eager(gm, error)
    return _with_constants(function, [tensor for _, tensor in imported.constants])


def _prepare_workers(gm: torch.fx.GraphModule) -> None:
    """Tells the targets how much is to come: some start processes that compile kernels."""
    import torch

    from cuesta.targets.lookup import target_of

    ops = Counter[str]()
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        if node.op == "call_function" and isinstance(value, torch.Tensor):
            ops[value.device.type] += 1
    for kind, count in ops.items():
        target_of(kind).prepare(count)


def _store(
    cache: DiskCache,
    key: str,
    program: Program,
    gm: torch.fx.GraphModule,
    constants: Sequence[str],
    record: CompileRecord,
) -> None:
    from cuesta.cache_entry import Entry
    from cuesta.cache_key import loaded_sources, sources_on_disk

    if sources_on_disk() != loaded_sources():
        return  # edited since this process began to compile: who knows which version each module of it has
    entry = Entry.of(
        program,
        gm,
        constants,
        aten_ops=record.aten_ops,
        kernels=record.kernels,
        library_calls=record.library_calls,
        fallbacks=record.fallbacks,
    )
    cache.store(key, entry)


def _in_eager(gm: torch.fx.GraphModule, reason: object) -> BoxedFunction:
    from functorch.compile import make_boxed_func  # pyright: ignore[reportPrivateImportUsage]  # documented there

    warnings.warn(f"cuesta runs a graph in eager: {reason}", stacklevel=4)
    return make_boxed_func(gm.forward)


def _with_constants(function: Callable[[list[Any]], Any], constants: Sequence[Any]) -> BoxedFunction:
    """The boxed function that passes the graph's own tensors last."""
    if not constants:
        return make_boxed(function)
    return make_boxed(lambda args: function([*_taken(args), *constants]))


def compile_module(
    module: ModuleOp,
    options: Options,
    record: CompileRecord,
    dump: Dump | None = None,
    keep: Callable[[Program], None] | None = None,
    key: str | None = None,
    stages: Sequence[Stage] | None = None,
    *,
    checked: bool = False,
) -> Wrapper:
    """Compiles a program at any level, by `stages`, or else those it still has before it. `keep` is shown the compiled
    program, and `key` is what it keeps it by. A program from a text is `checked` where it cannot be believed.

    Returns the wrapper's function, which takes the list of @main's arguments and empties it. LLVM may still be at work
    on a program for the CPU, in a thread: the first call waits for it, and what torch does until then costs no time.
    """
    from cuesta.code_generation import begin
    from cuesta.context import make_context
    from cuesta.dialects.core.machine import state_machine
    from cuesta.dialects.core.tracing import trace_rewrites
    from cuesta.machine import machine_for
    from cuesta.pipeline import CHECK_BOUNDS, level_of, run_pipeline

    state_machine(module, machine_for(module))
    if stages is None:
        stages = _stages_for(module, options)
    if checked:
        stages = (*(stage for stage in stages if stage.name != CHECK_BOUNDS.name), CHECK_BOUNDS)
    if dump is not None:
        with record.stage(DUMP):
            dump.begin(level_of(module), module, [stage.name for stage in stages])

    def after_stage(name: str, current: ModuleOp, seconds: float) -> None:
        record.seconds[name] = record.seconds.get(name, 0.0) + seconds
        if dump is not None:
            with record.stage(DUMP):
                dump.level(name, current)

    with trace_rewrites() if options.trace else nullcontext() as trace, _tuning(options, stages, dump):
        run_pipeline(
            make_context(),
            module,
            stages,
            verify_each=options.verify == "each",
            after_stage=after_stage,
            keep_input=None if dump is None else dump.before,
        )
    if checked:
        from cuesta.texts import verify_lowered

        verify_lowered(module)
    if trace is not None and dump is not None:
        dump.text("rewrites.txt", trace.summary())
    elif trace is not None:
        print(trace.summary(), file=sys.stderr)
    with running_on(options.target):
        generated = begin(module, record, None if dump is None else dump.text, checked=checked)
    _count(module, record)
    if generated.compilation is not None and not generated.program.device_runs and not generated.in_eager:
        unfinished = _Unfinished(generated, record, keep)
        if key is not None:
            _unfinished[key] = unfinished
        with record.stage("build"):
            from cuesta.targets.host.runtime import build_unfinished

            return build_unfinished(generated.program, unfinished.finish)
    generated = generated.finished(record)
    if keep is not None and not generated.in_eager:
        keep(generated.program)
    return load_program(generated.program, record, generated.in_eager)


def _stages_for(module: ModuleOp, options: Options) -> Sequence[Stage]:
    """The stages that options ask for, those of them that a program at this level still has before it."""
    import torch

    from cuesta.dialects.host import is_in_pieces
    from cuesta.pipeline import default_stages, remaining_stages, stages_of

    if options.pipeline is not None:
        return stages_of(options.pipeline)
    every = default_stages(
        emulate_precision_casts=options.emulate_precision_casts,
        relax_accuracy=options.relax_accuracy,
        deterministic=torch.are_deterministic_algorithms_enabled(),
        random=options.random,
        tune=options.tunes,
        tf32=torch.get_float32_matmul_precision() != "highest",
        pieces=is_in_pieces(module),
    )
    return remaining_stages(module, every)


class _Unfinished:
    """A program whose object code is still being made."""

    def __init__(self, generated: Generated, record: CompileRecord, keep: Callable[[Program], None] | None) -> None:
        self.generated = generated
        self.record = record
        self.keep = keep
        self.lock = threading.Lock()
        self.loaded: LoadedModule | None = None

    def finish(self) -> LoadedModule | None:
        """Waits for the object code, loads it, and keeps the program."""
        with self.lock:
            if self.loaded is None:
                program = self.generated.finished(self.record).program
                self.loaded = _loaded(program, self.record)
                if self.keep is not None:
                    self.keep(program)
            return self.loaded


_unfinished = weakref.WeakValueDictionary[str, _Unfinished]()
"""By their keys in the cache, which does not have them yet."""


@contextmanager
def _tuning(options: Options, stages: Sequence[Stage], dump: Dump | None) -> Iterator[None]:
    """The `with` block in which `tune-kernels` runs, if it is among the stages. A dump gets what was measured."""
    if not any(stage.name.startswith("tune-kernels") for stage in stages):
        yield
        return
    from cuesta.lowering.schedule.tune_kernels import measuring
    from cuesta.tuning import tuner_for

    tuner = tuner_for(options, stages)
    with measuring(tuner):
        yield
    if dump is not None and tuner.log:
        dump.text("tuning.txt", "\n".join(tuner.log))


def load_program(
    program: Program, record: CompileRecord, in_eager: Mapping[str, Callable[..., None]] | None = None
) -> Wrapper:
    """The wrapper's function of a compiled program; `in_eager` are functions that it calls in place of kernels.

    Errors: MachineCodeError when the object code cannot be loaded, CudaError when the kernels for a device cannot.
    """
    from cuesta.targets.host.runtime import build

    loaded = _loaded(program, record)
    with record.stage("build"):
        return build(program, loaded, in_eager)


def _loaded(program: Program, record: CompileRecord) -> LoadedModule | None:
    if program.object_code is None:
        return None
    with record.stage("load"):
        from cuesta.targets.cpu.jit import load_object

        return load_object(program.object_code, program.symbols)


def make_boxed(function: Callable[[list[Any]], Any]) -> BoxedFunction:
    """Marks a function as boxed for AOTAutograd."""
    if getattr(function, "_boxed_call", False):
        return function
    function._boxed_call = True  # pyright: ignore[reportFunctionMemberAccess]  # how AOTAutograd tells
    return function


def _taken(args: list[Any]) -> list[Any]:
    taken = list(args)
    args.clear()
    return taken


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
