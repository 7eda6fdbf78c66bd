"""`nest-word-products`: on a CPU, products of bf16 or of int8 matrices that our own kernels multiply faster than the
libraries, by instructions that add up two or four products at once.

%y = loops.extern pure "aten.mm.default"(%x, %t)            (%t is the 512x1024 matrix of bf16 %w, transposed)
→
%a = loops.words %x along 1                                 (pairs of neighbours, as integers of 32 bits)
%b = loops.words %t along 0
%p = loops.nest (%q : 16, %k : 512, %c : 32) { %b[%k, %q * 32 + %c] }
%y = loops.nest (%i : 256, %q : 16, %c : 32) … schedule #loops.schedule<lanes = 32, rows = 8> {
  sum (%k : 512) of elem.dot bf16 of %p[%q, %k, %c], %a[%i, %k]; …
}

The blocks are those of `nest-products`. Factors whose pairs do not lie side by side are copied, and put together. A
light nest that reads the product is done at once, before the sum is rounded.

One factor of bytes has no sign to the instruction: the copy of the factor of columns is 128 more than that, and 128
times the sum of a row of the other factor, which a nest computes, is taken away.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import BFloat16Type, ModuleOp, bf16, i8, i32
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.devices import traits_of_device
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.machine import Machine, machine_of
from cuesta.dialects.core.tracing import no_match
from cuesta.dialects.elem.work import WORK
from cuesta.dialects.layout import element_type_of, is_tensor_type, sizes_of, strides_of, tensor_type_of
from cuesta.dialects.loops.surgery import Substitution
from cuesta.transforms.products.neighbours import consumer_of, static
from cuesta.transforms.products.nest_products import ROWS, lanes_of, rows_of
from cuesta.transforms.products.product_nests import replace
from cuesta.transforms.products.products import Product, product_of
from cuesta.transforms.products.words import Words, has_words, word_nest

INT_MM = "aten._int_mm.default"
"""The product of matrices of int8 with sums of i32."""
MOST_COPIED = 1 << 21
"""The most elements of the factor of columns: each block of rows reads all of it, from a cache. With 2^21 elements of
bf16 and 512 rows nests took 0.94 to 1.0 of oneDNN's time (512x2048x1024, 512x1024x2048), with 2^22 0.93 to 1.6, with
2^24 up to 2.6. Of int8 with 2^21 0.94 to 0.99, with 2^22 0.94 to 1.12.

Source: one thread of an EPYC (Zen 4), programs in turns, beside other processes, docs/decisions/066.
"""
MANY_ROWS = 256
"""The rows below which it is half of that, but of bytes that lie as words. With 2^21 elements of bf16 and 4 to 128 rows
nests took 0.88 to 1.35 of the time, with 2^20 and fewer 0.76 to 0.91; of bytes that are put together 0.95 to 1.19 and
0.83 to 1.0, of others 0.54 to 0.93 with 2^21.

Source: as of MOST_COPIED.
"""
FAR = 3.0
"""How many times as fast as the library kernels are that may copy as much as there is: reading a copy from memory took
up to 2.6 of the library's time where they are as fast.

Source: as of MOST_COPIED.
"""
LIGHT = 12.0
"""The most work of a nest that is done with a product, in float adds: it is written out for every row of a block.

Source: a bound against compile-time growth: a function of `math:` counts as 8.
"""
FEWEST_ROWS = 4
"""The fewest rows of such a product: 4 of 1024x1024 took 0.55 to 0.97 of the library's time, 3 of them 0.74 to 1.11.

Source: as of MOST_COPIED.
"""


class NestWordProductsPass(ModulePass):
    """mm(x, w)  ->  copy of w in strips of columns; nest that sums rows of x with them, in blocks, by words

    Reassociates, and what a light nest makes of a product is made of the sum before it is rounded, as in
    `elide-roundings`. Near misses: a machine on which our kernels are not faster, and a GPU; other types; sizes that
    only the call knows; columns that are no whole vectors, and points that are no whole words; few rows; a large copy.
    """

    name = "nest-word-products"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        machine = machine_of(op)
        kinds = {
            one.element: one
            for one in (
                Words("bf16", bf16, machine.products_bf16),
                Words("i8", i8, machine.products_i8),
            )
            if one.rate > 1.0
        }
        if not kinds:
            return
        block = entry_block(op)
        positions: dict[Operation, int] = {one: position for position, one in enumerate(block.ops)}
        known: dict[object, SSAValue] = {}
        for call in list(block.ops):
            if not isinstance(call, loops.ExternOp) or "mm" not in call.overload:
                continue
            product = _product_of(call, positions)
            words = None if product is None else kinds.get(element_type_of(product.left))
            if product is None or words is None:
                continue
            if (reason := _obstacle(product, words, machine)) is not None:
                no_match(call, f"stays a library call: {reason}")
                continue
            lanes = lanes_of(product.sizes[1], machine)
            nest = word_nest(product, words, lanes, known)
            positions[nest] = positions[product.consumer or call]
            rows = ROWS if words.parts == "i8" else rows_of(machine)
            replace(product, nest, {"lanes": lanes, "rows": rows})


def _product_of(call: loops.ExternOp, positions: dict[Operation, int]) -> Product | None:
    """What a call multiplies, with the nest that is done at once, if one is."""
    if call.overload == INT_MM:
        product = _product_of_bytes(call, positions)
    else:
        product = product_of(call, positions, set(), "", fewest=1)
        if product is not None and not isinstance(element_type_of(product.result), BFloat16Type):
            return None
    if product is None or product.consumer is None:
        return product
    if (reason := _not_at_once(product, product.consumer)) is None:
        return product
    no_match(product.consumer, f"is not done with the product that it reads: {reason}")
    return Product(call, None, False, product.producers)


def _product_of_bytes(call: loops.ExternOp, positions: dict[Operation, int]) -> Product | None:
    """What `_int_mm` multiplies."""
    values = (call.tensor("self"), call.tensor("mat2"), call.results[0])
    for value, element in zip(values, (i8, i8, i32), strict=True):
        kind = value.type
        if not is_tensor_type(kind) or kind.element_type != element or len(static(sizes_of(kind))) < 2:
            return None
        if 0 in sizes_of(kind):
            return None
    return Product(call, *consumer_of(values[2], positions, set()), {}) if values[2].uses else None


def _not_at_once(product: Product, consumer: loops.NestOp) -> str | None:
    """Why a nest is not done with the product that it reads."""
    sizes = static(consumer.sizes)
    columns = product.sizes[1]
    if product.beside or len(sizes) < len(consumer.sizes) or not sizes or sizes[-1] != columns:
        return "its last axis is not that of the columns"
    work = sum(WORK.get(type(op), 0.0) for op in consumer.body.ops)
    if work > LIGHT:
        return "it is so much work that it is better written once"
    substitution = Substitution(consumer.induction_variables)
    last = sym.dim(len(sizes) - 1)
    for op in consumer.body.ops:
        if isinstance(op, loops.LoadOp | loops.StoreOp):
            tensor = op.source if isinstance(op, loops.LoadOp) else op.target
            index = [sym.simplify(one, sizes) for one in substitution.expressions(op.map.results, op.indices)]
            strides = strides_of(tensor_type_of(tensor))
            if len(static(strides)) < len(strides) or len(substitution.axes) > len(sizes):
                return "a place in memory is not known"
            along = [sym.coefficient(one, len(sizes) - 1) for one in index]
            address = sum(step * stride for step, stride in zip(along, strides, strict=True) if step)
            if address not in (0, 1) or (isinstance(op, loops.StoreOp) and address != 1):
                return "it stores, or reads, across the columns"
            if isinstance(op, loops.LoadOp) and op.source is product.result and (index[-1] != last or any(along[:-1])):
                return "its last axis is not that of the columns"
        elif not isinstance(op, elem.ElementwiseOp | loops.IndexOp):
            return f"there is a {op.name} in it"
    return None


def _obstacle(product: Product, words: Words, machine: Machine) -> str | None:
    """Why a product stays a call."""
    if traits_of_device(product.device).blocks:
        return "it is not on a processor"
    rows, columns, points = product.sizes
    if rows < FEWEST_ROWS:
        return f"it has fewer than {FEWEST_ROWS} rows"
    if not lanes_of(columns, machine):
        return f"its {columns} columns are no whole vectors"
    if points % words.count:
        return f"its {points} points are no whole words"
    result = tensor_type_of(product.result)
    if (product.consumer is None or product.is_kept) and strides_of(result)[-2:] != (columns, 1):
        return "its result does not lie row by row"
    right = tensor_type_of(product.right)
    if not has_words(right, -2) and strides_of(right)[-1] != 1:
        return "its factor of columns has gaps"
    lies_well = words.parts == "i8" and has_words(right, -2)
    most = MOST_COPIED if rows >= MANY_ROWS or lies_well else MOST_COPIED // 2
    if words.rate < FAR and columns * points * product.batch > most:
        return "its factor of columns is too large to be copied"
    return None


__all__ = ["NestWordProductsPass"]
