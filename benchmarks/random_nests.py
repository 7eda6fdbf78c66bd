"""Nests of random programs, for a CUDA device that need not be there: what a schedule is chosen for."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from xdsl.dialects.builtin import ModuleOp

from benchmarks.gpu_cases import kernel_cases
from benchmarks.random_programs import KINDS, Program, draw
from cuesta.context import make_context
from cuesta.dialects import loops
from cuesta.dialects.core.entry import entry_block, symbol_ranges
from cuesta.dialects.core.locations import print_text
from cuesta.dialects.core.machine import machine_of
from cuesta.dialects.loops.analysis import NestAnalysis, analyse
from cuesta.dialects.loops.merge_axes import merge_axes
from cuesta.lowering.capture.decompositions import decomposition_table
from cuesta.lowering.capture.fx_to_aten import import_graph
from cuesta.lowering.schedule.gpu.schedule_choices import candidates
from cuesta.lowering.schedule.gpu.schedule_gpu import usual_tiling
from cuesta.lowering.schedule.measure_parts import parts_or_none
from cuesta.lowering.schedule.measure_unsure import doubted
from cuesta.lowering.schedule.tune_kernels import obstacle, program_of
from cuesta.pipeline import default_stages, run_pipeline
from cuesta.transforms.tilings.cost import ranked

Choices = dict[str, int]


def lines(seeds: Sequence[int]) -> list[str]:
    """A program of each kind for every seed."""
    return [str(draw(kind, seed)) for seed in seeds for kind in KINDS]


def traced(line: str, device: str = "cuda") -> Any:
    """The FX graph of a line, or of a case of `make bench-gpu`; of one in training, of both passes together.

    Errors: Unsuitable, ValueError.
    """
    cases = kernel_cases() if device == "cuda" else {}
    case = cases[line] if line in cases else Program.parse(line).case(device)
    with FakeTensorMode():
        function, inputs = case.make()
        inputs = [one.detach() for one in inputs if isinstance(one, Tensor)]
        trained = [k for k, one in enumerate(inputs) if one.is_floating_point()]

        def both(*inputs: Tensor) -> Any:
            def forward(*some: Tensor) -> Tensor:
                every = list(inputs)
                for k, one in zip(trained, some, strict=True):
                    every[k] = one
                return function(*every)

            result, back, *_ = torch.func.vjp(forward, *(inputs[k] for k in trained))
            return result, *back(torch.ones_like(result))

        def alone(*inputs: Tensor) -> Any:  # no more parameters than inputs, which make_fx asks for
            return function(*inputs)

        table = decomposition_table()
        wanted = torch.func.functionalize(both) if case.training else alone
        graph = make_fx(wanted, tracing_mode="fake", decomposition_table=table)(*inputs)
    graph.graph.eliminate_dead_code()
    return graph


def nests(line: str) -> list[ModuleOp]:
    """Programs of one nest each, at the level `loops` and ready to schedule; of those that can be timed."""
    return nests_in(import_graph(traced(line)).module)


def nests_in(module: ModuleOp) -> list[ModuleOp]:
    """The same of a program at the level `aten`, which is taken down."""
    before = [stage.label for stage in default_stages(tune=True)].index("tune-kernels")
    run_pipeline(make_context(), module, default_stages(tune=True)[:before])
    found: dict[str, ModuleOp] = {}
    for op in entry_block(module).ops:
        if isinstance(op, loops.NestOp) and obstacle(op) is None:
            alone = program_of([op])
            found.setdefault(print_text(alone), alone)
    return list(found.values())


def nest_of(module: ModuleOp) -> loops.NestOp:
    """The only nest of a program."""
    return next(op for op in entry_block(module).ops if isinstance(op, loops.NestOp))


def analysed(module: ModuleOp) -> NestAnalysis:
    """The facts about the only nest of a program, with its axes merged."""
    nest = nest_of(module)
    analysis = analyse(nest, symbol_ranges(module), tuple(True for _ in nest.results))
    merge_axes(analysis)
    return analysis


def asked_about(module: ModuleOp) -> list[Choices]:
    """What `measure-unsure` times of a nest beside what it has; nothing of one that is computed in parts by then."""
    copy = module.clone()
    stages = default_stages(tune=True)
    labels = [stage.label for stage in default_stages()]
    last = labels[labels.index("measure-unsure") - 1]
    names = [stage.label for stage in stages]
    run_pipeline(make_context(), copy, stages[names.index("tune-kernels") + 1 : names.index(last) + 1])
    if sum(isinstance(op, loops.NestOp) for op in entry_block(copy).ops) != 1 or obstacle(nest_of(copy)) is not None:
        return []
    return doubted(analysed(copy), machine_of(module))


def asked_in_parts(module: ModuleOp) -> list[Choices]:
    """What `measure-parts` times of a nest beside what it has."""
    return parts_or_none(analysed(module), machine_of(module))


def sampled(module: ModuleOp, most: int, rng: random.Random) -> list[Choices]:
    """So many choices for a nest: what it has, what it would have if no cost was asked for, tilings that are thought
    good, those that the device is asked about, and others at random; beyond these parts and meetings, where it can
    have them.
    """
    machine = machine_of(module)
    usual = usual_tiling(analysed(module), machine)
    thought = ranked(analysed(module), machine)
    asked = [*asked_about(module), *asked_in_parts(module)]
    found: list[Choices] = [{}, *([usual] if usual is not None else []), *thought[: most // 4]]
    found += [one for one in asked if one not in found]
    others = [one for one in thought if one not in found]
    found += rng.sample(others, min(most - len(found) + 1, len(others)))
    return [*found, *(one for one in candidates(analysed(module), machine) if "part" in one and one not in found)]


def with_choices(module: ModuleOp, choices: Choices) -> ModuleOp:
    """A copy of a program of one nest, whose schedule says these choices."""
    copy = module.clone()
    if choices:
        nest_of(copy).properties["schedule"] = loops.ScheduleAttr.of(choices)
    return copy
