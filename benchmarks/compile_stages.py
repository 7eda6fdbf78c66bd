"""What Triton makes of the kernels of programs, and how long each of its stages takes: on any machine, for sm_90.

    python -m benchmarks.compile_stages 'average pool 11x11 f32' 'bf16 1x128x32x32x32 | conv 0 3 1 0 1 | gelu'

Programs are lines of `random_programs.py`, cases of `make bench-gpu` that are not trained, or files: texts for a GPU,
at any level (`python -m tests.support.attention_kernels rows=128 > attention.mlir`). Of every kernel: seconds by stage,
the lines of its text, and of its machine code registers and bytes on the stack for each thread, bytes of shared memory,
instructions, and how many of them are of which kind.
"""

from __future__ import annotations

import argparse
import logging
import re
import subprocess
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

import cuesta.targets.triton.compilation as compilation
from benchmarks.gpu_cases import kernel_cases
from benchmarks.on_cuda import on_cuda
from benchmarks.random_nests import traced
from cuesta.context import make_context
from cuesta.dialects import kernel
from cuesta.dialects.core.locations import CuestaParser
from cuesta.lowering.capture.fx_to_aten import import_graph
from cuesta.pipeline import default_stages, remaining_stages, run_pipeline
from cuesta.targets.program import KernelText
from cuesta.targets.triton.emit_kernel import emit_kernel

_ARCHITECTURE = 90
_USAGE = {"REG": "registers", "STACK": "stack", "SHARED": "shared"}
_KINDS = {
    "LDG.": "loads",
    "STG": "stores",
    "LDS.": "loads of shared",
    "LDL": "loads of spilled",
    "SHFL": "shuffles",
    "HMMA": "products of warps",
    "HGMMA": "products of warp groups",
    "LDGSTS": "copies to shared",
}


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel's compilation: seconds by stage, and numbers about the machine code by name."""

    text: KernelText
    stages: dict[str, float]
    code: dict[str, int]

    def __str__(self) -> str:
        stages = ", ".join(f"{name} {seconds:.2f}" for name, seconds in self.stages.items())
        code = ", ".join(f"{number} {name}" for name, number in self.code.items() if number)
        lines = len(self.text.source.splitlines())
        return f"{self.text.name}: {sum(self.stages.values()):.2f} s ({stages}); {lines} lines, {code}"


def texts(line: str) -> list[KernelText]:
    """The kernels of a program. Errors: those of `traced`, and of the compiler."""
    if line.endswith(".mlir"):
        return [emit_kernel(op) for op in _lowered(Path(line)).walk() if isinstance(op, kernel.FuncOp)]
    graph = traced(line) if line in kernel_cases() else traced(line, "cpu")
    module = import_graph(graph).module
    if line not in kernel_cases():
        module = on_cuda(module)
    run_pipeline(make_context(), module, default_stages())
    return [emit_kernel(op) for op in module.walk() if isinstance(op, kernel.FuncOp)]


def _lowered(file: Path) -> ModuleOp:
    module = CuestaParser(make_context(), file.read_text(), str(file)).parse_module()
    module.verify()
    run_pipeline(make_context(), module, remaining_stages(module, default_stages()))
    return module


def compiled(text: KernelText) -> Compiled:
    """What becomes of a kernel, anew. Errors: whatever Triton raises."""
    triton = compilation.require_triton()
    stages: dict[str, float] = {}

    def listen(*, times: Any, **_: object) -> None:
        stages["text"] = times.ir_initialization / 1e6
        stages.update((name, took / 1e6) for name, took in times.lowering_stages)

    with tempfile.TemporaryDirectory() as folder, triton.knobs.compilation.scope(), triton.knobs.cache.scope():
        triton.knobs.compilation.listener = listen
        triton.knobs.cache.dir = folder
        code = compilation.compile_kernel(text, _ARCHITECTURE)
        binary = Path(folder) / "code.cubin"
        binary.write_bytes(code.binary)
        return Compiled(text, stages, numbers_of(binary, triton.knobs.nvidia.cuobjdump.path))


def numbers_of(binary: Path, tool: str) -> dict[str, int]:
    """What NVIDIA's `cuobjdump` says of machine code."""
    usage, code = (
        subprocess.run([tool, option, binary], capture_output=True, text=True, check=True).stdout
        for option in ("-res-usage", "-sass")
    )
    found = {_USAGE[name]: int(number) for name, number in re.findall(r"\b(REG|STACK|SHARED):(\d+)", usage)}
    ops = re.findall(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([\w.]+)", code, re.MULTILINE)
    found["instructions"] = sum(op != "NOP" for op in ops)
    return found | {name: sum(op.startswith(short) for op in ops) for short, name in _KINDS.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compile_stages", description=__doc__)
    parser.add_argument("lines", nargs="+", help="programs")
    parser.add_argument("--keep", type=Path, help="a folder for the texts")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    for line in options.lines:
        print(line)
        for number, text in enumerate(texts(line)):
            if options.keep is not None:
                options.keep.mkdir(parents=True, exist_ok=True)
                name = re.sub(r"\W+", "_", f"{line} {number}") + ".py"
                (options.keep / name).write_text(text.source)
            print(f"  {compiled(text)}", flush=True)


if __name__ == "__main__":
    main()
