"""The `elem` dialect: elementwise scalar ops, polymorphic over a scalar and a vector of it, with PyTorch's semantics.

The ops of `elem.table` are generated from its rows; five more have types of their own: `elem.constant`,
`elem.convert`, `elem.bitcast`, `elem.philox` and `elem.select`. Text:

    %c = elem.add %a, %b : f32
    %x = elem.exp %c : f32 precision bf16          // may be as far off as its row says of bf16
    %m = elem.lt %a, %b : vector<8xf32>            // gives vector<8xi1>
    %d = elem.convert %a : f32 to bf16
    %b = elem.bitcast %a : f32 to i32
    %w = elem.philox 0 of %key, %counter : i64     // a random word
    %e = elem.select %m, %a, %b : vector<8xf32>
    %k = elem.constant 1.0 : f32
"""

from cuesta.dialects.elem.ops import (
    ELEM,
    OPS,
    BitcastOp,
    ConstantOp,
    ConvertOp,
    ElementwiseOp,
    PhiloxOp,
    SelectOp,
    TableOp,
    bits_type,
    bool_like,
    constant,
    extended_dialect,
    format_number,
    kind_of,
    make,
    op_class_of,
    scalar_of,
    with_scalar,
)
from cuesta.dialects.elem.table import TABLE, Approximation, Row

__all__ = [
    "ELEM",
    "OPS",
    "TABLE",
    "Approximation",
    "BitcastOp",
    "ConstantOp",
    "ConvertOp",
    "ElementwiseOp",
    "PhiloxOp",
    "Row",
    "SelectOp",
    "TableOp",
    "bits_type",
    "bool_like",
    "constant",
    "extended_dialect",
    "format_number",
    "kind_of",
    "make",
    "op_class_of",
    "scalar_of",
    "with_scalar",
]
