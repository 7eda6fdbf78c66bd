"""The loss of a product with a vocabulary and its gradients, in plain PyTorch, beside TorchInductor, on a CUDA device.
`make bench-vocabulary`.

A row is so many tokens of a width, and a loss. Both sides are compiled, compared with f32, and called in turns, forward
and backward; times are medians of events around a call, ratios of the same rounds. Peak memory is what a call allocates
beyond its inputs, gradients included.
"""

from __future__ import annotations

import argparse
import json
import statistics
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import cuesta
from benchmarks.attention import error_of
from benchmarks.timing import events_in_turns

VOCABULARY = 128_256
SIZES = ((8192, 2048), (8192, 4096), (16384, 2048), (32768, 1024))
"""Tokens, and the width of each."""
ROUNDS = 5
CHECKED = 512
"""So many rows at a time the truth is computed."""

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def plain(x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    """As PyTorch says it."""
    return F.cross_entropy(F.linear(x, weight), target)


def wide(x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    """As most models say it, of logits in f32, with tokens that do not count."""
    return F.cross_entropy(F.linear(x, weight).float(), target, ignore_index=0)


def capped(x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    """Of logits with a soft cap, smoothed, and with a term that keeps their sums small."""
    logits = torch.tanh(F.linear(x, weight).float() / 30) * 30
    sums = logits.logsumexp(-1)
    return F.cross_entropy(logits, target, label_smoothing=0.1) + 1e-4 * (sums * sums).mean()


LOSSES: dict[str, Loss] = {"plain": plain, "wide": wide, "capped": capped}


def gradients(loss: Loss, x: Tensor, weight: Tensor, target: Tensor) -> list[Tensor]:
    """The loss, and its gradients by x and by the weight."""
    value = loss(x, weight, target)
    return [value, *torch.autograd.grad(value, (x, weight))]


def truth_of(loss: Loss, x: Tensor, weight: Tensor, target: Tensor) -> list[Tensor]:
    """The same in f32, some rows at a time."""
    weight = weight.detach().float().requires_grad_()
    counted = (target != 0).sum() if loss is wide else torch.tensor(len(target), device=x.device)
    total, of_x, of_weight = torch.zeros((), device=x.device), list[Tensor](), torch.zeros_like(weight)
    for begin in range(0, len(x), CHECKED):
        rows = x[begin : begin + CHECKED].detach().float().requires_grad_()
        some = target[begin : begin + CHECKED]
        share = ((some != 0).sum() if loss is wide else torch.tensor(len(some), device=x.device)) / counted
        value = loss(rows, weight, some) * share
        first, second = torch.autograd.grad(value, (rows, weight))
        total += value.detach()
        of_x.append(first)
        of_weight += second
    return [total, torch.cat(of_x), of_weight]


def measure(name: str, tokens: int, width: int, wanted: Sequence[str], rounds: int, checks: bool) -> dict[str, Any]:
    """A row: milliseconds and bytes of each side, and how far loss and gradients are off, relative to their size."""
    torch.manual_seed(0)
    x = torch.randn(tokens, width, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    weight = (torch.randn(VOCABULARY, width, device="cuda") / width**0.5).bfloat16().requires_grad_()
    target = torch.randint(0, VOCABULARY, (tokens,), device="cuda")
    loss = LOSSES[name]
    row: dict[str, Any] = {"loss": name, "tokens": tokens, "width": width, "errors": {}, "bytes": {}, "off": {}}
    truth = truth_of(loss, x, weight, target) if checks else []
    calls: dict[str, Callable[[], Any]] = {}
    for side in wanted:
        torch._dynamo.reset()
        function = loss if side == "eager" else torch.compile(loss, backend=side)

        def call(function: Loss = function) -> list[Tensor]:
            return gradients(function, x, weight, target)

        try:
            cuesta.clear_records()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = call()
            torch.cuda.synchronize()
            row["off"][side] = [error_of(one, true) for one, true in zip(result, truth, strict=False)]
            del result
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            call()
            torch.cuda.synchronize()
            row["bytes"][side] = torch.cuda.max_memory_allocated() - before
            if side == "cuesta":
                row["launches"] = [(record.kernels, record.library_calls) for record in cuesta.records]
            calls[side] = call
        except Exception as error:  # noqa: BLE001 # whatever a compiler raises belongs in the table
            row["errors"][side] = f"{type(error).__name__}: {error}"[:300]
    del truth
    times = events_in_turns(calls, rounds)
    row["ms"] = {side: statistics.median(one) for side, one in times.items() if one}
    ours = times.get("cuesta")
    row["ratios"] = {
        side: statistics.median(a / b for a, b in zip(ours, one, strict=True))
        for side, one in times.items()
        if ours and side != "cuesta"
    }
    return row


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--losses", default=",".join(LOSSES))
    parser.add_argument("--sizes", default=",".join(f"{n}x{k}" for n, k in SIZES), help="tokens x width")
    parser.add_argument("--sides", default="inductor,cuesta", help="eager, inductor, cuesta")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="0 only compiles, and fills caches")
    parser.add_argument("--json", type=Path, help="a file for all that was measured")
    given = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        parser.error("there is no CUDA device")
    wanted, rows = given.sides.split(","), list[dict[str, Any]]()
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    for size in given.sizes.split(","):
        tokens, width = map(int, size.split("x"))
        for name in given.losses.split(","):
            row = measure(name, tokens, width, wanted, given.rounds, given.rounds > 0)
            rows.append(row)
            told = " ".join(f"{side} {one:8.2f} ms" for side, one in row["ms"].items())
            memory = " ".join(f"{side} {one / 2**20:.0f} MiB" for side, one in row["bytes"].items())
            off = " ".join(f"{side} {' '.join(f'{one:.1e}' for one in many)}" for side, many in row["off"].items())
            ratios = " ".join(f"ours/{side} {one:.2f}" for side, one in row["ratios"].items())
            print(f"{name:7} {size:12} {told}  {ratios}  [{memory}] [{off}] {row['errors'] or ''}", flush=True)
            if given.json:
                given.json.write_text(json.dumps(rows))
    for side in [one for one in wanted if one != "cuesta"]:
        times = [row["ratios"][side] for row in rows if side in row["ratios"]]
        memory = [row["bytes"]["cuesta"] / row["bytes"][side] for row in rows if {"cuesta", side} <= set(row["bytes"])]
        for what, found in (("time", times), ("memory", memory)):
            if found:
                mean = statistics.geometric_mean(found)
                print(
                    f"our {what} over {side}'s: {mean:.3f} (geometric mean of {len(found)} rows); most {max(found):.2f}"
                )


if __name__ == "__main__":
    main()
