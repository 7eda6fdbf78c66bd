"""Algebra: laws, each one equation from which the rewrite and its proof come, and the pass that applies them.

`docs/algebra.md` lists the laws and says how to write one. `terms.py` is what they are written in, `law.py` what one
is; the themes (`identities.py`, `signs.py`, …) hold the laws, `table.py` all of them; `matching.py` makes rewrites of
them, `canonicalize.py` applies them; `cuesta.laws` proves them.
"""

from cuesta.transforms.algebra.law import Condition, Law
from cuesta.transforms.algebra.terms import (
    BOOL,
    T,
    Term,
    Type,
    apply,
    constants,
    maximum,
    minimum,
    reduce,
    select,
    variables,
)

__all__ = [
    "BOOL",
    "Condition",
    "Law",
    "T",
    "Term",
    "Type",
    "apply",
    "constants",
    "maximum",
    "minimum",
    "reduce",
    "select",
    "variables",
]
