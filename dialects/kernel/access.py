"""Ops of a kernel that touch memory or make values: loads, stores, indices, bounds, broadcasts, scratch memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import traits_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects import sym
from cuesta.dialects.core.indexed import (
    INDEX,
    ElementReadOp,
    ElementWriteOp,
    IndexBoundOp,
    IndexedOp,
    IndexValueOp,
    parse_element,
    parse_written,
)
from cuesta.dialects.core.operation import PlainOperation
from cuesta.dialects.core.typed import integer_attribute, integer_property, string_property, verify_counts
from cuesta.dialects.core.value_syntax import FromToOp
from cuesta.dialects.elem import bool_like, kind_of, scalar_of, with_scalar
from cuesta.dialects.kernel.shapes import Shape, joint_shape, shape_of_type, shaped, spreads_to
from cuesta.dialects.kernel.types import PointerType
from cuesta.dialects.sym.syntax import canonical_operands, parse_indices


class AddressedOp(IndexedOp):
    """An op with one index expression, the only result of its `map`, over scalar or lane-wise `index` operands."""

    @property
    def offset(self) -> sym.IndexExpr:
        """The index expression."""
        return self.map.results[0]

    @property
    def shape(self) -> Shape:
        """The axes that the index operands vary along; () when all are scalars."""
        return joint_shape(self.indices)

    def verify_address(self) -> None:
        """Checks the map and the index operands."""
        self.verify_dims()
        if len(self.map.results) != 1:
            raise VerifyException(f"{self.name}: an address is one index expression, got {len(self.map.results)}")
        if any(kind_of(index.type) != "x" for index in self.indices):
            types = ", ".join(sorted({str(index.type) for index in self.indices}))
            raise VerifyException(f"{self.name}: index operands of types {types}")
        self.joint(self.indices)

    def joint(self, values: Sequence[SSAValue]) -> Shape:
        """The axes that values vary along. Errors: VerifyException when they do not fit together."""
        try:
            return joint_shape(values)
        except ValueError:
            types = ", ".join(sorted({str(value.type) for value in values}))
            raise VerifyException(f"{self.name}: operands of types {types} do not fit together") from None


def _pointee(pointer: SSAValue) -> Attribute:
    pointer_type = pointer.type
    if not isinstance(pointer_type, PointerType):
        raise VerifyException(f"expected a !kernel.ptr, got {pointer_type}")
    return pointer_type.element_type


EVICTIONS = ("evict_first", "evict_last")
"""What a cache may be told about elements that are read."""
FURTHEST = 1 << 20
"""How many elements further on memory may be asked for at most.

Source: a definition: what a text may say; no cache takes in as much ahead.
"""


class LoadOp(AddressedOp, ElementReadOp):
    """Reads the elements at an address: a scalar, or a vector when an index has lanes.

    Where the mask is false nothing is read, and the value is `other`. What a cache should do with the elements may be
    said: `evict_first`, nobody reads them again; `evict_last`, they are read again soon. So may how many elements
    further on memory is read soon: `prefetch 4096`. Neither changes a value.
    """

    name = "kernel.load"

    @classmethod
    def build(
        cls,
        pointer: SSAValue,
        offset: sym.IndexExpr,
        indices: Sequence[SSAValue],
        mask: SSAValue | None = None,
        other: SSAValue | None = None,
    ) -> LoadOp:
        """`pointer[offset]`, where dim k of the expression is `indices[k]`. A mask has the shape of the result."""
        used, canonical = canonical_operands(indices, (offset,))
        masked = () if mask is None or other is None else (mask, other)
        shape = joint_shape([*used, *masked])
        return cls.create(
            operands=(pointer, *used, *masked),
            result_types=(shaped(_pointee(pointer), shape),),
            properties={"map": sym.MapAttr.get(len(used), tuple(canonical))},
        )

    @property
    def pointer(self) -> SSAValue:
        """The memory read."""
        return self.operands[0]

    @property
    def eviction(self) -> str | None:
        """What a cache should do with the elements: one of `EVICTIONS`, or nothing is said."""
        return string_property(self, "eviction") if "eviction" in self.properties else None

    @eviction.setter
    def eviction(self, policy: str | None) -> None:
        if policy is None:
            self.properties.pop("eviction", None)
        else:
            self.properties["eviction"] = StringAttr(policy)

    @property
    def prefetch(self) -> int | None:
        """How many elements further on memory is read soon; None where nothing is said."""
        return integer_property(self, "prefetch") if "prefetch" in self.properties else None

    @prefetch.setter
    def prefetch(self, ahead: int | None) -> None:
        if ahead is None:
            self.properties.pop("prefetch", None)
        else:
            self.properties["prefetch"] = integer_attribute(ahead)

    @classmethod
    def parse(cls, parser: Parser) -> LoadOp:
        """Parses `%p[%i * 64 + %j] if %m else %v : vector<8xf32> evict_first prefetch 4096`; what comes after the type
        may be left out.
        """
        element = parse_element(parser, with_other=True)
        value = parser.parse_type()
        operands = [parser.resolve_operand(element.memory, PointerType(scalar_of(value)))]
        operands += _resolve_indices(parser, element.indices, value)
        if element.mask and element.other:
            operands.append(parser.resolve_operand(element.mask, bool_like(value)))
            operands.append(parser.resolve_operand(element.other, value))
        new = cls.create(
            operands=operands,
            result_types=(value,),
            properties={"map": sym.MapAttr.get(len(element.indices), element.results)},
        )
        new.eviction = next((policy for policy in EVICTIONS if parser.parse_optional_keyword(policy)), None)
        if parser.parse_optional_keyword("prefetch"):
            ahead = parser.parse_integer()
            if not 0 < ahead <= FURTHEST:
                parser.raise_error(f"prefetch is a number of elements from 1 to {FURTHEST}, not {ahead}")
            new.prefetch = ahead
        return new

    def print(self, printer: Printer) -> None:
        """Prints the pointer, the inline address, the mask, the value's type, and what a cache should do."""
        self.print_access(printer, self.result.type)
        if self.eviction is not None:
            printer.print_string(f" {self.eviction}")
        if self.prefetch is not None:
            printer.print_string(f" prefetch {self.prefetch}")

    def verify_(self) -> None:
        """Checks the address, the mask and the value's type."""
        self.verify_address()
        value = self.results[0].type
        rest = self.rest
        expected = shaped(_pointee(self.pointer), self.joint([*self.indices, *rest]))
        if value != expected:
            raise VerifyException(f"kernel.load gives {expected}, not {value}")
        if rest and (len(rest) != 2 or rest[0].type != bool_like(value) or rest[1].type != value):
            raise VerifyException("kernel.load: a mask is a bool of the value's shape, with a value to stand in")
        if self.eviction not in (None, *EVICTIONS):
            raise VerifyException(f"kernel.load: a cache knows {' and '.join(EVICTIONS)}, not {self.eviction}")
        if self.prefetch is not None and not 0 < self.prefetch <= FURTHEST:
            raise VerifyException(f"kernel.load: prefetch is from 1 to {FURTHEST} elements, not {self.prefetch}")


def _resolve_indices(parser: Parser, indices: Sequence[UnresolvedOperand], value: Attribute) -> list[SSAValue]:
    """Index operands are scalars or vectors; a name already defined says which, any other is taken to be a scalar."""
    resolved: list[SSAValue] = []
    for index in indices:
        known = parser.ssa_values.get(index.operand_name)
        index_type = known[index.index].type if known else INDEX
        if not spreads_to(shape_of_type(index_type), shape_of_type(value)) or kind_of(index_type) != "x":
            parser.raise_error(f"an index of type {index_type} does not fit a value of type {value}", index.span)
        resolved.append(parser.resolve_operand(index, index_type))
    return resolved


class MemoryWriteOp(AddressedOp, ElementWriteOp):
    """Writes a value to an address: a scalar, or a vector when an index has lanes."""

    @classmethod
    def build_write(
        cls,
        value: SSAValue,
        pointer: SSAValue,
        offset: sym.IndexExpr,
        indices: Sequence[SSAValue],
        mask: SSAValue | None,
        properties: Mapping[str, Attribute],
    ) -> Self:
        """Writes `value` to `pointer[offset]`, where dim k of the expression is `indices[k]`."""
        used, canonical = canonical_operands(indices, (offset,))
        return cls.create(
            operands=(value, pointer, *used, *(() if mask is None else (mask,))),
            properties={"map": sym.MapAttr.get(len(used), tuple(canonical)), **properties},
        )

    @property
    def pointer(self) -> SSAValue:
        """The memory written."""
        return self.operands[1]

    @classmethod
    def parse_write(cls, parser: Parser, properties: Mapping[str, Attribute]) -> Self:
        """Parses `%v, %p[%i] if %m : vector<8xf32>`."""
        value, element = parse_written(parser)
        value_type = parser.parse_type()
        operands = [
            parser.resolve_operand(value, value_type),
            parser.resolve_operand(element.memory, PointerType(scalar_of(value_type))),
            *_resolve_indices(parser, element.indices, value_type),
        ]
        if element.mask:
            operands.append(parser.resolve_operand(element.mask, bool_like(value_type)))
        map_of_element = sym.MapAttr.get(len(element.indices), element.results)
        return cls.create(operands=operands, properties={"map": map_of_element, **properties})

    def print(self, printer: Printer) -> None:
        """Prints the value, the pointer with its inline address, the mask and the value's type."""
        self.print_access(printer, self.value.type)

    def verify_write(self) -> None:
        """Checks the address, the value and the mask."""
        self.verify_address()
        expected = shaped(_pointee(self.pointer), self.joint([*self.indices, *self.rest]))
        if self.value.type != expected:
            raise VerifyException(f"{self.name} writes {expected} here, not {self.value.type}")
        if len(self.rest) > 1 or (self.rest and self.rest[0].type != bool_like(self.value.type)):
            raise VerifyException(f"{self.name}: a mask is a bool of the value's shape")


class StoreOp(MemoryWriteOp):
    """Writes a value to an address: a scalar, or a vector when an index has lanes."""

    name = "kernel.store"

    @classmethod
    def build(
        cls,
        value: SSAValue,
        pointer: SSAValue,
        offset: sym.IndexExpr,
        indices: Sequence[SSAValue],
        mask: SSAValue | None = None,
    ) -> StoreOp:
        """`pointer[offset] = value`, where dim k of the expression is `indices[k]`."""
        return cls.build_write(value, pointer, offset, indices, mask, {})

    @classmethod
    def parse(cls, parser: Parser) -> StoreOp:
        """Parses `%v, %p[%i] if %m : vector<8xf32>`."""
        return cls.parse_write(parser, {})

    def verify_(self) -> None:
        """Checks the address, the value and the mask."""
        self.verify_write()


class IndexOp(AddressedOp, IndexValueOp):
    """The value of an index expression, as data."""

    name = "kernel.index"
    traits = traits_def(Pure())

    @classmethod
    def build(cls, expression: sym.IndexExpr, indices: Sequence[SSAValue], scalar: Attribute) -> IndexOp:
        """`expression` over `indices`, as integers of type `scalar`."""
        used, canonical = canonical_operands(indices, (expression,))
        return cls.create(
            operands=used,
            result_types=(shaped(scalar, joint_shape(used)),),
            properties={"map": sym.MapAttr.get(len(used), tuple(canonical))},
        )

    @classmethod
    def parse(cls, parser: Parser) -> IndexOp:
        """Parses `[%i * 2 + 1] : vector<8xi64>`."""
        indices, results = parse_indices(parser)
        parser.parse_punctuation(":")
        value = parser.parse_type()
        return cls.create(
            operands=_resolve_indices(parser, indices, value),
            result_types=(value,),
            properties={"map": sym.MapAttr.get(len(indices), tuple(results))},
        )

    def verify_(self) -> None:
        """Checks the expression and the result."""
        self.verify_address()
        value = self.results[0].type
        if kind_of(value) not in "iu" or value != shaped(scalar_of(value), self.shape):
            lanes = "x".join(map(str, self.shape or (1,)))
            raise VerifyException(f"kernel.index of {lanes} lanes does not give {value}")


class BoundOp(IndexBoundOp):
    """Integers as indices, as `loops.bound`: an active lane out of range is an IndexError, and goes on with index 0."""

    name = "kernel.bound"

    def verify_(self) -> None:
        """Checks the operand and the result."""
        self.verify_bound()
        if kind_of(self.operands[0].type) not in "iu":
            raise VerifyException("kernel.bound makes an index of integers")
        if self.results[0].type != with_scalar(self.operands[0].type, INDEX):
            raise VerifyException(f"kernel.bound of {self.operands[0].type} does not give {self.results[0].type}")


class BroadcastOp(FromToOp):
    """A value repeated along lane axes it does not vary along: the only way from scalars to vectors."""

    name = "kernel.broadcast"
    traits = traits_def(Pure())

    @classmethod
    def build(cls, value: SSAValue, *shape: int) -> BroadcastOp:
        """`value`, repeated to fill a vector of `shape`."""
        return cls.create(operands=(value,), result_types=(shaped(scalar_of(value.type), shape),))

    @property
    def result(self) -> SSAValue:
        """The vector."""
        return self.results[0]

    def verify_(self) -> None:
        """Checks that a value becomes a vector of the same elements that varies along more axes."""
        verify_counts(self, operands=1, results=1)
        source, result = self.operands[0].type, self.results[0].type
        shape = shape_of_type(result)
        if not shape or scalar_of(result) != scalar_of(source) or not spreads_to(shape_of_type(source), shape):
            raise VerifyException(f"kernel.broadcast does not make {result} of {source}")


class LocalOp(PlainOperation):
    """Scratch memory of a fixed number of elements, private to the program and undefined at its start."""

    name = "kernel.local"
    traits = traits_def()

    @classmethod
    def build(cls, size: int, scalar: Attribute) -> LocalOp:
        """Scratch for `size` elements of type `scalar`."""
        return cls.create(result_types=(PointerType(scalar),), properties={"size": integer_attribute(size)})

    @property
    def size(self) -> int:
        """The number of elements."""
        return integer_property(self, "size")

    @property
    def result(self) -> SSAValue:
        """The pointer."""
        return self.results[0]

    @classmethod
    def parse(cls, parser: Parser) -> LocalOp:
        """Parses `1024 : !kernel.ptr<f32>`."""
        size = parser.parse_integer(allow_boolean=False, allow_negative=False)
        parser.parse_punctuation(":")
        pointer = parser.parse_type()
        if not isinstance(pointer, PointerType):
            parser.raise_error(f"kernel.local gives a !kernel.ptr, not {pointer}")
        return cls.build(size, pointer.element_type)

    def print(self, printer: Printer) -> None:
        """Prints the size and the pointer's type."""
        printer.print_string(f" {self.size} : ")
        printer.print_attribute(self.results[0].type)

    def verify_(self) -> None:
        """Checks the result's type."""
        verify_counts(self, operands=0, results=1)
        if self.size < 0 or not isinstance(self.results[0].type, PointerType):
            raise VerifyException("kernel.local gives a !kernel.ptr to a number of elements")


__all__ = [
    "AddressedOp",
    "BoundOp",
    "BroadcastOp",
    "IndexOp",
    "LoadOp",
    "LocalOp",
    "MemoryWriteOp",
    "StoreOp",
]
