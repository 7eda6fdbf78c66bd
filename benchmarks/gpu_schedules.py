"""How near the best the chosen schedules are, on a CUDA device: `make bench-gpu-schedules`.

Nests of random programs (`benchmarks/random_nests.py`) run with the schedule they are given, and with other tilings
that they may have, drawn at random; all of a nest in turns. The bound is the time of the chosen one next to the best.

    make bench-gpu-schedules ARGS='--seeds 0-99'
    make bench-gpu-schedules ARGS='--file benchmarks/cliffs.txt --tilings 60'
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import random
import statistics
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from cuesta.lowering.schedule.tune_kernels import best_of

Row = dict[str, Any]

_device: Any = None
"""The lock of who has the device; of a worker process."""


def begin(device: Any, caches: str) -> None:
    """Makes a process a worker. What it compiles is kept in a new folder in `caches`."""
    global _device
    _device = device
    os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp(dir=caches)
    os.environ["CUESTA_CACHE"] = "0"
    os.environ["CUESTA_COMPILE_WORKERS"] = "0"  # as many processes as processors compile already


def measure(task: tuple[str, int, int]) -> list[Row]:
    """The rows of the nests of a line: choices, and times in µs."""
    line, most, nests_at_most = task
    import torch

    from benchmarks.random_nests import asked_about, asked_in_parts, nests, sampled, with_choices
    from cuesta.dialects.core.locations import print_text
    from cuesta.pipeline import default_stages
    from cuesta.tuning import Tuner, cuda_timer

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    stages = default_stages(tune=True)
    tuner = Tuner(stages[[stage.label for stage in stages].index("tune-kernels") + 1 :], cuda_timer)
    rng = random.Random(line)
    rows: list[Row] = []
    try:
        every = nests(line)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with one line is told, and the others go on
        return [{"line": line, "error": f"{type(error).__name__}: {error}"[:300]}]
    for module in rng.sample(every, min(len(every), nests_at_most)):
        choices = sampled(module, most, rng)
        question = [with_choices(module, one) for one in choices]
        row: Row = {"line": line, "nest": print_text(module), "choices": choices}
        row |= {"asked": asked_about(module), "asked_in_parts": asked_in_parts(module)}
        try:
            (lowered,) = tuner.lowered([question])
            with _device:
                row["times"] = tuner.measured(question, lowered)
                torch.cuda.empty_cache()
        except Exception as error:  # noqa: BLE001 - as above
            row["error"] = f"{type(error).__name__}: {error}"[:300]
        rows.append(row)
    return rows


def bound(row: Row) -> float:
    """The time of the chosen schedule next to the best."""
    return row["times"][0] / min(time for time in row["times"] if time > 0)


def bound_asked(row: Row) -> float:
    """The same of what it has after `measure-parts` and `measure-unsure` have asked the device about it."""
    at, times = row["choices"].index, row["times"]
    parts = [0, *map(at, row.get("asked_in_parts", ()))]
    chosen = parts[best_of([times[one] for one in parts])]
    tilings = [0, *map(at, row.get("asked", ()))] if chosen == 0 else [chosen]  # what has a schedule is not asked about
    return times[tilings[best_of([times[one] for one in tilings])]] / times[0] * bound(row)


def gathered(results: Any, count: int, seconds: float) -> list[Row]:
    """The rows of so many results, those that come in so many seconds: however soon one follows the other."""
    rows: list[Row] = []
    end = perf_counter() + seconds
    for _ in range(count):
        try:
            rows += results.next(timeout=max(0.0, end - perf_counter()))
        except multiprocessing.TimeoutError:
            print("time is up: the rest is left out")
            break
    return rows


def report(rows: Sequence[Row], path: Path) -> None:
    """Writes what was measured, and prints how far from the best is what is chosen."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows))
    good = [row for row in rows if len(row.get("times", ())) > 1 and 0 < row["times"][0] < math.inf]
    for row in sorted(good, key=bound)[-12:]:
        best = row["choices"][row["times"].index(min(row["times"]))]
        print(f"{bound(row):.2f}  {row['times'][0]:.1f} µs, {min(row['times']):.1f} with {best}: {row['line']}")
    for row in rows:
        if "error" in row:
            print(f"{row['error']}: {row['line']}")
    if good:
        mean = statistics.geometric_mean(map(bound, good))
        print(
            f"{len(good)} nests of {len(rows)}; chosen next to best: {mean:.3f} (geometric mean), "
            f"{max(map(bound, good)):.2f} at most",
            flush=True,
        )
        mean, most = statistics.geometric_mean(map(bound_asked, good)), max(map(bound_asked, good))
        asked = sum(bool(row.get("asked") or row.get("asked_in_parts")) for row in good)
        print(f"with those {asked} that are asked about as the device answers: {mean:.3f}, {most:.2f} at most")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_schedules", description=__doc__)
    parser.add_argument("--seeds", default="0-19", help="programs of each kind: 20-39")
    parser.add_argument("--file", type=Path, help="a file of programs instead of random ones, one a line")
    parser.add_argument("--cases", action="store_true", help="those of `make bench-gpu`, too")
    parser.add_argument("--tilings", type=int, default=16, help="of a nest, at most, beside the chosen one")
    parser.add_argument("--nests", type=int, default=4, help="of a program, at most")
    parser.add_argument("--seconds", type=float, default=400, help="after these, what is not measured is left out")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 1) - 1))
    parser.add_argument("--json", default="build/bench/gpu_schedules.json")
    options = parser.parse_args(arguments)

    from benchmarks.gpu import lines_of
    from benchmarks.gpu_cases import kernel_cases
    from benchmarks.random_nests import lines

    if options.file is not None:
        every = lines_of(options.file)
    else:
        first, _, last = options.seeds.partition("-")
        every = lines(range(int(first), int(last or first) + 1))
    if options.cases:
        every = [*kernel_cases(), *every]
    tasks = [(line, options.tilings, options.nests) for line in every]
    context = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory(prefix="cuesta-schedules-", ignore_cleanup_errors=True) as caches,
        context.Pool(options.workers, begin, (context.Lock(), caches)) as pool,
    ):
        rows = gathered(pool.imap_unordered(measure, tasks), len(tasks), options.seconds)
        report(rows, Path(options.json))  # before workers are ended, which may not end
        pool.terminate()


if __name__ == "__main__":
    main()
