"""`kernel-to-host`: from values to buffers. Every launch gets memory to write to, views become aliases, and what
arguments are to hold in the end is copied into them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from cuesta.dialects import host, kernel, loops
from cuesta.dialects.aten import CallArguments, Operand
from cuesta.dialects.core.diagnostics import fail
from cuesta.dialects.core.entry import entry_function, written_arguments
from cuesta.dialects.core.operation import ops_of, replace_all_uses
from cuesta.dialects.func import FuncOp, ReturnOp
from cuesta.dialects.layout import sizes_of, strided_view, tensor_type_of
from cuesta.dialects.loops.surgery import remove
from cuesta.transforms.host.aliasing import memory_of


@dataclass(frozen=True)
class KernelToHostPass(ModulePass):
    """@main becomes a `host.func`; the kernels stay as they are.

    kernel.launch -> host.alloc of each out, host.launch · loops.view, loops.words -> host.reinterpret
    loops.join -> host.alloc, and a host.reinterpret in the place of the host.alloc of each part
    loops.extern -> host.extern
    a result that `aten.writes_to` names -> a copy at the end
    """

    name = "kernel-to-host"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = entry_function(op)
        if not isinstance(main, FuncOp):
            fail(main, "kernel-to-host takes a func.func @main")
        kernels = {inner.sym_name: inner for inner in op.body.ops if isinstance(inner, kernel.FuncOp)}
        for inner in ops_of(main.body.block):
            lower_op(inner, kernels)
        written = written_arguments(main)
        outputs = list(main.function_type.outputs)
        if written:
            outputs = outputs[: len(outputs) - len(written)]
            write_arguments(main.body.block, written)
        attributes = {key: value for key, value in main.attributes.items() if key not in ("sym_name", "function_type")}
        function_type = main.function_type
        region = main.detach_region(main.body)
        new = host.FuncOp.build(
            "main", FunctionType.from_lists(list(function_type.inputs), outputs), region, attributes
        )
        new.location = main.location
        block = main.parent
        assert block is not None
        block.insert_op_before(new, main)
        remove(main)


def lower_op(op: Operation, kernels: Mapping[str, kernel.FuncOp]) -> None:
    """Replaces one op of @main by its ops on buffers. What a kernel updates stays in the buffer where it is."""
    if isinstance(op, kernel.LaunchOp):
        callee = kernels.get(op.kernel)
        updates = 0 if callee is None else callee.updates
        buffers = [host.AllocOp.build(result.type) for result in op.results[: len(op.results) - updates]]
        for buffer, result in zip(buffers, op.results, strict=False):
            buffer.result.name_hint = result.name_hint
        inputs, taken_over = op.operands[: len(op.operands) - updates], op.operands[len(op.operands) - updates :]
        outs = [*(buffer.result for buffer in buffers), *taken_over]
        replace(op, [*buffers, host.LaunchOp.build(op.kernel, [*inputs, *outs])], outs)
    elif isinstance(op, loops.ViewOp):
        if not op.is_alias:
            fail(op, "a view that strides cannot say is left; materialize-views should have made it a copy")
        result_type = tensor_type_of(op.result)
        found = strided_view(op.map, tensor_type_of(op.source), sizes_of(result_type))
        offset = 0 if found is None or 0 in sizes_of(result_type) else found[1]
        alias = host.ReinterpretOp.build(op.source, offset, result_type)
        replace(op, [alias], list(alias.results))
    elif isinstance(op, loops.WordsOp):
        words = host.ReinterpretOp.build(op.source, 0, op.result.type)
        replace(op, [words], list(words.results))
    elif isinstance(op, loops.JoinOp):
        join_parts(op)
    elif isinstance(op, loops.ExternOp):
        call = host.ExternOp.of(
            op.overload, op.operands, op.arguments_attr, [result.type for result in op.results], pure=op.is_pure
        )
        replace(op, [call], list(call.results))
    elif isinstance(op, ReturnOp):
        end = host.ReturnOp.build(op.operands)
        end.location = op.location
        replace(op, [end], [])


def join_parts(op: loops.JoinOp) -> None:
    """The whole is a buffer, and its parts, which launches write, are aliases in it."""
    block, parts = op.parent, [part.owner for part in op.operands]
    assert block is not None
    if not all(isinstance(part, host.AllocOp) for part in parts):
        fail(op, "joins what no launch writes to memory of its own")
    whole = host.AllocOp.build(op.result.type)
    whole.location = op.location
    block.insert_op_before(whole, next(one for one in block.ops if one in parts))
    for part, operand, offset in zip(parts, op.operands, op.offsets, strict=True):
        assert isinstance(part, host.AllocOp)
        alias = host.ReinterpretOp.build(whole.result, offset, operand.type)
        replace(part, [alias], list(alias.results))
    replace(op, [], [whole.result])


def write_arguments(block: Block, written: Sequence[int]) -> None:
    """return a, b, %new  ->  copy_(%argument, %new); return a, b

    All values are those from before any of the writes: one that lies in an argument that is written to is kept in a
    copy.
    """
    end = block.last_op
    assert isinstance(end, host.ReturnOp)
    arguments = [block.args[position] for position in written]
    returned, values = end.operands[: -len(written)], end.operands[-len(written) :]
    writes = [(to, value) for to, value in zip(arguments, values, strict=True) if to is not value]
    clobbered = set[SSAValue](arguments) if len(writes) > 1 else set[SSAValue]()
    copies: list[host.ExternOp] = []
    sources: dict[SSAValue, SSAValue] = {}
    for to, value in writes:
        if value in sources:
            continue
        sources[value] = value
        if not clobbered.isdisjoint(memory_of(value)) or to in memory_of(value):
            copy = call("aten.clone.default", (value,), value.type)
            copies.append(copy)
            sources[value] = copy.results[0]
    for to, value in writes:
        copies.append(call("aten.copy_.default", (to, sources[value]), to.type))
    made: list[Operation] = [*copies, host.ReturnOp.build(returned)]
    for op in made:
        op.location = end.location
    replace(end, made, [])


def call(overload: str, operands: Sequence[SSAValue], result_type: Attribute) -> host.ExternOp:
    """A call of an overload with its operands in order."""
    arguments = CallArguments.of(tuple(Operand(position) for position in range(len(operands))))
    return host.ExternOp.of(overload, operands, arguments, [result_type], pure=False)


def replace(op: Operation, new: list[Operation], results: list[SSAValue]) -> None:
    """Puts `new` in the place of `op`."""
    block = op.parent
    assert block is not None
    for made in new:
        made.location = op.location
    block.insert_ops_before(new, op)
    for old, value in zip(op.results, results, strict=True):
        value.name_hint = value.name_hint or old.name_hint
        replace_all_uses(old, value)
    remove(op)
