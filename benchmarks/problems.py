"""Problems of others as a sample: every Python file of a folder that has a class `Model`, `get_init_inputs()` (its
arguments) and `get_inputs()` (those of its forward pass). Each is run in eager, TorchInductor and Cuesta.

    python -m benchmarks.problems FOLDER --json build/bench/problems.json
    python -m benchmarks.problems FOLDER --only l2_ l3_016 --dtype bf16 --seconds 120
    python -m benchmarks.problems FOLDER --device cpu --small --skip-inductor

Models run without gradients, in the mode in which their constructors leave them, with random weights from a fixed seed.
Processes compile and check beside each other, as many as the device's memory holds; then each problem is measured, all
sides in turns, while nothing else runs. Cuesta's results are held to eager's in f32 without TF32: they are as near as
eager's own are, or as those of operands that are rounded to TF32, where PyTorch's settings let libraries take it.

Times are medians on the device, with cold caches (`ms`); where they are short, also from call to result (`called`).
Means are geometric, by the part of the name before the first underscore; `of both` is the better of eager and
TorchInductor over Cuesta. `of copy` is the time in which the device copies inputs, parameters and results once.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.gpu import MOST_PROCESSES, Process, Row, Run, better, failed, number, ratio
from benchmarks.problem_worker import FLOORS, Memory, problems_of, serve

MEASURING = 1.0
"""Seconds that are kept for measuring a problem, about.

Source: 80 problems on an H100.
"""
CONTEXT = 700 * 2**20
"""Bytes of a device that a process takes for itself.

Source: a CUDA context and cuBLAS's workspace, about.
"""
GRACE = 15.0
"""Seconds that processes have to finish what they are at, when the time for compiling is over.

Source: a choice.
"""
TOLD = 110
"""Characters of an error in a table."""


class Problems(Run):
    """Problems handed to processes, and their results."""

    def __init__(self, options: argparse.Namespace, paths: Mapping[str, Path]) -> None:
        super().__init__(options)
        self.paths, self.grace = paths, GRACE
        context = multiprocessing.get_context("spawn")
        self.memory = Memory(
            memory_for(options.workers) if options.device == "cuda" else 2**62, context, MOST_PROCESSES
        )

    def new_process(self) -> Process:
        options = self.options
        answer = partial(
            serve,
            paths=self.paths,
            device=options.device,
            dtype=options.dtype,
            memory=self.memory,
            slot=len(self.processes),
        )
        process = Process(self.sides, None, answer)
        self.processes.append(process)
        return process

    def lost(self, process: Process) -> None:
        """What a process held that died is free again."""
        self.memory.hold(self.processes.index(process), 0)

    def run(self) -> None:
        """Compiles all, then measures all, as long as the seconds last; keeps what is known after each."""
        names = list(self.paths)
        end = self.start + self.options.seconds
        self.options.compile_seconds = max(self.options.seconds - GRACE - MEASURING * len(names), 0.0)
        self.compile_all(names, fresh=False)
        self.told(f"{len(self.owners)} of {len(names)} problems compiled and checked")
        self.keep()
        copy = next((process.ask("bandwidth", "") for process in self.owners.values()), {}).get("copy_bandwidth")
        for name in sorted(self.owners):
            if perf_counter() > end:
                self.rows[name]["error"] = "not measured: the seconds are over"
                continue
            row = self.rows[name]
            row |= self.owners[name].ask("measure", name)
            if copy:
                row["copy_ms"] = row["bytes"] / copy * 1e3
            self.keep()
        self.told("measured")

    def keep(self) -> None:
        """Writes what is known."""
        path = Path(self.options.json)
        path.parent.mkdir(parents=True, exist_ok=True)
        given = {key: str(value) for key, value in vars(self.options).items()}
        path.write_text(json.dumps({"options": given, "rows": dict(sorted(self.rows.items()))}, indent=1))


def memory_for(workers: int) -> int:
    """Bytes of the device that problems may take, beside the processes themselves. Requires: a CUDA device."""
    import torch

    return max(torch.cuda.mem_get_info()[0] - (workers + 1) * CONTEXT, 0)


def table(rows: Mapping[str, Row]) -> list[str]:
    """One line a problem."""
    width = max(map(len, rows), default=0)
    columns = "      ms vs eager   vs TI of both of copy  called: vs eager  vs TI  kernels calls  compile s: ours    TI"
    lines = [" " * width + columns]
    for name, row in rows.items():
        text = f"{name:{width}} {number(row.get('cuesta_ms'), 7, 3)} {number(ratio(row, 'eager', 'cuesta'), 8)} "
        text += f"{number(ratio(row, 'inductor', 'cuesta'), 7)} {number(better(row), 7)} "
        text += f"{number(ratio(row, 'copy', 'cuesta'), 7)} {number(ratio(row, 'eager_called', 'cuesta_called'), 17)} "
        text += f"{number(ratio(row, 'inductor_called', 'cuesta_called'), 6)} {row.get('kernels', '-'):>8} "
        text += f"{row.get('library_calls', '-'):>5} {number(row.get('cuesta_compile_seconds'), 16, 1)} "
        text += number(row.get("inductor_compile_seconds"), 5, 1)
        problems = [*row.get("errors", {}).items(), *([("", row["error"])] if "error" in row else [])]
        text += "".join(f"  {side} {problem}".replace("\n", " ")[:TOLD] for side, problem in problems)
        lines.append(text + (f"  fallbacks {row['fallbacks']}" if row.get("fallbacks") else ""))
    return lines


def means(rows: Mapping[str, Row]) -> list[str]:
    """Geometric means and the worst, by the first part of the names."""
    takes = {
        "vs TorchInductor": lambda row: ratio(row, "inductor", "cuesta"),
        "vs eager": lambda row: ratio(row, "eager", "cuesta"),
        "vs the better of both": better,
        "called, vs TorchInductor": lambda row: ratio(row, "inductor_called", "cuesta_called"),
        "called, vs eager": lambda row: ratio(row, "eager_called", "cuesta_called"),
        "compile time vs TorchInductor": lambda row: ratio(
            {f"{side}_ms": row.get(f"{side}_compile_seconds") for side in ("inductor", "cuesta")}, "inductor", "cuesta"
        ),
    }
    lines: list[str] = []
    for kind in dict.fromkeys(name.partition("_")[0] for name in rows):
        own = {name: row for name, row in rows.items() if name.partition("_")[0] == kind}
        for what, take in takes.items():
            values = {name: value for name, row in own.items() if (value := take(row)) is not None}
            if values:
                worst = ", ".join(f"{name} {values[name]:.2f}" for name in sorted(values, key=values.__getitem__)[:5])
                mean = statistics.geometric_mean(values.values())
                lines.append(f"{kind} {what}: {mean:.3f} ({len(values)} of {len(own)}); worst: {worst}")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    formatter = argparse.RawDescriptionHelpFormatter
    name = "python -m benchmarks.problems"
    parser = argparse.ArgumentParser(prog=name, description=__doc__, formatter_class=formatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=[], help="problems whose names contain one of these")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--dtype", choices=FLOORS, default="f32", help="of parameters and inputs that are floats")
    parser.add_argument("--small", action="store_true", help="sets SMALL=1, which problems may read")
    parser.add_argument("--seconds", type=float, default=600, help="for all; what was not run by then is told")
    parser.add_argument("--skip-inductor", action="store_true")
    parser.add_argument("--workers", type=int, default=max(1, min(14, (os.cpu_count() or 1) - 1)))
    parser.add_argument("--json", default="build/bench/problems.json")
    options = parser.parse_args(arguments)
    try:
        paths = problems_of(options.folder, options.only)
    except ValueError as error:
        raise SystemExit(str(error)) from None
    settings: dict[str, Any] = {"CUESTA_CACHE": "0", "TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1"}
    os.environ.update(settings | ({"SMALL": "1"} if options.small else {}))

    import torch

    if options.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("there is no CUDA device")
    run = Problems(options, paths)
    try:
        run.run()
    finally:
        run.stop()
    rows = dict(sorted(run.rows.items()))
    print("\n".join([*table(rows), *means(rows)]))
    where = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    missing = [name for name, row in rows.items() if "error" in row]
    wrong = [name for name, row in rows.items() if failed(row)]
    others = [name for name, row in rows.items() if "inductor" in row.get("errors", {})]
    print(f"{where}, torch {torch.__version__}, {options.dtype}, {perf_counter() - run.start:.0f} s")
    print(f"wrong or failed in Cuesta: {len(wrong)} {wrong}; in TorchInductor: {len(others)} {others}")
    print(f"not run: {len(missing)} {missing}")


if __name__ == "__main__":
    main()
