"""Training steps of a decoder over several devices, in each way of dividing it, beside eager and TorchInductor.

    make bench-multi-gpu                                                       # all CUDA devices
    make bench-multi-gpu ARGS="--how fsdp,2d --layers 16"
    make bench-multi-gpu ARGS="--devices cpu --processes 2 --how ddp,fsdp,tp"  # over gloo; a smaller model

The decoder, and what `ddp`, `fsdp`, `tp` and `2d` mean, is `examples/distributed/train.py`. Units: milliseconds.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import traceback
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.ddp import JOIN_SECONDS, add_options, choose_processes, gathered, started, stop
from benchmarks.gpu import Row, side_table

HOW = ("ddp", "fsdp", "tp", "2d")
SMALLEST_OF_2D = 4
"""Processes for two dimensions.

Source: a definition: each has two.
"""
SIZES: dict[str, dict[str, int]] = {
    "cuda": {"width": 2048, "heads": 16, "layers": 8, "vocabulary": 32000, "batch": 8, "sequence": 512},
    "cpu": {"width": 128, "heads": 4, "layers": 2, "vocabulary": 1000, "batch": 8, "sequence": 32},
}
"""What is measured when nothing else is said: on a GPU 530 million parameters."""
TOLERANCE = 1e-3
"""How far the loss of a step may be from eager's, as a part of that.

Source: f32 rounds to 6e-8 of a number; a loss is a mean of logarithms of sums of thousands of terms.
"""
TEXT = 3000
"""The most characters of an error's text (its end is kept).

Source: a bound against long lines.
"""


def serve(connection: Connection, rank: int, meeting: str, options: argparse.Namespace) -> None:
    """One process: measures all ways and sends what it found, or the error."""
    try:
        import torch.distributed as dist

        from benchmarks.ddp_rank import Group

        warnings.simplefilter("ignore")
        group = Group(rank, meeting, options)
        result: dict[str, Row] = {}
        for how in options.how:
            result[how] = measured(how, group, options)
            if rank == 0:
                times = ", ".join(f"{side} {ms:.3f} ms" for side, ms in result[how]["ms"][how].items())
                connection.send(("told", f"{how}: {times}"))  # known, also if the seconds end before all is
        connection.send(("result", result))
    except (Exception, SystemExit):  # noqa: BLE001 - told to whom started this process
        connection.send(("error", traceback.format_exc()[-TEXT:]))
        return
    dist.destroy_process_group()


def measured(how: str, group: Any, options: argparse.Namespace) -> Row:
    """The times of a step by side, and how far each side's losses are from eager's, which come first."""
    import torch

    import cuesta
    from benchmarks.ddp_rank import WARM_UP, step_samples
    from examples.distributed.train import Decoder, Sizes, distributed

    torch._dynamo.reset()
    sizes = Sizes(**{name: options.sizes[name] for name in ("width", "heads", "layers", "vocabulary")})
    steps: dict[str, Callable[[], float]] = {}
    losses: dict[str, list[float]] = {}
    in_eager = 0
    for side in ("eager", *options.sides):
        torch.manual_seed(0)
        device = group.device.partition(":")[0]
        model = Decoder(sizes).to(group.device)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        tokens = torch.randint(sizes.vocabulary, (options.sizes["batch"], options.sizes["sequence"] + 1)).to(
            group.device
        )
        module, parts, part = distributed(how, model, device, None if side == "eager" else side)
        steps[side] = training_step(module, tokens.chunk(parts)[part])
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            losses[side] = [steps[side]() for _ in range(WARM_UP)]
        if side == "cuesta":
            in_eager = sum("cuesta runs a graph in eager" in str(one.message) for one in told)
    errors = {
        side: max(abs(a - b) / abs(b) for a, b in zip(losses[side], losses["eager"], strict=True))
        for side in options.sides
    }
    ms = step_samples(steps, group, options.steps, options.rounds)
    graphs = len(cuesta.records)
    return {"ms": {how: ms}, "errors": errors, "parameters": parameters, "graphs": graphs, "in_eager": in_eager}


def training_step(model: Any, tokens: Any) -> Callable[[], float]:
    """Forward, loss, backward and SGD; it gives the loss."""
    import torch
    from torch.nn.functional import cross_entropy

    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, foreach=False)  # as the example has it, and why

    def step() -> float:
        optimizer.zero_grad()
        loss = cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def lines_of(found: Sequence[dict[str, Row]], options: argparse.Namespace) -> list[str]:
    """The table of what the processes found: times are those of rank 0, losses those of the worst."""
    first = found[0]
    sides = ["eager", *options.sides]
    rows = {how: first[how]["ms"][how] for how in options.how}
    parameters = first[options.how[0]]["parameters"] / 1e6
    lines = [f"decoder: {parameters:.1f} M parameters, {options.processes} processes on {options.devices}"]
    lines += side_table("step of rank 0, ms", rows, sides, digits=3)
    for how in options.how:
        for side in options.sides:
            error = max(row[how]["errors"][side] for row in found)
            verdict = "" if error <= TOLERANCE else ": WRONG"
            lines.append(f"losses of {side}, {how}: {error:.1e} from eager's (≤ {TOLERANCE:g}){verdict}")
        if count := sum(row[how]["in_eager"] for row in found):
            lines.append(f"{how}: cuesta ran {count} graphs in eager")
    return lines


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options, with `sides` (those that compile) and `sizes`. Errors: SystemExit names what is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.multi_gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser, steps=5, json="build/bench/multi_gpu.json")
    parser.add_argument("--how", help=f"some of {', '.join(HOW)}; all that so many processes allow unless it is given")
    for name in SIZES["cuda"]:
        parser.add_argument(f"--{name}", type=int, help="in place of that of the table")
    options = parser.parse_args(arguments)
    choose_processes(options)
    possible = [how for how in HOW if how != "2d" or options.processes >= SMALLEST_OF_2D]
    options.how = possible if options.how is None else options.how.split(",")
    if unknown := [how for how in options.how if how not in possible]:
        there_are = f"there are {', '.join(possible)} for {options.processes} processes"
        raise SystemExit(f"--how: there is no {unknown[0]!r}; {there_are}")
    table = SIZES[options.devices]
    options.sizes = {name: table[name] if (value := getattr(options, name)) is None else value for name in table}
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the benchmark. Errors: SystemExit 1 when a loss is wrong; with a text when it could not be run."""
    options = parsed(arguments)
    os.environ["CUESTA_CACHE"] = "0"
    start = perf_counter()
    with tempfile.TemporaryDirectory(prefix="cuesta-bench-multi-gpu-", ignore_cleanup_errors=True) as folder:
        ranks = started(options, folder, serve)
        try:
            results = gathered(
                ranks, options.seconds, lambda text: print(f"[{perf_counter() - start:5.0f} s] {text}", flush=True)
            )
            for rank in ranks:
                rank.process.join(JOIN_SECONDS)
        finally:
            stop(ranks)
    path = Path(options.json)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"options": vars(options), "ranks": results}, indent=1))
    print("\n".join(lines_of(results, options)))
    if any(error > TOLERANCE for result in results for row in result.values() for error in row["errors"].values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
