"""What `cuesta explain` counts of kernels, beside the counters of the device. `make bench-explain`.

Nsight Compute (`ncu`) runs a process of ours that compiles each workload of the GPU sweep, lets it be explained, and
runs it once more between the two calls that turn the profiler on and off. Launches come in the order of the program's
steps. Bytes are those read from memory, with cold caches, and the sectors that stores go to, which memory gets later
(the second-level cache of an H100 counts twice what its other half holds); arithmetic is that of f32 instructions, a
fused multiply-add as two.

Without `ncu`, or without the right to read counters, what is counted is printed alone, and why.
"""

from __future__ import annotations

import argparse
import csv
import difflib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

READ, WRITTEN = "dram__bytes_read.sum", "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"
SECTOR: Final = 32
ADDED, MULTIPLIED, FUSED = (f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum" for op in ("fadd", "fmul", "ffma"))
METRICS: Final = (READ, WRITTEN, "lts__t_sectors_op_red.sum", "lts__t_sectors_op_atom.sum", ADDED, MULTIPLIED, FUSED)
FORBIDDEN: Final = "ERR_NVGPUCTRPERM"
PATIENCE: Final = 3000
"""Seconds for all workloads under the profiler."""
ALLOWED: Final = 0.05
"""The median error that explain may have."""


@dataclass(frozen=True, slots=True)
class Count:
    """A launch, as explain counts it."""

    case: str
    kernel: str
    bytes_read: int | None
    bytes_written: int | None
    flops: int | None
    special: int | None
    note: str


@dataclass(frozen=True, slots=True)
class Counters:
    """A launch, as the device counted it."""

    kernel: str
    read: float
    written: float
    flops: float


def counted(names: Sequence[str], *, profiled: bool) -> list[Count]:
    """Explains workloads, and runs each once with the profiler on; launches in the order in which they ran."""
    import torch
    from torch.cuda import profiler

    import cuesta
    from benchmarks.case import Prepared
    from benchmarks.gpu_cases import kernel_cases

    found: list[Count] = []
    cases = kernel_cases()
    for name in names:
        case = cases[name]
        prepared = Prepared(case, "cuda")
        torch._dynamo.reset()  # or else what many cases share is explained with sizes that are symbols
        explanation = cuesta.explain(
            prepared.function, *prepared.inputs, training=case.training, time=False, texts=False
        )
        for one in explanation.unseen:
            print(f"{name}: not seen: {one.what}: {one.why}", file=sys.stderr)
        for graph in explanation.graphs:
            for step in graph.steps:
                if step.kernel is not None:
                    kernel = graph.kernels[step.kernel]
                    found.append(
                        Count(name, kernel.name, kernel.bytes_read, kernel.bytes_written, kernel.device_flops,
                              kernel.special_functions, kernel.counted)
                    )  # fmt: skip
        if profiled:
            torch._dynamo.reset()
            compiled = torch.compile(prepared.function, backend="cuesta")
            with torch.set_grad_enabled(case.training):
                step_once = prepared.step(compiled)
                step_once()
                torch.cuda.synchronize()
                profiler.start()
                step_once()
                torch.cuda.synchronize()
                profiler.stop()
        del prepared
        torch.cuda.empty_cache()
    return found


def read_counters(lines: Iterable[str]) -> list[Counters]:
    """The launches in what `ncu --csv --page raw` wrote, in order. Errors: KeyError for a counter that is missing."""
    rows = list(csv.reader(line for line in lines if line.startswith('"')))
    if not rows:
        return []
    names = rows[0]
    found: list[Counters] = []
    for row in rows[1:]:
        values = dict(zip(names, row, strict=False))
        if not values.get("ID"):
            continue  # the units
        number = {name: float(values[name].replace(",", "") or 0) for name in METRICS}
        written = sum(number[name] for name in METRICS[1:4]) * SECTOR
        flops = number[ADDED] + number[MULTIPLIED] + 2 * number[FUSED]
        found.append(Counters(values["Kernel Name"], number[READ], written, flops))
    return found


def matched(counts: Sequence[Count], counters: Sequence[Counters]) -> list[tuple[Count, Counters]]:
    """The launches that both know, in order: those of libraries, which only the device counted, are left out, and so is
    what has no counterpart of its name in its place.

    A name may go on behind ours.
    """
    names = sorted({count.kernel for count in counts}, key=len, reverse=True)
    known = [next((name for name in names if one.kernel.startswith(name)), "") for one in counters]
    found = difflib.SequenceMatcher(None, [count.kernel for count in counts], known, autojunk=False)
    return [
        (counts[block.a + at], counters[block.b + at])
        for block in found.get_matching_blocks()
        for at in range(block.size)
    ]


def error_of(counted: float | None, measured: float) -> float | None:
    """How far off a count is, as a fraction of what was measured; None where there is nothing to compare."""
    if counted is None or not measured:
        return None
    return abs(counted - measured) / measured


def report(pairs: Sequence[tuple[Count, Counters]]) -> dict[str, Any]:
    """Prints a line for each launch, and the medians; gives these."""
    print(
        f"{'workload':34} {'kernel':28} {'read':>9} {'error':>6} {'written':>9} {'error':>6} {'flops':>9} {'error':>6}"
    )
    moved_errors: list[float] = []
    flop_errors: list[float] = []
    plain_errors: list[float] = []
    for count, one in pairs:
        errors = [
            error_of(count.bytes_read, one.read),
            error_of(count.bytes_written, one.written),
            error_of(count.flops, one.flops),
        ]
        both = (
            None if count.bytes_read is None or count.bytes_written is None else count.bytes_read + count.bytes_written
        )
        if (moved := error_of(both, one.read + one.written)) is not None:
            moved_errors.append(moved)
        if count.flops and errors[2] is not None:
            flop_errors.append(errors[2])
            if not count.special:
                plain_errors.append(errors[2])
        shown = ["" if error is None else f"{error:.1%}" for error in errors]
        print(
            f"{count.case:34.34} {count.kernel:28.28} {one.read:9.3g} {shown[0]:>6} {one.written:9.3g} {shown[1]:>6} "
            f"{one.flops:9.3g} {shown[2]:>6}  {count.note}"
        )
    found = {
        "launches": len(pairs),
        "bytes, median error": _median(moved_errors),
        "arithmetic, median error": _median(flop_errors),
        "arithmetic of kernels without functions, median error": _median(plain_errors),
    }
    for name, value in found.items():
        print(f"{name}: {value if isinstance(value, int | None) else f'{value:.2%}'}")
    for name in ("bytes, median error", "arithmetic, median error"):
        value = found[name]
        if isinstance(value, float) and value > ALLOWED:
            print(f"{name} is more than {ALLOWED:.0%}")
    return found


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _profile(names: Sequence[str], ncu: str) -> tuple[list[Count], list[Counters], str]:
    """Runs the workloads under the profiler; gives what both counted, and why there are no counters."""
    with tempfile.TemporaryDirectory(prefix="cuesta-explain-") as folder:
        log, out = Path(folder, "counters.csv"), Path(folder, "counts.json")
        command = [
            ncu, "--profile-from-start", "off", "--target-processes", "all", "--csv", "--page", "raw",
            "--print-units", "base", "--kernel-name-base", "function", "--metrics", ",".join(METRICS),
            "--log-file", str(log), sys.executable, "-m", "benchmarks.explain_counts", "--child", str(out),
            "--names", json.dumps(list(names)),
        ]  # fmt: skip
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        except subprocess.TimeoutExpired:
            return [], [], f"the profiler did not end within {PATIENCE} s"
        text = log.read_text(errors="replace") if log.exists() else ""
        counts = [Count(**one) for one in json.loads(out.read_text())] if out.exists() else []
        if FORBIDDEN in text + done.stdout + done.stderr:
            return counts, [], f"{FORBIDDEN}: this user may not read the device's counters"
        counters = read_counters(text.splitlines())
        if not counters:
            last = " ".join((text + done.stdout + done.stderr).strip().splitlines()[-3:])
            return counts, [], f"ncu ended with {done.returncode} and gave no counters: {last}"
        return counts, counters, ""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 where there is no CUDA device, or nothing could be compared although there is `ncu`."""
    said = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="benchmarks.explain_counts", description=said)
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="TEXT", help="workloads with one of these in their names"
    )
    parser.add_argument("--dtype", choices=("f32", "bf16", "all"), default="f32")
    parser.add_argument(
        "--ncu", default=shutil.which("ncu") or "/usr/local/cuda/bin/ncu", help="where Nsight Compute is"
    )
    parser.add_argument("--json", metavar="FILE", help="write everything there, too")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--names", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)

    import torch

    if not torch.cuda.is_available():
        print("there is no CUDA device: nothing can be compared with its counters", file=sys.stderr)
        return 1
    if chosen.child:
        counts = counted(json.loads(chosen.names), profiled=True)
        Path(chosen.child).write_text(json.dumps([asdict(one) for one in counts]))
        return 0
    from benchmarks.gpu_cases import kernel_cases

    names = [
        name
        for name in kernel_cases()
        if (chosen.dtype == "all" or name.endswith(f" {chosen.dtype}"))
        and (not chosen.only or any(text in name for text in chosen.only))
    ]
    print(f"{torch.cuda.get_device_name()}: {len(names)} workloads")
    if not os.access(chosen.ncu, os.X_OK):
        why, counts, counters = f"there is no ncu at {chosen.ncu}", counted(names, profiled=False), list[Counters]()
    else:
        counts, counters, why = _profile(names, chosen.ncu)
        counts = counts or counted(names, profiled=False)
    pairs = matched(counts, counters)
    if len(pairs) < len(counts) and not why:
        print(f"of {len(counts)} launches {len(pairs)} were found among {len(counters)} counted ones", file=sys.stderr)
    found: dict[str, Any] = {"why": why}
    if pairs:
        found |= report(pairs)
    else:
        print(f"nothing to compare with: {why or 'no launch of ours was counted'}. What explain counts:")
        for one in counts:
            print(f"{one.case:34.34} {one.kernel:28.28} {one.bytes_read} {one.bytes_written} {one.flops}  {one.note}")
    if chosen.json:
        rows = [{**asdict(count), **{f"device_{k}": v for k, v in asdict(one).items()}} for count, one in pairs]
        Path(chosen.json).write_text(json.dumps({**found, "rows": rows or [asdict(one) for one in counts]}, indent=1))
    return 0 if pairs or (why and "there is no ncu" in why) else 1


if __name__ == "__main__":
    sys.exit(main())
