"""The contracts of the levels: what holds of every program when a level begins. See docs/levels.md."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from cuesta.dialects import aten, host, kernel, loops, sym
from cuesta.dialects.core.contracts import Contract, Finding, entry_holds_only
from cuesta.dialects.core.entry import entry_block, symbol_ranges
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
        pointers = [argument.type for argument in callee.body.args]
        given = [kernel.PointerType(value.type.element_type) for value in values if is_tensor(value)]
        if pointers != given:
            takes = f"@{op.kernel}, which takes {len(pointers)}"
            yield op, f"passes {len(given)} buffers to {takes}; number and element types must agree"


LOOPS = Contract(
    "loops",
    (
        entry_holds_only(
            loops.NestOp, loops.ViewOp, loops.WordsOp, loops.ExternOp, aten.LiteralOp, sym.ValueOp, func.ReturnOp
        ),
        updates_take_over,
    ),
)
FUSED = Contract("loops, ready to schedule", (*LOOPS.rules, loads_read_no_views, views_are_strided))
SLICED = Contract("loops, with parts of tensors", (*LOOPS.rules, views_are_strided))
"""As above, but loads may read parts of tensors, as strides say them: `share-slices`."""
KERNEL = Contract(
    "kernel",
    (
        entry_holds_only(
            kernel.LaunchOp, loops.ViewOp, loops.WordsOp, loops.ExternOp, aten.LiteralOp, sym.ValueOp, func.ReturnOp
        ),
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
    ),
)
