"""`shift-scans`: a scan that is read some places further on is a scan of what lies so many places before.

    nest (%i : 64) { scan (%j : 511) { %r = running sum (%x[%i, %j]); store %r, %t[%i, %j] } }
    nest (%i : 64, %k : 512) { %c = %k >= 1; %v = load %t[%i, %k - 1] if %c else %e; …; store …, %y[%i, %k] }
    →
    nest (%i : 64) { scan (%k : 512) {
      %b = %k >= 1; %r = running sum (%x[%i, %k - 1] if %b else 0)
      %c = %k >= 1; %v = select %c, %r, %e; …; store …, %y[%i, %k]
    } }

What stands before the first term of a sum is 0. So the sum of all before a point, which a scan, a zero in front of it
and a concatenation say, is one nest, and nothing is stored in between. Before that, what reads a scan backwards goes
backwards itself (`backward_readers.py`).
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i64
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.operation import ops_of, replace_all_uses
from cuesta.dialects.core.structs import struct
from cuesta.dialects.core.tracing import no_match
from cuesta.dialects.loops.surgery import Substitution, clone_into, clone_op, remove
from cuesta.transforms.reductions.backward_readers import turn_readers

_PURE = (elem.ElementwiseOp, loops.IndexOp)
_OF_POINTS = (*_PURE, loops.LoadOp, loops.StoreOp)


class ShiftScansPass(ModulePass):
    """Of running sums of rows that one nest of points reads, at the points of a longer row less a number; and of what
    reads scans backwards. Exact, but for the order of a sum, which `loops.running` leaves open: nothing is added but
    zeros.

    Near misses: a sum that somebody else reads; that is read backwards, twice, or at every point (no shift); a
    product; a nest that reads something at a place which data say.
    """

    name = "shift-scans"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for nest in ops_of(entry_block(op)):
            if isinstance(nest, loops.NestOp):
                turn_readers(nest)
        for nest in ops_of(entry_block(op)):
            if isinstance(nest, loops.NestOp) and (scan := _Scan.of(nest)) is not None:
                read = scan.read()
                if isinstance(read, str):
                    no_match(nest, read)
                else:
                    read.compute()


@struct
class _Scan:
    """A nest that is one running sum over its rows, and all it stores is that, at its own points."""

    nest: loops.NestOp
    scan: loops.ScanOp
    running: loops.RunningOp
    store: loops.StoreOp

    @staticmethod
    def of(nest: loops.NestOp) -> _Scan | None:
        """What a nest is, if it is one."""
        scan = nest.body.first_op
        if (
            len(nest.results) != 1
            or nest.operands
            or not isinstance(scan, loops.ScanOp)
            or nest.body.last_op is not scan
        ):
            return None
        *ops, store = scan.body.ops
        running = [op for op in ops if isinstance(op, loops.RunningOp)]
        if (
            len(scan.sizes) != 1
            or len(running) != 1
            or running[0].kind != "sum"
            or not isinstance(store, loops.StoreOp)
        ):
            return None
        if store.mask is not None or not all(isinstance(op, (*_PURE, loops.LoadOp, loops.RunningOp)) for op in ops):
            return None
        if any(isinstance(op, loops.LoadOp) and (op.rest or op.source in nest.handles) for op in ops):
            return None
        return _Scan(nest, scan, running[0], store)

    @property
    def point(self) -> SSAValue:
        """The index that the sum goes along."""
        return self.scan.induction_variables[0]

    def stored_at(self) -> list[SSAValue]:
        """Which index each dimension of what is stored is; fewer where one is none, or another expression."""
        results = ((result, *sym.dims_of(result)) for result in self.store.map.results)
        return [
            self.store.indices[dims[0]] for result, *dims in results if len(dims) == 1 and result == sym.dim(dims[0])
        ]

    def read(self) -> _Read | str:
        """How the sums are read; or why not as a shift."""
        uses = list(self.nest.results[0].uses)
        load = uses[0].operation if len(uses) == 1 else None
        reader = load.parent_op() if isinstance(load, loops.LoadOp) else None
        if not isinstance(load, loops.LoadOp) or not isinstance(reader, loops.NestOp):
            return "what it sums up is read in several places, or not by a nest of points"
        if not load.rest or reader.operands or not all(isinstance(op, _OF_POINTS) for op in reader.body.ops):
            return "what reads it does more than points, or reads it at all of them"
        mine, variables, distance = self.stored_at(), dict[SSAValue, SSAValue](), 0
        if len(mine) != len(load.map.results) or {*mine} != {*self.nest.induction_variables, self.point}:
            return "it is stored at other places than its own"
        for own, result in zip(mine, load.map.results, strict=True):
            dims = sym.dims_of(result)
            moved = sym.substitute(result, [0] * len(load.indices))
            if len(dims) != 1 or not isinstance(moved, int) or result != sym.dim(*dims) + moved:
                return "it is read at other places than points less a number"
            (dim,) = dims
            variables[own] = load.indices[dim]
            if own is self.point:
                distance = -moved
            elif moved:
                return "it is read at other rows"
        sizes: dict[SSAValue, sym.IndexExpr] = dict(zip(reader.induction_variables, reader.sizes, strict=True))
        if {*variables.values()} != {*sizes} or distance < 1:
            return "it is not read once by every row, further on"
        rows = zip(self.nest.induction_variables, self.nest.sizes, strict=True)
        if any(sizes[variables[row]] != size for row, size in rows):
            return "it is read by other rows than there are"
        length, longer = self.scan.sizes[0], sizes[variables[self.point]]
        if not isinstance(length, int) or not isinstance(longer, int) or not longer <= length + distance:
            return "a row of what reads it ends behind the last sum"
        return _Read(self, reader, load, variables, distance)


@struct
class _Read:
    """A nest of points that reads sums `distance` places further on: `variables` are its indices, by those of the sums.
    Where the load's mask holds there is a sum, or it would read what is not there.
    """

    sums: _Scan
    reader: loops.NestOp
    load: loops.LoadOp
    variables: dict[SSAValue, SSAValue]
    distance: int

    def compute(self) -> None:
        """Computes the sums where they are read, in a nest that takes the place of both."""
        reader, along = self.reader, self.variables[self.sums.point]
        rows = [variable for variable in reader.induction_variables if variable is not along]
        sizes: dict[SSAValue, sym.IndexExpr] = dict(zip(reader.induction_variables, reader.sizes, strict=True))
        made = loops.NestOp.build([sizes[row] for row in rows], [one.type for one in reader.results])
        scan = loops.ScanOp.build([sizes[along]])
        made.location, scan.location = reader.location, self.sums.scan.location
        Rewriter.insert_op([scan], InsertPoint.at_end(made.body))
        new: dict[SSAValue, SSAValue] = {along: scan.induction_variables[0]}
        new |= dict(zip(rows, made.induction_variables, strict=True))
        end = InsertPoint.at_end(scan.body)
        summed = self.sum_before({own: new[there] for own, there in self.variables.items()}, end)
        substitution = Substitution(new.values())
        for old, there in new.items():
            substitution.set_index(old, substitution.axis(there))
        substitution.values |= dict(zip(reader.handles, made.handles, strict=True))
        for old, there in (*new.items(), *zip(reader.handles, made.handles, strict=True)):
            there.name_hint = old.name_hint
        for op in ops_of(reader.body):
            if op is not self.load:
                clone_into([op], end, substitution)
                continue
            mask, other = (substitution.value(one) for one in self.load.rest)
            chosen = elem.SelectOp.build(mask, summed, other)
            chosen.location = op.location
            Rewriter.insert_op([chosen], end)
            substitution.values[op.results[0]] = chosen.results[0]
        Rewriter.insert_op([made], InsertPoint.before(reader))
        for old, result in zip(reader.results, made.results, strict=True):
            result.name_hint = old.name_hint
            replace_all_uses(old, result)
        remove(reader)
        remove(self.sums.nest)

    def sum_before(self, variables: dict[SSAValue, SSAValue], end: InsertPoint) -> SSAValue:
        """The sum up to what lies `distance` before a point: what is before the first term is 0, and is not read."""
        point = variables[self.sums.point]
        substitution = Substitution(variables.values())
        for own, there in variables.items():
            substitution.set_index(own, substitution.axis(there) - (self.distance if there is point else 0))
        place = loops.IndexOp.build(sym.dim(0), [point], i64)
        first = elem.constant(self.distance, i64)
        begins = elem.make("ge", place.results[0], first.results[0])
        ops: list[Operation] = [place, first, begins]
        mask = begins.results[0]
        for op in ops_of(self.sums.scan.body):
            if op is self.sums.store:
                break
            if isinstance(op, loops.LoadOp):
                zero = elem.constant(0, op.results[0].type)
                at = substitution.expressions(op.map.results, op.indices)
                copy: Operation = loops.LoadOp.build(op.source, at, substitution.axes, mask, zero.results[0])
                ops.append(zero)
            elif op is self.sums.running:
                zero = elem.constant(0, op.operands[0].type)
                term = elem.SelectOp.build(mask, substitution.value(op.operands[0]), zero.results[0])
                copy = loops.RunningOp.build("sum", term.results[0])
                ops += [zero, term]
            else:
                copy = clone_op(op, substitution)
            ops.append(copy)
            substitution.values |= dict(zip(op.results, copy.results, strict=True))
            for old, there in zip(op.results, copy.results, strict=True):
                there.name_hint = old.name_hint
        for op in ops:
            op.location = self.sums.running.location
        Rewriter.insert_op(ops, end)
        return substitution.value(self.sums.store.value)


__all__ = ["ShiftScansPass"]
