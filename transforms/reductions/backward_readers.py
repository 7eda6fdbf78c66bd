"""What reads a scan backwards goes backwards itself, part of `shift-scans`.

    nest (%i : 64) { scan (%j : 512) { %r = running sum (…); store %r, %t[%i, %j] } }
    nest (%i : 64, %k : 512) { %v = load %t[%i, 511 - %k]; …; store …, %y[%i, %k] }
    →
    nest (%i : 64) { scan (%j : 512) { %r = running sum (…); store %r, %t[%i, %j] } }
    nest (%i : 64, %k : 512) { %v = load %t[%i, %k]; …; store …, %y[%i, 511 - %k] }

The points of such a nest may come in any order; so fusion can make one nest of both, and need not store the scan.
"""

from __future__ import annotations

from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.operation import ops_of, replace_all_uses
from cuesta.dialects.loops.surgery import Substitution, clone_into, loads_of, remove

_OF_POINTS = (elem.ElementwiseOp, loops.IndexOp, loops.LoadOp, loops.StoreOp)


def turn_readers(nest: loops.NestOp) -> None:
    """Turns the nests of points that read what a nest scans backwards along the scan, at every place else at their own
    points. Exact.

    Near misses: a nest that reads it in another order as well, that does more than points, or updates something.
    """
    for handle, result in zip(nest.handles, nest.results, strict=True):
        position = _scanned(nest, handle)
        if position is None:
            continue
        _read_through_copies(result)
        readers: dict[loops.NestOp, list[loops.LoadOp]] = {}
        for use in result.uses:
            load = use.operation
            reader = load.parent_op()
            if isinstance(load, loops.LoadOp) and isinstance(reader, loops.NestOp):
                readers.setdefault(reader, []).append(load)
        for reader in readers:
            loads = [load for load in loads_of(reader) if load.source in nest.results]
            if reader.operands or not all(isinstance(op, _OF_POINTS) for op in ops_of(reader.body)):
                continue
            backwards = {_backwards(load, position, reader) for load in loads}
            if len(backwards) == 1 and (variable := backwards.pop()) is not None:
                _turn(reader, variable)


def _scanned(nest: loops.NestOp, handle: SSAValue) -> int | None:
    """The dimension of a result along which it is stored by a scan of one axis, point by point; None without one."""
    stores = [use.operation for use in handle.uses if isinstance(use.operation, loops.StoreOp)]
    if len(stores) != 1 or not isinstance(scan := stores[0].parent_op(), loops.ScanOp) or len(scan.sizes) != 1:
        return None
    (store,), (point,) = stores, scan.induction_variables
    for position, result in enumerate(store.map.results):
        dims = sym.dims_of(result)
        if len(dims) == 1 and result == sym.dim(*dims) and store.indices[next(iter(dims))] is point:
            return position
    return None


def _read_through_copies(scanned: SSAValue) -> None:
    """load(copy of t)[i] -> load t[what the copy read there], of copies of what is scanned, whatever order they are in.

    A copy that is turned stores backwards, and then who reads it backwards would find what other points store: a
    gradient of a sum from the end is one of the beginning, through two copies.
    """
    pending = [use.operation for use in scanned.uses]
    while pending:
        copy = pending.pop().parent_op()
        if not isinstance(copy, loops.NestOp) or len(copy.results) != 1 or copy.operands:
            continue
        first, *rest = ops_of(copy.body)
        store = rest[0] if len(rest) == 1 else None
        if not isinstance(first, loops.LoadOp) or first.rest or not isinstance(store, loops.StoreOp) or store.rest:
            continue
        own = [store.indices[dim] for result in store.map.results for dim in sym.dims_of(result)]
        if store.value is not first.result or own != list(copy.induction_variables):
            continue
        if list(store.map.results) != [sym.dim(axis) for axis in range(len(own))]:
            continue
        for read in list(copy.results[0].uses):
            load = read.operation
            if not isinstance(load, loops.LoadOp):
                continue
            there = dict(zip(own, load.map.results, strict=True))
            place = [sym.substitute(one, [there[index] for index in first.indices]) for one in first.map.results]
            mask, other = load.rest if load.rest else (None, None)
            new = loops.LoadOp.build(scanned, place, load.indices, mask, other)
            new.location = load.location
            Rewriter.insert_op([new], InsertPoint.before(load))
            new.result.name_hint = load.result.name_hint
            replace_all_uses(load.result, new.result)
            remove(load)
            pending.append(new)
        if not copy.results[0].uses:
            remove(copy)


def _backwards(load: loops.LoadOp, position: int, reader: loops.NestOp) -> SSAValue | None:
    """The axis of a nest of points along which a load goes backwards from the last element on, at one position, while
    it goes along others at the rest, or stays where it is; None where it does not.
    """
    found: SSAValue | None = None
    others = set[SSAValue]()
    sizes: dict[SSAValue, sym.IndexExpr] = dict(zip(reader.induction_variables, reader.sizes, strict=True))
    for place, result in enumerate(load.map.results):
        dims = sym.dims_of(result)
        if place != position:
            if not dims:
                continue  # one place for all points: a dimension of one element is read so
            if len(dims) != 1 or result != sym.dim(*dims):
                return None
            others.add(load.indices[next(iter(dims))])
            continue
        if len(dims) != 1:
            return None
        (dim,) = dims
        found = load.indices[dim]
        if found not in sizes or result != sizes[found] - 1 - sym.dim(dim):
            return None
    return None if found in others else found


def _turn(nest: loops.NestOp, variable: SSAValue) -> None:
    """Makes a nest of points go along one of its axes from the end."""
    made = loops.NestOp.build(nest.sizes, [one.type for one in nest.results])
    made.location = nest.location
    Rewriter.insert_op([made], InsertPoint.before(nest))
    substitution = Substitution(made.induction_variables)
    for old, new, size in zip(nest.induction_variables, made.induction_variables, nest.sizes, strict=True):
        axis = substitution.axis(new)
        substitution.set_index(old, size - 1 - axis if old is variable else axis)
        new.name_hint = old.name_hint
    for old, new in zip(nest.handles, made.handles, strict=True):
        substitution.values[old] = new
        new.name_hint = old.name_hint
    clone_into(ops_of(nest.body), InsertPoint.at_end(made.body), substitution)
    for old, new in zip(nest.results, made.results, strict=True):
        new.name_hint = old.name_hint
        replace_all_uses(old, new)
    remove(nest)


__all__ = ["turn_readers"]
