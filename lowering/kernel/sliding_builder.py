"""Writing the kernel of a nest that slides: neighbouring points in one program, which share what they both compute.

    for row in 0..7, column (in lanes): maximum (i : 3, j : 3) of %x[row + i, column + j]
    →
    r0 = max(x[0, column], x[0, column + 1], x[0, column + 2])   r1 = …                     … r9 = …
    store max(r0, r1, r2), max(r1, r2, r3), …, max(r7, r8, r9)

Nothing is known here of windows. Each point of the tile is written out, its reductions too, axis by axis; and an op
that is there already is not written again. Stores come last, so that no load has to wait for one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import product

from xdsl.dialects.builtin import i1, i32, i64
from xdsl.ir import Operation, SSAValue

from cuesta.dialects import elem, kernel, loops, sym
from cuesta.dialects.core.reductions import EXTREMES, JOINS, REDUCTIONS
from cuesta.dialects.elem import kind_of
from cuesta.dialects.kernel.shapes import Shape, join, shape_of, shaped
from cuesta.dialects.loops.analysis import NestAnalysis
from cuesta.lowering.kernel.kernel_builder import KernelBuilder
from cuesta.lowering.schedule.schedule import Schedule

_BETTER = {"maximum": "gt", "minimum": "lt"}
_NO_BETTER = {"maximum": "le", "minimum": "ge"}

Partial = tuple[SSAValue, SSAValue | None]
"""A reduction of some points: the value, and of an arg-reduction the number of the point."""


class SlidingBuilder(KernelBuilder):
    """Writes a schedule of which `slides` is true: lanes in `order`, everything else written out.

    Requires: the loops of the nest are reductions of `JOINS` or `EXTREMES` of static size, right in it; what it stores
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
        self.guards: dict[object, int] = {}
        """Of loads that some points of a group do not make, the first point that does."""
        self.stores: list[tuple[Operation, Operation]] = []
        self.location = analysis.nest.location

    # The points of a tile

    def points(self) -> None:
        """Writes the body for every point of the tile; the last tile of an axis that does not divide begins earlier,
        and leaves out the stores that the tile before it makes.
        """
        for place in product(*map(range, self.tiles.values())):
            self.point |= zip(self.tiles, place, strict=True)
            super().points()
        for old, new in self.stores:
            super().finish(old, new, len(self.scopes) - 1)
        for scope in reversed(self.scopes):
            scope.ops = _without_unused(scope.ops)

    def image(self, axis: int, operands: list[SSAValue]) -> sym.IndexExpr:
        """A number for a point of a reduction; for one of a tile its distance from the first."""
        if axis not in self.tiles:
            return self.point[axis] if axis in self.point else super().image(axis, operands)
        size = self.analysis.sizes[axis]
        if size == self.tiles[axis]:
            return self.point[axis]
        start = super().image(axis, operands) * self.tiles[axis]
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
        inside = self.inside(op)
        if inside is not None:
            inside = self.spread(inside, shape)
            masked = [self.pure("and", masked[0], inside)] if masked else [inside]
        return masked

    def inside(self, op: Operation) -> SSAValue | None:
        """Whether the present point is one of the nest; None when it is."""
        if self.schedule.within is None:
            return None
        self.location = op.location
        place, size = self.schedule.within
        used, e = self.expression(place)
        found = self.condition("lt", e, used, size)
        return None if found == self.always else found

    def is_own(self, axis: int) -> SSAValue:
        """Whether a point of the tile is not of the tile before: start + point ≥ program · tile."""
        first = self.index_values[axis]
        assert first is not None
        here, (operand,) = self.image(axis, operands := []), operands
        begin = sym.dim(0) * self.tiles[axis]
        values = [self.share(kernel.IndexOp.build(e, [operand], i64)) for e in (here, begin)]
        return self.pure("ge", *values)

    def spread(self, value: SSAValue, shape: Shape) -> SSAValue:
        return value if shape_of(value) == shape else self.broadcast(value, shape)

    # Conditions on places

    def elementwise(self, op: elem.ElementwiseOp) -> None:
        """A comparison of a place with a number is simplified, so that neighbours have one condition where they can."""
        if isinstance(op, elem.TableOp) and op.row.name in ("ge", "lt", "and"):
            self.location = op.location
            found = self.conjunction(op) if op.row.name == "and" else self.comparison(op)
            if found is not None:
                self.values[op.results[0]] = found
                return
        super().elementwise(op)

    def is_masked(self, op: loops.LoadOp) -> bool:
        """Whether its mask may be false."""
        return op.mask is None or self.values.get(op.mask) != self.always

    def conjunction(self, op: elem.TableOp) -> SSAValue | None:
        """a ∧ true = a"""
        a, b = (self.values.get(operand) for operand in op.operands)
        return b if a == self.always else a if b == self.always else None

    def comparison(self, op: elem.TableOp) -> SSAValue | None:
        """g·q + r ≥ n ⇔ q ≥ ⌈(n − r) / g⌉, which may always hold; likewise <."""
        place, number = (self.values.get(operand) for operand in op.operands)
        bound = self.constant_ops.get(op.operands[1])
        index = None if place is None else place.owner
        if number is not None or bound is None or not isinstance(index, kernel.IndexOp):
            return None
        return self.condition(op.row.name, index.offset, index.indices, int(bound.value))

    def condition(self, name: str, e: sym.IndexExpr, operands: Sequence[SSAValue], limit: int) -> SSAValue:
        """e ≥ limit, or e < limit, for an expression over `operands`."""
        sizes, ranges = [self.extent(operand) for operand in operands], self.analysis.symbol_ranges
        low, high = sym.bounds(e, sizes, ranges)
        if low is not None and low >= limit if name == "ge" else high is not None and high < limit:
            return self.always
        if not isinstance(e, int):
            step = math.gcd(*(factor for _, factor in e.terms))
            quotient = sym.simplify((e - e.constant) // step, sizes, ranges)
            if step > 1 and quotient * step == e - e.constant:
                e, limit = quotient, -((e.constant - limit) // step)
        value = self.share(kernel.IndexOp.build(e, operands, i64))
        return self.pure(name, value, self.constant(elem.constant(limit, i64), shape_of(value)))

    @cached_property
    def always(self) -> SSAValue:
        """True."""
        return self.constant(elem.constant(True, i1), ())

    def extent(self, index: SSAValue) -> sym.IndexExpr:
        """How many points an index runs through, from 0 on."""
        (axis,) = (axis for axis, value in enumerate(self.index_values) if value is index)
        size = self.analysis.sizes[axis]
        return sym.ceildiv(size, self.tiles[axis]) if axis in self.tiles else size

    # Ops that are written once

    def finish(self, old: Operation, new: Operation, depth: int) -> None:
        """Places an op, unless one like it is there."""
        if isinstance(new, kernel.StoreOp):
            self.stores.append((old, new))
            return
        key = self.key(new)
        found = self.known.get(key)
        if isinstance(new, kernel.LoadOp) and self.schedule.within is not None:
            last = self.point[next(reversed(self.tiles))]
            if found is None or self.guards[key] > last:
                found, self.guards[key] = None, last
                new, depth = self.guarded(old, new, depth)
        if found is None:
            self.known[key] = new
            super().finish(old, new, depth)
            return
        for old_result, result in zip(old.results, found.results, strict=True):
            self.values[old_result] = result
        new.erase()

    def guarded(self, old: Operation, load: kernel.LoadOp, depth: int) -> tuple[Operation, int]:
        """A load that no point makes which is not one of the nest, and its depth.

        Later points of a group may share it: where one of them is a point of the nest, so is this one.
        """
        inside = self.inside(old)
        if inside is None:
            return load, depth
        shape = join(shape_of(load.result), shape_of(inside))
        inside = self.spread(inside, shape)
        if load.mask is None or load.other is None:
            mask, other = inside, self.constant(elem.constant(0, elem.scalar_of(load.result.type)), shape)
        else:
            mask, other = (self.spread(value, shape) for value in (load.mask, load.other))
            mask = self.pure("and", mask, inside)
        new = kernel.LoadOp.create(
            operands=(load.pointer, *load.indices, mask, other),
            result_types=(shaped(elem.scalar_of(load.result.type), shape),),
            properties=load.properties,
        )
        load.erase()
        return new, self.careful_placement(new.operands[1:])

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
        a, b = self.spread(a, shape), self.spread(b, shape)
        product = b.owner
        if (
            op.kind == "sum"
            and isinstance(product, elem.TableOp)
            and product.row.name == "mul"
            and kind_of(b.type) == "f"
        ):
            return self.pure("multiply_add", *product.operands, a), None
        if op.kind in JOINS:
            return self.pure(JOINS[op.kind], a, b), None
        extreme = EXTREMES[op.kind]
        value = self.pure(extreme, a, b)
        if first[1] is None or second[1] is None:
            return value, None
        i, j = self.spread(first[1], shape), self.spread(second[1], shape)
        if kind_of(a.type) != "f":
            better = self.pure(_BETTER[extreme], b, a)
        elif REDUCTIONS[op.kind].last_nan:
            better = self.pure("or", self.pure(_BETTER[extreme], b, a), self.pure("ne", b, b))
        else:  # NaN is better than any number, and the first of several is the best
            better = self.pure("not", self.pure(_NO_BETTER[extreme], b, a))
            better = self.pure("and", better, self.pure("eq", a, a))
        return value, self.share(elem.SelectOp.build(better, j, i))

    def whole_index(self, op: loops.ReduceOp, index: SSAValue | None) -> SSAValue:
        if index is None:
            return self.constant(elem.constant(0, i64), ())
        return self.share(elem.ConvertOp.build(index, i64))


def _without_unused(ops: Sequence[Operation]) -> list[Operation]:
    """The ops, but for places, numbers and conditions that nothing needs."""
    kept: list[Operation] = []
    for op in reversed(ops):
        if isinstance(op, kernel.IndexOp | elem.TableOp | elem.ConstantOp) and op.results[0].first_use is None:
            op.erase()
        else:
            kept.append(op)
    return kept[::-1]


__all__ = ["SlidingBuilder"]
