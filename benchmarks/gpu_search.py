"""A search for cliffs on a CUDA device: `make bench-gpu-search`.

Random programs nobody chose (`benchmarks/random_programs.py`) run against eager and TorchInductor, and against the time
in which the device copies the bytes that they must move. Those that are slow are made smaller, as long as they stay so,
and printed: each line can be given again to `--lines`, and belongs into `benchmarks/cliffs.txt`, whose lines are rows
of `make bench-gpu`.

    make bench-gpu-search ARGS='--seeds 0-39'
    make bench-gpu-search ARGS='--lines "f32 128x4096x4095 | sum 1"'
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter

from benchmarks.gpu import Row, Run, better, failed, lines_of, ratio, summary, table
from benchmarks.random_programs import KINDS, Program, draw


def slowness(row: Row, options: argparse.Namespace) -> str:
    """Why a row is a cliff, or nothing."""
    against = better(row)
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
        run.owners.clear()
        run.compile_all(fresh, fresh=False)
        run.told(f"{len(fresh)} programs compiled and checked")
        run.measure_all()
        run.told("measured")
        run.stop()
        run.processes.clear()
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
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_search", description=__doc__)
    parser.add_argument("--seeds", default="0-19", help="of each kind: 20-39")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--lines", action="append", default=[], help="this program instead of random ones; repeatable")
    parser.add_argument("--file", help="a file of programs instead of random ones, one a line")
    parser.add_argument("--below", type=float, default=0.9, help="of the better of both: a cliff")
    parser.add_argument(
        "--part", type=float, default=0.5, help="of copy bandwidth: a cliff, where no library is called"
    )
    parser.add_argument("--shrink-seconds", type=float, default=120, help="after these, no further round is begun")
    parser.add_argument("--skip-inductor", action="store_true")
    parser.add_argument("--workers", type=int, default=max(1, min(12, (os.cpu_count() or 1) - 2)))
    parser.add_argument("--compile-seconds", type=float, default=300, help="for all compiling of one round")
    parser.add_argument("--texts", help="a folder for the texts of the kernels")
    parser.add_argument("--json", default="build/bench/gpu_search.json")
    options = parser.parse_args(arguments)
    chosen = programs(options)

    import torch

    if not torch.cuda.is_available():
        raise SystemExit("there is no CUDA device")
    os.environ["CUESTA_CACHE"] = "0"
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    os.environ["OMP_NUM_THREADS"] = "1"
    run = Run(options)
    try:
        rows = measured(run, [line for lines in chosen.values() for line in lines])
        cliffs = {line: why for line, row in rows.items() if (why := slowness(row, options))}
        smallest = shrunk(run, list(cliffs), options)
    finally:
        run.stop()
    path = Path(options.json)
    path.parent.mkdir(parents=True, exist_ok=True)
    report = {
        "device": torch.cuda.get_device_name(),
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
    if unknown := set(kinds) - set(KINDS):
        raise SystemExit(f"--kinds: there is no '{unknown.pop()}'; there are {', '.join(KINDS)}")
    first, dash, last = options.seeds.partition("-")
    if not (first.isdecimal() and (last.isdecimal() or not dash)):
        raise SystemExit(f"--seeds: '{options.seeds}' is neither a number nor two: 20-39")
    return {kind: [str(draw(kind, seed)) for seed in range(int(first), int(last or first) + 1)] for kind in kinds}


if __name__ == "__main__":
    main()
