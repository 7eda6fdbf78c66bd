"""`cuesta.explain`: compiles a function afresh, looks on, runs it, and says what became of it."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter, strftime
from typing import TYPE_CHECKING, Any, Final, cast

import torch
from torch.utils import _pytree as pytree

import cuesta
from cuesta.explain.errors import first_lines
from cuesta.explain.kept import Request, Shelf
from cuesta.explain.looking import KnownError, Looking
from cuesta.explain.model import Event, Explanation, Graph, GraphBreak, SourceLine, Unseen
from cuesta.explain.whole_calls import is_whole_call
from cuesta.observing import observed
from cuesta.record import DUMP

if TYPE_CHECKING:
    from cuesta.explain.measuring import Measured

RECOMPILES: Final = 1000
"""How often Dynamo may compile a function again: it may have been compiled before, by this or by another backend."""


@dataclass
class _Run:
    """What is found out before anything is put together."""

    looking: Looking
    breaks: list[GraphBreak] = field(default_factory=list[GraphBreak])
    unseen: list[Unseen] = field(default_factory=list[Unseen])
    captured: int = 0
    """Graphs that Dynamo handed over."""
    measured: list[Measured] = field(default_factory=list["Measured"])
    compile_seconds: float | None = None
    whole_us: float | None = None
    eager_us: float | None = None


def explain(
    function: Callable[..., Any],
    /,
    *inputs: Any,
    training: bool = False,
    time: bool = True,
    texts: bool = True,
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
    keep: bool = False,
    fresh: bool = False,
    **kwargs: Any,
) -> Explanation:
    """What becomes of `function(*inputs, **kwargs)` under `torch.compile(backend="cuesta")`.

    It is compiled afresh, whatever the cache has, and run: some ten times eager, as it is compiled, and step by step,
    unless `time` is False; then it runs once. With `training` a gradient of everything that is returned flows back
    (`.grad` stays as it is); otherwise it runs without gradients. Buffers of a module are put back afterwards.
    Without `texts` the texts of the levels are left out. `options` are those of `torch.compile`. (An argument of the
    function's own that has one of these names is passed by `functools.partial`.)

    With `keep` what is found out is kept beside the cache (`kept.py`), and what was kept of the same program is given
    back, as it was found then: it is captured, and where that takes it (graph breaks, the backward pass) runs once, in
    eager. Unless all is to be found out `fresh`.

    What cannot be found out is in `unseen`, with why, of the whole and of each graph; nothing that the function or the
    compiler raises is raised here. Errors: OptionError, TypeError for what cannot be called.
    """
    return explain_and_name(
        function, inputs, kwargs,
        training=training, time=time, texts=texts, options=options, name=name, keep=keep, fresh=fresh,
    )[0]  # fmt: skip


def explain_and_name(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    training: bool,
    time: bool,
    texts: bool,
    options: Mapping[str, Any] | None,
    name: str | None,
    keep: bool,
    fresh: bool,
) -> tuple[Explanation, tuple[str, ...]]:
    """As `explain`; and the names of the graphs under which the explanation is kept, which are none if it is not."""
    if isinstance(function, torch.export.ExportedProgram):
        function = function.module()
    if not callable(function):
        raise TypeError(f"what is to be explained is a function or a module, not {type(function).__name__}")
    plain = _uncompiled(function)
    from cuesta.options import Options

    name = name or _name_of(plain)
    asked = dict(options or {})
    request = Request(training, time, texts, Options.parse(None, asked), asked)
    shelf = Shelf.chosen_by(request.options) if keep else None
    run = _Run(Looking(request, shelf, anew=fresh))
    with _left_as_it_was(plain, run), _random_left_as_it_was(_cuda_devices(inputs), run):
        _compile_and_run(plain, inputs, kwargs, time, run)
        if run.looking.found is None and run.looking.kept is not None:  # it begins as another program does
            run = _Run(Looking(request, shelf, anew=True))
            _compile_and_run(plain, inputs, kwargs, time, run)
        if run.looking.found is None:
            _measure(run, time)
    if (kept := run.looking.found) is not None:
        found = replace(kept.explanation, name=name, breaks=tuple(run.breaks), unseen=tuple(run.unseen))
        return found, () if run.unseen else kept.graphs
    found = _put_together(run, name, training, time, texts)
    names = tuple(one for one in run.looking.names if one is not None)
    if shelf is None or not names or not len(names) == len(found.graphs) == len(run.looking.names):
        return found, ()
    if not _is_whole(found):
        return found, ()
    shelf.store(names, replace(found, kept_since=strftime("%Y-%m-%d %H:%M")))
    return found, names


def _measure(run: _Run, time: bool) -> None:
    """Times the graphs that were watched."""
    from cuesta.explain.measuring import Measured, measure

    untold = Measured(why="nobody asked for times")
    run.measured = [measure(watched) if time else untold for watched in run.looking.graphs]


def _is_whole(found: Explanation) -> bool:
    """Whether nothing went wrong that may go right another time."""
    return not found.unseen and all(one.outcome == "compiled" for one in found.graphs)


def _uncompiled(function: Any) -> Callable[..., Any]:
    """The function behind what `torch.compile` gave."""
    for attribute in ("_orig_mod", "_torchdynamo_orig_callable"):
        inner = getattr(function, attribute, None)
        if inner is not None:
            return inner
    return function


def _name_of(function: Any) -> str:
    return getattr(function, "__qualname__", None) or type(function).__name__


def _compile_and_run(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    kwargs: Mapping[str, Any],
    time: bool,
    run: _Run,
) -> None:
    training, options = run.looking.request.training, dict(run.looking.request.asked)
    from torch._dynamo import config

    from cuesta.backend import cuesta as backend

    def told(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        run.captured += 1
        run.looking.is_whole = run.captured == 1 and is_whole_call(gm, sys._getframe())
        reason = getattr(gm, "compile_subgraph_reason", None)
        if reason is not None and getattr(reason, "graph_break", False):
            run.breaks.append(_break_of(reason))
        return backend(gm, example_inputs, options=options)

    compiled: Callable[..., Any] = torch.compile(function, backend=told)
    step = _step(compiled, inputs, kwargs, function if training else None, run)
    device = _device_of(inputs, function)
    with ExitStack() as stack:
        stack.enter_context(config.patch(recompile_limit=RECOMPILES, accumulated_recompile_limit=RECOMPILES))
        stack.enter_context(_warnings_of_ours(run))
        start = perf_counter()
        try:
            with observed(run.looking):
                step()
            run.compile_seconds = perf_counter() - start
        except KnownError:
            return
        except Exception as error:  # noqa: BLE001 - whatever the function, Dynamo or a device raises is told
            run.unseen.append(Unseen(_what_failed(run), first_lines(error)))
            return
        if run.looking.watch is None:
            return
        run.looking.watch.keeps_arguments = False
        if not time:
            return
        from cuesta.explain.measuring import repeat

        try:
            run.whole_us = repeat(step, device)
            run.eager_us = repeat(_step(function, inputs, kwargs, function if training else None, run), device)
        except Exception as error:  # noqa: BLE001 - as above
            run.unseen.append(Unseen("the time of the whole", first_lines(error)))


def _step(
    function: Callable[..., Any], inputs: Sequence[Any], kwargs: Mapping[str, Any], trained: Any, run: _Run
) -> Callable[[], None]:
    """A call, with a backward pass if there is something `trained`: the function or module, as it was given."""

    def forward() -> None:
        with torch.no_grad():
            function(*inputs, **kwargs)

    def both() -> None:
        results = [one for one in pytree.tree_leaves(function(*inputs, **kwargs)) if _flows(one)]
        wanted = [one for one in _leaves(trained, inputs, kwargs) if one.requires_grad]
        if not results or not wanted:
            what = "nothing that it returns" if wanted else "no parameter or input"
            problem = Unseen("the backward pass", f"{what} requires a gradient")
            if problem not in run.unseen:
                run.unseen.append(problem)
            return
        torch.autograd.grad(results, wanted, [torch.ones_like(one) for one in results], allow_unused=True)

    return forward if trained is None else both


def _flows(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _leaves(function: Any, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    """Everything that a gradient may be asked of: parameters, and inputs."""
    owner = _owner(function)
    parameters = list(owner.parameters()) if isinstance(owner, torch.nn.Module) else []
    given = [one for one in pytree.tree_leaves((tuple(inputs), dict(kwargs))) if isinstance(one, torch.Tensor)]
    return [*parameters, *given]


def _owner(function: Any) -> Any:
    """What a function is a method of, or itself; behind arguments that were given in advance."""
    while isinstance(function, functools.partial):
        function = cast("functools.partial[Any]", function).func
    return getattr(function, "__self__", function)


def _what_failed(run: _Run) -> str:
    if not run.captured:
        return "the program"
    return "the run" if all(one.function is not None for one in run.looking.graphs) else "the compilation"


def _break_of(reason: Any) -> GraphBreak:
    stack = getattr(reason, "user_stack", None) or ()
    frames = [SourceLine(one.filename, one.lineno or 0, (one.line or "").strip()) for one in stack]
    return GraphBreak(str(getattr(reason, "reason", reason)), tuple(frames[::-1]))


@contextmanager
def _warnings_of_ours(run: _Run) -> Generator[None]:
    """The `with` block in which what we would warn of is told with the rest. Other warnings are as ever."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for one in caught:
        text = str(one.message)
        if text.startswith("cuesta: the kernel"):
            run.unseen.append(Unseen("machine code of a kernel", text.removeprefix("cuesta: ")))
        elif not text.startswith("cuesta runs a graph in eager"):
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        elif len(run.looking.graphs) < run.captured:
            run.unseen.append(Unseen("a graph", text.removeprefix("cuesta runs a graph in eager: ")))


@contextmanager
def _left_as_it_was(function: Any, run: _Run) -> Generator[None]:
    """The `with` block after which the buffers of a module are what they were, unless their device is gone."""
    owner = _owner(function)
    if not isinstance(owner, torch.nn.Module):
        yield
        return
    before = [(one, one.detach().clone()) for one in owner.buffers()]
    try:
        yield
    finally:
        try:
            with torch.no_grad():
                for one, value in before:
                    one.copy_(value)
        except RuntimeError as error:
            run.unseen.append(Unseen("the module's buffers as they were", first_lines(error)))


@contextmanager
def _random_left_as_it_was(devices: Sequence[torch.device], run: _Run) -> Generator[None]:
    """The `with` block after which random numbers go on as if nothing had been drawn, unless a device is gone."""
    here = torch.get_rng_state()
    there = [(device, torch.cuda.get_rng_state(device)) for device in devices]
    try:
        yield
    finally:
        torch.set_rng_state(here)
        try:
            for device, state in there:
                torch.cuda.set_rng_state(state, device)
        except RuntimeError as error:
            run.unseen.append(Unseen("random numbers as they were", first_lines(error)))


def _cuda_devices(inputs: Sequence[Any]) -> list[torch.device]:
    given = [one for one in pytree.tree_leaves(tuple(inputs)) if isinstance(one, torch.Tensor)]
    return list(dict.fromkeys(one.device for one in given if one.device.type == "cuda"))


def _device_of(inputs: Sequence[Any], function: Any) -> torch.device:
    tensors = _leaves(function, inputs, {})
    others = [one.device for one in tensors if one.device.type != "cpu"]
    return others[0] if others else torch.device("cpu")


def _put_together(run: _Run, name: str, training: bool, time: bool, texts: bool) -> Explanation:
    from cuesta.explain.graphs import graph_of
    from cuesta.explain.machines import machine_at

    graphs: list[Graph] = []
    for number, (watched, measured) in enumerate(zip(run.looking.graphs, run.measured, strict=True)):
        graphs.append(graph_of(watched, number, measured, texts=texts))
    devices = dict.fromkeys(one.device for graph in graphs for one in graph.kernels)
    if not graphs and not run.unseen:
        why = "Dynamo compiled nothing of it: it has no operators of torch, or it is skipped"
        run.unseen.append(Unseen("the program", why))
    events = _events(run.looking)
    for watched in run.looking.graphs:
        watched.forget()
    own = sum(one.record.seconds.get(DUMP, 0.0) for one in run.looking.graphs)
    seconds = None if run.compile_seconds is None else run.compile_seconds - own
    return Explanation(
        name=name,
        cuesta=cuesta.__version__,
        torch=str(torch.__version__),
        training=training,
        graphs=tuple(graphs),
        machines=tuple(machine_at(device) for device in devices) if time else (),
        breaks=tuple(run.breaks),
        whole_us=run.whole_us,
        eager_us=run.eager_us,
        compile_seconds=seconds,
        events=events,
        unseen=tuple(run.unseen),
    )


def _events(looking: Looking) -> tuple[Event, ...]:
    """The compilation on one clock, without what it took to look on."""
    found: list[Event] = []
    own = 0.0
    end = 0.0
    for number, one in enumerate(looking.graphs):
        began = one.began - looking.began - own
        found.append(Event("capture" if number == 0 else "between graphs", "capture", end * 1e6, (began - end) * 1e6))
        for stage in one.every_stage():
            kind = "stage" if stage.level else "code"
            start = (began + stage.start_seconds) * 1e6
            found.append(Event(stage.name, kind, start, stage.seconds * 1e6, None, number))
        own += one.record.seconds.get(DUMP, 0.0)
        end = (one.ended or one.began) - looking.began - own
    return tuple(found)


__all__ = ["explain"]
