"""What a schedule needs to know about a `loops.nest`: its loops, its axes, and every address as one flat expression.

All induction variables of a nest, and all indices made of data (`loops.bound`), are numbered once: they are the
dimensions of every expression here. A set of axes is an int with bit k for axis k.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from cuesta.dialects import elem, layout, loops, sym
from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic
from cuesta.dialects.core.indexed import IndexedOp
from cuesta.dialects.core.reductions import EXTREMES
from cuesta.dialects.core.structs import struct
from cuesta.dialects.elem.work import SHARING, WORK, has_subroutine, work_of

UNKNOWN_SIZE = 128
"""What a symbol without a better bound is taken to be when work is estimated."""

MAX_LOCAL = 16384
"""The most elements of a stage temporary that become scratch memory of the program."""


@struct(frozen=False)
class Access:
    """One `loops.load`, `loops.store`, `loops.combine` or `loops.index`.

    Units: `address` in elements (for `loops.index` it is the expression itself), `width` in bytes, 0 for `loops.index`.
    """

    op: IndexedOp
    address: sym.IndexExpr
    varies: int
    """The axes the address depends on, also through indices made of data."""
    indirect: int
    """The axes it depends on through indices made of data."""
    width: int
    local: sym.IndexExpr | None = None
    """The address when the tensor is scratch memory of the program."""
    ordered: int = 0
    """The axes along which several points may change one element, one after the other."""

    @property
    def is_store(self) -> bool:
        """Whether it writes."""
        return isinstance(self.op, loops.TensorWriteOp)

    def moves_by(self, size: int, axes: Iterable[int]) -> bool:
        """Whether a step along any of these axes is a multiple of so many bytes."""
        strides = (sym.coefficient(self.address, axis) for axis in axes)
        return all(isinstance(stride, int) and stride * self.width % size == 0 for stride in strides)


@struct(eq=False, frozen=False)
class Loop:
    """The nest itself, or a `loops.for` or `loops.reduce` in it."""

    op: loops.DomainOp
    axes: list[int]
    accesses: list[Access] = field(default_factory=list[Access])
    loops: list[Loop] = field(default_factory=list["Loop"])
    work: float = 0.0
    """The weight of the elementwise ops of one point, inner loops apart; a float add weighs 1."""
    subroutines: int = 0
    """Ops of a point that a GPU calls subroutines for."""
    running: float = 0.0
    """The weight of a step of the running values of a scan."""
    values: int = 1
    """How many values a running value is made of, at most: an extreme has its place with it."""

    def walk(self) -> Iterator[Loop]:
        """This loop and every loop in it, outer ones first."""
        yield self
        for loop in self.loops:
            yield from loop.walk()


@struct(eq=False, frozen=False)
class NestAnalysis:
    """The facts about one nest. `merge_axes` changes them."""

    nest: loops.NestOp
    root: Loop
    sizes: list[sym.IndexExpr]
    """The size of every axis."""
    number: dict[SSAValue, int]
    """The axis of every index value."""
    accesses: dict[Operation, Access]
    inputs: list[SSAValue]
    """The tensors read, in order of first use."""
    symbol_ranges: sym.SymbolRanges
    local_sizes: dict[SSAValue, int]
    """The handles that may become scratch memory of the program, and their sizes."""
    meeting: int = 0
    """The parallel axes along which those who meet (`loops.meet`) differ. They stay the last, and by themselves."""
    carried: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    """The axes that what a fold carries depends on."""
    atomic: bool = False
    """Whether the nest changes elements in whatever order: every one of its points, and lanes, makes a change."""

    def estimate(self, size: sym.IndexExpr) -> int:
        """A size as a number, with a guess for every symbol."""
        return estimate(size, self.symbol_ranges)


def estimate(e: sym.IndexExpr, symbol_ranges: sym.SymbolRanges) -> int:
    """The value of an expression over symbols, with a guess for every symbol."""
    if isinstance(e, int):
        return e
    guesses: dict[str, int] = {}
    for name in e.symbols:
        low, high = symbol_ranges.get(name, (0, None))
        guess = UNKNOWN_SIZE if low is None else max(low, UNKNOWN_SIZE)
        guesses[name] = guess if high is None else min(high, guess)
    return int(sym.evaluate(e, (), guesses))


def analyse(nest: loops.NestOp, symbol_ranges: sym.SymbolRanges, used_outs: Sequence[bool]) -> NestAnalysis:
    """The facts about `nest`; `used_outs` says which results somebody needs.

    Errors: CuestaError for an op that has no lowering to a kernel.
    """
    return _Analyser(nest, symbol_ranges, used_outs).run()


class _Analyser:
    def __init__(self, nest: loops.NestOp, symbol_ranges: sym.SymbolRanges, used_outs: Sequence[bool]) -> None:
        self.nest = nest
        self.symbol_ranges = symbol_ranges
        self.sizes: list[sym.IndexExpr] = []
        self.number: dict[SSAValue, int] = {}
        self.origin: list[int] = []  # per axis: itself, or for an index made of data the axes the data varies with
        self.varies: dict[SSAValue, int] = {}
        self.accesses: dict[Operation, Access] = {}
        self.inputs: dict[SSAValue, None] = {}
        self.handles = set(nest.handles)
        self.temporaries = {handle for handle, used in zip(nest.handles, used_outs, strict=True) if not used}
        self.touched: dict[SSAValue, list[tuple[Access, list[sym.IndexExpr]]]] = {}
        self.strides: dict[SSAValue, Sequence[sym.IndexExpr]] = {}
        self.carried: dict[SSAValue, int] = {}
        self.parallel_axes = 0
        self.ordered = 0  # the axes of the scans around the op at hand

    def run(self) -> NestAnalysis:
        root = Loop(self.nest, self.number_axes(self.nest))
        self.parallel_axes = (1 << len(root.axes)) - 1
        self.body(root)
        return NestAnalysis(
            self.nest,
            root,
            self.sizes,
            self.number,
            self.accesses,
            list(self.inputs),
            self.symbol_ranges,
            {handle: size for handle in self.touched if (size := self.local(handle)) is not None},
            self.meeting(root),
            self.carried,
            any(isinstance(op, loops.AtomicOp) for op in self.accesses),
        )

    def meeting(self, root: Loop) -> int:
        """The axes of those who meet."""
        found = loops.meeting_of(self.nest)
        return 0 if found is None else sum(1 << axis for axis in root.axes[-found.axes :])

    def number_axes(self, op: loops.DomainOp) -> list[int]:
        axes: list[int] = []
        for variable, size in zip(op.induction_variables, op.sizes, strict=True):
            axis = len(self.sizes)
            axes.append(axis)
            self.number[variable] = axis
            self.sizes.append(size)
            self.origin.append(1 << axis)
        return axes

    def body(self, loop: Loop) -> None:
        varies = self.varies
        for op in loop.op.body.ops:
            weight = WORK.get(type(op))
            if weight is None and isinstance(op, elem.TableOp):
                weight = work_of(op.row)  # an extension's
            if weight is not None:
                mask = 0
                for operand in op.operands:
                    mask |= varies[operand]
                varies[op.results[0]] = mask
                loop.work += weight
                if weight > 1.0 and has_subroutine(op):
                    divisor = varies[op.operands[-1]]
                    alike = [self.sizes[axis] for axis in loop.axes if not divisor >> axis & 1]
                    loop.subroutines += math.prod(estimate(size, self.symbol_ranges) for size in alike) < SHARING
            elif isinstance(op, (loops.LoadOp, loops.TensorWriteOp, loops.IndexOp)):
                self.access(op, loop)
            elif isinstance(op, loops.BoundOp):
                axis = len(self.sizes)
                self.number[op.result] = axis
                self.sizes.append(op.size)
                self.origin.append(varies[op.operands[0]])
                loop.work += 2
            elif isinstance(op, (loops.StatementOp, loops.ReduceOp, loops.FoldOp)):
                self.inner(op, loop)
            elif isinstance(op, loops.RunningOp):
                mask = self.varies[op.value]
                for axis in loop.axes:
                    mask |= 1 << axis
                for result in op.results:
                    self.varies[result] = mask
                weight = _RUNNING_WEIGHTS.get(op.kind, 1.0)
                loop.work += weight
                loop.running += weight
                loop.values = max(loop.values, len(op.results))
            elif not isinstance(op, loops.YieldOp | loops.CarryOp | loops.MeetOp):
                raise CuestaError(Diagnostic.on(op, "has no lowering to a kernel"))

    def inner(self, op: loops.StatementOp | loops.ReduceOp | loops.FoldOp, loop: Loop) -> None:
        inner = Loop(op, self.number_axes(op))
        loop.loops.append(inner)
        if isinstance(op, loops.FoldOp):
            masks = self.carried_by(op)
            self.carried.update(zip(op.carried, masks, strict=True))
            self.varies.update(zip(op.carried, masks, strict=True))
            self.varies.update(zip(op.results, masks, strict=True))
        before = self.ordered
        if isinstance(op, loops.ScanOp):
            for axis in inner.axes:
                self.ordered |= 1 << axis
        self.body(inner)
        self.ordered = before
        if isinstance(op, loops.ReduceOp):
            mask = self.varies[op.yielded]
            for axis in inner.axes:
                mask &= ~(1 << axis)
            for result in op.results:
                self.varies[result] = mask
            inner.work += 4 if op.kind == "welford" else 2 if op.kind in EXTREMES else 1

    def carried_by(self, fold: loops.FoldOp) -> list[int]:
        """The axes that what a fold carries depends on: the least sets that hold what it begins with, and what a point
        makes of them.
        """
        masks = [self.varies[operand] for operand in fold.operands]
        while True:
            known: dict[SSAValue, int] = dict(zip(fold.carried, masks, strict=True))
            found = [mask | self.ahead(value, known) for mask, value in zip(masks, fold.handed_on, strict=True)]
            if found == masks:
                return masks
            masks = found

    def ahead(self, value: SSAValue, known: dict[SSAValue, int]) -> int:
        """The axes numbered so far that a value depends on which stands further on; adds to what is `known`."""
        if value not in known:
            owner = value.owner
            axis = self.number.get(value)
            if value in self.varies:
                known[value] = self.varies[value]
            elif axis is not None:
                known[value] = self.origin[axis]
            elif not isinstance(owner, Operation) or isinstance(value.type, TensorType):
                known[value] = 0
            else:
                inside = owner.body.last_op if isinstance(owner, loops.ReduceOp | loops.FoldOp) else None
                read = [*owner.operands, *(inside.operands if inside is not None else ())]
                known[value] = 0
                for operand in read:
                    known[value] |= self.ahead(operand, known)
        return known[value]

    def access(self, op: loops.LoadOp | loops.TensorWriteOp | loops.IndexOp, loop: Loop) -> None:
        number = self.number
        axes = [sym.dim(number[index]) for index in op.indices]
        indices = [sym.substitute(result, axes) for result in op.map.results]
        if isinstance(op, loops.IndexOp):
            tensor, width, address = None, 0, indices[0]
        else:
            tensor = op.source if isinstance(op, loops.LoadOp) else op.target
            width = byte_width(tensor)
            address = self.flat(tensor, indices)
        address = sym.simplify(address, self.sizes, self.symbol_ranges)
        varies = indirect = 0
        for axis in sym.dims_of(address):
            origin = self.origin[axis]
            varies |= origin
            if origin != 1 << axis:
                indirect |= origin
        access = Access(op, address, varies, indirect, width)
        if isinstance(op, loops.CombineOp | loops.AtomicOp):
            access.ordered = self.ordered if isinstance(op, loops.CombineOp) else 0
            loop.work += 1 + width / 4
        loop.accesses.append(access)
        self.accesses[op] = access
        if tensor is None:
            pass
        elif tensor not in self.handles:
            self.inputs[tensor] = None
        elif tensor in self.temporaries:
            self.touched.setdefault(tensor, []).append((access, indices))
        if not isinstance(op, loops.TensorWriteOp):
            for value in op.rest:
                varies |= self.varies[value]
            self.varies[op.results[0]] = varies

    def flat(self, tensor: SSAValue, indices: Sequence[sym.IndexExpr]) -> sym.IndexExpr:
        strides = self.strides.get(tensor)
        if strides is None:
            strides = self.strides[tensor] = layout.strides_of(tensor_type_of(tensor))
        address: sym.IndexExpr = 0
        for index, stride in zip(indices, strides, strict=True):
            address = address + index * stride
        return address

    def local(self, handle: SSAValue) -> int | None:
        """Sets the scratch addresses of the accesses to `handle`; gives its size, None when it must stay a tensor.

        An axis of the tensor whose index is the same expression of the parallel axes in every access needs no memory,
        since no other point of the parallel domain touches what this one stored.
        """
        touched = self.touched[handle]
        private: list[int] = []
        for axis, index in enumerate(touched[0][1]):
            depends = sum(1 << k for k in sym.dims_of(index))
            if depends & ~self.parallel_axes or any(indices[axis] != index for _, indices in touched):
                private.append(axis)
        size = 1
        sizes = layout.sizes_of(tensor_type_of(handle))
        strides: list[tuple[int, int]] = []
        for axis in reversed(private):
            axis_size = sizes[axis]
            if not isinstance(axis_size, int):
                return None
            strides.append((axis, size))
            size *= axis_size
        if size > MAX_LOCAL or size == 0:
            return None
        for access, indices in touched:
            address: sym.IndexExpr = 0
            for axis, stride in strides:
                address = address + indices[axis] * stride
            access.local = sym.simplify(address, self.sizes, self.symbol_ranges)
        return size


_RUNNING_WEIGHTS = {"logaddexp": 20.0, "last_argmax": 4.0, "last_argmin": 4.0}
"""How much work a step of a running value is, where it is more than one."""


def byte_width(tensor: SSAValue) -> int:
    """The bytes of an element as it lies in memory; a bool takes one."""
    return max(1, getattr(tensor_type_of(tensor).element_type, "bitwidth", 32) // 8)


def tensor_type_of(tensor: SSAValue) -> TensorType[Attribute]:
    """The type of a tensor value."""
    tensor_type = tensor.type
    assert isinstance(tensor_type, TensorType)
    return cast("TensorType[Attribute]", tensor_type)
