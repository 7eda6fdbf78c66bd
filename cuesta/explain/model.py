"""What `cuesta explain` knows of a program, as data: what the terminal, the JSON and the page show.

Units, wherever a field does not say another: times in microseconds (names end in `_us`; compile times are seconds and
end in `seconds`), memory in bytes, `flops` as arithmetic operations of elements (a fused multiply-add is two).
A number that is not known is None, and what says why stands beside it, or in `unseen`.

References are positions: a `step` is one in `Graph.steps`, a `kernel` one in `Graph.kernels`, a `value` one in
`Graph.values`, a `source` one in `Graph.sources`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

SCHEMA = 1
"""The version of the JSON: it changes when a field goes or means something else, not when one is added."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """Something that an explanation could not find out."""

    what: str
    """What is missing: `graph 1`, `measured times`."""
    why: str


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the model, as Python knows it."""

    file: str
    """As the program names it; a path where Python had one."""
    line: int
    """From 1."""
    text: str = ""
    """The line itself, without the blanks around it; empty where the file cannot be read."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the FX graph, as AOTAutograd handed it over."""

    name: str
    operator: str
    """`aten.add.Tensor`; `placeholder` and `output` for the ends."""
    inputs: tuple[str, ...]
    """The names of the nodes that it reads."""
    type: str
    """What it gives: `f32[64, 256]`; empty where it is no tensor."""
    sources: tuple[int, ...] = ()
    module: str = ""
    """The path of the module that called it: `layers.0.attention`; empty where Dynamo does not say."""


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the final program (level `host`), which lies somewhere in memory."""

    name: str
    """As the text of the level `host` calls it, without `%`."""
    type: str
    """`f32[64, 256]`."""
    strides: tuple[int | str, ...]
    """In elements; text where only a run knows."""
    device: str
    bytes: int | None
    """Of its elements; for sizes that only a run knows, those of the run that was measured, or else None."""
    role: str
    """`argument`, `constant`, `buffer`, `arena`, `place` (in an arena), `alias` (of another value), `result` (of a
    call), `number`."""
    of: int | None = None
    """The value in whose memory it lies, for `place` and `alias`."""
    returned: bool = False
    born: int | None = None
    """The step before which it is there; None for what is there when the program begins."""
    dies: int | None = None
    """The step after which its memory is given back; None when the caller has it in the end."""
    sources: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way to run a kernel."""

    schedule: str
    """As the text of the level `kernel` or `loops` says it."""
    predicted_us: float | None = None
    cost: float | None = None
    """What the chooser compares, where that is no time: see `Schedule.unit`."""
    why: str = ""
    """Why it was chosen, or rejected; where nothing is said, the cost decided."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How a kernel runs, and how else it might have."""

    chosen: Candidate
    rejected: tuple[Candidate, ...] = ()
    """The best first."""
    considered: int = 0
    """How many there were, with the chosen one; more than are named where there are very many."""
    unit: str = ""
    """Of the costs: `float adds` on a CPU, `bytes` of layouts; empty where there are none."""
    chooser: str = ""
    """Who decided: `cost`, `rules`, `measured` (max-autotune), `written by hand`."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of ours. Numbers are of one launch."""

    name: str
    device: str
    sources: tuple[int, ...]
    """The model's lines that it came from. A kernel of a backward pass has those of the forward pass."""
    operators: tuple[str, ...]
    """The ATen operators that were fused into it, in the order of the program."""
    nodes: tuple[str, ...]
    """The FX nodes of those, of its first launch."""
    steps: tuple[int, ...]
    """Its launches."""
    domain: str
    """What runs in parallel, as text: `64 × 256`."""
    bytes_read: int | None
    """The bytes that memory must give once: each element counts once, however often it is loaded."""
    bytes_written: int | None
    flops: int | None
    """Counted from the text of the kernel: each op of `elem` on a float counts as often as it runs."""
    special_functions: int | None = None
    """How many of those are `exp`, `tanh`, `rsqrt` and the like, which cost a processor more than one operation."""
    device_flops: int | None = None
    """On a GPU, the additions and multiplications of all of its threads: what `exp` is made of, what several threads
    compute alike, what brings a reduction together, and lanes that are no points, too.
    """
    counted: str = ""
    """What was guessed in counting, or why nothing was: `s0 taken as 128`, `indices from data: all elements`."""
    predicted_us: float | None = None
    predicted_by: str = ""
    """The model that predicts, or why there is no prediction."""
    measured_us: float | None = None
    """The median of its launches, run by themselves; see `Graph.runs`."""
    measured_how: str = ""
    """Of how many runs, with which clock; or why nothing was measured."""
    roofline: float | None = None
    """What the machine would need at least, over what the kernel needed: 1 is as fast as it can be. May exceed 1 where
    data lie in a cache."""
    bound: str = ""
    """`memory` or `arithmetic`: what the machine would wait for; `launch` where neither takes as long as a launch."""
    schedule: Schedule | None = None
    text: str = ""
    """Its text at the level `kernel`."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a library, or of an operator that eager runs. Numbers are of one call."""

    overload: str
    kind: str
    """`library` (on purpose), `fallback` (there is no lowering, or it declined), `eager` (no level can say it)."""
    why: str
    """Why it is no kernel."""
    step: int
    sources: tuple[int, ...]
    nodes: tuple[str, ...]
    bytes_read: int | None
    bytes_written: int | None
    flops: int | None
    counted: str = ""
    predicted_us: float | None = None
    predicted_by: str = ""
    measured_us: float | None = None
    measured_how: str = ""
    roofline: float | None = None
    bound: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One op of the final program that does something, in the order of the program."""

    kind: str
    """`launch`, `call`, `alloc`, `free`, `alias`, `place`, `other`."""
    name: str
    """The kernel, the overload, or the op."""
    reads: tuple[int, ...] = ()
    """Values. With `writes` these are the edges of the picture of the program."""
    writes: tuple[int, ...] = ()
    kernel: int | None = None
    call: int | None = None
    """A position in `Graph.calls`."""
    sources: tuple[int, ...] = ()
    measured_us: float | None = None
    """The median of this very launch or call."""
    nodes: tuple[int, ...] = ()
    """The FX nodes that it comes from, as positions in `Graph.nodes`."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A pair of nests that did not become one."""

    consumer: str
    """A nest, by the name that its first result has, without `%` and without the number that a text puts behind it."""
    producer: str
    reason: str
    bytes: int | None = None
    """What lies between the two in memory, and would not if they were one."""
    sources: tuple[int, ...] = ()
    """Of the consumer."""
    producer_sources: tuple[int, ...] = ()
    final: bool = True
    """Whether the two are still apart in the end: a later move may have joined them by another way."""
    nodes: tuple[str, ...] = ()
    """The FX nodes that the consumer computes."""
    producer_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """Which way an image lies in memory, where there was a choice."""

    value: str
    """By the name it has, without `%` and without the number that a text puts behind it."""
    chosen: str
    """`channels last`, `contiguous`, or the order of the axes."""
    why: str
    sources: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryPoint:
    """How much of the program's memory is in use while a step runs."""

    step: int
    alive: int
    """Bytes of all buffers, arenas, results of calls, and arguments that are not given back yet."""
    own: int
    """The same without arguments and constants."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory over time. From the final text: what a library takes besides is not seen."""

    points: tuple[MemoryPoint, ...]
    peak_step: int | None
    """The step at which most is alive, without arguments and constants."""
    peak_bytes: int
    """Of `own` at that step."""
    alive_at_peak: tuple[int, ...]
    """Values, the largest first; arguments and constants too."""
    measured_peak_bytes: int | None = None
    """What the device's allocator counted in a run, above what was there before; on CUDA only."""
    notes: tuple[str, ...] = ()
    """What was guessed."""


@dataclass(frozen=True, slots=True)
class CompileStage:
    """One stage of the compilation, in order."""

    name: str
    why: str
    """What it is for, and why it stands there."""
    start_seconds: float
    """Since this graph's compilation began: where stages of one record end, the next begins."""
    seconds: float
    level: str = ""
    """The level of the program after it; empty for what is no stage of the pipeline."""
    ops_before: int | None = None
    ops_after: int | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """What one rule did in one graph."""

    rule: str
    place: str
    """File and line of the rule: `transforms/fusion/inline.py:40`; may be empty."""
    stage: str
    tried: int
    fired: int
    seconds: float
    refusals: tuple[tuple[str, int], ...] = ()
    """Reasons why it nearly matched and did not, and how often, most frequent first."""


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of a level's text that has sources."""

    line: int
    """From 1."""
    sources: tuple[int, ...]
    nodes: tuple[int, ...] = ()
    """The FX nodes that it comes from, as positions in `Graph.nodes`: they tell repeated layers apart."""


@dataclass(frozen=True, slots=True)
class LevelText:
    """The text of a program at one level."""

    name: str
    """`fx`, `aten`, `loops`, `fused`, `kernel`, `host`, `triton`, `llvm`, `wrapper`."""
    after: str
    """The stage after which it stands."""
    language: str
    """`mlir`, `python`, `llvm`."""
    text: str
    """Without locations. A name is one of this text alone: equal stems are numbered in the order of each text."""
    lines: tuple[TextLine, ...] = ()


@dataclass(frozen=True, slots=True)
class Event:
    """Something on a timeline."""

    name: str
    kind: str
    """Of a run: `launch`, `call`, `other`. Of a compilation: `capture`, `stage`, `code`, `other`."""
    start_us: float
    duration_us: float
    step: int | None = None
    graph: int | None = None


@dataclass(frozen=True, slots=True)
class Graph:
    """One graph that was compiled."""

    number: int
    """In the order of compilation, from 0."""
    kind: str
    """`inference`, `forward` or `backward`."""
    outcome: str
    """`compiled`, `eager` (runs as a whole in eager) or `cached` (nothing but the record is known)."""
    why: str = ""
    """Why it is not compiled."""
    device: str = ""
    nodes: tuple[Node, ...] = ()
    sources: tuple[SourceLine, ...] = ()
    values: tuple[Value, ...] = ()
    steps: tuple[Step, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    calls: tuple[Call, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    layouts: tuple[Layout, ...] = ()
    memory: Memory | None = None
    stages: tuple[CompileStage, ...] = ()
    rewrites: tuple[Rule, ...] = ()
    levels: tuple[LevelText, ...] = ()
    events: tuple[Event, ...] = ()
    """One run, step by step, each waited for: the durations are medians, and the steps stand one after the other."""
    runs: int = 0
    """How many runs were measured."""
    whole_us: float | None = None
    """The median of runs as they are, all launches together: less than the sum of the steps."""
    capture_seconds: float = 0.0
    """PyTorch's share of the compilation, before this graph and its siblings: told with the first of them."""
    own_seconds: float = 0.0
    extensions: tuple[str, ...] = ()
    cuda_graph: str | None = None
    unseen: tuple[Unseen, ...] = ()


@dataclass(frozen=True, slots=True)
class GraphBreak:
    """Where Dynamo ended a graph, because it could not go on."""

    reason: str
    sources: tuple[SourceLine, ...] = ()


@dataclass(frozen=True, slots=True)
class Machine:
    """What the program ran on, and what that can do at most."""

    device: str
    """`cpu`, `cuda:0`."""
    name: str
    """What the system calls it."""
    bytes_per_second: float | None
    """Of memory; measured by a copy of more than the caches hold."""
    flops_per_second: float | None
    """Of f32, by fused multiply-adds in vectors; measured."""
    how: str
    """How these were found, or why they were not."""
    matrix_flops_per_second: tuple[tuple[str, float], ...] = ()
    """Of products of matrices, by the type of the factors: `f32`, `bf16`."""
    launch_us: float | None = None
    """What a launch of a kernel that does nothing takes."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What became of a program, and what is not known about it."""

    name: str
    """The file, or the function."""
    cuesta: str
    """The version."""
    torch: str
    training: bool
    graphs: tuple[Graph, ...]
    machines: tuple[Machine, ...] = ()
    breaks: tuple[GraphBreak, ...] = ()
    whole_us: float | None = None
    """The median of calls of the compiled function, guards and all; with `training`, a step."""
    eager_us: float | None = None
    """The same of eager."""
    compile_seconds: float | None = None
    """The first call, as a user waits for it."""
    events: tuple[Event, ...] = ()
    """The compilation, on one clock: capture, stages of the graphs, code generation."""
    unseen: tuple[Unseen, ...] = ()
    kept_since: str = ""
    """When it was found out, `2026-11-25 07:20`, if that was not now: times are those of then."""
    not_run: bool = False
    """Whether the program was not even run and captured again, as nothing that it depends on has changed since."""
    schema: int = SCHEMA

    def to_json(self) -> dict[str, Any]:
        """Everything as dictionaries, lists, texts and numbers, by the names of the fields; tuples become lists."""
        return _plain(self)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: _plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value
