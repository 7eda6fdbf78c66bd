"""`widen-products`: on a processor whose library multiplies and convolves f32 many times faster than 16-bit floats,
such a call is made of f32, and its result rounded.

%y = aten.mm.default(%x, %w) : (tensor<64x32xbf16>, tensor<32x48xbf16>) -> tensor<64x48xbf16>
→
%a = aten._to_copy.default(%x, dtype = torch.float32) : (tensor<64x32xbf16>) -> tensor<64x32xf32>
%b = aten._to_copy.default(%w, dtype = torch.float32) : (tensor<32x48xbf16>) -> tensor<32x48xf32>
%p = aten.mm.default(%a, %b) : (tensor<64x32xf32>, tensor<32x48xf32>) -> tensor<64x48xf32>
%y = aten._to_copy.default(%p, dtype = torch.bfloat16) : (tensor<64x48xf32>) -> tensor<64x48xbf16>

How many times as fast f32 is, is a fact of the machine (`wide_bf16`, `wide_f16`): processors without instructions for
such numbers have no library for them, and PyTorch multiplies them element by element.
"""

from __future__ import annotations

import math
import sys

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, bf16, f16, f32
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import aten, sym
from cuesta.dialects.aten import dtypes
from cuesta.dialects.aten.arguments import DType
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.machine import machine_of
from cuesta.dialects.core.operation import replace_all_uses
from cuesta.dialects.core.tracing import no_match
from cuesta.dialects.layout import (
    contiguous_strides,
    device_of,
    element_type_of,
    is_tensor_type,
    sizes_of,
    strides_of,
    tensor_type,
    tensor_type_of,
    traits_of,
)
from cuesta.dialects.loops.surgery import remove

PRODUCTS = {
    "aten.mm.default": "self",
    "aten.bmm.default": "self",
    "aten.addmm.default": "mat1",
    "aten.baddbmm.default": "batch1",
}
"""By overload, what the left factor is called."""
CONVOLUTIONS = {"aten.convolution.default": 1, "aten.convolution_backward.default": 2}
"""By overload, how many products as large as the convolution one call is."""
CAST = 24.0
"""Additions and products of f32 in the time in which an element is cast there, or back: products of 4 rows and of one
with 2^20 elements, and the casts, took 0.66 and 0.37 ms, at 25 to 70 GFLOP/s.

Source: one thread of an EPYC (Zen 3), torch 2.13, beside other processes, docs/decisions/085.
"""
UNKNOWN = 64
"""What a size is taken to be that only the call knows.

Source: a definition.
"""


class WidenProductsPass(ModulePass):
    """mm(x, w) of bf16  ->  round(mm(f32(x), f32(w))); the same of f16, with what is added, of batches, of convolutions
    and their gradients

    Products of such numbers are exact in f32, in which libraries add them up as well, and a product of a product is one
    of what was not rounded. Near misses: a machine on which the library is not slower, and a GPU; products of bf16 that
    kernels of ours compute (`nest-word-products`); few rows or columns, whose casts take longer than the product; a
    result that is wider than the factors; nothing to multiply.
    """

    name = "widen-products"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        machine = machine_of(op)
        rates: dict[Attribute, float] = {bf16: machine.wide_bf16, f16: machine.wide_f16}
        if max(rates.values()) <= 1.0:
            return
        casts: dict[SSAValue, SSAValue] = {}
        for call in list(entry_block(op).ops):
            if not isinstance(call, aten.AtenOp) or call.overload not in PRODUCTS.keys() | CONVOLUTIONS.keys():
                continue
            kinds = {element_type_of(one) for one in _tensors(call)}
            narrow = next(iter(kinds))
            if len(kinds) > 1 or rates.get(narrow, 1.0) <= 1.0:
                continue
            if narrow == bf16 and machine.products_bf16 > 1.0 and call.overload in PRODUCTS:
                no_match(call, "is not made of f32: our own kernels multiply such numbers")
                continue
            if (reason := _obstacle(call, rates[narrow])) is not None:
                no_match(call, f"is not made of f32: {reason}")
                continue
            _widen(call, casts)


def _tensors(call: aten.AtenOp) -> list[SSAValue]:
    """The tensors that a call takes and gives."""
    return [one for one in (*call.operands, *call.results) if is_tensor_type(one.type)]


def _obstacle(call: aten.AtenOp, rate: float) -> str | None:
    """Why a call stays one of narrow numbers."""
    tensors = _tensors(call)
    if traits_of(tensors[0]).blocks:
        return "it is not on a processor"
    elements = [_elements(one) for one in tensors]
    if 0 in elements:
        return "there is nothing to multiply"
    work = _work(call)
    if rate * work <= work + CAST * sum(elements):
        return "its casts take longer than the product"
    return None


def _elements(value: SSAValue) -> int:
    return math.prod(size if isinstance(size, int) else UNKNOWN for size in sizes_of(tensor_type_of(value)))


def _work(call: aten.AtenOp) -> float:
    """Additions and products of a call."""
    if call.overload not in CONVOLUTIONS:
        points = sizes_of(tensor_type_of(call.tensor(PRODUCTS[call.overload])))[-1]
        return 2.0 * _elements(call.results[0]) * (points if isinstance(points, int) else UNKNOWN)
    weight = call.tensor("weight")
    if call.argument("transposed") is True:
        across = call.tensor("input")
    elif call.overload == "aten.convolution.default":
        across = call.results[0]
    else:
        across = call.tensor("grad_output")
    channels = sizes_of(tensor_type_of(weight))[0]
    points = _elements(weight) / (channels if isinstance(channels, int) else UNKNOWN)
    return 2.0 * CONVOLUTIONS[call.overload] * _elements(across) * points


def _widen(call: aten.AtenOp, casts: dict[SSAValue, SSAValue]) -> None:
    """Puts a call of f32 in the place of a narrow one; `casts` are those of f32 that there are."""
    operands: list[SSAValue] = []
    for value in call.operands:
        if is_tensor_type(value.type):
            if value not in casts:
                casts[value] = _cast(value, _of(value.type, f32), call)
            value = casts[value]
        operands.append(value)
    wide = type(call).create(
        operands=operands,
        result_types=[_of(one.type, f32) if is_tensor_type(one.type) else one.type for one in call.results],
        properties=dict(call.properties),
        attributes=dict(call.attributes),
    )
    wide.location = call.location
    Rewriter.insert_op(wide, InsertPoint.before(call))
    for old, new in zip(call.results, wide.results, strict=True):
        new.name_hint = old.name_hint
        if not old.uses:
            continue
        made = new
        if is_tensor_type(old.type):
            made = _cast(new, old.type, call)
            casts[made] = new  # a product that reads it reads what was not rounded
        replace_all_uses(old, made)
    remove(call)


def _cast(value: SSAValue, kind: TensorType, call: aten.AtenOp) -> SSAValue:
    """The same numbers as another type, before a call."""
    dtype = DType(dtypes.type_to_dtype(kind.element_type))
    cast = aten.op_class("aten._to_copy.default").build([value], {"dtype": dtype}, result_types=[kind])
    cast.location = call.location
    cast.results[0].name_hint = value.name_hint
    Rewriter.insert_op(cast, InsertPoint.before(call))
    return cast.results[0]


def _of(kind: TensorType, element: Attribute) -> TensorType:
    """The type of a tensor that lies as another does, but in order where that has gaps or elements over one another."""
    sizes, strides = sizes_of(kind), strides_of(kind)
    order = sorted(range(len(sizes)), key=lambda axis: (_known(strides[axis]), -axis))
    stride: sym.IndexExpr = 1
    for axis in order:
        if sizes[axis] != 1 and strides[axis] != stride:
            strides = contiguous_strides(sizes)
            break
        stride = stride * sizes[axis]
    return tensor_type(sizes, element, strides, device_of(kind))


def _known(number: sym.IndexExpr) -> int:
    """A number to sort by; those that only the call knows come last."""
    return number if isinstance(number, int) else sys.maxsize


__all__ = ["WidenProductsPass"]
