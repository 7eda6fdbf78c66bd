"""`accumulate-in-place`: a product is added to the memory of what it is added to, when nobody else needs that."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from cuesta.dialects import host
from cuesta.dialects.aten import CallArguments, Operand
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.operation import replace_all_uses
from cuesta.dialects.loops.surgery import remove
from cuesta.transforms.host.aliasing import gives_fresh_memory

_IN_PLACE = {
    "aten.addmm.default": "aten.addmm_.default",
    "aten.baddbmm.default": "aten.baddbmm_.default",
    "aten.addmm.dtype": "aten.addmm.dtype_out",
    "aten.baddbmm.dtype": "aten.baddbmm.dtype_out",
}
"""By overload, the one that writes to what it adds to: `self`, or what it is given as `out` besides."""


class AccumulateInPlacePass(ModulePass):
    """%c = addmm(%m, %a, %b)  ->  addmm_(%m, %a, %b), and %m where %c was;
    of factors of 16 bits and sums of f32, %c = addmm.dtype(%m, %a, %b, f32)  ->  addmm.dtype_out(…, out = %m)

    %m is memory of the program's own, has the type of %c, and has no other use: neither here, nor earlier, so that no
    alias of it is left. The library would copy %m first.
    """

    name = "accumulate-in-place"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        positions: dict[Operation, int] = {inner: place for place, inner in enumerate(entry_block(op).ops)}
        for inner, place in list(positions.items()):
            if not isinstance(inner, host.ExternOp) or inner.overload not in _IN_PLACE:
                continue
            buffer = inner.tensor("self")
            if buffer.type == inner.results[0].type and is_only_written(buffer, inner, place, positions):
                overload, operands, arguments = _IN_PLACE[inner.overload], inner.operands, inner.arguments_attr
                if overload.endswith("_out"):
                    out = Operand(len(operands))
                    operands = (*operands, buffer)
                    arguments = CallArguments.of(arguments.positional, (*arguments.keywords, ("out", out)))
                changed = host.ExternOp.of(overload, operands, arguments, [buffer.type], pure=False)
                changed.location = inner.location
                positions[changed] = place
                block = inner.parent
                assert block is not None
                block.insert_op_before(changed, inner)
                replace_all_uses(inner.results[0], buffer)
                remove(inner)


def is_only_written(buffer: SSAValue, reader: Operation, place: int, positions: Mapping[Operation, int]) -> bool:
    """Whether a buffer is fresh memory that nobody uses but `reader`, once, and those who filled it before."""
    owner = buffer.owner
    users = [use.operation for use in buffer.uses]
    if users.count(reader) != 1:
        return False
    others = [user for user in users if user is not reader]
    if isinstance(owner, host.ExternOp):
        fresh = gives_fresh_memory(owner)
        return fresh and all(is_accumulation(user) and positions[user] < place for user in others)
    return isinstance(owner, host.AllocOp) and all(
        isinstance(user, host.LaunchOp) and positions[user] < place for user in others
    )


def is_accumulation(op: Operation) -> bool:
    """Whether an op is a product added in place, so that nothing else has the memory."""
    return isinstance(op, host.ExternOp) and op.overload in _IN_PLACE.values()
