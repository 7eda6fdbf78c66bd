"""`join-points-and-parts`: on a GPU a pointwise nest becomes a stage of a nest with parts of reductions that reads the
same.

    loops.nest (%p : 1000) { %s = sum (%j : 4096) of f(%x[%p · 4096 + %j]); store %s to %t[%p] }
    loops.nest (%i : 4096000) { store g(%x[%i]) to %y[%i] }
    →
    loops.nest (%p : 1000) {
      %s = sum (%j : 4096) of f(%x[%p · 4096 + %j]); store %s to %t[%p]
      loops.for (%j : 4096) { store g(%x[%p · 4096 + %j]) to %y[%p · 4096 + %j] }
    }

So %x is read once: a loss that is a mean of squares, and what its backward pass needs. Exact. Where a part is longer
than what stays in registers, its points are stored in the walk that sums them:

    loops.nest (%p : 1000) { %s = sum (%j : 32768) { store g(%x[…]) to %y[…]; of f(%x[…]) }; store %s to %t[%p] }

Law: where the parts read %x in the order of memory, point by parallel point, and as many points as the pointwise nest
has, each of its points is one of theirs. (Two places of memory are two elements, so two points of the parts are two
elements of %x, and there are as many of both.) Where the last part is not full, its points are those of the first so
many places, and the nest's points are read and stored there alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.indexed import IndexedOp
from cuesta.dialects.core.machine import machine_of
from cuesta.dialects.core.operation import ops_of, replace_all_uses
from cuesta.dialects.core.tracing import no_match
from cuesta.dialects.layout import sizes_of, strides_of, tensor_type_of
from cuesta.dialects.loops.surgery import Substitution, clone_into, combines_of, is_pointwise, loads_of, stores_of
from cuesta.dialects.loops.writing import BodyWriter, read_only_where, store_only_where, type_of_positions
from cuesta.transforms.devices import DevicePass, traits_for
from cuesta.transforms.fusion.absorb import begin_merge, end_merge
from cuesta.transforms.fusion.cost import body_cost
from cuesta.transforms.fusion.profit import large_sources
from cuesta.transforms.fusion.space import Space, volume
from cuesta.transforms.reductions import when

LEAST: Final = 1 << 15
"""Points from which on it is worth reading a tensor once instead of twice.

Source: as `siblings._LARGE`.
"""
SHORTEST: Final = 1024
"""Points of a part from which on a program has enough to do with them alone.

Source: chosen: of shorter ones a program takes several, by tilings that are not those of a pointwise nest.
"""
FILLED: Final = 2
"""So many long parts a processor has at least where others are stored as they are summed: a pointwise nest has as many
programs as it likes, and rows that are long may be few.

Source: chosen: two programs of 32 warps are at work on a processor at a time.
"""
MOST_OPS: Final = 100
"""The most ops of a nest of both: all of its tensors are in registers at a time.

Source: chosen.
"""


class JoinPointsAndPartsPass(DevicePass):
    """Joins them where both read one large tensor.

    Near misses: a nest whose own tensors lie otherwise, of which lanes would find nothing together; one that needs the
    reductions, or is needed by them; a library call between the two; parts of a few points; long parts that are few;
    parts that are not all of the tensor.
    """

    name = "join-points-and-parts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        block = entry_block(op)
        nests = [nest for nest in block.ops if isinstance(nest, loops.NestOp) and not nest.operands]
        on_gpu = [nest for nest in nests if not nest.choices and traits_for(nest, self.target).blocks]
        readers: dict[SSAValue, list[loops.NestOp]] = {}
        for nest in on_gpu:
            if is_pointwise(nest) and not combines_of(nest) and _is_large(nest):
                for source in large_sources(nest):
                    readers.setdefault(source, []).append(nest)
        fewest = FILLED * machine_of(op).processors
        for nest in on_gpu if readers else ():
            if _has_parts(nest):
                join(nest, readers, block, fewest)


def join(parts: loops.NestOp, readers: Mapping[SSAValue, Sequence[loops.NestOp]], block: Block, fewest: int) -> None:
    """Joins a nest with all that may join it, of the pointwise nests that read what it reads."""
    sources = dict.fromkeys(load.source for load in loads_of(parts))
    found = [(nest, source) for source in sources for nest in readers.get(source, ())]
    tried = set[loops.NestOp]()
    for nest, source in found:
        if nest.parent is not block or nest in tried:  # it has joined other parts
            continue
        walk = walk_of(parts, nest, source, fewest)
        if not isinstance(walk, str):
            tried.add(nest)
            walk = why_apart(parts, nest, block) or walk
        if isinstance(walk, str):
            no_match(nest, walk)
        else:
            parts = _joined(parts, nest, *walk)


def _has_parts(nest: loops.NestOp) -> bool:
    """Whether its stages are reductions that nothing else stands in, over one domain."""
    stages = [op for op in ops_of(nest.body) if isinstance(op, loops.DomainOp)]
    reductions = [op for op in stages if isinstance(op, loops.ReduceOp)]
    meets = any(isinstance(op, loops.MeetOp) for op in ops_of(nest.body))
    same = len({tuple(op.sizes) for op in reductions}) == 1 and len(stages) == len(reductions)
    return same and not meets and not any(isinstance(one, loops.DomainOp) for op in stages for one in ops_of(op.body))


def _is_large(nest: loops.NestOp) -> bool:
    points = volume(nest.sizes)
    return isinstance(points, int) and points >= LEAST


def walk_of(
    parts: loops.NestOp, nest: loops.NestOp, shared: SSAValue, fewest: int
) -> tuple[tuple[sym.IndexExpr, ...], list[sym.IndexExpr]] | str:
    """How the parts walk the points of a pointwise nest: the sizes of a part, and the indices of a point over the axes
    of the parts and those; or why they do not. Where there are more of both than the nest has points, the first so many
    are meant, in order. Of long parts there are at least `fewest`.
    """
    for load in loads_of(parts):
        reduction = load.parent_op()
        if load.source is not shared or not isinstance(reduction, loops.ReduceOp):
            continue
        space, kind = Space(load), tensor_type_of(load.source)
        indices = space.expressions(load)
        if indices is None or tuple(sizes_of(kind)) != tuple(nest.sizes):
            continue
        length = volume(reduction.sizes)
        if not isinstance(length, int) or length < SHORTEST:
            return "its parts are too short"
        programs = volume(parts.sizes)
        if length > when.TILE and not (isinstance(programs, int) and programs >= fewest):
            return "its parts do not stay in registers, and are few"
        number = _number(space.sizes)
        if _address(indices, strides_of(kind), space.sizes) != number:
            continue
        if not _reads_all(load, space, number, volume(nest.sizes)):
            continue
        if not _all_lie_so(nest, strides_of(kind)):
            return "its tensors lie otherwise than what the parts read"
        return tuple(reduction.sizes), indices
    return "the parts do not read all of what it reads, in the order of memory"


def _number(sizes: Sequence[sym.IndexExpr]) -> sym.IndexExpr:
    """The number that a point has, in row-major order."""
    return sym.simplify(sym.linearize([sym.dim(k) for k in range(len(sizes))], sizes), sizes)


def _reads_all(load: loops.LoadOp, space: Space, number: sym.IndexExpr, points: sym.IndexExpr) -> bool:
    """Whether it reads at just the first so many points of all that there are."""
    if load.mask is None:
        return space.volume == points
    test = load.mask.owner
    if not isinstance(test, elem.TableOp) or test.row.name != "lt":
        return False
    index, limit = (operand.owner for operand in test.operands)
    if not isinstance(index, loops.IndexOp) or not isinstance(limit, elem.ConstantOp):
        return False
    return space.expressions(index) == [number] and limit.value == points


def _address(
    indices: Sequence[sym.IndexExpr], strides: Sequence[sym.IndexExpr], sizes: Sequence[sym.IndexExpr]
) -> sym.IndexExpr:
    address: sym.IndexExpr = 0
    for index, stride in zip(indices, strides, strict=True):
        address = address + index * stride
    return sym.simplify(address, sizes)


def _all_lie_so(nest: loops.NestOp, strides: Sequence[sym.IndexExpr]) -> bool:
    """Whether a pointwise nest reads and stores all large tensors point by point, and they have these strides."""
    large = large_sources(nest)
    accesses: list[tuple[IndexedOp, SSAValue]] = [(one, one.source) for one in loads_of(nest) if one.source in large]
    accesses += [(one, one.target) for one in stores_of(nest)]
    axes = [sym.dim(k) for k in range(len(nest.sizes))]
    for op, tensor in accesses:
        kind = tensor_type_of(tensor)
        found = Space(op).expressions(op)
        if found is None or tuple(sizes_of(kind)) != tuple(nest.sizes):
            return False
        rows = zip(found, axes, strides_of(kind), strides, nest.sizes, strict=True)
        if not all(size == 1 or (index == axis and a == b) for index, axis, a, b, size in rows):
            return False
    return True


def why_apart(parts: loops.NestOp, nest: loops.NestOp, block: Block) -> str | None:
    """Why a nest cannot stand where the parts stand; None if it can."""
    if body_cost(parts).ops + body_cost(nest).ops > MOST_OPS:
        return "there would be too much in one nest"
    order = {op: number for number, op in enumerate(ops_of(block))}
    here, there = order[parts], order[nest]
    first, last = min(here, there), max(here, there)
    if any(isinstance(op, loops.ExternOp) for op in ops_of(block)[first:last]):
        return "a library call stands between the two"
    if here < there:
        sources = {load.source.owner for load in loads_of(nest)}
        late = [op for op in sources if isinstance(op, Operation) and op.parent is block and order[op] >= here]
        return "it reads what comes after the parts" if late else None
    users = [_at_top(use.operation, block) for result in nest.results for use in result.uses]
    return "what it stores is read before the parts end" if any(order[op] <= here for op in users) else None


def _at_top(op: Operation, block: Block) -> Operation:
    while op.parent is not block:
        parent = op.parent_op()
        assert parent is not None
        op = parent
    return op


def _joined(
    parts: loops.NestOp, nest: loops.NestOp, inner: tuple[sym.IndexExpr, ...], indices: list[sym.IndexExpr]
) -> loops.NestOp:
    kept = len(parts.results)
    merged = begin_merge(parts, nest, at_consumer=False)
    # The first of the reductions: those behind it may go along with one that stores, but it not with them.
    stage: loops.DomainOp = next(op for op in ops_of(merged.body) if isinstance(op, loops.ReduceOp))
    length = volume(inner)
    if isinstance(length, int) and length <= when.TILE:
        stage = loops.ForOp.build(inner)
        stage.location = nest.location
        merged.body.add_op(stage)
    points = loops.ForOp.build(inner)
    substitution = Substitution([*merged.induction_variables, *points.induction_variables])
    for variable, index in zip(nest.induction_variables, indices, strict=True):
        substitution.set_index(variable, index)
    for old, new in zip(nest.handles, merged.handles[kept:], strict=True):
        substitution.values[old] = new
    sizes, most = (*merged.sizes, *inner), volume(nest.sizes)
    there: SSAValue | None = None
    if volume(sizes) != most:
        assert isinstance(most, int)
        writer, kind = BodyWriter(points.body, nest), type_of_positions(most)
        axes = [*merged.induction_variables, *points.induction_variables]
        number = writer.add(loops.IndexOp.build(_number(sizes), axes, kind))
        there = writer.make("lt", number, writer.constant(most, kind))
    clone_into(nest.body.ops, InsertPoint.at_end(points.body), substitution)
    if there is not None:
        read_only_where(there, points)
        store_only_where(there, [op for op in points.body.ops if isinstance(op, loops.StoreOp)])
    _move_into(points, stage)
    end_merge(merged, nest)
    return merged


def _move_into(points: loops.ForOp, stage: loops.DomainOp) -> None:
    """Moves a loop's ops to the end of a domain of as many points, before what it yields."""
    for old, new in zip(points.induction_variables, stage.induction_variables, strict=True):
        replace_all_uses(old, new)
    end = stage.body.last_op if isinstance(stage, loops.ReduceOp) else None
    for op in ops_of(points.body):
        op.detach()
        if end is None:
            stage.body.add_op(op)
        else:
            stage.body.insert_op_before(op, end)
    points.erase()


__all__ = ["JoinPointsAndPartsPass"]
