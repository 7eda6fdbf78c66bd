"""What is kept of a compilation while it runs: the observer of `cuesta explain`.

Everything that depends on a level is read when the program stands there; the rest is made of it afterwards, by
`graphs.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import LocationAttr, ModuleOp
from xdsl.ir import Operation

from cuesta.dialects import host, kernel
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.operation import all_ops
from cuesta.dialects.core.tracing import RewriteTrace, active_trace
from cuesta.explain.model import CompileStage, Layout, LevelText, Refusal, Rule
from cuesta.explain.nests import Nest, nests_in
from cuesta.explain.nodes import TracedGraph
from cuesta.explain.provenance import Sources, lines_of, module_ops, nodes_of, stamp_nest, stamp_nodes
from cuesta.explain.texts import level_text
from cuesta.explain.timed_writer import TimedWriter
from cuesta.record import DUMP

if TYPE_CHECKING:
    import torch

    from cuesta.code_generation import Generated
    from cuesta.pipeline import Stage
    from cuesta.record import CompileRecord
    from cuesta.targets.host.runtime import Wrapper
    from cuesta.targets.host.wrapper import WrapperWriter

WHY = {
    "import": "the FX graph becomes a program at the level aten",
    "cache-key": "what the graph is called in the cache",
    "wrapper": "the host program becomes Python text",
    "llvm-text": "kernels for the CPU become LLVM text",
    "llvm": "machine code, in a thread: what had to be waited for",
    "load": "machine code is loaded",
    "build": "the wrapper's text becomes a function",
    "load-compiler": "what no stage has counted: importing the compiler, most of it",
}
LOWERING = "loops-to-kernel"
"""The stage before which nests are final."""


@dataclass(eq=False)
class Watched:
    """One graph, as far as its compilation has come. Times are those of `perf_counter`."""

    record: CompileRecord
    began: float
    traced: TracedGraph
    sources: Sources = field(default_factory=Sources)
    stages_to_come: list[Stage] = field(default_factory=list["Stage"])
    stages: list[CompileStage] = field(default_factory=list[CompileStage])
    stage_names: set[str] = field(default_factory=set[str])
    """As the record calls them: the names of passes, with options."""
    ops: int | None = None
    rules: list[Rule] = field(default_factory=list[Rule])
    refusals: list[Refusal] = field(default_factory=list[Refusal])
    layouts: list[Layout] = field(default_factory=list[Layout])
    declined: dict[int, str] = field(default_factory=dict[int, str])
    """Why a node has no kernel, by its number."""
    numbered: list[str] = field(default_factory=list[str])
    """The name of the FX node of each number, from 1."""
    overloads: list[str] = field(default_factory=list[str])
    """And its operator."""
    levels: list[LevelText] = field(default_factory=list[LevelText])
    nests: list[Nest] = field(default_factory=list[Nest])
    module: ModuleOp | None = None
    """The final program."""
    texts: dict[str, str] = field(default_factory=dict[str, str])
    """Generated code, by the names of files."""
    function: Callable[[list[Any]], Any] | None = None
    arguments: list[Any] | None = None
    """Of the latest call, while `Watch.keeps_arguments`."""
    ended: float | None = None

    def forget(self) -> None:
        """Lets go of what is large: Dynamo keeps the compiled function, and with it this."""
        self.module = self.arguments = None
        for one in (self.levels, self.nests, self.refusals, self.layouts, self.rules):
            one.clear()
        self.texts.clear()

    def positions(self) -> dict[int, int]:
        """Where the node of each number stands in the FX graph."""
        places = {node.name: place for place, node in enumerate(self.traced.nodes)}
        return {number: places[name] for number, name in enumerate(self.numbered, 1) if name in places}

    def nodes_in(self, locations: Iterable[LocationAttr]) -> tuple[str, ...]:
        """The FX nodes that locations name."""
        numbers = dict.fromkeys(one for location in locations for one in nodes_of(location))
        return tuple(self.numbered[one - 1] for one in sorted(numbers) if one <= len(self.numbered))

    def every_stage(self) -> list[CompileStage]:
        """The stages, and what the record has besides: the import before them, the making of code after them."""
        names = {name.partition("{")[0] for name in (*(one.name for one in self.stages), *self.stage_names)}
        rest = [
            name for name in self.record.seconds if name not in (DUMP, "import") and name.partition("{")[0] not in names
        ]
        imported = self.record.seconds.get("import", 0.0)
        found = [CompileStage("import", WHY["import"], 0.0, imported), *self.stages]
        last = found[-1]
        end = last.start_seconds + last.seconds
        for name in rest:
            seconds = self.record.seconds[name]
            found.append(CompileStage(name, WHY.get(name, "code of the kernels"), end, seconds))
            end += seconds
        return found


class Watch:
    """The observer: all graphs that are compiled while it is in force, and their backward passes."""

    def __init__(self, *, texts: bool = True) -> None:
        """With `texts`, those of the levels are kept."""
        self.texts = texts
        self.graphs: list[Watched] = []
        self.by_record: dict[int, Watched] = {}
        self.began = perf_counter()
        self.keeps_arguments = True

    def graph(self, gm: torch.fx.GraphModule, record: CompileRecord) -> None:
        """Reads the FX graph."""
        watched = self.adopt(record, Watched(record, perf_counter(), TracedGraph.of(gm)))
        watched.traced.name_sources(watched.sources)

    def adopt(self, record: CompileRecord, watched: Watched) -> Watched:
        """Takes over a graph that nobody captures."""
        self.graphs.append(watched)
        self.by_record[id(record)] = watched
        return watched

    def begin(self, record: CompileRecord, module: ModuleOp, stages: Sequence[Stage]) -> None:
        """Numbers the nodes, which locations then tell to the end."""
        watched = self.by_record[id(record)]
        watched.stages_to_come = list(stages)
        nodes = watched.traced.names_by_operator()
        for op in stamp_nodes(module_ops(module), 0):
            overload: str = getattr(op, "overload", op.name)
            hints = [result.name_hint for result in op.results if result.name_hint]
            watched.numbered.append(next(nodes.get(overload, iter(())), hints[0] if hints else op.name))
            watched.overloads.append(overload)
        watched.ops = _count(module)
        self._level(watched, "aten", "import", module)

    def stage(self, record: CompileRecord, name: str, module: ModuleOp, seconds: float) -> None:
        """Reads what the stage left, and what its trace says."""
        from cuesta.pipeline import level_of

        watched = self.by_record[id(record)]
        stage = watched.stages_to_come.pop(0)
        before, watched.ops = watched.ops, _count(module)
        watched.stage_names.add(name)
        start = perf_counter() - seconds - watched.began - record.seconds.get(DUMP, 0.0)
        if watched.stages:  # what was spent looking on is known only roughly
            start = max(start, watched.stages[-1].start_seconds + watched.stages[-1].seconds)
        level = level_of(module)
        watched.stages.append(CompileStage(stage.label, stage.why, start, seconds, level, before, watched.ops))
        if (trace := active_trace()) is not None:
            self._read(watched, stage.label, trace)
        short = name.partition("{")[0]
        if short == "aten-to-loops":
            self._level(watched, "loops", stage.label, module)
        if short == LOWERING:
            _stamp_launches(module, watched.nests)
        if any(one.name.partition("{")[0] == LOWERING for one in watched.stages_to_come[:1]):
            watched.nests = nests_in(module, watched.traced.hints)
            self._level(watched, "fused", stage.label, module)

    def _level(self, watched: Watched, name: str, after: str, module: ModuleOp) -> None:
        """Keeps the text of a level, which the program has reached."""
        if self.texts:
            text, _ = level_text(name, after, (module,), watched.sources, watched.positions())
            watched.levels.append(text)

    def _read(self, watched: Watched, stage: str, trace: RewriteTrace) -> None:
        """Takes from a trace what a stage did."""
        reasons: dict[str, Counter[str]] = {}
        for refusal in trace.refusals:
            reasons.setdefault(refusal.pattern, Counter())[refusal.reason] += 1
            if stage == "aten-to-loops":
                said = refusal.reason.removeprefix("stays a library call: ")
                watched.declined.update(dict.fromkeys(nodes_of(refusal.location), said))
        for name, one in trace.statistics.items():
            refused = tuple(reasons.pop(name, Counter[str]()).most_common())
            watched.rules.append(Rule(name, one.source, stage, one.tried, one.fired, one.seconds, refused))
        for name, counted in reasons.items():
            refused = tuple(counted.most_common())
            watched.rules.append(Rule(name or stage, "", stage, counted.total(), 0, 0.0, refused))
        for apart in trace.apart:
            both = apart.consumer, apart.producer
            consumer, producer = (watched.sources.of(lines_of(one.location)) for one in both)
            watched.refusals.append(
                Refusal(
                    apart.names[0],
                    apart.names[1],
                    apart.reason,
                    apart.bytes,
                    consumer,
                    producer,
                    all(one.parent is not None for one in both),
                    watched.nodes_in(apart.locations[0]),
                    watched.nodes_in(apart.locations[1]),
                )
            )
        for laid in trace.layouts:
            chosen, other = ("channels last", "contiguous")[:: 1 if laid.last else -1]
            why = f"{other} would cost {laid.more:.3g} bytes more, copies and nests around it included"
            watched.layouts.append(Layout(laid.value, chosen, why, watched.sources.of(lines_of(laid.op.location))))
        trace.apart.clear()
        trace.layouts.clear()
        trace.choices.clear()
        trace.refusals.clear()
        trace.statistics.clear()

    def text(self, record: CompileRecord, name: str, text: str) -> None:
        """Keeps generated code."""
        self.by_record[id(record)].texts[name] = text

    def writer(self) -> type[WrapperWriter]:
        """A writer whose text can be run step by step, too."""
        return TimedWriter

    def made(self, record: CompileRecord, module: ModuleOp, generated: Generated, function: Wrapper) -> Wrapper:
        """Keeps the final program, and what it is called with."""
        watched = self.by_record[id(record)]
        watched.module, watched.function, watched.ended = module, function, perf_counter()

        def call(args: list[Any]) -> Any:
            if self.keeps_arguments:
                watched.arguments = list(args)
            return function(args)

        return call


def _count(module: ModuleOp) -> int:
    return len(all_ops(module))


def _stamp_launches(module: ModuleOp, nests: Sequence[Nest]) -> None:
    """Lets every launch know its nest: launches stand in the order of the nests that they were."""
    launches: list[Operation] = []
    for program in host.programs_of(module):
        launches += [op for op in entry_block(program).ops if isinstance(op, kernel.LaunchOp)]
    if len(launches) == len(nests):
        for launch, nest in zip(launches, nests, strict=True):
            stamp_nest(launch, nest.locations, nest.number)


__all__ = ["LOWERING", "WHY", "Watch", "Watched"]
