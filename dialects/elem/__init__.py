"""The `elem` dialect: elementwise scalar ops, polymorphic over a scalar and a vector of it, with PyTorch's semantics.

The ops of `elem.table` are generated from its rows; three more have types of their own: `elem.constant`,
`elem.convert` and `elem.select`. Text:

    %c = elem.add %a, %b : f32
    %m = elem.lt %a, %b : vector<8xf32>            // gives vector<8xi1>
    %d = elem.convert %a : f32 to bf16
    %e = elem.select %m, %a, %b : vector<8xf32>
    %k = elem.constant 1.0 : f32
"""

from cuesta.dialects.elem.ops import (
    ELEM,
    OPS,
    ConstantOp,
    ConvertOp,
    ElementwiseOp,
    SelectOp,
    TableOp,
    bool_like,
    constant,
    kind_of,
    make,
    scalar_of,
    with_scalar,
)
from cuesta.dialects.elem.table import TABLE, Row

__all__ = [
    "ELEM",
    "OPS",
    "TABLE",
    "ConstantOp",
    "ConvertOp",
    "ElementwiseOp",
    "Row",
    "SelectOp",
    "TableOp",
    "bool_like",
    "constant",
    "kind_of",
    "make",
    "scalar_of",
    "with_scalar",
]
