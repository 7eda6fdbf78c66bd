"""Eager, TorchInductor and Cuesta side by side: run time, compile time, peak memory, correctness.

    python -m benchmarks                                     everything (about an hour with TorchInductor)
    python -m benchmarks --skip-inductor --kinds run         run time against eager and the copy bandwidth
    python -m benchmarks --only softmax 'adamw*' --quick     some cases, quickly
    python -m benchmarks --show build/bench/results.json     tables and plot of an earlier run

docs/benchmarks.md says what the numbers mean.
"""

from __future__ import annotations

import argparse
import compileall
import fnmatch
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import cuesta
from benchmarks.plot import draw
from benchmarks.report import cells_of, line, summary, troubles_of
from benchmarks.session import ROOT, Session
from benchmarks.tables import CASES, SETS
from benchmarks.timing import large_copy_bandwidth

KINDS = ("cold", "run", "memory")
RESULTS = ROOT / "build" / "bench" / "results.json"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="cases, or patterns of their names ('bert*')")
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS), help="default: all")
    parser.add_argument("--kinds", default=",".join(KINDS), help="what to measure (default: %(default)s)")
    parser.add_argument("--skip-inductor", action="store_true", help="compare with eager alone")
    parser.add_argument("--quick", action="store_true", help="sample for a quarter of the time")
    parser.add_argument("--seconds", type=float, default=1.5, help="sampling time of each side (default: %(default)s)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path, default=RESULTS, metavar="FILE", help="where results go")
    parser.add_argument("--add", action="store_true", help="keep what FILE already holds of other cases and kinds")
    parser.add_argument("--inductor-cache", type=Path, metavar="FOLDER", help="keep what TorchInductor compiles here")
    parser.add_argument("--show", type=Path, metavar="FILE", help="measure nothing, show what FILE holds")
    parser.add_argument("--list", action="store_true", help="list the cases")
    chosen = parser.parse_args()
    if chosen.list:
        for name, cases in SETS.items():
            print(f"{name}: {', '.join(case.name for case in cases)}")
        return 0
    if chosen.show:
        return show(json.loads(chosen.show.read_text()), chosen.show)
    kinds = chosen.kinds.split(",")
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"unknown kinds {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    names = [case.name for chosen_set in chosen.sets for case in SETS[chosen_set]]
    if chosen.only:
        missing = [pattern for pattern in chosen.only if not fnmatch.filter(names, pattern)]
        if missing:
            parser.error(f"no case is called {', '.join(missing)}; --list lists them")
        names = [name for name in names if any(fnmatch.fnmatch(name, pattern) for pattern in chosen.only)]

    report = json.loads(chosen.json.read_text()) if chosen.add and chosen.json.exists() else {"rows": {}}
    report["environment"] = environment(chosen.device)
    print("\n".join(f"{key}: {value}" for key, value in report["environment"].items()))
    sides = ("cuesta",) if chosen.skip_inductor or not inductor_runs() else ("inductor", "cuesta")
    compile_to_bytecode()
    with tempfile.TemporaryDirectory(prefix="cuesta-bench-") as scratch:
        session = Session(
            sides=sides,
            device=chosen.device,
            seconds=chosen.seconds / 4 if chosen.quick else chosen.seconds,
            inductor_cache=chosen.inductor_cache or Path(scratch),
        )
        for kind in (kind for kind in KINDS if kind in kinds):
            measure(session, kind, names, report, chosen.json)
    return show(report, chosen.json, tables=False)


def measure(session: Session, kind: str, names: list[str], report: dict[str, Any], file: Path) -> None:
    """Fills in one kind of measurement of the named cases, printing and saving each as it comes."""
    if kind == "run":
        results = session.run(names)
    elif kind == "cold":
        captured = {case.name for case in SETS.get("models", ())}
        results = ((name, session.compile(name, capture=name in captured)) for name in names)
    else:
        results = ((name, session.memory(name)) for name in names)
    width = max(map(len, names))
    first = True
    for name, result in results:
        row = report["rows"].setdefault(name, {})
        row["set"] = next(key for key, cases in SETS.items() if CASES[name] in cases)
        row |= {"training": CASES[name].training, "bound": CASES[name].bound, "sides": session.sides}
        row[kind] = result
        row.setdefault("measured", {})[kind] = datetime.now(UTC).isoformat(timespec="seconds")
        cells = cells_of(kind, row, session.sides)
        if first:
            print("\n" + line(kind, cells, heading=True, width=width))
        print(line(name, cells, heading=False, width=width), flush=True)
        save(report, file)
        first = False


def show(report: dict[str, Any], file: Path, *, tables: bool = True) -> int:
    """Prints the sums, after the tables if asked to, and draws. The exit status is 1 if a result of ours is amiss."""
    rows = report["rows"]
    sides = [side for side in ("inductor", "cuesta") if any(side in row["sides"] for row in rows.values())]
    width = max(map(len, rows), default=0)
    for kind in KINDS if tables else ():
        for number, (name, row) in enumerate((name, row) for name, row in rows.items() if kind in row):
            cells = cells_of(kind, row, sides)
            if number == 0:
                print("\n" + line(kind, cells, heading=True, width=width))
            print(line(name, cells, heading=False, width=width))
    print("\n" + "\n".join(summary(rows)))
    print(draw(rows, file.with_suffix(".png")))
    print(f"numbers: {file}")
    return 1 if troubles_of(rows) else 0


def save(report: dict[str, Any], file: Path) -> None:
    """Whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    part.write_text(json.dumps(report, indent=1) + "\n")
    os.replace(part, file)


def inductor_runs() -> bool:
    """Whether TorchInductor can compile for the CPU here: it needs a C++ compiler. If not, says so."""
    wanted = [name for name in (os.environ.get("CXX"), "g++", "clang++", "c++") if name]
    if any(shutil.which(name) for name in wanted):
        return True
    print(f"TorchInductor is left out: there is no C++ compiler ({', '.join(wanted)})")
    return False


def compile_to_bytecode() -> None:
    """Installed packages come byte-compiled. A checkout may not be, and every cold start would pay for it."""
    folders = [
        ROOT / name for name in ("cuesta", "dialects", "transforms", "lowering", "targets", "benchmarks", "examples")
    ]
    for folder in {*folders, *map(Path, cuesta.__path__)}:  # the package may be imported through links
        compileall.compile_dir(str(folder), quiet=2)


def environment(device: str) -> dict[str, Any]:
    """What the numbers depend on."""
    revision = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "revision": revision or "unknown",
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": torch.cuda.get_device_name() if device.startswith("cuda") else _processor(),
        "threads": torch.get_num_threads(),
        f"copy of {2**29 >> 20} MiB, GB/s": round(large_copy_bandwidth(device) / 1e9, 1),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    sys.exit(main())
