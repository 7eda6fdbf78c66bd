"""Whether a kernel may write an out over one of its inputs: one buffer passed for both.

    for every point q:  the load of %in at q reads the element that the store to %out at q writes,
                        and runs before that store
    =>  the kernel gives the same when %in and %out are one buffer

Every element of an out is stored by exactly one point, so at no point is an element read that another point's store
has changed: neither in this program nor in another one. A row may be read several times before the loop that stores it
(softmax): points of two loops are the same when the loops run over the same bounds.

Everything here is read off the text; what is not of a known form is refused. The reverse also counts: no target may
assume that two pointers of a kernel are different memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from cuesta.dialects import kernel
from cuesta.dialects.core.operation import all_ops

Variable = tuple[str, int] | SSAValue
"""An index: an axis of the grid, an induction variable by its position around the op, or another value itself."""


def may_overwrite(func: kernel.FuncOp, source: int, out: int) -> bool:
    """Whether argument `out` of the kernel may be the same buffer as argument `source`, an input."""
    read, written = func.body.args[source], func.body.args[out]
    if read.type != written.type:
        return False
    stores = [use.operation for use in written.uses]
    loads = [use.operation for use in read.uses]
    # What is loaded back from the out was stored by the same point: that stays so.
    stores = [op for op in stores if not isinstance(op, kernel.LoadOp)]
    if len(stores) != 1 or not isinstance(stores[0], kernel.StoreOp) or stores[0].rest:
        return False
    store = stores[0]
    path = _path(store, func)
    if path is None:
        return False
    for load in loads:
        if not isinstance(load, kernel.LoadOp) or load.map != store.map:
            return False
        other = _path(load, func)
        if other is None or not _same_points(other, path) or not _is_before(load, store, other, path):
            return False
        if _variables(load.indices, other) != _variables(store.indices, path):
            return False
    return True


def copies_only(func: kernel.FuncOp) -> bool:
    """Whether all that a kernel does is to copy its only input, each element to its own place in its only out.

    Near miss: what it stores comes by way of scratch memory, which others of its ops may write to.

    Requires: `may_overwrite` of the two.
    """
    if len(func.body.args) != 2 or may_fail(func):
        return False
    source, out = func.body.args
    values = [use.operation.value.owner for use in out.uses if isinstance(use.operation, kernel.StoreOp)]
    return all(isinstance(load, kernel.LoadOp) and load.pointer is source and not load.rest for load in values)


def may_fail(func: kernel.FuncOp) -> bool:
    """Whether the kernel may raise an IndexError: what it has written until then stays written. It does not, where all
    its indices have been checked before it runs (`check-first`).
    """
    return any(isinstance(op, kernel.BoundOp) and not op.is_checked for op in all_ops(func))


def _path(op: Operation, func: kernel.FuncOp) -> list[kernel.LoopOp] | None:
    """The loops around an op, from outside in; None when there is something else around it."""
    path: list[kernel.LoopOp] = []
    parent = op.parent_op()
    while parent is not func:
        if not isinstance(parent, kernel.ForOp | kernel.ReduceOp):
            return None
        path.append(parent)
        parent = parent.parent_op()
    return path[::-1]


def _same_points(first: Sequence[kernel.LoopOp], second: Sequence[kernel.LoopOp]) -> bool:
    """Whether two nests of loops run over the same points, however many lanes they take at a time."""
    if len(first) != len(second):
        return False
    for one, other in zip(first, second, strict=True):
        if one is not other and (one.lowers != other.lowers or one.uppers != other.uppers):
            return False
        if one is not other and _variables(one.operands, first) != _variables(other.operands, second):
            return False
    return True


def _is_before(load: Operation, store: Operation, first: Sequence[Operation], second: Sequence[Operation]) -> bool:
    """Whether the load comes first at every point: in the innermost block that holds both."""
    for one, other in zip([*first, load], [*second, store], strict=True):
        if one is not other:
            assert one.parent is other.parent
            return _position(one) < _position(other)
    return False


def _position(op: Operation) -> int:
    block = op.parent
    assert isinstance(block, Block)
    return block.get_operation_index(op)


def _variables(indices: Sequence[SSAValue], path: Sequence[kernel.LoopOp]) -> list[Variable]:
    return [_variable(index, path) for index in indices]


def _variable(index: SSAValue, path: Sequence[kernel.LoopOp]) -> Variable:
    if isinstance(index.owner, kernel.ProgramIdOp):
        return "program", index.owner.axis
    if isinstance(index, BlockArgument):
        position = 0
        for loop in path:
            if index.block is loop.body:
                return "loop", position + index.index
            position += len(loop.body.args)
    return index
