"""Masks that are made of indices alone, as conditions on loop variables."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from xdsl.ir import Operation, SSAValue

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.elem import kind_of

_OF_INDICES: Final[Mapping[str, Callable[..., Any]]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "not": operator.invert,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


@dataclass(frozen=True, eq=False)
class Condition:
    """A value of type i1 that depends on loop variables and nothing else."""

    value: SSAValue
    variables: frozenset[SSAValue]

    def holds(self, arrays: Mapping[SSAValue, Any], symbols: Mapping[str, int]) -> Any:
        """Where it is true: arrays of the variables' values give an array."""
        return _evaluate(self.value, arrays, symbols, {})


def conditions_of(mask: SSAValue) -> list[Condition] | None:
    """The conditions that must all hold for a mask; None where data have a part in it."""
    found: list[Condition] = []
    pending = [mask]
    while pending:
        value = pending.pop()
        owner = value.owner
        if isinstance(owner, elem.TableOp) and owner.row.name == "and" and kind_of(value.type) == "b":
            pending += owner.operands
            continue
        variables = _variables(value)
        if variables is None:
            return None
        found.append(Condition(value, frozenset(variables)))
    return found


def _variables(value: SSAValue) -> set[SSAValue] | None:
    found: set[SSAValue] = set()
    pending, seen = [value], set[SSAValue]()
    while pending:
        one = pending.pop()
        if one in seen:
            continue
        seen.add(one)
        owner = one.owner
        if isinstance(owner, loops.IndexOp):
            for index in owner.indices:
                if isinstance(index.owner, Operation):  # an index made of data
                    return None
                found.add(index)
        elif isinstance(owner, elem.ConstantOp):
            continue
        elif isinstance(owner, elem.TableOp | elem.ConvertOp | elem.SelectOp) and _is_of_indices(owner):
            pending += owner.operands
        else:
            return None
    return found


def _is_of_indices(op: elem.TableOp | elem.ConvertOp | elem.SelectOp) -> bool:
    """Whether it is one of the ops above, on integers."""
    known = not isinstance(op, elem.TableOp) or op.row.name in _OF_INDICES
    return known and all(kind_of(value.type) in "iub" for value in (*op.operands, *op.results))


def _evaluate(
    value: SSAValue, arrays: Mapping[SSAValue, Any], symbols: Mapping[str, int], known: dict[SSAValue, Any]
) -> Any:
    if value in known:
        return known[value]
    owner = value.owner
    assert isinstance(owner, Operation)
    result: Any
    if isinstance(owner, loops.IndexOp):
        dims = [arrays[index] for index in owner.indices]
        result = np.asarray(sym.evaluate(owner.map.results[0], dims, symbols))
    elif isinstance(owner, elem.ConstantOp):
        result = np.asarray(owner.value)
    else:
        operands = [_evaluate(operand, arrays, symbols, known) for operand in owner.operands]
        if isinstance(owner, elem.SelectOp):
            result = np.where(*operands)
        elif isinstance(owner, elem.ConvertOp):
            result = operands[0]
        else:
            assert isinstance(owner, elem.TableOp)
            result = _OF_INDICES[owner.row.name](*operands)
    known[value] = result
    return result
