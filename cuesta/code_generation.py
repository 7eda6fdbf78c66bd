"""A program at the `host` level → the wrapper's text and machine code: what runs, and what is kept on disk."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING

from cuesta.dialects.core.structs import struct
from cuesta.record import DUMP, CompileRecord
from cuesta.targets.cpu.python_calls import with_shared
from cuesta.targets.host.wrapper import Wrapper, WrapperWriter
from cuesta.targets.program import BoundSite, Program

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from cuesta.dialects.kernel import FuncOp
    from cuesta.targets.cpu.jit import Compilation
    from cuesta.targets.target import Build, Target


@struct
class Generated:
    """A program, and the functions that it calls which only this process has: in place of kernels of which no machine
    code could be made, first of all.
    """

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

    A kernel that its target cannot compile runs through the target's stand-in, with a warning that names it.
    """
    return begin(module, record, write).finished(record)


def begin(
    module: ModuleOp,
    record: CompileRecord,
    write: Callable[[str, str], object] | None = None,
    *,
    checked: bool = False,
    checks_calls: bool = False,
    writer: type[WrapperWriter] | None = None,
) -> Generated:
    """As `generate`, but LLVM may still be at work. A program that is `checked` came from a text; with `checks_calls`
    operators are held to their schemas. `writer` writes the wrapper, if it is not the usual one.
    """
    make = partial(writer or WrapperWriter, module, checked=checked, checks_calls=checks_calls)
    write_wrapper = partial(_wrapper_of, make, record)
    wrapper, kernels = write_wrapper(())
    builds = _start(wrapper, kernels, record, write)
    native = _begin_object_code(wrapper, builds, record)
    failures: dict[str, Exception] = {}
    for target, build in builds.items():
        with record.stage(target.name):
            failed = build.finish()
        for name, error in failed.items():
            _tell(name, error, kernels[name], build.text_of(name))
        failures.update(failed)
    if failures:
        wrapper, kernels = write_wrapper(failures)
        native = _begin_object_code(wrapper, builds, record)
    if write is not None:
        with record.stage(DUMP):
            write("kernels.ll", native.text)
            write("wrapper.py", wrapper.source)
    record.kernels = wrapper.launches
    made = [builds[target].code(runs, native.sites) for target, runs in wrapper.runs_by_target().items()]
    program = Program(
        wrapper.source,
        wrapper.overloads,
        tuple(function for code in made for function in code.functions),
        tuple(native.sites),
        None,
        tuple(kernel for code in made for kernel in code.device_kernels),
        tuple(run for code in made for run in code.device_runs),
        tuple(library for code in made for library in code.libraries),
        wrapper.labels,
    )
    stand_ins = {name: wrapper.stand_ins[kernel].stand_in(kernels[kernel]) for name, kernel in wrapper.in_eager.items()}
    functions = [stand_ins, *(code.in_process for code in made)]
    return Generated(program, {name: one for each in functions for name, one in each.items()}, native.compilation)


def texts_of(module: ModuleOp, *, checked: bool = False, checks_calls: bool = False) -> dict[str, str]:
    """What is generated of a program at the `host` level, by the names that a dump has for it: nothing is compiled."""
    make = partial(WrapperWriter, module, checked=checked, checks_calls=checks_calls)
    wrapper, kernels = _wrapper_of(make, CompileRecord("inference"), ())
    found = {"wrapper.py": wrapper.source}
    sites, native = list(wrapper.sites), list[str]()
    for target, runs in wrapper.runs_by_target().items():
        build = target.start(
            kernels, tuple({(launch.kernel, run.device): None for run in runs for launch in run.launches})
        )
        found |= build.texts()
        native.append(build.native(runs, sites))
    if text := with_shared("\n".join(filter(None, native))):
        found["kernels.ll"] = text
    return found


def _wrapper_of(
    make: Callable[[Collection[str]], WrapperWriter], record: CompileRecord, in_eager: Collection[str]
) -> tuple[Wrapper, dict[str, FuncOp]]:
    with record.stage("wrapper"):
        writer = make(in_eager)
        return writer.write(), writer.kernels


def _start(
    wrapper: Wrapper,
    kernels: Mapping[str, FuncOp],
    record: CompileRecord,
    write: Callable[[str, str], object] | None,
) -> dict[Target, Build]:
    """What each target began to make of its kernels."""
    builds: dict[Target, Build] = {}
    for target, runs in wrapper.runs_by_target().items():
        wanted = {(launch.kernel, run.device): None for run in runs for launch in run.launches}
        with record.stage(f"{target.name}-text"):
            build = builds[target] = target.start(kernels, tuple(wanted))
        if write is not None:
            with record.stage(DUMP):
                for name, text in build.texts().items():
                    write(name, text)
        with record.stage(target.name):
            build.begin()
    return builds


@struct
class _Native:
    """What the object code of a program comes of, and the bounds in all of its code."""

    text: str
    sites: list[BoundSite]
    compilation: Compilation | None


def _begin_object_code(wrapper: Wrapper, builds: Mapping[Target, Build], record: CompileRecord) -> _Native:
    sites = list(wrapper.sites)
    with record.stage("llvm-text"):
        texts = [builds[target].native(runs, sites) for target, runs in wrapper.runs_by_target().items()]
        text = with_shared("\n".join(filter(None, texts)))
    if not text:
        return _Native(text, sites, None)
    from cuesta.targets.cpu.jit import Compilation

    with record.stage("llvm"):
        return _Native(text, sites, Compilation(text))


def _tell(name: str, error: Exception, func: FuncOp, text: tuple[str, str] | None) -> None:
    """The one warning about a kernel, which says where its text is."""
    from cuesta.dialects.core.locations import format_location, print_text
    from cuesta.targets.reports import kept

    files = {f"{name}.mlir": print_text(func, locations=True), "error.txt": f"{type(error).__name__}: {error}\n"}
    if text is not None:
        files[f"{name}{text[1]}"] = text[0]
    path = kept(files) / f"{name}.mlir"
    where = format_location(func.location)
    first_line = str(error).strip().partition("\n")[0] or type(error).__name__
    warnings.warn(
        f"cuesta: the kernel {name}{where and f' ({where})'} cannot be compiled and runs in eager: {first_line}\n"
        f"  its text and the whole error: {path}",
        stacklevel=6,
    )
