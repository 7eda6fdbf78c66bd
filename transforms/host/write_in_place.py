"""`write-in-place`: a kernel whose result is copied into an argument writes it there itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue, Use
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
    uses of it come before the launch, or are operands of the launch that the kernel may write over (`in_place.py`). A
    launch after which it is read is moved down behind those who do, where nothing stands against it: a counter's next
    value is stored when all who compute with it have read it.
    Nothing that may raise an IndexError runs from the launch on: it would leave the argument changed. A kernel that
    only copies the argument to itself is not launched: a scatter then changes the argument.
    Requires: an argument that is written to shares no memory with another (AOTAutograd sees to it).
    """

    name = "write-in-place"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels = {inner.sym_name: inner for inner in op.body.ops if isinstance(inner, kernel.FuncOp)}
        ops = ops_of(entry_block(op))
        order = _Order(ops, kernels)
        for inner in ops:
            if not isinstance(inner, host.ExternOp) or inner.overload != _COPY:
                continue
            argument, value = inner.operands
            launch = _writer(value, order.positions)
            if (
                launch is not None
                and isinstance(argument, BlockArgument)
                and argument.type == value.type
                and launch.kernel in kernels
                and not _is_seen_outside(value)
                and (last := _last_before(argument, inner, launch, kernels[launch.kernel], value, order)) is not None
                and (last is launch or order.move_after(launch, last, argument))
            ):
                alloc = value.owner
                assert isinstance(alloc, host.AllocOp)
                remove(inner)
                replace_all_uses(value, argument)
                remove(alloc)
                if list(launch.operands) == [argument, argument] and copies_only(kernels[launch.kernel]):
                    remove(launch)


class _Order:
    """In which order the ops stand. A launch may move down, to the place after another op."""

    def __init__(self, ops: Sequence[Operation], kernels: Mapping[str, kernel.FuncOp]) -> None:
        self.kernels = kernels
        self.positions: dict[Operation, tuple[int, int]] = {op: (place, 0) for place, op in enumerate(ops)}
        self.moved: dict[int, list[Operation]] = {}
        """What moved behind the op that stood at a place in the beginning, in order."""
        self.failing = _failing(ops, kernels)
        """They stay where they are."""

    def move_after(self, launch: host.LaunchOp, last: Operation, argument: SSAValue) -> bool:
        """Moves a launch behind `last`, if that changes nothing: what it reads is not written in between, and nobody
        reads there what it writes. It may keep no more memory alive than the argument's, which is what it saves.
        """
        place, _ = self.positions[last]
        behind = self.moved.setdefault(place, [])
        start, end = self.positions[launch], (place, len(behind))
        func = self.kernels[launch.kernel]
        inputs, outs = launch.operands[: len(func.inputs)], launch.operands[len(func.inputs) :]
        if any(start < self.positions[use.operation] <= end for out in outs for use in _all_uses(out)):
            return False
        kept = 0
        for value in dict.fromkeys(inputs):
            while isinstance(value.owner, host.ReinterpretOp):
                value = value.owner.source
            if isinstance(value.owner, host.ExternOp) and may_alias(value.owner):
                return False
            uses = [(self.positions[use.operation], use) for use in _all_uses(value)]
            if any(start < position <= end and self.may_write(use) for position, use in uses):
                return False
            if isinstance(value, OpResult) and all(position < end for position, _ in uses):
                size = host.buffer_bytes(value.type)
                if size is None:
                    return False
                kept += size
        if kept and kept > (host.buffer_bytes(argument.type) or 0):
            return False
        block = launch.parent
        assert block is not None
        launch.detach()
        block.insert_op_after(launch, next((op for op in reversed(behind) if op.parent is not None), last))
        behind.append(launch)
        self.positions[launch] = place, len(behind)
        return True

    def may_write(self, use: Use) -> bool:
        """Whether an op may change the buffer that it uses."""
        user = use.operation
        if isinstance(user, host.LaunchOp):
            func = self.kernels.get(user.kernel)
            return func is None or use.index >= len(func.inputs)
        if isinstance(user, host.ExternOp):
            return may_alias(user) or user.schema is None or user.schema.mutates
        return not isinstance(user, host.ReinterpretOp | host.ReturnOp)


def _all_uses(value: SSAValue) -> Iterator[Use]:
    """The uses of a buffer, by whatever name."""
    work = [value]
    while work:
        for use in work.pop().uses:
            yield use
            if isinstance(use.operation, host.ReinterpretOp):
                work.append(use.operation.results[0])


def _failing(ops: Sequence[Operation], kernels: Mapping[str, kernel.FuncOp]) -> dict[Operation, None]:
    """The launches that may raise an IndexError, in order. A GPU has none: there a failed assertion loses the context,
    and all tensors with it.
    """
    failing = {name for name, func in kernels.items() if may_fail(func)}
    launches = (op for op in ops if isinstance(op, host.LaunchOp) and op.kernel in failing)
    return {op: None for op in launches if traits_of(op.operands[-1]).raises}


def _writer(buffer: SSAValue, positions: Mapping[Operation, tuple[int, int]]) -> host.LaunchOp | None:
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


def _last_before(
    argument: SSAValue,
    copy: Operation,
    launch: host.LaunchOp,
    func: kernel.FuncOp,
    written: SSAValue,
    order: _Order,
) -> Operation | None:
    """The last op that must come before the argument is written: that reads what it held before, or may raise; or the
    launch itself, when there is none after it. None when there is no such time.
    """
    operands = list(launch.operands)
    out = operands.index(written)
    if out < len(func.inputs) or operands.count(written) != 1 or launch in order.failing:
        return None
    last = max(launch, next(reversed(order.failing), launch), key=order.positions.__getitem__)
    for use in _all_uses(argument):
        user, value = use.operation, use.operation.operands[use.index]
        if user is copy or (isinstance(user, host.ReturnOp) and value is argument):
            continue
        if isinstance(user, host.ReturnOp) or (isinstance(user, host.ExternOp) and may_alias(user)):
            return None
        if user is launch:
            if value is not argument or not may_overwrite(func, use.index, out):
                return None
        elif order.positions[user] > order.positions[last]:
            last = user
    return last
