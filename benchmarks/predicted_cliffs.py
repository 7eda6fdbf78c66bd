"""Nests of random programs whose schedules are predicted to be slow: `make search-predicted`, on any machine.

Programs are captured on the CPU, moved to a CUDA device that need not be there, and taken down to where nests are
scheduled. What the model of costs (`transforms/tilings/cost.py`) expects of the schedule that is chosen stands beside
what moving the tensors takes. Windows that slide have a model of their own, and are left out. A prediction is no
measurement; but what is expected to take ten times the least is worth a look, and costs no device time.

    make search-predicted ARGS='--seeds 0-99 --least 2'
"""

from __future__ import annotations

import argparse
import logging
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from benchmarks.on_cuda import on_cuda
from benchmarks.random_nests import traced
from benchmarks.random_programs import KINDS, draw
from cuesta.context import make_context
from cuesta.dialects import loops
from cuesta.dialects.core.entry import entry_block, symbol_ranges
from cuesta.dialects.core.locations import print_text
from cuesta.dialects.core.machine import Machine, machine_of
from cuesta.dialects.loops.analysis import analyse
from cuesta.dialects.loops.merge_axes import merge_axes
from cuesta.lowering.capture.fx_to_aten import import_graph
from cuesta.lowering.schedule.gpu.schedule_gpu import usual_tiling
from cuesta.pipeline import default_stages, run_pipeline
from cuesta.transforms.tilings.cost import cheapest, costs_of
from cuesta.transforms.tilings.times import ideal_of, time_of


@dataclass(frozen=True, slots=True)
class Prediction:
    """Of one nest: times in µs, with the chosen tiling, with the best of all, and of moving its tensors."""

    line: str
    nest: str
    chosen: float
    best: float
    ideal: float

    @property
    def ratio(self) -> float:
        """How many times as long as it might take."""
        return self.chosen / self.ideal


def predictions(line: str) -> Iterator[Prediction]:
    """Of the nests of a line whose tilings are known. Errors: those of `traced`, and of the importer."""
    module = on_cuda(import_graph(traced(line, "cpu")).module)
    stages = default_stages()
    run_pipeline(make_context(), module, stages[: [stage.label for stage in stages].index("loops-to-kernel")])
    machine = machine_of(module)
    for op in entry_block(module).ops:
        if isinstance(op, loops.NestOp) and (found := predicted(line, module, op, machine)) is not None:
            yield found


def predicted(line: str, module: ModuleOp, nest: loops.NestOp, machine: Machine) -> Prediction | None:
    """None where windows slide, where points meet or come in order, and where there is one tiling only."""
    analysis = analyse(nest, symbol_ranges(module), [True] * len(nest.results))
    merge_axes(analysis)
    usual = usual_tiling(analysis, machine)
    costs = costs_of(analysis, machine)
    if usual is None or costs is None:
        return None
    counts = costs.counts(cheapest(analysis, machine, usual))
    text = print_text(nest).partition("\n")[0]
    return Prediction(line, text, time_of(counts, machine), costs.time(costs.best()), ideal_of(counts, machine))


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.predicted_cliffs", description=__doc__)
    parser.add_argument("--seeds", default="0-19", help="programs of each kind: 20-39")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--least", type=float, default=2.0, help="what is nearer to the least than this is not told")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    first, _, last = options.seeds.partition("-")
    found: list[Prediction] = []
    left_out = 0
    for seed in range(int(first), int(last or first) + 1):
        for kind in options.kinds.split(","):
            line = str(draw(kind, seed))
            try:
                found += predictions(line)
            except Exception as error:  # noqa: BLE001 - whatever is wrong with one line is told, and the others go on
                left_out += 1
                print(f"{type(error).__name__}: {str(error).partition(chr(10))[0][:100]}: {line}")
    for one in sorted(found, key=lambda one: -one.ratio):
        if one.ratio >= options.least:
            print(f"{one.ratio:.1f} times the least: {one.chosen:.0f} µs (best tiling {one.best:.0f}): {one.line}")
            print(f"    {one.nest}")
    print(f"{len(found)} nests; {left_out} programs left out")


if __name__ == "__main__":
    main()
