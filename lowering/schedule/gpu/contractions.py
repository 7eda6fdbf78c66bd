"""Contractions: reductions that matrix units can do, Σ_k left[i, k] · right[k, j], and the tiles they are done in."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type
from xdsl.ir import Attribute, Operation, SSAValue

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic
from cuesta.dialects.kernel.contract import PRECISIONS
from cuesta.dialects.loops.analysis import Loop, NestAnalysis
from cuesta.lowering.schedule.gpu.idle_steps import idle_steps
from cuesta.lowering.schedule.schedule import Contraction, ParallelAxis, Schedule
from cuesta.transforms.products.narrow_factors import Eight
from cuesta.transforms.products.tiles import LEAST


def schedule_contraction(analysis: NestAnalysis, choices: Mapping[str, int], bits: int) -> Schedule:
    """The schedule of a nest whose choices say that it is a contraction: `rows`, `columns` and `depth` of its tiles.

    A program computes a tile of the result and walks along the contracted axis, `depth` points at a time; what comes
    after the sum is done in registers. `bits` are those of addresses.
    Errors: CuestaError when the nest is none.
    """
    if any(isinstance(loop.op, loops.FoldOp) for loop in analysis.root.loops):
        return schedule_walk(analysis, choices, bits)
    if choices.get("batch"):
        return schedule_summed(analysis, choices, bits)
    if any(loop.loops for loop in analysis.root.loops):
        return schedule_reduced(analysis, choices, bits)
    found = contractions_of(analysis, precision_of(analysis.nest, choices))
    if isinstance(found, str):
        raise CuestaError(Diagnostic.on(analysis.nest, f"its schedule asks for a contraction, but {found}"))
    rows, columns = next((one.rows, one.columns) for one in found.values())
    tiles = [
        ParallelAxis(rows, loop=True, tile=choices["rows"]),
        ParallelAxis(columns, loop=True, tile=choices["columns"]),
    ]
    rest = [ParallelAxis(axis) for axis in analysis.root.axes if axis not in (rows, columns)]
    return Schedule(
        [*rest, *tiles],
        around=[(rows, choices["rows"])],
        order=[columns],
        lanes=choices["columns"],
        loops={loop.op: (loop.axes, choices["depth"]) for loop in found},
        contractions={loop.op: contraction for loop, contraction in found.items()},
        choices=_launched(choices, bits, "stages", "group", "programs", "descriptors"),
    )


def _launched(choices: Mapping[str, int], bits: int, *named: str) -> dict[str, int | str]:
    """What the text of a kernel says of how it is launched, with those of the choices that are `named` and made."""
    made = {key: choices[key] for key in named if choices.get(key)}
    return {"target": "cuda", "warps": choices.get("warps", 4), "index": bits, **made}


def precision_of(nest: loops.NestOp, choices: Mapping[str, int]) -> str:
    """How a contraction takes factors of f32, by its choices; empty where they say nothing.

    Errors: CuestaError when they say two things.
    """
    said = [one for one in PRECISIONS if choices.get(one)]
    if len(said) > 1:
        raise CuestaError(Diagnostic.on(nest, f"its schedule says both {' and '.join(said)}"))
    return said[0] if said else ""


def contractions_of(analysis: NestAnalysis, precision: str) -> dict[Loop, Contraction] | str:
    """The contractions that a nest is, of the same rows and columns, by their loops; or why it is none."""
    root = analysis.root
    if not root.loops:
        return "it has no inner loop"
    made: dict[Loop, Contraction] = {}
    for loop in root.loops:
        found = contraction_in(analysis, loop, root.axes, precision)
        if isinstance(found, str):
            return found
        made[loop] = found
    if len({(one.rows, one.columns) for one in made.values()}) > 1:
        return "its sums have other rows and columns"
    return made


def schedule_reduced(analysis: NestAnalysis, choices: Mapping[str, int], bits: int) -> Schedule:
    """The schedule of a nest that reduces what it makes of sums of products along their columns, which are as many as a
    tile has: a program has a tile of `rows` by all of them.

    Errors: CuestaError when a reduction is over several axes, or not of `columns` points, or of something else.
    """
    root, precision = analysis.root, precision_of(analysis.nest, choices)
    made: dict[Operation, tuple[list[int], int]] = {}
    contractions: dict[Operation, Contraction] = {}

    def refuse(op: Operation, why: str) -> CuestaError:
        return CuestaError(Diagnostic.on(op, f"its nest's schedule asks for contractions that it reduces, but {why}"))

    for loop in root.loops:
        if not isinstance(loop.op, loops.ReduceOp) or len(loop.axes) != 1:
            raise refuse(loop.op, "it is no reduction along one axis")
        if analysis.sizes[loop.axes[0]] != choices["columns"]:
            raise refuse(loop.op, f"it is no reduction of {choices['columns']} points")
        made[loop.op] = (loop.axes, choices["columns"])
        for inner in loop.loops:
            found = contraction_in(analysis, inner, [*root.axes, *loop.axes], precision)
            if isinstance(found, str):
                raise refuse(inner.op, found)
            if found.columns != loop.axes[0]:
                raise refuse(inner.op, "its columns are not what is reduced")
            contractions[inner.op] = found
            made[inner.op] = (inner.axes, choices["depth"])
    if not contractions or len({one.rows for one in contractions.values()}) > 1:
        raise refuse(analysis.nest, "its sums of products have other rows, or there are none")
    rows = next(one.rows for one in contractions.values())
    *outer, last = [ParallelAxis(axis) for axis in root.axes if axis != rows] or [None]
    tile = ParallelAxis(rows, loop=True, tile=choices["rows"])
    return Schedule(
        [*(one for one in outer if one is not None), tile, *([last] if last is not None else [])],
        around=[(rows, choices["rows"])],
        loops=made,
        contractions=contractions,
        choices=_launched(choices, bits, "stages", "group", "programs", "descriptors"),
    )


def schedule_summed(analysis: NestAnalysis, choices: Mapping[str, int], bits: int) -> Schedule:
    """The schedule of a nest that sums what it makes of sums of products, point by point: a program has a tile of the
    nest's own rows and columns, for which each point has a tile of products.

    Errors: CuestaError when something in the nest is no sum, or has contractions of other rows and columns in it.
    """
    root, precision = analysis.root, precision_of(analysis.nest, choices)
    made: dict[Operation, tuple[list[int], int]] = {}
    contractions: dict[Operation, Contraction] = {}

    def refuse(op: Operation, why: str) -> CuestaError:
        return CuestaError(Diagnostic.on(op, f"its nest's schedule asks for contractions that it sums, but {why}"))

    for loop in root.loops:
        if not isinstance(loop.op, loops.ReduceOp):
            raise refuse(loop.op, "it does something else than to reduce")
        made[loop.op] = (loop.axes, 1)
        for inner in loop.loops:
            found = contraction_in(analysis, inner, root.axes, precision)
            if isinstance(found, str):
                raise refuse(inner.op, found)
            points = analysis.sizes[inner.axes[0]]
            if not isinstance(points, int):
                raise refuse(inner.op, "how many points it has only the call knows")
            contractions[inner.op] = found
            made[inner.op] = (inner.axes, max(LEAST, 1 << (points - 1).bit_length()))
    if len({(one.rows, one.columns) for one in contractions.values()}) != 1:
        raise refuse(analysis.nest, "its sums of products have other rows and columns, or there are none")
    rows, columns = next((one.rows, one.columns) for one in contractions.values())
    return Schedule(
        [
            *(ParallelAxis(axis) for axis in root.axes if axis not in (rows, columns)),
            ParallelAxis(rows, loop=True, tile=choices["rows"]),
            ParallelAxis(columns, loop=True, tile=choices["columns"]),
        ],
        around=[(rows, choices["rows"])],
        order=[columns],
        lanes=choices["columns"],
        loops=made,
        contractions=contractions,
        choices=_launched(choices, bits, "stages"),
    )


def schedule_walk(analysis: NestAnalysis, choices: Mapping[str, int], bits: int) -> Schedule:
    """The schedule of a nest that folds: a program has a tile of `rows` by all columns, and walks along the fold; in
    each step the points of the reductions in it are lanes, and what they reduce of sums of products is, too.

    Errors: CuestaError when a reduction in a step is over several axes, or not of `depth` points, or no sum of products
    stands anywhere.
    """
    root, depth, precision = analysis.root, choices["depth"], precision_of(analysis.nest, choices)
    made: dict[Operation, tuple[list[int], int]] = {}
    contractions: dict[Operation, Contraction] = {}

    def refuse(op: Operation, why: str) -> CuestaError:
        return CuestaError(Diagnostic.on(op, f"its nest's schedule asks for a walk, but {why}"))

    if len(root.loops) != 1 or not isinstance(fold := root.loops[0].op, loops.FoldOp):
        raise refuse(analysis.nest, "it does more than to fold")
    made[fold] = (root.loops[0].axes, 1)
    for loop in root.loops[0].loops:
        if not isinstance(loop.op, loops.ReduceOp) or len(loop.axes) != 1 or analysis.sizes[loop.axes[0]] != depth:
            raise refuse(loop.op, f"it is no reduction of {depth} points")
        made[loop.op] = (loop.axes, depth)
        for inner in loop.loops:
            found = contraction_in(analysis, inner, [*root.axes, *loop.axes], precision)
            if isinstance(found, str):
                raise refuse(inner.op, found)
            (axis,) = inner.axes
            points = analysis.sizes[axis]
            if not isinstance(points, int):
                raise refuse(inner.op, "how many points it has only the call knows")
            contractions[inner.op] = found
            made[inner.op] = (inner.axes, max(LEAST, 1 << (points - 1).bit_length()))
        found = contraction_in(analysis, loop, root.axes, precision)
        if not isinstance(found, str):
            within = {contractions[inner.op].rows for inner in loop.loops}
            contractions[loop.op] = _turned(found) if found.columns in within else found
    outer = [one for loop, one in contractions.items() if loop.parent_op() is fold]
    if not outer or any((one.rows, one.columns) != (outer[0].rows, outer[0].columns) for one in outer):
        raise refuse(fold, "no sum of products in it has rows and columns of the nest")
    rows, columns = outer[0].rows, outer[0].columns
    width = analysis.sizes[columns]
    whole = isinstance(width, int) and width <= choices["columns"]
    tiles = [
        ParallelAxis(rows, loop=True, tile=choices["rows"]),
        ParallelAxis(columns, loop=True, tile=None if whole else choices["columns"]),
    ]
    bounds = idle_steps(analysis, fold, rows)
    count = analysis.sizes[root.loops[0].axes[0]]

    def steps(first: sym.IndexExpr) -> tuple[sym.IndexExpr, sym.IndexExpr]:
        low: sym.IndexExpr = 0
        high = count
        for bound in bounds:
            limit = bound.limit(first, choices["rows"])
            low, high = (low, sym.minimum(high, limit)) if bound.above else (sym.maximum(low, limit), high)
        return low, high

    return Schedule(
        [*(ParallelAxis(axis) for axis in root.axes if axis not in (rows, columns)), *tiles],
        steps=steps if bounds else None,
        around=[(rows, choices["rows"])],
        order=[columns],
        lanes=choices["columns"],
        loops=made,
        contractions=contractions,
        choices=_launched(choices, bits, "stages"),
    )


def contraction_in(analysis: NestAnalysis, loop: Loop, around: list[int], precision: str) -> Contraction | str:
    """The contraction that a loop is, whose rows and columns are among the axes `around`; or why it is none."""
    reduction = loop.op
    if not isinstance(reduction, loops.ReduceOp) or reduction.kind != "sum" or len(loop.axes) != 1:
        return "an inner loop is no sum along one axis"
    product = reduction.yielded.owner
    if not isinstance(product, elem.MulOp) or not isinstance(elem.scalar_of(reduction.yielded.type), Float32Type):
        return "it does not sum products of f32"
    left_out: set[Operation] = {product}
    factors: list[SSAValue] = []
    for operand in product.operands:
        widened = operand.owner
        # Units cut off what they add up, also of narrow factors; in pieces f32 adds.
        if precision != "bf16x6" and isinstance(widened, elem.ConvertOp) and _is_narrow(widened.operands[0].type):
            left_out.add(widened)
            operand = widened.operands[0]
        factors.append(operand)
    left, right = factors
    eights = isinstance(left.type, Eight) and isinstance(right.type, Eight)
    if not eights and (left.type != right.type or not (_is_narrow(left.type) or precision)):
        return f"its factors have the types {left.type} and {right.type}"
    if product.results[0].has_more_than_one_use():
        return "a product has other uses"
    if any(use.operation is not product for op in left_out - {product} for use in op.results[0].uses):
        return "a factor has other uses"
    varies = Varies(analysis)
    k = 1 << loop.axes[0]
    of_left, of_right = varies(left), varies(right)
    if not of_left & of_right & k:
        return "a factor does not vary along the axis of the sum"
    rows, columns = _axes(of_left & ~of_right, around), _axes(of_right & ~of_left, around)
    if not rows or not columns:
        return "a factor does not vary along an axis of its own"
    within = around[len(analysis.root.axes) :]
    turned = _stored_last(analysis, rows[-1]) and not _stored_last(analysis, columns[-1])
    if rows[-1] in within or (turned and columns[-1] not in within):
        left, right, rows, columns = right, left, columns, rows
    used = precision if isinstance(left.type, Float32Type) else ""
    return Contraction(left, right, frozenset(left_out), rows[-1], columns[-1], used)


def _turned(one: Contraction) -> Contraction:
    """The same with rows for columns."""
    return Contraction(one.right, one.left, one.left_out, one.columns, one.rows, one.precision)


def _is_narrow(value_type: Attribute) -> bool:
    return isinstance(value_type, BFloat16Type | Float16Type | Eight)


def _axes(mask: int, among: list[int]) -> list[int]:
    return [axis for axis in among if mask >> axis & 1]


def _stored_last(analysis: NestAnalysis, axis: int) -> bool:
    """Whether elements that are stored lie side by side along an axis."""
    return any(access.is_store and sym.coefficient(access.address, axis) == 1 for access in analysis.accesses.values())


class Varies:
    """The axes that a value of a nest's body depends on, as an int with bit k for axis k."""

    def __init__(self, analysis: NestAnalysis) -> None:
        self.analysis = analysis
        self.known: dict[SSAValue, int] = {}

    def __call__(self, value: SSAValue) -> int:
        """The axes of one value."""
        if value not in self.known:
            self.known[value] = self.of(value)
        return self.known[value]

    def of(self, value: SSAValue) -> int:
        """The same, found anew."""
        owner = value.owner
        if not isinstance(owner, Operation):
            return self.analysis.carried.get(value, 0)
        if isinstance(owner, loops.ReduceOp):
            found = self(owner.yielded)
            for variable in owner.induction_variables:
                found &= ~(1 << self.analysis.number[variable])
            return found
        access = self.analysis.accesses.get(owner)
        if access is not None:
            found = access.varies
            for operand in access.op.rest:
                found |= self(operand)
            return found
        found = 0
        for operand in owner.operands:
            found |= self(operand)
        return found
