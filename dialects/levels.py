"""The contracts of the levels: what holds of every program when a level begins. See docs/levels.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue, Use

from cuesta.dialects import aten, func, host, kernel, loops, sym
from cuesta.dialects.core.contracts import Contract, Finding, entry_holds_only
from cuesta.dialects.core.entry import entry_block, entry_function, frozen_arguments, symbol_ranges
from cuesta.dialects.core.operation import all_ops, ops_of
from cuesta.dialects.layout import is_tensor


def loads_read_no_views(module: ModuleOp) -> Iterator[Finding]:
    """View elimination is over: a load reads memory."""
    for op in all_ops(module):
        if type(op) is loops.LoadOp and isinstance(op.source.owner, loops.ViewOp):
            yield op, "reads a view; eliminate-views should have composed the index maps"


def views_are_strided(module: ModuleOp) -> Iterator[Finding]:
    """A view that is left lies in the memory of what it views, with the strides of its type."""
    for op in ops_of(entry_block(module)):
        if isinstance(op, loops.ViewOp) and not op.is_alias:
            yield op, "strides cannot say this view; materialize-views should have made it a copy"


def updates_take_over(module: ModuleOp) -> Iterator[Finding]:
    """What a nest updates is what another nest made, for it alone: it takes over the memory."""
    for op in ops_of(entry_block(module)):
        if isinstance(op, loops.NestOp):
            for operand in op.operands:
                if not isinstance(operand.owner, loops.NestOp) or operand.has_more_than_one_use():
                    yield op, "updates what is not the result of a nest, or has other users"


def joins_take_parts(module: ModuleOp) -> Iterator[Finding]:
    """A part of a tensor is what a nest, or the launch that it became, made for that alone: it is written in its place
    there.
    """
    for op in ops_of(entry_block(module)):
        if isinstance(op, loops.JoinOp):
            for part in op.operands:
                if not isinstance(part.owner, loops.NestOp | kernel.LaunchOp) or part.has_more_than_one_use():
                    yield op, "joins what is not the result of a nest, or has other users"


def launches_fit(module: ModuleOp) -> Iterator[Finding]:
    """Every launch names a kernel of the module and passes what it takes."""
    kernels = {op.sym_name: op for op in module.body.ops if isinstance(op, kernel.FuncOp)}
    symbols = symbol_ranges(module)
    for op in ops_of(entry_block(module)):
        if not isinstance(op, kernel.LaunchOp | host.LaunchOp):
            continue
        callee = kernels.get(op.kernel)
        if callee is None:
            yield op, f"launches @{op.kernel}, which the module does not have"
            continue
        if isinstance(op, kernel.LaunchOp) and len(op.results) != callee.num_outs:
            yield op, f"takes {len(op.results)} results from @{op.kernel}, which has {callee.num_outs} outs"
        if unknown := [symbol for symbol in callee.symbols if symbol not in symbols]:
            yield op, f"launches @{op.kernel}, which uses {', '.join(unknown)}; @main does not declare that"
        taken_over = callee.updates if isinstance(op, kernel.LaunchOp) else 0
        kept = op.operands[: len(op.operands) - taken_over]
        for operand in op.operands[len(op.operands) - taken_over :]:
            if not isinstance(operand.owner, kernel.LaunchOp) or operand.has_more_than_one_use():
                yield op, f"lets @{op.kernel} update what is not the result of a launch, or has other users"
        values = [*kept, *op.results]
        taken = [
            argument.type.element_type for argument in callee.body.args if isinstance(argument.type, kernel.PointerType)
        ]
        given = [value.type.element_type for value in values if is_tensor(value)]
        if taken != given:
            takes = f"@{op.kernel}, which takes {len(taken)}"
            yield op, f"passes {len(given)} buffers to {takes}; number and element types must agree"


def kept_launches_may_be_left_out(module: ModuleOp) -> Iterator[Finding]:
    """A launch that is kept reads frozen arguments, what other such launches wrote, or aliases of either, at least one.
    It alone writes to its outs, which are buffers of the program's own, and nobody frees them or gives them away.
    """
    ops = ops_of(entry_block(module))
    if not any(isinstance(op, host.LaunchOp) and op.kept for op in ops):
        return
    main = entry_function(module)
    kernels = {op.sym_name: op for op in module.body.ops if isinstance(op, kernel.FuncOp)}
    same: set[SSAValue] = {main.regions[0].block.args[position] for position in frozen_arguments(main)}
    for op in ops:
        if isinstance(op, host.ReinterpretOp) and op.source in same:
            same.add(op.results[0])
        if not isinstance(op, host.LaunchOp) or not op.kept or (func := kernels.get(op.kernel)) is None:
            continue
        inputs, outs = op.operands[: len(func.inputs)], op.operands[len(func.inputs) :]
        if not inputs or not same.issuperset(inputs):
            yield op, "is kept, but reads what may be another in the next call; `aten.frozen` names what is not"
        for out in outs:
            if not isinstance(out.owner, host.AllocOp) or outs.count(out) != 1:
                yield op, "is kept, but writes to what is no buffer of its own"
            elif any(not _only_reads(use, kernels) for use in _all_uses(out) if use.operation is not op):
                yield op, "is kept, but what it writes is changed, freed, or given away"
            same.add(out)


def _all_uses(buffer: SSAValue) -> Iterator[Use]:
    for use in buffer.uses:
        yield use
        if isinstance(use.operation, host.ReinterpretOp):
            yield from _all_uses(use.operation.results[0])


def _only_reads(use: Use, kernels: Mapping[str, kernel.FuncOp]) -> bool:
    """Whether an op does nothing with a buffer but read it."""
    user = use.operation
    if isinstance(user, host.LaunchOp):
        func = kernels.get(user.kernel)
        return func is not None and use.index < len(func.inputs)
    if isinstance(user, host.ExternOp):
        return user.schema is not None and not user.schema.mutates and not user.may_alias
    return isinstance(user, host.ReinterpretOp) or (
        isinstance(user, host.FreeOp) and isinstance(user.operands[use.index].owner, host.ReinterpretOp)
    )


_AROUND = (
    loops.ViewOp,
    loops.WordsOp,
    loops.JoinOp,
    loops.ExternOp,
    aten.LiteralOp,
    sym.ValueOp,
    func.ReturnOp,
)
"""What stands between nests, and between the launches that they become."""

LOOPS = Contract(
    "loops",
    (
        entry_holds_only(loops.NestOp, *_AROUND),
        updates_take_over,
        joins_take_parts,
    ),
)
FUSED = Contract("loops, ready to schedule", (*LOOPS.rules, loads_read_no_views, views_are_strided))
SLICED = Contract("loops, with parts of tensors", (*LOOPS.rules, views_are_strided))
"""As above, but loads may read parts of tensors, as strides say them: `share-slices`."""
KERNEL = Contract(
    "kernel",
    (
        entry_holds_only(kernel.LaunchOp, *_AROUND),
        joins_take_parts,
        views_are_strided,
        launches_fit,
    ),
)
HOST = Contract(
    "host",
    (
        entry_holds_only(
            host.AllocOp,
            host.LaunchOp,
            host.PlaceOp,
            host.ReinterpretOp,
            host.ExternOp,
            host.FreeOp,
            host.ReturnOp,
            aten.LiteralOp,
            sym.ValueOp,
        ),
        launches_fit,
        kept_launches_may_be_left_out,
    ),
)
