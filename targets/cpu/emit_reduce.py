"""Accumulators of `kernel.reduce`: identity, step, and how lanes come together at the end."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import i32, i64
from xdsl.ir import Attribute

from cuesta.dialects import elem, kernel
from cuesta.dialects.core.reductions import EXTREMES, JOINS, REDUCTIONS, identity
from cuesta.dialects.elem import TABLE, kind_of, scalar_of
from cuesta.targets.cpu.emit_dot import add_dot
from cuesta.targets.cpu.emit_types import constant, scalar_text, suffix, type_text
from cuesta.targets.cpu.features import host_features
from cuesta.targets.cpu.vector_text import vector_type

if TYPE_CHECKING:
    from cuesta.targets.cpu.emit_kernel import KernelEmitter

IN_REGISTERS = 16
"""Of so many vectors, sums fill the registers: of one piece of a sum they go to memory for the next.

Source: a definition: half of the 32 registers.
"""


class Accumulator:
    """What a reduction carries around its loops: `values` are the present names, scalars or vectors of `lanes`."""

    adds_up = False
    """Whether it is a sum of floats, which is better taken in pieces."""

    def __init__(self, emitter: KernelEmitter, op: kernel.ReduceOp) -> None:
        self.op = op
        self.scalar: Attribute = scalar_of(op.yielded.type)
        self.own_lanes = op.lanes > 1
        self.lanes = 1 if self.own_lanes else emitter.lanes_of(op.yielded.type)
        self.values: list[str] = self.identity(self.lanes)
        self._narrow: list[str] = []

    @property
    def vectors(self) -> int:
        """How many vectors of the machine a block of points is reduced in, of rows that stand side by side and lanes
        that are no own ones.
        """
        return 0

    def types(self, lanes: int) -> list[str]:
        """The LLVM types of the values."""
        return [type_text(self.scalar, lanes)]

    def identity(self, lanes: int) -> list[str]:
        """The values of an empty reduction."""
        raise TypeError("an accumulator has an identity")

    def step(self, emitter: KernelEmitter, value: str, lanes: int) -> list[str]:
        """The values after one more element in every lane."""
        raise TypeError("an accumulator has a step")

    def merge(self, emitter: KernelEmitter, before: list[str]) -> list[str]:
        """The values joined with those of an earlier part, lane by lane. Only of an accumulator that `adds_up`."""
        raise TypeError("an accumulator that adds up can be merged")

    def across(self, emitter: KernelEmitter, lanes: int) -> list[str]:
        """The lanes of `values` brought together with the scalar values from before the loop."""
        raise TypeError("an accumulator brings lanes together")

    def enter(self, emitter: KernelEmitter) -> list[tuple[str, str, str]]:
        """Begins a loop: a phi (name, type, initial value) for every value."""
        carried = [
            (emitter.fresh(), kind, value) for kind, value in zip(self.types(self.lanes), self.values, strict=True)
        ]
        self.values = [name for name, _, _ in carried]
        return carried

    def update(self, emitter: KernelEmitter, op: kernel.LoopOp) -> None:
        """Takes in what the body yields."""
        assert isinstance(op, kernel.ReduceOp)
        self.values = self.step(emitter, emitter.name(op.yielded), self.lanes)

    def widen(self, emitter: KernelEmitter, width: int) -> None:
        """Begins a part of the loop with `width` lanes."""
        if width > 1 and self.own_lanes:
            self._narrow = self.values
            self.lanes = width
            self.values = self.identity(width)

    def narrow(self, emitter: KernelEmitter, width: int) -> None:
        """Ends that part: one value is left."""
        if width > 1 and self.own_lanes:
            self.values = self.across(emitter, width)
            self.lanes = 1

    def finish(self, emitter: KernelEmitter) -> list[str]:
        """The results, in the order of the op's."""
        return self.values


class SimpleAccumulator(Accumulator):
    """One associative, commutative operation: sum, prod, maximum, minimum, any, all. Where rows stand side by side,
    there is a value for each.
    """

    def __init__(self, emitter: KernelEmitter, op: kernel.ReduceOp) -> None:
        self.rows = emitter.rows if emitter.varies_by_row(op.results[0]) else 1
        super().__init__(emitter, op)
        self.adds_up = op.kind == "sum" and kind_of(self.scalar) == "f"

    def types(self, lanes: int) -> list[str]:
        """The type of a value, for every row."""
        return super().types(lanes) * self.rows

    @property
    def vectors(self) -> int:
        """How many vectors a block of points is reduced in."""
        return 0 if self.own_lanes or self.rows == 1 else self.rows * self.lanes // host_features().f32_lanes

    def merge(self, emitter: KernelEmitter, before: list[str]) -> list[str]:
        """before ∘ values"""
        return [self.combine(emitter, a, b, self.lanes) for a, b in zip(before, self.values, strict=True)]

    def identity(self, lanes: int) -> list[str]:
        """The neutral element, for every row."""
        return [constant(identity(self.op.kind, self.scalar), self.scalar, lanes)] * self.rows

    def update(self, emitter: KernelEmitter, op: kernel.LoopOp) -> None:
        """values ∘ what the body yields"""
        assert isinstance(op, kernel.ReduceOp)
        updated: list[str] = []
        product = op.yielded.owner if op.kind == "sum" else None
        for row, value in enumerate(self.values):
            with emitter.at_row(row) if self.rows > 1 else nullcontext():
                if isinstance(product, elem.DotOp) and product.parent is op.body:
                    updated.append(add_dot(emitter, product, value, self.lanes))
                elif self.adds_up and isinstance(product, elem.MulOp) and product.parent is op.body:
                    updated.append(self._add_product(emitter, product, value))
                else:
                    updated.append(self.combine(emitter, emitter.name(op.yielded), value, self.lanes))
        self.values = updated

    def _add_product(self, emitter: KernelEmitter, product: elem.TableOp, value: str) -> str:
        """a · b + value, rounded once where the processor can."""
        kind = type_text(self.scalar, self.lanes)
        factors = ", ".join(f"{kind} {emitter.name(factor)}" for factor in product.operands)
        name = f"@llvm.fmuladd.{suffix(self.scalar, self.lanes)}"
        return emitter.instruction(f"call {kind} {name}({factors}, {kind} {value})")

    def combine(self, emitter: KernelEmitter, a: str, b: str, lanes: int) -> str:
        """a ∘ b"""
        row = TABLE[JOINS[self.op.kind]]
        result = emitter.fresh()
        text = row.llvm[kind_of(self.scalar)].format(
            r=result,
            a=a,
            b=b,
            t=type_text(self.scalar, lanes),
            m=vector_type("i1", lanes),
            s=suffix(self.scalar, lanes),
        )
        for line in text.split("\n"):
            emitter.line(line)
        return result

    def across(self, emitter: KernelEmitter, lanes: int) -> list[str]:
        """Halves the vector until one lane is left: a tree, as accurate as any order."""
        return [
            self.combine(emitter, self._halved(emitter, value, lanes), narrow, 1)
            for value, narrow in zip(self.values, self._narrow, strict=True)
        ]

    def _halved(self, emitter: KernelEmitter, value: str, lanes: int) -> str:
        while lanes > 1:
            half = lanes // 2
            kind = type_text(self.scalar, lanes)
            low = ", ".join(f"i32 {lane}" for lane in range(half))
            high = ", ".join(f"i32 {lane}" for lane in range(half, lanes))
            if half > 1:
                a = emitter.instruction(f"shufflevector {kind} {value}, {kind} poison, <{half} x i32> <{low}>")
                b = emitter.instruction(f"shufflevector {kind} {value}, {kind} poison, <{half} x i32> <{high}>")
            else:
                a = emitter.instruction(f"extractelement {kind} {value}, i64 0")
                b = emitter.instruction(f"extractelement {kind} {value}, i64 1")
            value = self.combine(emitter, a, b, half)
            lanes = half
        return value


class ArgAccumulator(Accumulator):
    """Arg-reductions: the extreme, where it was, and a running count of the points seen. NaN is the extreme; the first
    wins, but the last NaN where the kind says so.

    A lane begins with the identity at its own first point: when nothing is beyond it, that point is the answer. Side
    by side, a lane remembers the count at its step; its own number is added at the end.
    """

    def __init__(self, emitter: KernelEmitter, op: kernel.ReduceOp) -> None:
        self.place = i32 if _points(op) < 1 << 31 else i64
        super().__init__(emitter, op)

    @property
    def greater(self) -> bool:
        """Whether the largest is wanted."""
        return EXTREMES[self.op.kind] == "maximum"

    @property
    def last_nan(self) -> bool:
        """Whether a later NaN wins over an earlier one."""
        return REDUCTIONS[self.op.kind].last_nan and kind_of(self.scalar) == "f"

    def types(self, lanes: int) -> list[str]:
        """Extreme, place, count."""
        return [type_text(self.scalar, lanes), type_text(self.place, lanes), scalar_text(self.place)]

    def identity(self, lanes: int) -> list[str]:
        """The first point, and a value that nothing is beyond."""
        worst = identity(self.op.kind, self.scalar)
        return [constant(worst, self.scalar, lanes), constant(0, self.place, lanes), "0"]

    def step(self, emitter: KernelEmitter, value: str, lanes: int) -> list[str]:
        """Takes the value over when it is beyond the extreme, or NaN where that counts."""
        best, place, count = self.values
        wide, boolean = type_text(self.place, lanes), vector_type("i1", lanes)
        take = self._beyond(emitter, value, best, lanes)
        here = _splat(emitter, count, scalar_text(self.place), lanes)
        kind = type_text(self.scalar, lanes)
        best = emitter.instruction(f"select {boolean} {take}, {kind} {value}, {kind} {best}")
        place = emitter.instruction(f"select {boolean} {take}, {wide} {here}, {wide} {place}")
        points = lanes if self.own_lanes else 1
        return [best, place, emitter.instruction(f"add {scalar_text(self.place)} {count}, {points}")]

    def _beyond(self, emitter: KernelEmitter, value: str, best: str, lanes: int) -> str:
        kind, boolean = type_text(self.scalar, lanes), vector_type("i1", lanes)
        operand = kind_of(self.scalar)
        if operand != "f":
            sign = "u" if operand in "ub" else "s"
            return emitter.instruction(f"icmp {sign}{'gt' if self.greater else 'lt'} {kind} {value}, {best}")
        if self.last_nan:
            beyond = emitter.instruction(f"fcmp {'ogt' if self.greater else 'olt'} {kind} {value}, {best}")
            nan = emitter.instruction(f"fcmp uno {kind} {value}, {value}")
            return emitter.instruction(f"or {boolean} {beyond}, {nan}")
        beyond = emitter.instruction(f"fcmp {'ugt' if self.greater else 'ult'} {kind} {value}, {best}")
        number = emitter.instruction(f"fcmp ord {kind} {best}, {best}")
        return emitter.instruction(f"and {boolean} {beyond}, {number}")

    def widen(self, emitter: KernelEmitter, width: int) -> None:
        """Begins a part of the loop with `width` lanes, all at the present count."""
        super().widen(emitter, width)
        if width > 1 and self.own_lanes:
            count = self._narrow[2]
            self.values[1:] = [_splat(emitter, count, scalar_text(self.place), width), count]

    def across(self, emitter: KernelEmitter, lanes: int) -> list[str]:
        """The extreme of all lanes, the place among those that have it; then whichever of it and the earlier part is
        beyond the other.
        """
        values, places, count = self.values
        kind, wide, boolean = type_text(self.scalar, lanes), type_text(self.place, lanes), vector_type("i1", lanes)
        one, place_type = type_text(self.scalar, 1), scalar_text(self.place)
        best = emitter.instruction(
            f"call {one} @llvm.vector.reduce.{self._reduction()}.{suffix(self.scalar, lanes)}({kind} {values})"
        )
        splat = _splat(emitter, best, one, lanes)
        if kind_of(self.scalar) == "f":
            equal = emitter.instruction(f"fcmp oeq {kind} {values}, {splat}")
            nan = emitter.instruction(f"fcmp uno {kind} {values}, {values}")
            here = emitter.instruction(f"or {boolean} {equal}, {nan}")
        else:
            here = emitter.instruction(f"icmp eq {kind} {values}, {splat}")
        number = ", ".join(f"{place_type} {lane}" for lane in range(lanes))
        absolute = emitter.instruction(f"add {wide} {places}, <{number}>")
        far = emitter.instruction(
            f"select {boolean} {here}, {wide} {absolute}, {wide} {constant(-1, self.place, lanes)}"
        )
        place = emitter.instruction(f"call {place_type} @llvm.vector.reduce.umin.v{lanes}{place_type}({wide} {far})")
        if self.last_nan:
            near = emitter.instruction(
                f"select {boolean} {here}, {wide} {absolute}, {wide} {constant(0, self.place, lanes)}"
            )
            last = emitter.instruction(
                f"call {place_type} @llvm.vector.reduce.umax.v{lanes}{place_type}({wide} {near})"
            )
            is_nan = emitter.instruction(f"fcmp uno {one} {best}, {best}")
            place = emitter.instruction(f"select i1 {is_nan}, {place_type} {last}, {place_type} {place}")
        before, place_before, _ = self._narrow
        take = self._beyond(emitter, best, before, 1)
        best = emitter.instruction(f"select i1 {take}, {one} {best}, {one} {before}")
        place = emitter.instruction(f"select i1 {take}, {place_type} {place}, {place_type} {place_before}")
        return [best, place, count]

    def _reduction(self) -> str:
        operand = kind_of(self.scalar)
        if operand == "f":
            return "fmaximum" if self.greater else "fminimum"
        return ("u" if operand in "ub" else "s") + ("max" if self.greater else "min")

    def finish(self, emitter: KernelEmitter) -> list[str]:
        """Extreme and index."""
        best, place, _ = self.values
        if self.place == i32:
            narrow, wide = type_text(i32, self.lanes), type_text(i64, self.lanes)
            place = emitter.instruction(f"sext {narrow} {place} to {wide}")
        return [best, place]


class WelfordAccumulator(Accumulator):
    """Mean and Σ(v − mean)²: n += 1; d = v − mean; mean += d / n; M2 += d · (v − mean). All lanes have the same n."""

    def types(self, lanes: int) -> list[str]:
        """Mean, M2, count."""
        kind = type_text(self.scalar, lanes)
        return [kind, kind, type_text(self.scalar, 1)]

    def identity(self, lanes: int) -> list[str]:
        """Of nothing: 0, 0."""
        zero = constant(0.0, self.scalar, lanes)
        return [zero, zero, constant(0.0, self.scalar, 1)]

    def step(self, emitter: KernelEmitter, value: str, lanes: int) -> list[str]:
        """Welford's update. The quotient 1/n is one for all lanes, and no lane waits for it."""
        mean, square, count = self.values
        kind, one = type_text(self.scalar, lanes), type_text(self.scalar, 1)
        count = emitter.instruction(f"fadd {one} {count}, {constant(1.0, self.scalar, 1)}")
        share = emitter.instruction(f"fdiv {one} {constant(1.0, self.scalar, 1)}, {count}")
        factor = _splat(emitter, share, one, lanes)
        before = emitter.instruction(f"fsub {kind} {value}, {mean}")
        mean = self._multiply_add(emitter, before, factor, mean, lanes)
        after = emitter.instruction(f"fsub {kind} {value}, {mean}")
        return [mean, self._multiply_add(emitter, before, after, square, lanes), count]

    def _multiply_add(self, emitter: KernelEmitter, a: str, b: str, c: str, lanes: int) -> str:
        kind = type_text(self.scalar, lanes)
        name = f"@llvm.fmuladd.{suffix(self.scalar, lanes)}"
        return emitter.instruction(f"call {kind} {name}({kind} {a}, {kind} {b}, {kind} {c})")

    def across(self, emitter: KernelEmitter, lanes: int) -> list[str]:
        """Two parts (n, mean, M2) at a time: halves of the vector, then the earlier part of the loop."""
        mean, square, count = self.values
        while lanes > 1:
            half = lanes // 2
            low, high = range(half), range(half, lanes)
            parts = [self._lanes_of(emitter, value, lanes, part) for value in (mean, square) for part in (low, high)]
            mean, square, count = self._join(emitter, (parts[0], parts[2], count), (parts[1], parts[3], count), half)
            lanes = half
        before = (self._narrow[0], self._narrow[1], self._narrow[2])
        return list(self._join(emitter, before, (mean, square, count), 1))

    def _lanes_of(self, emitter: KernelEmitter, value: str, lanes: int, part: range) -> str:
        kind = type_text(self.scalar, lanes)
        if len(part) == 1:
            return emitter.instruction(f"extractelement {kind} {value}, i64 {part[0]}")
        mask = ", ".join(f"i32 {lane}" for lane in part)
        return emitter.instruction(f"shufflevector {kind} {value}, {kind} poison, <{len(part)} x i32> <{mask}>")

    def _join(
        self, emitter: KernelEmitter, a: tuple[str, str, str], b: tuple[str, str, str], lanes: int
    ) -> tuple[str, str, str]:
        """n = a.n + b.n; d = b.mean − a.mean; mean = a.mean + d·b.n/n; M2 = a.M2 + b.M2 + d²·a.n·b.n/n (Chan)."""
        kind, one = type_text(self.scalar, lanes), type_text(self.scalar, 1)
        count = emitter.instruction(f"fadd {one} {a[2]}, {b[2]}")
        some = emitter.instruction(f"fcmp ogt {one} {count}, {constant(0.0, self.scalar, 1)}")
        divisor = emitter.instruction(f"select i1 {some}, {one} {count}, {one} {constant(1.0, self.scalar, 1)}")
        share = emitter.instruction(f"fdiv {one} {b[2]}, {divisor}")
        weight = emitter.instruction(f"fmul {one} {share}, {a[2]}")
        share, weight = _splat(emitter, share, one, lanes), _splat(emitter, weight, one, lanes)
        apart = emitter.instruction(f"fsub {kind} {b[0]}, {a[0]}")
        mean = self._multiply_add(emitter, apart, share, a[0], lanes)
        distance = emitter.instruction(f"fmul {kind} {apart}, {apart}")
        square = emitter.instruction(f"fadd {kind} {a[1]}, {b[1]}")
        return mean, self._multiply_add(emitter, distance, weight, square, lanes), count

    def finish(self, emitter: KernelEmitter) -> list[str]:
        """Mean and M2."""
        return self.values[:2]


def _splat(emitter: KernelEmitter, value: str, element: str, lanes: int) -> str:
    """A scalar in every lane."""
    if lanes == 1:
        return value
    kind = vector_type(element, lanes)
    one = emitter.instruction(f"insertelement {kind} poison, {element} {value}, i64 0")
    return emitter.instruction(f"shufflevector {kind} {one}, {kind} poison, <{lanes} x i32> zeroinitializer")


def _points(op: kernel.ReduceOp) -> int:
    """How many points a reduction has, at most; beyond all bounds when that is not known."""
    total = 1
    for lower, upper in zip(op.lowers.results, op.uppers.results, strict=True):
        size = upper - lower
        if not isinstance(size, int):
            return sys.maxsize
        total *= max(size, 0)
    return total


def accumulator_for(emitter: KernelEmitter, op: kernel.ReduceOp) -> Accumulator:
    """The accumulator of a reduction."""
    if op.kind in EXTREMES:
        return ArgAccumulator(emitter, op)
    if op.kind == "welford":
        return WelfordAccumulator(emitter, op)
    return SimpleAccumulator(emitter, op)


__all__ = ["Accumulator", "accumulator_for"]
