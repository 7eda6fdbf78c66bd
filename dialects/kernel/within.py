"""`kernel.within`: an address that is looked at when the program runs, because the text cannot be believed."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects import sym
from cuesta.dialects.core.indexed import INDEX
from cuesta.dialects.core.typed import property_of, string_property
from cuesta.dialects.elem import kind_of
from cuesta.dialects.kernel.access import AddressedOp
from cuesta.dialects.kernel.function import FuncOp
from cuesta.dialects.kernel.shapes import Shape, shaped
from cuesta.dialects.sym.syntax import canonical_operands, parse_indices, parse_size, print_indices


class WithinOp(AddressedOp):
    """An active lane whose element is not in [0, size) is an IndexError, and is not accessed.

    On the CPU the program goes no further; on a GPU it goes on without that element, and the host raises the error.
    `%p[e]` of the access that follows it, with the same mask. `check-bounds` puts it before accesses that it cannot
    prove to be in bounds; nothing else does.
    """

    name = "kernel.within"
    traits = traits_def()
    first_index = 0
    most_rest = 1
    result_count = 0

    @classmethod
    def build(
        cls,
        offset: sym.IndexExpr,
        indices: Sequence[SSAValue],
        size: sym.IndexExpr,
        access: str,
        mask: SSAValue | None = None,
    ) -> WithinOp:
        """0 ≤ `offset` < `size` where `mask` is true; dim k of the expression is `indices[k]`."""
        used, canonical = canonical_operands(indices, (offset,))
        properties: dict[str, Attribute] = {
            "map": sym.MapAttr.get(len(used), tuple(canonical)),
            "size": sym.MapAttr.get(0, (size,)),
            "access": StringAttr(access),
        }
        return cls.create(operands=(*used, *(() if mask is None else (mask,))), properties=properties)

    @property
    def size(self) -> sym.IndexExpr:
        """The elements that there are."""
        return property_of(self, "size", sym.MapAttr).results[0]

    @property
    def access(self) -> str:
        """What accesses which memory, for the message."""
        return string_property(self, "access")

    @property
    def mask(self) -> SSAValue | None:
        """Where it is false nothing is checked."""
        return self.rest[0] if self.rest else None

    @property
    def lanes_shape(self) -> Shape:
        """The axes that the address or the mask varies along."""
        return self.joint([*self.indices, *self.rest])

    @property
    def index_type(self) -> Attribute:
        """The type that the addresses would have as a value."""
        return shaped(INDEX, self.lanes_shape)

    @classmethod
    def parse(cls, parser: Parser) -> WithinOp:
        """Parses `[%i * 2 + 1], 4096, "kernel.load of %x" if %m : i1`; the mask may be left out."""
        names, results = parse_indices(parser)
        parser.parse_punctuation(",")
        size = parse_size(parser)
        parser.parse_punctuation(",")
        access = parser.parse_str_literal()
        indices: list[SSAValue] = []
        for name in names:
            known = parser.ssa_values.get(name.operand_name)
            indices.append(parser.resolve_operand(name, known[name.index].type if known else INDEX))
        mask = None
        if parser.parse_optional_keyword("if"):
            operand = parser.parse_unresolved_operand()
            parser.parse_punctuation(":")
            mask = parser.resolve_operand(operand, parser.parse_type())
        if len(results) != 1:
            parser.raise_error("kernel.within takes one index expression")
        return cls.build(results[0], indices, size, access, mask)

    def print(self, printer: Printer) -> None:
        """Prints the address, the size, what accesses it, and the mask with its type."""
        printer.print_string(" ")
        print_indices(printer, self.indices, self.map.results)
        printer.print_string(f", {sym.format_expr(self.size)}, ")
        printer.print_string_literal(self.access)
        if self.mask is not None:
            printer.print_string(" if ")
            printer.print_ssa_value(self.mask)
            printer.print_string(" : ")
            printer.print_attribute(self.mask.type)

    def verify_(self) -> None:
        """Checks the address, the size and the mask."""
        self.verify_address()
        size = property_of(self, "size", sym.MapAttr)
        if size.num_dims or len(size.results) != 1:
            raise VerifyException("kernel.within needs one size, an expression over symbols")
        if self.rest and kind_of(self.rest[0].type) != "b":
            raise VerifyException(f"kernel.within: a mask is a bool, not {self.rest[0].type}")
        self.joint([*self.indices, *self.rest])


def checks_in(func: FuncOp) -> list[WithinOp]:
    """The checks of a kernel, in the order in which they stand."""
    return [op for op in func.walk() if isinstance(op, WithinOp)]


__all__ = ["WithinOp", "checks_in"]
