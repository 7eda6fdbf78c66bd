"""LLVM IR text → relocatable object code → addresses that can be called.

The IR that arrives has explicit vectors and hoisted invariants, so the pipeline is short: it inlines the
`alwaysinline` helpers and cleans up. The object code can be stored on disk and loaded by another process, which needs
no LLVM for that (`machine_code.py`).
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import threading
from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm

from cuesta.targets.cpu import libraries
from cuesta.targets.cpu.features import HostFeatures, host_features
from cuesta.targets.cpu.machine_code import MachineCodeError

_RUNTIME_LIBRARY = "cuesta.runtime"
_library_numbers = itertools.count()
_LONGEST_WAIT = 0.2
"""Seconds after which who waits for a thread looks whether it has ended. Source: shorter than a person notices."""


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
    """A module on its way to object code, in a thread of its own: LLVM lets go of Python's lock while it works.

    Who is interrupted while waiting may ask again. A process that was forked meanwhile does not have the thread: it
    makes the code itself.
    Errors: MachineCodeError at once, when the text does not parse.
    """

    def __init__(self, llvm_text: str) -> None:
        # Parsing is here: each of its many short calls would have the thread wait for Python's lock.
        self._features = host_features()
        self._text = llvm_text
        self._code = b""
        self._error: BaseException | None = None
        self._process = os.getpid()
        self._is_done = False
        self._done = threading.Lock()
        self._done.acquire()
        module = _parsed(llvm_text, False, self._features)
        threading.Thread(target=self._run, args=(module,), name="cuesta LLVM").start()

    def _run(self, module: llvm.ModuleRef) -> None:
        try:
            self._code = _emitted(module, self._features)
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
    _optimise(module, features)
    return _target_machine(features).emit_assembly(module)


def link_by_llvm(object_code: bytes, symbols: Sequence[str]) -> _LinkedByLlvm:
    """`machine_code.load_object` where our own loader does not know the system. Errors: MachineCodeError."""
    builder = llvm.JITLibraryBuilder().add_object_img(object_code)
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


def _hold_llvm() -> None:
    if (lock := _lock_of_llvm()) is not None:
        lock.acquire()


def _free_llvm_in_child() -> None:
    if (lock := _lock_of_llvm()) is not None:
        lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    # Nobody is within LLVM when a process is copied, so that the copy can use it.
    os.register_at_fork(before=_hold_llvm, after_in_parent=let_go_of_llvm, after_in_child=_free_llvm_in_child)


@functools.cache
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()


@functools.cache
def _target_machine(features: HostFeatures) -> llvm.TargetMachine:
    _initialise()
    return llvm.Target.from_triple(features.triple).create_target_machine(
        cpu=features.cpu_name, features=features.feature_string, opt=2, reloc="pic", codemodel="default"
    )


@functools.cache
def _jit() -> llvm.LLJIT:
    # LLJIT takes the machine over, so it gets its own.
    _initialise()
    features = host_features()
    machine = llvm.Target.from_triple(features.triple).create_target_machine(
        cpu=features.cpu_name, features=features.feature_string, opt=2, reloc="pic", codemodel="default"
    )
    return llvm.create_lljit_compiler(machine)


@functools.cache
def _runtime_library() -> llvm.ResourceTracker:
    """A library of addresses that every loaded object is linked against."""
    builder = llvm.JITLibraryBuilder()
    for name, address in libraries.library_addresses().items():
        builder.import_symbol(name, address)
    return builder.link(_jit(), _RUNTIME_LIBRARY)


def _parsed(llvm_text: str, verify: bool, features: HostFeatures) -> llvm.ModuleRef:
    """The module, for the machine. Errors: MachineCodeError."""
    try:
        _initialise()
        module = llvm.parse_assembly(llvm_text)
        if verify:
            module.verify()
        module.triple = features.triple
        module.data_layout = str(_target_machine(features).target_data)
        return module
    except RuntimeError as error:
        raise MachineCodeError(_explain(llvm_text, str(error))) from error
    finally:
        let_go_of_llvm()


def _emitted(module: llvm.ModuleRef, features: HostFeatures) -> bytes:
    """The object code of a parsed module."""
    _optimise(module, features)
    return _target_machine(features).emit_object(module)


def _optimise(module: llvm.ModuleRef, features: HostFeatures) -> None:
    builder = llvm.create_pass_builder(_target_machine(features), llvm.create_pipeline_tuning_options(speed_level=2))
    _passes().run(module, builder)


@functools.cache
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
