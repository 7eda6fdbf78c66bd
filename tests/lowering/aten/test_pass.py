"""What the pass does around the rules: what it leaves alone, what it carries over, what it says."""

from __future__ import annotations

from collections import Counter

from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr, f32, i1
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from cuesta.dialects import loops
from cuesta.dialects.aten import AtenOp, CallOp, dtype_to_type, op_class
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.tracing import trace_rewrites
from cuesta.dialects.func import FuncOp, ReturnOp
from cuesta.dialects.layout import tensor_type
from cuesta.lowering.aten.aten_to_loops import FAMILIES, AtenToLoopsPass


def lowered(call: AtenOp | CallOp, arguments: list[Attribute], block: Block) -> list[Operation]:
    """The ops of @main after the pass."""
    block.add_ops([call, ReturnOp.build(call.results)])
    results = [result.type for result in call.results]
    module = ModuleOp([FuncOp.build("main", arguments, results, Region(block))])
    AtenToLoopsPass().apply(Context(), module)
    module.verify()
    return list(entry_block(module).ops)


def add(first: Attribute, second: Attribute, result: Attribute) -> tuple[AtenOp, list[Attribute], Block]:
    block = Block(arg_types=[first, second])
    values: tuple[SSAValue, ...] = block.args
    return op_class("aten.add.Tensor").build(list(values), result_types=[result]), [first, second], block


def test_an_overload_has_one_rule() -> None:
    counts = Counter(overload for family in FAMILIES for overload in family)
    assert len(counts) > 300
    assert not [overload for overload, count in counts.items() if count > 1]


def test_a_call_over_several_devices_is_left_to_eager():
    on_gpu = tensor_type((4,), f32, None, "cuda:0")
    with trace_rewrites() as trace:
        ops = lowered(*add(on_gpu, tensor_type((), f32), on_gpu))
    assert isinstance(ops[0], loops.ExternOp)
    assert "several devices, cuda:0 and cpu" in trace.summary()


def test_what_has_no_arithmetic_is_left_to_eager():
    number = tensor_type((4,), dtype_to_type("complex32"))
    (extern, _) = lowered(*add(number, number, number))
    assert isinstance(extern, loops.ExternOp) and extern.is_pure


def test_an_unknown_overload_is_called_and_impure():
    vector = tensor_type((4,), f32)
    block = Block(arg_types=[vector])
    call = CallOp.build("mylib::foo.default", [block.args[0], "mode"], result_types=[vector])
    (extern, _) = lowered(call, [vector], block)
    assert isinstance(extern, loops.ExternOp)
    assert extern.overload == "mylib::foo.default" and not extern.is_pure


def test_locations_and_names_are_carried_over():
    vector = tensor_type((4,), f32)
    call, arguments, block = add(vector, vector, vector)
    call.location = FileLineColLoc(StringAttr("model.py"), IntAttr(7), IntAttr(0))
    call.results[0].name_hint = "sum"
    (nest, _) = lowered(call, arguments, block)
    assert all(op.location == call.location for op in nest.walk())
    assert nest.results[0].name_hint == "sum"


def test_a_rule_that_declines_leaves_nothing_behind():
    numbers = tensor_type((4,), i1)
    block = Block(arg_types=[numbers])
    call = op_class("aten.remainder.Tensor").build([block.args[0], block.args[0]], result_types=[numbers])
    assert [op.name for op in lowered(call, [numbers], block)] == ["loops.extern", "func.return"]
