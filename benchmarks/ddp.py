"""Training steps under DistributedDataParallel, beside eager and TorchInductor, one process per device.

    make bench-ddp                                        # all CUDA devices, a decoder and an MLP of 100 M parameters
    make bench-ddp ARGS="--models gpt2 --profile"         # and where the time of the device goes
    make bench-ddp ARGS="--devices cpu --processes 2"     # without a device, over gloo; smaller models

A step is zero_grad, forward, loss, backward and SGD. All processes hold a model of each side and run them in turns.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.gpu import Row, side_table
from benchmarks.training_models import MODELS, Sizes

FEWEST = 2
"""Processes: with one there is nothing to reduce.

Source: a definition.
"""
TOLERANCE = 1e-3
"""How far a gradient may be from eager's, as a part of the largest element of any of eager's gradients.

Source: f32 rounds to 6e-8 of a number, and sums of a thousand terms in another order differ by some thousand times that
at most. A gradient that was not averaged over the processes is off by about 1.
"""
JOIN_SECONDS = 10
"""How long a process may take to end when it has sent its result, or was killed.

Source: a bound against hanging: NCCL, which is shut down then, may wait for another process.
"""

SIZES: dict[str, dict[str, Sizes]] = {
    "cuda": {
        "gpt2": Sizes(layers=12, width=768, batch=6, sequence=128, heads=12, vocabulary=16384),
        "mlp": Sizes(layers=8, width=3584, batch=768),
    },
    "cpu": {
        "gpt2": Sizes(layers=4, width=256, batch=4, sequence=64, heads=4, vocabulary=2000),
        "mlp": Sizes(layers=8, width=512, batch=64),
    },
}
"""What is measured when nothing else is said: on a GPU 100 million parameters, and steps of about 10 ms."""
SIZE_OPTIONS = tuple(asdict(SIZES["cpu"]["mlp"]))


@dataclass(frozen=True, slots=True)
class Rank:
    """One process of the group, and the pipe on which it tells what it does."""

    number: int
    pipe: Connection
    process: BaseProcess


def started(options: argparse.Namespace, folder: str, serve: Callable[..., None] | None = None) -> list[Rank]:
    """The processes, running `serve`, or else that of `ddp_rank.py`. They meet in a file of `folder`, where no compiler
    finds what another run left behind.
    """
    if serve is None:
        from benchmarks.ddp_rank import serve

    context = multiprocessing.get_context("spawn")
    ranks: list[Rank] = []
    for number in range(options.processes):
        os.environ["TRITON_CACHE_DIR"] = f"{folder}/triton-{number}"
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{folder}/inductor-{number}"
        pipe, other = context.Pipe()
        process = context.Process(target=serve, args=(other, number, f"{folder}/meeting", options), daemon=False)
        process.start()
        other.close()
        ranks.append(Rank(number, pipe, process))
    return ranks


def gathered(ranks: Sequence[Rank], seconds: float, told: Callable[[str], None]) -> list[Row]:
    """What each process found, in their order. Messages are pairs: `told`, `error` or `result`, and what it is.

    Errors: SystemExit, when a process fails or dies, or when the seconds are over; the other processes may then wait
    for ever in a collective operation, so the caller has to stop them.
    """
    results: dict[int, Row] = {}
    deadline = perf_counter() + seconds
    while len(results) < len(ranks):
        waiting = {rank.pipe: rank for rank in ranks if rank.number not in results}
        ready = wait(list(waiting), timeout=max(0.0, deadline - perf_counter()))
        if not ready:
            silent = ", ".join(str(rank.number) for rank in waiting.values())
            raise SystemExit(f"no result in {seconds:g} s of rank {silent}")
        for pipe in ready:
            assert isinstance(pipe, Connection)
            rank = waiting[pipe]
            try:
                kind, content = pipe.recv()
            except (EOFError, OSError):
                rank.process.join(JOIN_SECONDS)
                raise SystemExit(f"rank {rank.number} died; its exit code is {rank.process.exitcode}") from None
            if kind == "error":
                raise SystemExit(f"rank {rank.number} failed:\n{content}")
            if kind == "result":
                results[rank.number] = content
            else:
                told(f"rank {rank.number}: {content}")
    return [results[rank.number] for rank in ranks]


def stop(ranks: Sequence[Rank]) -> None:
    """Kills the processes that still run."""
    for rank in ranks:
        rank.process.kill()
    for rank in ranks:
        rank.process.join(JOIN_SECONDS)


def lines_of(name: str, found: Sequence[Row], options: argparse.Namespace) -> list[str]:
    """The tables of a model from what the processes found: times are those of rank 0, gradients those of the worst."""
    first = found[0]
    sides = ["eager", *options.sides]
    lines = [
        f"{name}: {first['parameters'] / 1e6:.1f} M parameters, {options.processes} processes on {options.devices}"
    ]
    lines += side_table("rank 0, ms", first["ms"], sides, digits=3)
    for side in options.sides:
        error = max(row["gradient_errors"][side] for row in found)
        verdict = "" if error <= TOLERANCE else ": WRONG"
        lines.append(f"gradients of {side}: {error:.1e} of eager's largest from eager's (≤ {TOLERANCE:g}){verdict}")
    lines += [f"compiled by {side}: {told}" for side, told in first["compiled"].items()]
    for what, profile in first["profile"].items():
        lines += [f"profile of {what}:", *(f"  {line}" for line in profile)]
    return [*lines, ""]


def add_options(parser: argparse.ArgumentParser, *, steps: int, json: str) -> None:
    """The options that benchmarks of several processes have in common; `choose_processes` goes on with them."""
    parser.add_argument("--devices", choices=list(SIZES), default="cuda")
    parser.add_argument("--processes", type=int, help="at least two; on CUDA all devices unless it is given")
    parser.add_argument("--skip-inductor", action="store_true")
    parser.add_argument("--rounds", type=int, default=20, help="samples of each side")
    parser.add_argument("--steps", type=int, default=steps, help="steps in a sample")
    parser.add_argument("--seconds", type=float, default=900, help="for everything together; then all is stopped")
    parser.add_argument("--json", default=json)


def choose_processes(options: argparse.Namespace) -> None:
    """Says how many processes there are, and as `sides` those that compile. Errors: SystemExit names what is wrong."""
    if options.devices == "cuda":
        import torch

        count = torch.cuda.device_count()
        options.processes = count if options.processes is None else options.processes
        if count < max(FEWEST, options.processes):
            raise SystemExit(f"there are {count} CUDA devices, not {max(FEWEST, options.processes)}; or --devices cpu")
    options.processes = FEWEST if options.processes is None else options.processes
    if options.processes < FEWEST:
        raise SystemExit(f"--processes: {options.processes} are fewer than {FEWEST}")
    options.sides = [*([] if options.skip_inductor else ["inductor"]), "cuesta"]


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options, with `sides` (those that compile) and `sizes` by model. Errors: SystemExit names what is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ddp", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser, steps=10, json="build/bench/ddp.json")
    parser.add_argument("--models", default=",".join(SIZES["cuda"]), help=f"some of {', '.join(MODELS)}")
    for name in SIZE_OPTIONS:
        parser.add_argument(f"--{name}", type=int, help="of the models, in place of that of the tables")
    parser.add_argument("--bucket-mb", type=int, default=25, help="the most MiB of gradients that are reduced at once")
    parser.add_argument("--bucket-views", action="store_true", help="gradient_as_bucket_view=True")
    parser.add_argument("--whole", action="store_true", help="compile the model as one piece (optimize_ddp=False)")
    parser.add_argument("--profile", action="store_true", help="the largest kernels, and what NCCL's run beside")
    options = parser.parse_args(arguments)
    options.models = options.models.split(",")
    if unknown := [name for name in options.models if name not in MODELS]:
        raise SystemExit(f"--models: there is no '{unknown[0]}'; there are {', '.join(MODELS)}")
    choose_processes(options)
    given: dict[str, Any] = {
        name: getattr(options, name) for name in SIZE_OPTIONS if getattr(options, name) is not None
    }
    options.sizes = {name: replace(SIZES[options.devices][name], **given) for name in options.models}
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the benchmark. Errors: SystemExit 1 when gradients are wrong; with a text when it could not be run."""
    options = parsed(arguments)
    os.environ["CUESTA_CACHE"] = "0"
    start = perf_counter()

    def told(text: str) -> None:
        print(f"[{perf_counter() - start:5.0f} s] {text}", flush=True)

    with tempfile.TemporaryDirectory(prefix="cuesta-bench-ddp-", ignore_cleanup_errors=True) as folder:
        ranks = started(options, folder)
        try:
            results = gathered(ranks, options.seconds, told)
            for rank in ranks:
                rank.process.join(JOIN_SECONDS)
        finally:
            stop(ranks)
    path = Path(options.json)
    path.parent.mkdir(parents=True, exist_ok=True)
    settings = vars(options) | {"sizes": {name: asdict(sizes) for name, sizes in options.sizes.items()}}
    path.write_text(json.dumps({"options": settings, "ranks": results}, indent=1))
    for name in options.models:
        print("\n".join(lines_of(name, [result[name] for result in results], options)))
    worst = max(error for result in results for row in result.values() for error in row["gradient_errors"].values())
    if worst > TOLERANCE:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
