"""What a nest moves and computes, counted from its text.

Bytes are those that memory must move at least: every element that is touched counts once, however often it is loaded,
and what a nest itself stored before counts as kept. Arithmetic is additions, multiplications, divisions and functions
of floats; what only moves, compares or chooses (conversions, selections, maxima, signs) is none, and neither is that of
integers. A reduction by a sum of n points is n additions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.structs import struct
from cuesta.dialects.elem import kind_of
from cuesta.dialects.layout import sizes_of, strides_of
from cuesta.dialects.loops.analysis import byte_width, estimate, tensor_type_of
from cuesta.dialects.loops.structure import DomainOp, enclosing_domains
from cuesta.explain.device_arithmetic import ON_DEVICE
from cuesta.explain.index_sets import BOX, POINTS, Part, Touched, clipped, stretch, union_of
from cuesta.explain.masks import Condition, conditions_of

_MOVES = frozenset({"abs", "neg", "copysign", "maximum", "minimum"})
_SINGLE = frozenset({"add", "sub", "mul", "div", "multiply_add", "floor", "ceil", "trunc", "round", *_MOVES})
"""What a processor does in one instruction, or a few; any other is a function."""
_REDUCED = {"sum": 1, "prod": 1, "welford": 6, "logaddexp": 5}
"""The arithmetic of a point of a reduction, or of a running value: of a variance a subtraction, a division, an
addition, and again a subtraction, a multiplication and an addition.
"""


@struct
class Counted:
    """What one run of a nest does."""

    bytes_read: int
    bytes_written: int
    flops: int
    special: int
    """Of the arithmetic, functions."""
    on_device: int
    """The arithmetic as a GPU does it: a function is many additions and multiplications."""
    notes: tuple[str, ...] = ()


def is_function(name: str) -> bool:
    """Whether a scalar op of the table is a function, and not one of a processor's own operations."""
    return name not in _SINGLE


def on_device(op: Operation, flops: int) -> int:
    """The arithmetic of an op at one point as a GPU does it, whose arithmetic is so much."""
    if not flops or not isinstance(op, elem.TableOp):
        return flops
    exact, rough = ON_DEVICE.get(op.row.name, (flops, flops))
    return exact if op.precision is None else rough


def flops_of(op: Operation) -> tuple[int, int]:
    """The arithmetic of an op at one point, and how much of it is functions."""
    if isinstance(op, elem.TableOp):
        if kind_of(op.results[0].type) != "f" or op.row.name in _MOVES:
            return 0, 0
        return (2 if op.row.name == "multiply_add" else 1), int(is_function(op.row.name))
    if isinstance(op, elem.DotOp):
        return (2 * elem.PARTS[op.parts][0] - 1 if kind_of(op.results[0].type) == "f" else 0), 0
    if isinstance(op, loops.ReduceOp):
        return (_REDUCED.get(op.kind, 0) if kind_of(op.results[0].type) == "f" else 0), 0
    if isinstance(op, loops.RunningOp):
        return (_REDUCED.get(op.kind, 0) if kind_of(op.results[0].type) == "f" else 0), 0
    if isinstance(op, loops.CombineOp | loops.AtomicOp):
        return (int(op.kind in ("sum", "prod")) if kind_of(op.value.type) == "f" else 0), 0
    return 0, 0


def count_nest(nest: loops.NestOp, hints: Mapping[str, int], kept: Sequence[bool]) -> Counted:
    """Counts a nest of which the results that are `kept` end in memory; `hints` are what symbols stand for."""
    return _Counting(nest, hints, kept).run()


class _Counting:
    def __init__(self, nest: loops.NestOp, hints: Mapping[str, int], kept: Sequence[bool]) -> None:
        self.nest = nest
        self.hints = hints
        self.kept = {handle for handle, one in zip(nest.handles, kept, strict=True) if one}
        self.notes: dict[str, None] = {}
        self.counts: dict[SSAValue, int] = {}
        """How many values an index has."""
        self.sources: dict[SSAValue, frozenset[SSAValue]] = {}
        """For an index made of data, the loop variables that the data depend on."""
        self.read: dict[SSAValue, list[Touched]] = {}
        self.written: dict[SSAValue, list[Touched]] = {}

    def number(self, size: sym.IndexExpr) -> int:
        """A size as a number."""
        if isinstance(size, int):
            return size
        if size.symbols <= self.hints.keys():
            return int(sym.evaluate(size, (), self.hints))
        for name in sorted(size.symbols - self.hints.keys()):
            self.notes.setdefault(f"{name} is guessed", None)
        return estimate(size, {})

    def run(self) -> Counted:
        flops = special = device = 0
        times: dict[Operation, int] = {}
        for op in self.nest.walk():
            if isinstance(op, DomainOp):
                around = times[op.parent_op()] if op is not self.nest and op.parent_op() in times else 1
                times[op] = around * math.prod(map(self.number, op.sizes))
                for variable, size in zip(op.induction_variables, op.sizes, strict=True):
                    self.counts[variable] = self.number(size)
            if op is self.nest:
                continue
            per, functions = flops_of(op)
            if per:
                # A reduction is done at each of its own points.
                where = op if isinstance(op, loops.ReduceOp) else op.parent_op()
                count = times.get(where, 1) if where is not None else 1
                flops += count * per
                special += count * functions
                device += count * on_device(op, per)
            self.access(op)
        moved_in = sum(self.bytes(tensor, every) for tensor, every in self.read.items())
        moved_out = sum(self.bytes(tensor, every) for tensor, every in self.written.items())
        return Counted(moved_in, moved_out, flops, special, device, tuple(self.notes))

    def access(self, op: Operation) -> None:
        """Notes what an op touches, and what an index made of data depends on."""
        if isinstance(op, loops.BoundOp):
            self.sources[op.results[0]] = self.depends(op.operands[0])
            distinct = math.prod(self.counts.get(one, 1) for one in self.sources[op.results[0]])
            self.counts[op.results[0]] = distinct
            self.notes.setdefault("indices from data are taken to differ", None)
        elif isinstance(op, loops.LoadOp):
            if op.source not in self.nest.handles:
                self.read.setdefault(op.source, []).append(self.touched(op, op.source))
        elif isinstance(op, loops.TensorWriteOp) and op.target in self.kept:
            touched = self.touched(op, op.target)
            self.written.setdefault(op.target, []).append(touched)
            updated = self.nest.updated
            if op.target in updated and isinstance(op, loops.CombineOp | loops.AtomicOp) and flops_of(op)[0]:
                self.read.setdefault(op.target, []).append(touched)

    def depends(self, value: SSAValue) -> frozenset[SSAValue]:
        """The loop variables that a value depends on."""
        found: set[SSAValue] = set()
        seen: set[SSAValue] = set()
        pending = [value]
        while pending:
            one = pending.pop()
            if one in seen:
                continue
            seen.add(one)
            owner = one.owner
            if isinstance(owner, Operation):
                if owner is self.nest or owner.parent is self.nest.parent:
                    continue
                pending += owner.operands
                if owner.regions:
                    pending += [operand for inner in owner.walk() for operand in inner.operands]
            elif one in self.counts:
                found.add(one)
        own = {
            variable
            for op in {one.owner for one in seen if isinstance(one.owner, Operation)}
            if isinstance(op, DomainOp)
            for variable in op.induction_variables
        }
        return frozenset(found - own)

    def bytes(self, tensor: SSAValue, every: list[Touched]) -> int:
        """What the accesses to a tensor touch together."""
        count, exact = union_of(every, self.volume(tensor))
        if not exact:
            self.notes.setdefault("several accesses to one tensor are taken not to overlap", None)
        return count * byte_width(tensor)

    def volume(self, tensor: SSAValue) -> int:
        return math.prod(map(self.number, self.places(tensor)))

    @staticmethod
    def places(tensor: SSAValue) -> list[sym.IndexExpr]:
        """The sizes of a tensor, with 1 for axes along which it is the same memory."""
        kind = tensor_type_of(tensor)
        return [1 if stride == 0 else size for size, stride in zip(sizes_of(kind), strides_of(kind), strict=True)]

    def touched(self, op: loops.LoadOp | loops.TensorWriteOp, tensor: SSAValue) -> Touched:
        """What an access touches."""
        sizes = [self.number(size) for size in self.places(tensor)]
        expressions = [0 if size == 1 else expression for size, expression in zip(sizes, op.map.results, strict=True)]
        variables = list(op.indices)
        around = [variable for domain in enclosing_domains(op) for variable in domain.induction_variables]
        if any(self.counts[one] == 0 for one in around if one in self.counts):
            return Touched((Part(tuple(range(len(sizes))), range(0), 0, False),))
        conditions = conditions_of(op.mask) if op.mask is not None else []
        if conditions is None:
            self.notes.setdefault("masks made of data are taken to be true", None)
            conditions = []
        used = [{variables[dim] for dim in sym.dims_of(one)} for one in expressions]
        relevant = [one for one in conditions if any(one.variables & axes for axes in used)]
        groups = _groups(used, [set(one.variables) for one in relevant])
        return Touched(tuple(self.part(group, expressions, variables, sizes, relevant) for group in groups))

    def part(
        self,
        axes: tuple[int, ...],
        expressions: Sequence[sym.IndexExpr],
        variables: Sequence[SSAValue],
        sizes: Sequence[int],
        conditions: Iterable[Condition],
    ) -> Part:
        """The indices that occur along some axes."""
        box = math.prod(sizes[axis] for axis in axes)
        used = list(dict.fromkeys(variables[dim] for axis in axes for dim in sorted(sym.dims_of(expressions[axis]))))
        own = [one for one in conditions if one.variables & set(used)]
        every = list(dict.fromkeys([*used, *(v for one in own for v in sorted(one.variables, key=id))]))
        points = math.prod(self.counts.get(one, 1) for one in every)
        if any(one in self.sources for one in every):
            return _counted(axes, min(points, box), box)
        if not own and len(axes) == 1:
            found = self.affine(expressions[axes[0]], variables)
            if found is not None:
                values = clipped(found, sizes[axes[0]])
                return Part(axes, values, len(values), len(values) >= box)
        if points > POINTS or box > BOX or any(one not in self.counts for one in every):
            self.notes.setdefault("large index maps are taken to touch all they can", None)
            return _counted(axes, min(points, box), box)
        return self.enumerated(axes, expressions, variables, sizes, every, own)

    def affine(self, e: sym.IndexExpr, variables: Sequence[SSAValue]) -> range | None:
        """The values of a linear expression, where they are evenly spaced."""
        terms: list[tuple[int, int]] = []
        for dim in sorted(sym.dims_of(e)):
            step = sym.coefficient(e, dim)
            if step is None or sym.dims_of(step):
                return None
            terms.append((self.number(step), self.counts[variables[dim]]))
        constant = sym.substitute(e, [0] * len(variables)) if sym.dims_of(e) else e
        return stretch(terms, self.number(constant))

    def enumerated(
        self,
        axes: tuple[int, ...],
        expressions: Sequence[sym.IndexExpr],
        variables: Sequence[SSAValue],
        sizes: Sequence[int],
        every: Sequence[SSAValue],
        conditions: Sequence[Condition],
    ) -> Part:
        """Every point, one by one."""
        shape = [self.counts[one] for one in every]
        arrays: dict[SSAValue, Any] = {}
        for k, (one, count) in enumerate(zip(every, shape, strict=True)):
            arrays[one] = np.arange(count, dtype=np.int64).reshape([-1 if k == j else 1 for j in range(len(every))])
        dims = [arrays.get(one, 0) for one in variables]
        active: Any = np.ones((), dtype=bool)
        linear: Any = np.zeros((), dtype=np.int64)
        for axis in axes:
            index = sym.evaluate(expressions[axis], dims, self.hints)
            active = active & (np.asarray(index) >= 0) & (np.asarray(index) < sizes[axis])
            linear = linear * sizes[axis] + index
        for condition in conditions:
            active = active & condition.holds(arrays, self.hints)
        linear, active = np.broadcast_arrays(linear, active)
        box = math.prod(sizes[axis] for axis in axes)
        there = np.zeros(box, dtype=bool)
        there[linear[active]] = True
        found = np.flatnonzero(there)
        return Part(axes, found, len(found), len(found) == box)


def _counted(axes: tuple[int, ...], count: int, box: int) -> Part:
    if count >= box:
        return Part(axes, range(box), box, True)
    return Part(axes, None, count, False)


def _groups(used: Sequence[set[SSAValue]], together: Sequence[set[SSAValue]]) -> list[tuple[int, ...]]:
    """The axes, in groups that share no variable, and no condition on several."""
    groups: list[tuple[set[int], set[SSAValue]]] = []
    items: list[tuple[set[int], set[SSAValue]]] = [({axis}, set(one)) for axis, one in enumerate(used)]
    items += [(set[int](), set(one)) for one in together]
    for axes, names in items:
        joined_axes, joined = set(axes), set(names)
        rest: list[tuple[set[int], set[SSAValue]]] = []
        for group in groups:
            if group[1] & joined:
                joined_axes |= group[0]
                joined |= group[1]
            else:
                rest.append(group)
        groups = [*rest, (joined_axes, joined)]
    return sorted(tuple(sorted(axes)) for axes, _ in groups if axes)


__all__ = ["Counted", "count_nest", "flops_of", "is_function"]
