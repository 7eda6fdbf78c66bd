"""How the targets and the constant arguments of FX nodes are said at the level `aten`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import torch
from torch._ops import OpOverload
from xdsl.dialects.builtin import StringAttr

from cuesta.dialects.aten import (
    Argument,
    AtenOp,
    CallOp,
    Device,
    DType,
    LayoutKind,
    MemoryFormat,
    op_class,
    schemas,
)
from cuesta.dialects.core.structs import struct


@struct
class Callee:
    """How an overload is called."""

    op: type[AtenOp] | type[CallOp]
    name: StringAttr | None
    """The property `callee`, for `aten.call`."""
    result_count: int


@cache
def callee_of(target: OpOverload[..., Any]) -> Callee:
    """The overload's own op, or `aten.call` where the table does not know it, or knows it with other arguments."""
    schema = target._schema  # pyright: ignore[reportPrivateUsage]  # the schema has no public name
    result_count = len(schema.returns)
    namespace, name = schema.name.split("::")
    suffix = schema.overload_name or "default"
    overload = f"{namespace}.{name}.{suffix}"
    if namespace == "aten" and schemas.has_operation(overload):
        known = schemas.lookup(overload)
        # The torch at hand may be another than the one that the table was written with.
        if known is not None and [argument.name for argument in schema.arguments] == list(known.positions):
            return Callee(op_class(overload), None, result_count)
    return Callee(CallOp, StringAttr(f"{schema.name}.{suffix}"), result_count)


@cache
def is_symbolic_query(target: OpOverload[..., Any]) -> bool:
    """Whether the overload asks for a size, a stride, …, which the result's own expression already says."""
    name = target.name()
    return name.startswith("aten::sym_") and not name.startswith("aten::sym_constrain")


def _unchanged(constant: Any) -> Argument:
    return constant


CONSTANT_CONVERTERS: Final[dict[type, Callable[[Any], Argument]]] = {
    int: _unchanged,
    bool: _unchanged,
    float: _unchanged,
    complex: _unchanged,
    str: _unchanged,
    type(None): _unchanged,
    torch.dtype: lambda dtype: DType(str(dtype)[6:]),
    torch.device: lambda device: Device(str(device)),
    torch.memory_format: lambda memory_format: MemoryFormat(str(memory_format)[6:]),
    torch.layout: lambda layout: LayoutKind(str(layout)[6:]),
}
"""What becomes of a constant, by its type."""
