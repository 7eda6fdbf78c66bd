"""`write-in-place`: a kernel whose result is copied into an argument writes it there itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from cuesta.dialects import host, kernel
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.operation import ops_of, replace_all_uses
from cuesta.dialects.layout import traits_of
from cuesta.dialects.loops.surgery import remove
from cuesta.transforms.host.aliasing import may_alias
from cuesta.transforms.host.in_place import copies_only, may_fail, may_overwrite

_COPY = "aten.copy_.default"


class WriteInPlacePass(ModulePass):
    """alloc b; launch @k(…, b); …; copy_(argument, b)  ->  launch @k(…, argument)

    The argument has the type of `b`, and what it held before is not read any more when the kernel writes it: all other
    uses of it come before the launch, or are operands of the launch that the kernel may write over (`in_place.py`).
    Nothing that may raise an IndexError runs from the launch on: it would leave the argument changed. A kernel that
    only copies the argument to itself is not launched: a scatter then changes the argument.
    Requires: an argument that is written to shares no memory with another (AOTAutograd sees to it).
    """

    name = "write-in-place"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels = {inner.sym_name: inner for inner in op.body.ops if isinstance(inner, kernel.FuncOp)}
        ops = ops_of(entry_block(op))
        positions = {inner: position for position, inner in enumerate(ops)}
        safe_from = _safe_from(ops, kernels)
        for inner in ops:
            if not isinstance(inner, host.ExternOp) or inner.overload != _COPY:
                continue
            argument, value = inner.operands
            launch = _writer(value, positions)
            if (
                launch is not None
                and isinstance(argument, BlockArgument)
                and argument.type == value.type
                and launch.kernel in kernels
                and positions[launch] >= safe_from
                and not _is_seen_outside(value)
                and _is_over(argument, inner, launch, kernels[launch.kernel], value, positions)
            ):
                alloc = value.owner
                assert isinstance(alloc, host.AllocOp)
                remove(inner)
                replace_all_uses(value, argument)
                remove(alloc)
                if list(launch.operands) == [argument, argument] and copies_only(kernels[launch.kernel]):
                    remove(launch)


def _safe_from(ops: Sequence[Operation], kernels: Mapping[str, kernel.FuncOp]) -> int:
    """The position from which on no launch may raise an IndexError. A GPU has none: there a failed assertion loses the
    context, and all tensors with it.
    """
    failing = {name for name, func in kernels.items() if may_fail(func)}
    launches = ((place, op) for place, op in enumerate(ops) if isinstance(op, host.LaunchOp))
    return max(
        (place + 1 for place, op in launches if op.kernel in failing and traits_of(op.operands[-1]).raises), default=0
    )


def _writer(buffer: SSAValue, positions: Mapping[Operation, int]) -> host.LaunchOp | None:
    """The launch that writes a buffer of the program's own: the first to use it, as one of its outs."""
    if not isinstance(buffer.owner, host.AllocOp):
        return None
    first = min((use.operation for use in buffer.uses), key=positions.__getitem__)
    return first if isinstance(first, host.LaunchOp) else None


def _is_seen_outside(value: SSAValue) -> bool:
    """Whether somebody else may come to have the memory of a value."""
    for use in value.uses:
        user = use.operation
        if isinstance(user, host.ReturnOp) or (isinstance(user, host.ExternOp) and may_alias(user)):
            return True
        if isinstance(user, host.ReinterpretOp) and _is_seen_outside(user.results[0]):
            return True
    return False


def _is_over(
    argument: SSAValue,
    copy: Operation,
    launch: host.LaunchOp,
    func: kernel.FuncOp,
    written: SSAValue,
    positions: Mapping[Operation, int],
) -> bool:
    """Whether nothing reads what the argument held before once the launch writes to it."""
    operands = list(launch.operands)
    out = operands.index(written)
    if out < len(func.inputs) or operands.count(written) != 1:
        return False
    work = [argument]
    while work:
        value = work.pop()
        for use in value.uses:
            user = use.operation
            if user is copy:
                continue
            if isinstance(user, host.ReturnOp):
                if value is not argument:
                    return False
            elif isinstance(user, host.ReinterpretOp):
                work.append(user.results[0])
            elif isinstance(user, host.ExternOp) and may_alias(user):
                return False
            elif user is launch:
                if value is not argument or not may_overwrite(func, use.index, out):
                    return False
            elif positions[user] > positions[launch]:
                return False
    return True
