"""`keep-frozen`: what is computed of frozen arguments alone is kept from call to call.

Fires only where `aten.frozen` names arguments, which the option `frozen` has it do: the copies of weights in the strips
that products of our own read, and whatever else the program computes of nothing but weights.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from cuesta.dialects import host, kernel
from cuesta.dialects.core.entry import entry_block, entry_function, frozen_arguments
from cuesta.dialects.core.operation import ops_of
from cuesta.dialects.core.tracing import no_match
from cuesta.dialects.layout import traits_of
from cuesta.transforms.host.aliasing import gives_fresh_memory
from cuesta.transforms.host.in_place import may_fail

LEAST = 1 << 15
"""Bytes that a launch writes at least, to be kept: to look whether they are there takes a call 0.3 to 0.7 µs.

Source: a definition: what a thread copies in twice as long, at 0.1 to 0.25 ns an element of 4 bytes (`nest-products`).
"""


class KeepFrozenPass(ModulePass):
    """launch @k(%w, %p)  ->  launch kept @k(%w, %p), before all else, where %w is frozen

    Near misses: an input that may be another in the next call; an out that is small, of a size that only the call
    knows, returned, written to once more, or handed to a call that may give it back; a kernel that may raise; a GPU,
    whose launches a later call would have to wait for.
    """

    name = "keep-frozen"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = entry_function(op)
        frozen = frozen_arguments(main)
        if not frozen:
            return
        block = entry_block(op)
        kernels = {inner.sym_name: inner for inner in op.body.ops if isinstance(inner, kernel.FuncOp)}
        same: set[SSAValue] = {block.args[position] for position in frozen}
        makers: dict[SSAValue, Operation] = {}
        launches: list[host.LaunchOp] = []
        for inner in ops_of(block):
            if isinstance(inner, host.ReinterpretOp) and inner.source in same:
                same.add(inner.results[0])
            elif isinstance(inner, host.LaunchOp) and not inner.kept and inner.kernel in kernels:
                func = kernels[inner.kernel]
                inputs, outs = inner.operands[: len(func.inputs)], inner.operands[len(func.inputs) :]
                if not inputs or not same.issuperset(inputs):
                    continue
                if (reason := _obstacle(inner, func, kernels)) is not None:
                    no_match(inner, f"is not kept: {reason}")
                    continue
                launches.append(inner)
                same.update(outs)
                makers.update(dict.fromkeys(outs, inner))
        needed: set[Operation] = set()
        for launch in reversed(launches):
            inputs = len(kernels[launch.kernel].inputs)
            if launch in needed or sum(_bytes(out) for out in launch.operands[inputs:]) >= LEAST:
                needed.add(launch)
                roots = (host.chain_of_views(one)[-1] for one in launch.operands[:inputs])
                needed.update(makers[root] for root in roots if root in makers)
            else:
                no_match(launch, "is not kept: to look for it would take as long as to run it")
        ordered: dict[Operation, None] = {}
        for launch in launches:
            if launch in needed:
                launch.properties["kept"] = UnitAttr()
                for operand in launch.operands:
                    for value in reversed(host.chain_of_views(operand)):
                        if isinstance(value.owner, Operation):
                            ordered[value.owner] = None
                ordered[launch] = None
        _put_first(ordered, op)


def _put_first(ordered: Mapping[Operation, None], op: ModuleOp) -> None:
    """Puts ops before all others."""
    block = entry_block(op)
    for one in ordered:
        one.detach()
    first = block.first_op
    assert first is not None
    block.insert_ops_before(list(ordered), first)


def _obstacle(launch: host.LaunchOp, func: kernel.FuncOp, kernels: Mapping[str, kernel.FuncOp]) -> str | None:
    """Why what a launch computes of frozen arguments is not kept."""
    if func.symbols:
        return "it has sizes that only the call knows"
    if may_fail(func):
        return "it may raise an IndexError"
    outs = launch.operands[len(func.inputs) :]
    for out in outs:
        traits = traits_of(out)
        if traits.blocks or traits.asynchronous:
            return "it is not on a processor"
        if not isinstance(out.owner, host.AllocOp) or list(outs).count(out) != 1:
            return "it writes to what is not its own"
        if host.buffer_bytes(out.type) is None:
            return "it has sizes that only the call knows"
        if not _is_only_read(out, launch, kernels):
            return "what it writes is changed, or somebody else may come to have it"
    return None


def _is_only_read(buffer: SSAValue, writer: host.LaunchOp, kernels: Mapping[str, kernel.FuncOp]) -> bool:
    """Whether launches, but for the writer, and calls only read a buffer, and none of them may give it back."""
    for use in buffer.uses:
        user = use.operation
        if user is writer:
            continue
        if isinstance(user, host.LaunchOp):
            if user.kernel not in kernels or use.index >= len(kernels[user.kernel].inputs):
                return False
        elif isinstance(user, host.ReinterpretOp):
            if not _is_only_read(user.results[0], writer, kernels):
                return False
        elif not isinstance(user, host.ExternOp) or not gives_fresh_memory(user):
            return False
    return True


def _bytes(buffer: SSAValue) -> int:
    return host.buffer_bytes(buffer.type) or 0


__all__ = ["KeepFrozenPass"]
