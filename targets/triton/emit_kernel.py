"""`kernel.func` → one `@triton.jit` function.

A value of the dialect becomes a Triton scalar, or a block with one dimension for every lane axis of the kernel, of size
1 where it does not vary: broadcasting is Triton's. An expression that is there already, in this block of the text or in
one around it, is not written again: so what one stage of a persistent kernel loads, later stages have.

Where there are products (`kernel.contract`), blocks are matrices: the outermost lane axis is along the rows, every
other one along the columns, and no value varies along two of those.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from xdsl.ir import Block, Operation, SSAValue

from cuesta.dialects import elem, kernel, sym
from cuesta.dialects.core.diagnostics import fail
from cuesta.dialects.core.locations import format_origin
from cuesta.dialects.elem import scalar_of
from cuesta.dialects.kernel.descriptors import Described, Descriptor, described_loads
from cuesta.dialects.kernel.shapes import Shape, shape_of
from cuesta.targets.host.python_text import Names, identifier
from cuesta.targets.program import KernelText
from cuesta.targets.triton.emit_accumulate import carried_by
from cuesta.targets.triton.emit_hoist import Hoisting
from cuesta.targets.triton.emit_index import index_text, operand_text
from cuesta.targets.triton.emit_meet import emit_meeting
from cuesta.targets.triton.emit_neighbours import Neighbours, neighbours_in
from cuesta.targets.triton.emit_places import is_defined_in, shared_places
from cuesta.targets.triton.emit_programs import emit_programs
from cuesta.targets.triton.emit_quotients import Start, with_quotients
from cuesta.targets.triton.emit_reduce import Accumulator
from cuesta.targets.triton.emit_rounds import is_written_in_rounds, write_points, write_rounds
from cuesta.targets.triton.emit_row_loads import OfTwoRows, Tile
from cuesta.targets.triton.emit_steps import Steps, split_by_steps
from cuesta.targets.triton.emit_together import Together
from cuesta.targets.triton.emit_types import constant_text, number_text, pointer_text
from cuesta.targets.triton.emit_walks import Walk
from cuesta.targets.triton.emit_whole import Whole, whole_program

_RESERVED = ("tl", "triton", "libdevice", "functions", "quick", "float", "range")
_UNROLLED = 16
"""The most rounds of a serial loop that are unrolled."""
_WRITTEN = 32
"""The most rounds of serial loops one in the other that Triton is to unroll; LLVM unrolls the outer ones, and takes a
tenth of the time. An average of 11 by 11 elements compiles in 0.08 s in place of 0.7, to the same machine code.
"""
_LEAST_NORMAL = 1.2e-38
"""Triton takes a literal below for an f64."""


@dataclass
class _Scope:
    lines: list[str] = field(default_factory=list[str])
    known: dict[str, str] = field(default_factory=dict[str, str])
    stored: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])
    """Of what was stored here: the text of the pointer and the mask, and the value."""


class KernelEmitter:
    """Emits one `kernel.func`."""

    def __init__(self, func: kernel.FuncOp, described: Mapping[kernel.LoadOp, Described]) -> None:
        self.func = func
        self.described = described
        """The loads that are done by descriptors."""
        self.tensors: dict[Descriptor, str] = {}
        """The names of the descriptors."""
        self.flattened = False
        """Whether the loop over programs and that of a contraction are said to be one."""
        self.taken = Names(_RESERVED)
        self.names: MutableMapping[SSAValue, str] = {}
        self.real: MutableMapping[SSAValue, Shape] = {}
        self.scopes = [_Scope()]
        self.masks: dict[int, str] = {}
        self.asserts = False
        self.initials: dict[kernel.LoopOp, dict[kernel.RunningOp, list[tuple[str, str]]]] = {}
        """For scans that are being written: what they carry, and what that is before the first point."""
        self.single_tiles: dict[SSAValue, Tile] = {}
        self.starts: dict[SSAValue, Start] = {}
        self.of_two_rows: dict[SSAValue, OfTwoRows] = {}
        self.walked: dict[kernel.ReduceOp, Accumulator] = {}
        """Reductions that were written with one before them."""
        self.carried: dict[kernel.CombineOp, str] = {}
        """For elements that a scan carries, what they are called."""
        every = list(func.walk())
        outs = set[SSAValue](func.outs)
        self.written = outs | {op.result for op in every if isinstance(op, kernel.PickOp) and outs >= {*op.operands}}
        self.read = {op.pointer for op in every if isinstance(op, kernel.LoadOp)}
        self.dirty: set[SSAValue] = set()
        self.has_products = any(isinstance(op, kernel.ContractOp) for op in every)
        tiles = (op.dim + 1 for op in every if isinstance(op, kernel.LoopOp) and op.lanes > 1)
        self.rank = 2 if self.has_products else max(tiles, default=0)
        self.upright: frozenset[int] = frozenset()
        """The lane axes that are along the rows here for once: of a right factor, the contracted one."""
        self.products: dict[SSAValue, kernel.ContractOp] = {}
        """Sums that are written when they are added to something, with that for what they begin from."""
        self.steps: dict[SSAValue, Steps] = {}
        """Of the contractions that are being written, the points of their loops."""
        self.in_factor = False
        """Whether a factor of a product is being written."""
        self.hoisting = Hoisting()
        self.zero_masked = False
        """Whether a load gives 0 where its lanes are inactive."""
        self.one_masked = any(isinstance(op, elem.DivOp | elem.SqrtOp) for op in every)
        """Whether floats are 1 there. A division of 0 and a root of it take several times as long as others, and all
        lanes of a warp wait: gradients of norms of 12 f32 took 313 µs on an H200, and 98 so.
        """
        self.wide = func.schedule.choices.get("index", 64) == 64
        self.integer = "tl.int64" if self.wide else "tl.int32"
        self.coordinates: list[str] = []
        """The coordinates of the program in the grid."""
        self.program = "0"
        """The number of the program."""
        self.reads = ""
        """Where programs take turns, the name of whether this one reduces its part."""
        self.neighbours: dict[Operation, Neighbours] = {}
        """For loads and stores of a lane's neighbouring elements, those that go together."""
        self.vectors: dict[Neighbours, str] = {}
        """For loads that go together, the name of the vector."""
        self.together: Together | None = None
        """What is computed together in the present block."""
        self.whole: Whole | None = None
        """What holds in the present branch, where all of the program's points are there."""
        self.counters: dict[SSAValue, int] = {}
        """Of the short serial loops that are being written, the counters, and the number that each stays below."""
        self.short: list[tuple[kernel.LoopOp, int]] = []
        """These loops, and in which scope each stands."""
        self.shared = shared_places(every)
        """What several addresses have in common."""
        self.true: set[SSAValue] = set()
        """Conditions that hold there for all lanes."""
        self.stores = True
        """Whether what is stored is; not where a program does again what another has done."""
        self.checks = {op: place for place, op in enumerate(op for op in every if isinstance(op, kernel.WithinOp))}
        """Checks of addresses, and which of the report's rows each writes to."""
        self.report = ""
        """The name of the report, where there are checks."""
        self.inside: dict[Operation, tuple[str, str]] = {}
        """For accesses that are checked, the text of the address, and which lanes have one that there is."""

    def emit(self) -> KernelText:
        """The whole function."""
        func = self.func
        signature: list[tuple[str, str]] = []
        for argument in func.body.args:
            name = self.names[argument] = identifier(argument.name_hint or "a", self.taken)
            assert isinstance(argument.type, kernel.PointerType)
            signature.append((name, pointer_text(argument.type.element_type)))
        for symbol in func.symbols:
            if symbol in self.taken:
                fail(func, f"the symbol {symbol} has the name of a value")
            self.taken.add(symbol)
        if self.checks:
            self.report = self.fresh("report")
            signature.append((self.report, "*i64"))
        signature += [(symbol, "i64" if self.wide else "i32") for symbol in func.symbols]
        for load, one in self.described.items():
            if one.descriptor not in self.tensors:
                name = self.tensors[one.descriptor] = self.fresh("tensor")
                kind = pointer_text(scalar_of(load.result.type)).removeprefix("*")
                signature.append((name, f"tensordesc<{kind}{list(one.descriptor.box)}>"))
        emit_programs(self, self.body)
        body = "\n    ".join(self.scopes[0].lines or ["pass"])
        where = format_origin(func.location)
        comment = f"# {where}\n" if where else ""
        parameters = ", ".join(name for name, _ in signature)
        source = f"{comment}@triton.jit\ndef {func.sym_name}({parameters}):\n    {body}\n"
        warps = int(func.schedule.choices.get("warps", 4))
        stages = int(func.schedule.choices.get("stages", 3))
        registers = int(func.schedule.choices.get("registers", 0))
        return KernelText(func.sym_name, source, tuple(signature), warps, self.asserts, stages, registers)

    def body(self) -> None:
        """What a program does."""
        meeting = kernel.meeting_of(self.func)
        self.whole = whole_program(self) if self.func.schedule.choices.get("whole") and meeting is None else None
        if meeting is not None:
            emit_meeting(self, meeting)
        elif self.whole is not None:
            self.in_branches(self.whole)
        else:
            self.block(self.func.body)

    def in_branches(self, whole: Whole) -> None:
        """The body twice: without masks where the program has all of its points, and with them."""
        for head, self.whole in ((f"if {whole.test}:", whole), ("else:", None)):
            self.true.clear()
            self.dirty.clear()
            self.enter()
            self.block(self.func.body)
            self.leave(head)

    # The text

    def line(self, text: str) -> None:
        """Appends a line to the present block."""
        self.scopes[-1].lines.append(text)

    def bind(self, text: str, hint: str = "v", spelled: str | None = None) -> str:
        """A name for an expression without effects: the one it has, or a new one. `spelled` is how it is to be written,
        if there are several ways.
        """
        if text.isidentifier():
            return text
        for scope in self.scopes:
            if text in scope.known:
                return scope.known[text]
        depth, known = self.hoisting.places(text, len(self.scopes) - 1)
        name = self.scopes[known].known[text] = identifier(hint, self.taken)
        self.hoisting.homes[name] = depth
        self.scopes[depth].lines.append(f"{name} = {spelled or text}")
        return name

    def bind_outside(self, text: str, hint: str, operands: Sequence[SSAValue]) -> str:
        """The same, before the short loops that none of the operands of an expression belongs to."""
        depth = len(self.scopes) - 1
        for loop, place in reversed(self.short):
            if any(is_defined_in(loop, operand) for operand in operands):
                break
            depth = place
        inner, self.scopes = self.scopes[depth + 1 :], self.scopes[: depth + 1]
        name = self.bind(text, hint)
        self.scopes += inner
        return name

    def known_loop(self, op: Operation, lines: Sequence[str], depth: int, name: str, counter: str) -> str:
        """The name of what a loop in block `depth` gives, whose text is `lines`: the one that an equal loop gives, or
        else `name`. The counter and what is defined in the loop may have other names there.
        """
        if any(isinstance(one, kernel.LoadOp) and one.pointer in self.written for one in op.walk()):
            return name
        text = self.hoisting.anonymous("\n".join(lines), depth, name, counter)
        for scope in self.scopes:
            if text in scope.known:
                return scope.known[text]
        return self.scopes[depth].known.setdefault(text, name)

    def fresh(self, hint: str) -> str:
        """A name that nothing has yet."""
        name = identifier(hint, self.taken)
        self.hoisting.homes[name] = len(self.scopes) - 1
        return name

    def define(self, op: Operation, text: str, real: Shape, spelled: str | None = None) -> None:
        """Gives the only result of an op its text."""
        result = op.results[0]
        self.names[result] = self.bind(text, result.name_hint or "v", spelled)
        self.real[result] = real

    # Shapes

    def padded(self, shape: Shape) -> Shape:
        """The Triton shape of a value of this shape; () for a scalar."""
        if self.has_products and shape:
            sizes = [1, 1]
            for dim, size in enumerate(shape):
                if size > 1:
                    sizes[self.place(dim)] = size
            return tuple(sizes)
        return (*shape, *(1,) * (self.rank - len(shape))) if shape else ()

    def place(self, dim: int) -> int:
        """The dimension of blocks that a lane axis is."""
        if self.has_products:
            return 0 if dim == 0 or dim in self.upright else 1
        return dim

    def check_axes(self, op: Operation) -> None:
        """Errors: CuestaError for a value that varies along two lane axes which are one dimension of blocks."""
        for value in (*op.operands, *op.results):
            places = [self.place(dim) for dim, size in enumerate(shape_of(value)) if size > 1]
            if len(set(places)) < len(places):
                fail(
                    op,
                    f"a value of type {value.type}: two lane axes that it varies along are one dimension of blocks "
                    "here, as blocks are matrices in a kernel with kernel.contract",
                )

    def real_of(self, value: SSAValue) -> Shape:
        """The shape that the name of a value has in the text, which may vary along fewer axes than its type says."""
        return self.real.get(value, ())

    @staticmethod
    def joint(shapes: Sequence[Shape]) -> Shape:
        """The shape of an expression of operands of these shapes."""
        every = [shape for shape in shapes if shape]
        return tuple(max(sizes) for sizes in zip(*every, strict=True)) if every else ()

    @staticmethod
    def spread(text: str, real: Shape, wanted: Shape) -> str:
        """The text of a value repeated to fill `wanted`."""
        return text if real == wanted or not wanted else f"tl.broadcast_to({text}, {list(wanted)})"

    def lane_text(self, lanes: int, place: int) -> str:
        """0, 1, …, lanes − 1 along a dimension of blocks."""
        text = f"tl.arange(0, {lanes})"
        if self.wide:
            text += ".to(tl.int64)"
        if self.rank > 1:
            text += "[" + ", ".join(":" if axis == place else "None" for axis in range(self.rank)) + "]"
        return self.bind(text, "lanes")

    # Values

    def name(self, value: SSAValue) -> str:
        """The text of an operand: a name, or a literal where Triton gives it the right type."""
        owner = value.owner
        if isinstance(owner, elem.ConstantOp):
            scalar, number = scalar_of(value.type), owner.value
            inline = pointer_text(scalar) == "*fp32" and abs(number) >= _LEAST_NORMAL
            return number_text(number) if inline else self.constant(owner)
        return self.names[value]

    def constant(self, op: elem.ConstantOp) -> str:
        """A constant as a scalar of its type, made at the top."""
        text = constant_text(op.value, scalar_of(op.result.type))
        top = self.scopes[0]
        if text not in top.known:
            name = top.known[text] = self.fresh("c")
            self.hoisting.homes[name] = 0
            top.lines.insert(0, f"{name} = {text}")
        return top.known[text]

    def operands(self, op: Operation) -> list[str]:
        """The operands' texts, of which one at least is no literal."""
        texts = [self.name(operand) for operand in op.operands]
        first = op.operands[0].owner
        if isinstance(first, elem.ConstantOp) and all(isinstance(o.owner, elem.ConstantOp) for o in op.operands):
            texts[0] = self.constant(first)
        return texts

    def index(self, e: sym.IndexExpr, operands: Sequence[SSAValue]) -> tuple[str, Shape]:
        """The text of an index expression, and its shape."""
        if (split := split_by_steps(self, e, operands)) is not None:
            return split.whole, split.shape
        e, names = with_quotients(self, e, operands, [self.names[operand] for operand in operands])
        shape = self.joint([self.real_of(operand) for operand in operands])
        if self.has_products:  # what two products read is one load, whichever of its axes each sums along
            order = sorted(range(len(names)), key=lambda k: (math.prod(self.real_of(operands[k])) > 1, names[k]))
            e = sym.substitute(e, [sym.dim(order.index(k)) for k in range(len(names))])
            names = [names[k] for k in order]
        return index_text(e, names), shape

    def active(self, shape: Shape) -> list[str]:
        """The masks of the lane axes that a value of this shape varies along."""
        dims = [dim for dim in self.masks if len(shape) > dim and shape[dim] > 1]
        return [self.masks[dim] for dim in (sorted(dims, key=self.place) if self.has_products else dims)]

    # Structure

    def stand_in_for(self, number: str, axes: int) -> None:
        """From here on the coordinates along the last axes of the grid are those of program `number` of the group."""
        coordinates: list[str] = []
        rest = number
        for size in reversed(self.func.schedule.grid[len(self.func.schedule.grid) - axes + 1 :]):
            divisor = operand_text(size, ())
            coordinates.append(self.bind(f"{rest} % {divisor}", "p"))
            rest = self.bind(f"{rest} // {divisor}", "p")
        self.coordinates[len(self.coordinates) - axes :] = [rest, *reversed(coordinates)]

    def coordinate(self, axis: int) -> str:
        """The program's coordinate along an axis of the grid."""
        return self.coordinates[axis]

    def block(self, block: Block) -> None:
        """Emits the ops of a block."""
        ops = [op for op in block.ops if not isinstance(op, elem.ConstantOp | kernel.YieldOp | kernel.CarryOp)]
        found = neighbours_in(self, ops)
        self.neighbours |= found
        outer = self.together
        self.together = Together(ops, found) if found and not self.func.schedule.choices.get("whole") else None
        self.ops(ops)
        self.together = outer

    def ops(self, ops: Iterable[Operation]) -> None:
        """Emits ops in order; constants are written where they are read."""
        from cuesta.targets.triton.emit_ops import EMITTERS, emit_table_op

        together = self.together
        for op in ops:
            if isinstance(op, elem.ConstantOp):
                continue
            if self.has_products:
                self.check_axes(op)
            if together is None or op not in together.left_out:
                EMITTERS.get(type(op), emit_table_op)(self, op)
            if together is not None:
                together.emit(self, op)

    def loop(self, op: kernel.LoopOp) -> list[tuple[str, Shape]]:
        """Emits a `kernel.for` or `kernel.reduce`; gives the names and shapes of its results."""
        if isinstance(op, kernel.ReduceOp) and (known := self.walked.pop(op, None)) is not None:
            return known.results
        walk = Walk(self, op) if isinstance(op, kernel.ReduceOp) else None
        self.settle(op)
        if self.is_whole(op):
            self.axis(op, 0, walk and walk.own.take_whole)
            return walk.own.results if walk else []
        carried = carried_by(self, op)
        for one in carried:
            one.begin()
        # What is carried around the loop is set before it, and known after its body has been written.
        body: list[str] = []
        outer = self.scopes[-1]
        outer.lines, before = body, outer.lines
        self.axis(op, 0, walk and walk.take)
        outer.lines = before
        for name, text in walk.initial() if walk else chain.from_iterable(self.initials.pop(op, {}).values()):
            self.line(f"{name} = {text}")
        outer.lines += body
        for one in carried:
            one.end()
        return walk.finish() if walk else []

    def is_walk(self, op: Operation) -> bool:
        """Whether an op is a contraction along several tiles."""
        return isinstance(op, kernel.ContractOp) and not self.is_single_tile(op)

    def is_whole(self, op: kernel.LoopOp) -> bool:
        """Whether a loop is one tile and no more."""
        return len(op.induction_variables) == 1 and op.lanes > 1 and self.is_single_tile(op)

    def is_single_tile(self, op: kernel.LoopOp) -> bool:
        """Whether the last axis has no more points than lanes."""
        return any(isinstance(e, int) and e <= op.lanes for e in self.trips(op, -1))

    @staticmethod
    def trips(op: kernel.LoopOp, axis: int) -> list[sym.IndexExpr]:
        """Upper bounds of the number of points of an axis; the only one is exact."""
        lower = op.lowers.results[axis]
        return [upper - lower for upper in sym.alternatives(op.uppers.results[axis])]

    def axis(self, op: kernel.LoopOp, axis: int, take: Callable[[kernel.ReduceOp], None] | None) -> None:
        """Emits the loop over one axis, and what is in it."""
        variable = op.induction_variables[axis]
        hint = variable.name_hint or "i"
        last = axis + 1 == len(op.induction_variables)
        lower, upper = op.lowers.results[axis], op.uppers.results[axis]
        trips = self.trips(op, axis)
        low, _ = self.index(lower, op.operands)
        high, _ = self.index(upper, op.operands)

        def inner() -> None:
            if not last:
                self.axis(op, axis + 1, take)
                return
            self.block(op.body)
            if take is not None:
                assert isinstance(op, kernel.ReduceOp)
                take(op)

        if last and op.lanes > 1:
            self.tiles(op, hint, inner)
            return
        if last and is_written_in_rounds(self, op):
            write_points(self, op)
            return
        count = trips[0] if len(trips) == 1 else None
        if count == 1:
            self.names[variable] = self.bind(low, hint) if lower != 0 else "0"
            inner()
            return
        counter, short = self.fresh(hint), self.rounds(op, axis)
        unrolled = short is not None and short <= _WRITTEN
        if short is not None:
            assert isinstance(lower, int) and isinstance(count, int)
            self.counters[variable] = lower + count
            self.short.append((op, len(self.scopes) - 1))
        self.enter()
        if unrolled or not self.wide:
            self.names[variable] = counter
        else:
            self.names[variable] = self.bind(f"tl.cast({counter}, tl.int64)", hint)
        inner()
        if self.counters.pop(variable, None) is not None:
            self.short.pop()
        if not unrolled and last and op.unroll > 1 and isinstance(op, kernel.ReduceOp):
            self.leave(f"for {counter} in tl.range({low}, {high}, loop_unroll_factor={op.unroll}):")
            return
        self.leave(f"for {counter} in {'tl.static_range' if unrolled else 'range'}({low}, {high}):")

    def rounds(self, op: kernel.LoopOp, axis: int) -> int | None:
        """How many rounds are written out where a short serial axis of a loop is unrolled; None for another axis."""
        trips = self.trips(op, axis)
        count = trips[0] if len(trips) == 1 else None
        if not isinstance(count, int) or count > _UNROLLED or not isinstance(op.lowers.results[axis], int):
            return None
        if axis + 1 == len(op.induction_variables) and op.lanes > 1:
            return None
        if any(isinstance(inner, kernel.LoopOp) and inner.lanes > 1 for inner in op.body.walk()):
            return None
        return count * self.rounds_within(op, axis)

    def rounds_within(self, op: kernel.LoopOp, axis: int) -> int:
        """How many rounds of what is in an axis of a loop are written out."""
        if axis + 1 < len(op.induction_variables):
            inner = [(op, axis + 1)]
        else:
            inner = [(each, 0) for each in op.body.ops if isinstance(each, kernel.LoopOp)]
        found = 0
        for loop, place in inner:
            rounds = self.rounds(loop, place)
            found += self.rounds_within(loop, place) if rounds is None or rounds > _WRITTEN else rounds
        return max(1, found)

    def tiles(self, op: kernel.LoopOp, hint: str, inner: Callable[[], None]) -> None:
        """Emits the last axis of a loop with lanes: one tile, or a loop over tiles."""
        variable, lanes, dim, place = op.induction_variables[-1], op.lanes, op.dim, self.place(op.dim)
        lower, uppers = op.lowers.results[-1], sym.alternatives(op.uppers.results[-1])
        shape = (*(1,) * place, lanes, *(1,) * (self.rank - place - 1))
        self.real[variable] = shape
        points = self.lane_text(lanes, place)
        before = dict(self.masks)
        low, _ = self.index(lower, op.operands)
        high, _ = self.index(op.uppers.results[-1], op.operands)
        if self.is_single_tile(op):
            self.single_tiles[variable] = Tile(low, high, lanes, _divisor(lower))
            name = self.names[variable] = self.bind(points if lower == 0 else f"{low} + {points}", hint)
            self.mask(dim, name, [upper for upper in uppers if upper - lower != lanes], op)
            inner()
            self.masks = before
            return
        start = self.fresh(f"{hint}_start")
        rounds = op.unroll if is_written_in_rounds(self, op) else 1
        trip = op.uppers.results[-1] - lower
        exact = isinstance(trip, int) and trip % (lanes * rounds) == 0

        def enter_round(number: int) -> None:
            shifted = f"{first} + {number * lanes}" if number else first
            name = self.names[variable] = self.bind(f"{shifted} + {points}", hint)
            self.starts[variable] = Start(shifted, points, lanes)
            self.mask(dim, name, [] if exact else list(uppers), op)

        self.enter()
        first = self.bind(f"tl.cast({start}, tl.int64)", start) if self.wide else start
        if rounds > 1:
            write_rounds(self, op, rounds, enter_round)
            self.leave(f"for {start} in range({low}, {high}, {lanes * rounds}):")
        else:
            enter_round(0)
            inner()
            unroll = f", loop_unroll_factor={op.unroll}" if op.unroll > 1 and isinstance(op, kernel.ReduceOp) else ""
            self.leave(f"for {start} in {'tl.' if unroll else ''}range({low}, {high}, {lanes}{unroll}):")
        self.masks = before

    def mask(self, dim: int, name: str, limits: Sequence[sym.IndexExpr], op: kernel.LoopOp) -> None:
        """Sets the mask of a dimension: which lanes are points of the loop."""
        self.masks.pop(dim, None)
        if limits and not (self.whole and op in self.whole.loops):
            tests = [f"{name} < {operand_text(e, [self.names[v] for v in op.operands])}" for e in limits]
            text = tests[0] if len(tests) == 1 else " & ".join(f"({test})" for test in tests)
            self.masks[dim] = self.bind(text, "mask")

    def enter(self) -> None:
        """Opens the body of a loop."""
        self.scopes.append(_Scope())

    def leave(self, head: str) -> None:
        """Closes it."""
        inner = self.scopes.pop()
        self.line(head)
        for line in inner.lines or ["pass"]:
            self.line(f"    {line}")

    # Memory that the kernel itself writes

    def settle(self, op: kernel.LoopOp) -> None:
        """Before a loop that reads what was stored: all threads must have stored it."""
        if not self.dirty or self.is_whole(op):  # of one tile, the loads are looked up among the stores one by one
            return
        if any(isinstance(inner, kernel.LoadOp) and inner.pointer in self.dirty for inner in op.walk()):
            self.barrier()

    def barrier(self) -> None:
        """Makes every thread of the program see what the others stored."""
        self.line("tl.debug_barrier()")
        self.dirty.clear()


def _divisor(e: sym.IndexExpr) -> int:
    """A number that divides an expression; 0 for 0."""
    return e if isinstance(e, int) else math.gcd(e.constant, *(factor for _, factor in e.terms))


def emit_kernel(func: kernel.FuncOp, described: Mapping[kernel.LoadOp, Described] | None = None) -> KernelText:
    """The Triton text of a kernel, of which `described_loads` may be known. Errors: CuestaError for what the target
    cannot say.
    """
    described = described_loads(func) if described is None else described
    text = KernelEmitter(func, described).emit()
    return replace(text, plain=KernelEmitter(func, {}).emit().source) if described else text


__all__ = ["KernelEmitter", "emit_kernel"]
