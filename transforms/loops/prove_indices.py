"""`prove-indices`: an index whose arithmetic says that it is in range is not checked.

    %i = loops.index [%r, %c] (d0 - d1 + 99) : i64;  %k = loops.bound %i, 199 wrap
    →
    %k = loops.bound %i, 199 checked                                     where %r, %c < 100

On a GPU a check is an assertion at every point. A bias that is looked up for each distance between a query and a key
would have as many as scores.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Attribute, Operation, SSAValue

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.operation import all_ops, ops_of
from cuesta.dialects.loops.surgery import index_ranges
from cuesta.transforms.devices import DevicePass, traits_for

Interval = tuple[int, int] | None
"""The least and the greatest that an integer may be; None when nobody knows, or it may wrap around."""


class ProveIndicesPass(DevicePass):
    """bound v, n wrap  ->  bound v, n checked, where 0 ≤ v < n is known; where -n ≤ v < n is, it stays a `wrap`

    Exact. Near misses: an index that a tensor holds; one that is out of range at some point, also where nothing is read
    there; sizes that only the call knows; arithmetic that may wrap around; a CPU.
    """

    name = "prove-indices"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for nest in ops_of(entry_block(op)):
            if isinstance(nest, loops.NestOp) and traits_for(nest, self.target).blocks:
                known: dict[SSAValue, Interval] = {}
                for inner in all_ops(nest):
                    if isinstance(inner, loops.BoundOp) and not inner.is_checked and not inner.is_of_divisor:
                        _prove(inner, known)


def _prove(bound: loops.BoundOp, known: dict[SSAValue, Interval]) -> None:
    size = bound.size
    found = _interval(bound.operands[0], known) if isinstance(size, int) else None
    if found is None or not isinstance(size, int) or found[1] >= size or found[0] < (-size if bound.wrap else 0):
        return
    bound.properties["checked"] = UnitAttr()
    if found[0] >= 0:
        bound.properties.pop("wrap", None)


def interval(value: SSAValue) -> Interval:
    """The least and the greatest that an integer may be, by the arithmetic that makes it; None when nobody knows."""
    return _interval(value, {})


def _interval(value: SSAValue, known: dict[SSAValue, Interval]) -> Interval:
    if value not in known:
        known[value] = None
        owner = value.owner
        if isinstance(owner, Operation):
            known[value] = _within(_of_op(owner, known), elem.scalar_of(value.type))
    return known[value]


def _within(found: Interval, kind: Attribute) -> Interval:
    """The interval, if integers of the type hold all of it: beyond, they would wrap around."""
    letter = elem.kind_of(kind)
    if found is None or letter not in "iu":
        return None
    is_signed = letter == "i"
    bits = getattr(kind, "bitwidth", 0) - is_signed
    return found if (-(1 << bits) if is_signed else 0) <= found[0] and found[1] < 1 << bits else None


def _of_op(op: Operation, known: dict[SSAValue, Interval]) -> Interval:
    if isinstance(op, loops.IndexOp):
        sizes = index_ranges(op, op.indices)
        if sizes is None or not all(isinstance(size, int) and size > 0 for size in sizes):
            return None
        low, high = sym.bounds(op.map.results[0], sizes)
        return None if low is None or high is None else (low, high)
    if isinstance(op, elem.ConstantOp):
        return int(op.value), int(op.value)
    if isinstance(op, elem.SelectOp):
        first, second = (_interval(one, known) for one in op.operands[1:])
        return None if first is None or second is None else (min(first[0], second[0]), max(first[1], second[1]))
    if isinstance(op, elem.ConvertOp):
        return _interval(op.operands[0], known)
    if isinstance(op, elem.TableOp):
        operands = [_interval(one, known) for one in op.operands]
        known_operands = [one for one in operands if one is not None]
        if len(known_operands) == len(operands):
            return _of_row(op.row.name, known_operands)
    return None


def _of_row(name: str, operands: list[tuple[int, int]]) -> Interval:
    (low, high), *others = operands
    if name == "neg":
        return -high, -low
    if name == "abs":
        return 0 if low <= 0 <= high else min(abs(low), abs(high)), max(abs(low), abs(high))
    if not others:
        return None
    least, most = others[0]
    if name == "add":
        return low + least, high + most
    if name == "sub":
        return low - most, high - least
    if name == "mul":
        ends = [one * other for one in (low, high) for other in (least, most)]
        return min(ends), max(ends)
    if name == "maximum":
        return max(low, least), max(high, most)
    if name == "minimum":
        return min(low, least), min(high, most)
    return None


__all__ = ["ProveIndicesPass", "interval"]
