"""Who is told of graphs while a program is explained: it takes them from an explanation that was kept, or watches.

The first graph decides. If an explanation of a program that begins with it is kept, every graph is compared with those
that this tells of, and runs in eager: nothing is compiled. Where the last of them is met, and none can follow, not even
that: the call ends there. Otherwise all of them are watched (`watch.py`), as they are where nothing is kept. Modules of
the compiler are imported when something is to be watched, and not before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from cuesta.explain.kept import Kept, Request, Shelf
from cuesta.explain.nodes import TracedGraph
from cuesta.record import DUMP

if TYPE_CHECKING:
    import torch
    from xdsl.dialects.builtin import ModuleOp

    from cuesta.code_generation import Generated
    from cuesta.explain.watch import Watch, Watched
    from cuesta.pipeline import Stage
    from cuesta.record import CompileRecord
    from cuesta.targets.host.runtime import Wrapper
    from cuesta.targets.host.wrapper import WrapperWriter


class KnownError(BaseException):
    """What is kept tells of all graphs of the call. Raised out of PyTorch, which lets pass what is no `Exception`."""


class Looking:
    """The observer: it has the interface of `cuesta/observing.py`."""

    def __init__(self, request: Request, shelf: Shelf | None, *, anew: bool = False) -> None:
        """With a shelf, what it has is taken, unless it is to be found out `anew`, and graphs get names for it."""
        self.request = request
        self.shelf = shelf
        self.anew = anew
        self.began = perf_counter()
        self.names: list[str | None] = []
        """Of the graphs so far, if there is a shelf."""
        self.kept: Kept | None = None
        self.is_whole = False
        """Whether the call is one graph of Dynamo's (`whole_calls.py`), which is then the one that was captured."""
        self.watch: Watch | None = self._watch() if shelf is None or anew else None

    @property
    def graphs(self) -> list[Watched]:
        """What was watched."""
        return [] if self.watch is None else self.watch.graphs

    @property
    def found(self) -> Kept | None:
        """What is kept of just the graphs that there were."""
        return self.kept if self.kept is not None and tuple(self.names) == self.kept.graphs else None

    def _watch(self) -> Watch:
        from cuesta.explain.watch import Watch

        watch = Watch(texts=self.request.texts)
        watch.began = self.began = perf_counter()
        return watch

    def graph(self, gm: torch.fx.GraphModule, record: CompileRecord) -> Callable[[list[Any]], Any] | None:
        """Names a graph, and reads what is kept of it, or else has it watched. Raises KnownError, where it is known."""
        arrived = perf_counter()
        began = self.began
        with record.stage(DUMP):
            if self.shelf is not None:
                self.names.append(self.request.name_of(gm, record.kind, TracedGraph.of(gm)))
                first = self.names[0]
                if len(self.names) == 1 and first is not None and not self.anew:
                    self.kept = self.shelf.load(first)
            if self.is_whole and self.found is not None:
                raise KnownError
            if self.kept is not None:
                record.from_cache = True
                return _in_eager(gm)
            if self.watch is None:
                self.watch = self._watch()
                self.watch.began = began
            self.watch.graph(gm, record)
        # What looking on has taken so far is in the record, and counts from here.
        self.watch.graphs[-1].began = arrived
        return None

    def begin(self, record: CompileRecord, module: ModuleOp, stages: Sequence[Stage]) -> None:
        """As `Watch.begin`."""
        self._watching.begin(record, module, stages)

    def stage(self, record: CompileRecord, name: str, module: ModuleOp, seconds: float) -> None:
        """As `Watch.stage`."""
        self._watching.stage(record, name, module, seconds)

    def text(self, record: CompileRecord, name: str, text: str) -> None:
        """As `Watch.text`."""
        self._watching.text(record, name, text)

    def writer(self) -> type[WrapperWriter]:
        """As `Watch.writer`."""
        return self._watching.writer()

    def made(self, record: CompileRecord, module: ModuleOp, generated: Generated, function: Wrapper) -> Wrapper:
        """As `Watch.made`."""
        return self._watching.made(record, module, generated, function)

    @property
    def _watching(self) -> Watch:
        assert self.watch is not None, "what is kept is not compiled"
        return self.watch


def _in_eager(gm: torch.fx.GraphModule) -> Callable[[list[Any]], Any]:
    from functorch.compile import make_boxed_func  # pyright: ignore[reportPrivateImportUsage]  # documented there

    return make_boxed_func(gm.forward)


__all__ = ["KnownError", "Looking"]
