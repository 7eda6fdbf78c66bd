"""LLVM IR text → relocatable object code → addresses that can be called.

The IR that arrives has explicit vectors and hoisted invariants, so the pipeline is short: it inlines the
`alwaysinline` helpers and cleans up. The object code can be stored on disk and loaded by another process, which needs
no LLVM for that (`machine_code.py`).
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import re
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import llvmlite.binding as llvm

from cuesta.targets.cpu import libraries
from cuesta.targets.cpu.features import HostFeatures, host_features
from cuesta.targets.cpu.machine_code import MachineCodeError
from cuesta.targets.cpu.object_archive import archive_of, members_of
from cuesta.targets.cpu.split_module import split_module

_RUNTIME_LIBRARY = "cuesta.runtime"
_library_numbers = itertools.count()
_LONGEST_WAIT = 0.2
"""Seconds after which who waits for a thread looks whether it has ended. Source: shorter than a person notices."""


def _processors() -> int:
    """How many threads can run at a time; 1 where that is not said."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


class _LinkedByLlvm:
    def __init__(self, tracker: llvm.ResourceTracker, symbols: Sequence[str]) -> None:
        self._tracker = tracker
        self.symbols: dict[str, int] = {symbol: tracker[symbol] for symbol in symbols}


def compile_module(llvm_text: str, verify: bool = False, features: HostFeatures | None = None) -> bytes:
    """Machine code of a module, as a relocatable object file.

    `features` describes another machine than the host.
    Errors: MachineCodeError when the text does not parse or, with `verify`, is not valid.
    """
    features = features or host_features()
    return _emitted(_parsed(llvm_text, verify, features), features)


class Compilation:
    """A module on its way to object code, in threads of its own: LLVM lets go of Python's lock while it works, and
    works on parts of the module side by side.

    Who is interrupted while waiting may ask again. A process that was forked meanwhile does not have the threads: it
    makes the code itself.
    Errors: MachineCodeError at once, when the text does not parse.
    """

    def __init__(self, llvm_text: str) -> None:
        features = host_features()
        try:
            self._parts = [_Part(text, features) for text in split_module(llvm_text, _processors())]
        except MachineCodeError:
            _parsed(llvm_text, False, features)  # an error that quotes a line of the whole text
            raise

    def object_code(self) -> bytes:
        """The object file, or an archive of several, once it is there. Errors: what LLVM raised."""
        return archive_of([part.object_code() for part in self._parts])


class _Part:
    """A part of a module, which a thread compiles."""

    def __init__(self, llvm_text: str, features: HostFeatures) -> None:
        # Parsing is here: each of its many short calls would have the thread wait for Python's lock.
        self._features = features
        self._text = llvm_text
        self._code = b""
        self._error: BaseException | None = None
        self._process = os.getpid()
        self._is_done = False
        self._done = threading.Lock()
        self._done.acquire()
        context = llvm.create_context()
        module = _parsed(llvm_text, False, self._features, context)
        threading.Thread(target=self._run, args=(module, context), name="cuesta LLVM").start()

    def _run(self, module: llvm.ModuleRef, context: llvm.ContextRef) -> None:
        try:
            with context, module:  # a module has to go before its context, and a collection knows no order
                self._code = _emitted(module, self._features, True)
        except BaseException as error:  # noqa: BLE001 - raised where the code is asked for
            self._error = error
        self._text, self._is_done = "", True
        self._done.release()

    def object_code(self) -> bytes:
        """The object file, once it is there. Errors: what LLVM raised."""
        while not self._is_done:
            if self._process != os.getpid():
                self._code, self._is_done = compile_module(self._text, features=self._features), True
                break
            let_go_of_llvm()
            # An interrupted `Thread.join` believes that the thread has ended. A lock says nothing but whether it was
            # acquired; who is interrupted before it is released has others wait for as long as this, at most.
            if self._done.acquire(timeout=_LONGEST_WAIT):
                self._done.release()
        if self._error is not None:
            raise self._error
        return self._code


def assembly(llvm_text: str, features: HostFeatures | None = None) -> str:
    """The assembly listing of a module after optimisation, for people to read."""
    features = features or host_features()
    module = _parsed(llvm_text, True, features)
    machine = _target_machine(features)
    with _pass_builder(machine) as builder, _passes() as passes:
        passes.run(module, builder)
    return machine.emit_assembly(module)


def link_by_llvm(object_code: bytes, symbols: Sequence[str]) -> _LinkedByLlvm:
    """`machine_code.load_object` where our own loader does not know the system. Errors: MachineCodeError."""
    builder = llvm.JITLibraryBuilder()
    for member in members_of(object_code):
        builder.add_object_img(member)
    _runtime_library()
    builder.add_jit_library(_RUNTIME_LIBRARY)
    for symbol in symbols:
        builder.export_symbol(symbol)
    name = f"cuesta.{next(_library_numbers)}"  # a name can never be used twice in one LLJIT
    try:
        tracker = builder.link(_jit(), name)
    except RuntimeError as error:
        # LLVM tells the names of missing functions to stderr only.
        raise MachineCodeError(
            f"LLVM could not load an object that should define {', '.join(symbols)}: {error}\n"
            "  (when functions are missing, LLVM prints their names on stderr; libm, SLEEF and OpenMP are offered)"
        ) from error
    return _LinkedByLlvm(tracker, symbols)


def _lock_of_llvm() -> Any:
    """llvmlite's lock, which every call into LLVM takes; None in a version that has another."""
    found: Any = llvm
    for name in ("ffi", "lib", "_lock", "_lock"):
        found = getattr(found, name, None)
    return found


def let_go_of_llvm() -> None:
    """Gives back llvmlite's lock if this thread still has it, though no call into LLVM is under way here.

    llvmlite takes it in Python: an interrupt that comes right after leaves it taken, and every other thread waiting.
    """
    lock = _lock_of_llvm()
    while lock is not None and lock._is_owned():
        lock.release()


class _Workers:
    """The threads within LLVM that do not hold llvmlite's lock."""

    def __init__(self) -> None:
        self.count = 0
        self.changed = threading.Condition(threading.RLock())


_workers = _Workers()


@contextmanager
def _working() -> Generator[None]:
    """The `with` block in which a thread is within LLVM: no copy of the process is made meanwhile."""
    workers = _workers
    with workers.changed:
        workers.count += 1
    try:
        yield
    finally:
        with workers.changed:
            workers.count -= 1
            workers.changed.notify_all()


def _hold_llvm() -> None:
    if (lock := _lock_of_llvm()) is not None:
        lock.acquire()
    _workers.changed.acquire()
    while _workers.count:
        _workers.changed.wait()


def _free_llvm() -> None:
    try:
        _workers.changed.release()
    finally:  # an interrupt may have come before this was taken
        let_go_of_llvm()


def _free_llvm_in_child() -> None:
    global _workers
    _workers = _Workers()
    if (lock := _lock_of_llvm()) is not None:
        lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    # Nobody is within LLVM when a process is copied, so that the copy can use it.
    os.register_at_fork(before=_hold_llvm, after_in_parent=_free_llvm, after_in_child=_free_llvm_in_child)


@functools.cache
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()


@functools.cache
def _target_machine(features: HostFeatures) -> llvm.TargetMachine:
    return _new_target_machine(features)


def _new_target_machine(features: HostFeatures) -> llvm.TargetMachine:
    _initialise()
    return llvm.Target.from_triple(features.triple).create_target_machine(
        cpu=features.cpu_name, features=features.feature_string, opt=2, reloc="pic", codemodel="default"
    )


@functools.cache
def _jit() -> llvm.LLJIT:
    # LLJIT takes the machine over, so it gets its own.
    return llvm.create_lljit_compiler(_new_target_machine(host_features()))


@functools.cache
def _runtime_library() -> llvm.ResourceTracker:
    """A library of addresses that every loaded object is linked against."""
    builder = llvm.JITLibraryBuilder()
    for name, address in libraries.library_addresses().items():
        builder.import_symbol(name, address)
    return builder.link(_jit(), _RUNTIME_LIBRARY)


def _parsed(
    llvm_text: str, verify: bool, features: HostFeatures, context: llvm.ContextRef | None = None
) -> llvm.ModuleRef:
    """The module, for the machine. Errors: MachineCodeError."""
    try:
        _initialise()
        module = llvm.parse_assembly(llvm_text, context)
        if verify:
            module.verify()
        module.triple = features.triple
        module.data_layout = str(_target_machine(features).target_data)
        return module
    except RuntimeError as error:
        raise MachineCodeError(_explain(llvm_text, str(error))) from error
    finally:
        let_go_of_llvm()


def _emitted(module: llvm.ModuleRef, features: HostFeatures, side_by_side: bool = False) -> bytes:
    """The object code of a parsed module. `side_by_side`, LLVM works without llvmlite's lock, which is there as most
    modules share one context. Requires: the module has a context of its own then.
    """
    if not side_by_side:
        machine = _target_machine(features)
        with _pass_builder(machine) as builder, _passes() as passes:
            passes.run(module, builder)
        return machine.emit_object(module)
    run, emit = _unlocked("LLVMPY_RunNewModulePassManager"), _unlocked("LLVMPY_TargetMachineEmitToMemory")
    with (
        _new_target_machine(features) as machine,  # of which LLVM uses one for a module at a time
        _pass_builder(machine) as builder,
        _passes() as passes,
        llvm.ffi.OutputString() as error,
    ):
        with _working():
            run(passes, module, builder)
            buffer = emit(machine, module, 1, error)
        if not buffer:
            raise RuntimeError(str(error))
    try:
        start, size = llvm.ffi.lib.LLVMPY_GetBufferStart(buffer), llvm.ffi.lib.LLVMPY_GetBufferSize(buffer)
        return ctypes.string_at(start, size)
    finally:
        llvm.ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


def _unlocked(name: str) -> Callable[..., Any]:
    """A function of llvmlite's library, without the lock that llvmlite puts around each where it does so."""
    found = getattr(llvm.ffi.lib, name)
    return getattr(found, "_cfn", found)


def _pass_builder(machine: llvm.TargetMachine) -> llvm.PassBuilder:
    return llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))


def _passes() -> llvm.ModulePassManager:
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    return passes


def _explain(llvm_text: str, message: str) -> str:
    """The message, with the lines around the offence quoted and the whole text saved."""
    from cuesta.targets.reports import kept

    path = kept({"kernels.ll": llvm_text}) / "kernels.ll"
    report = [f"LLVM refused the generated code: {message.strip()}", f"  text: {path}"]
    position = re.search(r"<string>:(\d+):\d+", message)
    if position is not None:
        number, lines = int(position[1]), llvm_text.splitlines()
        for line in range(max(1, number - 2), min(len(lines), number + 2) + 1):
            report.append(f"  {'>' if line == number else ' '} {line:5d} | {lines[line - 1]}")
    return "\n".join(report)
