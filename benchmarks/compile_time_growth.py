"""How compile time grows with the size of the graph: our own share, over graphs of about 100, 1,000 and 5,000 ATen ops.

    python -m benchmarks.compile_time_growth
    python -m benchmarks.compile_time_growth --shapes layers --sizes 100 1000

For each shape of graph the exponent is fitted: seconds ~ ops ** exponent, by least squares over the logarithms. Since a
cost per graph flattens that, the steepest exponent between two neighbouring sizes is told too, and counts as well.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

MUST = 1.2
ROOT = Path(__file__).resolve().parent.parent


def chain(ops: int) -> Callable[..., Any]:
    """One chain of pointwise ops, with a mean over the rows after every twenty."""

    def function(x: Tensor, y: Tensor) -> Tensor:
        for number in range(ops // 23):
            for step in range(10):
                x = torch.sin(x) if step % 2 else x * 0.5
                x = x + y
            x = x - x.mean(-1, keepdim=True)
            x = x + number
        return x

    return function


def layers(ops: int) -> Callable[..., Any]:
    """Layers of a small transformer, each with weights of its own."""

    def function(x: Tensor, y: Tensor) -> Tensor:
        for _ in range(ops // 41):
            x = x + _attention(F.layer_norm(x, x.shape[-1:]), y)
            x = x + F.gelu(F.layer_norm(x, x.shape[-1:]) @ y) @ y
        return x

    return function


def _attention(x: Tensor, weight: Tensor) -> Tensor:
    query, key, value = (_heads(x @ weight * scale) for scale in (0.5, 1.0, 1.5))
    scores = (query @ key.transpose(-1, -2) / 4.0).softmax(-1)
    return (scores @ value).transpose(0, 1).reshape(x.shape) @ weight


def _heads(x: Tensor) -> Tensor:
    return x.view(x.shape[0], 4, -1).transpose(0, 1)


def branches(ops: int) -> Callable[..., Any]:
    """Many small computations that share nothing but their inputs."""

    def function(x: Tensor, y: Tensor) -> list[Tensor]:
        return [torch.tanh(x * number + y).sum(-1) for number in range(ops // 4)]

    return function


def optimizer(ops: int) -> Callable[..., Any]:
    """Many tensors, of different sizes, each updated by a few ops."""

    def function(x: Tensor, y: Tensor) -> list[Tensor]:
        flat = (x + y).view(-1)
        pieces = [flat[: 64 + number % 7] for number in range(ops // 6)]
        return [piece * 0.9 + piece.square().sqrt() * 0.1 - number for number, piece in enumerate(pieces)]

    return function


SHAPES = {"chain": chain, "layers": layers, "branches": branches, "optimizer": optimizer}


@dataclass(frozen=True, slots=True)
class Point:
    """One graph. Units: seconds."""

    ops: int
    seconds: float
    stages: dict[str, float]


def measure(shape: Callable[[int], Callable[..., Any]], ops: int, repeats: int) -> Point:
    """The fastest of some compilations of one graph; no cache of ours is used."""
    import cuesta

    torch._dynamo.config.recompile_limit = 1000
    best: Point | None = None
    for _ in range(repeats):
        torch._dynamo.reset()
        cuesta.clear_records()
        with torch.no_grad():
            compiled = torch.compile(shape(ops), backend="cuesta", fullgraph=True, options={"cache": False})
            compiled(torch.randn(64, 64), torch.randn(64, 64))
        made = cuesta.statistics()
        # Loading the compiler's modules happens once in a process, and is no part of growth.
        stages = {name: seconds for name, seconds in made.seconds.items() if name != "load-compiler"}
        point = Point(made.aten_ops, sum(stages.values()), stages)
        best = point if best is None or point.seconds < best.seconds else best
    assert best is not None
    return best


def fitted_exponent(points: Sequence[tuple[float, float]]) -> float:
    """The slope of the line through the logarithms: y ~ x ** exponent."""
    xs, ys = ([math.log(value) for value in values] for values in zip(*points, strict=True))
    x_mean, y_mean = sum(xs) / len(xs), sum(ys) / len(ys)
    above = sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True))
    return above / sum((x - x_mean) ** 2 for x in xs)


def steepest_exponent(points: Sequence[tuple[float, float]]) -> float:
    """The largest slope between two neighbours."""
    return max(fitted_exponent(pair) for pair in pairwise(sorted(points)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--sizes", nargs="+", type=int, default=[100, 1000, 5000], help="ATen ops, about")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--stages", type=int, default=4, metavar="N", help="also name the N steepest stages")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "bench" / "growth.json", metavar="FILE")
    chosen = parser.parse_args()

    measure(chain, 100, 1)  # what is loaded and learned once in a process
    results: dict[str, list[Point]] = {}
    steep = 0.0
    print(f"{'shape':12}{'ops':>8}{'own s':>10}{'µs/op':>8}")
    for name in chosen.shapes:
        results[name] = []
        for size in chosen.sizes:
            point = measure(SHAPES[name], size, chosen.repeats)
            results[name].append(point)
            print(f"{name:12}{point.ops:8}{point.seconds:10.3f}{point.seconds / point.ops * 1e6:8.0f}", flush=True)
        if len(chosen.sizes) > 1:
            totals = [(point.ops, point.seconds) for point in results[name]]
            exponents = fitted_exponent(totals), steepest_exponent(totals)
            steep = max(steep, *exponents)
            print(f"{name:12}exponent {exponents[0]:.2f}, between neighbours at most {exponents[1]:.2f}")
            for stage, exponent, seconds in steepest_stages(results[name])[: chosen.stages]:
                print(f"{'':12}  {stage}: {exponent:.2f}, {seconds:.3f} s of the largest")
    save(results, chosen.json)
    print(f"largest exponent {steep:.2f}; must be ≤ {MUST}: {'yes' if steep <= MUST else 'NO'}")
    print(draw(results, chosen.json.with_suffix(".png")))
    return 0 if steep <= MUST else 1


def steepest_stages(points: Sequence[Point]) -> list[tuple[str, float, float]]:
    """Stages that take at least a hundredth of the largest graph's time, with their exponents between the two largest
    graphs; the steepest first.
    """
    smaller, largest = sorted(points, key=lambda point: point.ops)[-2:]
    found = [
        (stage, fitted_exponent([(smaller.ops, smaller.stages[stage]), (largest.ops, seconds)]), seconds)
        for stage, seconds in largest.stages.items()
        if seconds >= 0.01 * largest.seconds and smaller.stages.get(stage, 0) > 0
    ]
    return sorted(found, key=lambda row: -row[1])


def save(results: dict[str, list[Point]], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    told = {
        name: [{"ops": point.ops, "seconds": point.seconds, "stages": point.stages} for point in points]
        for name, points in results.items()
    }
    file.write_text(json.dumps(told, indent=1) + "\n")
    print(f"numbers: {file}")


def draw(results: dict[str, list[Point]], file: Path) -> str:
    """Draws the report; says where to, or why not."""
    try:
        import matplotlib
    except ImportError:
        return "no plot: matplotlib is not installed (pip install -e '.[dev]' has it)"
    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(6, 4.5))
    for name, points in results.items():
        axis.loglog([point.ops for point in points], [point.seconds for point in points], "o-", label=name)
    axis.set_xlabel("ATen ops")
    axis.set_ylabel("seconds, our own share")
    axis.legend()
    figure.tight_layout()
    figure.savefig(file, dpi=120)
    pyplot.close(figure)
    return f"plot: {file}"


if __name__ == "__main__":
    sys.exit(main())
