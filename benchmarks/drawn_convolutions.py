"""Convolutions of random shapes on a CUDA device, forward and backward, in both layouts:
`make bench-convolutions ARGS='--device cuda --draw 400'`.

What a library likes depends on channels, windows and types in ways that no list of a few shapes shows. Each line is a
shape that somebody might have, its kind, and what channels first costs there, in the
unit of `transforms/views/convolution_costs.py`; `--json` keeps them for a fit.
"""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from benchmarks.random_programs import DTYPES

CHANNELS = (3, 8, 16, 24, 32, 48, 64, 96, 128, 192, 240, 256, 512)
BATCHES = (1, 2, 8, 10, 16, 32, 64, 128)
SIZES = (14, 28, 56, 64, 96, 127, 128, 224, 256)
WINDOWS = (1, 3, 3, 3, 5, 7)
LEAST, MOST = 1 << 20, 1 << 28
"""Elements of the image and of the result together.

Source: a choice: below, a call takes what starting it takes.
"""
MOST_PRODUCTS = 1 << 37
"""Multiplications of the forward pass.

Source: a choice: 10 ms in f32.
"""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A convolution."""

    dtype: str
    batch: int
    channels: int
    out: int
    size: int
    window: int
    stride: int
    groups: int
    transposed: bool

    @property
    def kind(self) -> str:
        """As `convolution_costs.kind_of_convolution` calls it."""
        kind = "" if self.groups == 1 else "depthwise" if self.groups == self.channels else "grouped"
        apart = self.window > 1 and self.window == self.stride
        if self.transposed:
            return f"transposed {kind or ('patches' if apart else '')}".strip()
        if kind:
            return f"{kind} pointwise" if kind == "grouped" and self.window == 1 else kind
        if apart:
            return "patches of colours" if self.channels <= 4 else "patches"
        return "pointwise" if self.window == 1 else "plain"


def draw(rng: random.Random) -> Drawn:
    """One that is neither tiny nor takes long."""
    while True:
        channels, window = rng.choice(CHANNELS), rng.choice(WINDOWS)
        groups = rng.choice((1, 1, 1, 1, 1, channels, 4, 2))
        transposed = rng.random() < 0.2
        out = channels if groups == channels else rng.choice(CHANNELS)
        stride = window if rng.random() < 0.1 else rng.choice((1, 1, 2))
        if channels % groups or out % groups:
            continue
        one = Drawn(
            rng.choice(("f32", "bf16")), rng.choice(BATCHES), channels, out, rng.choice(SIZES), window, stride, groups,
            transposed,
        )  # fmt: skip
        points = one.batch * one.size**2
        results = points * stride**2 if transposed else points // stride**2
        products = (points if transposed else results) * channels * out * window**2 // groups
        if LEAST <= points * channels + results * out <= MOST and products <= MOST_PRODUCTS:
            return one


def milliseconds(call: Callable[[], object], rounds: int = 3) -> float:
    """The median of a few calls, by the device's events, which wait for nothing that the host does."""
    call()
    times: list[float] = []
    for _ in range(rounds):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(200_000)
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def measured(one: Drawn, rate: float) -> dict[str, Any]:
    """Milliseconds by pass and layout, and what channels first costs; `rate`: bytes that a copy moves in a second."""
    kind: dict[str, Any] = {"device": "cuda", "dtype": DTYPES[one.dtype]}
    image = torch.randn(one.batch, one.channels, one.size, one.size, **kind)
    sizes = (one.channels, one.out // one.groups) if one.transposed else (one.out, one.channels // one.groups)
    weight = torch.randn(*sizes, one.window, one.window, **kind)
    padding = (one.window // 2,) * 2
    said = (None, (one.stride,) * 2, padding, (1, 1), one.transposed, (0, 0), one.groups)
    result = torch.ops.aten.convolution(image, weight, *said)
    gradient = torch.randn_like(result)
    row: dict[str, Any] = {**asdict(one), "kind": one.kind}
    moved = image.nbytes + result.nbytes
    back = (None, *said[1:], (True, True, False))
    for layout in (torch.contiguous_format, torch.channels_last):
        x, g = (value.contiguous(memory_format=layout) for value in (image, gradient))
        name = "first" if layout is torch.contiguous_format else "last"
        row[f"forward_{name}"] = milliseconds(lambda x=x: torch.ops.aten.convolution(x, weight, *said))
        row[f"backward_{name}"] = milliseconds(
            lambda x=x, g=g: torch.ops.aten.convolution_backward(g, x, weight, *back)
        )
    for name in ("forward", "backward"):
        row[name] = (row[f"{name}_first"] - row[f"{name}_last"]) * rate / 1e3 / moved
    return row


def main(count: int, seed: int, seconds: float, rate: float, path: str | None) -> None:
    """Draws, measures and prints, for so many seconds at most; `rate` as above."""
    rng = random.Random(seed)
    rows: list[dict[str, Any]] = []
    deadline = perf_counter() + seconds
    for _ in range(count):
        if perf_counter() > deadline:
            break
        one = draw(rng)
        try:
            rows.append(row := measured(one, rate))
        except RuntimeError as error:
            print(f"{one}: {str(error).partition(chr(10))[0]}", flush=True)
            continue
        shape = f"{one.dtype} {one.batch}x{one.channels}x{one.size}x{one.size} {one.out} {one.window} {one.stride}"
        print(f"{one.kind:22} {shape:36} {one.groups:4} {row['forward']:8.1f} {row['backward']:8.1f}", flush=True)
    for kind in sorted({row["kind"] for row in rows}):
        for dtype in ("f32", "bf16"):
            if some := [row for row in rows if (row["kind"], row["dtype"]) == (kind, dtype)]:
                told = (f"{statistics.median(row[name] for row in some):.1f}" for name in ("forward", "backward"))
                print(f"{kind} {dtype}: {len(some)}, medians {', '.join(told)}")
    if path is not None:
        Path(path).write_text(json.dumps(rows, indent=1))
