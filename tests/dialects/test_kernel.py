"""The `kernel` dialect: every op prints, parses back, and refuses what it does not mean."""

# the printer does not break lines

from __future__ import annotations

import pytest
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from cuesta.context import make_context
from cuesta.dialects import kernel, sym
from tests.support.text import round_trip_in_xdsl

PROGRAM = """\
builtin.module {
  kernel.func @softmax_0(%x: !kernel.ptr<f32>, %k: !kernel.ptr<i64>) outs(%y: !kernel.ptr<f32>) symbols(s0) schedule #kernel.schedule<grid = [(s0 + 3) floordiv 4, 2], parallel = 1, unroll = 4> {
    %p = kernel.program_id 0
    %q = kernel.program_id 1
    %t = kernel.local 1024 : !kernel.ptr<f32>
    %m = kernel.reduce maximum (%r = 0 to 2, %j = 0 to 1024 lanes 8) {
      %a = kernel.load %x[%p * 2048 + %r * 1024 + %j] : vector<8xf32>
      kernel.store %a, %t[%j] : vector<8xf32>
      kernel.yield %a : vector<8xf32>
    } : f32
    %mv = kernel.broadcast %m : f32 to vector<8xf32>
    kernel.for (%i = %p * 4 to min(%p * 4 + 4, s0), %j = %q * 64 to %q * 64 + 64 lanes 8) {
      %n = kernel.index [%i * 64 + %j] : vector<8xi64>
      %b = kernel.bound %n, s0 wrap : vector<8xi64>
      %c = elem.lt %n, %n : vector<8xi64>
      %d = kernel.load %x[%b] if %c else %mv : vector<8xf32>
      %e = kernel.load %x[%i] if %c else %mv : vector<8xf32>
      %s = kernel.load %k[%i] : i64
      %u = kernel.bound %s, 7 : i64
      %f = kernel.load %x[%j + %u * 64] : vector<8xf32>
      %g = elem.add %d, %e : vector<8xf32>
      %h = elem.add %f, %g : vector<8xf32>
      kernel.store %h, %y[%i * 64 + %j] if %c : vector<8xf32>
      %v, %w = kernel.reduce welford (%l = 0 to 3) {
        %z = kernel.load %x[%j + %l] : vector<8xf32>
        kernel.yield %z : vector<8xf32>
      } : vector<8xf32>, vector<8xf32>
    }
  }
  func.func @main(%x: tensor<?xf32, #aten.layout<sizes = [s0]>>, %k: tensor<7xi64>) -> tensor<4xf32> {
    %y = kernel.launch @softmax_0(%x, %k) : (tensor<?xf32, #aten.layout<sizes = [s0]>>, tensor<7xi64>) -> (tensor<4xf32>)
    func.return %y : tensor<4xf32>
  }
}"""


def test_round_trip() -> None:
    round_trip_in_xdsl(PROGRAM)


def test_accessors() -> None:
    module = Parser(make_context(), PROGRAM).parse_module()
    func = next(op for op in module.walk() if isinstance(op, kernel.FuncOp))
    assert func.symbols == ("s0",) and len(func.inputs) == 2 and len(func.outs) == 1
    assert func.schedule.grid[1] == 2
    assert func.schedule.choices == {"parallel": 1, "unroll": 4}
    loop = next(op for op in func.walk() if isinstance(op, kernel.ForOp))
    assert loop.lanes == 8
    assert str(loop.induction_variables[1].type) == "vector<8xindex>"
    assert sym.symbols_of(loop.uppers.results[0]) == {"s0"}


SCHEDULE = "#kernel.schedule<grid = [4]>"


def func(body: str) -> str:
    return f"""kernel.func @k(%x : !kernel.ptr<f32>) outs(%y : !kernel.ptr<f32>) schedule {SCHEDULE} {{
      {body}
    }}"""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%p = kernel.program_id 1", "the grid has 1 axes"),
        ("%a = kernel.load %x[0] : vector<8xf32>", "gives f32"),
        ("kernel.for (%j = 0 to 8 lanes 8) { %a = kernel.load %x[%j] : f32 }", "does not fit|gives vector"),
        ("kernel.for (%i = 0 to 8 lanes 8, %j = 0 to 8) { }", "only the last axis has lanes"),
        (
            "%c = elem.constant 1.0 : f32 kernel.for (%j = 0 to 8 lanes 8) { kernel.store %c, %y[%j] : f32 }",
            "does not fit|writes vector",
        ),
        (
            "%s = kernel.reduce sum (%j = 0 to 8 lanes 8) { %c = elem.constant 1.0 : f32 kernel.yield %c : f32 } : f32",
            "8 lanes yield a vector",
        ),
        ("%c = elem.constant 1.0 : f32 %v = kernel.broadcast %c : f32 to vector<8xf64>", "does not make"),
        ("kernel.for (%j = 0 to s0) { }", "uses s0, not among its symbols"),
    ],
)
def test_what_is_refused(body: str, message: str) -> None:
    with pytest.raises((VerifyException, ParseError), match=message):
        Parser(make_context(), func(body)).parse_module().verify()
