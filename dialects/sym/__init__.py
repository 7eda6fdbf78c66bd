"""The `sym` dialect: integer expressions over dimensions and symbols, and index maps made of them.

`expr` has the expressions, `simplify` the laws, `solving` solves linear ones,
`map` and `attributes` the xDSL side, `syntax` the parser and printer.
"""

from cuesta.dialects.sym.attributes import SYM, ExprAttr, IntType, SymbolsAttr, ValueOp
from cuesta.dialects.sym.expr import (
    Expr,
    IndexExpr,
    alternatives,
    ceildiv,
    coefficient,
    dim,
    dims_of,
    evaluate,
    format_expr,
    line_of,
    maximum,
    minimum,
    product_of,
    shift_dims,
    substitute,
    symbol,
    symbols_of,
)
from cuesta.dialects.sym.map import MapAttr
from cuesta.dialects.sym.simplify import (
    SymbolRanges,
    bounds,
    delinearize,
    linearize,
    prove_equal,
    prove_less_equal,
    simplify,
)
from cuesta.dialects.sym.solving import Solution, solve

__all__ = [
    "SYM",
    "Expr",
    "ExprAttr",
    "IndexExpr",
    "IntType",
    "MapAttr",
    "Solution",
    "SymbolRanges",
    "SymbolsAttr",
    "ValueOp",
    "alternatives",
    "bounds",
    "ceildiv",
    "coefficient",
    "delinearize",
    "dim",
    "dims_of",
    "evaluate",
    "format_expr",
    "line_of",
    "linearize",
    "maximum",
    "minimum",
    "product_of",
    "prove_equal",
    "prove_less_equal",
    "shift_dims",
    "simplify",
    "solve",
    "substitute",
    "symbol",
    "symbols_of",
]
