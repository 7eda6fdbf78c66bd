"""What `options={"validate": "kernels"}` costs: the time of a call of real models with it and without.

make bench-validate [ARGS="--models bert gpt2"]
"""

from __future__ import annotations

import argparse
import statistics
import sys
from functools import partial
from time import perf_counter
from typing import Any

import torch

from cuesta.validating.kernels import CLOCK
from examples.models import MODELS


def seconds_of(call: Any, calls: int) -> list[float]:
    """The times of so many calls, the first among them."""
    found: list[float] = []
    for _ in range(calls):
        start = perf_counter()
        call()
        found.append(perf_counter() - start)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=sorted(MODELS), help="of the demo's models")
    parser.add_argument("--calls", type=int, default=30)
    chosen = parser.parse_args()
    print(f"{'model':8} {'plain ms':>9} {'validated ms':>13} {'times':>6} {'first call s':>13}  kernels compared")
    for name in chosen.models:
        times: dict[str, list[float]] = {}
        model, inputs = MODELS[name].inference()
        for mode in ("off", "kernels"):
            torch._dynamo.reset()
            compiled = torch.compile(model, backend="cuesta", options={"validate": mode})
            CLOCK.kernels = CLOCK.compared = 0
            with torch.no_grad():
                times[mode] = seconds_of(partial(compiled, **inputs), chosen.calls)
        plain, validated = (statistics.median(times[mode][1:]) * 1e3 for mode in ("off", "kernels"))
        compared = f"{CLOCK.kernels}, {CLOCK.compared} times"
        ratio, first = validated / plain, times["kernels"][0]
        print(f"{name:8} {plain:9.2f} {validated:13.2f} {ratio:6.2f} {first:13.2f}  {compared}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
