"""Ops that touch elements: `loops.load`, `loops.store`, `loops.index`, `loops.bound`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import IndexType, TensorType, UnitAttr, i1
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.irdl import traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects import sym
from cuesta.dialects.elem import kind_of
from cuesta.dialects.loops.structure import NestOp
from cuesta.dialects.sym.syntax import canonical_operands, parse_indices, parse_size, print_indices

_INDEX = IndexType()


class IndexedOp(Operation):
    """An op with a `map` property whose dims are some of its `index` operands."""

    first_index: int
    """The position of the first index operand."""

    @property
    def map(self) -> sym.MapAttr:
        """The map from the index operands (its dims) to the element read or written."""
        attr = self.properties["map"]
        assert isinstance(attr, sym.MapAttr)
        return attr

    @property
    def indices(self) -> Sequence[SSAValue]:
        """The `index` operands, one per dim of the map."""
        return self.operands[self.first_index : self.first_index + self.map.num_dims]

    @property
    def rest(self) -> Sequence[SSAValue]:
        """The operands after the indices: the mask, and what stands in for masked elements."""
        return self.operands[self.first_index + self.map.num_dims :]

    def verify_indices(self, rank: int) -> None:
        """Checks the map against the rank and the index operands."""
        if len(self.map.results) != rank:
            raise VerifyException(f"{self.name}: {len(self.map.results)} indices for {rank} axes")
        if len(self.operands) < self.first_index + self.map.num_dims:
            raise VerifyException(f"{self.name}: {self.map.num_dims} dims, but fewer index operands")
        if any(index.type != _INDEX for index in self.indices):
            raise VerifyException(f"{self.name}: an index operand is not of type index")


def element_type_of(tensor: SSAValue) -> Attribute:
    """The element type of a tensor value."""
    tensor_type = tensor.type
    assert isinstance(tensor_type, TensorType)
    return cast("TensorType[Attribute]", tensor_type).element_type


def _parse_tensor_type(parser: Parser) -> TensorType[Attribute]:
    position = parser.pos
    tensor_type = parser.parse_type()
    if not isinstance(tensor_type, TensorType):
        parser.raise_error(f"only a tensor's elements are read and written, not {tensor_type}", position, parser.pos)
    return cast("TensorType[Attribute]", tensor_type)


class LoadOp(IndexedOp):
    """Reads one element. Masked: reads nothing where the mask is false, and gives `other` there."""

    name = "loops.load"
    traits = traits_def()
    first_index = 1

    @classmethod
    def build(
        cls,
        source: SSAValue,
        results: Sequence[sym.IndexExpr],
        indices: Sequence[SSAValue],
        mask: SSAValue | None = None,
        other: SSAValue | None = None,
    ) -> LoadOp:
        """`source[results]`, where dim k of the expressions is `indices[k]`."""
        used, canonical = canonical_operands(indices, results)
        masked = () if mask is None or other is None else (mask, other)
        return cls.create(
            operands=(source, *used, *masked),
            result_types=(element_type_of(source),),
            properties={"map": sym.MapAttr.get(len(used), tuple(canonical))},
        )

    @property
    def source(self) -> SSAValue:
        """The tensor read."""
        return self.operands[0]

    @property
    def result(self) -> SSAValue:
        """The element."""
        return self.results[0]

    @property
    def mask(self) -> SSAValue | None:
        """Where it is false nothing is read."""
        return self.rest[0] if self.rest else None

    @property
    def other(self) -> SSAValue | None:
        """The value where the mask is false."""
        return self.rest[1] if self.rest else None

    @classmethod
    def parse(cls, parser: Parser) -> LoadOp:
        """Parses `%x[%i, %j + 1] if %c else %v : tensor<4x8xf32>`."""
        source = parser.parse_unresolved_operand()
        indices, results = parse_indices(parser)
        masked = None
        if parser.parse_optional_keyword("if"):
            mask = parser.parse_unresolved_operand()
            parser.parse_keyword("else")
            masked = (mask, parser.parse_unresolved_operand())
        parser.parse_punctuation(":")
        source_type = _parse_tensor_type(parser)
        mask_value = parser.resolve_operand(masked[0], i1) if masked else None
        other_value = parser.resolve_operand(masked[1], source_type.element_type) if masked else None
        return cls.build(
            parser.resolve_operand(source, source_type),
            results,
            [parser.resolve_operand(index, _INDEX) for index in indices],
            mask_value,
            other_value,
        )

    def print(self, printer: Printer) -> None:
        """Prints the source, the inline map, the mask and the source's type."""
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        print_indices(printer, self.indices, self.map.results)
        if self.rest:
            printer.print_string(" if ")
            printer.print_ssa_value(self.rest[0])
            printer.print_string(" else ")
            printer.print_ssa_value(self.rest[1])
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)

    def verify_(self) -> None:
        """Checks the source, the indices, the mask and the result."""
        source_type = self.source.type
        if not isinstance(source_type, TensorType):
            raise VerifyException(f"loops.load reads a tensor, not {source_type}")
        self.verify_indices(len(source_type.get_shape()))
        element_type = element_type_of(self.source)
        if self.results[0].type != element_type:
            raise VerifyException(f"loops.load of {source_type} gives {element_type}, not {self.results[0].type}")
        rest = self.rest
        if rest and (len(rest) != 2 or rest[0].type != i1 or rest[1].type != element_type):
            raise VerifyException("loops.load: a mask is an i1 and an element of the source's type")


class StoreOp(IndexedOp):
    """Writes one element of an out of the enclosing nest."""

    name = "loops.store"
    traits = traits_def()
    first_index = 2

    @classmethod
    def build(
        cls,
        value: SSAValue,
        target: SSAValue,
        results: Sequence[sym.IndexExpr],
        indices: Sequence[SSAValue],
        mask: SSAValue | None = None,
    ) -> StoreOp:
        """`target[results] = value`, where dim k of the expressions is `indices[k]`."""
        used, canonical = canonical_operands(indices, results)
        return cls.create(
            operands=(value, target, *used, *(() if mask is None else (mask,))),
            properties={"map": sym.MapAttr.get(len(used), tuple(canonical))},
        )

    @property
    def value(self) -> SSAValue:
        """The element written."""
        return self.operands[0]

    @property
    def target(self) -> SSAValue:
        """The handle of the out written to."""
        return self.operands[1]

    @property
    def mask(self) -> SSAValue | None:
        """Where it is false nothing is written."""
        return self.rest[0] if self.rest else None

    @classmethod
    def parse(cls, parser: Parser) -> StoreOp:
        """Parses `%v, %o[%i] if %c : tensor<4xf32>`."""
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        target = parser.parse_unresolved_operand()
        indices, results = parse_indices(parser)
        mask = parser.parse_unresolved_operand() if parser.parse_optional_keyword("if") else None
        parser.parse_punctuation(":")
        target_type = _parse_tensor_type(parser)
        return cls.build(
            parser.resolve_operand(value, target_type.element_type),
            parser.resolve_operand(target, target_type),
            results,
            [parser.resolve_operand(index, _INDEX) for index in indices],
            parser.resolve_operand(mask, i1) if mask else None,
        )

    def print(self, printer: Printer) -> None:
        """Prints the value, the target with its inline map, the mask and the target's type."""
        printer.print_string(" ")
        printer.print_ssa_value(self.value)
        printer.print_string(", ")
        printer.print_ssa_value(self.target)
        print_indices(printer, self.indices, self.map.results)
        if self.rest:
            printer.print_string(" if ")
            printer.print_ssa_value(self.rest[0])
        printer.print_string(" : ")
        printer.print_attribute(self.target.type)

    def verify_(self) -> None:
        """Checks that the target is a handle of an enclosing nest, the indices and the types."""
        target_type = self.target.type
        if not isinstance(target_type, TensorType):
            raise VerifyException(f"loops.store writes to a tensor, not {target_type}")
        self.verify_indices(len(target_type.get_shape()))
        element_type = element_type_of(self.target)
        if self.value.type != element_type:
            raise VerifyException(f"loops.store writes {element_type} to {target_type}, not {self.value.type}")
        target = self.target
        if not isinstance(target, BlockArgument) or not isinstance(target.owner.parent_op(), NestOp):
            raise VerifyException("loops.store writes only to an out of the nest it stands in")
        if len(self.rest) > 1 or (self.rest and self.rest[0].type != i1):
            raise VerifyException("loops.store: a mask is an i1")


class IndexOp(IndexedOp):
    """The value of an index expression, as data."""

    name = "loops.index"
    traits = traits_def(Pure())
    first_index = 0

    @classmethod
    def build(cls, expression: sym.IndexExpr, indices: Sequence[SSAValue], result_type: Attribute) -> IndexOp:
        """`expression` over `indices`, as an integer of `result_type`."""
        used, canonical = canonical_operands(indices, (expression,))
        return cls.create(
            operands=used, result_types=(result_type,), properties={"map": sym.MapAttr.get(len(used), tuple(canonical))}
        )

    @property
    def result(self) -> SSAValue:
        """The integer."""
        return self.results[0]

    @classmethod
    def parse(cls, parser: Parser) -> IndexOp:
        """Parses `[%i * 2 + 1] : i64`."""
        indices, results = parse_indices(parser)
        parser.parse_punctuation(":")
        result_type = parser.parse_type()
        if len(results) != 1:
            parser.raise_error("loops.index takes one index expression")
        return cls.build(results[0], [parser.resolve_operand(index, _INDEX) for index in indices], result_type)

    def print(self, printer: Printer) -> None:
        """Prints the expression and the type."""
        printer.print_string(" ")
        print_indices(printer, self.indices, self.map.results)
        printer.print_string(" : ")
        printer.print_attribute(self.results[0].type)

    def verify_(self) -> None:
        """Checks the expression and that the result is an integer."""
        self.verify_indices(1)
        if kind_of(self.results[0].type) not in "iu":
            raise VerifyException(f"loops.index gives an integer, not {self.results[0].type}")


class BoundOp(Operation):
    """An integer as an index: raises IndexError at run time when it is out of range.

    Without `wrap` the range is 0 ≤ v < size; with `wrap` it is −size ≤ v < size, and a negative v counts from the end.
    """

    name = "loops.bound"
    traits = traits_def()

    @classmethod
    def build(cls, value: SSAValue, size: sym.IndexExpr, *, wrap: bool) -> BoundOp:
        """`value` as an index into an axis of `size`."""
        properties: dict[str, Attribute] = {"size": sym.MapAttr.get(0, (size,))}
        if wrap:
            properties["wrap"] = UnitAttr()
        return cls.create(operands=(value,), result_types=(_INDEX,), properties=properties)

    @property
    def size(self) -> sym.IndexExpr:
        """The size of the axis indexed."""
        attr = self.properties["size"]
        assert isinstance(attr, sym.MapAttr)
        return attr.results[0]

    @property
    def wrap(self) -> bool:
        """Whether negative values count from the end."""
        return "wrap" in self.properties

    @property
    def result(self) -> SSAValue:
        """The index."""
        return self.results[0]

    @classmethod
    def parse(cls, parser: Parser) -> BoundOp:
        """Parses `%v, 128 wrap : i64`."""
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        size = parse_size(parser)
        wrap = parser.parse_optional_keyword("wrap") is not None
        parser.parse_punctuation(":")
        return cls.build(parser.resolve_operand(value, parser.parse_type()), size, wrap=wrap)

    def print(self, printer: Printer) -> None:
        """Prints the value, the size, `wrap` and the value's type."""
        printer.print_string(" ")
        printer.print_ssa_value(self.operands[0])
        printer.print_string(f", {sym.format_expr(self.size)}{' wrap' if self.wrap else ''} : ")
        printer.print_attribute(self.operands[0].type)

    def verify_(self) -> None:
        """Checks the operand and the result."""
        if len(self.operands) != 1 or kind_of(self.operands[0].type) not in "iu" or self.results[0].type != _INDEX:
            raise VerifyException("loops.bound makes an index of one integer")
