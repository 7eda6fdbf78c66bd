"""The benchmark on a CUDA device: memory-bound kernels, whole models, and what launches and steps cost the host.
`make bench-gpu`.

Many processes compile and check at the same time; models with CUDA graphs have processes of their own. Then each in
turn compiles its cases under max-autotune, which times kernels and so wants the device to itself; and at last measures
them, alone on the device, all sides of a case in turns.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from time import perf_counter
from typing import Any

Row = dict[str, Any]

MOST_PROCESSES = 64
"""So that processes that die at once are not started for ever."""
PATIENCE = 600
"""Seconds that one case may take to compile in one more mode."""
MODES = {"tuned": "max-autotune-no-cudagraphs", "graphs": "reduce-overhead"}
"""The modes of torch.compile by what stands behind a side's name: `cuesta-tuned`."""

CLIFFS = Path(__file__).with_name("cliffs.txt")
"""Problems that were slow once: lines of `benchmarks/random_programs.py`."""
LARGE = 2**28
"""Bytes of the input of a program from which on one process compiles it while no other does: the check in f64 of one of
4 GB takes up to 70 GB.

Source: a bound: those of 15 processes then take half of the memory of an H200, and large ones the other half.
"""
GRACE = 60
"""Seconds that a process which holds results has to finish what it is at, when the time for compiling is over.

Source: a choice.
"""
LONG = 20
"""Seconds from which on it is told how long a case took to compile and to check.

Source: a choice.
"""


def lines_of(path: Path) -> list[str]:
    """The lines of a file that are no comments."""
    return [line for line in map(str.strip, path.read_text().splitlines()) if line and not line.startswith("#")]


def is_large(line: str) -> bool:
    """Whether the input of a random program is."""
    from benchmarks.random_programs import DTYPES, Program

    program = Program.parse(line)
    return math.prod(program.sizes) * DTYPES[program.dtype].itemsize >= LARGE


class Process:
    """A worker process and the pipe to it."""

    def __init__(self, sides: Sequence[str], texts: str | None, serve: Callable[..., None] | None = None) -> None:
        """`serve(pipe, sides, texts)` answers; without one, `gpu_worker`'s."""
        if serve is None:
            from benchmarks.gpu_worker import serve

        context = multiprocessing.get_context("spawn")
        self.pipe: Connection
        self.pipe, other = context.Pipe()
        self._folder = tempfile.TemporaryDirectory(prefix="cuesta-bench-", ignore_cleanup_errors=True)
        # No compiler finds what another run left behind.
        os.environ["TRITON_CACHE_DIR"] = f"{self._folder.name}/triton"
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{self._folder.name}/inductor"
        self.process = context.Process(target=serve, args=(other, tuple(sides), texts), daemon=False)
        self.process.start()
        other.close()
        self.case: str | None = None
        self.since = 0.0

    def ask(self, verb: str, name: str, seconds: float = 120) -> Row:
        """A request and its answer."""
        try:
            self.pipe.send((verb, name))
            return self.pipe.recv() if self.pipe.poll(seconds) else {"error": f"no answer in {seconds} s"}
        except (EOFError, OSError) as error:
            return {"error": f"the process died: {error!r}"}


class Run:
    """Cases handed to processes, and their results."""

    def __init__(self, options: argparse.Namespace, mode: str = "") -> None:
        self.options = options
        self.sides = [side + mode for side in (*([] if options.skip_inductor else ["inductor"]), "cuesta")]
        self.rows: dict[str, Row] = {}
        self.owners: dict[str, Process] = {}
        self.processes: list[Process] = []
        self.start = perf_counter()
        self.end: float = self.start + options.seconds
        self.grace: float = GRACE

    def told(self, text: str) -> None:
        """Progress."""
        print(f"[{perf_counter() - self.start:5.0f} s] {text}", flush=True)

    def new_process(self) -> Process:
        process = Process(self.sides, self.options.texts)
        self.processes.append(process)
        return process

    def lost(self, process: Process) -> None:
        """Hears of a process that died."""

    def compile_all(self, names: Sequence[str], *, fresh: bool, most: int = MOST_PROCESSES) -> None:
        """Compiles the cases in `options.workers` processes, or fewer, or with `fresh` each in one of its own."""
        pending = list(names)
        busy: list[Process] = []
        deadline = min(perf_counter() + self.options.compile_seconds + self.grace, self.end)
        workers = min(self.options.workers, len(pending), most)
        # The first message of a process says that it is ready.
        busy += [self.new_process() for _ in range(workers)]
        while busy and perf_counter() < deadline:
            # Who is stopped takes along what it has compiled: after the time for it nothing new is begun, and who holds
            # results may finish what it is at.
            if perf_counter() > deadline - self.grace:
                for name in pending:
                    self.rows[name] = {"error": "not compiled in time"}
                pending.clear()
                if not any(process in self.owners.values() for process in busy):
                    break
            for pipe in wait([process.pipe for process in busy], timeout=5):
                process = next(process for process in busy if process.pipe is pipe)
                alive = True
                try:
                    answer = process.pipe.recv()
                except (EOFError, OSError):
                    alive, answer = False, {"error": "the process died"}
                    self.told(f"a process died: {process.case}")
                    self.lost(process)
                if process.case is not None:
                    self.rows[process.case] = answer
                    if (taken := perf_counter() - process.since) > LONG:
                        self.told(f"{taken:.0f} s for {process.case}")
                    if "error" not in answer:
                        self.owners[process.case] = process
                done = fresh and process.case is not None
                if not pending or done or not alive:
                    busy.remove(process)
                    process.case = None
                    if pending and len(self.processes) < MOST_PROCESSES:
                        busy.append(self.new_process())
                    continue
                process.case, process.since = pending.pop(0), perf_counter()
                process.pipe.send(("compile", process.case))
        for process in busy:
            if process.case is not None:
                self.rows[process.case] = {"error": "not compiled in time"}
            process.process.kill()
        for name in pending:
            self.rows[name] = {"error": "not compiled in time"}

    def compile_alone(self, names: Sequence[str], mode: str, seconds: float) -> None:
        """Compiles cases in one more mode, one after the other; none is begun when the seconds are over."""
        deadline = perf_counter() + seconds
        for name in names:
            for side in self.sides:
                if name not in self.owners or perf_counter() > deadline:
                    continue
                more = f"{side}-{mode}"
                answer = self.owners[name].ask(f"compile {more}", name, PATIENCE)
                if "error" in answer:
                    self.rows[name]["errors"][more] = answer["error"]
                    if answer["error"].startswith("no answer"):
                        self.owners.pop(name).process.kill()  # it would answer later, and to another question
                else:
                    self.rows[name] |= answer

    def measure_all(self) -> None:
        """Every case that was compiled, one after the other, until the time is over."""
        for name, process in self.owners.items():
            left = min(120.0, self.end - perf_counter())
            answer = process.ask("measure", name, left) if left > 0 else {"error": "no time left"}
            if str(answer.get("error", "")).startswith("no answer"):
                process.process.kill()  # it would answer later, and to another question
            self.rows[name] |= answer

    def measure(self, lines: Sequence[str]) -> None:
        """Compiles and measures random programs, whose processes end with that."""
        self.owners.clear()
        self.compile_all(lines, fresh=False)
        self.told(f"{len(lines)} programs compiled and checked")
        self.measure_all()
        self.told("measured")
        self.stop()
        self.processes.clear()

    def add(self, other: Run) -> None:
        """What another run found out about its sides."""
        for name, row in other.rows.items():
            mine = self.rows[name]
            mine.setdefault("errors", {}).update(row.get("errors", {}))
            mine |= {key: value for key, value in row.items() if any(key.startswith(side) for side in other.sides)}
            if "error" in row:
                mine["errors"][other.sides[-1]] = row["error"]

    def host_costs(self) -> dict[str, Row]:
        """What a launch costs the host, and what a step does: asked of a process that lives, or of a new one."""
        process = next((process for process in self.processes if process.process.is_alive()), None)
        if process is None:
            process = self.new_process()
            try:
                if not process.pipe.poll(PATIENCE):
                    raise EOFError(f"not ready in {PATIENCE} s")
                process.pipe.recv()  # it is ready
            except (EOFError, OSError) as error:
                failure = {"error": f"the process died: {error!r}"}
                return {"launches": failure, "steps": failure}
        return {"launches": process.ask("launch costs", ""), "steps": process.ask("host times", "", PATIENCE)}

    def stop(self) -> None:
        """Ends all processes."""
        for process in self.processes:
            process.process.kill()


# --- Tables -----------------------------------------------------------------------------------------------------------


def number(value: float | None, size: int, digits: int = 2) -> str:
    """A number of a table, in so many characters; a line where there is none."""
    return "-".rjust(size) if value is None else f"{value:{size}.{digits}f}"


def ratio(row: Row, one: str, other: str) -> float | None:
    """One time over another."""
    a, b = row.get(f"{one}_ms"), row.get(f"{other}_ms")
    return a / b if a and b else None


def better(row: Row) -> float | None:
    """The better of eager and TorchInductor over Cuesta."""
    times = [row[key] for key in ("eager_ms", "inductor_ms") if row.get(key)]
    return min(times) / row["cuesta_ms"] if times and row.get("cuesta_ms") else None


def table(rows: Mapping[str, Row]) -> list[str]:
    """One line per case."""
    width = max(map(len, rows), default=0)
    lines = [
        f"{'':{width}}     ms  of copy  ind of copy  vs ind  vs eager  kernels  compile s (ours, ind)"
        "  tuned: ms  of copy  vs ind tuned  graphs: ms  vs ind graphs"
    ]
    for name, row in rows.items():
        text = f"{name:{width}} {number(row.get('cuesta_ms'), 6, 3)} {number(ratio(row, 'copy', 'cuesta'), 8)} "
        text += f"{number(ratio(row, 'copy', 'inductor'), 12)} {number(ratio(row, 'inductor', 'cuesta'), 7)} "
        text += f"{number(ratio(row, 'eager', 'cuesta'), 9)} {row.get('kernels', '-'):>8} "
        text += f"{number(row.get('cuesta_compile_seconds'), 9, 1)} {number(row.get('inductor_compile_seconds'), 6, 1)}"
        text += f"  {number(row.get('cuesta-tuned_ms'), 21, 3)} {number(ratio(row, 'copy', 'cuesta-tuned'), 8)} "
        text += f"{number(ratio(row, 'inductor-tuned', 'cuesta-tuned'), 13)} "
        text += f"{number(row.get('cuesta-graphs_ms'), 11, 3)} "
        text += f"{number(ratio(row, 'inductor-graphs', 'cuesta-graphs'), 14)}"
        problems = [*row.get("errors", {}).items(), *([("", row["error"])] if "error" in row else [])]
        fallbacks = [f"fallbacks {row['fallbacks']}"] if row.get("fallbacks") else []
        text += "".join(f"  {side} {problem}".replace("\n", " ")[:150] for side, problem in problems)
        lines.append(text + "".join(f"  {fallback}" for fallback in fallbacks))
    return lines


def summary(what: str, rows: Mapping[str, Row]) -> list[str]:
    """Geometric means and worst cases."""
    takes = {
        "of copy": lambda row: ratio(row, "copy", "cuesta"),
        "TorchInductor of copy": lambda row: ratio(row, "copy", "inductor"),
        "against TorchInductor": lambda row: ratio(row, "inductor", "cuesta"),
        "against eager": lambda row: ratio(row, "eager", "cuesta"),
        "tuned, of copy": lambda row: ratio(row, "copy", "cuesta-tuned"),
        "TorchInductor tuned, of copy": lambda row: ratio(row, "copy", "inductor-tuned"),
        "tuned, against TorchInductor tuned": lambda row: ratio(row, "inductor-tuned", "cuesta-tuned"),
        "untuned, against TorchInductor tuned": lambda row: ratio(row, "inductor-tuned", "cuesta"),
        "with CUDA graphs, against TorchInductor with them": lambda row: ratio(row, "inductor-graphs", "cuesta-graphs"),
        "with CUDA graphs and inputs that move, against TorchInductor": lambda row: ratio(
            row, "inductor-graphs-moving", "cuesta-graphs-moving"
        ),
        "against the better of both": better,
        "compile against TorchInductor": lambda row: (
            row["inductor_compile_seconds"] / row["cuesta_compile_seconds"]
            if row.get("inductor_compile_seconds") and row.get("cuesta_compile_seconds")
            else None
        ),
    }
    lines: list[str] = []
    for name, take in takes.items():
        values = {case: value for case, row in rows.items() if (value := take(row)) is not None}
        if values:
            worst = sorted(values, key=values.__getitem__)[:4]
            told = ", ".join(f"{case} {values[case]:.2f}" for case in worst)
            lines.append(
                f"{what}, {name}: {statistics.geometric_mean(values.values()):.3f} ({len(values)}); worst: {told}"
            )
    return lines


def side_table(what: str, rows: Mapping[str, Mapping[str, float]], sides: Sequence[str], digits: int = 0) -> list[str]:
    """One line per row: the number of each side, and the other sides' numbers over Cuesta's (above 1: it is faster)."""
    width = max(len(name) for name in (what, *rows))
    others = [side for side in sides if side != "cuesta"]
    lines = [f"{what:{width}}" + "".join(f"{side:>10}" for side in sides) + "".join(f"{'vs ' + o:>13}" for o in others)]
    for name, row in rows.items():
        text = f"{name:{width}}" + "".join(
            f"{row[side]:>10.{digits}f}" if side in row else f"{'-':>10}" for side in sides
        )
        for other in others:
            known = other in row and row.get("cuesta", 0.0) > 0.0
            text += f"{row[other] / row['cuesta']:>13.2f}" if known else f"{'-':>13}"
        lines.append(text)
    return lines


def host_lines(host: Mapping[str, Row], sides: Sequence[str]) -> list[str]:
    """What launches and steps cost the host; nothing where that was left out."""
    if not host:
        return []
    lines, steps = [f"host cost of a launch: {json.dumps(host['launches'])}"], host["steps"]
    if "error" in steps:
        return [*lines, f"host time of a step: {steps['error']}"]
    return [*lines, *side_table("host time of a step, us", steps, sides), ""]


def failed(row: Row) -> bool:
    """Whether any of Cuesta's sides gave an error or a wrong result."""
    return any(side.startswith("cuesta") for side in row.get("errors", {}))


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--only", help="cases whose names contain one of these, separated by commas")
    parser.add_argument("--skip-inductor", action="store_true")
    parser.add_argument("--skip-models", action="store_true")
    parser.add_argument("--skip-kernels", action="store_true")
    parser.add_argument("--skip-products", action="store_true", help="leave out products, attention, a large loss")
    parser.add_argument("--skip-cliffs", action="store_true", help=f"leave out the lines of {CLIFFS.name}")
    parser.add_argument(
        "--skip-host", action="store_true", help="leave out what launches and steps cost the host (as --only does)"
    )
    parser.add_argument("--tune", default="", help="as --only: which of the cases to compile under max-autotune too")
    parser.add_argument(
        "--tuning-seconds", type=float, default=1800, help="after these, no further one is begun; 0 for none"
    )
    parser.add_argument("--workers", type=int, default=max(1, min(12, (os.cpu_count() or 1) - 2)))
    parser.add_argument("--compile-seconds", type=float, default=300, help="for all compiling together")
    parser.add_argument("--seconds", type=float, default=math.inf, help="for all: what is measured by then is told")
    parser.add_argument("--texts", help="a folder for the texts of the kernels")
    parser.add_argument("--json", default="build/bench/gpu.json")
    parser.add_argument("--plot", default="build/bench/gpu.png")
    options = parser.parse_args(arguments)

    import torch

    from benchmarks.contraction_cases import contraction_cases
    from benchmarks.gpu_cases import kernel_cases, model_cases
    from benchmarks.plot import draw_fractions

    if not torch.cuda.is_available():
        raise SystemExit("there is no CUDA device")
    os.environ["CUESTA_CACHE"] = "0"
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # as many processes as processors compile already
    os.environ["OMP_NUM_THREADS"] = "1"

    def chosen(names: Sequence[str], parts: str | None) -> list[str]:
        return [name for name in names if any(part in name for part in (parts or "").split(","))]

    kernels = [] if options.skip_kernels else chosen(list(kernel_cases()), options.only)
    products = [] if options.skip_products else chosen(list(contraction_cases()), options.only)
    models = [] if options.skip_models else chosen(list(model_cases()), options.only)
    cliffs = [] if options.skip_cliffs else chosen(lines_of(CLIFFS), options.only)
    run, graphs = Run(options), Run(options, "-graphs")
    try:
        if cliffs:
            large = [line for line in cliffs if is_large(line)]
            run.compile_all(large, fresh=False, most=1)
            run.compile_all([line for line in cliffs if line not in large], fresh=False)
            run.told(f"{len(cliffs)} cliffs compiled and checked")
        if kernels:
            run.compile_all(kernels, fresh=False)
            run.told(f"{len(kernels)} cases compiled and checked")
        if products:
            losses = [name for name in products if name.startswith("loss")]
            run.compile_all(losses, fresh=False, most=1)
            run.compile_all([name for name in products if name not in losses], fresh=False)
            run.told(f"{len(products)} products compiled and checked")
        if models:
            run.compile_all(models, fresh=True)
            run.told(f"{len(models)} models compiled and checked")
            # In processes of their own, as users have it: what else a process has compiled a model to is asked about at
            # every call, and a call under CUDA graphs takes little else.
            graphs.compile_all(models, fresh=True)
            run.told("compiled with CUDA graphs")
        run.compile_alone(chosen([*models, *kernels], options.tune), "tuned", options.tuning_seconds)
        run.told("compiled under max-autotune")
        run.measure_all()
        graphs.measure_all()
        run.add(graphs)
        run.told("measured")
        host = {} if options.skip_host or options.only else run.host_costs()
    finally:
        run.stop()
        graphs.stop()
    report = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "kernels": {name: run.rows[name] for name in kernels},
        "products": {name: run.rows[name] for name in products},
        "models": {name: run.rows[name] for name in models},
        "cliffs": {name: run.rows[name] for name in cliffs},
        "launch_costs": host.get("launches", {}),
        "host_times": host.get("steps", {}),
    }
    path = Path(options.json)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1))
    for what in ("kernels", "products", "models", "cliffs"):
        if report[what]:
            print("\n".join([*table(report[what]), *summary(what, report[what]), ""]))
    for line in host_lines(host, ["eager", *run.sides]):
        print(line)
    print(draw_fractions(report["kernels"], Path(options.plot)))
    wrong = [name for name, row in run.rows.items() if "error" in row or failed(row)]
    print(f"{report['device']}, torch {report['torch']}; wrong or failed: {len(wrong)} {wrong}")


if __name__ == "__main__":
    main()
