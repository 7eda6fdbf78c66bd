"""`kernel-to-host`: from values to buffers. Every launch gets memory to write to, views become aliases."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from cuesta.dialects import host, kernel, loops
from cuesta.dialects.core.diagnostics import fail
from cuesta.dialects.core.entry import entry_function
from cuesta.dialects.layout import sizes_of, strided_view, tensor_type_of
from cuesta.dialects.loops.surgery import remove


@dataclass(frozen=True)
class KernelToHostPass(ModulePass):
    """@main becomes a `host.func`; the kernels stay as they are.

    kernel.launch -> host.alloc of each out, host.launch · loops.view -> host.reinterpret · loops.extern -> host.extern.
    """

    name = "kernel-to-host"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = entry_function(op)
        if not isinstance(main, FuncOp):
            fail(main, "kernel-to-host takes a func.func @main")
        for inner in list(main.body.block.ops):
            lower_op(inner)
        attributes = {key: value for key, value in main.attributes.items() if key not in ("sym_name", "function_type")}
        function_type = main.function_type
        region = main.detach_region(main.body)
        new = host.FuncOp.build(
            "main", FunctionType.from_lists(list(function_type.inputs), list(function_type.outputs)), region, attributes
        )
        new.location = main.location
        block = main.parent
        assert block is not None
        block.insert_op_before(new, main)
        remove(main)


def lower_op(op: Operation) -> None:
    """Replaces one op of @main by its ops on buffers."""
    if isinstance(op, kernel.LaunchOp):
        buffers = [host.AllocOp.build(result.type) for result in op.results]
        for buffer, result in zip(buffers, op.results, strict=True):
            buffer.result.name_hint = result.name_hint
        launch = host.LaunchOp.build(op.kernel, [*op.operands, *(buffer.result for buffer in buffers)])
        replace(op, [*buffers, launch], [buffer.result for buffer in buffers])
    elif isinstance(op, loops.ViewOp):
        if not op.is_alias:
            fail(op, "a view that strides cannot say is left; materialize-views should have made it a copy")
        result_type = tensor_type_of(op.result)
        found = strided_view(op.map, tensor_type_of(op.source), sizes_of(result_type))
        offset = 0 if found is None or 0 in sizes_of(result_type) else found[1]
        alias = host.ReinterpretOp.build(op.source, offset, result_type)
        replace(op, [alias], list(alias.results))
    elif isinstance(op, loops.ExternOp):
        call = host.ExternOp.of(
            op.overload, op.operands, op.arguments_attr, [result.type for result in op.results], pure=op.is_pure
        )
        replace(op, [call], list(call.results))
    elif isinstance(op, ReturnOp):
        replace(op, [host.ReturnOp.build(op.operands)], [])


def replace(op: Operation, new: list[Operation], results: list[SSAValue]) -> None:
    """Puts `new` in the place of `op`."""
    block = op.parent
    assert block is not None
    for made in new:
        made.location = op.location
    block.insert_ops_before(new, op)
    for old, value in zip(op.results, results, strict=True):
        value.name_hint = value.name_hint or old.name_hint
        old.replace_all_uses_with(value)
    remove(op)
