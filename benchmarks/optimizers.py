"""A step of an optimizer over many tensors, as its class takes it: eager's forms, and its compiled `step`.

    python -m benchmarks.optimizers [--device cuda] [--tensors 200] [--skip-inductor]

Eager's *foreach* is what the class takes on a GPU by default, *fused* a kernel of PyTorch's own. All sides take turns.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from benchmarks.timing import in_turns

SIZES = ((64, 64), (64,), (128, 32), (256,))


def optimizer(device: str, count: int, **how: Any) -> torch.optim.AdamW:
    """AdamW over `count` tensors of four shapes, with gradients."""
    generator = torch.Generator().manual_seed(0)
    parameters: list[Tensor] = []
    for number in range(count):
        value = torch.randn(SIZES[number % len(SIZES)], generator=generator)
        parameter = value.to(device).requires_grad_()
        parameter.grad = torch.ones_like(parameter) * 0.5
        parameters.append(parameter)
    return torch.optim.AdamW(parameters, lr=1e-3, **how)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tensors", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=1.0, help="sampling time of each side")
    parser.add_argument("--skip-inductor", action="store_true")
    chosen = parser.parse_args()
    on_gpu = chosen.device.startswith("cuda")
    how = {"foreach": True, "capturable": on_gpu}  # counters on the device, as nobody reads them on the way
    steps: dict[str, Callable[[], object]] = {
        "eager foreach": optimizer(chosen.device, chosen.tensors, foreach=True).step,
        "eager fused": optimizer(chosen.device, chosen.tensors, fused=True).step,
    }
    for side in ("cuesta", *(() if chosen.skip_inductor else ("inductor",))):
        torch._dynamo.reset()
        steps[side] = torch.compile(optimizer(chosen.device, chosen.tensors, **how).step, backend=side)
        start = perf_counter()
        for _ in range(3):
            steps[side]()
        print(f"{side}: compiled in {perf_counter() - start:.1f} s", flush=True)
    synchronize = torch.cuda.synchronize if on_gpu else lambda: None
    samples = in_turns(steps, chosen.seconds, synchronize).milliseconds
    medians = {side: statistics.median(taken) for side, taken in samples.items()}
    print(f"AdamW over {chosen.tensors} tensors on {chosen.device}, torch {torch.__version__}")
    for side, median in medians.items():
        print(f"{side:14} {median * 1e3:9.1f} us   {median / medians['cuesta']:.2f}x ours")


if __name__ == "__main__":
    main()
