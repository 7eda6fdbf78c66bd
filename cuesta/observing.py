"""Who looks on while graphs are compiled: `cuesta explain` does.

An observer is in force for a `with` block; the backward passes of what is compiled in it, which come later and maybe in
another thread, are shown to the same one. Who is observed compiles afresh, and keeps nothing in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol

from cuesta.dialects.core.setting import setting

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from cuesta.code_generation import Generated
    from cuesta.pipeline import Stage
    from cuesta.record import CompileRecord
    from cuesta.targets.host.runtime import Wrapper
    from cuesta.targets.host.wrapper import WrapperWriter


class Observer(Protocol):
    """What is told of the compilation of graphs, step by step. It may stamp locations, and nothing else."""

    def graph(self, gm: Any, record: CompileRecord) -> Callable[[list[Any]], Any] | None:
        """A graph of AOTAutograd's is about to be compiled; gives what runs in its place, where it need not be."""
        ...

    def begin(self, record: CompileRecord, module: ModuleOp, stages: Sequence[Stage]) -> None:
        """It is a program now, and these stages are before it."""
        ...

    def stage(self, record: CompileRecord, name: str, module: ModuleOp, seconds: float) -> None:
        """A stage of it is done. A trace of rewrites is being recorded (`dialects/core/tracing.py`), without texts."""
        ...

    def text(self, record: CompileRecord, name: str, text: str) -> None:
        """A file of generated code, as dumps have them."""
        ...

    def writer(self) -> type[WrapperWriter]:
        """Who writes the wrapper."""
        ...

    def made(self, record: CompileRecord, module: ModuleOp, generated: Generated, function: Wrapper) -> Wrapper:
        """The wrapper's function; gives what is called in its place."""
        ...


_IN_FORCE: Final[ContextVar[Observer | None]] = ContextVar("observer", default=None)


def observing() -> Observer | None:
    """The observer in force, if there is one."""
    return _IN_FORCE.get()


def observed(observer: Observer | None) -> AbstractContextManager[None]:
    """The `with` block in which an observer is in force."""
    return setting(_IN_FORCE, observer)
