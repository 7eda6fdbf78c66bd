"""Five models through `torch.compile(backend="cuesta")`: inference and one training step each, checked and measured.

    make demo
    python examples/demo.py --models bert llama --steps inference --dump /tmp/levels

Every result is compared with float64: it must be as close to the truth as eager is (see `cuesta/testing.py`).
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import torch

# Run as a script, this folder is on the path and the repository is not.
sys.path.append(str(Path(__file__).resolve().parent.parent))

import cuesta
from cuesta.fallbacks import MEASURED_CALLS, WARM_CALLS, Fallback, watching
from cuesta.replaying.comparing import Comparison
from cuesta.testing import assert_close_to_float64
from examples.models import MODELS, inference_step, training_step

LEVELS = Path(__file__).resolve().parent.parent / "build" / "demo"
STEPS = ("inference", "training")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. Units: seconds for compiling, ms for running."""

    model: str
    step: str
    compile_seconds: float
    eager_ms: float
    compiled_ms: float
    made: cuesta.Statistics
    error: str | None
    worst: Comparison | None
    expensive: tuple[Fallback, ...] = ()
    """What eager runs, and costs more than a hundredth of a call."""


def main() -> int:
    """Run what the command line asks for. The exit status is 1 if any result is off."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS), metavar="NAME")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=list(STEPS), metavar="STEP")
    parser.add_argument("--dump", type=Path, help=f"directory for the text of every level (default: {LEVELS}, emptied)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=10, help="timed runs of each step")
    chosen = parser.parse_args()
    if chosen.dump is None:
        shutil.rmtree(LEVELS, ignore_errors=True)
    dump: Path = chosen.dump or LEVELS

    cases = [(model, step) for model in chosen.models for step in chosen.steps]
    rows: list[Row] = []
    for number, (model, step) in enumerate(cases):
        _show_progress(number, len(cases), f"{model} {step}")
        rows.append(run_case(model, step, chosen.device, dump / f"{model}-{step}", chosen.repeats))
    _show_progress(len(cases), len(cases), "")
    print(table(rows))
    print(f"\nEvery level of every graph, as text: {dump}")
    for row in rows:
        for fallback in row.expensive:
            print(f"{row.model} {row.step}: {fallback}")
    wrong = [row for row in rows if row.error]
    for row in wrong:
        print(f"\n{row.model} {row.step}: {row.error}")
    return 1 if wrong else 0


def run_case(model_name: str, step: str, device: str, dump: Path, repeats: int) -> Row:
    """Compile one model for one step, time it against eager, and compare it with float64."""
    torch._dynamo.reset()
    cuesta.clear_records()
    case = MODELS[model_name]
    model, inputs = case.inference(device=device) if step == "inference" else case.training(device=device)
    run = inference_step if step == "inference" else training_step
    compiled = torch.compile(model, backend="cuesta", fullgraph=True, options={"dump": str(dump)})

    run(model, inputs)  # whatever eager does once in a process is no part of compiling
    expensive: list[Fallback] = []
    with watching(expensive.append):
        start = perf_counter()
        run(compiled, inputs)
        compile_seconds = perf_counter() - start
    made = cuesta.statistics()
    if made.fallbacks:  # they are measured in the first calls
        for _ in range(WARM_CALLS + MEASURED_CALLS):
            run(compiled, inputs)

    eager_ms, compiled_ms = _interleaved_medians([lambda: run(model, inputs), lambda: run(compiled, inputs)], repeats)
    error, worst = None, None
    try:
        with torch.set_grad_enabled(step == "training"):
            comparisons = assert_close_to_float64(compiled, model, inputs)
        worst = max(comparisons, key=lambda one: one.largest / one.allowed_largest if one.allowed_largest else 0.0)
    except AssertionError as failure:
        error = str(failure)
    return Row(model_name, step, compile_seconds, eager_ms, compiled_ms, made, error, worst, tuple(expensive))


def table(rows: list[Row]) -> str:
    """The results as aligned text."""
    heading = ["model", "step", "compile s", "own s", "eager ms", "ours ms", "speedup"]
    heading += ["ATen ops", "kernels", "library", "fallbacks", "max error (eager)", "right"]
    lines = [heading]
    for row in rows:
        fallbacks = ", ".join(f"{name} x{count}" for name, count in sorted(row.made.fallbacks.items()))
        lines.append(
            [
                row.model,
                row.step,
                f"{row.compile_seconds:.2f}",
                f"{row.made.own_seconds:.2f}",
                f"{row.eager_ms:.2f}",
                f"{row.compiled_ms:.2f}",
                f"{row.eager_ms / row.compiled_ms:.2f}x",
                str(row.made.aten_ops),
                str(row.made.kernels),
                str(row.made.library_calls),
                fallbacks or "none",
                f"{row.worst.largest:.1e} ({row.worst.eager_largest:.1e})" if row.worst else "",
                "NO" if row.error else "yes",
            ]
        )
    widths = [max(len(line[column]) for line in lines) for column in range(len(heading))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def _interleaved_medians(functions: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """Median ms of each; in turns, so that a slow moment of the machine hits all alike."""
    times: list[list[float]] = [[] for _ in functions]
    for turn in range(repeats + 2):
        for function, measured in zip(functions, times, strict=True):
            start = perf_counter()
            function()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            if turn >= 2:
                measured.append((perf_counter() - start) * 1e3)
    return [statistics.median(measured) for measured in times]


def _show_progress(done: int, total: int, what: str) -> None:
    """A progress bar on the terminal; nothing where standard error is a file."""
    if sys.stderr.isatty():
        bar = "#" * (30 * done // total)
        end = "\n" if done == total else ""
        sys.stderr.write(f"\r\x1b[K[{bar:<30}] {done}/{total} {what}{end}")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
