"""Products of matrices of 16 bits with results in f32, which are rounded nowhere: `aten.mm.dtype` and its relatives.

    mm.dtype(a, b, f32)  ->  mm(f32(a), f32(b))

where the library has none that does so itself: the same sums of the same products.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xdsl.ir import Attribute, SSAValue

from cuesta.dialects import aten, loops
from cuesta.dialects.aten import CallArguments
from cuesta.dialects.layout import (
    contiguous_strides,
    device_of,
    element_type_of,
    is_tensor,
    sizes_of,
    storage_size,
    strides_of,
    tensor_type,
    tensor_type_of,
)
from cuesta.lowering.aten.builder import AtenCall, LoopBuilder, Rule, decline

_NARROW: Final = {f"aten.{name}.dtype": f"aten.{name}.default" for name in ("mm", "bmm", "addmm", "baddbmm")}
"""By overload, the one that gives what it is given."""


def _wide_product(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    if builder.traits.wide_products:
        decline("the library's rounds nothing either")
    element = element_type_of(op.results[0])
    operands = [_widened(one, element, builder) for one in op.operands]
    arguments = op.arguments_attr
    rest = CallArguments.of(
        tuple(one for one in arguments.positional if not isinstance(one, aten.DType)),
        tuple((name, one) for name, one in arguments.keywords if name != "out_dtype"),
    )
    types = [result.type for result in op.results]
    call = loops.ExternOp.of(_NARROW[op.overload], operands, rest, types, pure=True)
    builder.emit(call)
    return list(call.results)


def _widened(value: SSAValue, element: Attribute, builder: LoopBuilder) -> SSAValue:
    """The same numbers in another type, lying as they did where they fill their memory."""
    if not is_tensor(value) or element_type_of(value) == element:
        return value
    source = tensor_type_of(value)
    sizes, strides = sizes_of(source), strides_of(source)
    dense = storage_size(source) == storage_size(tensor_type(sizes, element)) and 0 not in strides
    result = tensor_type(sizes, element, strides if dense else contiguous_strides(sizes), device_of(source))
    with builder.nest(sizes, [result]) as nest:
        builder.store(builder.load(value, nest.indices), nest.handles[0], nest.indices)
    return nest.results[0]


RULES: dict[str, Rule] = dict.fromkeys(_NARROW, _wide_product)
"""Products that are given the type of their results."""
