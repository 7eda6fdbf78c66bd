"""Looks for a program that gives, changes or refuses anything else compiled than in eager.

    python -m tests.fuzz.search --programs 20000 --workers 14 --seed 1

A program is a function of its seed. Workers are processes; one that ends or hangs is a finding. What is found is made
smaller and printed as a script. What PyTorch's own `aot_eager` does, too, is counted apart ("capture"), and so
is what eager has no kernel for ("beyond eager"), and what is right because eager runs what we failed to capture.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import select
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fuzz.calls.case import Case
from tests.fuzz.calls.shrink import shrink
from tests.support.fresh import Module, Piped, Script

WORKER: Script = Module("tests.fuzz.calls.worker")
"""What the processes run."""
HANG, START = 60.0, 180.0
"""Seconds that a program computes, or does nothing, until it is said to hang; the first of a worker waits for imports.
What others take of the machine does not count.
"""
LOOK = 0.5
"""Seconds between looks at what a process does."""
ENDING = 10.0
"""Seconds that a process has to end after its last word."""
SHRINK = 40.0
"""Seconds spent on making a finding smaller."""
SHRUNK = 3
"""So many findings of one mechanism are made smaller."""
TELL = 20.0
"""Seconds between lines that say how far it is."""


class Worker:
    """One process that judges programs, started again when it ends. At the time `end` it is ended with what it does."""

    def __init__(self, device: str, errors: Path, end: float = math.inf) -> None:
        self.device, self.errors, self.end = device, errors, end
        self.process: Piped | None = None

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """What the process answers; that it ended or hangs, where it does not; `unjudged` if the time is over."""
        fresh = self.process is None
        if self.process is None:
            alone = {"OMP_NUM_THREADS": "1", "CUESTA_CACHE": "0"}
            self.process = Piped(WORKER, [self.device], environment={**os.environ, **alone}, log=self.errors)
        process = self.process
        try:
            process.stdin.write(json.dumps(question).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            ready, answer = [process.stdout], b""
        else:
            ready = self._ready(process, START if fresh else HANG)
            answer = process.stdout.readline() if ready else b""
        if answer:
            return json.loads(answer)
        ended = process.wait(ENDING) if ready else None
        self.close()
        if time.monotonic() >= self.end:
            return {"verdict": "unjudged", "what": "", "mechanism": ""}
        if not ready:
            return {"verdict": "finding", "what": f"hangs for {HANG:.0f} s", "mechanism": "hangs"}
        said = process.said()
        frames = re.findall(r'File "[^"]*/([^/"]+)", line (\d+)', said)
        where = " < ".join(f"{name}:{line}" for name, line in frames[:4])
        what = f"the process ended with {ended} [{where}]"
        return {"verdict": "finding", "what": f"{what}\n{said[-2000:]}", "mechanism": what}

    def _ready(self, process: Piped, most: float) -> list[Any]:
        """What can be read from, once there is something or the process has ended; nothing if it hangs, or it is time
        to end.
        """
        start = _computed_by(process)
        last, moved = start, time.monotonic()
        while (now := time.monotonic()) < self.end:
            ready, _, _ = select.select([process.stdout], [], [], min(LOOK, self.end - now))
            if ready:
                return ready
            computed = _computed_by(process)
            if computed > last:
                last, moved = computed, time.monotonic()
            if computed - start >= most or time.monotonic() - moved >= most:
                break
        return []

    def close(self) -> None:
        """Ends the process."""
        if self.process is not None:
            self.process.kill()
            self.process = None


def _computed_by(process: Piped) -> float:
    """The seconds that a process has computed for, in all of its threads; 0 where nobody says so, which is as if it did
    nothing.
    """
    try:
        said = Path(f"/proc/{process.pid}/stat").read_text()
    except OSError:
        return 0.0
    own, of_the_system = said.rpartition(")")[2].split()[11:13]
    return (int(own) + int(of_the_system)) / os.sysconf("SC_CLK_TCK")


@dataclass
class Finding:
    """A seed's program, made smaller."""

    seed: int
    mechanism: str
    what: str
    script: str


@dataclass
class Report:
    """What came of a search."""

    verdicts: Counter[str] = field(default_factory=Counter[str])
    reasons: Counter[str] = field(default_factory=Counter[str])
    """Of what was excluded, what PyTorch's capture does, what eager has no kernel for, and what we do not capture."""
    examples: dict[str, int] = field(default_factory=dict[str, int])
    findings: list[Finding] = field(default_factory=list[Finding])
    mechanisms: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """Of findings, with the seeds of each: also those that were not made smaller."""
    seconds: float = 0.0
    worker_seconds: float = 0.0
    """Of drawing and judging, in all workers together."""

    def line(self) -> str:
        """How far it is."""
        judged = sum(self.verdicts.values())
        told = ", ".join(f"{count} {kind}" for kind, count in self.verdicts.most_common())
        per_worker = judged / self.worker_seconds if self.worker_seconds else 0.0
        rates = f"{judged / max(self.seconds, 1e-9):.1f} programs/s, {per_worker:.1f} per worker"
        return f"{judged} programs in {self.seconds:.0f} s ({rates}): {told or 'none judged'}"

    def text(self) -> str:
        """As it is printed."""
        rows = [f"{count:6}  {reason}  (seed {self.examples[reason]})" for reason, count in self.reasons.most_common()]
        for mechanism, seeds in sorted(self.mechanisms.items(), key=lambda item: -len(item[1])):
            rows.append(f"{len(seeds):6}  FINDING {mechanism}  (seeds {', '.join(map(str, seeds))})")
        scripts = [f"\n# seed {one.seed}: {one.what}\n{one.script}" for one in self.findings]
        return "\n".join([self.line(), *rows, *scripts])

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "programs": sum(self.verdicts.values()), "seconds": self.seconds, "verdicts": dict(self.verdicts),
            "reasons": dict(self.reasons), "mechanisms": self.mechanisms,
            "findings": [vars(finding) for finding in self.findings],
        }  # fmt: skip


class Search:
    """Seeds, shared out among workers."""

    def __init__(self, seeds: Iterator[int], workers: int, seconds: float, device: str = "cpu") -> None:
        self.seeds, self.device, self.workers = seeds, device, workers
        self.report, self.lock = Report(), threading.Lock()
        self.start = time.monotonic()
        self.end = self.start + seconds
        self.told = self.start

    def run(self) -> Report:
        """Judges until there are no seeds or the time is over; what is then being judged or made smaller is left."""
        with tempfile.TemporaryDirectory(prefix="cuesta-fuzz-") as folder:
            threads = [
                threading.Thread(
                    target=self._serve, args=(Worker(self.device, Path(folder) / f"{number}.txt", self.end),)
                )
                for number in range(self.workers)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.report.seconds = time.monotonic() - self.start
        return self.report

    def _serve(self, worker: Worker) -> None:
        worker.ask({"seed": 0, "draw_only": True})  # imports, which are no part of a program's time
        while True:
            with self.lock:
                seed = next(self.seeds, None) if time.monotonic() < self.end else None
            if seed is None:
                worker.close()
                return
            answer = worker.ask({"seed": seed})
            if answer["verdict"] == "unjudged":
                continue
            with self.lock:
                is_new = self._count(seed, answer)
            if is_new:
                found = self._shrunk(worker, seed, answer)
                print(f"seed {seed}: {found.what}\n{found.script}", file=sys.stderr, flush=True)
                with self.lock:
                    self.report.findings.append(found)

    def _count(self, seed: int, answer: dict[str, Any]) -> bool:
        """Counts a verdict; whether it is a finding that is to be made smaller."""
        report, kind = self.report, answer["verdict"]
        report.verdicts[kind] += 1
        report.worker_seconds += answer.get("seconds", 0.0)
        report.seconds = time.monotonic() - self.start
        if time.monotonic() - self.told > TELL:
            self.told = time.monotonic()
            print(report.line(), file=sys.stderr, flush=True)
        if kind == "finding":
            alike = report.mechanisms.setdefault(answer["mechanism"], [])
            alike.append(seed)
            if len(alike) > SHRUNK:
                print(f"seed {seed}: again {answer['what'].splitlines()[0]}", file=sys.stderr, flush=True)
            return len(alike) <= SHRUNK
        if kind in ("capture", "excluded", "beyond eager", "in eager"):
            reason = f"{kind}: {answer['mechanism']}"
            report.reasons[reason] += 1
            report.examples.setdefault(reason, seed)
        return False

    def _shrunk(self, worker: Worker, seed: int, answer: dict[str, Any]) -> Finding:
        if "case" not in answer:
            answer["case"] = worker.ask({"seed": seed, "draw_only": True}).get("case")
        if answer["case"] is None:
            left = "the time was over" if time.monotonic() >= self.end else "it is drawing the program that ends so"
            return Finding(seed, answer["mechanism"], answer["what"], f"({left})")

        def still_wrong(smaller: Case) -> bool:
            again = worker.ask({"case": smaller.to_json()})
            return again["verdict"] == "finding" and again["mechanism"] == answer["mechanism"]

        case = Case.from_json(answer["case"])
        hangs = answer["mechanism"] == "hangs"  # each trial would take as long
        case = case if hangs else shrink(case, still_wrong, min(SHRINK, self.end - time.monotonic()))
        return Finding(seed, answer["mechanism"], answer["what"], case.script())


def main() -> int:
    """The exit status is 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="stop after so long, whatever is being made smaller"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the first program; the next ones follow")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--json", type=Path, default=None, help="write the report here as well")
    parser.add_argument("--print", action="store_true", help="print the programs, and run none")
    chosen = parser.parse_args()
    seeds = range(chosen.seed, chosen.seed + chosen.programs)
    if chosen.print:
        from tests.fuzz.calls.draw import case_of

        for seed in seeds:
            print(case_of(seed).script())
        return 0
    report = Search(iter(seeds), chosen.workers, chosen.seconds, chosen.device).run()
    print(report.text())
    if chosen.json:
        chosen.json.write_text(json.dumps(report.as_json(), indent=1))
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
