"""Structural fingerprints: two ops have the same one exactly when they are the same program.

Names and locations do not count; result types, attributes and properties do (xDSL's `is_structurally_equivalent`
ignores result types). Attributes count exactly: 0.0 and -0.0 differ, so do 1, 1.0 and true, and a NaN equals
itself, none of which `==` gets right.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Mapping
from dataclasses import fields, is_dataclass
from typing import TypeAlias, cast

from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.ir import Attribute, Block, Data, Operation, ParametrizedAttribute, Region, SSAValue

from cuesta.dialects.core.interning import Memo
from cuesta.dialects.core.operation import ops_of

Fingerprint: TypeAlias = tuple[Hashable, ...]
"""Equal and hashable within one process. For keys on disk use the program's text."""


def fingerprint(op: Operation, *, by_identity: bool = False) -> Fingerprint:
    """The fingerprint of an op with everything inside it.

    Values from outside are numbered in order of first use, together with their types: two ops agree when they compute
    the same from whatever they are given. With `by_identity` they must be given the very same values, as CSE needs.
    """
    writer = _Writer(by_identity)
    writer.write_op(op)
    return tuple(writer.out)


def fingerprint_region(
    region: Region, *, by_identity: bool = False, keys: dict[int, Hashable] | None = None
) -> Fingerprint:
    """As `fingerprint`, of a region. What its attributes are is remembered in `keys`, where that is given, as long as
    the caller has it: of attributes that are made anew with each program, the process should remember nothing.
    """
    writer = _Writer(by_identity, keys)
    writer.write_region(region)
    return tuple(writer.out)


def structurally_equal(a: Operation, b: Operation) -> bool:
    """The two ops are the same program, up to names and locations."""
    return fingerprint(a) == fingerprint(b)


class _Key:
    """What an attribute is, exactly, with its hash computed once."""

    __slots__ = ("_hash", "attribute", "value")

    def __init__(self, attribute: Attribute) -> None:
        self.attribute = attribute  # keeps the attribute's id taken for as long as the table below holds the key
        self.value = _exact(attribute)
        self._hash = hash(self.value)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _Key) and self._hash == other._hash and self.value == other.value)


_KEYS = Memo[int, _Key](50_000)


def key_of(attribute: Attribute) -> Hashable:
    """A hashable that two attributes share exactly when they are the same, as a fingerprint sees them."""
    if type(attribute) is StringAttr:  # made anew with each op that has one: a table by ids would only grow
        return (StringAttr, attribute.data)
    if type(attribute) is UnitAttr:
        return UnitAttr
    key = _KEYS.get(id(attribute))
    return _KEYS.keep(id(attribute), _Key(attribute)) if key is None else key


def _exact(value: object) -> Hashable:
    """A hashable that tells apart what `==` on attributes and on Python's numbers does not."""
    match value:
        case str() | bytes() | None:
            return value
        case bool() | int():
            return (type(value), value)
        case float():
            return (float, struct.pack("<d", value))
        case ParametrizedAttribute():
            return (value.name, *(_exact(parameter) for parameter in value.parameters))
        case Data():
            return (value.name, _exact(cast("Data[object]", value).data))
        case tuple() | list():
            return (tuple, *(_exact(element) for element in cast("tuple[object, ...]", value)))
        case Mapping():
            items = cast("Mapping[str, object]", value).items()
            return (dict, *((name, _exact(element)) for name, element in sorted(items, key=lambda item: str(item[0]))))
        case _ if is_dataclass(value) and not isinstance(value, type):
            return (type(value), *(_exact(getattr(value, field.name)) for field in fields(value)))
        case Hashable():
            return (type(value), value)
        case _:
            return (type(value), repr(value))


class _Writer:
    """Writes the program down as a flat sequence, delimited by counts and by words without a dot, unlike ops' names.

    Ops and attributes stand there by name, not by class: what is not registered has another class in every context.
    """

    def __init__(self, by_identity: bool, keys: dict[int, Hashable] | None = None) -> None:
        self.out: list[Hashable] = []
        self.keys = keys
        self.by_identity = by_identity
        self.values: dict[SSAValue, int] = {}
        self.blocks: dict[Block, int] = {}

    def key_of(self, attribute: Attribute) -> Hashable:
        if self.keys is None:
            return key_of(attribute)
        key = self.keys.get(id(attribute))
        if key is None:
            key = self.keys[id(attribute)] = _Key(attribute)
        return key

    def write_op(self, op: Operation) -> None:
        out, values = self.out, self.values
        # The fields behind the public views: a fingerprint is taken of every nest of every program.
        operands, results = op._operands, op.results  # pyright: ignore[reportPrivateUsage]
        out.append(op.name)
        out.append(len(operands))
        for operand in operands:
            number = values.get(operand)
            if number is None:
                self.write_outer(operand)
            else:
                out.append(number)
        out.append(len(results))
        for result in results:
            values[result] = len(values)
            out.append(self.key_of(result.type))
        if op.properties:
            self.write_dictionary(op.properties)
        if op.attributes:
            out.append("attributes")
            self.write_dictionary(op.attributes)
        if op._successors:  # pyright: ignore[reportPrivateUsage]
            out.append(("successors", *(self.blocks.get(block, -1) for block in op.successors)))
        for region in op.regions:
            self.write_region(region)

    def write_outer(self, value: SSAValue) -> None:
        if self.by_identity:
            self.out.append(value)
            return
        self.values[value] = len(self.values)
        self.out.append("outer")
        self.out.append(self.key_of(value.type))

    def write_dictionary(self, entries: Mapping[str, Attribute]) -> None:
        out = self.out
        out.append(len(entries))
        for name in sorted(entries) if len(entries) > 1 else entries:
            out.append(name)
            out.append(self.key_of(entries[name]))

    def write_region(self, region: Region) -> None:
        self.out.append("region")
        for block in region.blocks:
            self.blocks[block] = len(self.blocks)
        for block in region.blocks:
            self.out.append("block")
            self.out.append(len(block.args))
            for argument in block.args:
                self.values[argument] = len(self.values)
                self.out.append(self.key_of(argument.type))
            for op in ops_of(block):
                self.write_op(op)
        self.out.append("end")
