"""One graph, from FX to a function: import, pipeline, code generation, wrapper; or from the cache on disk.

A program that is in the cache is loaded without any of these: modules of the compiler are imported where they are used.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuesta.options import OptionError, Options
from cuesta.record import DUMP, CompileRecord, GraphKind, records

if TYPE_CHECKING:
    import torch
    from xdsl.dialects.builtin import ModuleOp

    from cuesta.cache import DiskCache
    from cuesta.dialects.kernel import FuncOp
    from cuesta.targets.program import DeviceKernel, Program

BoxedFunction = Callable[[list[Any]], Any]


def compile_graph(gm: torch.fx.GraphModule, *, kind: GraphKind, options: Options) -> BoxedFunction:
    """Compiles a functional ATen graph; the function takes a list of inputs, which it empties.

    A graph that lies on a device we have no target for, or that our levels cannot say, runs in eager, with a warning
    that says why.
    """
    record = CompileRecord(kind=kind)
    records.append(record)
    if (device := _unsupported_device(gm)) is not None:
        return _in_eager(gm, f"there is no target for the device {device}")
    with record.stage("cache-key"):
        cache, key = _place_in_cache(gm, kind, options)
    if cache is not None and key is not None and not options.wants_stages:
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
    from cuesta.targets.cpu.jit import MachineCodeError

    try:
        function = load_program(entry.program_for(gm), record)
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
    from cuesta.lowering.fx_to_aten import UnsupportedGraphError, import_graph

    try:
        with record.stage("import"):
            imported = import_graph(gm)
    except UnsupportedGraphError as error:
        return _in_eager(gm, error)
    if imported.unbacked:
        names = ", ".join(sorted(imported.unbacked))
        return _in_eager(gm, f"it has sizes that are known only after some of its ops have run ({names})")
    record.aten_ops = sum(1 for node in gm.graph.nodes if node.op == "call_function")
    dump = Dump.create(options.dump, record.kind) if options.dump else None
    if dump is not None:
        record.dump = str(dump.folder)
        with record.stage(DUMP):
            dump.text("fx.py", gm.print_readable(print_output=False))

    def keep(program: Program) -> None:
        if cache is not None and key is not None:
            with record.stage("cache-write"):
                _store(cache, key, program, gm, [name for name, _ in imported.constants], record)

    function = compile_module(imported.module, options, record, dump, keep)
    return _with_constants(function, [tensor for _, tensor in imported.constants])


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
) -> Callable[[list[Any]], Sequence[Any]]:
    """Compiles a program at any level, by the stages it still has before it. `keep` is shown the compiled program.

    Returns the wrapper's function, which takes the list of @main's arguments and empties it.
    """
    from cuesta.context import make_context
    from cuesta.dialects.core.tracing import trace_rewrites
    from cuesta.pipeline import default_stages, level_of, remaining_stages, run_pipeline, stages_of
    from cuesta.targets.cpu.emit_module import emit_module
    from cuesta.targets.cpu.features import host_features
    from cuesta.targets.cpu.jit import compile_module as compile_llvm
    from cuesta.targets.host.wrapper import WrapperWriter
    from cuesta.targets.program import NativeFunction, Program

    if dump is not None:
        with record.stage(DUMP):
            dump.level(level_of(module), module)

    def after_stage(name: str, current: ModuleOp, seconds: float) -> None:
        record.seconds[name] = record.seconds.get(name, 0.0) + seconds
        if dump is not None:
            with record.stage(DUMP):
                dump.level(name, current)

    if options.pipeline is not None:
        stages = stages_of(options.pipeline)
    else:
        every = default_stages(lanes=host_features().f32_lanes, emulate_precision_casts=options.emulate_precision_casts)
        stages = remaining_stages(module, every)
    with trace_rewrites() if options.trace else nullcontext() as trace:
        run_pipeline(
            make_context(),
            module,
            stages,
            verify_each=options.verify == "each",
            after_stage=after_stage,
            keep_input=None if dump is None else dump.before,
        )
    if trace is not None and dump is not None:
        dump.text("rewrites.txt", trace.summary())
    elif trace is not None:
        print(trace.summary(), file=sys.stderr)
    with record.stage("wrapper"):
        writer = WrapperWriter(module)
        wrapper = writer.write()
    with record.stage("llvm-text"):
        emitted = emit_module(writer.kernels, wrapper.runs)
    if dump is not None:
        dump.text("kernels.ll", emitted.text)
        dump.text("wrapper.py", wrapper.source)
    code = None
    if wrapper.runs:
        with record.stage("llvm"):
            code = compile_llvm(emitted.text)
    device_kernels: tuple[DeviceKernel, ...] = ()
    if wrapper.device_launches:
        device_kernels = _compile_device_kernels(writer.kernels.values(), wrapper.device_launches, record, dump)
    _count(module, record, wrapper.launches)
    functions = tuple(NativeFunction(run.name, run.pointers + len(run.symbols)) for run in wrapper.runs)
    program = Program(wrapper.source, wrapper.overloads, functions, emitted.sites, code, device_kernels)
    if keep is not None:
        keep(program)
    return load_program(program, record)


def _compile_device_kernels(
    kernels: Iterable[FuncOp], launches: Mapping[str, tuple[str, int]], record: CompileRecord, dump: Dump | None
) -> tuple[DeviceKernel, ...]:
    from cuesta.targets.triton.build import compile_launches
    from cuesta.targets.triton.emit_module import emit_module, module_text

    with record.stage("triton-text"):
        texts = emit_module(kernels)
    if dump is not None:
        dump.text("kernels.py", module_text(texts.values()))
    with record.stage("triton"):
        return compile_launches(texts, launches)


def load_program(program: Program, record: CompileRecord) -> Callable[[list[Any]], Sequence[Any]]:
    """The wrapper's function of a compiled program.

    Errors: MachineCodeError when the object code cannot be loaded.
    """
    from cuesta.targets.host.runtime import build

    loaded = None
    if program.object_code is not None:
        with record.stage("load"):
            from cuesta.targets.cpu.jit import load_object

            loaded = load_object(program.object_code, [function.name for function in program.functions])
    with record.stage("build"):
        return build(program, loaded)


def load(path: str | os.PathLike[str], *, options: Mapping[str, Any] | None = None) -> Callable[..., tuple[Any, ...]]:
    """Compiles a program from its text, at whatever level it stands: what a dump holds, edited or not.

    The function takes @main's arguments, in order, and gives a tuple of its results. `options` are those of
    `torch.compile(..., backend="cuesta", options=...)`.
    Errors: CuestaError, xDSL's ParseError (both name file and line), OptionError.
    """
    from cuesta.context import make_context
    from cuesta.dialects.core.diagnostics import verify_module
    from cuesta.dialects.core.dominance import verify_dominance
    from cuesta.dialects.core.entry import entry_block
    from cuesta.dialects.core.locations import CuestaParser

    parsed = Options.parse(None, options)
    module = CuestaParser(make_context(), Path(path).read_text(), str(path)).parse_module()
    verify_module(module)
    verify_dominance(module)
    arguments = len(entry_block(module).args)
    record = CompileRecord(kind="inference")
    records.append(record)
    dump = Dump.create(parsed.dump, "loaded") if parsed.dump else None
    compiled = compile_module(module, parsed, record, dump)

    def call(*values: Any) -> tuple[Any, ...]:
        if len(values) != arguments:
            raise TypeError(f"{path}: @main takes {arguments} arguments, got {len(values)}")
        return tuple(compiled(list(values)))

    return call


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

    targets = {"cpu"}
    if importlib.util.find_spec("triton") is not None:
        targets.add("cuda")

    for node in gm.graph.nodes:
        value = node.meta.get("val")
        for one in value if isinstance(value, tuple | list) else (value,):
            if isinstance(one, torch.Tensor) and one.device.type not in targets:
                missing = one.device.type == "cuda"
                return f"{one.device} without Triton; `pip install triton` brings it" if missing else str(one.device)
    return None


def _count(module: ModuleOp, record: CompileRecord, launches: int) -> None:
    from cuesta.dialects import host
    from cuesta.dialects.core.entry import entry_block
    from cuesta.lowering.library_calls import is_library_call

    record.kernels = launches
    for op in entry_block(module).ops:
        if isinstance(op, host.ExternOp):
            if is_library_call(op.overload):
                record.library_calls += 1
            else:
                record.fallbacks[op.overload] += 1


class Dump:
    """A folder with the text of every level, numbered in order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.number = 0

    @classmethod
    def create(cls, root: str, kind: str) -> Dump:
        """A new folder in `root`: `000_inference`, `001_forward`, … Safe under several processes.

        Errors: OptionError when it cannot be made.
        """
        base = Path(root)
        try:
            base.mkdir(parents=True, exist_ok=True)
            number = sum(1 for _ in base.iterdir())
            while True:
                folder = base / f"{number:03d}_{kind}"
                try:
                    folder.mkdir()
                    return cls(folder)
                except FileExistsError:
                    number += 1
        except OSError as error:
            raise OptionError(f"option 'dump': no folder can be made in {root!r}: {error.strerror}") from error

    def level(self, name: str, module: ModuleOp) -> None:
        """Writes the program after the stage `name`."""
        from cuesta.dialects.core.locations import print_text

        self.text(f"{self.number:02d}_{name.partition('{')[0]}.mlir", print_text(module, locations=True))
        self.number += 1

    def before(self, module: ModuleOp, name: str) -> str:
        """Writes the program as it was before a stage that failed; gives the file's path."""
        from cuesta.dialects.core.locations import print_text

        return self.text(f"{self.number:02d}_before_{name}.mlir", print_text(module, locations=True))

    def text(self, name: str, text: str) -> str:
        """Writes a file whole or not at all."""
        path = self.folder / name
        temporary = path.with_suffix(path.suffix + ".part")
        temporary.write_text(text)
        os.replace(temporary, path)
        return str(path)
