"""`choose-forms` asks of a nest what only its kernel is held to: both say the same."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp

from benchmarks.on_cuda import on_cuda
from cuesta.context import make_context
from cuesta.dialects import loops
from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.locations import CuestaParser
from cuesta.dialects.core.machine import REFERENCE
from cuesta.dialects.kernel.descriptors import described_loads
from cuesta.lowering.kernel.loops_to_kernel import lower_nests
from cuesta.lowering.schedule.choose_forms import form_of
from tests.support.triton_kernels import kernels_in

TILE = "rows = 16, columns = 32, depth = 16, warps = 4, stages = 2, group = 2"


def parse(text: str) -> ModuleOp:
    return CuestaParser(make_context(), text, "<test>").parse_module()


FACTORS = {
    "as they lie": ("[%i, %k]", "[%k, %j]"),
    "transposed": ("[%k, %i]", "[%j, %k]"),
    "an offset": ("[%i + 8, %k + 16]", "[%k, %j]"),
    "an offset that is no multiple of 16 bytes": ("[%i, %k + 3]", "[%k, %j]"),
    "every second point": ("[%i, %k * 2]", "[%k, %j]"),
    "every second row": ("[%i * 2, %k]", "[%k, %j]"),
    "backwards": ("[%i, 63 - %k]", "[%k, %j]"),
    "windows": ("[%i + %k, 8]", "[%k, %j]"),
    "rows of two": ("[%i floordiv 2, %k]", "[%k, %j]"),
    "points of two": ("[%i, %k floordiv 2]", "[%k, %j]"),
    "under a condition": ("[%i, %k] if %t else %z", "[%k, %j]"),
    "in parts of the batch": ("[%q * 8 + %i, %k]", "[%k, %j]"),
    "parts of odd places": ("[%i, %q + %k]", "[%k, %j]"),
    "a row that data choose": ("[%n, %k]", "[%k, %j]"),
}


@pytest.mark.parametrize("name", FACTORS)
def test_who_chooses_knows_what_the_kernel_can_load(name: str) -> None:
    """`choose-forms` looks at addresses of a nest, and `loops-to-kernel` at those of the kernel that it became."""
    left, right = FACTORS[name]
    kind, out = "tensor<128x128xf16>", "tensor<2x64x64xf16>"
    text = f"""
func.func @main(%x : {kind}, %w : {kind}, %g : tensor<64xi64>) -> {out} {{
  %y = loops.nest (%q : 2, %i : 64, %j : 64) outs(%o : {out}) schedule #loops.schedule<SCHEDULE> {{
    %m = loops.load %g[%i] : tensor<64xi64>
    %n = loops.bound %m, 128 : i64
    %s = loops.reduce sum (%k : 64) {{
      %t0 = loops.index [%k] : i64
      %t1 = elem.constant 40 : i64
      %t = elem.lt %t0, %t1 : i64
      %z = elem.constant 0.0 : f16
      %a = loops.load %x{left} : {kind}
      %b = loops.load %w{right} : {kind}
      %c = elem.convert %a : f16 to f32
      %d = elem.convert %b : f16 to f32
      %p = elem.mul %c, %d : f32
      loops.yield %p : f32
    }} : f32
    %r = elem.convert %s : f32 to f16
    loops.store %r, %o[%q, %i, %j] : {out}
  }}
  func.return %y : {out}
}}"""
    module = on_cuda(parse(text.replace("SCHEDULE", TILE)))
    (nest,) = (op for op in entry_block(module).ops if isinstance(op, loops.NestOp))
    chosen = form_of(nest, REFERENCE)
    asked = on_cuda(parse(text.replace("SCHEDULE", f"{TILE}, descriptors = 1")))
    if isinstance(chosen, str):
        try:
            lower_nests(asked, REFERENCE)
        except CuestaError as error:
            assert "asks for descriptors, but" in str(error)
            return
        assert len(described_loads(*kernels_in(asked))) < 2
        return
    assert chosen == {"descriptors": 1}
    lower_nests(asked, REFERENCE)
    assert len(described_loads(*kernels_in(asked))) == 2
