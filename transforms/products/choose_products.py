"""`choose-products`: on a GPU, products that are clearly faster in one nest with what is around them are such nests.

    %m = loops.extern "aten.mm.default"(%a, %b)
    %y = loops.nest (%i : 16384, %j : 1024) { … f(load %m[%i, %j]) … }
    →
    %y = loops.nest (%i : 16384, %j : 1024) … schedule #loops.schedule<rows = 128, columns = 256, depth = 64, …> {
      %s = sum (%k : 512) of %a[%i, %k] · %b[%k, %j]; … f(%s) … }

Which are is predicted (`product_plans.py`); under `max-autotune` `tune-kernels` measures it instead.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block
from xdsl.passes import ModulePass

from cuesta.dialects import loops
from cuesta.dialects.core.architectures import MEASURED_IN_PIECES
from cuesta.dialects.core.devices import traits_of_device
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.fingerprint import fingerprint
from cuesta.dialects.core.machine import Machine, machine_of
from cuesta.dialects.core.tracing import active_trace, chose, no_match
from cuesta.dialects.layout import is_tensor, traits_of
from cuesta.dialects.loops.surgery import top_level_nest
from cuesta.transforms.products.gradients import join_gradients, split_gradients
from cuesta.transforms.products.product_nests import fused_nest, replace
from cuesta.transforms.products.product_plans import Plan, lie_as_read, plan_of, plan_of_reduced, producer_at
from cuesta.transforms.products.products import Product, convolutions_taken, products_of
from cuesta.transforms.products.reduced_products import Reduced, reduced, reduced_nest, replace_reduced, take_out_picks


@dataclass(frozen=True)
class ChooseProductsPass(ModulePass):
    """mm(a, b), and a pointwise nest that reads it  ->  one nest that sums and goes on, where that is predicted to be
    clearly faster; what only gives a factor may be done where the factor is read. So, too, of a convolution, which is a
    product: y[n, o, p] = Σ_k x[n, c, p · step + a · gap − margin] · w[o, c, a], and 0 where there is no such element.

    Reassociates, and what follows takes the sum before it is rounded. Near misses: a product that nothing surrounds; a
    nest with a schedule of its own; a device without matrix units; a convolution whose images do not lie along its
    windows; one with groups, a transposed one and the gradients of any, of which nothing was measured.
    """

    name = "choose-products"

    tf32: bool = False
    """Whether factors of type f32 may be rounded to TF32; otherwise they are taken in pieces of bf16."""
    tf32_convolutions: bool = False
    """The same of convolutions, of which torch has a setting of its own."""

    @property
    def precision(self) -> str:
        """How factors of f32 are taken."""
        return "tf32" if self.tf32 else "bf16x6"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        block, machine = entry_block(op), machine_of(op)
        calls = (result for one in block.ops if isinstance(one, loops.ExternOp) for result in one.results)
        if not any(is_tensor(result) and traits_of(result).contractions for result in calls):
            return
        chosen = [one for one in block.ops if isinstance(one, loops.NestOp) and one.choices]
        known: dict[tuple[object, ...], Plan | None] = {}
        measured = convolutions_taken(self.tf32_convolutions, unmeasured=False)
        for product in products_of(block, precision=self.precision, untouched=chosen, convolutions=measured):
            if product.call.parent is not block or not traits_of_device(product.device).contractions:
                continue
            if product.precision == "bf16x6" and machine.architecture not in MEASURED_IN_PIECES:
                no_match(product.call, f"stays the library's: in pieces it was not measured on {machine.architecture}")
                continue
            rows = reduced(product, block, chosen) if product.windows is None else None
            key = _key(product, rows)
            if key not in known:
                known[key] = plan_of(product, machine) if rows is None else plan_of_reduced(rows, machine)
            plan = known[key]
            if plan is None or not plan.pays:
                told = _told(product, rows) if plan is None else _compared(plan.together, plan.apart)
                no_match(product.call, f"stays the library's: {told}")
                continue
            chose(product.call, f"is one nest with what surrounds it: {_compared(plan.together, plan.apart)}")
            if rows is not None:
                take_out_picks(rows)
                replace_reduced(rows, reduced_nest(rows), plan.tile)
            else:
                nest = fused_nest(product, prologues=plan.prologues, beside=plan.beside)
                replace(product, nest, plan.tile)
        if active_trace() is not None:
            self.tell_of_unmeasured(block, machine)

    def tell_of_unmeasured(self, block: Block, machine: Machine) -> None:
        """Says what is predicted of convolutions that stay the library's because the estimate was fitted to others."""
        split_gradients(block)
        every = convolutions_taken(self.tf32_convolutions)
        for product in products_of(block, precision=self.precision, convolutions=every):
            if product.windows is None or not (what := product.windows.unmeasured):
                continue
            plan = plan_of(product, machine) if traits_of_device(product.device).contractions else None
            told = _told(product, None) if plan is None else _compared(plan.together, plan.apart)
            no_match(product.call, f"stays the library's: {told}, but {what}, of which nothing was measured")
        join_gradients(block)


def _key(product: Product, rows: Reduced | None) -> tuple[object, ...]:
    """Products with the same key have the same plan: layers are alike."""
    every = (product, *product.beside)
    consumers = [product.consumer] if rows is None else [rows.nest, *map(top_level_nest, rows.picks)]
    nests = [one for one in consumers if one is not None]
    nests += [nest for one in every for nest in one.producers.values()]
    made = tuple(producer_at(one, factor) is not None for one in every for factor in (one.left, one.right))
    shared = len({one.left for one in every})
    return (
        product.sizes,
        product.batch,
        product.bits,
        product.precision,
        product.is_kept,
        product.windows,
        len(every),
        shared,
        lie_as_read(product),
        made,
        *map(fingerprint, nests),
    )


def _told(product: Product, rows: Reduced | None) -> str:
    """Why there is no plan."""
    if rows is None and product.consumer is None and not product.producers:
        return "nothing surrounds it"
    return (
        "its points fill no whole steps of a tile, or its rows no vectors"
        if rows is None
        else "no tile's columns are parts of its rows"
    )


def _compared(together: float, apart: float) -> str:
    return f"predicted {together:.1f} µs with what surrounds it, and {apart:.1f} apart"
