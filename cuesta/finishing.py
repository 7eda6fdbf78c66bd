"""From generated code to a function: object code is waited for and loaded, and the wrapper becomes a function."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cuesta.dialects.core.process_lock import ProcessLock
from cuesta.record import CompileRecord

if TYPE_CHECKING:
    from cuesta.code_generation import Generated
    from cuesta.targets.cpu.machine_code import LoadedModule
    from cuesta.targets.host.runtime import Wrapper
    from cuesta.targets.program import Program

BoxedFunction = Callable[[list[Any]], Any]
Keep = Callable[["Program"], None]
"""What is shown a program when it is whole."""


def finish(generated: Generated, record: CompileRecord, keep: Keep | None = None, key: str | None = None) -> Wrapper:
    """The wrapper's function. `keep` is shown the whole program, and `key` is what it keeps it by.

    LLVM may still be at work on a program for the CPU, in a thread: the first call waits for it, and what torch does
    until then costs no time.
    """
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


def finish_equal(key: str) -> None:
    """Waits for the program of an equal graph, which has not run yet: then it is in the cache."""
    if (unfinished := _unfinished.get(key)) is not None:
        unfinished.finish()


class _Unfinished:
    """A program whose object code is still being made."""

    def __init__(self, generated: Generated, record: CompileRecord, keep: Keep | None) -> None:
        self.generated = generated
        self.record = record
        self.keep = keep
        self.lock = ProcessLock()
        self.program: Program | None = None
        self.loaded: LoadedModule | None = None

    def finish(self) -> LoadedModule | None:
        """Waits for the object code, loads it, and keeps the program. What an interrupt stops, the next call does."""
        with self.lock.here:
            if self.program is None:
                self.program = self.generated.finished(self.record).program
            if self.loaded is None:
                self.loaded = _loaded(self.program, self.record)
            if self.keep is not None:
                self.keep(self.program)
                self.keep = None
            return self.loaded


_unfinished = weakref.WeakValueDictionary[str, _Unfinished]()
"""By their keys in the cache, which does not have them yet."""


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
        from cuesta.targets.cpu.machine_code import load_object

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


def with_constants(function: Callable[[list[Any]], Any], constants: Sequence[Any]) -> BoxedFunction:
    """The boxed function that passes the graph's own tensors last."""
    if not constants:
        return make_boxed(function)
    return make_boxed(lambda args: function([*_taken(args), *constants]))
