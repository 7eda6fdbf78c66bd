"""`func.func` and `func.return` are written and read as xDSL's are, and refused where these are."""

from __future__ import annotations

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from cuesta.context import DIALECTS, dialect_loader
from cuesta.dialects import func
from cuesta.dialects.core.contracts import check_level
from cuesta.dialects.core.diagnostics import verify_module
from cuesta.dialects.core.locations import print_text
from cuesta.dialects.levels import KERNEL
from cuesta.lowering.kernel.kernel_to_host import KernelToHostPass
from cuesta.lowering.kernel.loops_to_kernel import LoopsToKernelPass
from tests.support.text import parse

TEXTS = (
    "func.func @main(%a: i32) -> i32 {\n  func.return %a : i32\n}",
    "func.func @main(%a: i32, %b: i64) -> (i64, i32) attributes {a.b = [0 : i64], c} {\n"
    "  func.return {x = 1 : i64} %b, %a : i64, i32\n}",
    "func.func @main() {\n  func.return\n}",
    "func.func private @other(i32, f32) -> i32",
    "func.func @main(%a: i32 {some.name = 3 : i64}) -> (i32 {other.name}) {\n  func.return %a : i32\n}",
    "func.func public @main(%a: i32) {\n  func.return {seen}\n}",
)


@pytest.mark.parametrize("text", TEXTS)
def test_the_text_is_that_of_xdsl(text: str) -> None:
    module = parse(f"builtin.module {{ {text} }}")
    verify_module(module)
    (function,) = module.body.ops
    assert isinstance(function, func.FuncOp)
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(Func)
    theirs = Parser(context, f"builtin.module {{ {text} }}").parse_module()
    theirs.verify()
    printed = print_text(module)
    assert printed.strip() == str(theirs).strip()
    assert print_text(parse(printed)) == printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("func.func @main(%a: i32) -> i64 { func.return %a : i32 }", "same types as the function output"),
        ("func.func @main(%a: i32) -> i32 { func.return }", "same types as the function output"),
        (
            '"func.func"() <{sym_name = "main", function_type = (i64) -> ()}> ({ ^start(%a: i32): func.return }) : () -> ()',
            "same types as the function input",
        ),
        ('"func.func"() <{sym_name = "main"}> ({ func.return }) : () -> ()', "needs the property `function_type`"),
        ('"func.func"() <{function_type = () -> ()}> ({ func.return }) : () -> ()', "needs the property `sym_name`"),
        (
            '"func.func"() <{sym_name = "f", function_type = () -> (), arg_attrs = 3}> ({ func.return }) : () -> ()',
            "list of dictionaries",
        ),
        ("builtin.module { func.return }", "func.return ends a func.func"),
    ],
)
def test_what_does_not_fit_is_refused(text: str, message: str) -> None:
    with pytest.raises(VerifyException, match=message):
        parse(f"builtin.module {{ {text} }}").verify()


def test_passes_take_what_stock_xdsl_reads() -> None:
    """Its driver has a dialect `func` of its own, whose ops our passes meet."""
    context = Context()
    for name, place in DIALECTS.items():
        context.register_dialect(name, dialect_loader(place))
    context.load_dialect(Builtin)
    context.load_dialect(Func)
    text = """builtin.module {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %y = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {
      %a = loops.load %x[%i] : tensor<8xf32>
      %b = elem.add %a, %a : f32
      loops.store %b, %o[%i] : tensor<8xf32>
    }
    func.return %y : tensor<8xf32>
  }
}"""
    module = Parser(context, print_text(parse(text))).parse_module()
    (function,) = module.body.ops
    assert type(function) is not func.FuncOp and isinstance(function, func.FuncOp)
    assert isinstance(function.body.block.last_op, func.ReturnOp) and not isinstance(function, func.ReturnOp)
    LoopsToKernelPass().apply(context, module)
    check_level(module, KERNEL, established_by="loops-to-kernel")
    KernelToHostPass().apply(context, module)
    assert "host.launch" in print_text(module) and "func.func" not in print_text(module)
