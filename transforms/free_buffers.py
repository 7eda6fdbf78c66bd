"""`free-buffers`: says where each buffer is used for the last time, and lets later ones take its place."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from cuesta.dialects import host
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.layout import is_tensor
from cuesta.dialects.loops.surgery import remove
from cuesta.transforms.aliasing import may_alias


class FreeBuffersPass(ModulePass):
    """alloc b : T after the last use of a : T  ->  b is a; every other buffer gets a `host.free` after its last use.

    A buffer lives as long as any alias of it. Inputs, and what a library call gave (it may alias its operands, or be
    kept by them), are freed but never taken over.
    """

    name = "free-buffers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        block = entry_block(op)
        ops = list(block.ops)
        root = _roots(ops)
        last: dict[SSAValue, Operation] = {}
        for inner in ops:
            for operand in inner.operands:
                last[root.get(operand, operand)] = inner
        returned = {root.get(operand, operand) for operand in ops[-1].operands} | _pinned(ops, root)
        dying: dict[Operation, list[SSAValue]] = {}
        for value, user in last.items():
            if value not in returned:
                dying.setdefault(user, []).append(value)
        names = _aliases(ops, root)
        free: dict[object, list[SSAValue]] = {}
        for inner in ops:
            if isinstance(inner, host.AllocOp):
                available = free.get(inner.result.type)
                if available:
                    old = available.pop()
                    _take_over(inner, old, last, dying, returned, names)
                    continue
            for value in dying.get(inner, ()):
                if isinstance(value.owner, host.AllocOp):
                    free.setdefault(value.type, []).append(value)
        _insert_frees(block.ops.last, list(block.ops))


def _roots(ops: list[Operation]) -> dict[SSAValue, SSAValue]:
    """The buffer whose memory an alias is. What a call gives is a buffer of its own, except as `_pinned` says."""
    root: dict[SSAValue, SSAValue] = {}
    for op in ops:
        if isinstance(op, host.ReinterpretOp):
            root[op.results[0]] = root.get(op.source, op.source)
    return root


def _pinned(ops: list[Operation], root: dict[SSAValue, SSAValue]) -> set[SSAValue]:
    """The buffers that may live on in the result of a call: a view, or what an operator nobody knows gave back."""
    return {
        root.get(operand, operand)
        for op in ops
        if isinstance(op, host.ExternOp) and may_alias(op)
        for operand in op.operands
    }


def _aliases(ops: list[Operation], root: dict[SSAValue, SSAValue]) -> dict[SSAValue, list[SSAValue]]:
    names: dict[SSAValue, list[SSAValue]] = {}
    for alias, value in root.items():
        names.setdefault(value, []).append(alias)
    return names


def _take_over(
    alloc: host.AllocOp,
    old: SSAValue,
    last: dict[SSAValue, Operation],
    dying: dict[Operation, list[SSAValue]],
    returned: set[SSAValue],
    names: dict[SSAValue, list[SSAValue]],
) -> None:
    new = alloc.result
    new.replace_all_uses_with(old)
    names.setdefault(old, []).extend(names.pop(new, []))
    end = last.get(new)
    if new in returned:
        returned.add(old)
    elif end is not None:
        last[old] = end
        dying[end] = [old if value is new else value for value in dying[end]]
    remove(alloc)


def _insert_frees(end: Operation | None, ops: list[Operation]) -> None:
    """After its last use, every value that is not returned is freed: the names go, and the memory with the last of
    them.
    """
    last: dict[SSAValue, Operation] = {}
    for op in ops:
        for operand in op.operands:
            last[operand] = op
    per_op: dict[Operation, list[SSAValue]] = {}
    for value, op in last.items():
        if op is not end and is_tensor(value):
            per_op.setdefault(op, []).append(value)
    for op, values in per_op.items():
        block = op.parent
        assert block is not None
        free = host.FreeOp.build(values)
        free.location = op.location
        block.insert_op_after(free, op)
