"""The `loops` dialect: every op prints, parses back, and refuses what it does not mean."""

# the printer does not break lines

from __future__ import annotations

import pytest
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from cuesta.context import make_context
from cuesta.dialects import loops
from tests.support.text import round_trip_in_xdsl

PROGRAM = """\
builtin.module {
  func.func @main(%x: tensor<4x8xf32>, %k: tensor<4xi64>, %d: tensor<?x8xf32, #aten.layout<sizes = [s0, 8]>>) -> tensor<4x8xf32> attributes {sym.symbols = #sym.symbols<s0 in [2, 4096]>} {
    %v = loops.view %x by (d0, d1) -> (d1, d0) : tensor<4x8xf32> to tensor<8x4xf32>
    %y, %z = loops.nest (%i : 4) outs(%o: tensor<4x8xf32>, %p: tensor<4xi64>) {
      %m, %at = loops.reduce argmax (%j : 8) {
        %a = loops.load %x[%i, %j] : tensor<4x8xf32>
        loops.yield %a : f32
      } : f32, i64
      loops.store %at, %p[%i] : tensor<4xi64>
      %q = loops.load %k[%i] : tensor<4xi64>
      %b = loops.bound %q, s0 wrap : i64
      %c = loops.bound %q, 4 : i64
      %t = elem.constant true : i1
      %w = elem.constant -inf : f32
      loops.for (%j : 4, %l : 2) {
        %e = loops.load %d[%b, %j * 2 + %l] if %t else %w : tensor<?x8xf32, #aten.layout<sizes = [s0, 8]>>
        %f = loops.index [%i * 8 + %c + s0] : i64
        %g = elem.convert %f : i64 to f32
        %h = elem.add %e, %g : f32
        loops.store %h, %o[%i, %j * 2 + %l] if %t : tensor<4x8xf32>
      }
    }
    %r = loops.nest () outs(%s: tensor<f32>) {
      %u = loops.load %x[3, 7] : tensor<4x8xf32>
      loops.store %u, %s[] : tensor<f32>
    }
    %n = loops.nest (%i : s0 * 4) outs(%o: tensor<?xf32, #aten.layout<sizes = [s0 * 4]>>) {
      %u = loops.load %d[%i floordiv 4, (%i mod 4) * 2] : tensor<?x8xf32, #aten.layout<sizes = [s0, 8]>>
      loops.store %u, %o[%i] : tensor<?xf32, #aten.layout<sizes = [s0 * 4]>>
    }
    func.return %y : tensor<4x8xf32>
  }
}"""


def test_round_trip() -> None:
    round_trip_in_xdsl(PROGRAM)


def test_accessors() -> None:
    module = Parser(make_context(), PROGRAM).parse_module()
    nest = next(op for op in module.walk() if isinstance(op, loops.NestOp))
    assert nest.sizes == (4,)
    assert [str(handle.type) for handle in nest.handles] == ["tensor<4x8xf32>", "tensor<4xi64>"]
    masked = next(op for op in nest.walk() if isinstance(op, loops.LoadOp) and op.mask is not None)
    assert len(masked.indices) == masked.map.num_dims == 3
    assert masked.other is masked.operands[-1]


def nest(body: str) -> str:
    return f"""func.func @main(%x : tensor<4x8xf32>) -> () {{
      %y = loops.nest (%i : 4, %j : 8) outs(%o : tensor<4x8xf32>) {{
        {body}
      }}
      func.return
    }}"""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%a = loops.load %x[%i] : tensor<4x8xf32>", "1 indices for 2 axes"),
        ("%a = loops.load %x[%i, %j] : tensor<4x8xf32> loops.store %a, %x[%i, %j] : tensor<4x8xf32>", "only to an out"),
        ("%a = loops.index [%i] : f32", "gives an integer"),
        ("%a = elem.constant 1.0 : f32 %b = loops.bound %a, 4 : f32", "an index of one integer"),
        ("%s = loops.reduce sum (%k : 4) { %a = elem.constant 1.0 : f32 } : f32", "not a terminator"),
        ("%s = loops.reduce any (%k : 4) { %a = elem.constant 1.0 : f32 loops.yield %a : f32 } : f32", "defined on i1"),
        ("%s = loops.reduce sum (%k : 4) { %a = elem.constant 1 : i64 loops.yield %a : i64 } : f32", "gives i64"),
    ],
)
def test_what_is_refused(body: str, message: str) -> None:
    with pytest.raises((VerifyException, ParseError), match=message):
        Parser(make_context(), nest(body)).parse_module().verify()
