"""How many registers a thread may have."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.random_nests import analysed, with_choices
from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.dialects.core.machine import REFERENCE
from cuesta.lowering.schedule.gpu.schedule_choices import candidates, choose
from cuesta.targets.program import KernelText
from cuesta.targets.triton.compilation import compile_kernel
from tests.support.triton_interpreter import on_cuda, parse
from tests.support.triton_kernels import texts_of

triton = pytest.importorskip("triton")


def columns(points: int, number: int, *, stores: bool = False) -> str:
    """Sums of the squares of columns; or the columns divided by them."""
    given, made = f"tensor<{points}x{number}xf32>", f"tensor<{number}xf32>"
    end = f"loops.store %s, %o[%j] : {made}"
    if stores:
        made = given
        end = (
            f"loops.for (%k : {points}) {{ %v = loops.load %x[%k, %j] : {given} %q = elem.div %v, %s : f32 "
            f"loops.store %q, %o[%k, %j] : {made} }}"
        )
    return f"""
    func.func @main(%x : {given}) -> {made} {{
      %y = loops.nest (%j : {number}) outs(%o : {made}) {{
        %s = loops.reduce sum (%i : {points}) {{
          %a = loops.load %x[%i, %j] : {given}
          %b = elem.mul %a, %a : f32
          loops.yield %b : f32
        }} : f32
        {end}
      }}
      func.return %y : {made}
    }}"""


ROUNDS = {"along": 1, "rows": 8, "lanes": 1024, "warps": 16}


@pytest.mark.parametrize(
    ("points", "number", "stores", "choices", "bound"),
    [
        (8192, 2100, False, ROUNDS, 128),
        (8192, 2100, False, {**ROUNDS, "warps": 32}, None),  # with 64 a processor has one program
        (8192, 7, False, {**ROUNDS, "warps": 32}, 64),  # and this has one for each
        (8192, 2100, True, ROUNDS, None),  # rounds that store
        (1000, 2100, False, ROUNDS, None),  # one tile
        (8192, 2100, False, {"along": 1, "rows": 256, "lanes": 1, "warps": 8}, None),  # lanes by themselves
    ],
)
def test_what_reduces_in_rounds_has_a_bound(
    points: int, number: int, stores: bool, choices: dict[str, int], bound: int | None
) -> None:
    module = with_choices(parse(columns(points, number, stores=stores)), choices)
    assert choose(analysed(module), REFERENCE).choices.get("registers") == bound


def test_what_a_schedule_says_is_obeyed() -> None:
    module = with_choices(parse(columns(8192, 2100)), {**ROUNDS, "registers": 80})
    assert choose(analysed(module), REFERENCE).choices["registers"] == 80


def test_a_contraction_obeys_as_well() -> None:
    text = """
    func.func @main(%x : tensor<64x48xbf16>, %w : tensor<48x64xbf16>) -> tensor<64x64xf32> {
      %y = loops.nest (%i : 64, %j : 64) outs(%o : tensor<64x64xf32>) {
        %s = loops.reduce sum (%k : 48) {
          %a = loops.load %x[%i, %k] : tensor<64x48xbf16>
          %b = loops.load %w[%k, %j] : tensor<48x64xbf16>
          %c = elem.convert %a : bf16 to f32
          %d = elem.convert %b : bf16 to f32
          %p = elem.mul %c, %d : f32
          loops.yield %p : f32
        } : f32
        loops.store %s, %o[%i, %j] : tensor<64x64xf32>
      }
      func.return %y : tensor<64x64xf32>
    }"""
    tile = {"rows": 32, "columns": 32, "depth": 16, "warps": 4, "registers": 96}
    assert choose(analysed(with_choices(parse(text), tile)), REFERENCE).choices["registers"] == 96


@pytest.mark.parametrize("bound", [1, 23, 256, 100000])
def test_registers_that_no_thread_has_are_an_error(bound: int) -> None:
    module = with_choices(parse(columns(8192, 2100)), {**ROUNDS, "registers": bound})
    with pytest.raises(CuestaError, match=f"registers = {bound}, of 24 to 255"):
        choose(analysed(module), REFERENCE)


def test_bounds_are_tried_under_max_autotune() -> None:
    tried = [
        one["registers"]
        for one in candidates(analysed(parse(columns(8192, 7, stores=True))), REFERENCE)
        if "registers" in one
    ]
    assert tried == [64], "programs of 32 warps have no more"
    copies = parse("""
    func.func @main(%x : tensor<70000xf32>) -> tensor<70000xf32> {
      %y = loops.nest (%i : 70000) outs(%o : tensor<70000xf32>) {
        %a = loops.load %x[%i] : tensor<70000xf32>
        loops.store %a, %o[%i] : tensor<70000xf32>
      }
      func.return %y : tensor<70000xf32>
    }""")
    assert not any("registers" in one for one in candidates(analysed(copies), REFERENCE))


PARTS = """
func.func @main(%x : tensor<256x8192x7xf32>) -> tensor<256x7xf32> {
  %y = loops.nest (%p : 256, %j : 7) outs(%o : tensor<256x7xf32>) {
    %s = loops.reduce sum (%i : 8192) {
      %a = loops.load %x[%p, %i, %j] : tensor<256x8192x7xf32>
      %b = elem.mul %a, %a : f32
      loops.yield %b : f32
    } : f32
    loops.store %s, %o[%p, %j] : tensor<256x7xf32>
  }
  func.return %y : tensor<256x7xf32>
}
"""


def loads_at_first(kernel: KernelText, folder: Path) -> int:
    """How many loads the machine code of a kernel begins before it multiplies anything."""
    (folder / "k.cubin").write_bytes(compile_kernel(kernel, 90).binary)
    command = [triton.knobs.nvidia.cuobjdump.path, "-sass", folder / "k.cubin"]
    code = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return len(re.findall(r"\bLDG\b", code[: code.index(" FMUL ")]))


def test_loads_of_a_round_do_not_wait_for_one_another(tmp_path: Path) -> None:
    """Squares of 7 columns, 16 of a thread a round: told nothing, NVIDIA's assembler lets each of them wait for the one
    before it, which took 3114 us on an H200, and 356 so. When it no longer does, `registers.py` is not needed.
    """
    (kernel,) = texts_of(on_cuda(with_choices(parse(PARTS), ROUNDS)))
    assert kernel.registers == 128
    assert loads_at_first(kernel, tmp_path) >= 12
    assert loads_at_first(replace(kernel, registers=0), tmp_path) < 4
