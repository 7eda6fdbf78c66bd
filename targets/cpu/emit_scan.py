"""`kernel.scan`: running values carried around its loops, and `kernel.combine`.

When the scan itself has lanes, a vector of points is scanned in registers, in log2(lanes) steps, and joined with what
came before; the carried value stands in every lane, so that the chain from step to step is one operation long.

    lanes      v0       v1         v2             v3
    step 1     v0       v0∘v1      v1∘v2          v2∘v3
    step 2     v0       v0∘v1      v0∘v1∘v2       v0∘v1∘v2∘v3
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute

from cuesta.dialects import kernel
from cuesta.dialects.core.reductions import JOINS, identity
from cuesta.dialects.core.scans import ASSIGNMENTS
from cuesta.dialects.elem import TABLE, kind_of, scalar_of
from cuesta.targets.cpu.emit_memory import has_plain_lanes, read, write
from cuesta.targets.cpu.emit_reduce import Accumulator
from cuesta.targets.cpu.emit_types import byte_width, constant, scalar_text, suffix, type_text
from cuesta.targets.cpu.vector_math import math_function
from cuesta.targets.cpu.vector_text import vector_type

if TYPE_CHECKING:
    from cuesta.targets.cpu.emit_kernel import KernelEmitter


class RunningValue:
    """How a kind of running value is computed. A state is a list of names: the value, or the extreme and its point."""

    def __init__(self, op: kernel.RunningOp) -> None:
        self.op = op
        self.scalar: Attribute = scalar_of(op.value.type)
        self.indexed = op.kind in ("last_argmax", "last_argmin")

    def types(self, lanes: int) -> list[str]:
        """The LLVM types of a state."""
        value = type_text(self.scalar, lanes)
        return [value, type_text(i64, lanes)] if self.indexed else [value]

    def identity(self, lanes: int) -> list[str]:
        """The state before the first point."""
        first = constant(identity(self.op.kind, self.scalar), self.scalar, lanes)
        if self.indexed:
            return [first, constant(0, i64, lanes)]
        return [first]

    def join(self, emitter: KernelEmitter, earlier: list[str], later: list[str], lanes: int) -> list[str]:
        """The state of earlier points followed by later ones."""
        if self.indexed:
            return self._later_extreme(emitter, earlier, later, lanes)
        if self.op.kind == "logaddexp":
            return [self._log_add_exp(emitter, earlier[0], later[0], lanes)]
        return [table_op(emitter, JOINS[self.op.kind], self.scalar, earlier[0], later[0], lanes)]

    def _later_extreme(self, emitter: KernelEmitter, earlier: list[str], later: list[str], lanes: int) -> list[str]:
        """The later one unless the earlier is beyond it, or is NaN and the later is not."""
        (old, old_place), (new, new_place) = earlier, later
        kind, boolean, wide = type_text(self.scalar, lanes), vector_type("i1", lanes), type_text(i64, lanes)
        operand = kind_of(self.scalar)
        word = "ge" if self.op.kind == "last_argmax" else "le"
        if operand == "f":
            take = emitter.instruction(f"fcmp o{word} {kind} {new}, {old}")
            nan = emitter.instruction(f"fcmp uno {kind} {new}, {new}")
            take = emitter.instruction(f"or {boolean} {take}, {nan}")
        else:
            sign = "u" if operand in "ub" else "s"
            take = emitter.instruction(f"icmp {sign}{word} {kind} {new}, {old}")
        best = emitter.instruction(f"select {boolean} {take}, {kind} {new}, {kind} {old}")
        return [best, emitter.instruction(f"select {boolean} {take}, {wide} {new_place}, {wide} {old_place}")]

    def _log_add_exp(self, emitter: KernelEmitter, a: str, b: str, lanes: int) -> str:
        """max + log1p(exp(min − max)); where both are the same infinity, that one."""
        kind, boolean = type_text(self.scalar, lanes), vector_type("i1", lanes)
        greater = table_op(emitter, "maximum", self.scalar, a, b, lanes)
        lesser = table_op(emitter, "minimum", self.scalar, a, b, lanes)
        distance = emitter.instruction(f"fsub {kind} {lesser}, {greater}")
        share = self._math(emitter, "log1p", self._math(emitter, "exp", distance, lanes), lanes)
        total = emitter.instruction(f"fadd {kind} {greater}, {share}")
        same = emitter.instruction(f"fcmp oeq {kind} {lesser}, {greater}")
        size = emitter.instruction(f"call {kind} @llvm.fabs.{suffix(self.scalar, lanes)}({kind} {greater})")
        infinity = constant(math.inf, self.scalar, lanes)
        infinite = emitter.instruction(f"fcmp oeq {kind} {size}, {infinity}")
        both = emitter.instruction(f"and {boolean} {same}, {infinite}")
        return emitter.instruction(f"select {boolean} {both}, {kind} {greater}, {kind} {total}")

    def _math(self, emitter: KernelEmitter, name: str, value: str, lanes: int) -> str:
        function = math_function(name, suffix(self.scalar, 1), lanes)
        emitter.functions[function.symbol] = function
        kind = type_text(self.scalar, lanes)
        return emitter.instruction(f"call {kind} {function.symbol}({kind} {value})")

    def across(self, emitter: KernelEmitter, state: list[str], lanes: int) -> list[str]:
        """The lanes of a vector of points scanned in registers."""
        step = 1
        while step < lanes:
            # Lane k < step meets the identity, or itself where that changes nothing: shifting needs no third operand.
            shifted: list[str] = []
            for name, kind, nothing in zip(state, self.types(lanes), self.identity(lanes), strict=True):
                first = 0 if self.indexed else lanes
                places = ", ".join(f"i32 {first + k if k < step else k - step}" for k in range(lanes))
                mask = f"<{lanes} x i32> <{places}>"
                shifted.append(emitter.instruction(f"shufflevector {kind} {name}, {kind} {nothing}, {mask}"))
            state = self.join(emitter, shifted, state, lanes)
            step *= 2
        return state


class ScanCarry(Accumulator):
    """The running values of a scan, carried around its loops as an accumulator is, with a count of the points."""

    def __init__(self, emitter: KernelEmitter, op: kernel.ScanOp) -> None:
        self.own_lanes = op.lanes > 1
        self.running = [RunningValue(inner) for inner in op.body.ops if isinstance(inner, kernel.RunningOp)]
        self.widths = [1 if self.own_lanes else emitter.lanes_of(running.op.value.type) for running in self.running]
        """The lanes of each state, as it is carried."""
        self.lanes = 1
        self.places: dict[kernel.RunningOp, tuple[int, slice]] = {}
        """The number of each running value, and where its state lies in `values`."""
        self.values: list[str] = []
        for number, (running, width) in enumerate(zip(self.running, self.widths, strict=True)):
            state = running.identity(width)
            self.places[running.op] = number, slice(len(self.values), len(self.values) + len(state))
            self.values += state
        self.counts = any(running.indexed for running in self.running)
        if self.counts:
            self.values.append("0")

    def types(self, lanes: int) -> list[str]:
        """The LLVM types of the values, as they are carried."""
        states = zip(self.running, self.widths, strict=True)
        found = [kind for running, width in states for kind in running.types(width)]
        return [*found, "i64"] if self.counts else found

    def update(self, emitter: KernelEmitter, op: kernel.LoopOp) -> None:
        """The end of a step: the points are counted. Values were taken in where the running ops stand."""
        if self.counts:
            count = emitter.instruction(f"add nsw i64 {self.values[-1]}, {emitter.width if self.own_lanes else 1}")
            self.values = [*self.values[:-1], count]

    def take(self, emitter: KernelEmitter, op: kernel.RunningOp) -> None:
        """Emits a `kernel.running`."""
        number, place = self.places[op]
        running = self.running[number]
        lanes = emitter.lanes_of(op.value.type)
        before, state = self.values[place], [emitter.name(op.value)]
        if running.indexed:
            state.append(self._points(emitter, lanes))
        if self.own_lanes and lanes > 1:
            state = running.across(emitter, state, lanes)
            result = running.join(emitter, before, state, lanes)
            after = running.join(emitter, before, _last_lane(emitter, running.types(lanes), state, lanes), lanes)
        else:
            result = after = running.join(emitter, before, state, lanes)
        values = list(self.values)
        values[place] = after
        self.values = values
        for value, name in zip(op.results, result, strict=True):
            emitter.names[value] = name

    def _points(self, emitter: KernelEmitter, lanes: int) -> str:
        """The points of the present step."""
        count = self.values[-1]
        if lanes == 1:
            return count
        base = emitter.broadcast(count, "i64")
        if not self.own_lanes:
            return base
        steps = ", ".join(f"i64 {lane}" for lane in range(lanes))
        return emitter.instruction(f"add nsw <{lanes} x i64> {base}, <{steps}>")

    def widen(self, emitter: KernelEmitter, width: int) -> None:
        """Begins a part of the loop with `width` lanes: what is carried stands in each of them."""
        if width > 1 and self.own_lanes:
            for running in self.running:
                number, place = self.places[running.op]
                kinds = zip(self.values[place], running.types(1), strict=True)
                self.values[place] = [emitter.broadcast(name, kind) for name, kind in kinds]
                self.widths[number] = width

    def narrow(self, emitter: KernelEmitter, width: int) -> None:
        """Ends that part: one lane is as good as another."""
        if width > 1 and self.own_lanes:
            for running in self.running:
                number, place = self.places[running.op]
                kinds = zip(self.values[place], running.types(width), strict=True)
                self.values[place] = [emitter.instruction(f"extractelement {k} {name}, i64 0") for name, k in kinds]
                self.widths[number] = 1


def _last_lane(emitter: KernelEmitter, kinds: Sequence[str], state: Sequence[str], lanes: int) -> list[str]:
    """The last lane in every lane."""
    last = ", ".join([f"i32 {lanes - 1}"] * lanes)
    return [
        emitter.instruction(f"shufflevector {kind} {name}, {kind} poison, <{lanes} x i32> <{last}>")
        for name, kind in zip(state, kinds, strict=True)
    ]


def table_op(emitter: KernelEmitter, name: str, scalar: Attribute, a: str, b: str, lanes: int) -> str:
    """Emits the binary op `elem.NAME` on operands by name."""
    result = emitter.fresh()
    kind, boolean = type_text(scalar, lanes), vector_type("i1", lanes)
    template = TABLE[name].llvm[kind_of(scalar)]
    for line in template.format(r=result, a=a, b=b, t=kind, m=boolean, s=suffix(scalar, lanes)).split("\n"):
        emitter.line(line)
    return result


def combine(emitter: KernelEmitter, op: kernel.CombineOp, stride: int | None) -> None:
    """Emits a `kernel.combine`: reads, computes and writes. No two lanes have the same element."""
    if stride not in (None, 0, 1) and op.mask is None and has_plain_lanes(emitter, op.value.type):
        _combine_one_by_one(emitter, op, stride)
        return
    value = emitter.name(op.value)
    if op.kind not in ASSIGNMENTS:
        scalar, lanes = scalar_of(op.value.type), emitter.lanes_of(op.value.type)
        old = read(emitter, op, op.value.type, stride, constant(0, scalar, lanes))
        value = table_op(emitter, JOINS[op.kind], scalar, old, value, lanes)
    write(emitter, op, value, stride)


def _combine_one_by_one(emitter: KernelEmitter, op: kernel.CombineOp, stride: int) -> None:
    """As `combine`, of lanes that are `stride` elements apart: each is a scalar's change, and no vector is put together
    only to be taken apart.
    """
    scalar, lanes = scalar_of(op.value.type), emitter.lanes_of(op.value.type)
    kind, width = scalar_text(scalar), byte_width(scalar)
    values, first = emitter.name(op.value), emitter.address(op.pointer, op.offset, op.indices)
    for lane in range(lanes):
        value = emitter.instruction(f"extractelement {vector_type(kind, lanes)} {values}, i64 {lane}")
        place = emitter.further(first, stride * lane, op.pointer)
        if op.kind not in ASSIGNMENTS:
            old = emitter.instruction(f"load {kind}, ptr {place}, align {width}")
            value = table_op(emitter, JOINS[op.kind], scalar, old, value, 1)
        emitter.line(f"store {kind} {value}, ptr {place}, align {width}")


__all__ = ["ScanCarry", "combine"]
