"""aten: what the model says, one op per ATen overload. See docs/levels.md; no module here imports torch."""

from __future__ import annotations

from cuesta.dialects.aten import schemas
from cuesta.dialects.aten.arguments import (
    Argument,
    ArgumentOrValue,
    CallArguments,
    Constant,
    Device,
    DType,
    LayoutKind,
    MemoryFormat,
    Operand,
    flatten_call,
)
from cuesta.dialects.aten.call import CallLike
from cuesta.dialects.aten.dtypes import DTypeType, dtype_to_type, has_builtin_type, type_to_dtype
from cuesta.dialects.aten.ops import (
    LITERAL_TYPE,
    AtenDialect,
    AtenOp,
    CallOp,
    LiteralOp,
    LiteralType,
    op_class,
)
from cuesta.dialects.aten.syntax import ParsedCall, parse_call, print_call
from cuesta.dialects.layout import LayoutAttr

ATEN = AtenDialect("aten", [CallOp, LiteralOp], [CallArguments, DTypeType, LiteralType, LayoutAttr])

__all__ = [
    "ATEN",
    "LITERAL_TYPE",
    "Argument",
    "ArgumentOrValue",
    "AtenOp",
    "CallArguments",
    "CallLike",
    "CallOp",
    "Constant",
    "DType",
    "DTypeType",
    "Device",
    "LayoutAttr",
    "LayoutKind",
    "LiteralOp",
    "LiteralType",
    "MemoryFormat",
    "Operand",
    "ParsedCall",
    "dtype_to_type",
    "flatten_call",
    "has_builtin_type",
    "op_class",
    "parse_call",
    "print_call",
    "schemas",
    "type_to_dtype",
]
