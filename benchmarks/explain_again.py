"""How long `cuesta explain` takes of a model that was explained before, besides what anybody waits for.

Whole processes, in turns, after a first `cuesta explain` that found everything out: the command again, when nothing has
changed (`again`: the direct way, which does not import torch, so that nothing is subtracted of it); the same when it is
not known whether something has (`captured`: the file runs, and is captured); `import torch`; and the model's file by
itself (which imports transformers, and draws weights). The last two columns are the captured command's time without
torch's import, and without the model's file, which a user runs anyway; what is left then is the import of Dynamo and
AOTAutograd, and their capture. Medians, of the wall clock and of processor time; where they differ, others had the
processor, or the disk was read.

make bench-explain-again [ARGS="--models bert resnet --layers 12"]
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from cuesta.explain.summary import NOT_RUN

MOST_SECONDS = 3.0
"""Besides torch's import. Source: issue 13."""
SMALL = """
import torch

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down, self.norm = torch.nn.Linear(256, 1024), torch.nn.Linear(1024, 256), torch.nn.LayerNorm(256)

    def forward(self, x):
        y = self.norm(x + self.down(torch.nn.functional.gelu(self.up(x))))
        return torch.cumsum(y.softmax(-1), 0)

model, inputs = Block(), (torch.randn(512, 256),)
"""
FILE = """
from examples import models

models.LAYERS = {layers}
for sizes in (models.BLOCKS, models.TEXT, models.GATED):
    sizes["num_hidden_layers"] = {layers}
model, kwargs = models.MODELS[{name!r}].{step}()
inputs = ()
"""


@dataclass
class Times:
    """Of the rounds of one command. Units: s."""

    wall: list[float] = field(default_factory=list[float])
    processor: list[float] = field(default_factory=list[float])

    def run(self, *command: str) -> str:
        """One more round; gives what it printed."""
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
        done = subprocess.run([sys.executable, *command], check=True, stdout=subprocess.PIPE, encoding="utf-8")
        self.wall.append(perf_counter() - start)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.processor.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return done.stdout

    def __sub__(self, other: Times) -> str:
        wall = statistics.median(self.wall) - statistics.median(other.wall)
        processor = statistics.median(self.processor) - statistics.median(other.processor)
        return f"{wall:6.2f} s ({processor:5.2f})"

    def __str__(self) -> str:
        return f"{statistics.median(self.wall):6.2f} s ({statistics.median(self.processor):5.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=["small", "bert"], help="`small`, or models of the demo")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--training", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    columns = ("first", "again", "captured", "torch", "its file", "besides torch", "and its file")
    print(f"{'model':10}", *(f"{column:>16}" for column in columns))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CUESTA_CACHE_DIR"] = folder
        os.environ["CUESTA_CACHE"] = "1"
        for name in chosen.models:
            step = "training" if chosen.training else "inference"
            path = Path(folder) / f"{name}.py"
            path.write_text(SMALL if name == "small" else FILE.format(name=name, layers=chosen.layers, step=step))
            training = ["--training"] if chosen.training else []
            explain = ["-m", "cuesta", "explain", str(path), "--width", "200", *training]
            first, again, captured, torch, alone = Times(), Times(), Times(), Times(), Times()
            first.run(*explain)
            direct = 0
            for _ in range(chosen.rounds):
                torch.run("-c", "import torch")
                alone.run(str(path))
                shutil.rmtree(Path(folder) / "unchanged", ignore_errors=True)
                if NOT_RUN in captured.run(*explain):
                    raise RuntimeError("the file was not run")
                direct += NOT_RUN in again.run(*explain)
            times = (first, again, captured, torch, alone, captured - torch, captured - alone)
            print(f"{name:10}", *times, f"  {direct} of {chosen.rounds} the direct way", flush=True)
    print(f"in brackets: processor time. At most {MOST_SECONDS:g} s besides torch's import is asked for")


if __name__ == "__main__":
    main()
