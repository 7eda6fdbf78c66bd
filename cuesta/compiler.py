"""One graph, from FX to a function: import, pipeline, code generation, wrapper."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuesta.context import make_context
from cuesta.dialects.core.diagnostics import verify_module
from cuesta.dialects.core.dominance import verify_dominance
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.tracing import trace_rewrites
from cuesta.options import OptionError, Options
from cuesta.pipeline import default_stages, level_of, remaining_stages, run_pipeline, stages_of
from cuesta.record import CompileRecord, GraphKind, records

if TYPE_CHECKING:
    import torch
    from xdsl.dialects.builtin import ModuleOp

BoxedFunction = Callable[[list[Any]], Any]


def compile_graph(gm: torch.fx.GraphModule, *, kind: GraphKind, options: Options) -> BoxedFunction:
    """Compiles a functional ATen graph; the function takes a list of inputs, which it empties.

    A graph that lies on a device we have no target for, or that our levels cannot say, runs in eager, with a warning
    that says why.
    """
    from functorch.compile import make_boxed_func  # pyright: ignore[reportPrivateImportUsage]  # documented there

    from cuesta.lowering.fx_to_aten import UnsupportedGraphError, import_graph

    record = CompileRecord(kind=kind)
    records.append(record)

    def in_eager(reason: object) -> BoxedFunction:
        warnings.warn(f"cuesta runs a graph in eager: {reason}", stacklevel=3)
        return make_boxed_func(gm.forward)

    if (device := _unsupported_device(gm)) is not None:
        return in_eager(f"there is no target for the device {device}")
    try:
        with record.stage("import"):
            imported = import_graph(gm)
    except UnsupportedGraphError as error:
        return in_eager(error)
    if imported.unbacked:
        names = ", ".join(sorted(imported.unbacked))
        return in_eager(f"it has sizes that are known only after some of its ops have run ({names})")
    record.aten_ops = sum(1 for node in gm.graph.nodes if node.op == "call_function")
    dump = Dump.create(options.dump, kind) if options.dump else None
    if dump is not None:
        record.dump = str(dump.folder)
        dump.text("fx.py", gm.print_readable(print_output=False))
    function = compile_module(imported.module, options, record, dump)
    constants = [tensor for _, tensor in imported.constants]
    if not constants:
        return make_boxed(function)
    return make_boxed(lambda args: function([*_taken(args), *constants]))


def compile_module(
    module: ModuleOp, options: Options, record: CompileRecord, dump: Dump | None = None
) -> Callable[[list[Any]], Sequence[Any]]:
    """Compiles a program at any level, by the stages it still has before it.

    Returns the wrapper's function, which takes the list of @main's arguments and empties it.
    """
    from cuesta.targets.cpu.emit_module import emit_module
    from cuesta.targets.cpu.features import host_features
    from cuesta.targets.cpu.jit import compile_module as compile_llvm
    from cuesta.targets.cpu.jit import load_object
    from cuesta.targets.host.runtime import build
    from cuesta.targets.host.wrapper import WrapperWriter

    if dump is not None:
        dump.level(level_of(module), module)

    def after_stage(name: str, current: ModuleOp, seconds: float) -> None:
        record.seconds[name] = record.seconds.get(name, 0.0) + seconds
        if dump is not None:
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
    loaded = None
    if wrapper.runs:
        with record.stage("llvm"):
            code = compile_llvm(emitted.text)
        with record.stage("load"):
            loaded = load_object(code, [run.name for run in wrapper.runs])
    _count(module, record, wrapper.launches)
    with record.stage("build"):
        return build(wrapper, loaded, emitted.sites)


def load(path: str | os.PathLike[str], *, options: Mapping[str, Any] | None = None) -> Callable[..., tuple[Any, ...]]:
    """Compiles a program from its text, at whatever level it stands: what a dump holds, edited or not.

    The function takes @main's arguments, in order, and gives a tuple of its results. `options` are those of
    `torch.compile(..., backend="cuesta", options=...)`.
    Errors: CuestaError, xDSL's ParseError (both name file and line), OptionError.
    """
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
    """The device of some value of the graph, if it is one that we have no target for."""
    import torch

    for node in gm.graph.nodes:
        value = node.meta.get("val")
        for one in value if isinstance(value, tuple | list) else (value,):
            if isinstance(one, torch.Tensor) and one.device.type != "cpu":
                return str(one.device)
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
