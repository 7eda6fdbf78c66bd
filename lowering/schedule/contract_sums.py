"""`contract-sums`: a nest that sums products of two matrices, whoever wrote it so, is done by matrix units.

    (a[:, :, None] * b[None]).sum(1)
    %y = loops.nest (%i : 512, %j : 512) { %s = sum (%k : 512) of %a[%i, %k] · %b[%k, %j]; … f(%s) … }
    →
    %y = loops.nest (%i : 512, %j : 512) … schedule #loops.schedule<rows = 128, columns = 128, depth = 64, …> { … }

Which nests are contractions is said by the schedule that has to know it (`gpu/contractions.py`). Only of factors of 16
bits: their products are exact in f32, and those of f32 would be rounded to TF32, which nobody allowed for a sum. And
only where what is made of the sum is stored in 16 bits: matrix units add up in f32 without rounding to nearest.
"""

from __future__ import annotations

import math

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from cuesta.dialects import elem, loops
from cuesta.dialects.core.devices import traits_of_device
from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.machine import Machine, machine_of
from cuesta.dialects.core.operation import ops_of
from cuesta.dialects.core.tracing import chose, no_match
from cuesta.dialects.layout import device_of, tensor_type_of
from cuesta.dialects.loops.analysis import analyse, byte_width
from cuesta.dialects.loops.surgery import stores_of
from cuesta.lowering.kernel.loops_to_kernel import lower_nests
from cuesta.lowering.schedule.gpu.contractions import contractions_of
from cuesta.lowering.schedule.tune_kernels import program_of
from cuesta.transforms.products.product_plans import SURE
from cuesta.transforms.products.tiles import LEAST, Around, estimates
from cuesta.transforms.tilings.cost import time_whole

STORED = 16
"""The bits that what is made of a sum may be stored in: of sums of products of 16 bits matrix units were off by 2.1e-6
of the result, about ten times what f32 is, and nothing of that is left in 16 bits.

Source: products of 16 bits into f32 on an H200, in the round before decision 073's products of f32 were taken out.
"""


class ContractSumsPass(ModulePass):
    """Σ_k a[i, k] · b[k, j]  ->  the same, scheduled as a contraction, where that is predicted to be clearly faster

    Reassociates. Near misses: a nest with a schedule; factors of f32; a result of more than 16 bits; a factor that is
    the same along a side of the other, as a vector's is; sides of fewer points than a tile has; sizes that only the
    call knows; a device without matrix units.
    """

    name = "contract-sums"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for nest in ops_of(entry_block(op)):
            if isinstance(nest, loops.NestOp) and _sums_products(nest):
                _contract(nest, machine_of(op))


def _sums_products(nest: loops.NestOp) -> bool:
    """Whether a nest sums products, and nothing says yet how it is to run."""
    if nest.choices or nest.operands or len(nest.sizes) < 2:
        return False
    if not traits_of_device(device_of(tensor_type_of(nest.results[0]))).contractions:
        return False
    return any(
        isinstance(inner, loops.ReduceOp) and inner.kind == "sum" and isinstance(inner.yielded.owner, elem.MulOp)
        for inner in nest.body.ops
    )


def _contract(nest: loops.NestOp, machine: Machine) -> None:
    analysis = analyse(nest, {}, [True] * len(nest.results))
    found = contractions_of(analysis, "")
    if isinstance(found, str):
        no_match(nest, f"is no contraction: {found}")
        return
    if any(8 * byte_width(store.target) > STORED for store in stores_of(nest)):
        no_match(
            nest, f"is no contraction: its result has more than {STORED} bits, and matrix units add up less exactly"
        )
        return
    loop, one = next(iter(found.items()))
    sizes = [analysis.sizes[axis] for axis in (one.rows, one.columns, loop.axes[0])]
    known = [size for size in sizes if isinstance(size, int) and size >= LEAST]
    others = [analysis.sizes[axis] for axis in analysis.root.axes if axis not in (one.rows, one.columns)]
    batch = [size for size in others if isinstance(size, int)]
    if len(known) < 3 or len(batch) < len(others):
        no_match(nest, f"is no contraction: a side has fewer than {LEAST} points, or only the call knows how many")
        return
    rows, columns, points = known
    apart, _ = time_whole(nest, machine)
    around = Around(sums=len(found), share_left=len(found) == 1)
    for together, tile in estimates((rows, columns, points), math.prod(batch), 16, machine, around):
        if "part" in tile:
            continue
        if together * SURE > apart:
            no_match(nest, f"is no contraction: predicted {together:.1f} µs as one, and {apart:.1f} as it is")
            return
        nest.properties["schedule"] = loops.ScheduleAttr.of(tile)
        try:
            lower_nests(program_of([nest]), machine)
        except CuestaError as error:
            del nest.properties["schedule"]
            no_match(nest, f"is no contraction: {error.diagnostics[0].message}")
        else:
            chose(nest, f"is a contraction: predicted {together:.1f} µs as one, and {apart:.1f} as it was")
        return


__all__ = ["ContractSumsPass"]
