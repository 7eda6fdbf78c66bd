"""Looks for an edit of a text that does harm: `python -m tests.fuzz.texts.search --runs 3000`.

Each edited text is loaded and run in a worker (`worker.py`). It may run, or be refused by an error that names its file.
A worker that ends, hangs, or answers anything else is a finding; its text is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import select
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fuzz.texts import mutations, structured
from tests.fuzz.texts.corpus import corpus
from tests.support.fresh import Module, Piped

HANG = 150.0
"""Seconds after which a text is said to hang. (A worker's first text waits for torch's imports.)"""
ENDING = 10.0
"""Seconds that a worker has to end after its last word."""


TELL = 250
"""After so many texts it says how far it is."""


class Worker:
    """One process that judges texts."""

    def __init__(self, errors: Path) -> None:
        self.errors = errors
        self.process: Piped | None = None

    def judge(self, path: Path, seed: int) -> dict[str, Any]:
        """What the process says of a text; that it ended or hangs, where it says nothing."""
        if self.process is None:
            interpreted = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "2"}
            self.process = Piped(Module("tests.fuzz.texts.worker"), environment=interpreted, log=self.errors)
        process = self.process
        process.stdin.write(json.dumps({"path": str(path), "seed": seed}).encode() + b"\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], HANG)
        answer = process.stdout.readline() if ready else b""
        if answer:
            return json.loads(answer)
        ended = process.wait(ENDING) if ready else None
        self.close()
        if not ready:
            return {"verdict": "finding", "what": f"hangs for {HANG} s"}
        said = process.said()
        frames = re.findall(r'File "[^"]*/([^/"]+)", line (\d+)', said)
        where = " < ".join(f"{name}:{line}" for name, line in frames[:4])
        return {"verdict": "finding", "what": f"the process ended with {ended}", "where": where}

    def close(self) -> None:
        """Ends the process."""
        if self.process is not None:
            self.process.kill()
            self.process = None


@dataclass
class Report:
    """What came of a search."""

    verdicts: Counter[str] = field(default_factory=Counter[str])
    findings: list[tuple[str, Path]] = field(default_factory=list[tuple[str, Path]])
    levels: Counter[str] = field(default_factory=Counter[str])

    def text(self) -> str:
        """As it is printed."""
        kinds = Counter(kind for kind, _ in self.findings)
        first = dict(reversed(self.findings))
        rows = [f"{count:5}  {kind}\n         {first[kind]}" for kind, count in kinds.most_common()]
        told = ", ".join(f"{count} {verdict}" for verdict, count in self.verdicts.most_common())
        return "\n".join([f"{sum(self.verdicts.values())} texts: {told}; {len(self.findings)} findings", *rows])


def kind_of(answer: dict[str, Any]) -> str:
    """What findings of one mechanism have in common: numbers and names left out."""
    what = re.sub(r"/\S+", "PATH", answer["what"])[:160].replace("\n", " ")
    return re.sub(r"-?\b\d+", "N", what) + (f"  [{answer['where']}]" if answer.get("where") else "")


def edited_texts(texts: list[Path], runs: int, seed: int, folder: Path) -> Iterator[tuple[int, Path]]:
    """The texts to judge, each in a file of its own."""
    contents = {path: path.read_text() for path in texts}
    everything = list(contents.values())
    for number in range(runs):
        chooser = random.Random(seed * 1_000_003 + number)
        source = chooser.choice(texts)
        path = folder / f"{number:05d}_{source.parent.parent.name}_{source.name}"
        text = contents[source]
        if chooser.random() < 0.6:
            edited = structured.mutate(text, chooser)
        else:
            edited = mutations.mutate(text, chooser, everything)
        path.write_text(edited)
        yield number, path


def search(texts: list[Path], runs: int, seed: int, folder: Path, workers: int = 2, edit: bool = True) -> Report:
    """Judges edited texts. Those that are findings stay in `folder`."""
    report = Report()
    folder.mkdir(parents=True, exist_ok=True)
    source = edited_texts(texts, runs, seed, folder) if edit else enumerate(texts)
    lock = threading.Lock()

    def serve(number: int) -> None:
        worker = Worker(folder / f"worker{number}.txt")
        while True:
            with lock:
                job = next(source, None)
            if job is None:
                worker.close()
                return
            answer = worker.judge(job[1], seed + job[0])
            with lock:
                report.verdicts[answer["verdict"]] += 1
                judged = sum(report.verdicts.values())
                if judged % TELL == 0:
                    print(report.text().partition("\n")[0], file=sys.stderr, flush=True)
                if answer["verdict"] == "finding":
                    print(f"{job[1]}: {answer}", file=sys.stderr, flush=True)
                    report.findings.append((kind_of(answer), job[1]))
                elif edit:
                    job[1].unlink()
                elif not answer["verdict"].startswith("ran"):
                    report.findings.append((f"{answer}", job[1]))

    threads = [threading.Thread(target=serve, args=(number,)) for number in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return report


def main() -> int:
    """The exit status is 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--corpus", type=Path, default=Path("build/fuzz-texts/corpus"), help="made when it is missing")
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz-texts/found"), help="for texts that do harm")
    parser.add_argument("--unedited", action="store_true", help="only run the texts as they are: all must run")
    chosen = parser.parse_args()
    report = search(corpus(chosen.corpus), chosen.runs, chosen.seed, chosen.keep, chosen.workers, not chosen.unedited)
    print(report.text())
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
