"""Attention of one query: its two products of one row, and the softmax between them, as three nests.

    %o, %l = loops.extern "aten._scaled_dot_product_flash_attention_for_cpu.default"(%q, %k, %v, attn_mask = %m)
    →
    %s     = loops.nest (%b, %h, %t) { (sum (%d) of %q[%b, %h, 0, %d] · %k[%b, %h, %t, %d]) · scale + %m[…, %t] }
    %e, %n = loops.nest (%b, %h) { greatest of %s; e^(%s − greatest), and the sum of those }
    %o     = loops.nest (%b, %h, 0, %d) { (sum (%t) of %e[%b, %h, %t] · %v[%b, %h, %t, %d]) / %n }

Nothing is decided here but what can be said so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.structs import struct
from cuesta.dialects.layout import is_tensor_type, sizes_of, strides_of, tensor_type, tensor_type_of
from cuesta.transforms.products.products import insert, load_in_f32, static

ATTENTION = "aten._scaled_dot_product_flash_attention_for_cpu.default"


@struct
class Attention:
    """A call of a library's attention that has one query for each head."""

    call: loops.ExternOp
    query: SSAValue
    key: SSAValue
    value: SSAValue
    mask: SSAValue | None
    scale: float
    """What a product is multiplied by, before the mask is added."""

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Batch, heads, keys, and the elements of one."""
        batch, heads, keys, width = static(sizes_of(tensor_type_of(self.key)))
        return batch, heads, keys, width


def attention_of(call: loops.ExternOp) -> Attention | str:
    """The attention of one query that a call is, of f32 and of known sizes; or why it is none.

    Requires: a call of ATTENTION.
    """
    query, key, value = (call.tensor(name) for name in ("query", "key", "value"))
    mask = call.optional_tensor("attn_mask")
    for one in (query, key, value, *(() if mask is None else (mask,))):
        if not is_tensor_type(one.type) or one.type.element_type != f32:
            return "it is not of f32"
        if len(static(sizes_of(one.type))) < len(sizes_of(one.type)) or 0 in sizes_of(one.type):
            return "a size is 0, or only the call knows it"
    batch, heads, keys, width = static(sizes_of(tensor_type_of(key)))
    if tuple(sizes_of(tensor_type_of(query))) != (batch, heads, 1, width):
        return "it has several queries, or heads that share keys"
    if tuple(sizes_of(tensor_type_of(value))) != (batch, heads, keys, width):
        return "values are of another size than keys"
    if call.results[1].uses or call.argument("is_causal") or call.argument("dropout_p"):
        return "its logarithms are asked for, it is causal, or it leaves out at random"
    scale = call.argument("scale")
    if scale is not None and not isinstance(scale, int | float):
        return "its scale is not known"
    return Attention(call, query, key, value, mask, width**-0.5 if scale is None else float(scale))


def lies_in_rows(tensor: SSAValue) -> bool:
    """Whether the elements of a key are neighbours."""
    return strides_of(tensor_type_of(tensor))[-1] == 1


def nests_of(attention: Attention) -> tuple[loops.NestOp, loops.NestOp, loops.NestOp]:
    """The nests that compute an attention, in order; the last one gives its result. They stand nowhere yet.

    Where a mask takes out all keys the result is 0, as the library's is.
    """
    products = _products(attention)
    exponentials = _exponentials(attention, products.results[0])
    return products, exponentials, _weighted(attention, *exponentials.results)


class _Body:
    """Appends ops to the body of a nest, or of a reduction in one, located as the call is."""

    def __init__(
        self, attention: Attention, domain: loops.NestOp | loops.ReduceOp, around: _Body | None = None
    ) -> None:
        self.attention, self.domain, self.around = attention, domain, around
        self.axes: list[SSAValue] = [*(around.axes if around is not None else ()), *domain.induction_variables]
        self.dims: list[sym.IndexExpr] = [sym.dim(axis) for axis in range(len(self.axes))]
        self.sizes: tuple[sym.IndexExpr, ...] = (*(around.sizes if around is not None else ()), *domain.sizes)
        self.place = InsertPoint.at_end(domain.body)

    def reduction(self, kind: str, points: int) -> _Body:
        """The body of a reduction in this one."""
        return _Body(self.attention, loops.ReduceOp.build(kind, [points], f32), self)

    def reduced(self, value: SSAValue) -> SSAValue:
        """Ends the reduction with what it reduces; gives what comes of it, in the body around."""
        assert self.around is not None
        self.add(loops.YieldOp.build(value))
        return self.around.value(self.domain)

    def load(self, tensor: SSAValue, dims: Sequence[sym.IndexExpr]) -> SSAValue:
        """An element, not through views."""
        return load_in_f32(tensor, dims, self.axes, self.sizes, self.attention.call, self.place)

    def store(self, value: SSAValue, handle: SSAValue, dims: Sequence[sym.IndexExpr]) -> None:
        """Writes an element."""
        self.add(loops.StoreOp.build(value, handle, dims, self.axes))

    def value(self, op: Operation) -> SSAValue:
        """Appends an op; gives its result."""
        result = self.add(op)
        assert result is not None
        return result

    def op(self, name: str, *operands: SSAValue) -> SSAValue:
        """Appends an op of the table."""
        return self.value(elem.make(name, *operands))

    def number(self, value: float) -> SSAValue:
        """Appends a constant."""
        return self.value(elem.constant(value, f32))

    def otherwise(self, value: SSAValue, number: float, other: float) -> SSAValue:
        """`value`, but `other` where it is `number`."""
        is_number = self.op("eq", value, self.number(number))
        return self.value(elem.SelectOp.build(is_number, self.number(other), value))

    def add(self, op: Operation) -> SSAValue | None:
        """Appends an op."""
        return insert(op, self.attention.call, self.place)


def _products(attention: Attention) -> loops.NestOp:
    """What the query and each key have in common: their products, scaled and masked."""
    batch, heads, keys, width = attention.sizes
    nest = loops.NestOp.build([batch, heads, keys], [tensor_type([batch, heads, keys], f32)])
    outer = _Body(attention, nest)
    inner = outer.reduction("sum", width)
    one, head, key, k = inner.dims
    query = inner.load(attention.query, [one, head, 0, k])
    score = inner.reduced(inner.op("mul", query, inner.load(attention.key, [one, head, key, k])))
    score = outer.op("mul", score, outer.number(attention.scale))
    if attention.mask is not None:
        shape = sizes_of(tensor_type_of(attention.mask))
        place = [0 if size == 1 else dim for size, dim in zip(shape[::-1], (key, 0, head, one), strict=False)]
        score = outer.op("add", score, outer.load(attention.mask, place[::-1]))
    outer.store(score, nest.handles[0], outer.dims)
    return nest


def _exponentials(attention: Attention, scores: SSAValue) -> loops.NestOp:
    """e^(score − greatest), and their sum."""
    batch, heads, keys, _ = attention.sizes
    nest = loops.NestOp.build([batch, heads], [scores.type, tensor_type([batch, heads], f32)])
    outer = _Body(attention, nest)
    inner = outer.reduction("maximum", keys)
    greatest = outer.otherwise(inner.reduced(inner.load(scores, inner.dims)), -math.inf, 0.0)
    inner = outer.reduction("sum", keys)
    exponential = inner.op("exp", inner.op("sub", inner.load(scores, inner.dims), greatest))
    inner.store(exponential, nest.handles[0], inner.dims)
    outer.store(inner.reduced(exponential), nest.handles[1], outer.dims)
    return nest


def _weighted(attention: Attention, exponentials: SSAValue, sums: SSAValue) -> loops.NestOp:
    """The sum of the values, each as often as its exponential says, divided by the sum of those."""
    batch, heads, keys, width = attention.sizes
    nest = loops.NestOp.build([batch, heads, width], [attention.call.results[0].type])
    outer = _Body(attention, nest)
    one, head, column = outer.dims
    inner = outer.reduction("sum", keys)
    weight = inner.load(exponentials, [one, head, inner.dims[-1]])
    total = inner.reduced(inner.op("mul", weight, inner.load(attention.value, [one, head, inner.dims[-1], column])))
    divisor = outer.otherwise(outer.load(sums, [one, head]), 0.0, 1.0)
    outer.store(outer.op("div", total, divisor), nest.handles[0], [one, head, 0, column])
    return nest


__all__ = ["Attention", "attention_of", "lies_in_rows", "nests_of"]
