"""The tour of the README: one small function, printed at every level on its way down.

    python examples/tour.py [DIRECTORY]

The texts are left in DIRECTORY (by default `build/tour` of the repository, which is emptied), to be read, edited, and
fed to `cuesta-opt`.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import torch

import cuesta

LEVELS = Path(__file__).resolve().parent.parent / "build" / "tour"
STOPS = {
    "fx.py": "what AOTAutograd captured",
    "aten": "what the model says: one op per ATen overload",
    "aten-to-loops": "what is computed, and where it is read",
    "dce": "the same after fusion: one nest",
    "loops-to-kernel": "how the kernel runs: grid, lanes, addresses",
    "free-buffers": "in what order, in which memory",
    "wrapper.py": "the generated wrapper",
    "kernels.ll": "the LLVM text of the kernel (its beginning)",
}


def layer(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """A matrix product, which a library does, and a softmax of a GELU, which becomes one kernel."""
    return torch.softmax(torch.nn.functional.gelu(x @ weight + bias), dim=-1)


def main() -> None:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else LEVELS
    if root == LEVELS:
        shutil.rmtree(LEVELS, ignore_errors=True)
    compiled = torch.compile(layer, backend="cuesta", options={"dump": str(root)})
    arguments = torch.randn(64, 128), torch.randn(128, 256), torch.randn(256)
    torch.testing.assert_close(compiled(*arguments), layer(*arguments))
    folder = max(root.iterdir())
    for stop, what in STOPS.items():
        candidates = sorted(folder.glob(stop if "." in stop else f"[0-9][0-9]_{stop}.mlir"))
        path = candidates[-1]
        print(f"\n=== {path.name}: {what}\n")
        text = path.read_text()
        if path.suffix == ".ll":
            start = text.index("define internal void @", text.index("@cuesta.erf"))
            text = "\n".join(text[start:].splitlines()[:24]) + "\n  …"
        print(text.rstrip())
    print(f"\nAll texts: {folder}")
    fused = max(folder.glob("*_dce.mlir"))
    print(f'Walk on by hand:  cuesta-opt {fused} -p "loops-to-kernel,kernel-to-host"')
    print(f'Edit one, run it: python -c "import cuesta; print(cuesta.load({str(fused)!r}))"')
    torch.testing.assert_close(cuesta.load(fused)(*arguments)[0], layer(*arguments))


if __name__ == "__main__":
    main()
