"""What a body costs per point: the numbers behind `fuse-nests`' choices. Units: one cheap vector instruction."""

from __future__ import annotations

import functools

from xdsl.ir import Operation, SSAValue

from cuesta.dialects import elem, loops
from cuesta.dialects.core.operation import ops_of
from cuesta.dialects.core.structs import struct
from cuesta.dialects.loops.surgery import all_ops

FREE_ARITHMETIC, FREE_LOADS = 3, 1
"""The most arithmetic and loads of a value that costs no more to compute again than to read back.

Source: measured by `make bench-constants ARGS='--only cost.FREE_ARITHMETIC cost.FREE_LOADS'`
"""

MOST_OPS = 400
"""No nest is made larger than this: compile time, and registers, are finite.

Source: a bound against compile-time growth.
"""

_HEAVY = 10
"""The arithmetic of a function that has no instruction of its own, or a slow one.

Source: measured by `make bench-constants ARGS='--only cost._HEAVY'`
"""
_HEAVY_NAMES = frozenset({"div", "sqrt", "rsqrt", "fmod", "trunc_div"})


@struct
class Cost:
    """The cost of a body for one point of its domain: arithmetic, loads, and the number of ops."""

    arithmetic: int
    loads: int
    ops: int
    """Without constants, and without conversions: later passes leave few of those that fusion brings together."""

    @property
    def is_free(self) -> bool:
        """Whether computing it again costs no more than reading it back."""
        return self.arithmetic <= FREE_ARITHMETIC and self.loads <= FREE_LOADS


@functools.cache
def _cost_of(kind: type[Operation]) -> tuple[int, bool]:
    """The arithmetic of the ops of a class, and whether they count."""
    if issubclass(kind, elem.TableOp):
        slow = (kind.row.ulp > 0 and kind.row.name != "multiply_add") or kind.row.name in _HEAVY_NAMES
        return _HEAVY if slow else 1, True
    if issubclass(kind, elem.ConstantOp | elem.ConvertOp):
        return 0, False
    if issubclass(kind, elem.PhiloxOp | elem.RandomWordOp):
        return 4 * _HEAVY, True
    if issubclass(kind, loops.BoundOp):
        return 2, True
    return 1 if issubclass(kind, elem.SelectOp | elem.DotOp | loops.IndexOp) else 0, True


def arithmetic_cost(op: Operation) -> int:
    """The cost of one op."""
    return _cost_of(type(op))[0]


def body_cost(nest: loops.NestOp) -> Cost:
    """The cost of everything in the body, inner domains counted once."""
    arithmetic = loads = ops = 0
    for op in all_ops(nest):
        cost, counts = _cost_of(type(op))
        ops += counts
        arithmetic += cost
        loads += type(op) is loops.LoadOp
    return Cost(arithmetic, loads, ops)


def distinct_arithmetic(nest: loops.NestOp) -> int:
    """The arithmetic of a body without inner domains, what ops compute alike counted once: `cse` leaves one of them.

    A producer that was computed at two reads has left its ops twice.
    """
    numbers: dict[SSAValue, object] = {}
    known: dict[object, Operation] = {}
    arithmetic = 0
    for op in ops_of(nest.body):
        operands = tuple(numbers.get(value, value) for value in op.operands)
        types = tuple(result.type for result in op.results)
        first = known.setdefault((type(op), operands, types, frozenset(op.properties.items())), op)
        if first is op:
            arithmetic += arithmetic_cost(op)
        else:
            numbers.update(zip(op.results, (numbers.get(value, value) for value in first.results), strict=True))
    return arithmetic
