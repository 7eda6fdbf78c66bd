"""What a host program says of pieces and of eager: text, and what the verifiers refuse."""

from __future__ import annotations

import pytest
import torch
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import ParseError

from cuesta.context import make_context
from cuesta.dialects import host, kernel
from cuesta.dialects.core.diagnostics import CuestaError, verify_module
from cuesta.dialects.core.locations import CuestaParser
from cuesta.pipeline import level_of, run_pipeline, stages_of
from cuesta.targets.reference import run
from cuesta.targets.reference.errors import InterpreterError
from tests.support.levels import check_text

COLUMNS = "tensor<?x1xi64, #aten.layout<sizes = [u0, 1]>>"
PROGRAM = f"""
builtin.module @piece_0 {{
  func.func @main(%x : tensor<8xf32>) -> tensor<8xf32> {{
    %y = aten.relu.default(%x) : (tensor<8xf32>) -> tensor<8xf32>
    func.return %y : tensor<8xf32>
  }}
}}
host.func @main(%x : tensor<8xf32>, %o : !host.object) -> (!sym.int<u0>, {COLUMNS}) attributes
    {{sym.symbols = #sym.symbols<u0 in [0, 8]>, aten.constants = ["o"]}} {{
  %y = host.call @piece_0(%x) last [0] : (tensor<8xf32>) -> (tensor<8xf32>)
  %f = host.function single @piece_0() : ()
  %g = host.operator "aten.nonzero.default"
  %z = host.eager "aten.nonzero.default"(%y) : (tensor<8xf32>) -> !host.object
  %p = host.eager "builtins.tuple"([%z, %f, %g]) : (!host.object, !host.object, !host.object) -> !host.object
  host.bind u0 = %p item 0 size 0 divide 1 : !host.object
  %t = host.check "aten.nonzero.default" %z : !host.object to {COLUMNS}
  host.free %p, %y : !host.object, tensor<8xf32>
  %n = sym.value : !sym.int<u0>
  host.return %n, %t : !sym.int<u0>, {COLUMNS}
}}
"""


def parsed(text: str) -> ModuleOp:
    module = CuestaParser(make_context(), text, "test.mlir").parse_module()
    verify_module(module)
    return module


def test_text_and_meaning() -> None:
    module = check_text(parsed(PROGRAM), generic=True)
    assert level_of(module) == "aten" and len(host.programs_of(module)) == 1
    x = torch.tensor([1.0, -1.0, 2.0, 0.0, 3.0, -2.0, -3.0, -4.0])
    assert [value.tolist() if isinstance(value, torch.Tensor) else value for value in run(module, [x, None])] == [
        3,
        [[0], [2], [4]],
    ]
    assert run(module, [-x.abs(), None])[0] == 0, "no elements"


def test_where_a_tensor_begins() -> None:
    text = """
host.func @main(%x : !host.object) -> (!sym.int<u0>) attributes {sym.symbols = #sym.symbols<u0 in [0, 8]>} {
  %p = host.eager "builtins.tuple"([%x]) : (!host.object) -> !host.object
  host.bind u0 = %p item 0 storage_offset : !host.object
  %n = sym.value : !sym.int<u0>
  host.return %n : !sym.int<u0>
}
"""
    module = check_text(parsed(text), generic=True)
    assert run(module, [torch.arange(8)[3:]]) == [3]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("last [0]", "last [1]", "by position which operands are used no more"),
        ("item 0 size 0", "item 0 length 0", "a step is one of item, size, stride, divide"),
        ("host.free %p, %y", "host.free %n, %y", "but used with type"),
    ],
)
def test_what_is_refused(old: str, new: str, message: str) -> None:
    assert old in PROGRAM
    with pytest.raises((CuestaError, ParseError), match=message):
        parsed(PROGRAM.replace(old, new))


@pytest.mark.parametrize(
    ("op", "message"),
    [
        ('%z = host.eager "aten.sum.default"(%x) : (tensor<8xf32>) -> tensor<8xf32>', "gives one !host.object"),
        ('%z = host.check "aten.sum.default" %x : tensor<8xf32> to !host.object', "host.check gives a tensor"),
        ('"host.bind"(%x) {symbol = "u 0", steps = []} : (tensor<8xf32>) -> ()', "host.bind needs the property"),
        ('"host.bind"(%x) <{symbol = "u 0", steps = []}> : (tensor<8xf32>) -> ()', "'u 0' is no name of a symbol"),
        ('"host.bind"(%x) <{symbol = "u0", steps = [1]}> : (tensor<8xf32>) -> ()', "a step is one of"),
        (
            '"host.bind"(%x) <{symbol = "u0", steps = [["storage_offset", 1 : i64]]}> : (tensor<8xf32>) -> ()',
            "there is no storage_offset 1",
        ),
        ("host.free %n : !sym.int<4>", "host.free frees buffers, not !sym.int<4>"),
    ],
)
def test_an_op_that_is_refused(op: str, message: str) -> None:
    with pytest.raises((CuestaError, ParseError), match=message):
        parsed(f"host.func @main(%x : tensor<8xf32>, %n : !sym.int<4>) -> () {{\n{op}\nhost.return\n}}\n")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("host.call @piece_0", "host.call @piece_1", "there is no @piece_1"),
        ('eager "aten.nonzero.default"', 'eager "aten.nonzer.default"', "there is no operator aten.nonzer.default"),
        ("item 0 size 0", "item 0 size 2", "u0 is not found"),
        ("<sizes = [u0, 1]>", "<sizes = [u0, 2]>", "the size of axis 1"),
        ("host.free %p, %y : !host.object", "host.free %p, %x : !host.object", "after it was freed"),
    ],
)
def test_what_the_interpreter_refuses(old: str, new: str, message: str) -> None:
    assert old in PROGRAM
    with pytest.raises(InterpreterError, match=message):
        run(parsed(PROGRAM.replace(old, new)), [torch.ones(8), None])


KERNEL = """
  kernel.func @relu_0(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [8]> {
    %i = kernel.program_id 0
    %a = kernel.load %x[%i] : f32
    kernel.store %a, %o[FROM] : f32
  }
  host.func @main(%x : tensor<8xf32>) -> (tensor<8xf32>) {
    %y = host.alloc : tensor<8xf32>
    host.launch @relu_0(%x, %y) : tensor<8xf32>, tensor<8xf32>
    host.return %y : tensor<8xf32>
  }
"""
LINKED = """
builtin.module @piece_0 {SAME}
builtin.module @piece_1 {OTHER}
builtin.module @piece_2 {SAME}
host.func @main(%x : tensor<8xf32>) -> (tensor<8xf32>) {
  %a = host.call @piece_0(%x) : (tensor<8xf32>) -> (tensor<8xf32>)
  %b = host.call @piece_1(%a) last [0] : (tensor<8xf32>) -> (tensor<8xf32>)
  %c = host.call @piece_2(%b) last [0] : (tensor<8xf32>) -> (tensor<8xf32>)
  host.return %c : tensor<8xf32>
}
""".replace("SAME", KERNEL.replace("FROM", "%i")).replace("OTHER", KERNEL.replace("FROM", "7 - %i"))


def test_pieces_become_functions() -> None:
    """Kernels that are alike are one, whatever piece they stand in; others of the same name are not."""
    module = parsed(LINKED)
    x = torch.arange(8.0)
    before = run(module, [x])
    run_pipeline(make_context(), module, stages_of("link-pieces"), verify_each=True)
    linked = check_text(module, generic=True)
    torch.testing.assert_close([before[0], run(linked, [x])[0]], [x.flip(0), x.flip(0)])
    kernels = [op.sym_name for op in linked.body.ops if isinstance(op, kernel.FuncOp)]
    functions = [op.sym_name for op in linked.body.ops if isinstance(op, host.FuncOp)]
    assert kernels == ["relu_0", "relu_1"] and functions == ["piece_0", "piece_1", "piece_2", "main"]
    with pytest.raises(CuestaError, match="only a program at the level `host` can be linked"):
        run_pipeline(make_context(), parsed(PROGRAM), stages_of("link-pieces"))
