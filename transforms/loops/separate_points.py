"""`separate-points`: on a GPU what is computed for each point of an image's rows is a nest apart from their statistics.

nest (%i : 64) outs(%o) { %m = sum (%j) of %x[%i, %j]; for (%j : 512) { store %x[%i, %j] - %m, %o[%i, %j] } }
→
%s = nest (%i : 64) { %m = sum (%j) of %x[%i, %j]; store %m, %s[%i] }
nest (%i : 64, %j : 512) outs(%o) { %m = load %s[%i]; store %x[%i, %j] - %m, %o[%i, %j] }
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.operation import ops_of, replace_all_uses
from cuesta.dialects.core.structs import struct
from cuesta.dialects.layout import device_of, sizes_of, tensor_type, tensor_type_of
from cuesta.dialects.loops.surgery import Substitution, clone_into, loads_of, remove, stores_of
from cuesta.dialects.loops.writing import BodyWriter, leading_to, nest_before
from cuesta.transforms.dce import clean_block
from cuesta.transforms.devices import DevicePass, traits_for
from cuesta.transforms.views.convolution_costs import Convolution

_OF_POINTS = (elem.ElementwiseOp, loops.LoadOp, loops.IndexOp, loops.StoreOp)


class SeparatePointsPass(DevicePass):
    """In a program with convolutions, of a nest for a GPU that reads or writes images: reductions of rows, and a loop
    over their points behind them. Exact. Such a nest goes along its rows, and would read and write images of two
    layouts across; apart, the points may transpose. Where layouts agree `fuse-nests` makes one nest of both again. The
    points go along the axes that they are stored by, also where rows are groups of channels: so others compute them.

    Near misses: nothing is reduced; the loop reads what is stored, may fail, or holds a loop; something else is stored
    where it stores; what is done for a row may fail, or updates a tensor.
    """

    name = "separate-points"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        every = ops_of(entry_block(op))
        if not any(isinstance(one, loops.ExternOp) and Convolution.of(one) is not None for one in every):
            return
        for nest in every:
            if isinstance(nest, loops.NestOp) and nest.results and traits_for(nest, self.target).blocks:
                loop = nest.body.last_op
                if isinstance(loop, loops.ForOp) and _reads_or_writes_images(loop) and is_apart(nest, loop):
                    separate(nest, loop)


def _reads_or_writes_images(loop: loops.ForOp) -> bool:
    tensors = [*(load.source for load in loads_of(loop)), *(store.target for store in stores_of(loop))]
    return any(len(sizes_of(tensor_type_of(tensor))) in (4, 5) for tensor in tensors)


def is_apart(nest: loops.NestOp, loop: loops.ForOp) -> bool:
    """Whether the loop needs no more of the rest of the nest than its values, and the rest nothing of the loop."""
    rest = [op for op in ops_of(nest.body) if op is not loop]
    if not any(isinstance(op, loops.ReduceOp) for op in rest):
        return False
    if nest.operands or not all(isinstance(op, (loops.ReduceOp, *_OF_POINTS)) for op in rest):
        return False
    if not all(isinstance(op, _OF_POINTS) for op in ops_of(loop.body)):
        return False
    if any(isinstance(op, loops.TensorWriteOp) and not isinstance(op, loops.StoreOp) for op in nest.walk()):
        return False
    handles = set(nest.handles)
    if any(load.source in handles for load in loads_of(nest)):
        return False
    ours = {store.target for store in stores_of(loop)}
    return not any(store.target in ours for op in rest for store in stores_of(op))


def separate(nest: loops.NestOp, loop: loops.ForOp) -> loops.NestOp:
    """Makes two nests of one, and gives that of the rows. Requires: `is_apart(nest, loop)`."""
    rest = [op for op in ops_of(nest.body) if op is not loop]
    own = {result for op in rest for result in op.results}
    needed = dict.fromkeys(value for op in loop.walk() for value in op.operands if value in own)
    kept = [value for value in needed if _is_of_reduction(value, rest)]
    ours = {store.target for store in stores_of(loop)}
    device = device_of(tensor_type_of(nest.results[0]))

    others = [handle for handle in nest.handles if handle not in ours]
    statistics = [tensor_type(nest.sizes, value.type, device=device) for value in kept]
    rows, of_rows = nest_before(nest, nest.sizes, [*(handle.type for handle in others), *statistics])
    of_rows.values.update(zip(others, rows.handles, strict=False))
    clone_into(rest, InsertPoint.at_end(rows.body), of_rows)
    for value, handle in zip(kept, rows.handles[len(others) :], strict=True):
        places = [sym.dim(axis) for axis in range(len(nest.sizes))]
        store = loops.StoreOp.build(of_rows.value(value), handle, places, rows.induction_variables)
        store.location = nest.location
        rows.body.add_op(store)
    clean_block(rows.body)

    mine = [handle for handle in nest.handles if handle in ours]
    sizes: dict[SSAValue, sym.IndexExpr] = dict(zip(nest.induction_variables, nest.sizes, strict=True))
    sizes.update(zip(loop.induction_variables, loop.sizes, strict=True))
    axes = _axes_in_memory(loop, sizes)
    points = loops.NestOp.build([axis.size for axis in axes], [handle.type for handle in mine])
    points.location = nest.location
    Rewriter.insert_op(points, InsertPoint.before(nest))
    of_points = _OfPoints(points, axes)
    for axis, new in zip(axes, points.induction_variables, strict=True):
        for old, place in axis.places(of_points.axis(new)):
            of_points.set_index(old, place)
        new.name_hint = axis.outer.name_hint
    of_points.values.update(zip(mine, points.handles, strict=True))
    writer = BodyWriter(points.body, nest)
    for value, tensor in zip(kept, rows.results[len(others) :], strict=True):
        places = of_points.expressions([sym.dim(axis) for axis in range(len(nest.sizes))], nest.induction_variables)
        of_points.values[value] = writer.add(loops.LoadOp.build(tensor, places, of_points.axes))
    shared = dict.fromkeys(op for value in needed if value not in kept for op in leading_to(value, rest))
    clone_into([op for op in rest if op in shared], InsertPoint.at_end(points.body), of_points)
    clone_into(ops_of(loop.body), InsertPoint.at_end(points.body), of_points)

    found = {**dict(zip(others, rows.results, strict=False)), **dict(zip(mine, points.results, strict=True))}
    for handle, result in zip(nest.handles, nest.results, strict=True):
        found[handle].name_hint = result.name_hint
        replace_all_uses(result, found[handle])
    remove(nest)
    return rows


@struct
class _Axis:
    """An axis of points: one of the loop or of its rows, or two that are one in memory (groups of channels)."""

    outer: SSAValue
    inner: SSAValue | None
    size: sym.IndexExpr
    inner_size: sym.IndexExpr

    def places(self, index: sym.IndexExpr) -> list[tuple[SSAValue, sym.IndexExpr]]:
        """What the old axes are at an index of this one."""
        if self.inner is None:
            return [(self.outer, index)]
        return [(self.outer, index // self.inner_size), (self.inner, index % self.inner_size)]


class _OfPoints(Substitution):
    """Indices over the axes of points: where one of these was two, in simple words, in which axes of one point stay."""

    def __init__(self, points: loops.NestOp, axes: Sequence[_Axis]) -> None:
        super().__init__(points.induction_variables)
        self._sizes = [2 if axis.size == 1 else axis.size for axis in axes]
        self._joined = any(axis.inner is not None for axis in axes)

    def expressions(self, results: Sequence[sym.IndexExpr], operands: Sequence[SSAValue]) -> list[sym.IndexExpr]:
        found = super().expressions(results, operands)
        return [sym.simplify(one, self._sizes) for one in found] if self._joined else found


def _axes_in_memory(loop: loops.ForOp, sizes: dict[SSAValue, sym.IndexExpr]) -> list[_Axis]:
    """The axes as the loop stores them, where that is each of them once: such a nest others compute again."""
    store = stores_of(loop)[0]
    found: list[_Axis] = []
    for result in store.map.results:
        dims = sym.dims_of(result)
        for outer, inner in [(dim, None) for dim in dims] if len(dims) == 1 else permutations(dims, 2):
            first, second = store.indices[outer], None if inner is None else store.indices[inner]
            if second is None and result == sym.dim(outer):
                found.append(_Axis(first, None, sizes[first], 1))
            elif inner is not None and second is not None and result == sym.dim(outer) * sizes[second] + sym.dim(inner):
                found.append(_Axis(first, second, sizes[first] * sizes[second], sizes[second]))
    covered = [value for axis in found for value in (axis.outer, axis.inner) if value is not None]
    if len(covered) == len(sizes) == len({*covered}):
        return found
    return [_Axis(value, None, size, 1) for value, size in sizes.items()]


def _is_of_reduction(value: SSAValue, ops: Sequence[Operation]) -> bool:
    return any(isinstance(op, loops.ReduceOp) for op in leading_to(value, ops))


__all__ = ["SeparatePointsPass", "is_apart", "separate"]
