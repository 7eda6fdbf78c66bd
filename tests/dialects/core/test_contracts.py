from __future__ import annotations

from time import perf_counter

import pytest
from xdsl.dialects.builtin import ModuleOp, UnrealizedConversionCastOp, i32
from xdsl.ir import Block, Region

from cuesta.context import make_context
from cuesta.dialects import func
from cuesta.dialects.core.contracts import Contract, check_level, entry_holds_only, nowhere
from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic, fail, verify_module
from cuesta.dialects.core.dominance import verify_dominance
from cuesta.dialects.core.locations import CuestaParser


def parse(text: str) -> ModuleOp:
    context = make_context()
    context.allow_unregistered = True
    return CuestaParser(context, text, "program.mlir").parse_module()


WITH_CAST = """\
func.func @main(%a: i32) -> i32 {
  %b = builtin.unrealized_conversion_cast %a : i32 to i32 loc("model.py":42:0)
  func.return %b : i32
}
"""


def test_a_kept_contract_is_silent() -> None:
    allowed = entry_holds_only(UnrealizedConversionCastOp, func.ReturnOp)
    check_level(parse(WITH_CAST), Contract("loops", (allowed,)), established_by="some-pass")


def test_a_broken_contract_names_op_level_and_pass() -> None:
    contract = Contract("kernel", (entry_holds_only(func.ReturnOp),))
    with pytest.raises(CuestaError) as raised:
        check_level(parse(WITH_CAST), contract, established_by="loops-to-kernel")
    message = str(raised.value)
    assert message.startswith("program.mlir:2  builtin.unrealized_conversion_cast: may not stand in @main")
    assert "  from: model.py:42\n" in message
    assert "the contract of kernel" in message
    assert "stage: loops-to-kernel" in message


def test_many_offenders_are_cut_short() -> None:
    casts = "".join(f"  %{n} = builtin.unrealized_conversion_cast %a : i32 to i32\n" for n in range(9))
    module = parse(f"func.func @main(%a: i32) {{\n{casts}  func.return\n}}")
    contract = Contract("kernel", (nowhere(UnrealizedConversionCastOp, because="a cast is left"),))
    with pytest.raises(CuestaError) as raised:
        check_level(module, contract, established_by="some-pass")
    assert str(raised.value).count("a cast is left") == 5
    assert "and more" in str(raised.value)


def test_diagnostic_format() -> None:
    error = CuestaError(Diagnostic("dims [0, 0] is no permutation", "model.py:42", "aten.permute", "tensor<4xf32>"))
    error.add_context(stage="eliminate-views", repeat="cuesta-opt a.mlir -p eliminate-views")
    error.add_context(stage="a later one", repeat="another")
    assert str(error) == (
        "model.py:42  aten.permute: dims [0, 0] is no permutation\n"
        "  got: tensor<4xf32>    stage: eliminate-views\n"
        "  repeat: cuesta-opt a.mlir -p eliminate-views"
    )


def test_fail_says_the_operand_types() -> None:
    cast = next(op for op in parse(WITH_CAST).walk() if isinstance(op, UnrealizedConversionCastOp))
    with pytest.raises(CuestaError, match="got: i32"):
        fail(cast, "no")


def test_verify_names_the_op_at_fault() -> None:
    module = parse("func.func @main(%a: i32) -> i64 {\n  func.return %a : i32\n}")
    with pytest.raises(CuestaError, match=r"^program.mlir:2  func.return: "):
        verify_module(module)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('"test.use"(%b) : (i32) -> () %b = "test.def"() : () -> i32', "%b is used before test.def defines it"),
        # What a region defines is not visible after it.
        (
            '"test.region"() ({ %b = "test.def"() : () -> i32 "test.use"(%b) : (i32) -> () }) : () -> ()'
            ' "test.use"(%a) : (i32) -> ()',
            None,
        ),
    ],
)
def test_dominance(body: str, message: str | None) -> None:
    module = parse(f"func.func @main(%a: i32) {{ {body} func.return }}")
    if message is None:
        verify_dominance(module)
        return
    with pytest.raises(CuestaError, match=message):
        verify_dominance(module)


def test_a_value_of_an_inner_region_is_not_visible_outside() -> None:
    module = parse(
        'func.func @main() { "test.region"() ({ %b = "test.def"() : () -> i32 "test.use"(%b) : (i32) -> () })'
        ' : () -> () %c = "test.def"() : () -> i32 "test.use"(%c) : (i32) -> () func.return }'
    )
    inner = next(op for op in module.walk() if op.results)
    last_use = [op for op in module.walk() if op.operands][-1]
    last_use.operands[0] = inner.results[0]
    with pytest.raises(CuestaError, match="not visible here"):
        verify_dominance(module)


def test_a_value_of_another_function_is_not_visible() -> None:
    module = parse(
        "func.func @main(%a: i32) -> i32 { func.return %a : i32 }\n"
        "func.func @other(%a: i32) -> i32 { func.return %a : i32 }"
    )
    main, other = module.body.ops
    last = other.regions[0].block.last_op
    assert last is not None
    last.operands[0] = main.regions[0].block.args[0]
    with pytest.raises(CuestaError, match="not visible here"):
        verify_dominance(module)


def test_dominance_is_cheap() -> None:
    function = func.FuncOp.build("main", [i32], [], Region(Block(arg_types=[i32])))
    block = function.body.block
    value = block.args[0]
    count = 2000
    for _ in range(count):
        cast = UnrealizedConversionCastOp.create(operands=[value], result_types=[i32])
        block.add_op(cast)
        value = cast.results[0]
    module = ModuleOp([function])
    best = min(_seconds(module) for _ in range(5))
    assert best / count < 10e-6  # about 0.5 µs an op on an idle machine


def _seconds(module: ModuleOp) -> float:
    start = perf_counter()
    verify_dominance(module)
    return perf_counter() - start
