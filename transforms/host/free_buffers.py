"""`free-buffers`: says where each buffer is used for the last time, and lets later ones take its place.

The first to take the place of a buffer is an out of the very launch that reads it last, where the kernel may write over
its input (`in_place.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from cuesta.dialects import host, kernel
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.operation import ops_of, replace_all_uses
from cuesta.dialects.layout import device_of, is_contiguous, is_tensor, sizes_of, tensor_type_of, traits_of
from cuesta.dialects.loops.surgery import remove
from cuesta.transforms.host.aliasing import gives_fresh_memory, may_alias
from cuesta.transforms.host.in_place import may_overwrite


class FreeBuffersPass(ModulePass):
    """alloc b after the last use of a, of the same size  ->  b is a; every other buffer gets a `host.free`.

    The last use of `a` may be the launch that writes `b`, where every element of `a` is read before the same one of `b`
    is written. A buffer lives as long as any alias of it. Inputs, and what a call gave that may alias its operands or
    be kept by them, are freed but never taken over. On a processor, neither is what nobody takes before a library is
    called: it would be there meanwhile, and the call takes memory of its own. What is kept for later calls
    (`keep-frozen`) is neither freed nor taken over.
    """

    name = "free-buffers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        block = entry_block(op)
        kernels = {inner.sym_name: inner for inner in op.body.ops if isinstance(inner, kernel.FuncOp)}
        _Reuse(ops_of(block), kernels).run()
        _insert_frees(ops_of(block))


class _Reuse:
    """The buffers of a host program: whose memory each value is, and where it is used for the last time."""

    def __init__(self, ops: Sequence[Operation], kernels: Mapping[str, kernel.FuncOp]) -> None:
        self.ops = ops
        self.kernels = kernels
        self.root: dict[SSAValue, SSAValue] = {}
        self.aliases: dict[SSAValue, list[SSAValue]] = {}
        self.last: dict[SSAValue, Operation] = {}
        self.writer: dict[SSAValue, Operation] = {}
        """The first op that uses a buffer."""
        self.kept: set[SSAValue] = set()
        """The buffers that outlive the program."""
        for op in ops:
            for operand in op.operands:
                buffer = self.buffer(operand)
                self.last[buffer] = op
                self.writer.setdefault(buffer, op)
            if isinstance(op, host.ReinterpretOp):
                # What a call gives is a buffer of its own, except as the next lines say.
                self.add_alias(op.results[0], self.buffer(op.source))
            if isinstance(op, host.ReturnOp) or (isinstance(op, host.ExternOp) and may_alias(op)):
                self.kept.update(map(self.buffer, op.operands))
        self.dying: dict[Operation, dict[SSAValue, None]] = {}
        for value, user in self.last.items():
            self.dying.setdefault(user, {})[value] = None

    def buffer(self, value: SSAValue) -> SSAValue:
        """The buffer whose memory an alias is."""
        return self.root.get(value, value)

    def add_alias(self, alias: SSAValue, buffer: SSAValue) -> None:
        """Notes that `alias` is memory of `buffer`."""
        self.root[alias] = buffer
        self.aliases.setdefault(buffer, []).append(alias)

    def run(self) -> None:
        """Gives buffers that are free to later ones, and buffers that a launch may write over to its outs."""
        free: dict[object, list[SSAValue]] = {}
        for op in self.ops:
            if isinstance(op, host.ExternOp):
                free = {slot: values for slot, values in free.items() if traits_of(values[0]).blocks}
            if isinstance(op, host.AllocOp) and not host.is_kept(op.result):
                if (old := self.overwritten(op)) is not None:
                    self.take_over(op, old)
                elif available := free.get(_slot(op.result)):
                    self.take_over(op, available.pop())
                    if not available:
                        del free[_slot(op.result)]
            for value in self.dying.get(op, ()):
                if self.is_reusable(value):
                    free.setdefault(_slot(value), []).append(value)

    def is_reusable(self, buffer: SSAValue) -> bool:
        """Whether a buffer is memory of the program's own, and nobody has it after its last use."""
        owner = buffer.owner
        ours = isinstance(owner, host.AllocOp) or (isinstance(owner, host.ExternOp) and gives_fresh_memory(owner))
        return ours and buffer not in self.kept and not host.is_kept(buffer)

    def overwritten(self, alloc: host.AllocOp) -> SSAValue | None:
        """The buffer that the launch which writes `alloc` first reads for the last time, and may write over."""
        launch = self.writer.get(alloc.result)
        if not isinstance(launch, host.LaunchOp) or launch.kernel not in self.kernels:
            return None
        func = self.kernels[launch.kernel]
        buffers = [self.buffer(operand) for operand in launch.operands]
        out = buffers.index(alloc.result)
        if out < len(func.inputs) or buffers.count(alloc.result) != 1:
            return None
        for position, old in enumerate(buffers[: len(func.inputs)]):
            if (
                self.last[old] is launch
                and old is launch.operands[position]
                and buffers.count(old) == 1
                and _slot(old) == _slot(alloc.result)
                and self.is_reusable(old)
                and may_overwrite(func, position, out)
            ):
                del self.dying[launch][old]
                return old
        return None

    def take_over(self, alloc: host.AllocOp, old: SSAValue) -> None:
        """`alloc` is `old`, which lives on until nobody uses the new buffer any more."""
        new, end = alloc.result, self.last.get(alloc.result)
        if new in self.kept:
            self.kept.add(old)
        if end is not None:
            self.last[old] = end
            del self.dying[end][new]
            self.dying[end][old] = None
        for alias in self.aliases.pop(new, ()):
            self.add_alias(alias, old)
        if old.type == new.type:
            replace_all_uses(new, old)
        else:
            alias = host.ReinterpretOp.build(old, 0, new.type)
            alias.location = alloc.location
            alias.results[0].name_hint = new.name_hint
            block = alloc.parent
            assert block is not None
            block.insert_op_before(alias, alloc)
            replace_all_uses(new, alias.results[0])
            self.add_alias(alias.results[0], old)
        remove(alloc)


def _slot(buffer: SSAValue) -> object:
    """What two buffers have in common when one can take the other's place: the same memory, whatever its sizes."""
    tensor = tensor_type_of(buffer)
    if not is_contiguous(tensor):
        return tensor
    return tensor.element_type, math.prod(sizes_of(tensor), start=1), device_of(tensor)


def _insert_frees(ops: Sequence[Operation]) -> None:
    """After its last use, every value that is not returned is freed: the names go, and the memory with the last of
    them.

    A buffer keeps its name as long as an alias that only launches use, for which its name can stand.
    """
    end = ops[-1] if ops else None
    last: dict[SSAValue, Operation] = {}
    for op in ops:
        for operand in op.operands:
            last[operand] = op
    position = {op: number for number, op in enumerate(ops)}
    for op in ops:
        if isinstance(op, host.ReinterpretOp) and op.results[0] in last and host.only_launched(op.results[0]):
            last[op.source] = max(last[op.source], last[op.results[0]], key=position.__getitem__)
    per_op: dict[Operation, list[SSAValue]] = {}
    for value, op in last.items():
        if op is not end and is_tensor(value) and not host.is_kept(value):
            per_op.setdefault(op, []).append(value)
    for op, values in per_op.items():
        block = op.parent
        assert block is not None
        free = host.FreeOp.build(values)
        free.location = op.location
        block.insert_op_after(free, op)
