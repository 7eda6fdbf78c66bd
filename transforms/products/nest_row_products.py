"""`nest-row-products`: on a CPU, products of one row with a large matrix that lies column by column, as nests.

%m = loops.extern pure "aten.mm.default"(%x, %w) : (tensor<1x4096xf32>, tensor<4096x4096xf32, … strides = [1, 4096]>)
→
%m = loops.nest (%i : 1, %j : 4096) … #loops.schedule<rows = 4, prefetch = 4096> {
  sum (%k : 4096) of %x[0, %k] · %weight[%j, %k]
}

It is what a step of a decoder does: every weight is read once, and the memory is the limit. A library reads one row of
the weight after the other, and waits; with several side by side, and memory asked for ahead, the memory is never idle.
The nest that follows is done at once, as is a bias. Where the matrix lies row by row, the library's is as fast.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from cuesta.dialects import loops
from cuesta.dialects.core.devices import traits_of_device
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.tracing import no_match
from cuesta.dialects.layout import strides_of, tensor_type_of
from cuesta.transforms.products.products import Product, fused_nest, product_of, replace

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
ROWS, AHEAD = 4, 4096
"""How many rows are summed side by side, and how many elements ahead memory is asked for. 1376x512 and 4096x1024 in f32
took 0.86 and 0.88 of MKL's time so, one row 0.98 to 1.01 whatever the distance, 8 rows 0.85 and 0.91, 4 rows with 1024
elements 0.88 and 0.92, with 8192 as with 4096.

Source: as of LEAST_BYTES.
"""


class NestRowProductsPass(ModulePass):
    """mm(x, w), where x is one row, and a pointwise nest that reads it  ->  one nest that sums and goes on.

    Reassociates; what follows takes the sum before it is rounded to 16 bits. Near misses: two rows; a matrix that is
    small, or lies row by row; short sums; a size that only the call knows; a GPU.
    """

    name = "nest-row-products"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        block = entry_block(op)
        positions: dict[Operation, int] = {one: position for position, one in enumerate(block.ops)}
        taken = set[loops.NestOp]()
        for call in list(block.ops):
            if not isinstance(call, loops.ExternOp):
                continue
            product = product_of(call, positions, taken, True, fewest=1)
            if product is None or product.sizes[0] > 1:
                continue
            if (reason := obstacle(product)) is not None:
                no_match(call, f"stays a library call: {reason}")
                continue
            nest = fused_nest(product)
            positions[nest] = positions[product.consumer or call]
            replace(product, nest, {"rows": ROWS, "prefetch": AHEAD})


def obstacle(product: Product) -> str | None:
    """Why a product of one row stays a call."""
    _, columns, points = product.sizes
    if traits_of_device(product.device).blocks:
        return "a GPU's library is as fast"
    if columns * points * product.batch * product.bits // 8 < LEAST_BYTES:
        return f"its matrix has fewer than {LEAST_BYTES} bytes"
    if points < FEWEST_POINTS or columns < FEWEST_COLUMNS:
        return f"its matrix has fewer than {FEWEST_POINTS} rows or {FEWEST_COLUMNS} columns"
    strides = strides_of(tensor_type_of(product.right))[-2:]
    return None if tuple(strides) == (1, points) else "its matrix does not lie column by column, all of it"
