"""A search for cliffs: `make bench-gpu-search` on a CUDA device, `make bench-search` on the CPU.

Random programs nobody chose (`benchmarks/random_programs.py`) run against eager and TorchInductor, and against the time
in which the device copies the bytes that they must move. Those that are slow are made smaller, as long as they stay so,
and printed: each line can be given again to `--lines`, and belongs into `benchmarks/cliffs.txt`, whose lines are rows
of `make bench-gpu`, or into `benchmarks/cpu_cliffs.txt`.

    make bench-gpu-search ARGS='--seeds 0-39'
    make bench-gpu-search ARGS='--lines "f32 128x4096x4095 | sum 1"'
    make bench-search ARGS='--seeds 0-39 --skip-inductor'
    make bench-search ARGS='--file benchmarks/cpu_cliffs.txt'
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter

from benchmarks import cpu_run, gpu
from benchmarks.gpu import Row, better, failed, lines_of, ratio, summary, table
from benchmarks.random_programs import ALL_KINDS, EXTENTS, Program, draw

Run = gpu.Run | cpu_run.Run
BELOW = {"cuda": 0.9, "cpu": 0.7}
"""Of the better of eager and TorchInductor: a cliff. A CPU is seldom without other users."""
PART = {"cuda": 0.5, "cpu": 0.0}
"""Of copy bandwidth: a cliff, where no library is called. On a CPU arithmetic takes longer than memory."""


def slowness(row: Row, options: argparse.Namespace) -> str:
    """Why a row is a cliff, or nothing. What calling a compiled function costs the host, where it is known, is left
    out: it is the same for all of them, and no smaller program would cost less.
    """
    call = row.get("call_ms", 0.0)
    against = better({**row, "cuesta_ms": max(row["cuesta_ms"] - call, 1e-6)} if row.get("cuesta_ms") else row)
    if against is not None and against < options.below:
        return f"{against:.2f} of the better of eager and TorchInductor"
    part = ratio(row, "copy", "cuesta")
    if part is not None and part < options.part and not row.get("library_calls") and not row.get("fallbacks"):
        return f"{part:.2f} of copy bandwidth"
    return ""


def measured(run: Run, lines: Sequence[str]) -> Mapping[str, Row]:
    """Rows of programs. What was measured before is not measured again."""
    fresh = [line for line in dict.fromkeys(lines) if line not in run.rows]
    if fresh:
        run.measure(fresh)
    return {line: run.rows[line] for line in lines if line in run.rows}


def shrunk(run: Run, lines: Sequence[str], options: argparse.Namespace) -> dict[str, str]:
    """What each slow program becomes: no smaller one of it that was tried is slow; all are tried side by side."""
    smallest = {line: line for line in lines}
    unfinished = set(lines)
    deadline = perf_counter() + options.shrink_seconds
    while unfinished and perf_counter() < deadline:
        candidates = {line: [str(one) for one in Program.parse(smallest[line]).smaller()] for line in unfinished}
        rows = measured(run, [one for line in sorted(unfinished) for one in candidates[line]])
        for line in sorted(unfinished):
            slow = [one for one in candidates[line] if one in rows and slowness(rows[one], options)]
            if slow:
                smallest[line] = slow[0]
            else:
                unfinished.remove(line)
    return smallest


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the search."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search", description=__doc__)
    parser.add_argument("--device", choices=EXTENTS, default="cuda")
    parser.add_argument("--seeds", default="0-19", help="of each kind: 20-39")
    parser.add_argument("--kinds", default=",".join(ALL_KINDS))
    parser.add_argument("--lines", action="append", default=[], help="this program instead of random ones; repeatable")
    parser.add_argument("--file", help="a file of programs instead of random ones, one a line")
    parser.add_argument("--below", type=float, help=f"of the better of both: a cliff ({BELOW})")
    parser.add_argument("--part", type=float, help=f"of copy bandwidth: a cliff, where no library is called ({PART})")
    parser.add_argument("--shrink-seconds", type=float, default=120, help="after these, no further round is begun")
    parser.add_argument("--skip-inductor", action="store_true")
    parser.add_argument("--threads", type=int, default=1, help="of a program on the CPU")
    parser.add_argument("--program-seconds", type=float, default=60, help="for one program on the CPU")
    parser.add_argument("--workers", type=int, default=max(1, min(12, (os.cpu_count() or 1) - 2)))
    parser.add_argument("--compile-seconds", type=float, default=300, help="for all compiling of one round")
    parser.add_argument("--seconds", type=float, default=math.inf, help="on a GPU, for all: what is measured is told")
    parser.add_argument("--texts", help="a folder for the texts of the kernels")
    parser.add_argument("--json", help="where numbers go: build/bench/gpu_search.json, or cpu_search.json")
    options = parser.parse_args(arguments)
    cuda = options.device == "cuda"
    options.below = BELOW[options.device] if options.below is None else options.below
    options.part = PART[options.device] if options.part is None else options.part
    chosen = programs(options)

    import torch

    if cuda and not torch.cuda.is_available():
        raise SystemExit("there is no CUDA device")
    os.environ["CUESTA_CACHE"] = "0"
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    os.environ["OMP_NUM_THREADS"] = "1" if cuda else str(options.threads)
    run: Run = gpu.Run(options) if cuda else cpu_run.Run(options)
    try:
        rows = measured(run, [line for lines in chosen.values() for line in lines])
        cliffs = {line: why for line, row in rows.items() if (why := slowness(row, options))}
        smallest = shrunk(run, list(cliffs), options)
    finally:
        run.stop()
    path = Path(options.json or f"build/bench/{'gpu' if cuda else 'cpu'}_search.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    report = {
        "device": torch.cuda.get_device_name() if cuda else f"CPU, threads: {options.threads}",
        "torch": torch.__version__,
        "rows": run.rows,
        "smallest": smallest,
    }
    path.write_text(json.dumps(report, indent=1))
    for kind, lines in chosen.items():
        own = {line: rows[line] for line in lines if line in rows}
        print("\n".join([kind, *table(own), *summary(kind, own), ""]))
    for line, why in cliffs.items():
        small = smallest[line]
        print(f"{why}: {line}" + (f"\n    {slowness(run.rows[small], options)}: {small}" if small != line else ""))
    wrong = [line for line, row in run.rows.items() if "error" in row or failed(row)]
    print(f"{report['device']}, torch {report['torch']}; cliffs: {len(cliffs)}; wrong or failed: {len(wrong)}")
    print("\n".join(f"{line}: {run.rows[line].get('error') or run.rows[line]['errors']}" for line in wrong))


def programs(options: argparse.Namespace) -> dict[str, list[str]]:
    """The lines to measure, by kind. Errors: SystemExit, which names what is wrong with an option."""
    try:
        given = options.lines + (lines_of(Path(options.file)) if options.file else [])
        for line in given:
            Program.parse(line).made()
    except (OSError, ValueError) as error:
        raise SystemExit(f"{type(error).__name__}: {error}") from None
    if given:
        return {"given": given}
    kinds = options.kinds.split(",")
    if unknown := set(kinds) - set(ALL_KINDS):
        raise SystemExit(f"--kinds: there is no '{unknown.pop()}'; there are {', '.join(ALL_KINDS)}")
    first, dash, last = options.seeds.partition("-")
    if not (first.isdecimal() and (last.isdecimal() or not dash)):
        raise SystemExit(f"--seeds: '{options.seeds}' is neither a number nor two: 20-39")
    seeds = range(int(first), int(last or first) + 1)
    return {kind: [str(draw(kind, seed, options.device)) for seed in seeds] for kind in kinds}


if __name__ == "__main__":
    main()
