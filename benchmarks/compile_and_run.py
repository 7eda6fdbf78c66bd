"""Compile time and run time of the demo models, side by side: eager, TorchInductor, Cuesta.

    python -m benchmarks.compile_and_run                          all five models, inference and training
    python -m benchmarks.compile_and_run --models bert --steps inference --backends cuesta --json result.json

*Compile time* is the first call of the compiled model in a fresh process with empty caches, nothing subtracted: it
includes importing the compiler, Dynamo, AOTAutograd and one run. `capture` is the same with our decompositions and
nothing behind them; what Cuesta adds to it is its own share. *Run time* is measured in one process for all, in turns,
so that a slow moment of the machine hits all alike; the numbers are medians.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MODEL_NAMES = ("bert", "gpt2", "llama", "vit", "resnet")
STEPS = ("inference", "training")
BACKENDS = ("inductor", "cuesta")

Result = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODEL_NAMES, default=list(MODEL_NAMES), metavar="NAME")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=list(STEPS), metavar="STEP")
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=list(BACKENDS), metavar="BACKEND")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--cold-starts", type=int, default=3, help="fresh processes per compile time")
    parser.add_argument("--rounds", type=int, default=15, help="rounds per run time")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads (default: torch's choice)")
    parser.add_argument("--json", type=Path, help="write all numbers to this file")
    parser.add_argument("--worker", choices=("compile", "run"), help=argparse.SUPPRESS)
    parser.add_argument("--contenders", nargs="+", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker:
        work = compile_worker if chosen.worker == "compile" else run_worker
        print(json.dumps(work(chosen)))
        return 0

    results: list[Result] = []
    for model in chosen.models:
        for step in chosen.steps:
            results.append(measure(chosen, model, step))
            print(line(results[-1], chosen.backends, first=len(results) == 1), flush=True)
    print(summary(results, chosen.backends))
    if chosen.json:
        chosen.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0


def measure(chosen: argparse.Namespace, model: str, step: str) -> Result:
    """All numbers of one model and step. Units: seconds for compiling, ms for running."""
    result: Result = {"model": model, "step": step, "device": chosen.device, "compile": {}}
    with tempfile.TemporaryDirectory(prefix="cuesta-benchmark-") as scratch:
        for backend in ("capture", *chosen.backends):
            starts = [
                _in_fresh_process(
                    chosen, "compile", model, step, [backend], Path(scratch) / f"{backend}-{number}", True
                )
                for number in range(chosen.cold_starts)
            ]
            middle = sorted(starts, key=lambda start: start["first_call_seconds"])[len(starts) // 2]
            middle["all_first_call_seconds"] = [start["first_call_seconds"] for start in starts]
            result["compile"][backend] = middle
        # What TorchInductor's C++ compiler made in a cold start may be reused here: run time does not depend on it.
        warm = Path(scratch) / "inductor-0"
        result["run"] = _in_fresh_process(chosen, "run", model, step, chosen.backends, warm, False)
    return result


def _in_fresh_process(
    chosen: argparse.Namespace,
    worker: str,
    model: str,
    step: str,
    backends: Sequence[str],
    caches: Path,
    cold: bool,
) -> Result:
    environment = dict(os.environ, TORCHINDUCTOR_CACHE_DIR=str(caches), CUESTA_CACHE_DIR=str(caches / "cuesta"))
    if cold:
        environment |= {"TORCHINDUCTOR_FX_GRAPH_CACHE": "0", "TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}
    command = [sys.executable, "-m", "benchmarks.compile_and_run", "--worker", worker, "--models", model]
    command += ["--steps", step, "--device", chosen.device, "--rounds", str(chosen.rounds)]
    command += ["--threads", str(chosen.threads), "--contenders", *backends]
    finished = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise SystemExit(f"{' '.join(command)}\nfailed:\n{finished.stderr[-4000:]}")
    return json.loads(finished.stdout.splitlines()[-1])


# --- In the fresh process -------------------------------------------------------------------------------------------


def compile_worker(chosen: argparse.Namespace) -> Result:
    """The first call of one compiled model."""
    import torch

    model, inputs, step = _model(chosen)
    step(model, inputs)  # what eager does once in a process is no part of compiling
    start = perf_counter()
    step(model, inputs)
    eager_seconds = perf_counter() - start

    (name,) = chosen.contenders
    backend: Any = capture_backend if name == "capture" else name
    start = perf_counter()
    step(torch.compile(model, backend=backend, fullgraph=True), inputs)
    result: Result = {"first_call_seconds": perf_counter() - start, "eager_seconds": eager_seconds}
    if backend == "cuesta":
        import cuesta

        made = cuesta.statistics()
        result |= {
            "own_seconds": made.own_seconds,
            "capture_seconds": made.capture_seconds,
            "seconds": made.seconds,
            "aten_ops": made.aten_ops,
            "kernels": made.kernels,
            "library_calls": made.library_calls,
            "fallbacks": dict(made.fallbacks),
        }
    return result


def capture_backend(gm: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Capture alone: AOTAutograd set up as Cuesta does, with an interpreter in place of the compiler."""
    from functorch.compile import (
        make_boxed_func,  # pyright: ignore[reportPrivateImportUsage] - documented there
        min_cut_rematerialization_partition,
    )
    from torch._dynamo.backends.common import aot_autograd

    from cuesta.lowering.decompositions import decomposition_table

    capture = aot_autograd(
        fw_compiler=lambda graph, _: make_boxed_func(graph.forward),
        partition_fn=min_cut_rematerialization_partition,
        decompositions=decomposition_table(),
    )
    return capture(gm, example_inputs)


def run_worker(chosen: argparse.Namespace) -> Result:
    """The median time of one step for eager and each backend, in ms."""
    import torch

    model, inputs, step = _model(chosen)
    contenders: dict[str, Any] = {"eager": model}
    for backend in chosen.contenders:
        contenders[backend] = torch.compile(model, backend=backend, fullgraph=True)
    synchronize = torch.cuda.synchronize if chosen.device.startswith("cuda") else lambda: None

    def timed(contender: Any, repeats: int) -> float:
        synchronize()
        start = perf_counter()
        for _ in range(repeats):
            step(contender, inputs)
        synchronize()
        return (perf_counter() - start) / repeats * 1e3

    for contender in contenders.values():
        timed(contender, 3)
    repeats = max(1, math.ceil(20 / timed(model, 3)))  # at least 20 ms, so that the clock and the caller weigh little
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(chosen.rounds):
        for name, contender in contenders.items():
            times[name].append(timed(contender, repeats))
    return {name: statistics.median(measured) for name, measured in times.items()}


def _model(chosen: argparse.Namespace) -> tuple[Any, Any, Callable[[Any, Any], Any]]:
    import torch

    from examples.models import MODELS, inference_step, training_step

    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    case = MODELS[chosen.models[0]]
    if chosen.steps[0] == "inference":
        return *case.inference(device=chosen.device), inference_step
    return *case.training(device=chosen.device), training_step


# --- Telling ----------------------------------------------------------------------------------------------------------


def line(result: Result, backends: Sequence[str], *, first: bool) -> str:
    """One row of the table, under the heading if it is the first."""
    capture = result["compile"]["capture"]["first_call_seconds"]
    cells = [("model", result["model"]), ("step", result["step"]), ("capture s", f"{capture:.2f}")]
    for backend in backends:
        cells.append((f"{backend} s", f"{result['compile'][backend]['first_call_seconds']:.2f}"))
    if "cuesta" in backends:
        compiled = result["compile"]["cuesta"]
        cells.append(("own share s", f"{compiled['first_call_seconds'] - capture:.2f}"))
        cells.append(("own stages s", f"{compiled['own_seconds']:.2f}"))
    cells.append(("eager ms", f"{result['run']['eager']:.2f}"))
    for backend in backends:
        cells.append((f"{backend} ms", f"{result['run'][backend]:.2f}"))
        cells.append((f"{backend} speedup", f"{speedup(result, backend):.2f}x"))
    row = "  ".join(cell.rjust(max(len(head), 9)) for head, cell in cells)
    heading = "  ".join(head.rjust(max(len(head), 9)) for head, _ in cells)
    return f"{heading}\n{row}" if first else row


def summary(results: Sequence[Result], backends: Sequence[str]) -> str:
    """Geometric means, and the worst case by name."""
    lines = [""]
    for backend in backends:
        worst = min(results, key=lambda result: speedup(result, backend))
        mean = statistics.geometric_mean(speedup(result, backend) for result in results)
        compiling = statistics.geometric_mean(result["compile"][backend]["first_call_seconds"] for result in results)
        lines.append(
            f"{backend}: {mean:.2f}x of eager (geometric mean), worst {speedup(worst, backend):.2f}x "
            f"({worst['model']} {worst['step']}); compiles in {compiling:.2f} s (geometric mean)"
        )
    if len(backends) == 2:
        ratios = [result["run"]["inductor"] / result["run"]["cuesta"] for result in results]
        lines.append(f"cuesta against inductor: {statistics.geometric_mean(ratios):.2f}x, worst {min(ratios):.2f}x")
    return "\n".join(lines)


def speedup(result: Result, backend: str) -> float:
    """How many times as fast as eager."""
    return result["run"]["eager"] / result["run"][backend]


if __name__ == "__main__":
    sys.exit(main())
