"""Looks at an op's properties, and at a value's place, with exact types: xDSL gives them as `Attribute` and `SSAValue`.

Each raises a VerifyException naming the op when what it finds is of another kind, so it is right in verifiers too.
"""

from __future__ import annotations

from typing import TypeVar

from xdsl.dialects.builtin import IntegerAttr, StringAttr, SymbolRefAttr, i64
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects.core.interning import Memo

_AttributeT = TypeVar("_AttributeT", bound=Attribute)
_INTEGERS = Memo[int, IntegerAttr](4096)
_SYMBOLS = Memo[str, SymbolRefAttr](4096)


def integer_attribute(value: int) -> IntegerAttr:
    """The `value : i64`, one for all ops: xDSL checks each that it makes."""
    found = _INTEGERS.get(value)
    return _INTEGERS.keep(value, IntegerAttr(value, i64)) if found is None else found


def symbol_attribute(name: str) -> SymbolRefAttr:
    """The `@name`, one for all ops."""
    found = _SYMBOLS.get(name)
    return _SYMBOLS.keep(name, SymbolRefAttr(name)) if found is None else found


def property_of(op: Operation, name: str, kind: type[_AttributeT]) -> _AttributeT:
    """The property `name` of the op, an attribute of the class `kind`."""
    attribute = op.properties.get(name)
    if not isinstance(attribute, kind):
        raise VerifyException(f"{op.name} needs the property `{name}`, of the kind {kind.name}")
    return attribute


def string_property(op: Operation, name: str) -> str:
    """The text of a string property."""
    return property_of(op, name, StringAttr).data


def integer_property(op: Operation, name: str) -> int:
    """The value of an integer property."""
    return property_of(op, name, IntegerAttr).value.data


def symbol_property(op: Operation, name: str) -> str:
    """The name that a symbol reference, such as `@softmax_0`, refers to."""
    return property_of(op, name, SymbolRefAttr).root_reference.data


def verify_counts(op: Operation, *, operands: int, results: int, at_most: int | None = None) -> None:
    """Checks how many operands (from `operands` to `at_most`, or just `operands`) and results an op has, and that it
    has no regions: the first thing in a verifier that goes on to look at them.
    """
    most = operands if at_most is None else at_most
    if not operands <= len(op.operands) <= most or len(op.results) != results or op.regions:
        takes = f"{operands}" if most == operands else f"{operands} to {most}"
        found = f"{len(op.operands)} operands, {len(op.results)} results, {len(op.regions)} regions"
        raise VerifyException(f"{op.name} has {takes} operands, {results} results and no regions, not {found}")


def position_of(value: SSAValue) -> int:
    """Which result of its op, or which argument of its block, the value is."""
    if not isinstance(value, OpResult | BlockArgument):
        raise VerifyException(f"{value} is neither the result of an op nor the argument of a block")
    return value.index
