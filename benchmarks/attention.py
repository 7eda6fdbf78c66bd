"""Attention in plain PyTorch, with what models do to its scores, beside eager, TorchInductor and flex_attention under
TorchInductor, on a CUDA device. `make bench-attention`.

Every row is one process's: all sides are compiled, checked, and called in turns; times are medians of events around a
call, the ratios of the same rounds. Peak memory is what a call allocates beyond its inputs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import cuesta
from benchmarks import attention_cases
from benchmarks.attention_cases import Case, Dropped, softmax
from benchmarks.timing import events_in_turns
from cuesta.targets.reference.keyed_draws import bernoulli

DROPOUT = "+dropout"
"""How the name of a row ends whose weights have dropout."""
SCORES = (
    "causal",
    "window",
    "slopes",
    "capped",
    *(f"{one}{DROPOUT}" for one in ("plain", "causal", "slopes", "capped")),
)
P = 0.1
"""How likely a weight is dropped there."""
LENGTHS = (1024, 4096, 16384)
TOKENS = 16384
"""Queries of all of a batch."""
WIDTHS = {64: 16, 128: 8}
"""Head sizes, and how many heads there are."""
ROUNDS = 9
NEAR = 256
"""How many keys a query sees of `window`."""
CHECKED = 4096
"""Up to so many keys the result is compared with that of f32."""


def case_of(score: str, length: int, width: int, batch: int = 0) -> Case:
    """A row: `score` is a function of `attention_cases`, perhaps with dropout."""
    name = score.removesuffix(DROPOUT)
    return Case(
        getattr(attention_cases, name),
        weights=Dropped(P) if name != score else softmax,
        batch=batch or max(1, TOKENS // length),
        heads=WIDTHS[width],
        queries=length,
        keys=length,
        width=width,
        near=NEAR,
    )


def flex_of(score: str, case: Case) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """The same attention through flex_attention, compiled by TorchInductor."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def is_seen(b: Any, h: Any, i: Any, j: Any) -> Any:
        return (j <= i) & (j > i - case.near) if score == "window" else j <= i

    def modified(value: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        if score == "slopes":
            return value + (j - i) * torch.exp2(-8.0 * (h + 1) / case.heads)
        return torch.tanh(value / attention_cases.CAP) * attention_cases.CAP

    masked = score in ("causal", "window")
    blocks = create_block_mask(is_seen, None, None, case.queries, case.keys, device="cuda") if masked else None
    compiled = torch.compile(flex_attention, fullgraph=True, dynamic=False)
    return lambda q, k, v: compiled(q, k, v, score_mod=None if masked else modified, block_mask=blocks)


def sides_of(score: str, case: Case, wanted: Sequence[str]) -> dict[str, Callable[..., Tensor]]:
    """The compilers, by name; each compiles at its first call."""
    torch._dynamo.reset()
    every: dict[str, Callable[[], Callable[..., Tensor]]] = {
        "eager": lambda: case,
        "inductor": lambda: torch.compile(case, fullgraph=True, dynamic=False),
        "flex": lambda: flex_of(score, case),  # which has no dropout
        "cuesta": lambda: torch.compile(case, backend="cuesta", fullgraph=True, dynamic=False),
    }
    return {name: every[name]() for name in wanted if name != "flex" or not score.endswith(DROPOUT)}


def error_of(result: Tensor, truth: Tensor) -> float:
    """The root of the mean square of what a result is off by, relative to that of the truth."""
    off = (result.double() - truth.double()).square().mean().sqrt()
    return float(off / truth.double().square().mean().sqrt())


def measure(
    score: str, length: int, width: int, wanted: Sequence[str], backward: bool, rounds: int = ROUNDS
) -> dict[str, Any]:
    """A row: milliseconds and bytes of each side, and how far each is off, relative to its size; with the
    gradients, the one that is off most. With dropout only ours is compared, and only with gradients: its mask follows
    from a key that is saved.
    """
    case = case_of(score, length, width)
    inputs = [one.requires_grad_(backward) for one in case.inputs("cuda")]
    row: dict[str, Any] = {"score": score, "length": length, "width": width, "errors": {}, "bytes": {}, "off": {}}
    gradient = torch.randn_like(inputs[0])

    def results_of(function: Callable[..., Tensor], inputs: Sequence[Tensor], gradient: Tensor) -> list[Tensor]:
        result = function(*inputs)
        return [result, *(torch.autograd.grad(result, inputs, gradient) if backward else ())]

    truth: list[Tensor] = []
    exact = [one[:1].detach().float().requires_grad_(backward) for one in inputs] if length <= CHECKED else []
    dropped = isinstance(case.weights, Dropped)
    if exact and not dropped:
        truth = [one.detach() for one in results_of(replace(case, batch=1), exact, gradient[:1].float())]
    calls: dict[str, Callable[[], Any]] = {}
    for name, function in sides_of(score, case, wanted).items():

        def call(function: Callable[..., Tensor] = function) -> list[Tensor]:
            return results_of(function, inputs, gradient)

        try:
            cuesta.clear_records()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = call()
            torch.cuda.synchronize()
            truth = [] if dropped else truth
            if exact and dropped and name == "cuesta" and backward:
                given = function(*inputs)
                mask = bernoulli(key_of(given), [1, case.heads, case.queries, case.keys], 1 - P, 1)
                result = [given, *torch.autograd.grad(given, inputs, gradient)]
                told = replace(case, batch=1, weights=Dropped(P, mask))
                truth = [one.detach() for one in results_of(told, exact, gradient[:1].float())]
                del given, mask, told
            if truth:
                pairs = zip(result, truth, strict=True)
                row["off"][name] = max(error_of(one[:1].detach(), true) for one, true in pairs)
            del result
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            call()
            torch.cuda.synchronize()
            row["bytes"][name] = torch.cuda.max_memory_allocated() - before
            if name == "cuesta":
                row["launches"] = [(record.kernels, record.library_calls) for record in cuesta.records]
            calls[name] = call
        except Exception as error:  # noqa: BLE001 # whatever a compiler raises belongs in the table
            row["errors"][name] = f"{type(error).__name__}: {error}"[:300]
    times = events_in_turns(calls, rounds, repeats=3, untimed=1)
    row["ms"] = {name: statistics.median(one) for name, one in times.items() if one}
    ours = times.get("cuesta")
    row["ratios"] = {
        name: statistics.median(a / b for a, b in zip(one, ours, strict=True))
        for name, one in times.items()
        if ours and name != "cuesta"
    }
    return row


def key_of(result: Tensor) -> Tensor:
    """The key of the draw that a result of ours was made with: it is saved for the backward pass."""
    saved: Any = getattr(result.grad_fn, "saved_tensors")  # noqa: B009 # of a function of AOTAutograd's
    (key,) = (one for one in saved if one.dtype == torch.int64 and one.numel() == 1)
    return key


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--scores", default=",".join(SCORES), help=f"what is done to the scores; of the weights, {DROPOUT}"
    )
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)), help="queries, and keys")
    parser.add_argument("--widths", default=",".join(map(str, WIDTHS)), help="head sizes")
    parser.add_argument("--sides", default="inductor,flex,cuesta", help="eager, inductor, flex, cuesta")
    parser.add_argument("--backward", action="store_true", help="forward and backward")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="0 only compiles, and fills caches")
    parser.add_argument("--json", type=Path, help="a file for all that was measured")
    given = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        parser.error("there is no CUDA device")
    torch._dynamo.config.recompile_limit = 1000
    wanted = given.sides.split(",")
    rows: list[dict[str, Any]] = []
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    for width in map(int, given.widths.split(",")):
        for length in map(int, given.lengths.split(",")):
            for score in given.scores.split(","):
                row = measure(score, length, width, wanted, given.backward, given.rounds)
                rows.append(row)
                told = " ".join(f"{name} {one:8.3f} ms" for name, one in row["ms"].items())
                ratios = " ".join(f"{name}/cuesta {one:5.2f}" for name, one in row["ratios"].items())
                memory = " ".join(f"{name} {one / 2**20:.0f} MiB" for name, one in row["bytes"].items())
                off = " ".join(f"{name} {one:.1e}" for name, one in row["off"].items())
                print(
                    f"{score:14} {length:6} x {width:3}  {told}  {ratios}  [{memory}] [{off}] {row['errors'] or ''}",
                    flush=True,
                )
                if given.json:
                    given.json.write_text(json.dumps(rows))
    for name in wanted:
        found = [row["ratios"][name] for row in rows if name in row["ratios"]]
        if found:
            mean = statistics.geometric_mean(found)
            print(f"{name}, time over ours, geometric mean: {mean:.3f} of {len(found)} rows; least {min(found):.2f}")


if __name__ == "__main__":
    main()
