"""What a body costs per point: the numbers behind `fuse-nests`' choices. Units: one cheap vector instruction."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation

from cuesta.dialects import elem, loops
from cuesta.dialects.loops.surgery import all_ops

FREE_ARITHMETIC = 3
FREE_LOADS = 1
"""The most arithmetic and loads of a value that costs no more to compute again than to read back."""

_HEAVY = 10
_HEAVY_NAMES = frozenset({"div", "sqrt", "rsqrt", "fmod", "trunc_div"})


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a body for one point of its domain: arithmetic, loads, and the number of ops."""

    arithmetic: int
    loads: int
    ops: int

    @property
    def is_free(self) -> bool:
        """Whether computing it again costs no more than reading it back."""
        return self.arithmetic <= FREE_ARITHMETIC and self.loads <= FREE_LOADS


def arithmetic_cost(op: Operation) -> int:
    """The cost of one op."""
    if isinstance(op, elem.TableOp):
        return _HEAVY if op.row.ulp > 0 or op.row.name in _HEAVY_NAMES else 1
    if isinstance(op, elem.ConstantOp | elem.ConvertOp):
        return 0
    if isinstance(op, elem.PhiloxOp):
        return 4 * _HEAVY
    if isinstance(op, loops.BoundOp):
        return 2
    return 1 if isinstance(op, elem.SelectOp | loops.IndexOp) else 0


def body_cost(nest: loops.NestOp) -> Cost:
    """The cost of everything in the body, inner domains counted once."""
    arithmetic = loads = ops = 0
    for op in all_ops(nest):
        ops += 1
        if isinstance(op, loops.LoadOp):
            loads += 1
        else:
            arithmetic += arithmetic_cost(op)
    return Cost(arithmetic, loads, ops)
