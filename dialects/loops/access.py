"""Ops that touch elements: `loops.load`, `loops.store`, `loops.index`, `loops.bound`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from xdsl.dialects.builtin import TensorType, i1
from xdsl.ir import Attribute, BlockArgument, SSAValue
from xdsl.irdl import traits_def
from xdsl.parser import Parser
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
from cuesta.dialects.elem import kind_of
from cuesta.dialects.layout import element_type_of, is_tensor_type
from cuesta.dialects.loops.structure import NestOp, enclosing_nest
from cuesta.dialects.sym.syntax import canonical_operands, parse_indices


def _verify_indices(op: IndexedOp, rank: int) -> None:
    """Checks the map against the rank and the index operands."""
    if len(op.map.results) != rank:
        raise VerifyException(f"{op.name}: {len(op.map.results)} indices for {rank} axes")
    if any(index.type != INDEX for index in op.indices):
        raise VerifyException(f"{op.name}: an index operand is not of type index")


def _parse_tensor_type(parser: Parser) -> TensorType:
    position = parser.pos
    tensor_type = parser.parse_type()
    if not is_tensor_type(tensor_type):
        parser.raise_error(f"only a tensor's elements are read and written, not {tensor_type}", position, parser.pos)
    return tensor_type


class LoadOp(ElementReadOp):
    """Reads one element. Masked: reads nothing where the mask is false, and gives `other` there."""

    name = "loops.load"

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
        return self.operand(0)

    @classmethod
    def parse(cls, parser: Parser) -> LoadOp:
        """Parses `%x[%i, %j + 1] if %c else %v : tensor<4x8xf32>`."""
        element = parse_element(parser, with_other=True)
        source_type = _parse_tensor_type(parser)
        return cls.build(
            parser.resolve_operand(element.memory, source_type),
            element.results,
            [parser.resolve_operand(index, INDEX) for index in element.indices],
            parser.resolve_operand(element.mask, i1) if element.mask else None,
            parser.resolve_operand(element.other, source_type.element_type) if element.other else None,
        )

    def print(self, printer: Printer) -> None:
        """Prints the source, the inline map, the mask and the source's type."""
        self.print_access(printer, self.source.type)

    def verify_(self) -> None:
        """Checks the source, the indices, the mask and the result."""
        self.verify_dims()
        source_type = self.source.type
        if not isinstance(source_type, TensorType):
            raise VerifyException(f"loops.load reads a tensor, not {source_type}")
        _verify_indices(self, len(source_type.get_shape()))
        element_type = element_type_of(self.source)
        if self.results[0].type != element_type:
            raise VerifyException(f"loops.load of {source_type} gives {element_type}, not {self.results[0].type}")
        rest = self.rest
        if rest and (len(rest) != 2 or rest[0].type != i1 or rest[1].type != element_type):
            raise VerifyException("loops.load: a mask is an i1 and an element of the source's type")


class TensorWriteOp(ElementWriteOp):
    """Writes one element of an out of the enclosing nest."""

    @property
    def target(self) -> SSAValue:
        """The handle of the out written to."""
        return self.operand(1)

    @classmethod
    def build_write(
        cls,
        value: SSAValue,
        target: SSAValue,
        results: Sequence[sym.IndexExpr],
        indices: Sequence[SSAValue],
        mask: SSAValue | None,
        properties: Mapping[str, Attribute],
    ) -> Self:
        """Writes `value` to `target[results]`, where dim k of the expressions is `indices[k]`."""
        used, canonical = canonical_operands(indices, results)
        return cls.create(
            operands=(value, target, *used, *(() if mask is None else (mask,))),
            properties={"map": sym.MapAttr.get(len(used), tuple(canonical)), **properties},
        )

    @classmethod
    def parse_write(cls, parser: Parser, properties: Mapping[str, Attribute]) -> Self:
        """Parses `%v, %o[%i] if %c : tensor<4xf32>`."""
        value, element = parse_written(parser)
        target_type = _parse_tensor_type(parser)
        return cls.build_write(
            parser.resolve_operand(value, target_type.element_type),
            parser.resolve_operand(element.memory, target_type),
            element.results,
            [parser.resolve_operand(index, INDEX) for index in element.indices],
            parser.resolve_operand(element.mask, i1) if element.mask else None,
            properties,
        )

    def print(self, printer: Printer) -> None:
        """Prints the value, the target with its inline map, the mask and the target's type."""
        self.print_access(printer, self.target.type)

    def verify_write(self) -> None:
        """Checks that the target is a handle of an enclosing nest, the indices and the types."""
        self.verify_dims()
        target_type = self.target.type
        if not isinstance(target_type, TensorType):
            raise VerifyException(f"{self.name} writes to a tensor, not {target_type}")
        _verify_indices(self, len(target_type.get_shape()))
        element_type = element_type_of(self.target)
        if self.value.type != element_type:
            raise VerifyException(f"{self.name} writes {element_type} to {target_type}, not {self.value.type}")
        target = self.target
        if not isinstance(target, BlockArgument) or not isinstance(target.owner.parent_op(), NestOp):
            raise VerifyException(f"{self.name} writes only to an out of the nest it stands in")
        if len(self.rest) > 1 or (self.rest and self.rest[0].type != i1):
            raise VerifyException(f"{self.name}: a mask is an i1")


class StoreOp(TensorWriteOp):
    """Writes one element of an out of the enclosing nest."""

    name = "loops.store"

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
        return cls.build_write(value, target, results, indices, mask, {})

    @classmethod
    def parse(cls, parser: Parser) -> StoreOp:
        """Parses `%v, %o[%i] if %c : tensor<4xf32>`."""
        return cls.parse_write(parser, {})

    def verify_(self) -> None:
        """Checks that the target is a handle of an enclosing nest, the indices and the types."""
        self.verify_write()
        if self.target in enclosing_nest(self).updated:
            raise VerifyException("loops.store: what the nest updates is there already; it is combined, not stored")


class IndexOp(IndexValueOp):
    """The value of an index expression, as data."""

    name = "loops.index"
    traits = traits_def(Pure())

    @classmethod
    def build(cls, expression: sym.IndexExpr, indices: Sequence[SSAValue], result_type: Attribute) -> IndexOp:
        """`expression` over `indices`, as an integer of `result_type`."""
        used, canonical = canonical_operands(indices, (expression,))
        return cls.create(
            operands=used, result_types=(result_type,), properties={"map": sym.MapAttr.get(len(used), tuple(canonical))}
        )

    @classmethod
    def parse(cls, parser: Parser) -> IndexOp:
        """Parses `[%i * 2 + 1] : i64`."""
        indices, results = parse_indices(parser)
        parser.parse_punctuation(":")
        result_type = parser.parse_type()
        if len(results) != 1:
            parser.raise_error("loops.index takes one index expression")
        return cls.build(results[0], [parser.resolve_operand(index, INDEX) for index in indices], result_type)

    def verify_(self) -> None:
        """Checks the expression and that the result is an integer."""
        self.verify_dims()
        _verify_indices(self, 1)
        if kind_of(self.results[0].type) not in "iu":
            raise VerifyException(f"loops.index gives an integer, not {self.results[0].type}")


class BoundOp(IndexBoundOp):
    """An integer as an index: raises IndexError at run time when it is out of range."""

    name = "loops.bound"

    def verify_(self) -> None:
        """Checks the operand and the result."""
        self.verify_bound()
        if kind_of(self.operands[0].type) not in "iu" or self.results[0].type != INDEX:
            raise VerifyException("loops.bound makes an index of one integer")
