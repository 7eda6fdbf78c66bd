"""Writing the `kernel.func` of a nest under a schedule. No decisions are made here, and no target is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, cast

from xdsl.dialects.builtin import StringAttr, TensorType, i1
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from cuesta.dialects import elem, kernel, loops, sym
from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic, fail
from cuesta.dialects.core.locations import stamp_location
from cuesta.dialects.core.operation import PlainBlock
from cuesta.dialects.core.typed import integer_attribute
from cuesta.dialects.kernel.shapes import Shape, join, joint_shape, shape_of, shaped
from cuesta.dialects.loops.analysis import NestAnalysis
from cuesta.dialects.sym.syntax import canonical_operands
from cuesta.lowering.schedule.schedule import Contraction, ParallelAxis, Schedule


@lru_cache(maxsize=4096)
def pointer_to(tensor_type: Attribute) -> kernel.PointerType:
    """The pointer type of a tensor type."""
    assert isinstance(tensor_type, TensorType)
    return kernel.PointerType(cast("TensorType[Attribute]", tensor_type).element_type)


class _Scope:
    """A block being written. Its ops are kept in a list, so that what inner blocks ask for can still be added."""

    __slots__ = ("contracts", "dim", "lane", "never_empty", "ops")

    def __init__(self, never_empty: bool, dim: int = 0) -> None:
        self.ops: list[Operation] = []
        self.never_empty = never_empty
        self.dim = dim
        """How many loops with lanes there are around."""
        self.lane: SSAValue | None = None
        """The points of the lanes, when the loop has some."""
        self.contracts = False
        """Whether it is the body of a contraction: what varies along its lanes belongs to one of its factors."""


class KernelBuilder:
    """Translates ops in order. A value is a vector when an operand is one: lanes spread by themselves.

    An op is placed in the outermost block where its operands exist, so what does not change in a loop is computed
    before it. A load moves out of a loop only when the loop is known to run.
    """

    def __init__(self, analysis: NestAnalysis, schedule: Schedule) -> None:
        self.analysis = analysis
        self.schedule = schedule
        self.scopes: list[_Scope] = [_Scope(True)]
        self.depth: dict[SSAValue, int] = {}
        self.values: dict[SSAValue, SSAValue] = {}
        self.index_values: list[SSAValue | None] = [None] * len(analysis.sizes)
        self.constants: dict[tuple[int, Attribute, Shape], SSAValue] = {}
        self.constant_ops: dict[SSAValue, elem.ConstantOp] = {}
        self.vectors: dict[tuple[SSAValue, Shape], SSAValue] = {}
        self.written: set[SSAValue] = set(analysis.nest.handles)
        self.symbols: set[str] = set()
        self.rows: tuple[SSAValue, sym.IndexExpr] | None = None
        """Of a tile with lanes along rows, the program and, over it, the first row."""
        self.hints = {axis: value.name_hint for value, axis in analysis.number.items()}

    def build(self, name: str) -> kernel.FuncOp:
        analysis, schedule = self.analysis, self.schedule
        nest = analysis.nest
        outs = [handle for handle in nest.handles if handle not in schedule.locals]
        pointers = [*analysis.inputs, *outs]
        block = PlainBlock(arg_types=[pointer_to(tensor.type) for tensor in pointers])
        for tensor, argument in zip(pointers, block.args, strict=True):
            self.define(tensor, argument, 0)
            if tensor.name_hint:
                argument.name_hint = tensor.name_hint
        for handle, size in schedule.locals.items():
            local = self.emit(kernel.LocalOp.build(size, pointer_to(handle.type).element_type), 0)
            self.values[handle] = local.results[0]
        grid = self.programs()
        for size in grid:
            self.symbols |= sym.symbols_of(size)
        block.add_ops(self.scopes[0].ops)
        func = kernel.FuncOp.create(
            properties=kernel.FuncOp.properties_of(
                name, len(outs), sorted(self.symbols), kernel.ScheduleAttr.of(tuple(grid), **schedule.choices)
            ),
            regions=[Region(block)],
        )
        stamp_location(func, nest.location)
        if nest.operands:
            func.properties["updates"] = integer_attribute(len(nest.operands))
        return func

    # The parallel domain

    def programs(self) -> list[sym.IndexExpr]:
        """Emits the program ids, the loops of a program and the body; gives the grid."""
        sizes, schedule = self.analysis.sizes, self.schedule
        grid: list[sym.IndexExpr] = []
        bounds: dict[int, tuple[sym.IndexExpr, sym.IndexExpr]] = {}
        operands: list[SSAValue] = []
        for parallel in schedule.parallel:
            size = sizes[parallel.axis]
            if parallel.loop and parallel.tile is None:
                bounds[parallel.axis] = (0, size)
                continue
            if not parallel.loop and parallel.tile == size:
                continue  # every program has all of it
            program = self.emit(kernel.ProgramIdOp.build(len(grid)), 0).results[0]
            program.name_hint = "p"
            if not parallel.loop:
                grid.append(size if parallel.tile is None else sym.ceildiv(size, parallel.tile))
                self.index_values[parallel.axis] = program
                continue
            grid.append(self.tile_bounds(parallel, bounds, len(operands)))
            operands.append(program)
            if self.schedule.around and parallel.axis == self.schedule.around[0][0] and parallel.tile is not None:
                self.rows = program, sym.dim(0) * parallel.tile
        around = [([axis], lanes) for axis, lanes in schedule.around]
        self.parallel_loops([*around, (schedule.order, schedule.lanes)], bounds, operands)
        return grid

    def parallel_loops(
        self,
        wanted: Sequence[tuple[Sequence[int], int]],
        bounds: dict[int, tuple[sym.IndexExpr, sym.IndexExpr]],
        operands: Sequence[SSAValue],
    ) -> None:
        """Emits the loops over parallel axes (axes and lanes of each, outermost first), and the body in them."""
        if not wanted:
            self.points()
            return
        (axes, lanes), *inner = wanted
        if not axes:
            self.parallel_loops(inner, bounds, operands)
            return
        runs = all(self.is_tiled(axis) or self.is_positive(self.analysis.sizes[axis]) for axis in axes)
        block = self.enter(axes, runs, lanes)
        self.parallel_loops(inner, bounds, operands)
        self.leave(block)
        lowers, uppers = [bounds[axis][0] for axis in axes], [bounds[axis][1] for axis in axes]
        used, properties = self.loop_properties(lowers, uppers, operands, lanes)
        loop = kernel.ForOp.create(operands=used, properties=properties, regions=[Region(block)])
        self.emit(loop, len(self.scopes) - 1)

    def points(self) -> None:
        """Emits the body, inside of all the loops."""
        self.body(self.analysis.nest.body)

    def tile_bounds(
        self, parallel: ParallelAxis, bounds: dict[int, tuple[sym.IndexExpr, sym.IndexExpr]], operand: int
    ) -> sym.IndexExpr:
        """The number of tiles of an axis; sets the bounds of one tile, over the program id, which is dim `operand`."""
        tile, size = parallel.tile, self.analysis.sizes[parallel.axis]
        assert tile is not None
        low = sym.dim(operand) * tile
        whole = isinstance(size, int) and size % tile == 0
        bounds[parallel.axis] = (low, low + tile if whole else sym.minimum(low + tile, size))
        return sym.ceildiv(size, tile)

    def is_tiled(self, axis: int) -> bool:
        return any(parallel.axis == axis and parallel.tile is not None for parallel in self.schedule.parallel)

    def is_positive(self, size: sym.IndexExpr) -> bool:
        low, _ = sym.bounds(size, (), self.analysis.symbol_ranges)
        return low is not None and low > 0

    def enter(self, axes: Sequence[int], never_empty: bool, lanes: int) -> Block:
        """Opens the block of a loop over `axes`."""
        dim = self.scopes[-1].dim
        block = PlainBlock(arg_types=kernel.LoopOp.variable_types(len(axes), lanes, dim))
        self.scopes.append(_Scope(never_empty, dim + (lanes > 1)))
        if lanes > 1:
            self.scopes[-1].lane = block.args[-1]
        depth = len(self.scopes) - 1
        for axis, variable in zip(axes, block.args, strict=True):
            variable.name_hint = self.hints.get(axis)
            self.index_values[axis] = variable
            self.depth[variable] = depth
        return block

    def leave(self, block: Block) -> None:
        block.add_ops(self.scopes.pop().ops)

    # Ops

    def emit(self, op: Operation, depth: int) -> Operation:
        self.scopes[depth].ops.append(op)
        for result in op.results:
            self.depth[result] = depth
        return op

    def define(self, old: SSAValue, new: SSAValue, depth: int) -> None:
        self.values[old] = new
        self.depth[new] = depth

    def body(self, block: Block, left_out: frozenset[Operation] = frozenset()) -> None:
        translate = _TRANSLATE
        for op in block.ops:
            if op not in left_out:
                translate.get(type(op), _elementwise)(self, op)

    def remember(self, op: elem.ConstantOp) -> None:
        self.constant_ops[op.results[0]] = op

    def finished(self, op: loops.YieldOp | loops.CarryOp) -> None:
        """What is yielded, or carried on, is asked for when the loop is done."""

    def finish(self, old: Operation, new: Operation, depth: int) -> None:
        """Places the translation of an op."""
        new.location = old.location
        self.emit(new, depth)
        for old_result, new_result in zip(old.results, new.results, strict=True):
            self.values[old_result] = new_result
            new_result._name = old_result._name  # pyright: ignore[reportPrivateUsage] # a valid name: no need to check it again

    def shape(self, values: Sequence[SSAValue]) -> Shape:
        """The lane axes that old values vary along; constants go with any."""
        return joint_shape([self.values[value] for value in values if value not in self.constant_ops])

    def value(self, old: SSAValue, shape: Shape) -> SSAValue:
        """The translation of a value, spread over `shape`."""
        constant = self.constant_ops.get(old)
        if constant is not None:
            return self.constant(constant, shape)
        value = self.values[old]
        return value if not shape or shape_of(value) == shape else self.broadcast(value, shape)

    def constant(self, op: elem.ConstantOp, shape: Shape) -> SSAValue:
        # Constant attributes are interned by their text, so identity tells 0.0 from -0.0; but true and 1 share one.
        key = id(op.properties["value"]), op.results[0].type, shape
        found = self.constants.get(key)
        if found is None:
            new = elem.ConstantOp.create(
                result_types=(shaped(op.results[0].type, shape),), properties=op.properties, location=op.location
            )
            found = self.constants[key] = self.emit(new, 0).results[0]
        return found

    def broadcast(self, value: SSAValue, shape: Shape) -> SSAValue:
        """The value repeated to fill `shape`, made once, in the block of the value; along the lanes of a contraction in
        its body.
        """
        for depth in range(len(self.scopes) - 1, self.depth[value], -1):
            scope = self.scopes[depth]
            if scope.contracts and len(shape) >= scope.dim:
                op = kernel.BroadcastOp.create(
                    operands=(value,), result_types=(shaped(elem.scalar_of(value.type), shape),)
                )
                return self.emit(op, depth).results[0]
        found = self.vectors.get((value, shape))
        if found is None:
            op = kernel.BroadcastOp.create(operands=(value,), result_types=(shaped(elem.scalar_of(value.type), shape),))
            found = self.vectors[(value, shape)] = self.emit(op, self.depth[value]).results[0]
        return found

    def placement(self, operands: Sequence[SSAValue]) -> int:
        """The outermost block in which all operands exist."""
        depth = 0
        for operand in operands:
            depth = max(depth, self.depth[operand])
        return depth

    def careful_placement(self, operands: Sequence[SSAValue]) -> int:
        """The same, but not out of a loop that may not run at all."""
        wanted, depth = self.placement(operands), len(self.scopes) - 1
        while depth > wanted and self.scopes[depth].never_empty:
            depth -= 1
        return depth

    def elementwise(self, op: elem.ElementwiseOp) -> None:
        shape = self.shape(op.operands)
        operands = [self.value(operand, shape) for operand in op.operands]
        new = type(op).create(
            operands=operands, result_types=(shaped(op.results[0].type, shape),), properties=op.properties
        )
        self.finish(op, new, self.placement(operands))

    def expression(self, e: sym.IndexExpr) -> tuple[Sequence[SSAValue], sym.IndexExpr]:
        """An expression over axes as index values and an expression over those."""
        if isinstance(e, int):
            return (), e
        self.symbols |= e.symbols
        operands: list[SSAValue] = []
        images: list[sym.IndexExpr] = []
        for axis in sorted(e.dims):
            images.extend([0] * (axis - len(images)))
            images.append(self.image(axis, operands))
        used, (canonical,) = canonical_operands(operands, (sym.substitute(e, images),))
        return used, canonical

    def image(self, axis: int, operands: list[SSAValue]) -> sym.IndexExpr:
        """What stands for an axis: an expression over `operands`, to which it appends what it needs."""
        value = self.index_values[axis]
        assert value is not None
        operands.append(value)
        return sym.dim(len(operands) - 1)

    def address(
        self, op: loops.LoadOp | loops.TensorWriteOp, tensor: SSAValue
    ) -> tuple[Sequence[SSAValue], sym.MapAttr]:
        access = self.analysis.accesses[op]
        address = access.local if tensor in self.schedule.locals else access.address
        assert address is not None
        used, expression = self.expression(address)
        return used, sym.MapAttr.get(len(used), (expression,))

    def load(self, op: loops.LoadOp) -> None:
        used, address = self.address(op, op.source)
        mask, other = (op.mask, op.other) if self.is_masked(op) else (None, None)
        shape = joint_shape(used)
        masked: list[SSAValue] = []
        if mask is not None and other is not None:
            shape = join(shape, self.shape((mask, other)))
            masked = [self.value(mask, shape), self.value(other, shape)]
        pointer = self.values[op.source]
        new = kernel.LoadOp.create(
            operands=(pointer, *used, *masked),
            result_types=(shaped(op.results[0].type, shape),),
            properties={"map": address},
        )
        # What the kernel itself writes is read where the program says so.
        here = len(self.scopes) - 1
        self.finish(op, new, here if op.source in self.written else self.careful_placement([*used, *masked]))

    def is_masked(self, op: loops.LoadOp) -> bool:
        """Whether the mask of a load, if it has one, may be false."""
        return True

    def store(self, op: loops.StoreOp) -> None:
        used, address = self.address(op, op.target)
        shape = joint_shape(used)
        once = self.is_once(op, shape)
        mask = None if once else op.mask
        if join(shape, self.shape([op.value, *(() if mask is None else (mask,))])) != shape:
            raise CuestaError(
                Diagnostic.on(op, "every lane would write to one address; the schedule must not have lanes here")
            )
        masked = () if once else self.store_conditions(op, shape)
        new = kernel.StoreOp.create(
            operands=(self.value(op.value, shape), self.values[op.target], *used, *masked), properties={"map": address}
        )
        self.finish(op, new, len(self.scopes) - 1)

    def is_once(self, op: loops.StoreOp, shape: Shape) -> bool:
        """Whether a store is by the first point along an axis alone, `%d == 0`, where neither what is stored nor its
        place varies along the lanes of that axis: whoever has the lanes stores it, once.
        """
        if op.mask is None or not isinstance(compared := op.mask.owner, elem.TableOp) or compared.row.name != "eq":
            return False
        number, zero = (operand.owner for operand in compared.operands)
        if not isinstance(number, loops.IndexOp) or not isinstance(zero, elem.ConstantOp) or zero.value != 0:
            return False
        if number.map.results != (sym.dim(0),) or join(shape, self.shape([op.value])) != shape:
            return False
        return join(shape, self.shape([op.mask])) != shape

    def store_conditions(self, op: loops.StoreOp, shape: Shape) -> Sequence[SSAValue]:
        """The mask of a store, if it has one."""
        return () if op.mask is None else (self.value(op.mask, shape),)

    def combine(self, op: loops.CombineOp) -> None:
        used, address = self.address(op, op.target)
        mask = op.mask
        shape = joint_shape(used)
        if join(shape, self.shape([op.value, *(() if mask is None else (mask,))])) != shape:
            raise CuestaError(
                Diagnostic.on(op, "every lane would change one element; the schedule must not have lanes here")
            )
        masked = () if mask is None else (self.value(mask, shape),)
        new = kernel.CombineOp.create(
            operands=(self.value(op.value, shape), self.values[op.target], *used, *masked),
            properties={"map": address, "kind": op.properties["kind"]},
        )
        self.finish(op, new, len(self.scopes) - 1)

    def atomic(self, op: loops.AtomicOp) -> None:
        """One change for every lane, also where neither the address nor the value varies along the lanes."""
        used, address = self.address(op, op.target)
        shape = joint_shape([*used, *(scope.lane for scope in self.scopes if scope.lane is not None)])
        mask = op.mask
        masked = () if mask is None else (self.value(mask, shape),)
        if not masked and joint_shape(used) != shape:
            masked = (self.constant(elem.constant(True, i1), shape),)
        new = kernel.AtomicOp.create(
            operands=(self.value(op.value, shape), self.values[op.target], *used, *masked),
            properties={"map": address, "kind": op.properties["kind"]},
        )
        self.finish(op, new, len(self.scopes) - 1)

    def running(self, op: loops.RunningOp) -> None:
        scan = op.parent_op()
        assert scan is not None
        axes, _ = self.schedule.loops[scan]
        point = self.index_values[axes[-1]]
        assert point is not None
        value = self.value(op.value, join(shape_of(point), self.shape([op.value])))
        # In its scan, also when the value is the same at every point.
        self.finish(op, kernel.RunningOp.build(op.kind, value), len(self.scopes) - 1)

    def meet(self, op: loops.MeetOp) -> None:
        if op.counter is None:
            raise CuestaError(Diagnostic.on(op, "counts in nothing; add-counters should have seen to that"))
        axes = sum(self.analysis.meeting >> parallel.axis & 1 for parallel in self.schedule.parallel)
        self.finish(op, kernel.MeetOp.build(self.values[op.counter], axes), 0)

    def index(self, op: loops.IndexOp) -> None:
        used, expression = self.expression(self.analysis.accesses[op].address)
        new = kernel.IndexOp.create(
            operands=used,
            result_types=(shaped(op.results[0].type, joint_shape(used)),),
            properties={"map": sym.MapAttr.get(len(used), (expression,))},
        )
        self.finish(op, new, self.placement(used))

    def bound(self, op: loops.BoundOp) -> None:
        shape = self.shape(op.operands)
        value = self.value(op.operands[0], shape)
        self.symbols |= sym.symbols_of(op.size)
        new = kernel.BoundOp.create(
            operands=(value,), result_types=(shaped(op.results[0].type, shape),), properties=op.properties
        )
        self.finish(op, new, self.careful_placement((value,)))
        self.index_values[self.analysis.number[op.result]] = new.results[0]

    # Inner loops

    def loop(self, op: loops.StatementOp) -> None:
        axes, lanes = self.schedule.loops[op]
        if not axes:
            self.body(op.body)
            return
        block, used, properties = self.inner(op, axes, lanes)
        self.leave(block)
        kind = kernel.ScanOp if isinstance(op, loops.ScanOp) else kernel.ForOp
        new = kind.create(operands=used, properties=properties, regions=[Region(block)])
        self.finish(op, new, len(self.scopes) - 1)

    def fold(self, op: loops.FoldOp) -> None:
        axes, _ = self.schedule.loops[op]
        shapes = [self.shape_along(self.analysis.carried[value]) for value in op.carried]
        initials = [self.value(value, shape) for value, shape in zip(op.operands, shapes, strict=True)]
        (axis,) = axes
        size = self.analysis.sizes[axis]
        low: sym.IndexExpr = 0
        high: sym.IndexExpr = size
        around: tuple[SSAValue, ...] = ()
        if self.schedule.steps is not None and self.rows is not None:
            program, first = self.rows
            low, high = self.schedule.steps(first)
            around = (program,)
        used, properties = self.loop_properties([low], [high], around, 1)
        block = self.enter(axes, self.schedule.steps is None and self.is_positive(size), 1)
        for old, initial in zip(op.carried, initials, strict=True):
            new = block.insert_arg(initial.type, len(block.args))
            new.name_hint = old.name_hint
            self.define(old, new, len(self.scopes) - 1)
        self.body(op.body)
        carried = [self.value(value, shape) for value, shape in zip(op.handed_on, shapes, strict=True)]
        carry = kernel.CarryOp.build(carried)
        carry.location = op.location
        self.emit(carry, len(self.scopes) - 1)
        self.leave(block)
        new = kernel.FoldOp.create(
            operands=[*used, *initials],
            result_types=[initial.type for initial in initials],
            properties=properties,
            regions=[Region(block)],
        )
        self.finish(op, new, len(self.scopes) - 1)

    def shape_along(self, axes: int) -> Shape:
        """The shape of a value, here, that depends on these axes of the nest."""
        lanes = [scope.lane for scope in self.scopes if scope.lane is not None]
        shape: Shape = ()
        for axis, point in enumerate(self.index_values):
            if axes >> axis & 1 and point in lanes:
                assert point is not None
                shape = join(shape, shape_of(point))
        return shape

    def contract(self, op: loops.ReduceOp, contraction: Contraction) -> None:
        axes, lanes = self.schedule.loops[op]
        block, used, properties = self.inner(op, axes, lanes, contraction)
        left, right = self.values[contraction.left], self.values[contraction.right]
        factors = kernel.FactorsOp.build(left, right)
        factors.location = op.location
        self.emit(factors, len(self.scopes) - 1)
        self.leave(block)
        shape = kernel.contracted_shape(shape_of(left), shape_of(right), lanes)
        if shape is None:
            raise CuestaError(Diagnostic.on(op, "its factors do not vary along rows and columns; it is no contraction"))
        if contraction.precision:
            properties["precision"] = StringAttr(contraction.precision)
        new = kernel.ContractOp.create(
            operands=used,
            result_types=(shaped(op.results[0].type, shape),),
            properties=properties,
            regions=[Region(block)],
        )
        self.finish(op, new, len(self.scopes) - 1)

    def reduce(self, op: loops.ReduceOp) -> None:
        contraction = self.schedule.contractions.get(op)
        if contraction is not None:
            self.contract(op, contraction)
            return
        axes, lanes = self.schedule.loops[op]
        if not axes:  # one point: the result is its value
            self.body(op.body)
            value = self.values[op.results[0]] = self.value(op.yielded, ())
            for second in op.results[1:]:
                self.values[second] = self.second_result_of_one(op, value)
            return
        block, used, properties = self.inner(op, axes, lanes)
        shape = self.shape((op.yielded,))
        if lanes > 1:
            shape = join(shape, shape_of(block.args[-1]))
        value = self.value(op.yielded, shape)
        yielded = kernel.YieldOp.build(value)
        yielded.location = op.location
        self.emit(yielded, len(self.scopes) - 1)
        self.leave(block)
        new = kernel.ReduceOp.create(
            operands=used,
            result_types=[
                shaped(result.type, shape[: self.scopes[-1].dim] if lanes > 1 else shape) for result in op.results
            ],
            properties={**properties, "kind": op.properties["kind"]},
            regions=[Region(block)],
        )
        self.finish(op, new, len(self.scopes) - 1)

    def second_result_of_one(self, op: loops.ReduceOp, value: SSAValue) -> SSAValue:
        """What a reduction of a single point gives besides the point: its position; (x − x)², NaN for an infinity."""
        if op.kind != "welford":
            return self.constant(elem.constant(0, op.results[1].type), ())
        depth = self.depth[value]
        rest = self.emit(elem.make("sub", value, value), depth).results[0]
        return self.emit(elem.make("mul", rest, rest), depth).results[0]

    def inner(
        self, op: loops.DomainOp, axes: Sequence[int], lanes: int, contraction: Contraction | None = None
    ) -> tuple[Block, Sequence[SSAValue], dict[str, Attribute]]:
        """Writes the body of an inner loop into a block, which is left open; of a contraction what its factors are."""
        sizes = [self.analysis.sizes[axis] for axis in axes]
        used, properties = self.loop_properties([0] * len(sizes), sizes, (), lanes)
        block = self.enter(axes, all(map(self.is_positive, sizes)), lanes)
        self.scopes[-1].contracts = contraction is not None
        self.body(op.body, frozenset() if contraction is None else contraction.left_out)
        return block, used, properties

    def loop_properties(
        self, lowers: Sequence[sym.IndexExpr], uppers: Sequence[sym.IndexExpr], operands: Sequence[SSAValue], lanes: int
    ) -> tuple[Sequence[SSAValue], dict[str, Attribute]]:
        for bound in (*lowers, *uppers):
            self.symbols |= sym.symbols_of(bound)
        return kernel.LoopOp.loop_properties(lowers, uppers, operands, lanes, self.scopes[-1].dim if lanes > 1 else 0)


def _elementwise(builder: KernelBuilder, op: Any) -> None:
    """A scalar op, also one that an extension has."""
    if not isinstance(op, elem.ElementwiseOp):
        fail(op, "has no meaning inside of a nest")
    builder.elementwise(op)  # a builder may have its own way


_TRANSLATE: dict[type[Operation], Callable[[KernelBuilder, Any], None]] = {
    elem.ConstantOp: KernelBuilder.remember,
    loops.AtomicOp: KernelBuilder.atomic,
    loops.LoadOp: KernelBuilder.load,
    loops.StoreOp: KernelBuilder.store,
    loops.IndexOp: KernelBuilder.index,
    loops.BoundOp: KernelBuilder.bound,
    loops.CombineOp: KernelBuilder.combine,
    loops.CarryOp: KernelBuilder.finished,
    loops.FoldOp: KernelBuilder.fold,
    loops.ForOp: KernelBuilder.loop,
    loops.MeetOp: KernelBuilder.meet,
    loops.RunningOp: KernelBuilder.running,
    loops.ScanOp: KernelBuilder.loop,
    loops.ReduceOp: lambda builder, op: builder.reduce(op),
    loops.YieldOp: KernelBuilder.finished,
}
