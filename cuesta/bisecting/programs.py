"""What a reduction does to a program: what nobody uses is dropped, a value becomes an argument, a result another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from cuesta.dialects import aten, elem, host, kernel, loops, sym
from cuesta.dialects.aten.call import CallLike
from cuesta.dialects.core.entry import (
    entry_block,
    entry_function,
    frozen,
    frozen_arguments,
    writes_to,
    written_arguments,
)
from cuesta.dialects.core.operation import all_ops, ops_of, replace_all_uses
from cuesta.dialects.layout import is_tensor_type
from cuesta.transforms.dce import drop_unused_outs

Inputs = Sequence[Any] | None


_AROUND = (
    ModuleOp,
    host.AllocOp,
    host.FreeOp,
    kernel.ForOp,
    kernel.FuncOp,
    kernel.ProgramIdOp,
    loops.ForOp,
    loops.NestOp,
)


def ops_in(module: ModuleOp) -> list[Operation]:
    """The ops that a program is made of: what calls, computes, reads and writes. Modules, functions, nests, loops, what
    ends a body, and memory that is allocated and freed are around those, and do not count.
    """
    return [
        op
        for op in all_ops(module)
        if not isinstance(op, _AROUND) and "sym_name" not in op.properties and not op.has_trait(IsTerminator)
    ]


def size_of(module: ModuleOp) -> tuple[int, int, int, int]:
    """How large a program is: ops that are no constants, ops, everything, and what goes in and comes out."""
    ops = ops_in(module)
    block = entry_block(module)
    ends = len(block.args) + (0 if block.last_op is None else len(block.last_op.operands))
    return sum(not isinstance(op, elem.ConstantOp) for op in ops), len(ops), len(all_ops(module)), ends


def last_of(module: ModuleOp) -> Operation:
    """What `@main` ends in."""
    last = entry_block(module).last_op
    assert last is not None, "@main ends in what it returns"
    return last


def return_only(module: ModuleOp, values: Sequence[SSAValue]) -> None:
    """Lets `@main` return these values, and nothing else; arguments are written to no longer, but at `host`."""
    last = last_of(module)
    last.operands = list(values)
    main = entry_function(module)
    for name in ("aten.given", "aten.constants"):
        main.attributes.pop(name, None)
    if not isinstance(main, host.FuncOp):
        main.attributes.pop("aten.writes_to", None)
    for op in main.regions[0].block.ops:
        if isinstance(op, host.LaunchOp):  # what is returned may not be kept
            op.properties.pop("kept", None)
    retype(module)


def retype(module: ModuleOp) -> None:
    """Gives `@main` the type that its arguments and what it returns say."""
    main, block = entry_function(module), entry_block(module)
    main.properties["function_type"] = FunctionType.from_lists(
        [argument.type for argument in block.args], [operand.type for operand in last_of(module).operands]
    )


def as_argument(module: ModuleOp, value: SSAValue) -> None:
    """Puts a new argument, the last one, in the place of a value of `@main`."""
    block = entry_block(module)
    argument = block.insert_arg(value.type, len(block.args))
    argument.name_hint = value.name_hint
    replace_all_uses(value, argument)


def tidy(module: ModuleOp, inputs: Inputs) -> Inputs:
    """Drops what nobody uses: ops, outs of nests, kernels, arguments with their inputs. Gives the inputs that are
    left.
    """
    block = entry_block(module)
    blocks = [block, *_bodies_of_kernels(module)]
    while sum(_drop_unused(one) for one in blocks):
        pass
    launched = {
        op.properties["kernel"] for op in all_ops(module) if isinstance(op, kernel.LaunchOp | host.LaunchOp)
    } if any(isinstance(op, kernel.FuncOp) for op in module.body.ops) else set()  # fmt: skip
    names = {getattr(one, "root_reference", one) for one in launched}
    for op in list(module.body.ops):
        if isinstance(op, kernel.FuncOp) and op.properties["sym_name"] not in names:
            op.detach()
            op.erase()
    kept = _drop_arguments(module, inputs)
    retype(module)
    return kept


def _bodies_of_kernels(module: ModuleOp) -> list[Block]:
    return [op.body for op in module.body.ops if isinstance(op, kernel.FuncOp)]


def _drop_unused(block: Block) -> bool:
    changed = False
    for op in reversed(ops_of(block)):
        if op.parent is None:
            continue
        for region in op.regions:
            for inner in region.blocks:
                changed |= _drop_unused(inner)
        if isinstance(op, loops.NestOp) and any(result.first_use is None for result in op.results):
            changed |= drop_unused_outs(op) is not op
        elif _may_go(op):
            op.detach()
            op.erase()
            changed = True
    return changed


def _may_go(op: Operation) -> bool:
    if any(result.first_use is not None for result in op.results) or op.has_trait(IsTerminator):
        return False
    if isinstance(op, loops.StatementOp | kernel.ForOp):
        return all(len(ops_of(block)) == 0 or _is_end(block) for region in op.regions for block in region.blocks)
    if isinstance(op, host.FreeOp):
        return not op.operands
    if isinstance(op, loops.ExternOp | host.ExternOp):
        return bool(op.results) and op.is_pure
    return bool(op.results) and not (isinstance(op, CallLike) and not isinstance(op, aten.AtenOp))


def _is_end(block: Block) -> bool:
    ops = ops_of(block)
    return len(ops) == 1 and ops[0].has_trait(IsTerminator)


def _drop_arguments(module: ModuleOp, inputs: Inputs) -> Inputs:
    """Arguments that nobody uses, if no attribute names one by its position but those that are moved with it."""
    main, block = entry_function(module), entry_block(module)
    if "aten.by_storage" in main.attributes:
        return inputs
    written, same = written_arguments(main), frozen_arguments(main)
    dead = [
        argument
        for argument in block.args
        if argument.first_use is None
        and argument.index not in written
        and (is_tensor_type(argument.type) or not isinstance(argument.type, sym.IntType))
    ]
    if not dead:
        return inputs
    positions = {argument.index for argument in dead}
    kept = [position for position in range(len(block.args)) if position not in positions]
    if written:
        main.attributes["aten.writes_to"] = writes_to([kept.index(one) for one in written])
    if same:
        main.attributes["aten.frozen"] = frozen([kept.index(one) for one in same if one in kept])
    for argument in dead:
        block.erase_arg(argument)
    return None if inputs is None else [inputs[position] for position in kept]


def values_of(module: ModuleOp) -> list[SSAValue]:
    """The tensors that ops of `@main` give, in order; memory to be written is none yet."""
    ops = [op for op in ops_of(entry_block(module)) if not isinstance(op, host.AllocOp)]
    return [result for op in ops for result in op.results if is_tensor_type(result.type)]
