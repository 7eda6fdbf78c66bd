"""Packages: how large they are, how long a fresh process takes to load one, and what a call costs.

    python -m benchmarks.packages [--device cuda] [--rounds 5]

Loading is measured in fresh processes, after torch was imported and the weights were read. A call is that of a function
so small that nothing but the call counts, in turns with the same function from torch.compile and in eager.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import cuesta
from benchmarks.timing import in_turns

_LOADING = """
import json, sys, time
import torch
state = torch.load(sys.argv[2], map_location=sys.argv[3])
start = time.perf_counter()
import cuesta
loaded = cuesta.load_package(sys.argv[1], weights=state)
whole = time.perf_counter() - start
names = ("xdsl", "llvmlite", "triton", "torch._dynamo", "torch._inductor")
print(json.dumps([whole, [name for name in names if name in sys.modules]]))
"""


class Gpt2(torch.nn.Module):
    """Logits of a GPT-2 of twelve layers, with random weights."""

    def __init__(self) -> None:
        from transformers import GPT2Config, GPT2LMHeadModel

        super().__init__()
        self.model = GPT2LMHeadModel(GPT2Config(use_cache=False)).eval()

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.model(tokens).logits


def small() -> torch.nn.Module:
    """Two layers."""
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 8))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=5, help="fresh processes for each package")
    chosen = parser.parse_args()
    tokens = torch.randint(0, 1000, (2, 64))
    rows: dict[str, tuple[Callable[[], torch.nn.Module], Any, bool]] = {
        "two layers": (small, torch.randn(32, 64), False),
        "gpt2": (Gpt2, tokens, False),
        "gpt2, training": (Gpt2, tokens, True),
    }
    print(f"packages on {chosen.device}, torch {torch.__version__}; medians of {chosen.rounds} fresh processes")
    with tempfile.TemporaryDirectory() as folder:
        for name, (make, inputs, training) in rows.items():
            path, state = Path(folder) / "model.cuesta", Path(folder) / "state.pt"
            model = make().to(chosen.device)
            cuesta.package(model, (inputs.to(chosen.device),), path, training=training)
            torch.save(model.state_dict(), state)
            runs = [_loaded(path, state, chosen.device) for _ in range(chosen.rounds)]
            load = statistics.median(seconds for seconds, _ in runs)
            there = ", ".join(sorted({one for _, found in runs for one in found})) or "none"
            print(
                f"{name:<16} {path.stat().st_size / 2**20:6.3f} MiB besides weights   load {load * 1000:6.1f} ms   "
                f"compilers imported: {there}"
            )
        _calls(Path(folder), chosen.device)


def _loaded(path: Path, state: Path, device: str) -> tuple[float, list[str]]:
    """Seconds, and the compilers that the process had imported."""
    done = subprocess.run(
        [sys.executable, "-c", _LOADING, str(path), str(state), device], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return tuple(json.loads(done.stdout))


def _calls(folder: Path, device: str) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * y + 1

    x, y = torch.randn(16, device=device), torch.randn(16, device=device)
    cuesta.package(function, (x, y), folder / "call.cuesta")
    loaded = cuesta.load_package(folder / "call.cuesta")
    compiled = torch.compile(function, backend="cuesta")
    with torch.no_grad():
        steps = {
            side: lambda f=f: f(x, y) for side, f in (("package", loaded), ("compiled", compiled), ("eager", function))
        }
        for step in steps.values():
            step()
        samples = in_turns(steps, 1.0, torch.cuda.synchronize if device.startswith("cuda") else lambda: None)
    for side, taken in samples.milliseconds.items():
        print(f"a call, {side:<9} {statistics.median(taken) * 1000:6.2f} us")


if __name__ == "__main__":
    main()
