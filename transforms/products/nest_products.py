"""`nest-products`: on a CPU, products of f32 matrices that our own kernels multiply faster than the libraries.

%y = loops.extern pure "aten.addmm.default"(%b, %x, %t)          (%t is the 512x1024 matrix %w, transposed)
→
%p = loops.nest (%q : 16, %k : 1024, %c : 32) { %w[%q * 32 + %c, %k] }
%y = loops.nest (%i : 256, %q : 16, %c : 32) … schedule #loops.schedule<lanes = 32, rows = 8> {
  sum (%k : 1024) of %x[%i, %k] · %p[%q, %k, %c]; … + %b[%q * 32 + %c]
}

A block of 8 rows and 32 columns is summed in registers, and each step reads a piece of a row of %p, whose strips of
columns lie one after the other as they are read. The factor of rows is read as it lies, one element for all columns.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.devices import traits_of_device
from cuesta.dialects.core.entry import entry_block, entry_function, frozen_arguments
from cuesta.dialects.core.machine import Machine, machine_of
from cuesta.dialects.core.operation import replace_all_uses
from cuesta.dialects.core.tracing import no_match
from cuesta.dialects.layout import element_type_of, sizes_of, strides_of, tensor_type, tensor_type_of
from cuesta.dialects.loops.surgery import through_views
from cuesta.transforms.host.choose_libraries import with_onednn
from cuesta.transforms.products.product_nests import remove_product
from cuesta.transforms.products.products import AS_THEY_ARE, Product, insert, load_in_f32, product_of, with_bias

ROWS = 8
"""Rows of a block, a power of two: with two vectors of columns its sums are in 16 of 32 registers. Blocks of 4x64,
6x64, 7x64, 8x32, 10x32, 12x32 and 14x32 reached 85, 106, 105, 107, 106, 102 and 96 GFLOP/s of 118.

Source: a prototype in C, products of 9 shapes, one thread of an EPYC (Zen 4), medians, beside other processes.
"""
WIDE = 16
"""The lanes from which on there are 32 registers. Where there are 16, blocks have half as many rows: 4x16 reached 63 to
64 GFLOP/s of f32 and 44 to 56 of bf16 where 8x16, whose sums do not fit, reached 29 to 39, and 17 to 28; int8, whose
sums are added to less often, 21 to 41, and 35 to 47.

Source: products of 512 and 1024, one thread of an EPYC (Zen 3), beside other processes, docs/decisions/085.
"""
VECTORS = 2
"""The most vectors of columns of a block.

Source: as of ROWS.
"""
FEWEST = 16
"""The rows and points from which a product is worth nests; where the copy is kept, ROWS do.

Source: a definition: two blocks.
"""
PACKED = 24.0
"""Additions and products in the time in which an element of the factor of columns is copied into strips.

Source: copies of 65,536 to 524,288 elements beside products, one thread of an EPYC (Zen 4): 0.1 to 0.25 ns each.
"""
MOST_COPIED = 1 << 20
"""The most elements of the factor of columns: each block of rows reads all of it, from a cache. 2^20 elements took 0.98
of oneDNN's time (1024x1024x1024), 2^22 1.09 to 1.4 (2048x2048x2048, 256x4096x1024, 1024x1024x4096).

Source: one thread of an EPYC (Zen 4), in turns with oneDNN, beside other processes, docs/decisions/062.
"""


class NestProductsPass(ModulePass):
    """mm(x, w)  ->  copy of w in strips of columns; nest that sums rows of x with them, in blocks

    Reassociates: sums are added up in pieces, as by libraries. Near misses: a machine on which our kernels are not
    faster, and a GPU; other types than f32; sizes that only the call knows; columns that are no whole vectors; a
    copy that is large, or costs more than it gains, as with few rows; a result that does not lie row by row.
    """

    name = "nest-products"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        machine = machine_of(op)
        if machine.products <= 1.0:
            return
        block = entry_block(op)
        positions: dict[Operation, int] = {one: position for position, one in enumerate(block.ops)}
        strips: dict[object, SSAValue] = {}
        frozen = {block.args[position] for position in frozen_arguments(entry_function(op))}
        for call in list(block.ops):
            if not isinstance(call, loops.ExternOp) or "mm" not in call.overload:
                continue
            product = product_of(call, positions, set(), AS_THEY_ARE, fewest=ROWS)
            if product is None:
                continue
            root = product.right
            while isinstance(root.owner, loops.ViewOp):
                root = root.owner.source
            if (reason := obstacle(product, machine, is_frozen=root in frozen)) is not None:
                no_match(call, f"stays a library call: {reason}")
                continue
            lanes = lanes_of(product.sizes[1], machine)
            nest = summed(product, strips_of(product, lanes, strips))
            nest.properties["schedule"] = loops.ScheduleAttr.of({"lanes": lanes, "rows": rows_of(machine)})
            Rewriter.insert_op(nest, InsertPoint.before(call))
            nest.results[0].name_hint = call.results[0].name_hint
            replace_all_uses(call.results[0], nest.results[0])
            remove_product(product)


def rows_of(machine: Machine) -> int:
    """The rows of a block, whose sums registers hold."""
    return ROWS if machine.lanes >= WIDE else ROWS // 2


def lanes_of(columns: int, machine: Machine) -> int:
    """The columns of a block: so many vectors as divide all columns; 0 where there is no whole one."""
    lanes = VECTORS * machine.lanes
    while lanes >= machine.lanes and columns % lanes:
        lanes //= 2
    return lanes if lanes >= machine.lanes else 0


def obstacle(product: Product, machine: Machine, *, is_frozen: bool = False) -> str | None:
    """Why a product stays a call. Of a factor of columns that is frozen the copy is kept: it costs nothing."""
    if traits_of_device(product.device).blocks or element_type_of(product.result) != f32:
        return "it is not of f32, on a processor"
    rows, columns, points = product.sizes
    if min(columns, points) < FEWEST or (rows < FEWEST and not is_frozen):
        return f"it has fewer than {FEWEST} rows, columns or points"
    if not lanes_of(columns, machine):
        return f"its {columns} columns are no whole vectors"
    if strides_of(tensor_type_of(product.result))[-2:] != (columns, 1):
        return "its result does not lie row by row"
    if columns * points * product.batch > MOST_COPIED:
        return "its factor of columns is too large to be copied"
    work = 2.0 * rows * columns * points * product.batch
    copied = 0.0 if is_frozen else PACKED * columns * points * product.batch
    nested = work / machine.products + copied
    called = work
    if product.call.overload in ("aten.mm.default", "aten.addmm.default"):
        across = strides_of(tensor_type_of(product.left))[-1] != 1
        called = min(work, with_onednn(work, rows * points if across else 0, machine))
    return "the copy of a factor costs more than it gains" if nested >= called else None


def strips_of(product: Product, lanes: int, known: dict[object, SSAValue]) -> SSAValue:
    """The factor of columns as strips of `lanes` columns, one after the other: a nest before the call, or one that is
    there.

    Shapes: [*batch, columns / lanes, points, lanes].
    """
    *batch, points, columns = sizes_of(tensor_type_of(product.right))
    dims = [sym.dim(axis) for axis in range(len(batch) + 3)]
    *outer, strip, k, column = dims
    index = [*outer, k, strip * lanes + column]
    key = (lanes, *through_views(product.right, index))
    if (found := known.get(key)) is not None:
        return found
    assert isinstance(columns, int)
    kind = tensor_type([*batch, columns // lanes, points, lanes], f32, device=product.device)
    nest = loops.NestOp.build(sizes_of(kind), [kind])
    nest.location = product.call.location
    place = InsertPoint.at_end(nest.body)
    value = load_in_f32(product.right, index, nest.induction_variables, nest.sizes, product.call, place)
    insert(loops.StoreOp.build(value, nest.handles[0], dims, nest.induction_variables), product.call, place)
    Rewriter.insert_op(nest, InsertPoint.before(product.call))
    known[key] = nest.results[0]
    return nest.results[0]


def summed(product: Product, strips: SSAValue) -> loops.NestOp:
    """The nest that sums a product whose factor of columns lies in strips; it stands nowhere yet."""
    rows, _, points = product.sizes
    *batch, count, _, lanes = sizes_of(tensor_type_of(strips))
    nest = loops.NestOp.build([*batch, rows, count, lanes], [product.result.type])
    nest.location = product.call.location
    place = InsertPoint.at_end(nest.body)
    reduction = loops.ReduceOp.build("sum", [points], f32)
    reduction.induction_variables[0].name_hint = "k"
    around = nest.induction_variables
    axes, sizes = [*around, *reduction.induction_variables], (*nest.sizes, points)
    *outer, row, strip, column, k = (sym.dim(axis) for axis in range(len(axes)))
    inside = InsertPoint.at_end(reduction.body)
    left = load_in_f32(product.left, [*outer, row, k], axes, sizes, product.call, inside)
    right = load_in_f32(strips, [*outer, strip, k, column], axes, sizes, product.call, inside)
    multiplied = insert(elem.make("mul", left, right), product.call, inside)
    assert multiplied is not None
    insert(loops.YieldOp.build(multiplied), product.call, inside)
    total = insert(reduction, product.call, place)
    assert total is not None and isinstance(lanes, int)
    element: Sequence[sym.IndexExpr] = [*outer, row, strip * lanes + column]
    total = with_bias(product, total, element, around, nest.sizes, place)
    insert(loops.StoreOp.build(total, nest.handles[0], element, around), product.call, place)
    return nest


__all__ = ["NestProductsPass"]
