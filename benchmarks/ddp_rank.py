"""One process of `benchmarks/ddp.py`: its models, with and without DistributedDataParallel, stepped and timed.

Units: milliseconds, unless it says otherwise. All processes do the same in the same order, as a step of a model under
DistributedDataParallel waits for the others: numbers of steps are given, and never follow from what a step took.
"""

from __future__ import annotations

import argparse
import os
import statistics
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from time import perf_counter
from typing import Any

import torch
import torch.distributed as dist
from torch.autograd.profiler_util import FunctionEvent
from torch.nn.parallel import DistributedDataParallel

from benchmarks.case import Step
from benchmarks.gpu import Row
from benchmarks.host_time import host_samples
from benchmarks.training_models import forward_backward, made

WARM_UP = 5
"""Steps of each side that are not timed.

Source: torch compiles at the first one, and DistributedDataParallel makes its buckets anew at the second.
"""
PROFILED = 3
"""Steps that are profiled.

Source: a bound against what the profiler keeps; steps are alike.
"""
LARGEST = 10
"""Kernels that are named.

Source: a definition.
"""
LEARNING_RATE = 1e-4
"""Of SGD: the loss stays finite.

Source: weights change by less than a hundredth in all the steps of a run, so that they stay ordinary numbers.
"""
NAME, TEXT = 90, 3000
"""The most characters of a kernel's name, and of an error's text (its end is kept).

Source: bounds against long lines.
"""
COPIES = ("aten::copy_", "aten::clone", "aten::_to_copy")
"""Operators that move tensors; the second and third call the first."""


@dataclass(frozen=True, slots=True)
class Span:
    """When a kernel ran. Units: microseconds."""

    name: str
    start: float
    end: float


class Group:
    """The group of processes as one of them sees it, and its device."""

    def __init__(self, rank: int, meeting: str, options: argparse.Namespace) -> None:
        self.rank = rank
        self.device = f"cuda:{rank}" if options.devices == "cuda" else "cpu"
        settings: dict[str, Any] = {}
        if options.devices == "cuda":
            torch.cuda.set_device(rank)
            settings["device_id"] = torch.device(self.device)
        else:
            torch.set_num_threads(max(1, (os.cpu_count() or 1) // options.processes))
        dist.init_process_group(
            "nccl" if options.devices == "cuda" else "gloo",
            init_method=f"file://{meeting}",
            rank=rank,
            world_size=options.processes,
            timeout=timedelta(seconds=options.seconds),
            **settings,
        )

    def synchronize(self) -> None:
        """Waits for the device."""
        if self.device != "cpu":
            torch.cuda.synchronize()

    def meet(self) -> None:
        """Waits for the device and for the other processes."""
        self.synchronize()
        dist.barrier()
        self.synchronize()


def serve(connection: Connection, rank: int, meeting: str, options: argparse.Namespace) -> None:
    """Measures all models and sends what it found, or the error."""
    try:
        warnings.simplefilter("ignore")
        torch._dynamo.config.optimize_ddp = not options.whole
        group = Group(rank, meeting, options)
        result = {name: measured(name, group, connection, options) for name in options.models}
        connection.send(("result", result))
    except Exception:  # noqa: BLE001 - told to whom started this process
        connection.send(("error", traceback.format_exc()[-TEXT:]))
        return
    dist.destroy_process_group()


def measured(name: str, group: Group, connection: Connection, options: argparse.Namespace) -> Row:
    """The times of a model with and without DistributedDataParallel, by side, and how far its gradients are off."""
    row = timed(Sides(name, True, group, options), "with DDP", group, options)
    if group.rank == 0:
        connection.send(("told", f"{name} with DDP measured"))
    alone = timed(Sides(name, False, group, options), "without DDP", group, options)
    if group.rank == 0:
        connection.send(("told", f"{name} without DDP measured"))
    row["ms"] |= alone["ms"]
    row["profile"] |= alone["profile"]
    difference = {side: ms - row["ms"]["step without DDP"][side] for side, ms in row["ms"]["step with DDP"].items()}
    row["ms"]["what DDP adds to a step"] = difference
    return row


def timed(sides: Sides, what: str, group: Group, options: argparse.Namespace) -> Row:
    """The times of all sides, and what is told of them."""
    for step in sides.steps.values():
        for _ in range(WARM_UP):
            step()
    ms = {f"step {what}": step_samples(sides.steps, group, options.steps, options.rounds)}
    host = host_samples(sides.steps, group.meet, options.rounds)
    ms[f"host of a step {what}"] = {side: microseconds * 1e-3 for side, microseconds in host.items()}
    profiles = {f"{side} {what}": profiled(step, group) for side, step in sides.steps.items() if options.profile}
    return {
        "ms": ms,
        "parameters": sides.parameters,
        "gradient_errors": sides.gradient_errors,
        "compiled": sides.compiled,
        "profile": profiles,
    }


class Sides:
    """A model of each side, with the same weights and inputs of this process's own, after one forward and backward."""

    def __init__(self, name: str, distributed: bool, group: Group, options: argparse.Namespace) -> None:
        self.steps: dict[str, Step] = {}
        self.compiled: dict[str, str] = {}
        """What each side that compiles made of the model."""
        self.gradient_errors: dict[str, float] = {}
        self.parameters = 0
        expected: list[torch.Tensor] = []
        # What is compiled without DistributedDataParallel, in one piece, fits the guards of what is compiled under it.
        torch._dynamo.reset()
        for side in ("eager", *options.sides):
            model, inputs = made(name, options.sizes[name], group.device, seed=group.rank)
            module = distributed_model(model, group, options) if distributed else model
            function = module if side == "eager" else torch.compile(module, backend=side, dynamic=False)
            counted = Counted()
            forward_backward(function, inputs)
            gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
            if side == "eager":
                expected = [gradient.clone() for gradient in gradients]
                self.parameters = sum(parameter.numel() for parameter in model.parameters())
            else:
                self.compiled[side] = counted.told(side)
                self.gradient_errors[side] = relative_error(gradients, expected)
            self.steps[side] = training_step(function, model, inputs)


def distributed_model(model: torch.nn.Module, group: Group, options: argparse.Namespace) -> DistributedDataParallel:
    return DistributedDataParallel(
        model,
        device_ids=None if group.device == "cpu" else [group.rank],
        bucket_cap_mb=options.bucket_mb,
        gradient_as_bucket_view=options.bucket_views,
    )


def training_step(function: Callable[..., Any], model: torch.nn.Module, inputs: Mapping[str, torch.Tensor]) -> Step:
    """zero_grad, forward, loss, backward and SGD of a model, which `function` runs."""
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        forward_backward(function, dict(inputs))
        optimizer.step()

    return step


def relative_error(gradients: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> float:
    """The largest difference of any elements, over the largest element expected; infinite where one is no number."""
    pairs = list(zip(gradients, expected, strict=True))
    difference = max(float((ours - theirs).abs().max()) for ours, theirs in pairs)
    if not all(bool(ours.isfinite().all()) for ours, _ in pairs):
        return float("inf")
    return difference / max(float(theirs.abs().max()) for theirs in expected)


class Counted:
    """Counts of what compilers did from here on."""

    def __init__(self) -> None:
        import cuesta

        cuesta.clear_records()
        torch._dynamo.utils.counters.clear()

    def told(self, side: str) -> str:
        """In words."""
        import cuesta

        pieces = torch._dynamo.utils.counters["aot_autograd"]["ok"]
        if side == "cuesta":
            made = cuesta.statistics()
            fallbacks = f", fallbacks {dict(made.fallbacks)}" if made.fallbacks else ""
            return f"{pieces} pieces, {made.kernels} kernels and {made.library_calls} library calls{fallbacks}"
        return f"{pieces} pieces"


def step_samples(steps: Mapping[str, Step], group: Group, repeats: int, rounds: int) -> dict[str, float]:
    """The median time of a step, by side. The sides take turns, and the one that begins changes."""
    names = list(steps)
    samples: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            steps[name]()
            group.meet()
            start = perf_counter()
            for _ in range(repeats):
                steps[name]()
            group.synchronize()
            samples[name].append((perf_counter() - start) * 1e3 / repeats)
    return {name: statistics.median(taken) for name, taken in samples.items()}


# --- Where the time goes ----------------------------------------------------------------------------------------------


def profiled(step: Step, group: Group) -> list[str]:
    """What the profiler saw of some steps. Every process steps; only rank 0 looks."""
    from torch.profiler import ProfilerActivity, profile

    group.meet()
    if group.rank != 0:
        for _ in range(PROFILED):
            step()
        group.synchronize()
        return []
    activities = [ProfilerActivity.CPU, *([] if group.device == "cpu" else [ProfilerActivity.CUDA])]
    with profile(activities=activities) as profiler:
        for _ in range(PROFILED):
            step()
        group.synchronize()
    events: Sequence[FunctionEvent] = profiler.events() or ()
    return [*(device_lines(device_spans(events)) if group.device != "cpu" else host_lines(events)), copies_of(events)]


def device_spans(events: Sequence[FunctionEvent]) -> list[Span]:
    """The kernels and copies that ran on a device; what the host's names cover there is no kernel."""
    return [
        Span(event.name, event.time_range.start, event.time_range.end)
        for event in events
        if event.device_type.name == "CUDA" and not event.is_user_annotation
    ]


def device_lines(spans: Sequence[Span]) -> list[str]:
    """The largest kernels, and how much of the time of NCCL's something else ran. A kernel that waited for a place on
    the device is told by its longest run.
    """
    runs: dict[str, list[float]] = {}
    for span in spans:
        runs.setdefault(span.name, []).append(span.end - span.start)
    reducing = merged([span for span in spans if "nccl" in span.name.lower()])
    computing = merged([span for span in spans if "nccl" not in span.name.lower()])
    lines = [f"{len(spans) / PROFILED:.0f} kernels and copies a step"]
    for name, taken in sorted(runs.items(), key=lambda entry: -sum(entry[1]))[:LARGEST]:
        each = f"{len(taken) / PROFILED:6.1f} runs, the longest {max(taken) * 1e-3:.3f} ms"
        lines.append(f"{sum(taken) * 1e-3 / PROFILED:8.3f} ms  {each}  {name[:NAME]}")
    lines.append(f"{length(computing) * 1e-3 / PROFILED:.3f} ms in which something computes")
    if reducing:
        share = length(common(reducing, computing)) / length(reducing)
        lines.append(f"{length(reducing) * 1e-3 / PROFILED:.3f} ms of NCCL, {share:.0%} of it beside computation")
    return lines


def host_lines(events: Sequence[FunctionEvent]) -> list[str]:
    """The operators that take the host longest, what they call left out."""
    sums: dict[str, float] = {}
    for event in events:
        sums[event.name] = sums.get(event.name, 0.0) + event.self_cpu_time_total
    names = sorted(sums, key=sums.__getitem__, reverse=True)[:LARGEST]
    return [f"{sums[name] * 1e-3 / PROFILED:8.3f} ms  {name[:NAME]}" for name in names]


def copies_of(events: Sequence[FunctionEvent]) -> str:
    """How often operators that copy were called."""
    calls = {name: sum(event.name == name for event in events) / PROFILED for name in COPIES}
    return "calls a step: " + ", ".join(f"{name} {count:.1f}" for name, count in calls.items())


Interval = tuple[float, float]


def merged(spans: Sequence[Span]) -> list[Interval]:
    """The time that the spans cover, in order, as intervals that do not touch."""
    found: list[Interval] = []
    for span in sorted(spans, key=lambda span: span.start):
        if found and span.start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], span.end)
        else:
            found.append((span.start, span.end))
    return found


def common(some: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    """What two lists of intervals share; each is in order."""
    found: list[Interval] = []
    first = second = 0
    while first < len(some) and second < len(others):
        start = max(some[first][0], others[second][0])
        end = min(some[first][1], others[second][1])
        if start < end:
            found.append((start, end))
        if some[first][1] < others[second][1]:
            first += 1
        else:
            second += 1
    return found


def length(intervals: Sequence[Interval]) -> float:
    return sum(end - start for start, end in intervals)
