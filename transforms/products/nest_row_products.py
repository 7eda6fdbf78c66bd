"""`nest-row-products`: on a CPU, products of few rows with a matrix that is read once, as nests.

%m = loops.extern pure "aten.mm.default"(%x, %w) : (tensor<1x4096xf32>, tensor<4096x4096xf32, … strides = [1, 4096]>)
→
%m = loops.nest (%i : 1, %j : 4096) … #loops.schedule<rows = 4, prefetch = 4096> {
  sum (%k : 4096) of %x[0, %k] · %weight[%j, %k]
}

It is what a step of a decoder does: every weight is read once, and the memory is the limit. A library reads one row of
the weight after the other, and waits; with several side by side, and memory asked for ahead, the memory is never idle.
The nest that follows is done at once, as is a bias. Where the matrix lies row by row, the library's is as fast.

A matrix that a nest makes for the product alone, of weights of 8 or 4 bits, a library can read only when it has been
written. Here it is made where it is read, in up to four rows, and whichever way it lies (`matrices.py`).

Attention of one query in f32 is two such products (`row_attention.py`), of the keys and of the values, which are read
as they come. In 16 bits the library's is faster.
"""

from __future__ import annotations

import math
from dataclasses import replace as replace_fields

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.devices import traits_of_device
from cuesta.dialects.core.entry import entry_block, symbol_ranges
from cuesta.dialects.core.machine import machine_of
from cuesta.dialects.core.operation import replace_all_uses
from cuesta.dialects.core.tracing import no_match
from cuesta.dialects.kernel.access import FURTHEST
from cuesta.dialects.layout import is_tensor_type, sizes_of, strides_of, tensor_type_of
from cuesta.dialects.loops.surgery import loads_of, remove, top_level_nest
from cuesta.transforms.fusion.inline import inline_at, stored_values
from cuesta.transforms.products.matrices import Matrix, matrix_of
from cuesta.transforms.products.product_nests import fused_nest, replace
from cuesta.transforms.products.products import AS_THEY_ARE, Product, producer_of, product_of, static
from cuesta.transforms.products.row_attention import ATTENTION, Attention, attention_of, lies_in_rows, nests_of

LEAST_BYTES = 1 << 18
"""The bytes of a matrix from which it is worth a nest: at 256 KiB that took 0.80 (f32) and 0.28 (bf16) of MKL's time
when the matrix came from memory, 0.85 and 0.5 when it was in the cache; smaller ones were not faster by much in f32.

Source: products of one row beside MKL's, in turns, one thread of a Sapphire Rapids.
"""
FEWEST_POINTS = 128
"""The points of a sum from which it is worth a nest: 0.84 (f32) and 0.33 (bf16) of MKL's time with 128, and no more
with 256 to 16384.

Source: as of LEAST_BYTES.
"""
FEWEST_COLUMNS = 256
"""The columns of a matrix from which it is worth a nest: programs have 16, and all threads should have some. On one
thread 64 columns took 0.93 to 0.98 of MKL's time in f32.

Source: a guess for many threads, on which nothing was measured.
"""
ROWS, AHEAD = 4, 16384
"""How many rows are summed side by side, and how many bytes ahead memory is asked for. 1376x512 and 4096x1024 in f32
took 0.86 and 0.88 of MKL's time so, one row 0.98 to 1.01 whatever the distance, 8 rows 0.85 and 0.91, 4 rows with 4
KiB 0.88 and 0.92, with 32 KiB as with 16. Of int8, 4096x4096, 4 KiB took 1.11 of the time of 16, 8 KiB 1.04.

Source: as of LEAST_BYTES.
"""

MOST_ROWS = 4
"""The most rows of a product whose matrix is made by a nest: it is made again for each of them, in registers. With
1024x1024 of int8 and 1, 2, 4 rows that took 0.31, 0.47, 0.50 of eager's time. Of a matrix that is read as it is, rows
are MKL's: with 4096x4096 in f32 and 2, 3, 4 rows a nest took 1.19, 1.33, 0.78 of its time.

Source: as of LEAST_BYTES, beside six other processes, docs/decisions/046.
"""
FEWEST_LANES = 16
"""The points and columns from which a nest is worth it in the place of one that makes a matrix, and a call.

Source: a definition: a vector of most machines.
"""
MOST_WORK = 6
"""The most operations on an element of such a matrix.

Source: a guess: with them a row takes as long as the memory for the first.
"""
MOST_IN_ONE = 8
"""The most numbers that one element of what a product reads is taken apart into.

Source: a definition: the bits of a byte.
"""
ROWS_AHEAD = 16
"""How many rows ahead memory is asked for, where columns are walked down. 2048x2048 of int8 took 1.07 of the time with
4 rows, 1.29 with 64.

Source: as of MOST_ROWS.
"""
VECTORS_OF_COLUMNS, FEWEST_STRIPS = 8, 4
"""How many vectors of columns are summed side by side, and in how many strips there must be columns for the threads.
2048x2048 of int8 took 1.35 of the time with 4 vectors, 1.18 with 16.

Source: as of MOST_ROWS; the strips are `schedule_cpu.FEWEST_STRIPS`.
"""

MOST_COLUMNS = 64
"""The most columns of an attention's values that are summed side by side. Eight heads of 1024 keys of 64 elements took
0.67 of eager's time so, with keys by ROWS and AHEAD (8 keys side by side 0.69, 2 keys 0.67), and 0.68 with 32 columns;
32 heads of 128 elements 0.80 with 64 columns, 0.81 with 32, 0.78 with 128, for which not every machine has registers.

Source: attention of one query beside eager's, in turns, one thread of a Sapphire Rapids, docs/decisions/041.
"""
FEWEST_COLUMNS_OF_VALUES = 16
"""The elements of a key from which attention is worth nests: a vector of most machines.

Source: a definition: fewer are no lanes for rows to be summed in; nothing was measured.
"""


class NestRowProductsPass(ModulePass):
    """mm(x, w), where x is one row, and a pointwise nest that reads it  ->  one nest that sums and goes on;
    mm(x, f(w)), where x is up to four rows, and nobody else reads f(w)  ->  one nest that reads w;
    attention(q, k, v), where q is one row of each head  ->  three nests.

    Reassociates; what follows takes the sum before it is rounded to 16 bits. Near misses: two rows of a matrix that is
    read as it is; one that is small, or lies row by row; short sums; a size that only the call knows; a GPU; f(w) of
    which others read something, or which reads w neither along rows nor along columns; attention in 16 bits.
    """

    name = "nest-row-products"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        block, ranges = entry_block(op), symbol_ranges(op)
        positions: dict[Operation, int] = {one: position for position, one in enumerate(block.ops)}
        taken = set[loops.NestOp]()
        for call in list(block.ops):
            if not isinstance(call, loops.ExternOp):
                continue
            if call.overload == ATTENTION:
                take_apart(call)
                continue
            if not _may_have_few_rows(call):
                continue
            product = product_of(call, positions, taken, AS_THEY_ARE, fewest=1)
            if product is None or product.sizes[0] > MOST_ROWS:
                continue
            if traits_of_device(product.device).blocks:
                no_match(call, "stays a library call: a GPU's library is as fast")
                continue
            makes_matrix = producer_of(product.right)
            made = {value: nest for value, nest in product.producers.items() if nest is makes_matrix}
            product = replace_fields(product, producers=made)
            matrix = matrix_of(product)
            if (reason := obstacle(product, matrix)) is not None:
                no_match(call, f"stays a library call: {reason}")
                continue
            nest = fused_nest(product, prologues=True, group=matrix.group)
            positions[nest] = positions[product.consumer or call]
            read = {load.source for made in product.producers.values() for load in loads_of(made)}
            replace(product, nest, choices_for(product, matrix, machine_of(op).lanes))
            take_in(nest, read, product.sizes[2], ranges)


def _may_have_few_rows(call: loops.ExternOp) -> bool:
    """Whether a call is not known to give more rows than a product here has: few do, and this costs nothing."""
    kind = call.results[0].type if call.results else None
    sizes = sizes_of(kind) if kind is not None and is_tensor_type(kind) else ()
    return len(sizes) < 2 or not isinstance(sizes[-2], int) or sizes[-2] <= MOST_ROWS


def take_in(nest: loops.NestOp, read: set[SSAValue], points: int, ranges: sym.SymbolRanges) -> None:
    """Computes in a nest that sums `points` what light nests only make for it, of what it reads: numbers of 4 bits out
    of bytes. What all points of a group share is computed before.
    """
    for producer in dict.fromkeys(value.owner for value in read):
        if not isinstance(producer, loops.NestOp) or producer.operands or not is_light(producer):
            continue
        users = [use.operation for result in producer.results for use in result.uses]
        loads = [user for user in users if isinstance(user, loops.LoadOp) and top_level_nest(user) is nest]
        values = stored_values(producer)
        whole = math.prod(static(producer.sizes)) * MOST_IN_ONE >= math.prod(static(nest.sizes)) * points
        if isinstance(values, str) or len(loads) < len(users) or not whole:
            continue
        for load in loads:
            inline_at(load, producer, values, ranges)
        remove(producer)


def choices_for(product: Product, matrix: Matrix, lanes: int) -> dict[str, int]:
    """How a nest is to run that computes a product: columns side by side, each summed in lanes; or lanes along the
    columns of a matrix that lies so, which is walked down. A vector of the machine has `lanes`.
    """
    if matrix.along == "points":
        return {"rows": ROWS, "prefetch": AHEAD // matrix.width}
    columns = product.sizes[1]
    widest = min(VECTORS_OF_COLUMNS * lanes, max(columns // FEWEST_STRIPS, FEWEST_LANES))
    lanes = 1 << widest.bit_length() - 1
    return {"lanes": lanes, "prefetch": min(ROWS_AHEAD * matrix.step, FURTHEST)} if matrix.step else {"lanes": lanes}


def take_apart(call: loops.ExternOp) -> None:
    """Puts nests in the place of an attention of one query, if it is one."""
    attention = attention_of(call)
    if isinstance(attention, str) or isinstance(attention := obstacle_of_attention(attention) or attention, str):
        no_match(call, f"stays a library call: {attention}")
        return
    products, exponentials, weighted = nests_of(attention)
    columns = 1 << min(attention.sizes[-1], MOST_COLUMNS).bit_length() - 1
    products.properties["schedule"] = loops.ScheduleAttr.of({"rows": ROWS, "prefetch": AHEAD // 4})
    weighted.properties["schedule"] = loops.ScheduleAttr.of({"lanes": columns, "prefetch": AHEAD // 4})
    for nest in (products, exponentials, weighted):
        Rewriter.insert_op(nest, InsertPoint.before(call))
    weighted.results[0].name_hint = call.results[0].name_hint
    replace_all_uses(call.results[0], weighted.results[0])
    remove(call)


def obstacle_of_attention(attention: Attention) -> str | None:
    """Why an attention of one query stays a call."""
    batch, heads, keys, width = attention.sizes
    if 4 * batch * heads * keys * width < LEAST_BYTES:
        return f"its keys have fewer than {LEAST_BYTES} bytes"
    if width < FEWEST_COLUMNS_OF_VALUES:
        return f"its keys have fewer than {FEWEST_COLUMNS_OF_VALUES} elements"
    return None if lies_in_rows(attention.key) and lies_in_rows(attention.value) else "its keys do not lie in rows"


def is_light(nest: loops.NestOp) -> bool:
    """Whether a nest converts, scales and shifts numbers, or takes them out of others."""
    ops = list(nest.body.ops)
    work = [op for op in ops if isinstance(op, elem.TableOp)]
    indexed = any(isinstance(op, loops.BoundOp) for op in ops)
    return len(work) <= MOST_WORK and all(op.row.ulp == 0 for op in work) and not indexed


def obstacle(product: Product, matrix: Matrix) -> str | None:
    """Why a product of few rows stays a call.

    What a library cannot read as it lies is written first, and read again: a nest always moves fewer bytes.
    """
    rows, columns, points = product.sizes
    if matrix.made:
        if points < FEWEST_LANES or columns < (ROWS if matrix.along == "points" else FEWEST_LANES):
            return f"its matrix has fewer than {FEWEST_LANES} rows or columns"
        if not matrix.along:
            return "its matrix lies neither column by column nor row by row"
        light = all(map(is_light, product.producers.values()))
        return None if rows == 1 or light else "what makes its matrix is too much work for each row"
    if rows > 1:
        return "it has more than one row"
    if columns * points * product.batch * product.bits // 8 < LEAST_BYTES:
        return f"its matrix has fewer than {LEAST_BYTES} bytes"
    if points < FEWEST_POINTS or columns < FEWEST_COLUMNS:
        return f"its matrix has fewer than {FEWEST_POINTS} rows or {FEWEST_COLUMNS} columns"
    strides = strides_of(tensor_type_of(product.right))[-2:]
    return None if tuple(strides) == (1, points) else "its matrix does not lie column by column, all of it"
