"""`fuse-products`: products of matrices, with what is done to their results, as nests in the place of library calls."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from cuesta.dialects.core.devices import traits_of_device
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.machine import machine_of
from cuesta.transforms.products.gradients import join_gradients, split_gradients
from cuesta.transforms.products.product_nests import fused_nest, replace
from cuesta.transforms.products.products import convolutions_taken, products_of
from cuesta.transforms.products.tiles import Around, estimates


@dataclass(frozen=True)
class FuseProductsPass(ModulePass):
    """mm(a, b), and a pointwise nest that reads it  ->  one nest that sums and goes on, scheduled as a contraction.

    Everywhere, whether it pays or not: `tune-kernels` does so where a device has shown that it does.
    """

    name = "fuse-products"

    tf32: bool = False
    """Whether factors of type f32 may be rounded to TF32; otherwise they are taken in pieces of bf16."""
    tf32_convolutions: bool = False
    """The same of convolutions, of which torch has a setting of its own."""
    keep_roundings: bool = False
    """Whether what follows takes the product rounded to its type, as in eager."""
    prologues: bool = True
    """Whether what only gives a factor is done where the factor is read."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        taken = convolutions_taken(self.tf32_convolutions, single=True)
        split_gradients(entry_block(op))
        for product in products_of(entry_block(op), precision="tf32" if self.tf32 else "bf16x6", convolutions=taken):
            nest = fused_nest(product, keep_roundings=self.keep_roundings, prologues=self.prologues)
            around = Around(precision=product.precision)
            whole = estimates(product.sizes, product.batch, product.bits, machine_of(op), around)
            tile = next(choices for _, choices in whole if "part" not in choices)
            is_contraction = traits_of_device(product.device).contractions and min(product.sizes) > 1
            replace(product, nest, tile if is_contraction else {})
        join_gradients(entry_block(op))
