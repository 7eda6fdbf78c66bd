"""`kernel.func` → one LLVM function of LLVM IR text.

    define internal void @NAME(ptr %args, i64 %begin, i64 %end)

runs the programs [begin, end) of the flattened grid. `args` is an array of 8-byte slots: the pointers, then the
symbols; of a kernel that may find an index out of range, then the record that it writes (`emit_module.py`).

A lane loop is emitted for a cascade of widths (several vectors a step, one vector, one element), the last of which is
the tail, so nothing is masked that the text does not mask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from xdsl.ir import Block, BlockArgument, Operation

from cuesta.dialects import elem, kernel
from cuesta.dialects.core.operation import all_ops
from cuesta.dialects.core.reductions import EXTREMES, JOINS
from cuesta.dialects.core.structs import struct
from cuesta.dialects.elem import scalar_of
from cuesta.targets.cpu.emit_index import Index, IndexEmitter, Level
from cuesta.targets.cpu.emit_ops import EMITTERS, emit_rows, emit_table_op
from cuesta.targets.cpu.emit_reduce import IN_REGISTERS, Accumulator
from cuesta.targets.cpu.emit_scan import ScanCarry
from cuesta.targets.cpu.emit_types import byte_width
from cuesta.targets.cpu.features import host_features
from cuesta.targets.cpu.vector_math import MathFunction
from cuesta.targets.program import BoundSite

WINDOW = 3
"""The most points of a loop within a vector that are written out one by one; of two such loops, the square of it."""
_PIECES = (512, 32)
"""How many steps of a long sum of unknown length are added up before they join the rest, from the outside in."""


_BLOCK = 128
"""The steps of a piece of a sum whose block fills the registers. With 128, products are as far from float64 as MKL's,
with 256 further off; with pieces as other sums have, of 16 and 32 steps, they took 1.05 to 1.08 of the time.

Source: 12 products of 256 to 1024 points on an EPYC (Zen 4), beside other processes, docs/decisions/062.
"""


def pieces_of(trip: int) -> tuple[int, ...]:
    """How a sum of so many elements, which come one by one, is taken to pieces where it does not fill the registers."""
    return _pieces(trip, 1, 1)


def _pieces(trip: int | None, step: int, vectors: int) -> tuple[int, ...]:
    """The steps of the pieces of a long sum, from the outside in, when `vectors` are summed side by side.

    The error of n terms one after the other grows with √n; in two levels with the fourth root, in three with the sixth.
    """
    if vectors >= IN_REGISTERS:
        return (_BLOCK,) if trip is None or trip > _BLOCK * step else ()
    if trip is None:
        return _PIECES
    bits = max(1, trip // step).bit_length()
    if bits <= 5:
        return ()
    if bits <= 10:
        return (1 << bits // 2,)
    return (1 << bits * 2 // 3, 1 << bits // 3)


@struct
class Strip:
    """for (variable = start; variable < stop; variable += step). `trip` is stop − start where it is known."""

    variable: BlockArgument
    start: str
    stop: str
    step: int
    trip: int | None
    lane: bool = False
    """Whether the variable has as many lanes as a step."""
    row: bool = False
    """Whether it counts the rows that stand side by side."""
    symbol: str | None = None
    """Where the trip is not known: the symbol that it is, if the emitter knows a length that stands for it."""


@struct(frozen=False)
class EmittedKernel:
    """The text of one kernel and what the module has to provide for it."""

    text: str
    functions: dict[str, MathFunction]
    reports: bool
    """Whether it takes a record, which it may write."""


class KernelEmitter(IndexEmitter):
    """Emits one `kernel.func`. `sites` collects the bounds of the whole module; their positions + 1 are the error
    codes. A loop over a symbol is taken to pieces as one of its `lengths` is, where that is there.
    """

    def __init__(
        self, func: kernel.FuncOp, sites: list[BoundSite], lengths: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        super().__init__()
        self.func = func
        self.lengths = lengths
        self.in_pieces: set[str] = set()
        """The symbols among `lengths` whose value says to which pieces a sum is taken: `pieces_of`."""
        self.sites = sites
        self.functions: dict[str, MathFunction] = {}
        self.entry: list[str] = []
        self.scans: dict[Operation, ScanCarry] = {}
        self.is_checked = any(isinstance(op, kernel.WithinOp) for op in all_ops(func))
        """Whether the text cannot be believed: then nothing that LLVM may assume is said of addresses."""
        self._coordinates: list[str] = []
        self._record: str | None = None

    def emit(self) -> EmittedKernel:
        """The whole function."""
        func = self.func
        for position, argument in enumerate(func.body.args):
            self.names[argument] = self._argument(position, "ptr")
        for position, symbol in enumerate(func.symbols, len(func.body.args)):
            self.symbols[symbol] = self._argument(position, "i64")
        program = Index("%program", 0)
        sizes = [self.scalar(size, (), 0) for size in func.schedule.grid]
        self.entry += self.levels[0].lines
        self.levels[0].lines.clear()
        self._coordinates = self._split(program.name, sizes)
        self.block(func.body)
        body = "\n  ".join(self.levels[0].lines)
        entry = "\n  ".join(self.entry)
        upwards = "\n  ".join(counted_up("%next", "%program", 1))
        text = f"""define internal void @{func.sym_name}(ptr noalias readonly %args, i64 %begin, i64 %end) nounwind {{
entry:
  {entry}
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %loop, label %done
loop:
  %program = phi i64 [ %begin, %entry ], [ %next, %latch ]
  {body}
  br label %latch
latch:
  {upwards}
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""
        if self.is_checked:
            text = text.replace(" nsw ", " ").replace(" inbounds ", " ")
        return EmittedKernel(text, self.functions, self._record is not None)

    def report(self, site: BoundSite, value: str, size: str) -> None:
        """Writes that `value` is not within `size`, unless something else was out of range before."""
        self.sites.append(site)
        if self._record is None:
            self._record = self._argument(len(self.func.body.args) + len(self.func.symbols), "ptr")
        self.line(f"call void @cuesta.report(ptr {self._record}, i64 {len(self.sites)}, i64 {value}, i64 {size})")

    def _argument(self, position: int, kind: str) -> str:
        name = self.fresh()
        self.entry.append(f"{name}.at = getelementptr inbounds i64, ptr %args, i64 {position}")
        self.entry.append(f"{name} = load {kind}, ptr {name}.at, align 8")
        return name

    def _split(self, program: str, sizes: Sequence[str]) -> list[str]:
        """The coordinates of a flat program number, row-major."""
        coordinates: list[str] = []
        rest = program
        for size in reversed(sizes[1:]):
            coordinates.append(self.instruction(f"urem i64 {rest}, {size}"))
            rest = self.instruction(f"udiv i64 {rest}, {size}")
        coordinates.append(rest)
        return coordinates[::-1]

    def coordinate(self, axis: int) -> Index:
        """The program's coordinate along an axis of the grid."""
        return Index(self._coordinates[axis], 0)

    def block(self, block: Block) -> None:
        """Emits the ops of a block into the present body."""
        for op in block.ops:
            self.op(op)

    def op(self, op: Operation) -> None:
        """Emits one op."""
        if isinstance(op, elem.ConstantOp | kernel.YieldOp):
            return
        in_rows = self.rows > 1 and not isinstance(op, kernel.LoopOp)
        if in_rows and any(map(self.varies_by_row, (*op.operands, *op.results))):
            emit_rows(self, op)
        else:
            EMITTERS.get(type(op), emit_table_op)(self, op)

    def loop(self, op: kernel.LoopOp, accumulator: Accumulator | None) -> None:
        """Emits the loops of a `kernel.for` or `kernel.reduce`: the outer axes one by one, the last as a cascade of
        widths. Where one of these is all of it, sums of all axes are wide until the end.
        """
        width = self._only_width(op) if accumulator is not None and accumulator.adds_up else 0
        if accumulator is None or width == 0:
            self._axis(op, 0, accumulator)
            return
        accumulator.widen(self, width)
        self._axis(op, 0, accumulator, width)
        before, self.width = self.width, width
        accumulator.narrow(self, width)
        self.width = before

    def _only_width(self, op: kernel.LoopOp) -> int:
        """The width that does all of the last axis of several; 0 where there is none."""
        trip = op.uppers.results[-1] - op.lowers.results[-1]
        if len(op.induction_variables) == 1 or op.lanes == 1 or holds_lanes(op) or not isinstance(trip, int):
            return 0
        width = next((width for width in self._widths(op, trip, is_reduced=True) if width <= trip), 0)
        return width if width > 1 and trip % width == 0 else 0

    def _axis(self, op: kernel.LoopOp, axis: int, accumulator: Accumulator | None, width: int = 0) -> None:
        lower, upper = op.lowers.results[axis], op.uppers.results[axis]
        level = len(self.levels) - 1
        low = self.scalar(lower, op.operands, level)
        high = self.scalar(upper, op.operands, level)
        trip = upper - lower
        static = trip if isinstance(trip, int) else None
        symbol = str(trip) if static is None and str(trip) in self.lengths else None
        variable = op.induction_variables[axis]
        if self.is_natural(lower, op.operands):
            self.naturals.add(variable)
        if axis + 1 < len(op.induction_variables):
            strip = Strip(variable, low, high, 1, static, symbol=symbol)
            self._long_strip(strip, lambda: self._axis(op, axis + 1, accumulator, width), accumulator)
            return
        if op.lanes == 1:
            strip = Strip(variable, low, high, 1, static, symbol=symbol)
            self._long_strip(strip, lambda: self._body(op, accumulator), accumulator)
            return
        if holds_lanes(op):
            self._rows(op, variable, low, high, static, accumulator)
        elif width:
            before, self.width = self.width, width
            strip = Strip(variable, low, high, width, static, lane=True)
            self._long_strip(strip, lambda: self._body(op, accumulator), accumulator)
            self.width = before
        else:
            self._cascade(op, variable, low, high, static, accumulator)

    def _body(self, op: kernel.LoopOp, accumulator: Accumulator | None) -> None:
        for inner in op.body.ops:
            self.op(inner)
        if accumulator is not None:
            accumulator.update(self, op)

    def _widths(self, op: kernel.LoopOp, static: int | None, *, is_reduced: bool) -> list[int]:
        """The widths that the last axis is done with, one after the other."""
        unroll = self.func.schedule.choices.get("unroll", 1)
        if self.rows == 1:
            widths = cascade_of_widths(op, static, host_features().f32_lanes, int(unroll))
        else:
            halvings = op.lanes.bit_length() if _goes_by_halves(op, static) else 0
            widths = [op.lanes >> step for step in range(halvings)] or [op.lanes, 1]
            if is_reduced:
                whole_lines = host_features().f32_lanes >= 4 * self.rows and any(map(_reads_bytes, op.body.ops))
                widths = [*([4 * op.lanes] if whole_lines else []), 2 * op.lanes, *widths]
        return widths

    def _cascade(
        self,
        op: kernel.LoopOp,
        variable: BlockArgument,
        low: str,
        high: str,
        static: int | None,
        accumulator: Accumulator | None,
    ) -> None:
        widths = self._widths(op, static, is_reduced=accumulator is not None)
        done = 0
        for width in widths:
            last = width == 1
            if static is not None:
                count = (static - done) // width * width
                if count == 0:
                    continue
                stop = _plus(self, low, done + count) if not last else high
                start = _plus(self, low, done) if done else low
                done += count
                trip: int | None = count
            else:
                start = low
                trip = None
                stop = high
                if not last:
                    length = self.instruction(f"sub nsw i64 {high}, {start}")
                    left = self.instruction(f"srem i64 {length}, {width}")
                    stop = self.instruction(f"sub nsw i64 {high}, {left}")
                    low = self.instruction(f"call i64 @llvm.smax.i64(i64 {start}, i64 {stop})")
            before, self.width = self.width, width
            if accumulator is not None:
                accumulator.widen(self, width)
            strip = Strip(variable, start, stop, width, trip, lane=True)
            self._long_strip(strip, lambda: self._body(op, accumulator), accumulator)
            if accumulator is not None:
                accumulator.narrow(self, width)
            self.width = before

    def _rows(
        self,
        op: kernel.LoopOp,
        variable: BlockArgument,
        low: str,
        high: str,
        static: int | None,
        accumulator: Accumulator | None,
    ) -> None:
        """An outer lane axis of a tile: its rows side by side where the body is that simple. What whole sets of rows
        leave over comes by halves, or one by one (`_goes_by_halves`).
        """
        rows = op.lanes if accumulator is None and self.rows == 1 and is_simple_tile(op) else 1
        by_halves = rows > 1 and _goes_by_halves(op, static)
        start = low
        while rows > 1:
            if static is None:
                length = self.instruction(f"sub nsw i64 {high}, {start}")
                left = self.instruction(f"srem i64 {length}, {rows}")
                stop = self.instruction(f"sub nsw i64 {high}, {left}")
                stop = self.instruction(f"call i64 @llvm.smax.i64(i64 {start}, i64 {stop})")
                whole, rest, following = None, None, 1
            else:
                whole = static // rows * rows
                stop, rest, following = _plus(self, start, whole), static - whole, rows // 2 if by_halves else 1
            if whole != 0:
                with self.side_by_side(rows):
                    strip = Strip(variable, start, stop, rows, whole, row=True)
                    self._strip(strip, lambda: self._body(op, None), None)
            start, static, rows = stop, rest, following
        with self.side_by_side(1):
            strip = Strip(variable, start, high, 1, static)
            self._long_strip(strip, lambda: self._body(op, accumulator), accumulator)

    def _long_strip(self, strip: Strip, body: Callable[[], None], accumulator: Accumulator | None) -> None:
        """A strip; a long sum in pieces, each added up by itself, and these in pieces again."""
        pieces: tuple[int, ...] = ()
        if accumulator is not None and accumulator.adds_up:
            trip = strip.trip
            if strip.symbol is not None:
                trip = self.lengths[strip.symbol]
                if accumulator.vectors < IN_REGISTERS:
                    self.in_pieces.add(strip.symbol)
            pieces = _pieces(trip, strip.step, accumulator.vectors)
        self._in_pieces(strip, body, accumulator, pieces)

    def _in_pieces(
        self, strip: Strip, body: Callable[[], None], accumulator: Accumulator | None, pieces: tuple[int, ...]
    ) -> None:
        if accumulator is None or not pieces:
            self._strip(strip, body, accumulator)
            return
        begin = BlockArgument(strip.variable.type, strip.variable.block, -1)
        length = pieces[0] * strip.step

        def one_piece() -> None:
            low = self.indices[begin].name
            end = self.instruction(f"add nsw i64 {low}, {length}")
            high = self.instruction(f"call i64 @llvm.smin.i64(i64 {end}, i64 {strip.stop})")
            before, accumulator.values = accumulator.values, accumulator.identity(accumulator.lanes)
            self._in_pieces(replace(strip, start=low, stop=high, trip=None), body, accumulator, pieces[1:])
            accumulator.values = accumulator.merge(self, before)

        self._strip(Strip(begin, strip.start, strip.stop, length, strip.trip), one_piece, accumulator)

    def _is_written_out(self, strip: Strip) -> bool:
        """Whether a loop of a few points stands in a body of vectors: a window, whose loads want to be side by side."""
        if strip.trip is None or strip.step != 1 or not 1 < strip.trip <= WINDOW:
            return False
        if not 1 < self.width <= host_features().f32_lanes:
            return False
        return strip.start.isdigit() and all(
            isinstance(op, (*_SIMPLE, kernel.YieldOp)) and not isinstance(op, kernel.ForOp)
            for op in strip.variable.block.ops
        )

    def _strip(self, strip: Strip, body: Callable[[], None], accumulator: Accumulator | None) -> None:
        """Emits the body in a loop, with the accumulators carried around."""
        start, stop = strip.start, strip.stop
        if strip.trip == 0:
            return
        if self._is_written_out(strip):
            for point in range(int(start), int(stop)):
                self._strip(replace(strip, start=str(point), stop=str(point + 1), trip=1), body, accumulator)
            return
        outer = self.levels[-1]
        lane = strip.lane and strip.step > 1
        if strip.trip == strip.step:
            # One round needs no loop, but a level of its own: what is cached there holds for this start only.
            self.levels.append(Level())
            self.indices[strip.variable] = Index(start, len(self.levels) - 1, lane, row=strip.row)
            body()
            outer.lines += self.levels.pop().lines
            return
        head, latch, exit_label, before = self.label(), self.label(), self.label(), self.label()
        counter = self.fresh()
        level = Level()
        self.levels.append(level)
        self.indices[strip.variable] = Index(counter, len(self.levels) - 1, lane, row=strip.row)
        carried = accumulator.enter(self) if accumulator is not None else []
        body()
        updated = accumulator.values if accumulator is not None else []
        self.levels.pop()
        results = [self.fresh() for _ in carried]
        outer.lines.append(f"br label %{before}")
        outer.lines.append(f"{before}:")
        guarded = strip.trip is None
        if guarded:
            some = self.fresh()
            outer.lines.append(f"{some} = icmp slt i64 {start}, {stop}")
            outer.lines.append(f"br i1 {some}, label %{head}, label %{exit_label}")
        else:
            outer.lines.append(f"br label %{head}")
        outer.lines.append(f"{head}:")
        outer.lines.append(f"{counter} = phi i64 [ {start}, %{before} ], [ {counter}.next, %{latch} ]")
        for (name, kind, initial), new in zip(carried, updated, strict=True):
            outer.lines.append(f"{name} = phi {kind} [ {initial}, %{before} ], [ {new}, %{latch} ]")
        outer.lines += level.lines
        outer.lines.append(f"br label %{latch}")
        outer.lines.append(f"{latch}:")
        outer.lines += counted_up(f"{counter}.next", counter, strip.step)
        outer.lines.append(f"{counter}.more = icmp slt i64 {counter}.next, {stop}")
        outer.lines.append(f"br i1 {counter}.more, label %{head}, label %{exit_label}")
        outer.lines.append(f"{exit_label}:")
        for result, (_, kind, initial), new in zip(results, carried, updated, strict=True):
            skipped = f"[ {initial}, %{before} ], " if guarded else ""
            outer.lines.append(f"{result} = phi {kind} {skipped}[ {new}, %{latch} ]")
        if accumulator is not None:
            accumulator.values = results


def counted_up(name: str, counter: str, step: int) -> list[str]:
    """Lines that name a loop's next counter.

    An empty piece of assembly hides from LLVM that it is a sum. Its strength reduction weighs all addresses of a loop
    against each other, which took more than half of the time to compile a kernel with many (a transposing copy 100 ms);
    here each loop level adds its own terms to an address, and machine code is as fast without it.
    """
    return [
        f"{name}.sum = add nsw i64 {counter}, {step}",
        f'{name} = call i64 asm "", "=r,0"(i64 {name}.sum) nounwind willreturn memory(none)',
    ]


def _plus(emitter: KernelEmitter, base: str, offset: int) -> str:
    if base.lstrip("-").isdigit():
        return str(int(base) + offset)
    return emitter.instruction(f"add nsw i64 {base}, {offset}") if offset else base


def holds_lanes(op: kernel.LoopOp) -> bool:
    """Whether a loop with lanes is in it: then it is an outer axis of a tile."""
    return any(isinstance(inner, kernel.LoopOp) and inner.lanes > 1 for inner in all_ops(op)[1:])


_SIMPLE = (
    elem.TableOp,
    elem.BitcastOp,
    elem.ConstantOp,
    elem.ConvertOp,
    elem.DotOp,
    elem.PhiloxOp,
    elem.SelectOp,
    kernel.BroadcastOp,
    kernel.ForOp,
    kernel.IndexOp,
    kernel.LoadOp,
    kernel.StoreOp,
    kernel.WithinOp,
)


def is_simple_tile(op: kernel.LoopOp) -> bool:
    """Whether the rows of an outer axis can stand side by side: it is the one next to the lanes, but for plain loops,
    and no op in it branches, or carries anything but one value for every row.
    """
    return all(
        (isinstance(inner, _SIMPLE) or _reduces_simply(inner))
        and not (isinstance(inner, kernel.LoopOp) and not _is_plain_loop(inner) and holds_lanes(inner))
        for inner in op.body.walk()
    )


def _is_plain_loop(op: kernel.LoopOp) -> bool:
    """Whether a loop carries nothing, and has no lanes itself."""
    return isinstance(op, kernel.ForOp) and op.lanes == 1


def _reduces_simply(op: Operation) -> bool:
    reduction = op.parent_op() if isinstance(op, kernel.YieldOp) else op
    return isinstance(reduction, kernel.ReduceOp) and reduction.kind in JOINS and reduction.kind not in EXTREMES


_LIGHT, _NESTED = 12, 100
"""Up to the first pressure on registers several vectors fit side by side; from the second on there is a loop inside."""


def _registers(op: Operation) -> int:
    """What an op adds to the pressure on registers, roughly: a polynomial wants most of them for itself."""
    if isinstance(op, kernel.WithinOp):
        return 0  # a checked kernel adds up in the same order
    if isinstance(op, kernel.LoopOp):
        return _NESTED
    if isinstance(op, elem.TableOp) and any(text.startswith("math:") for text in op.row.llvm.values()):
        return 6 if op.row.name == "exp" else 12
    return 1


def _reads_bytes(op: Operation) -> bool:
    """Whether an op loads elements of one byte, of which a line has more than two vectors of most machines."""
    return isinstance(op, kernel.LoadOp) and byte_width(scalar_of(op.result.type)) == 1 and bool(op.shape)


def _goes_by_halves(op: kernel.LoopOp, static: int | None) -> bool:
    """Whether what whole sets of rows or lanes of a tile leave over comes by halves: as in `cascade_of_widths`."""
    ops = [inner for inner in op.body.walk() if not isinstance(inner, kernel.ForOp)]
    return static is not None and (
        any(isinstance(inner, kernel.ReduceOp) for inner in ops) or sum(map(_registers, ops)) <= _LIGHT
    )


def cascade_of_widths(op: kernel.LoopOp, static: int | None, machine_lanes: int, unroll: int) -> list[int]:
    """The widths a lane loop is emitted for, each for what the wider ones before it left over.

    A light loop takes several vectors a step: as many independent accumulators in a reduction, fewer branches
    otherwise. Down to the machine's vectors the widths halve. Below, a heavy body goes on with single elements, to keep
    the code small; a light one, or one with loops in it (where every pass is dear), goes on halving.
    """
    pressure = sum(_registers(inner) for inner in op.body.ops)
    light, nested = pressure <= _LIGHT, pressure >= _NESTED
    side_by_side = 4 if isinstance(op, kernel.ReduceOp) else unroll
    width = op.lanes * side_by_side if light and side_by_side > 1 else op.lanes
    if static is None:
        return sorted({width, op.lanes, min(op.lanes, machine_lanes), 1}, reverse=True)
    while width > max(op.lanes, static):
        width //= 2
    widths = [width]
    while widths[-1] > 1:
        halve = widths[-1] > machine_lanes or light or nested
        widths.append(widths[-1] // 2 if halve else 1)
    return widths
