"""What channels first costs the library's convolutions beside channels last: `make bench-convolutions`.

    make bench-convolutions ARGS='--device cuda --dtype bf16 --times 8'    on a GPU, batches eight times as large
    make bench-convolutions ARGS='--device cuda --draw 400'                random shapes, forward and backward

The last column is the unit of `transforms/views/convolution_costs.py`: what a call takes longer when its input is
channels first, in bytes that a copy would move meanwhile, for each byte of input and result.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import torch
from torch.nn import functional as F

from benchmarks import drawn_convolutions
from benchmarks.random_programs import DTYPES

Shape = tuple[int, ...]

CASES: tuple[tuple[str, Shape, Shape, dict[str, Any]], ...] = (
    ("plain 3x3", (8, 64, 56, 56), (64, 64, 3, 3), {"padding": 1}),
    ("plain 3x3, few channels", (4, 16, 32, 32), (16, 16, 3, 3), {"padding": 1}),
    ("plain 3x3, stride 2", (8, 64, 56, 56), (128, 64, 3, 3), {"padding": 1, "stride": 2}),
    ("plain 3x3, of colours", (8, 3, 224, 224), (32, 3, 3, 3), {"padding": 1, "stride": 2}),
    ("plain 7x7, of colours", (8, 3, 224, 224), (64, 3, 7, 7), {"padding": 3, "stride": 2}),
    ("plain 1x1, to more", (8, 64, 56, 56), (256, 64, 1, 1), {}),
    ("plain 1x1, to fewer", (8, 256, 56, 56), (64, 256, 1, 1), {}),
    ("patches 4x4", (8, 3, 96, 96), (96, 3, 4, 4), {"stride": 4}),
    ("patches 16x16", (8, 3, 224, 224), (384, 3, 16, 16), {"stride": 16}),
    ("grouped, 32 of 128", (8, 128, 28, 28), (128, 4, 3, 3), {"padding": 1, "groups": 32}),
    ("grouped, 4 of 64", (8, 64, 56, 56), (64, 16, 3, 3), {"padding": 1, "groups": 4}),
    ("grouped 1x1", (8, 240, 28, 28), (60, 80, 1, 1), {"groups": 3}),
    ("depthwise 3x3", (8, 96, 56, 56), (96, 1, 3, 3), {"padding": 1, "groups": 96}),
    ("depthwise 5x5", (8, 240, 14, 14), (240, 1, 5, 5), {"padding": 2, "groups": 240}),
    ("depthwise 7x7", (8, 96, 24, 24), (96, 1, 7, 7), {"padding": 3, "groups": 96}),
    ("transposed 4x4", (4, 64, 28, 28), (64, 32, 4, 4), {"stride": 2, "padding": 1, "transposed": True}),
    ("transposed 2x2", (4, 64, 28, 28), (64, 32, 2, 2), {"stride": 2, "transposed": True}),
    ("transposed grouped", (4, 64, 28, 28), (64, 8, 3, 3), {"padding": 1, "groups": 8, "transposed": True}),
    ("plain 3x3x3", (2, 16, 16, 28, 28), (32, 16, 3, 3, 3), {"padding": 1}),
    ("depthwise 3x3x3", (2, 16, 16, 28, 28), (16, 1, 3, 3, 3), {"padding": 1, "groups": 16}),
    ("transposed 2x2x2", (2, 16, 8, 14, 14), (16, 16, 2, 2, 2), {"stride": 2, "transposed": True}),
)
"""A name, the shapes of image and weight, and the arguments."""


class Clock:
    """Times calls on a device, and knows how fast it copies."""

    def __init__(self, device: str) -> None:
        self.synchronize: Callable[[], object] = torch.cuda.synchronize if device == "cuda" else lambda: None
        source = torch.randn(1 << (28 if device == "cuda" else 24), device=device)
        target = torch.empty_like(source)
        self.rate = 2 * source.nbytes / min(self.seconds(lambda: target.copy_(source)) for _ in range(5))
        """Bytes that a large copy reads and writes in a second."""

    def seconds(self, call: Callable[[], object], least: float = 0.02) -> float:
        """Of one call, from as many as take so long."""
        self.of(call, 1)
        return self.of(call, max(1, min(1000, int(least / self.of(call, 1)))))

    def of(self, call: Callable[[], object], times: int) -> float:
        """Of one call, from so many."""
        self.synchronize()
        start = perf_counter()
        for _ in range(times):
            call()
        self.synchronize()
        return (perf_counter() - start) / times


def convolution(rank: int, *, transposed: bool) -> Callable[..., torch.Tensor]:
    """PyTorch's function for images of a rank, batch and channels included."""
    table: dict[tuple[int, bool], Callable[..., torch.Tensor]] = {
        (4, False): F.conv2d,
        (4, True): F.conv_transpose2d,
        (5, False): F.conv3d,
        (5, True): F.conv_transpose3d,
    }
    return table[rank, transposed]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures every case, both layouts in turns."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.convolutions", description=__doc__)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--dtype", default="f32", choices=DTYPES)
    parser.add_argument("--times", type=int, default=1, help="how many times as large batches are")
    parser.add_argument("--draw", type=int, default=0, help="on a CUDA device: so many random shapes instead")
    parser.add_argument("--seed", type=int, default=0, help="of these")
    parser.add_argument("--seconds", type=float, default=300, help="after these, no further one is drawn")
    parser.add_argument("--json", help="a file for what was found of these")
    options = parser.parse_args(arguments)
    if options.draw:
        if options.device != "cuda" or not torch.cuda.is_available():
            raise SystemExit("--draw: shapes are drawn for a CUDA device")
        drawn_convolutions.main(options.draw, options.seed, options.seconds, Clock("cuda").rate, options.json)
        return
    kind: dict[str, Any] = {"device": options.device, "dtype": DTYPES[options.dtype]}
    clock = Clock(options.device)
    where = torch.cuda.get_device_name() if options.device == "cuda" else f"{torch.get_num_threads()} threads"
    print(f"{where}, torch {torch.__version__}, {options.dtype}, copies at {clock.rate / 1e9:.1f} GB/s\n")
    print("| convolution | channels first, ms | last, ms | ratio | result channels last | bytes for each byte |")
    print("|---|---|---|---|---|---|")
    for name, (batch, *image_shape), weight_shape, given in CASES:
        call = dict(given)
        function = convolution(len(weight_shape), transposed=bool(call.pop("transposed", False)))
        form = torch.channels_last if len(weight_shape) == 4 else torch.channels_last_3d
        image, weight = torch.randn(batch * options.times, *image_shape, **kind), torch.randn(weight_shape, **kind)
        image_last = image.contiguous(memory_format=form)
        with torch.no_grad():
            result = function(image_last, weight, **call)
            first: list[float] = []
            last: list[float] = []
            for _ in range(9):
                first.append(clock.seconds(lambda: function(image, weight, **call)))  # noqa: B023 - called at once
                last.append(clock.seconds(lambda: function(image_last, weight, **call)))  # noqa: B023
        one, other = statistics.median(first), statistics.median(last)
        cost = (one - other) * clock.rate / (image.nbytes + result.nbytes)
        kept = "yes" if result.is_contiguous(memory_format=form) else "no"
        print(f"| {name} | {one * 1e3:.3f} | {other * 1e3:.3f} | {one / other:.2f} | {kept} | {cost:.1f} |", flush=True)


if __name__ == "__main__":
    main()
