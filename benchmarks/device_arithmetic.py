"""How many additions and multiplications a GPU does for each scalar function of f32, from machine code for sm_90.

    python -m benchmarks.device_arithmetic          on any machine with Triton; exp log

A fused multiply-add is two. What stands under a predicate is for odd operands, and does not count, unless there is as
much under its opposite: then one of the two does. Neither do subroutines for odd operands, which stand behind the end,
or, as far as can be told, once for several elements. `cuesta/explain/device_arithmetic.py` has the numbers.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import cuesta.targets.triton.compilation as compilation
from cuesta.context import make_context
from cuesta.dialects import kernel
from cuesta.dialects.core.locations import CuestaParser
from cuesta.dialects.elem.table import TABLE
from cuesta.explain.counting import is_function
from cuesta.pipeline import default_stages, run_pipeline
from cuesta.targets.program import KernelText
from cuesta.targets.triton.emit_kernel import emit_kernel

_ARCHITECTURE = 90
_PROGRAM = """
func.func @main(%x: TENSOR, %y: TENSOR) -> TENSOR {
  %o = loops.nest (%i : 1048576) outs(%h : TENSOR) {
    %a = loops.load %x[%i] : TENSOR
    %b = loops.load %y[%i] : TENSOR
    %c = elem.NAME OPERANDS : f32
    loops.store %c, %h[%i] : TENSOR
  }
  func.return %o : TENSOR
}
"""
_TILE = 1024
"""Elements of a program, as the schedule has them."""


def kernel_of(name: str, arity: int, precision: str = "") -> KernelText:
    """A kernel that applies one function to each element."""
    text = _PROGRAM.replace("TENSOR", 'tensor<1048576xf32, #aten.layout<device = "cuda:0">>')
    text = text.replace("NAME", name).replace("OPERANDS", "%a, %b" if arity == 2 else "%a")
    text = text.replace(" : f32\n", f" : f32{precision}\n", 1)
    module = CuestaParser(make_context(), text, name).parse_module()
    stages = default_stages()
    run_pipeline(make_context(), module, stages[[stage.label for stage in stages].index("loops-to-kernel") :])
    return next(emit_kernel(op) for op in module.walk() if isinstance(op, kernel.FuncOp))


def machine_code_of(text: KernelText) -> str:
    """The instructions of a kernel, as text. Errors: whatever Triton raises."""
    triton = compilation.require_triton()
    with tempfile.TemporaryDirectory() as folder, triton.knobs.cache.scope():
        triton.knobs.cache.dir = folder
        binary = Path(folder) / "code.cubin"
        binary.write_bytes(compilation.compile_kernel(text, _ARCHITECTURE).binary)
        tool = triton.knobs.nvidia.cuobjdump.path
        return subprocess.run([tool, "-sass", binary], capture_output=True, text=True, check=True).stdout


def arithmetic_of(text: KernelText) -> int:
    """Additions and multiplications of an element. Errors: whatever Triton raises."""
    return arithmetic_in(machine_code_of(text), _TILE // (text.warps * 32))


_LINE = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@(!?)(U?P\w+)\s+)?([A-Z0-9]+)\S*\s*([^;/]*)", re.MULTILINE)
WORTH = {"FADD": 1, "FMUL": 1, "FFMA": 2}


def instructions(code: str) -> list[tuple[str, str, str, str]]:
    """Those up to the end: `!` before a predicate, the predicate, the name, and the operands."""
    lines = _LINE.findall(code)
    ends = [place for place, (_, predicate, op, _) in enumerate(lines) if op == "EXIT" and not predicate]
    return lines[: max(ends, default=len(lines))]


def arithmetic_in(code: str, each: int) -> int:
    """Additions and multiplications of an element in machine code that computes so many in a thread."""
    plain = Counter[str]()
    either: dict[tuple[str, int], dict[str, int]] = {}
    versions = Counter[str]()
    for opposite, predicate, op, operands in instructions(code):
        if op in WORTH:
            if not predicate:
                plain[op] += 1
            else:
                both = either.setdefault((predicate, versions[predicate]), {"": 0, "!": 0})
                both[opposite] += WORTH[op]
        elif op.endswith("SETP"):
            versions.update(one.strip() for one in operands.split(",")[:2])
    one_of_two = sum(min(both.values()) for both in either.values())
    return sum(count // each * WORTH[op] for op, count in plain.items()) + one_of_two // each


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.device_arithmetic", description=__doc__)
    parser.add_argument("names", nargs="*", help="functions; without any, all")
    chosen = parser.parse_args(arguments).names
    for row in TABLE.values():
        wanted = row.name in chosen if chosen else "f" in row.kinds and (is_function(row.name) or row.name == "div")
        if not wanted or row.result == "bool":
            continue
        rough = arithmetic_of(kernel_of(row.name, row.arity, " precision bf16")) if row.approximations else None
        exact = arithmetic_of(kernel_of(row.name, row.arity))
        print(f'    "{row.name}": ({exact}, {exact if rough is None else rough}),', flush=True)


if __name__ == "__main__":
    main()
