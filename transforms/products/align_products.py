"""`align-products`: a product of 16-bit numbers whose rows do not begin where vectors may is one of larger matrices.

%y = loops.extern pure "aten.mm.default"(%a, %b) : (…, tensor<1024x127xbf16>) -> tensor<16384x127xbf16>
→
%c = loops.nest (%k : 1024, %j : 128) … { load %b[%k, %j] if %j < 127 else 0 }
%y = loops.extern pure "aten.mm.default"(%a, %c) : (…, tensor<1024x128xbf16>) -> tensor<16384x128xbf16>

Libraries load the factors by vectors of 16 bytes, and have slow kernels of old devices for matrices whose rows are no
multiple of these, however they lie. Who reads the product reads a part of it, whose rows begin where vectors may.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import loops, sym
from cuesta.dialects.aten import flatten_call
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.machine import Machine, machine_of
from cuesta.dialects.core.operation import replace_all_uses
from cuesta.dialects.core.structs import struct
from cuesta.dialects.core.tracing import no_match
from cuesta.dialects.layout import (
    device_of,
    element_type_of,
    is_contiguous,
    sizes_of,
    strides_of,
    tensor_type,
    tensor_type_of,
    traits_of,
)
from cuesta.dialects.loops.analysis import byte_width
from cuesta.dialects.loops.surgery import remove, through_views
from cuesta.dialects.loops.writing import BodyWriter, read_only_where, type_of_positions
from cuesta.transforms.products.pieces import computed
from cuesta.transforms.products.products import (
    Product,
    convolutions_taken,
    producer_of,
    products_of,
    static,
)
from cuesta.transforms.products.widen_channels import gains_by_channels, widen_channels

_TILE = 128
"""Rows and columns of a product that a processor computes at a time.

Source: the names of the library's kernels.
"""
_LOST = 590
"""The bytes that a processor could move meanwhile, for every point of the sums of a tile, where a size is odd: 12
products took 2 to 5 times as long (32 of 512x2048 by 2048x127 bf16 101 us, with 128 columns 43; 16384x1023 by 1023x1024
254 and 53), and the bytes that this says are 0.5 to 1.2 of what they lost.

Source: products of all sorts of sizes on an H100.
"""
_LOST_EVEN = 0.45
"""What even sizes lose of that, for which there are kernels with vectors of 4 bytes: 145 us where 1025 points take 253.

Source: as above, 60 products.
"""
_FEWEST_TILES = 0.4
"""For every processor: fewer tiles are made smaller, so that more processors have one.

Source: as above: 1024x1000 by 1000x501, of 32 tiles, lost 13 us.
"""

_ROWS, _COLUMNS, _POINTS = range(3)
"""The sizes of a product: of the left factor and the result, of the right factor and the result, and of each sum.

Source: a definition: the order of `Product.sizes`.
"""


class AlignProductsPass(ModulePass):
    """mm(a, b) -> mm(a', b'), of which the result is a part, where a' and b' are a and b with zeros around them. So,
    too, of a convolution of few channels (`widen_channels.py`).

    Reassociates: a library adds up in another order. Infinities and NaN come out the same: what is added is 0 · 0. Near
    misses: sizes that are multiples of vectors; f32, whose products take no vectors; a product so small, or factors so
    large, that copies cost more; a transposed factor of which only the other axis would have to be longer; a CPU.
    """

    name = "align-products"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        machine = machine_of(op)
        for product in products_of(
            entry_block(op), precision="", convolutions=convolutions_taken(False, unmeasured=False)
        ):
            if not traits_of(product.result).blocks:
                continue
            if product.windows is not None:
                if not traits_of(product.result).contractions:
                    continue
                if (reason := gains_by_channels(product, machine)) is not None:
                    no_match(product.call, f"keeps its channels: {reason}")
                else:
                    widen_channels(product)
                continue
            change = _change_of(product, machine)
            if not change.longer:
                continue
            if (reason := _obstacle(product, change, machine)) is not None:
                no_match(product.call, f"keeps its odd sizes: {reason}")
            else:
                _align(product, change)


@struct
class _Change:
    """What sizes become, in the order of rows, columns and points; and which of them are longer."""

    sizes: tuple[int, ...]
    longer: frozenset[int]


def _change_of(product: Product, machine: Machine) -> _Change:
    """The sizes that an axis in memory has, of a factor or of the result, are to be multiples of a vector's."""
    vector = machine.vector * 8 // product.bits
    rows, columns, points = product.sizes
    inner = {_COLUMNS}
    for factor, axes in _axes_of(product):
        found = _inner(factor)
        if found is not None:
            inner.add(axes[found])
    sizes = [-(-size // vector) * vector if one in inner else size for one, size in enumerate((rows, columns, points))]
    longer = frozenset(one for one in inner if sizes[one] != product.sizes[one])
    return _Change(tuple(sizes), longer)


def _axes_of(product: Product) -> list[tuple[SSAValue, tuple[int, int]]]:
    """The factors, with the sizes that their last two axes have."""
    return [(product.left, (_ROWS, _POINTS)), (product.right, (_POINTS, _COLUMNS))]


def _inner(factor: SSAValue) -> int | None:
    """Which of the last two axes of a factor has neighbours in memory; None where neither has."""
    strides = strides_of(tensor_type_of(factor))[-2:]
    return next((axis for axis in (1, 0) if strides[axis] == 1), None)


def _obstacle(product: Product, change: _Change, machine: Machine) -> str | None:
    """Why a product keeps its sizes; None where that of other sizes is expected to take less, copies included."""
    if (added := _added(product)) is not None and len(sizes_of(tensor_type_of(added))) != 1:
        return "what is added is a matrix"
    if not is_contiguous(tensor_type_of(product.result)):
        return "the result does not lie row by row"
    if any(_inner(factor) is None for factor, _ in _axes_of(product)):
        return "a factor has no rows or columns in memory"
    rows, columns, points = product.sizes
    tiles = product.batch * math.ceil(rows / _TILE) * math.ceil(columns / _TILE)
    odd = any(product.sizes[one] % 2 for one in change.longer)
    lost = _LOST * (1.0 if odd else _LOST_EVEN) * points * max(tiles, _FEWEST_TILES * machine.processors)
    copied = 0.0
    for factor, axes in _axes_of(product):
        if change.longer.intersection(axes) and producer_of(factor) is None:
            copied += machine.launch_bytes + 2.0 * math.prod(static(sizes_of(tensor_type_of(factor)))) * byte_width(
                factor
            )
    if added is not None and _COLUMNS in change.longer:
        copied += machine.launch_bytes
    if _is_cut(change) and _others(product):
        copied += machine.launch_bytes + 2.0 * product.batch * rows * columns * byte_width(product.result)
    if copied >= lost:
        return f"copies move {copied:.3g} bytes, and the library loses the time of {lost:.3g}"
    return None


def _added(product: Product) -> SSAValue | None:
    """What a call is given to add, even if it does so 0 times."""
    return product.call.tensor("self") if "add" in product.call.overload else None


def _is_cut(change: _Change) -> bool:
    """Whether the result is larger than who reads it knows."""
    return bool(change.longer & {_ROWS, _COLUMNS})


def _others(product: Product) -> list[Operation]:
    """Who reads the product, and is no load of a nest."""
    return [use.operation for use in product.result.uses if not isinstance(use.operation, loops.LoadOp)]


def _align(product: Product, change: _Change) -> None:
    """Puts a product of other sizes in the place of one."""
    call, before = product.call, [product.left, product.right]
    given: list[SSAValue] = []
    if (added := _added(product)) is not None:
        longer = _COLUMNS in change.longer
        given.append(_longer(product, added, (change.sizes[_COLUMNS],), (0,)) if longer else added)
    for factor, axes in _axes_of(product):
        sizes = (*static(sizes_of(tensor_type_of(factor))[:-2]), *(change.sizes[axis] for axis in axes))
        order = list(range(len(sizes)))
        if _inner(factor) == 0:
            order[-2:] = order[:-3:-1]
        given.append(_longer(product, factor, sizes, order) if change.longer.intersection(axes) else factor)
    operands, arguments = flatten_call(given, call.arguments_attr.keywords)
    old = tensor_type_of(product.result)
    sizes = (*sizes_of(old)[:-2], change.sizes[_ROWS], change.sizes[_COLUMNS])
    made = tensor_type(sizes, old.element_type, device=device_of(old))
    new = loops.ExternOp.of(call.overload, operands, arguments, [made], pure="pure" in call.properties)
    new.location = call.location
    new.results[0].name_hint = call.results[0].name_hint
    Rewriter.insert_op(new, InsertPoint.before(call))
    others = _others(product) if _is_cut(change) else []
    for use in list(product.result.uses):
        if use.operation not in others:
            use.operation.operands[use.index] = new.results[0]
    if others:
        replace_all_uses(product.result, _nest(product, new.results[0], static(sizes_of(old)), range(len(sizes))))
    remove(call)
    for value in before:
        _forget(value)


def _forget(value: SSAValue) -> None:
    """Removes views, and the nest, that nobody reads any more."""
    while not value.uses and isinstance(owner := value.owner, loops.ViewOp | loops.NestOp):
        below = owner.source if isinstance(owner, loops.ViewOp) else None
        if isinstance(owner, loops.NestOp) and any(result.uses for result in owner.results):
            return
        remove(owner)
        if below is None:
            return
        value = below


def _longer(product: Product, tensor: SSAValue, sizes: Sequence[int], order: Sequence[int]) -> SSAValue:
    """A copy of a tensor with zeros behind it, its axes in memory in some order."""
    call, copy = product.call, _nest(product, tensor, sizes, order)
    if list(order) == sorted(order):
        return copy
    kind = tensor_type_of(copy)
    strides = [strides_of(kind)[order.index(axis)] for axis in range(len(order))]
    wanted = tensor_type(tuple(sizes), kind.element_type, strides, device_of(kind))
    view = loops.ViewOp.build(
        copy, sym.MapAttr.get(len(order), tuple(sym.dim(order[k]) for k in range(len(order)))), wanted
    )
    view.location = call.location
    Rewriter.insert_op(view, InsertPoint.before(call))
    return view.results[0]


def _nest(product: Product, tensor: SSAValue, sizes: Sequence[int], order: Collection[int]) -> SSAValue:
    """A nest that copies the elements of a tensor that there are, and stores zeros elsewhere: of these sizes, its axes
    in memory in some order. What only the product needs is computed there.
    """
    call, old, every = product.call, tensor_type_of(tensor), list(order)
    element = element_type_of(tensor)
    kind = tensor_type([sizes[axis] for axis in every], element, device=device_of(old))
    nest = loops.NestOp.build(sizes_of(kind), [kind])
    nest.location = call.location
    writer, variables = BodyWriter(nest.body, call), nest.induction_variables
    there: SSAValue | None = None
    for axis, own in enumerate(static(sizes_of(old))):
        if own < sizes[axis]:
            number = writer.add(loops.IndexOp.build(sym.dim(0), [variables[every.index(axis)]], type_of_positions(own)))
            test = writer.make("lt", number, writer.constant(own, type_of_positions(own)))
            there = test if there is None else writer.make("and", there, test)
    source, indices = through_views(tensor, [sym.dim(every.index(axis)) for axis in range(len(every))])
    indices = [sym.simplify(index, sizes_of(kind)) for index in indices]
    if (producer := producer_of(tensor)) is not None:
        value = computed(producer, indices, variables, InsertPoint.at_end(nest.body))
        if there is not None:
            value = writer.select(there, value, writer.constant(0.0, element))
    else:
        value = writer.add(loops.LoadOp.build(source, indices, variables))
    store = loops.StoreOp.build(value, nest.handles[0], [sym.dim(k) for k in range(len(every))], variables)
    store.location = call.location
    nest.body.add_op(store)
    if there is not None:
        read_only_where(there, nest)
    Rewriter.insert_op(nest, InsertPoint.before(call))
    return nest.results[0]


__all__ = ["AlignProductsPass"]
