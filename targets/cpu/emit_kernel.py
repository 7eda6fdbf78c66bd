"""`kernel.func` → one LLVM function of LLVM IR text.

    define internal void @NAME(ptr %args, i64 %begin, i64 %end)

runs the programs [begin, end) of the flattened grid. `args` is an array of 8-byte slots: the pointers, then the symbols.

A lane loop is emitted for a cascade of widths (several vectors a step, one vector, one element), the last of which is the tail, so
nothing is masked that the text does not mask. Addresses are split by loop level: what an inner loop does not change is computed
before it. That is loop-invariant code motion by construction, and LLVM's pipeline stays short.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from cuesta.dialects import elem, kernel, sym
from cuesta.dialects.elem import kind_of, scalar_of
from cuesta.dialects.kernel.types import PointerType
from cuesta.dialects.sym.expr import Expr
from cuesta.dialects.sym.nodes import Dim, FloorDiv, Function, Max, Min, Mod, Symbol
from cuesta.targets.cpu.emit_reduce import Accumulator, accumulator_for
from cuesta.targets.cpu.emit_types import byte_width, constant, conversion, memory_text, splat_integer, suffix, type_text
from cuesta.targets.cpu.vector_math import MathFunction, math_function
from cuesta.targets.cpu.vector_text import vector_type

_PIECE = 128
"""How many steps of a long sum are added up before they join the rest."""


@dataclass(frozen=True, slots=True)
class BoundSite:
    """A `kernel.bound` that may fail: what the error message needs."""

    location: str


@dataclass
class EmittedKernel:
    """The text of one kernel and what the module has to provide for it."""

    text: str
    functions: dict[str, MathFunction]


@dataclass
class _Level:
    """The body of one loop under construction: its lines, and what has been computed in it."""

    lines: list[str] = field(default_factory=list[str])
    addresses: dict[tuple[object, ...], str] = field(default_factory=dict[tuple[object, ...], str])


@dataclass(frozen=True, slots=True)
class _Index:
    """An index value here: its name, the loop level that defines it, and whether it has lanes.

    `lane` means the points base, base + 1, …: the name is that of the base. Otherwise lanes are arbitrary (a gather).
    """

    name: str
    level: int
    lane: bool = False
    vector: bool = False


class KernelEmitter:
    """Emits one `kernel.func`. `sites` collects the bounds of the whole module; their positions + 1 are the error codes."""

    def __init__(self, func: kernel.FuncOp, sites: list[BoundSite]) -> None:
        self.func = func
        self.sites = sites
        self.functions: dict[str, MathFunction] = {}
        self.levels: list[_Level] = [_Level()]
        self.entry: list[str] = []
        self.names: dict[SSAValue, str] = {}
        self.indices: dict[SSAValue, _Index] = {}
        self.broadcast_levels: dict[SSAValue, int] = {}
        self.width = 1
        self._count = 0
        self._prefix = "%v"
        self._symbol_names: dict[str, str] = {}
        self._coordinates: list[str] = []

    @staticmethod
    def symbolic_value(e: sym.IndexExpr, symbols: Mapping[str, str], prefix: str, lines: list[str]) -> str:
        """Appends lines that compute an expression over symbols, outside of any kernel; names begin with `prefix`."""
        emitter = KernelEmitter.__new__(KernelEmitter)
        emitter.levels = [_Level(lines)]
        emitter.indices = {}
        emitter.width = 1
        emitter._count = 0
        emitter._prefix = prefix
        emitter._symbol_names = dict(symbols)
        return emitter.scalar(e, (), 0)

    # -- names and lines ----------------------------------------------------------------------------------------------

    def fresh(self) -> str:
        """A new name."""
        self._count += 1
        return f"{self._prefix}{self._count}"

    def label(self) -> str:
        """A new block label."""
        self._count += 1
        return f"b{self._count}"

    def line(self, text: str) -> None:
        """Appends to the body being emitted."""
        self.levels[-1].lines.append(text)

    def instruction(self, text: str, level: int | None = None) -> str:
        """Appends `%n = text` to a level's body."""
        name = self.fresh()
        self.levels[-1 if level is None else level].lines.append(f"{name} = {text}")
        return name

    def lanes_of(self, value_type: Attribute) -> int:
        """The lanes that a value of this type has at the present width."""
        return self.width if isinstance(value_type, VectorType) else 1

    def type_of(self, value_type: Attribute) -> str:
        """The LLVM type of a value at the present width."""
        return type_text(value_type, self.lanes_of(value_type))

    def name(self, value: SSAValue) -> str:
        """The operand text of a value that is no index: a name, or a constant."""
        owner = value.owner
        if isinstance(owner, elem.ConstantOp):
            return constant(owner.value, scalar_of(value.type), self.lanes_of(value.type))
        if isinstance(owner, kernel.BroadcastOp):
            return self._broadcast_value(value, owner)
        return self.names[value]

    def _broadcast_value(self, value: SSAValue, op: kernel.BroadcastOp) -> str:
        """A broadcast at the present width, made in the body where the op stands, which may be outside of the lane loop."""
        level = self.broadcast_levels[value]
        key = ("broadcast", value, self.width)
        known = self.levels[level].addresses
        if key not in known:
            source = op.operands[0]
            known[key] = self.broadcast(self.name(source), type_text(source.type, 1), level)
        return known[key]

    # -- the function -------------------------------------------------------------------------------------------------

    def emit(self) -> EmittedKernel:
        """The whole function."""
        func = self.func
        for position, argument in enumerate(func.body.args):
            self.names[argument] = self._argument(position, "ptr")
        for position, symbol in enumerate(func.symbols, len(func.body.args)):
            self._symbol_names[symbol] = self._argument(position, "i64")
        program = _Index("%program", 0)
        sizes = [self.scalar(size, (), 0) for size in func.schedule.grid]
        self.entry += self.levels[0].lines
        self.levels[0].lines.clear()
        self._coordinates = self._split(program.name, sizes)
        self.block(func.body)
        body = "\n  ".join(self.levels[0].lines)
        entry = "\n  ".join(self.entry)
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
  %next = add nsw i64 %program, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""
        return EmittedKernel(text, self.functions)

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

    def coordinate(self, axis: int) -> _Index:
        """The program's coordinate along an axis of the grid."""
        return _Index(self._coordinates[axis], 0)

    # -- index expressions --------------------------------------------------------------------------------------------

    def index(self, operand: SSAValue) -> _Index:
        """What an index operand is here."""
        return self.indices[operand]

    def scalar(self, e: sym.IndexExpr, operands: Sequence[SSAValue], level: int) -> str:
        """The value of an expression over scalar indices and lane bases, computed in the body of `level`."""
        if isinstance(e, int):
            return str(e)
        key = ("scalar", e, tuple(operands))
        known = self.levels[level].addresses
        if key not in known:
            known[key] = self._scalar(e, operands, level)
        return known[key]

    def _scalar(self, e: Expr, operands: Sequence[SSAValue], level: int) -> str:
        def atom_value(atom: object) -> str:
            if isinstance(atom, Dim):
                return self.index(operands[atom.index]).name
            if isinstance(atom, Symbol):
                return self._symbol_names[atom.name]
            assert isinstance(atom, Function)
            left, right = self.scalar(atom.left, operands, level), self.scalar(atom.right, operands, level)
            return self._function(atom, left, right, 1, level)

        return self._sum(e, atom_value, 1, level)

    def _sum(self, e: Expr, atom_value: Callable[[object], str], lanes: int, level: int) -> str:
        kind = vector_type("i64", lanes)
        total: str | None = str(e.constant) if e.constant and lanes == 1 else None
        if e.constant and lanes > 1:
            total = splat_integer(e.constant, lanes)
        for monomial, factor in e.terms:
            product: str | None = None
            for atom in monomial.atoms:
                value = atom_value(atom)
                product = value if product is None else self.instruction(f"mul nsw {kind} {product}, {value}", level)
            assert product is not None
            if factor != 1:
                product = self.instruction(f"mul nsw {kind} {product}, {splat_integer(factor, lanes)}", level)
            total = product if total is None else self.instruction(f"add nsw {kind} {total}, {product}", level)
        assert total is not None
        return total

    def _function(self, atom: Function, left: str, right: str, lanes: int, level: int) -> str:
        kind = vector_type("i64", lanes)
        if isinstance(atom, Min | Max):
            name = "smin" if isinstance(atom, Min) else "smax"
            return self.instruction(f"call {kind} @llvm.{name}.{suffix_i64(lanes)}({kind} {left}, {kind} {right})", level)
        if isinstance(atom.right, int) and atom.right & (atom.right - 1) == 0 and atom.right > 0:
            # Right for negative numbers as well: the shift and the mask round towards −∞, as Python does.
            bits = atom.right.bit_length() - 1
            if isinstance(atom, FloorDiv):
                return self.instruction(f"ashr {kind} {left}, {splat_integer(bits, lanes)}", level)
            return self.instruction(f"and {kind} {left}, {splat_integer(atom.right - 1, lanes)}", level)
        # Floor division of numbers of any sign by a positive divisor.
        remainder = self.instruction(f"srem {kind} {left}, {right}", level)
        zero = splat_integer(0, lanes)
        negative = self.instruction(f"icmp slt {kind} {remainder}, {zero}", level)
        boolean = vector_type("i1", lanes)
        if isinstance(atom, Mod):
            lifted = self.instruction(f"add {kind} {remainder}, {right}", level)
            return self.instruction(f"select {boolean} {negative}, {kind} {lifted}, {kind} {remainder}", level)
        quotient = self.instruction(f"sdiv {kind} {left}, {right}", level)
        correction = self.instruction(f"sext {boolean} {negative} to {kind}", level)
        return self.instruction(f"add {kind} {quotient}, {correction}", level)

    def lanewise(self, e: sym.IndexExpr, operands: Sequence[SSAValue]) -> str:
        """The value of an expression in every lane, as a vector of i64."""
        lanes = self.width
        if lanes == 1:
            return self.scalar(e, operands, len(self.levels) - 1)
        if isinstance(e, int):
            return splat_integer(e, lanes)
        level = len(self.levels) - 1
        if not any(self.index(operands[k]).lane or self.index(operands[k]).vector for k in e.dims):
            return self.broadcast(self.scalar(e, operands, level), "i64")

        def atom_value(atom: object) -> str:
            if isinstance(atom, Dim):
                index = self.index(operands[atom.index])
                if index.vector:
                    return index.name
                base = self.broadcast(index.name, "i64")
                if not index.lane:
                    return base
                steps = ", ".join(f"i64 {lane}" for lane in range(lanes))
                return self.instruction(f"add nsw <{lanes} x i64> {base}, <{steps}>")
            if isinstance(atom, Symbol):
                return self.broadcast(self._symbol_names[atom.name], "i64")
            assert isinstance(atom, Function)
            left, right = self.lanewise(atom.left, operands), self.lanewise(atom.right, operands)
            return self._function(atom, left, right, lanes, level)

        return self._sum(e, atom_value, lanes, level)

    def broadcast(self, value: str, element: str, level: int | None = None) -> str:
        """A scalar in every lane of the present width."""
        if self.width == 1:
            return value
        kind = f"<{self.width} x {element}>"
        one = self.instruction(f"insertelement {kind} poison, {element} {value}, i64 0", level)
        zeros = f"<{self.width} x i32> zeroinitializer"
        return self.instruction(f"shufflevector {kind} {one}, {kind} poison, {zeros}", level)

    def address(self, pointer: SSAValue, e: sym.IndexExpr, operands: Sequence[SSAValue]) -> str:
        """The address of an element, for an expression over scalars and lane bases.

        Each loop level adds its own terms, in its own body.
        """
        name = self.names[pointer]
        element = scalar_of(_pointee(pointer))
        if isinstance(e, int):
            parts: dict[int, sym.IndexExpr] = {0: e}
        else:
            parts = self._by_level(e, operands)
        for level in sorted(parts):
            part = parts[level]
            if part == 0:
                continue
            key = ("address", name, part, tuple(operands))
            known = self.levels[level].addresses
            if key not in known:
                offset = self.scalar(part, operands, level)
                known[key] = self.instruction(f"getelementptr inbounds {memory_text(element)}, ptr {name}, i64 {offset}", level)
            name = known[key]
        return name

    def _by_level(self, e: Expr, operands: Sequence[SSAValue]) -> dict[int, sym.IndexExpr]:
        parts: dict[int, sym.IndexExpr] = {0: e.constant}
        for monomial, factor in e.terms:
            level = max((self.index(operands[k]).level for k in monomial.dims), default=0)
            term = sym.product_of([_atom_expr(atom) for atom in monomial.atoms]) * factor
            parts[level] = parts.get(level, 0) + term
        return parts

    # -- blocks and loops ---------------------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        """Emits the ops of a block into the present body."""
        for op in block.ops:
            self.op(op)

    def op(self, op: Operation) -> None:
        """Emits one op."""
        if isinstance(op, elem.ConstantOp | kernel.YieldOp):
            return
        _EMIT[type(op)](self, op) if type(op) in _EMIT else _emit_elementwise(self, op)

    def loop(self, op: kernel.LoopOp, accumulator: Accumulator | None) -> None:
        """Emits the loops of a `kernel.for` or `kernel.reduce`: the outer axes one by one, the last as a cascade of widths."""
        self._axis(op, 0, accumulator)

    def _axis(self, op: kernel.LoopOp, axis: int, accumulator: Accumulator | None) -> None:
        lower, upper = op.lowers.results[axis], op.uppers.results[axis]
        level = len(self.levels) - 1
        low = self.scalar(lower, op.operands, level)
        high = self.scalar(upper, op.operands, level)
        trip = upper - lower
        static = trip if isinstance(trip, int) else None
        variable = op.induction_variables[axis]
        if axis + 1 < len(op.induction_variables):
            self._long_strip(
                variable, low, high, 1, static, lambda: self._axis(op, axis + 1, accumulator), accumulator, False
            )
            return
        if op.lanes == 1:
            self._long_strip(variable, low, high, 1, static, lambda: self._body(op, accumulator), accumulator, False)
            return
        self._cascade(op, variable, low, high, static, accumulator)

    def _body(self, op: kernel.LoopOp, accumulator: Accumulator | None) -> None:
        for inner in op.body.ops:
            self.op(inner)
        if accumulator is not None:
            assert isinstance(op, kernel.ReduceOp)
            accumulator.update(self, op)

    def _cascade(
        self,
        op: kernel.LoopOp,
        variable: SSAValue,
        low: str,
        high: str,
        static: int | None,
        accumulator: Accumulator | None,
    ) -> None:
        widths = cascade_of_widths(op, static)
        if accumulator is not None and accumulator.scalar_only:
            widths = [1]
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
            self._at_width(
                width,
                lambda s=start, e=stop, w=width, t=trip: self._long_strip(
                    variable, s, e, w, t, lambda: self._body(op, accumulator), accumulator, True
                ),
                accumulator,
            )

    def _at_width(self, width: int, emit: Callable[[], None], accumulator: Accumulator | None) -> None:
        before = self.width
        self.width = width
        if accumulator is not None:
            accumulator.widen(self, width)
        emit()
        if accumulator is not None:
            accumulator.narrow(self, width)
        self.width = before

    def _long_strip(
        self,
        variable: SSAValue,
        start: str,
        stop: str,
        step: int,
        trip: int | None,
        body: Callable[[], None],
        accumulator: Accumulator | None,
        lane: bool,
    ) -> None:
        """A strip; a long sum in pieces, each added up by itself, so that the error grows with the root of the length."""
        piece = _PIECE * step
        if accumulator is None or not accumulator.adds_up or (trip is not None and trip <= 2 * piece):
            self._strip(variable, start, stop, step, trip, body, accumulator, lane)
            return
        begin = BlockArgument(variable.type, variable.owner, -1)  # type: ignore[arg-type]

        def one_piece() -> None:
            low = self.indices[begin].name
            end = self.instruction(f"add nsw i64 {low}, {piece}")
            high = self.instruction(f"call i64 @llvm.smin.i64(i64 {end}, i64 {stop})")
            before, accumulator.values = accumulator.values, accumulator.identity(accumulator.lanes)
            self._strip(variable, low, high, step, None, body, accumulator, lane)
            accumulator.values = accumulator.merge(self, before)

        self._strip(begin, start, stop, piece, trip, one_piece, accumulator, False)

    def _strip(
        self,
        variable: SSAValue,
        start: str,
        stop: str,
        step: int,
        trip: int | None,
        body: Callable[[], None],
        accumulator: Accumulator | None,
        lane: bool,
    ) -> None:
        """for (variable = start; variable < stop; variable += step) body, with the accumulators carried around."""
        if trip == 0:
            return
        outer = self.levels[-1]
        if trip == step:
            # One round needs no loop, but a level of its own: what is cached there holds for this start only.
            self.levels.append(_Level())
            self.indices[variable] = _Index(start, len(self.levels) - 1, lane and step > 1)
            body()
            outer.lines += self.levels.pop().lines
            return
        head, latch, exit_label, before = self.label(), self.label(), self.label(), self.label()
        counter = self.fresh()
        level = _Level()
        self.levels.append(level)
        self.indices[variable] = _Index(counter, len(self.levels) - 1, lane and step > 1)
        carried = accumulator.enter(self) if accumulator is not None else []
        body()
        updated = accumulator.values if accumulator is not None else []
        self.levels.pop()
        results = [self.fresh() for _ in carried]
        outer.lines.append(f"br label %{before}")
        outer.lines.append(f"{before}:")
        guarded = trip is None
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
        outer.lines.append(f"{counter}.next = add nsw i64 {counter}, {step}")
        outer.lines.append(f"{counter}.more = icmp slt i64 {counter}.next, {stop}")
        outer.lines.append(f"br i1 {counter}.more, label %{head}, label %{exit_label}")
        outer.lines.append(f"{exit_label}:")
        for result, (_, kind, initial), new in zip(results, carried, updated, strict=True):
            skipped = f"[ {initial}, %{before} ], " if guarded else ""
            outer.lines.append(f"{result} = phi {kind} {skipped}[ {new}, %{latch} ]")
        if accumulator is not None:
            accumulator.values = results


def _plus(emitter: KernelEmitter, base: str, offset: int) -> str:
    if base.lstrip("-").isdigit():
        return str(int(base) + offset)
    return emitter.instruction(f"add nsw i64 {base}, {offset}") if offset else base


def suffix_i64(lanes: int) -> str:
    """The suffix of intrinsics on i64."""
    return "i64" if lanes == 1 else f"v{lanes}i64"


def cascade_of_widths(op: kernel.LoopOp, static: int | None) -> list[int]:
    """The widths a lane loop is emitted for. A light reduction takes four vectors a step: as many independent accumulators."""
    lanes = op.lanes
    if isinstance(op, kernel.ReduceOp) and (static is None or static >= 4 * lanes):
        light = sum(1 for _ in op.body.ops) <= 12 and not any(isinstance(inner, kernel.LoopOp) for inner in op.body.ops)
        if light:
            return [4 * lanes, lanes, 1]
    return [lanes, 1]


def _pointee(pointer: SSAValue) -> Attribute:
    pointer_type = pointer.type
    assert isinstance(pointer_type, PointerType)
    return pointer_type.element_type


def _atom_expr(atom: object) -> sym.IndexExpr:
    if isinstance(atom, Dim):
        return sym.dim(atom.index)
    if isinstance(atom, Symbol):
        return sym.symbol(atom.name)
    assert isinstance(atom, Function)
    from cuesta.dialects.sym.expr import apply_function

    return apply_function(atom, atom.left, atom.right)


# -- ops ----------------------------------------------------------------------------------------------------------------


def _emit_elementwise(emitter: KernelEmitter, op: Operation) -> None:
    assert isinstance(op, elem.TableOp), op.name
    operand_type = op.operands[0].type
    lanes = emitter.lanes_of(operand_type)
    scalar = scalar_of(operand_type)
    result = emitter.fresh()
    emitter.names[op.results[0]] = result
    arguments = [emitter.name(operand) for operand in op.operands]
    template = op.row.llvm[kind_of(operand_type)]
    kind = type_text(operand_type, lanes)
    if template.startswith("math:"):
        function = math_function(template[5:], suffix(scalar, 1), lanes)
        emitter.functions[function.symbol] = function
        emitter.line(f"{result} = call {kind} {function.symbol}({', '.join(f'{kind} {a}' for a in arguments)})")
        return
    text = template.format(
        r=result,
        a=arguments[0],
        b=arguments[1] if len(arguments) > 1 else "",
        t=kind,
        m=vector_type("i1", lanes),
        s=suffix(scalar, lanes),
        zero=constant(0, scalar, lanes),
        one=constant(1, scalar, lanes),
        ones=constant(1 if kind_of(scalar) == "b" else -1, scalar, lanes),
    )
    for line in text.split("\n"):
        emitter.line(line)


def _emit_convert(emitter: KernelEmitter, op: Operation) -> None:
    source, target = op.operands[0].type, op.results[0].type
    result = emitter.fresh()
    emitter.names[op.results[0]] = result
    for line in conversion(source, target, emitter.lanes_of(source), result, emitter.name(op.operands[0])):
        emitter.line(line)


def _emit_select(emitter: KernelEmitter, op: Operation) -> None:
    condition, on_true, on_false = op.operands
    kind = emitter.type_of(on_true.type)
    emitter.names[op.results[0]] = emitter.instruction(
        f"select {emitter.type_of(condition.type)} {emitter.name(condition)}, "
        f"{kind} {emitter.name(on_true)}, {kind} {emitter.name(on_false)}"
    )


def _emit_broadcast(emitter: KernelEmitter, op: Operation) -> None:
    source = op.operands[0]
    if kind_of(source.type) == "x":
        index = emitter.index(source)
        emitter.indices[op.results[0]] = index
        return
    emitter.broadcast_levels[op.results[0]] = len(emitter.levels) - 1


def _emit_program_id(emitter: KernelEmitter, op: Operation) -> None:
    assert isinstance(op, kernel.ProgramIdOp)
    emitter.indices[op.result] = emitter.coordinate(op.axis)


def _emit_for(emitter: KernelEmitter, op: Operation) -> None:
    assert isinstance(op, kernel.ForOp)
    emitter.loop(op, None)


def _emit_reduce(emitter: KernelEmitter, op: Operation) -> None:
    assert isinstance(op, kernel.ReduceOp)
    accumulator = accumulator_for(emitter, op)
    emitter.loop(op, accumulator)
    for result, name in zip(op.results, accumulator.finish(emitter), strict=True):
        emitter.names[result] = name


def _emit_index(emitter: KernelEmitter, op: Operation) -> None:
    assert isinstance(op, kernel.IndexOp)
    lanes = emitter.lanes_of(op.result.type)
    level = len(emitter.levels) - 1
    value = emitter.lanewise(op.offset, op.indices) if lanes > 1 else emitter.scalar(op.offset, op.indices, level)
    kind, wide = type_text(op.result.type, lanes), vector_type("i64", lanes)
    if kind == wide:
        emitter.names[op.result] = emitter.instruction(f"add {wide} {value}, {splat_integer(0, lanes)}")
    else:
        emitter.names[op.result] = emitter.instruction(f"trunc {wide} {value} to {kind}")


def _emit_bound(emitter: KernelEmitter, op: Operation) -> None:
    """Compares, and takes a cold path that records the first failure; a failing lane goes on with index 0."""
    assert isinstance(op, kernel.BoundOp)
    source = op.operands[0]
    lanes = emitter.lanes_of(source.type)
    wide, boolean = vector_type("i64", lanes), vector_type("i1", lanes)
    value = emitter.name(source)
    kind = type_text(source.type, lanes)
    if kind != wide:
        extension = "sext" if kind_of(source.type) == "i" else "zext"
        value = emitter.instruction(f"{extension} {kind} {value} to {wide}")
    size_name = emitter.scalar(op.size, (), 0)
    size = emitter.broadcast(size_name, "i64") if lanes > 1 else size_name
    position = value
    if op.wrap:
        negative = emitter.instruction(f"icmp slt {wide} {value}, {splat_integer(0, lanes)}")
        lifted = emitter.instruction(f"add {wide} {value}, {size}")
        position = emitter.instruction(f"select {boolean} {negative}, {wide} {lifted}, {wide} {value}")
    good = emitter.instruction(f"icmp ult {wide} {position}, {size}")
    every = good
    if lanes > 1:
        every = emitter.instruction(f"call i1 @llvm.vector.reduce.and.v{lanes}i1({boolean} {good})")
    bad_label, join = emitter.label(), emitter.label()
    emitter.line(f"br i1 {every}, label %{join}, label %{bad_label}")
    emitter.line(f"{bad_label}:")
    emitter.sites.append(BoundSite(str(op.location)))
    first = value
    if lanes > 1:
        bad = emitter.instruction(f"xor {boolean} {good}, splat (i1 true)")
        bits = emitter.instruction(f"bitcast {boolean} {bad} to i{lanes}")
        lane = emitter.instruction(f"call i{lanes} @llvm.cttz.i{lanes}(i{lanes} {bits}, i1 false)")
        first = emitter.instruction(f"extractelement {wide} {value}, i{lanes} {lane}")
    emitter.line(f"call void @cuesta.report(i64 {len(emitter.sites)}, i64 {first}, i64 {size_name})")
    emitter.line(f"br label %{join}")
    emitter.line(f"{join}:")
    safe = emitter.instruction(f"select {boolean} {good}, {wide} {position}, {wide} {splat_integer(0, lanes)}")
    emitter.indices[op.result] = _Index(safe, len(emitter.levels) - 1, vector=lanes > 1)


def _emit_local(emitter: KernelEmitter, op: Operation) -> None:
    assert isinstance(op, kernel.LocalOp)
    name = emitter.fresh()
    emitter.names[op.result] = name
    emitter.entry.append(f"{name} = alloca [{op.size} x {memory_text(_pointee(op.result))}], align 64")


def _lane_stride(emitter: KernelEmitter, op: kernel.LoadOp | kernel.StoreOp) -> int | None:
    """By how many elements the address moves from lane to lane; None when that is not one number."""
    total = 0
    for k, operand in enumerate(op.indices):
        index = emitter.index(operand)
        if index.vector:
            return None
        if index.lane:
            stride = sym.coefficient(op.offset, k)
            if not isinstance(stride, int):
                return None
            total += stride
    return total


def _emit_load(emitter: KernelEmitter, op: Operation) -> None:
    from cuesta.targets.cpu.emit_memory import load

    assert isinstance(op, kernel.LoadOp)
    emitter.names[op.result] = load(emitter, op, _lane_stride(emitter, op))


def _emit_store(emitter: KernelEmitter, op: Operation) -> None:
    from cuesta.targets.cpu.emit_memory import store

    assert isinstance(op, kernel.StoreOp)
    store(emitter, op, _lane_stride(emitter, op))


_EMIT: dict[type[Operation], Callable[[KernelEmitter, Operation], None]] = {
    elem.ConvertOp: _emit_convert,
    elem.SelectOp: _emit_select,
    kernel.BoundOp: _emit_bound,
    kernel.BroadcastOp: _emit_broadcast,
    kernel.ForOp: _emit_for,
    kernel.IndexOp: _emit_index,
    kernel.LoadOp: _emit_load,
    kernel.LocalOp: _emit_local,
    kernel.ProgramIdOp: _emit_program_id,
    kernel.ReduceOp: _emit_reduce,
    kernel.StoreOp: _emit_store,
}

__all__ = ["BoundSite", "EmittedKernel", "KernelEmitter", "byte_width"]
