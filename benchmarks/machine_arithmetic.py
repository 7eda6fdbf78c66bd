"""What `cuesta explain` counts of random programs' kernels, beside their machine code for sm_90; wherever Triton is.

    python -m benchmarks.machine_arithmetic --seeds 700 710

Kernels whose machine code has no loops, and whose text has no branches, no meetings and no products of matrices: each
thread runs all of it once. What stands under a predicate may run or not: the error is the distance from both. Numbers
of 16 bits that are added, or multiplied, and rounded again are one instruction that is not counted.
"""

from __future__ import annotations

import argparse
import math
import re
import statistics
from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp

from benchmarks.device_arithmetic import WORTH, instructions, machine_code_of
from benchmarks.on_cuda import on_cuda
from benchmarks.random_nests import lines, traced
from cuesta.dialects import kernel
from cuesta.explain.triton_text import UnreadableTextError, arithmetic_of
from cuesta.lowering.capture.fx_to_aten import import_graph
from cuesta.options import Options
from cuesta.record import CompileRecord
from cuesta.staging import run_stages
from cuesta.targets.program import KernelText
from cuesta.targets.triton.emit_kernel import emit_kernel

_TOLD = 12
"""Kernels that are listed, the worst first."""
_SYMBOL = 64
"""What a size stands for that is a symbol."""


def kernels_of(line: str) -> Iterator[tuple[KernelText, int]]:
    """The kernels of a program for a GPU, and of how many programs the grid of each is."""
    module: ModuleOp = on_cuda(import_graph(traced(line, "cpu")).module)
    run_stages(module, Options(), CompileRecord("inference"))
    for op in module.walk():
        if isinstance(op, kernel.FuncOp):
            yield emit_kernel(op), math.prod(one if isinstance(one, int) else _SYMBOL for one in op.schedule.grid)


def of_a_thread(text: KernelText) -> tuple[int, int] | None:
    """The additions and multiplications of f32 in each thread's machine code: at least, and at most. None where that is
    not read off it.
    """
    if any(word in text.source for word in ("if ", "tl.dot", "functions.meet", "divide_by_shared", "divide_by_two")):
        return None
    code = machine_code_of(text)
    places = re.findall(r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?BRA\S*\s+[^;]*?0x([0-9a-f]+)", code, re.MULTILINE)
    if any(int(target, 16) < int(place, 16) for place, target in places):
        return None
    least = most = 0
    for _, predicate, op, _ in instructions(code):
        most += WORTH.get(op, 0)
        least += 0 if predicate else WORTH.get(op, 0)
    return least, most


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.machine_arithmetic", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs=2, default=(700, 710), metavar=("FIRST", "END"))
    chosen = parser.parse_args()
    seen: set[tuple[str, int]] = set()
    found: list[tuple[float, str, float, tuple[int, int]]] = []
    unread = 0
    for line in lines(range(*chosen.seeds)):
        for text, programs in kernels_of(line):
            if (text.source, text.warps) in seen:
                continue
            seen.add((text.source, text.warps))
            symbols = {name: _SYMBOL for name, kind in text.signature if not kind.startswith("*")}
            try:
                counted = arithmetic_of(text, programs, symbols) / (programs * text.warps * 32)
            except UnreadableTextError as error:
                unread += 1
                print(f"{line}: {error}")
                continue
            if (measured := of_a_thread(text)) is not None and (measured[1] or counted):
                nearest = min(max(counted, measured[0]), measured[1])
                error_of_it = abs(counted - nearest) / nearest if nearest else math.inf
                found.append((error_of_it, f"{line[:60]} {text.name}", counted, measured))
    for error_of_it, name, counted, measured in sorted(found, reverse=True)[:_TOLD]:
        print(f"{error_of_it:8.1%} {counted:9.2f} counted, {measured[0]} to {measured[1]} in machine code  {name}")
    errors = [one[0] for one in found]
    within = sum(one <= 0.05 for one in errors)
    print(
        f"{len(seen)} kernels, {unread} not understood; {len(found)} without loops or branches that compute: ", end=""
    )
    print(f"median error {statistics.median(errors):.1%}, {within} within 5 %" if errors else "none")


if __name__ == "__main__":
    main()
