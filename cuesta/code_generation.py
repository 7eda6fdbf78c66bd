"""A program at the `host` level → the wrapper's text and machine code: what runs, and what is kept on disk."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuesta.record import DUMP, CompileRecord
from cuesta.targets.cpu.emit_module import emit_module as emit_llvm
from cuesta.targets.host.wrapper import Wrapper, WrapperWriter
from cuesta.targets.program import BoundSite, DeviceRun, NativeFunction, Program

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from cuesta.dialects.kernel import FuncOp
    from cuesta.targets.cpu.jit import Compilation
    from cuesta.targets.triton.build import KernelBuild


@dataclass(frozen=True)
class Generated:
    """A program, and the functions that it calls in place of kernels of which no machine code could be made."""

    program: Program
    in_eager: Mapping[str, Callable[..., None]] = field(default_factory=dict[str, "Callable[..., None]"])
    compilation: Compilation | None = None
    """What will give the program's object code, which it does not have yet."""

    def finished(self, record: CompileRecord) -> Generated:
        """The same with the object code; waits for it."""
        if self.compilation is None:
            return self
        with record.stage("llvm"):
            code = self.compilation.object_code()
        return Generated(replace(self.program, object_code=code), self.in_eager)


def generate(module: ModuleOp, record: CompileRecord, write: Callable[[str, str], object] | None = None) -> Generated:
    """Generates all code of a program; `write` is given names and contents of the files of a dump.

    A kernel that Triton cannot compile runs in eager, with a warning that names it.
    """
    return begin(module, record, write).finished(record)


def begin(module: ModuleOp, record: CompileRecord, write: Callable[[str, str], object] | None = None) -> Generated:
    """As `generate`, but LLVM may still be at work."""
    build: KernelBuild | None = None
    wrapper, kernels = _wrapper_of(module, (), record)
    if wrapper.device_kernels:
        build = _start_device_kernels(wrapper, kernels, record, write)
    compilation, sites = _begin_object_code(wrapper, kernels, record)
    in_eager: dict[str, Callable[..., None]] = {}
    device_kernels = ()
    if build is not None:
        with record.stage("triton"):
            device_kernels, failures = build.finish()
        if failures:
            for name, error in failures.items():
                _tell(name, error, kernels[name], build.texts.get(name))
            wrapper, kernels = _wrapper_of(module, failures, record)
            compilation, sites = _begin_object_code(wrapper, kernels, record)
            order = {(one.text.name, one.device): one for one in device_kernels}
            device_kernels = tuple(order[chosen] for chosen in wrapper.device_kernels)
            in_eager = {name: _stand_in(kernels[kernel]) for name, kernel in wrapper.in_eager.items()}
    if write is not None:
        with record.stage(DUMP):
            write("kernels.ll", _llvm_text(wrapper, kernels)[0])
            write("wrapper.py", wrapper.source)
    record.kernels = wrapper.launches
    functions = tuple(NativeFunction(run.name, run.pointers + len(run.symbols)) for run in wrapper.runs)
    device_runs = tuple(
        DeviceRun(
            run.name,
            run.device,
            run.pointers + len(run.symbols),
            tuple(launch.position for launch in run.launches),
        )
        for run in wrapper.device_runs
    )
    program = Program(wrapper.source, wrapper.overloads, functions, sites, None, device_kernels, device_runs)
    return Generated(program, in_eager, compilation)


def _wrapper_of(
    module: ModuleOp, in_eager: Collection[str], record: CompileRecord
) -> tuple[Wrapper, dict[str, FuncOp]]:
    with record.stage("wrapper"):
        writer = WrapperWriter(module, in_eager)
        return writer.write(), writer.kernels


def _llvm_text(wrapper: Wrapper, kernels: Mapping[str, FuncOp]) -> tuple[str, tuple[BoundSite, ...]]:
    parts: list[str] = []
    sites: tuple[BoundSite, ...] = ()
    if wrapper.runs or not wrapper.device_runs:
        emitted = emit_llvm(kernels, wrapper.runs)
        parts.append(emitted.text)
        sites = emitted.sites
    if wrapper.device_runs:
        from cuesta.targets.triton.emit_launches import emit_launches

        parts.append(emit_launches(kernels, wrapper.device_runs, len(wrapper.device_kernels)))
    return "\n".join(parts), sites


def _begin_object_code(
    wrapper: Wrapper, kernels: Mapping[str, FuncOp], record: CompileRecord
) -> tuple[Compilation | None, tuple[BoundSite, ...]]:
    with record.stage("llvm-text"):
        text, sites = _llvm_text(wrapper, kernels)
    if not wrapper.runs and not wrapper.device_runs:
        return None, sites
    from cuesta.targets.cpu.jit import Compilation

    with record.stage("llvm"):
        return Compilation(text), sites


def _start_device_kernels(
    wrapper: Wrapper,
    kernels: Mapping[str, FuncOp],
    record: CompileRecord,
    write: Callable[[str, str], object] | None,
) -> KernelBuild:
    from cuesta.targets.triton.build import KernelBuild
    from cuesta.targets.triton.compilation import module_text

    with record.stage("triton-text"):
        build = KernelBuild(kernels, wrapper.device_kernels)
    if write is not None:
        with record.stage(DUMP):
            write("kernels.py", module_text(build.texts.values()))
    with record.stage("triton"):
        build.start()
    return build


def _stand_in(func: FuncOp) -> Callable[..., None]:
    from cuesta.targets.reference.stand_in import stand_in

    return stand_in(func)


def _tell(name: str, error: Exception, func: FuncOp, text: Any) -> None:
    """The one warning about a kernel, which says where its text is."""
    from cuesta.dialects.core.locations import format_location, print_text

    folder = Path(tempfile.mkdtemp(prefix="cuesta-kernel-"))
    path = folder / f"{name}.mlir"
    path.write_text(print_text(func, locations=True))
    if text is not None:
        (folder / f"{name}.py").write_text(text.source)
    (folder / "error.txt").write_text(f"{type(error).__name__}: {error}\n")
    where = format_location(func.location)
    first_line = str(error).strip().partition("\n")[0] or type(error).__name__
    warnings.warn(
        f"cuesta: the kernel {name}{where and f' ({where})'} cannot be compiled and runs in eager: {first_line}\n"
        f"  its text and the whole error: {path}",
        stacklevel=6,
    )
