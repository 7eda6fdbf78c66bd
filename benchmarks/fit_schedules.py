"""Fits the coefficients of the cost of tilings (`transforms/tilings/times.py`) to what was measured.

    make bench-gpu-schedules ARGS='--seeds 0-79 --json a.json'
    python -m benchmarks.fit_schedules a.json

A random walk that keeps what is better: of how far predictions are off, and of what it costs to follow them.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from benchmarks.random_nests import analysed
from cuesta.context import make_context
from cuesta.dialects.core.locations import CuestaParser
from cuesta.dialects.core.machine import REFERENCE
from cuesta.transforms.tilings.cost import TileCosts
from cuesta.transforms.tilings.space import MOST, WARP
from cuesta.transforms.tilings.times import Coefficients, Counts, time_of

FAR = 1.5
"""A prediction that is off by more than so much, in powers of e, is as bad as one that is off by just that."""

Nest = list[tuple[Counts, float]]


def parsed(text: str) -> ModuleOp:
    """The program of a text."""
    return CuestaParser(make_context(), text, "<nest>").parse_module()


def measured(path: Path) -> list[Nest]:
    """For each nest of a file its tilings, as the model sees them, and their times in µs."""
    found: list[Nest] = []
    for row in json.loads(path.read_text()):
        if "times" not in row:
            continue
        costs = TileCosts(analysed(parsed(row["nest"])), REFERENCE)
        pairs = zip(row["choices"], row["times"], strict=True)
        counted = [(costs.counts(one), time) for one, time in pairs if "along" in one and 0 < time < math.inf]
        # Of tilings that are never asked for, the model need not know what is wrong with them.
        nest = [(one, time) for one, time in counted if one.elements <= MOST or one.warps * WARP == 1024]
        if len(nest) > 1:
            found.append(nest)
    return found


def judged(nests: Sequence[Nest], facts: Coefficients) -> tuple[float, float, float]:
    """The mean error, in powers of e; the geometric mean and the largest of what following the model costs."""
    errors: list[float] = []
    bounds: list[float] = []
    for nest in nests:
        thought = [time_of(counts, REFERENCE, facts) for counts, _ in nest]
        errors += [min(FAR, abs(math.log(one / time))) for one, (_, time) in zip(thought, nest, strict=True)]
        chosen = min(range(len(nest)), key=thought.__getitem__)
        bounds.append(nest[chosen][1] / min(time for _, time in nest))
    return statistics.fmean(errors), statistics.geometric_mean(bounds), max(bounds)


def told(nests: Sequence[Nest], facts: Coefficients) -> str:
    """How good coefficients are."""
    error, bound, most = judged(nests, facts)
    return f"error {error:.3f}, bound {bound:.3f}, at most {most:.2f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Fits, and prints what was found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fit_schedules", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    nests = [nest for path in options.files for nest in measured(path)]
    rng = random.Random(options.seed)
    names = [field.name for field in fields(Coefficients)]

    def cost(facts: Coefficients) -> float:
        error, bound, _ = judged(nests, facts)
        return 0.5 * error + math.log(bound)

    best = Coefficients()
    least, step = cost(best), 0.3
    print(f"{len(nests)} nests; at first: {told(nests, best)}")
    for _ in range(options.rounds):
        tried = Coefficients(
            **{
                name: max(1.01 if name == "norm" else 0.0, getattr(best, name) * math.exp(rng.gauss(0, step)))
                if rng.random() < 0.3
                else getattr(best, name)
                for name in names
            }
        )
        if (now := cost(tried)) < least:
            best, least, step = tried, now, min(0.5, step * 1.3)
        else:
            step = max(0.02, step * 0.99)
    print(f"at last: {told(nests, best)}")
    for name in names:
        print(f"    {name}: float = {getattr(best, name):.3g}")


if __name__ == "__main__":
    main()
