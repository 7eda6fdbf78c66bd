"""Accumulators of `kernel.reduce`: identity, step, and how lanes come together at the end."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute

from cuesta.dialects import kernel
from cuesta.dialects.elem import TABLE, kind_of, scalar_of
from cuesta.targets.cpu.emit_types import constant, suffix, type_text
from cuesta.targets.cpu.vector_text import vector_type

if TYPE_CHECKING:
    from cuesta.targets.cpu.emit_kernel import KernelEmitter


class Accumulator:
    """What a reduction carries around its loops: `values` are the present names, scalars or vectors of `lanes`."""

    scalar_only = False
    """Whether the lanes cannot be carried side by side: then the loop runs one element at a time."""

    adds_up = False
    """Whether it is a sum of floats, which is better taken in pieces."""

    def __init__(self, emitter: KernelEmitter, op: kernel.ReduceOp) -> None:
        self.op = op
        self.scalar: Attribute = scalar_of(op.yielded.type)
        self.own_lanes = op.lanes > 1
        self.lanes = 1 if self.own_lanes else emitter.lanes_of(op.yielded.type)
        self.values: list[str] = self.identity(self.lanes)
        self._narrow: list[str] = []

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

    def update(self, emitter: KernelEmitter, op: kernel.ReduceOp) -> None:
        """Takes in what the body yields."""
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


_NEUTRAL: dict[str, tuple[float, int, int]] = {
    # kind: (float, signed, bool)
    "sum": (0.0, 0, 0),
    "prod": (1.0, 1, 1),
    "any": (0.0, 0, 0),
    "all": (1.0, 1, 1),
}

_STEP = {"sum": "add", "prod": "mul", "maximum": "maximum", "minimum": "minimum", "any": "or", "all": "and"}


def _neutral(kind: str, scalar: Attribute) -> float | int:
    operand = kind_of(scalar)
    if kind in ("maximum", "minimum"):
        sign = -1 if kind == "maximum" else 1
        if operand == "f":
            return sign * math.inf
        if operand == "b":
            return 0 if kind == "maximum" else 1
        bits = int(type_text(scalar, 1)[1:])
        if operand == "u":
            return 0 if kind == "maximum" else -1
        return -(1 << (bits - 1)) if kind == "maximum" else (1 << (bits - 1)) - 1
    floating, integer, _ = _NEUTRAL[kind]
    return floating if operand == "f" else integer


class SimpleAccumulator(Accumulator):
    """One associative, commutative operation: sum, prod, maximum, minimum, any, all."""

    def __init__(self, emitter: KernelEmitter, op: kernel.ReduceOp) -> None:
        super().__init__(emitter, op)
        self.adds_up = op.kind == "sum" and kind_of(self.scalar) == "f"

    def merge(self, emitter: KernelEmitter, before: list[str]) -> list[str]:
        """before ∘ values"""
        return [self.combine(emitter, before[0], self.values[0], self.lanes)]

    def identity(self, lanes: int) -> list[str]:
        """The neutral element."""
        return [constant(_neutral(self.op.kind, self.scalar), self.scalar, lanes)]

    def step(self, emitter: KernelEmitter, value: str, lanes: int) -> list[str]:
        """values ∘ value"""
        return [self.combine(emitter, value, self.values[0], lanes)]

    def combine(self, emitter: KernelEmitter, a: str, b: str, lanes: int) -> str:
        """a ∘ b"""
        row = TABLE[_STEP[self.op.kind]]
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
        value = self.values[0]
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
        return [self.combine(emitter, value, self._narrow[0], 1)]


class ArgAccumulator(Accumulator):
    """argmax, argmin: the extreme, its index, and a running count of the points seen. NaN is the extreme; the first
    wins.
    """

    scalar_only = True

    def types(self, lanes: int) -> list[str]:
        """Extreme, index, count."""
        return [type_text(self.scalar, lanes), type_text(i64, lanes), "i64"]

    def identity(self, lanes: int) -> list[str]:
        """The first element replaces it: the index −1 says that there was none."""
        worst = _neutral("maximum" if self.op.kind == "argmax" else "minimum", self.scalar)
        return [constant(worst, self.scalar, lanes), constant(-1, i64, lanes), "0"]

    def step(self, emitter: KernelEmitter, value: str, lanes: int) -> list[str]:
        """Takes the value over when it is beyond the extreme, or NaN where the extreme is not, or the first."""
        best, index, count = self.values
        kind, boolean, wide = type_text(self.scalar, lanes), vector_type("i1", lanes), type_text(i64, lanes)
        operand = kind_of(self.scalar)
        greater = self.op.kind == "argmax"
        if operand == "f":
            beyond = emitter.instruction(f"fcmp {'ogt' if greater else 'olt'} {kind} {value}, {best}")
            nan = emitter.instruction(f"fcmp uno {kind} {value}, {value}")
            sane = emitter.instruction(f"fcmp ord {kind} {best}, {best}")
            newly = emitter.instruction(f"and {boolean} {nan}, {sane}")
            beyond = emitter.instruction(f"or {boolean} {beyond}, {newly}")
        else:
            sign = "u" if operand in "ub" else "s"
            beyond = emitter.instruction(f"icmp {sign}{'gt' if greater else 'lt'} {kind} {value}, {best}")
        first = emitter.instruction(f"icmp slt {wide} {index}, {constant(0, i64, lanes)}")
        take = emitter.instruction(f"or {boolean} {beyond}, {first}")
        here = emitter.broadcast(count, "i64") if lanes > 1 else count
        best = emitter.instruction(f"select {boolean} {take}, {kind} {value}, {kind} {best}")
        index = emitter.instruction(f"select {boolean} {take}, {wide} {here}, {wide} {index}")
        return [best, index, emitter.instruction(f"add i64 {count}, 1")]

    def finish(self, emitter: KernelEmitter) -> list[str]:
        """Extreme and index."""
        return self.values[:2]


class WelfordAccumulator(Accumulator):
    """Mean and Σ(v − mean)², one element at a time: n += 1; d = v − mean; mean += d / n; M2 += d · (v − mean)."""

    scalar_only = True

    def types(self, lanes: int) -> list[str]:
        """Mean, M2, count."""
        kind = type_text(self.scalar, lanes)
        return [kind, kind, type_text(self.scalar, 1)]

    def identity(self, lanes: int) -> list[str]:
        """Of nothing: 0, 0."""
        zero = constant(0.0, self.scalar, lanes)
        return [zero, zero, constant(0.0, self.scalar, 1)]

    def step(self, emitter: KernelEmitter, value: str, lanes: int) -> list[str]:
        """Welford's update."""
        mean, square, count = self.values
        kind, one = type_text(self.scalar, lanes), type_text(self.scalar, 1)
        count = emitter.instruction(f"fadd {one} {count}, {constant(1.0, self.scalar, 1)}")
        divisor = emitter.broadcast(count, one) if lanes > 1 else count
        before = emitter.instruction(f"fsub {kind} {value}, {mean}")
        share = emitter.instruction(f"fdiv {kind} {before}, {divisor}")
        mean = emitter.instruction(f"fadd {kind} {mean}, {share}")
        after = emitter.instruction(f"fsub {kind} {value}, {mean}")
        product = emitter.instruction(f"fmul {kind} {before}, {after}")
        return [mean, emitter.instruction(f"fadd {kind} {square}, {product}"), count]

    def finish(self, emitter: KernelEmitter) -> list[str]:
        """Mean and M2."""
        return self.values[:2]


def accumulator_for(emitter: KernelEmitter, op: kernel.ReduceOp) -> Accumulator:
    """The accumulator of a reduction."""
    if op.kind in ("argmax", "argmin"):
        return ArgAccumulator(emitter, op)
    if op.kind == "welford":
        return WelfordAccumulator(emitter, op)
    return SimpleAccumulator(emitter, op)


__all__ = ["Accumulator", "accumulator_for"]
