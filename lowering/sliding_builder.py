"""Writing the kernel of a nest that slides: neighbouring points in one program, which share what they both compute.

    for row in 0..7, column (in lanes): maximum (i : 3, j : 3) of %x[row + i, column + j]
    →
    r0 = max(x[0, column], x[0, column + 1], x[0, column + 2])   r1 = …                     … r9 = …
    store max(r0, r1, r2), max(r1, r2, r3), …, max(r7, r8, r9)

Nothing is known here of windows. Each point of the tile is written out, its reductions too, axis by axis; and an op
that is there already is not written again. Stores come last, so that no load has to wait for one.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import i32, i64
from xdsl.ir import Operation, SSAValue

from cuesta.dialects import elem, kernel, loops, sym
from cuesta.dialects.elem import kind_of
from cuesta.dialects.kernel.shapes import Shape, join, shape_of
from cuesta.lowering.kernel_builder import KernelBuilder
from cuesta.lowering.nest_analysis import NestAnalysis
from cuesta.lowering.schedule import Schedule

STEPS = {"sum": "add", "prod": "mul", "maximum": "maximum", "minimum": "minimum", "any": "or", "all": "and"}
"""The op that takes one more point into a reduction."""
EXTREMES = {"argmax": "maximum", "argmin": "minimum"}
_BETTER = {"argmax": "gt", "argmin": "lt"}
_NO_BETTER = {"argmax": "le", "argmin": "ge"}

Partial = tuple[SSAValue, SSAValue | None]
"""A reduction of some points: the value, and of an arg-reduction the number of the point."""


class SlidingBuilder(KernelBuilder):
    """Writes a schedule of which `slides` is true: lanes in `order`, everything else written out.

    Requires: the loops of the nest are reductions of `STEPS` or `EXTREMES` of static size, right in it; what it stores
    it does not load; nothing in it is checked (`loops.bound`).
    """

    def __init__(self, analysis: NestAnalysis, schedule: Schedule) -> None:
        super().__init__(analysis, schedule)
        self.tiles = {
            parallel.axis: parallel.tile for parallel in schedule.parallel if parallel.tile and not parallel.loop
        }
        self.point: dict[int, int] = {}
        """Of every axis that is written out, the point that is being written: of its tile, or of a reduction."""
        self.known: dict[object, Operation] = {}
        self.stores: list[tuple[Operation, Operation]] = []
        self.location = analysis.nest.location

    # The points of a tile

    def points(self) -> None:
        """Writes the body for every point of the tile; the last tile of an axis that does not divide begins earlier,
        and leaves out the stores that the tile before it makes.
        """
        ((axis, tile),) = self.tiles.items()
        for point in range(tile):
            self.point[axis] = point
            super().points()
        for old, new in self.stores:
            super().finish(old, new, len(self.scopes) - 1)

    def image(self, axis: int, operands: list[SSAValue]) -> sym.IndexExpr:
        """A number for a point of a reduction; for one of a tile its distance from the first."""
        if axis not in self.tiles:
            return self.point[axis] if axis in self.point else super().image(axis, operands)
        start = super().image(axis, operands) * self.tiles[axis]
        size = self.analysis.sizes[axis]
        if not self.divides(axis):
            start = sym.minimum(start, size - self.tiles[axis])
        return start + self.point[axis]

    def divides(self, axis: int) -> bool:
        size = self.analysis.sizes[axis]
        return isinstance(size, int) and size % self.tiles[axis] == 0

    def store_conditions(self, op: loops.StoreOp, shape: Shape) -> Sequence[SSAValue]:
        """The mask of a store, and whether no other program makes it."""
        masked = super().store_conditions(op, shape)
        for axis in self.tiles:
            if not self.divides(axis):
                self.location = op.location
                own = self.broadcast(self.is_own(axis), shape) if shape else self.is_own(axis)
                masked = [self.pure("and", masked[0], own)] if masked else [own]
        return masked

    def is_own(self, axis: int) -> SSAValue:
        """Whether a point of the tile is not of the tile before: start + point ≥ program · tile."""
        first = self.index_values[axis]
        assert first is not None
        here, (operand,) = self.image(axis, operands := []), operands
        begin = sym.dim(0) * self.tiles[axis]
        values = [self.share(kernel.IndexOp.build(e, [operand], i64)) for e in (here, begin)]
        return self.pure("ge", *values)

    # Ops that are written once

    def finish(self, old: Operation, new: Operation, depth: int) -> None:
        """Places an op, unless one like it is there."""
        if isinstance(new, kernel.StoreOp):
            self.stores.append((old, new))
            return
        key = self.key(new)
        found = self.known.get(key)
        if found is None:
            self.known[key] = new
            super().finish(old, new, depth)
            return
        for old_result, result in zip(old.results, found.results, strict=True):
            self.values[old_result] = result
        new.erase()

    @staticmethod
    def key(op: Operation) -> object:
        properties = tuple(sorted(op.properties.items()))
        return type(op), tuple(op.operands), properties, tuple(result.type for result in op.results)

    def share(self, op: Operation) -> SSAValue:
        """The result of an op of our own making: of one like it that is there already, or else of this one."""
        op.location = self.location
        key = self.key(op)
        found = self.known.get(key)
        if found is None:
            self.known[key] = found = self.emit(op, self.placement(op.operands))
        else:
            op.erase()
        return found.results[0]

    def pure(self, name: str, *operands: SSAValue) -> SSAValue:
        """A table op."""
        return self.share(elem.make(name, *operands))

    # Reductions

    def reduce(self, op: loops.ReduceOp) -> None:
        """All points of a reduction, one after the other; along its first axis last, which is where points share."""
        axes, _ = self.schedule.loops[op]
        self.location = op.location
        is_arg = op.kind in EXTREMES
        value, index = self.partial(op, axes) if axes else (self.yielded(op, ()), None)
        self.values[op.results[0]] = value
        if is_arg:
            self.values[op.results[1]] = self.whole_index(op, index)

    def yielded(self, op: loops.ReduceOp, shape: Shape) -> SSAValue:
        self.body(op.body)
        return self.value(op.yielded, join(shape, self.shape((op.yielded,))))

    def partial(self, op: loops.ReduceOp, axes: Sequence[int]) -> Partial:
        """The reduction over `axes`, at the present points of those before them."""
        axis, *inner = axes
        size = self.analysis.sizes[axis]
        assert isinstance(size, int)
        wanted = op.kind in EXTREMES and op.results[1].first_use is not None
        step = 1
        for each in inner:
            step *= self.size_of(each)
        found: Partial | None = None
        for point in range(size):
            self.point[axis] = point
            value, index = self.partial(op, inner) if inner else (self.yielded(op, ()), None)
            if wanted:
                index = self.moved(index, point * step, shape_of(value))
            found = (value, index) if found is None else self.together(op, found, (value, index))
        del self.point[axis]
        assert found is not None
        return found

    def size_of(self, axis: int) -> int:
        size = self.analysis.sizes[axis]
        assert isinstance(size, int)
        return size

    def number(self, number: int, shape: Shape) -> SSAValue:
        return self.constant(elem.constant(number, i32), shape)

    def moved(self, index: SSAValue | None, by: int, shape: Shape) -> SSAValue:
        """index + by"""
        if index is None:
            return self.number(by, shape)
        return self.pure("add", index, self.number(by, shape_of(index))) if by else index

    def together(self, op: loops.ReduceOp, first: Partial, second: Partial) -> Partial:
        """The reduction of two parts, of which the first has the earlier points."""
        a, b = first[0], second[0]
        shape = join(shape_of(a), shape_of(b))
        a, b = (value if shape_of(value) == shape else self.broadcast(value, shape) for value in (a, b))
        if op.kind in STEPS:
            return self.pure(STEPS[op.kind], a, b), None
        value = self.pure(EXTREMES[op.kind], a, b)
        if first[1] is None or second[1] is None:
            return value, None
        i, j = (index if shape_of(index) == shape else self.broadcast(index, shape) for index in (first[1], second[1]))
        if kind_of(a.type) == "f":  # NaN is better than any number, and the first of several is the best
            better = self.pure("not", self.pure(_NO_BETTER[op.kind], b, a))
            better = self.pure("and", better, self.pure("eq", a, a))
        else:
            better = self.pure(_BETTER[op.kind], b, a)
        return value, self.share(elem.SelectOp.build(better, j, i))

    def whole_index(self, op: loops.ReduceOp, index: SSAValue | None) -> SSAValue:
        if index is None:
            return self.constant(elem.constant(0, i64), ())
        return self.share(elem.ConvertOp.build(index, i64))


__all__ = ["EXTREMES", "STEPS", "SlidingBuilder"]
