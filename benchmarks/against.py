"""Cold compilation of training steps, here and in another checkout, in turns: is it shorter, and whose part?

    python -m benchmarks.against ../before                           the demo's models, five processes each
    python -m benchmarks.against ../before --models bert --repeats 9
    python -m benchmarks.against ../before --device cuda --dtype bfloat16

Each measurement is a fresh process without a cache: a first training step, nothing subtracted. Which checkout comes
first changes from turn to turn. CPU seconds are those of the thread that compiles: compare these on a machine that has
other users. On a GPU Triton's cache is empty in each process, too. What autograd saves is without the parameters. Both
checkouts run with this interpreter.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean, median
from time import perf_counter, thread_time
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DEMO = ("bert", "gpt2", "llama", "vit", "resnet")
MEASURED = {"wall_seconds": "wall s", "cpu_seconds": "CPU s", "own_seconds": "own s", "saved_mb": "saved MB"}
FOLDERS = ("cuesta", "dialects", "transforms", "lowering", "targets", "examples")


def main() -> int:
    """Prints a row for each model; nothing here can fail but a checkout that does not compile it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="the other checkout: a folder")
    parser.add_argument("--models", nargs="+", default=list(DEMO))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker:
        print(json.dumps(cold_step(chosen.models[0], chosen.device, chosen.dtype)))
        return 0
    trees = [chosen.other.resolve(), ROOT]
    for tree in trees:
        subprocess.run([sys.executable, str(tree / "scripts" / "links.py")], check=True)
        for folder in FOLDERS:  # as an installed package is
            compileall.compile_dir(str(tree / folder), quiet=2)
    ratios: dict[str, list[float]] = {"wall_seconds": [], "cpu_seconds": [], "own_seconds": []}
    kind = ("--device", chosen.device, "--dtype", chosen.dtype)
    print("model   " + "".join(f"{name + ', before':>18}{'now':>8}" for name in MEASURED.values()) + "     CPU")
    for model in chosen.models:
        found: dict[Path, list[dict[str, float]]] = {tree: [] for tree in trees}
        for turn in range(chosen.repeats):
            for tree in trees[:: 1 if turn % 2 else -1]:
                found[tree].append(measured(tree, model, kind))
        values = {name: [median(run[name] for run in found[tree]) for tree in trees] for name in MEASURED}
        for name, collected in ratios.items():
            collected.append(values[name][1] / values[name][0])
        cells = "".join(f"{before:18.2f}{now:8.2f}" for before, now in values.values())
        print(f"{model:8}{cells}{100 * (ratios['cpu_seconds'][-1] - 1):+7.0f}%", flush=True)
    for name, collected in ratios.items():
        print(f"{MEASURED[name]}: {100 * (geometric_mean(collected) - 1):+.1f} % (geometric mean of the medians)")
    return 0


def measured(tree: Path, model: str, kind: Sequence[str]) -> dict[str, float]:
    """What one process of a checkout tells. Errors: CalledProcessError."""
    with tempfile.TemporaryDirectory() as caches:
        return _measured(tree, model, kind, caches)


def _measured(tree: Path, model: str, kind: Sequence[str], caches: str) -> dict[str, float]:
    environment = {
        **os.environ,
        "PYTHONSAFEPATH": "1",
        "PYTHONPATH": str(tree / "build" / "links"),
        "CUESTA_CACHE": "0",
        "TRITON_CACHE_DIR": caches,
    }
    command = [sys.executable, str(Path(__file__).resolve()), str(tree), "--worker", "--models", model, *kind]
    ran = subprocess.run(command, cwd=tree, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(ran.stdout.splitlines()[-1])


def cold_step(model: str, device: str, dtype: str) -> dict[str, float]:
    """The first training step of a compiled model. Requires: a fresh process. Units: seconds, MB."""
    import torch

    import cuesta
    from examples.models import MODELS, training_step

    module, inputs = MODELS[model].training(getattr(torch, dtype), device)
    training_step(module, inputs)  # what eager does once in a process is no part of compiling
    compiled: Any = torch.compile(module, backend="cuesta", fullgraph=True)
    wall, cpu = perf_counter(), thread_time()
    training_step(compiled, inputs)
    wall, cpu = perf_counter() - wall, thread_time() - cpu
    saved: dict[int, int] = {}
    with torch.autograd.graph.saved_tensors_hooks(lambda x: _noted(x, saved), lambda x: x):
        compiled(**inputs)
    kept = {parameter.untyped_storage().data_ptr() for parameter in module.parameters()}
    return {
        "wall_seconds": wall,
        "cpu_seconds": cpu,
        "own_seconds": cuesta.statistics().own_seconds,
        "saved_mb": sum(size for place, size in saved.items() if place not in kept) / 1e6,
    }


def _noted(x: Any, saved: dict[int, int]) -> Any:
    storage = x.untyped_storage()
    saved[storage.data_ptr()] = storage.nbytes()
    return x


if __name__ == "__main__":
    sys.exit(main())
