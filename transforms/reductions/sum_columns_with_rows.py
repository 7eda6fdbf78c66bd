"""`sum-columns-with-rows`: on a GPU sums over columns of what another nest reads by rows become part of that nest, a
block of rows at a time.

    loops.nest (%i : 16384) { … rows of %g and %x … }                            a norm's derivative by its input
    loops.nest (%j : 4096) { %s = sum (%i : 16384) of f(%g[%i, %j], %x[%i, %j]); … }      and by its weight
    →
    loops.nest (%b : 512) {
      loops.for (%j : 4096) { store 0, %t[%b, %j] }
      loops.scan (%r : 32) {
        … row %b · 32 + %r of %g and %x …
        loops.for (%j : 4096) { combine sum f(%g[%b · 32 + %r, %j], …), %t[%b, %j] }
      }
    }
    loops.nest (%j : 4096) { %s = sum (%b : 512) of %t[%b, %j]; … }

So %g and %x are read once. What is combined stays in registers (`targets/triton/emit_accumulate.py`). The rows are
exact; the sums are reassociated, NaN and infinities come out the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, layout, loops, sym
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.indexed import IndexedOp
from cuesta.dialects.core.machine import machine_of
from cuesta.dialects.core.operation import ops_of, replace_all_uses
from cuesta.dialects.core.reductions import identity
from cuesta.dialects.core.structs import struct
from cuesta.dialects.layout import strides_of, tensor_type_of
from cuesta.dialects.loops.surgery import Substitution, clone_into, loads_of, remove, stores_of
from cuesta.transforms.devices import DevicePass, traits_for
from cuesta.transforms.reductions.members import has_scans, members_of, read_from

HEIGHTS = (64, 32, 16, 8)
"""Rows of a block: the first of these that divides the rows and leaves enough blocks.

Source: measured by `make bench-constants ARGS='--only sum_columns_with_rows.HEIGHTS'`
"""
FEW, BUSY = 1.5, 6144
"""Blocks per processor at least, and elements of all the rows that a processor has at a time.

Source: measured by `make bench-constants ARGS='--only sum_columns_with_rows.FEW sum_columns_with_rows.BUSY'`
"""
LEAST = 512
"""Columns from which on a row keeps a program busy.

Source: measured by `make bench-constants ARGS='--only sum_columns_with_rows.LEAST'`
"""
MOST = 32768
"""Elements of the rows that are read and of the sums that are carried, together: they stay in registers.

Source: measured by `make bench-constants ARGS='--only sum_columns_with_rows.MOST'`
"""
KINDS = frozenset({"sum", "prod", "maximum", "minimum"})
"""The reductions that `loops.combine` knows, too."""


class SumColumnsWithRowsPass(DevicePass):
    """Joins the nests that read the same tensors, the one by rows and the others by columns.

    Near misses: columns that need another reduction first; rows too wide for registers, or too few of them; "columns"
    that are rows of memory, of which a program would read single elements.
    """

    name = "sum-columns-with-rows"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        nests = [nest for nest in entry_block(op).ops if isinstance(nest, loops.NestOp)]
        on_gpu = [nest for nest in nests if not nest.operands and traits_for(nest, self.target).blocks]
        if on_gpu:
            sum_columns(on_gpu, machine_of(op).processors)


def sum_columns(nests: Sequence[loops.NestOp], processors: int) -> None:
    """Joins what is worth it."""
    columns: dict[tuple[sym.IndexExpr, ...], list[_Columns]] = {}
    for nest in nests:
        if sums := _column_sums(nest):
            columns.setdefault(sums[0].sizes, []).append(_Columns(nest, sums))
    for rows in nests:
        found = [one for one in columns.get(rows.sizes, ()) if one.nest is not rows and _reads_the_same(rows, one)]
        height = _height(rows, found, processors) if found else None
        if height is not None:
            columns[rows.sizes] = [one for one in columns[rows.sizes] if one not in found]
            _join(rows, found, height)


@struct
class _Columns:
    """A nest over columns, and its reductions over rows: all of its stages."""

    nest: loops.NestOp
    sums: list[loops.ReduceOp]

    @property
    def width(self) -> int:
        """The number of columns."""
        (width,) = self.nest.sizes
        return width if isinstance(width, int) else 0

    def walked(self) -> set[SSAValue]:
        """The tensors that are read at every row and column."""
        found: set[SSAValue] = set()
        for reduction in self.sums:
            for load in loads_of(reduction):
                used = {load.indices[dim] for result in load.map.results for dim in sym.dims_of(result)}
                if not used.isdisjoint(reduction.induction_variables) and not used.isdisjoint(
                    self.nest.induction_variables
                ):
                    found.add(load.source)
        return found


def _column_sums(nest: loops.NestOp) -> list[loops.ReduceOp]:
    """The stages of a nest over columns, when all of them are reductions over rows that can be computed in parts."""
    if len(nest.sizes) != 1 or nest.choices:
        return []
    stages = [op for op in nest.body.ops if isinstance(op, loops.DomainOp)]
    members = members_of(nest)
    if not stages or len(members) < len(stages) or not all(member.is_independent for member in members):
        return []
    sums = [member.reduction for member in members]
    flat = not any(isinstance(op, loops.DomainOp | loops.TensorWriteOp) for one in sums for op in one.body.ops)
    return sums if flat and all(one.kind in KINDS for one in sums) else []


def _lie_across(columns: _Columns) -> bool:
    """Whether neighbours of every tensor that is read at each row and column are columns: a row is read in order."""
    walked, (column,) = columns.walked(), columns.nest.induction_variables
    for load in loads_of(columns.nest):
        if load.source in walked:
            axis = _place(load, column)
            if axis is None or strides_of(tensor_type_of(load.source))[axis] != 1:
                return False
    return True


def _reads_the_same(rows: loops.NestOp, columns: _Columns) -> bool:
    """Whether all that the columns read is read by the rows."""
    walked = columns.walked()
    if not walked or columns.width < LEAST or not _lie_across(columns):
        return False
    for load in [load for load in loads_of(columns.nest) if load.source.owner is rows]:
        if not _reads_own_rows(rows, columns, load):
            return False
    return walked <= {*(load.source for load in loads_of(rows)), *rows.results}


def _reads_own_rows(rows: loops.NestOp, columns: _Columns, load: loops.LoadOp) -> bool:
    """Whether a load of what the rows store reads, at a row, what this row stored."""
    (reduction,) = [one for one in columns.sums if one.is_ancestor(load)] or [None]
    position = list(rows.results).index(load.source)  # pyright: ignore[reportArgumentType] # it is one of them
    stores = [store for store in stores_of(rows) if store.target is rows.handles[position]]
    if reduction is None or not stores:
        return False
    return all(
        _place(store, own) is not None and _place(store, own) == _place(load, other)
        for store in stores
        for own, other in zip(rows.induction_variables, reduction.induction_variables, strict=True)
    )


def _place(op: IndexedOp, variable: SSAValue) -> int | None:
    """The axis whose index is a variable and nothing else."""
    for axis, result in enumerate(op.map.results):
        if any(result == sym.dim(k) and index is variable for k, index in enumerate(op.indices)):
            return axis
    return None


def _height(rows: loops.NestOp, columns: Sequence[_Columns], processors: int) -> int | None:
    """The rows of a block; None when the nests are better left apart."""
    count = math.prod(size for size in rows.sizes if isinstance(size, int))
    if rows.choices or has_scans(rows) or not all(isinstance(size, int) for size in rows.sizes):
        return None
    if not any(isinstance(op, loops.ReduceOp) for op in rows.body.ops) or not _can_stand_together(rows, columns):
        return None
    held = {tensor: one.width for one in columns for tensor in one.walked()}
    if sum(held.values()) + sum(one.width * len(one.sums) for one in columns) > MOST:
        return None
    least = processors * max(FEW, BUSY / columns[0].width)
    fitting = (height for height in HEIGHTS if count % height == 0 and count // height >= least)
    return next(fitting, None)


def _first(rows: loops.NestOp, columns: Sequence[_Columns]) -> loops.NestOp:
    first = rows
    for one in columns:
        if one.nest.is_before_in_block(first):
            first = one.nest
    return first


def _can_stand_together(rows: loops.NestOp, columns: Sequence[_Columns]) -> bool:
    """Whether all that the nests read is there when the first of them runs."""
    first = _first(rows, columns)
    for nest in (rows, *(one.nest for one in columns)):
        for load in loads_of(nest):
            owner = load.source.owner
            if owner is rows or not isinstance(owner, Operation) or owner.parent is not first.parent:
                continue
            if not owner.is_before_in_block(first):
                return False
    return True


def _join(rows: loops.NestOp, columns: Sequence[_Columns], height: int) -> loops.NestOp:
    """Replaces the rows by blocks, which also begin with the sums of columns."""
    blocks = math.prod(size for size in rows.sizes if isinstance(size, int)) // height
    device = layout.device_of(layout.tensor_type_of(rows.results[0]))
    outs = [
        layout.tensor_type((blocks, one.width), op.results[0].type, device=device) for one in columns for op in one.sums
    ]
    joint = loops.NestOp.build((blocks,), [*(handle.type for handle in rows.handles), *outs])
    joint.location = rows.location
    Rewriter.insert_op(joint, InsertPoint.before(_first(rows, columns)))
    done = len(rows.results)
    handles: list[tuple[_Columns, Sequence[SSAValue]]] = []
    for one in columns:
        handles.append((one, joint.handles[done : done + len(one.sums)]))
        done += len(one.sums)
    _block(rows, handles, joint, height)
    reductions = [(one.nest, reduction) for one in columns for reduction in one.sums]
    for (nest, reduction), part in zip(reductions, joint.results[len(rows.results) :], strict=True):
        _from_parts(reduction, part, nest, blocks)
    for old, new in zip(rows.results, joint.results, strict=False):
        replace_all_uses(old, new)
        new.name_hint = old.name_hint
    remove(rows)
    return joint


def _block(
    rows: loops.NestOp, columns: Sequence[tuple[_Columns, Sequence[SSAValue]]], joint: loops.NestOp, height: int
) -> None:
    """Fills the body: what the columns begin with, and the rows one after the other."""
    for one, handles in columns:
        loop = loops.ForOp.build(one.nest.sizes)
        loop.location = one.nest.location
        joint.body.add_op(loop)
        place = [*joint.induction_variables, *loop.induction_variables]
        for reduction, handle in zip(one.sums, handles, strict=True):
            nothing = elem.constant(identity(reduction.kind, reduction.yielded.type), reduction.yielded.type)
            store = loops.StoreOp.build(nothing.results[0], handle, [sym.dim(k) for k in range(len(place))], place)
            nothing.location = store.location = reduction.location
            loop.body.add_ops([nothing, store])
    scan = loops.ScanOp.build((height,))
    scan.location = rows.location
    joint.body.add_op(scan)
    around = [*joint.induction_variables, *scan.induction_variables]
    substitution = Substitution(around)
    row = [
        sym.simplify(index, (*joint.sizes, height))
        for index in sym.delinearize(sym.dim(0) * height + sym.dim(1), rows.sizes)
    ]
    for variable, index in zip(rows.induction_variables, row, strict=True):
        substitution.set_index(variable, index)
    substitution.values |= dict(zip(rows.handles, joint.handles, strict=False))
    clone_into(rows.body.ops, InsertPoint.at_end(scan.body), substitution)
    for one, handles in columns:
        loop = loops.ForOp.build(one.nest.sizes)
        loop.location = one.nest.location
        scan.body.add_op(loop)
        substitution = Substitution([*around, *loop.induction_variables])
        for old, new in zip(one.nest.induction_variables, loop.induction_variables, strict=True):
            substitution.set_index(old, substitution.axis(new))
            new.name_hint = old.name_hint
        substitution.values |= dict(zip(rows.results, joint.handles, strict=False))
        clone_into(_needed(one), InsertPoint.at_end(loop.body), substitution)
        place = [*joint.induction_variables, *loop.induction_variables]
        for reduction, handle in zip(one.sums, handles, strict=True):
            for variable, index in zip(reduction.induction_variables, row, strict=True):
                substitution.set_index(variable, index)
            clone_into(ops_of(reduction.body)[:-1], InsertPoint.at_end(loop.body), substitution)
            value = substitution.value(reduction.yielded)
            combine = loops.CombineOp.build(
                reduction.kind, value, handle, [sym.dim(k) for k in range(len(place))], place
            )
            combine.location = reduction.location
            loop.body.add_op(combine)


def _needed(columns: _Columns) -> list[Operation]:
    """The ops of the nest's own body that the sums need, in order."""
    found: set[Operation] = set()
    work: list[Operation] = list(columns.sums)
    while work:
        for value in read_from(work.pop(), columns.nest.body):
            owner = value.owner
            if isinstance(owner, Operation) and owner not in found:
                found.add(owner)
                work.append(owner)
    return [op for op in columns.nest.body.ops if op in found]


def _from_parts(reduction: loops.ReduceOp, part: SSAValue, columns: loops.NestOp, blocks: int) -> None:
    """Replaces a reduction over rows by one over the parts of the blocks."""
    new = loops.ReduceOp.build(reduction.kind, (blocks,), reduction.yielded.type)
    indices = [*new.induction_variables, *columns.induction_variables]
    load = loops.LoadOp.build(part, [sym.dim(k) for k in range(len(indices))], indices)
    end = loops.YieldOp.build(load.result)
    new.location = load.location = end.location = reduction.location
    new.body.add_ops([load, end])
    Rewriter.insert_op(new, InsertPoint.before(reduction))
    new.results[0].name_hint = reduction.results[0].name_hint
    replace_all_uses(reduction.results[0], new.results[0])
    remove(reduction)
