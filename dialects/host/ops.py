"""The ops of `host`. Values of tensor type are buffers here: a launch writes into its out operands."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    FixedBitwidthType,
    FunctionType,
    IntegerType,
    Signedness,
    StringAttr,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, BlockArgument, Dialect, Region, SSAValue
from xdsl.irdl import traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects import sym
from cuesta.dialects.aten.named_call import NamedCall
from cuesta.dialects.core.bodies import FunctionOp, parse_arguments, parse_body, print_arguments
from cuesta.dialects.core.operation import PlainOperation
from cuesta.dialects.core.typed import (
    integer_attribute,
    integer_property,
    property_of,
    symbol_attribute,
    symbol_property,
    verify_counts,
)
from cuesta.dialects.core.value_syntax import (
    parse_from_to,
    parse_symbol_and_operands,
    parse_types_of,
    print_from_to,
    print_symbol_and_operands,
    print_types,
    print_values,
)
from cuesta.dialects.host.eager import EAGER_OPS, ObjectType
from cuesta.dialects.layout import (
    device_of,
    element_type_of,
    is_tensor_type,
    sizes_of,
    strides_of,
    tensor_type,
    tensor_type_of,
)
from cuesta.dialects.sym.syntax import parse_size
from cuesta.dialects.word_types import axis_of_words


class FuncOp(FunctionOp):
    """The host program: runs in order."""

    name = "host.func"
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    @classmethod
    def build(cls, name: str, function_type: FunctionType, region: Region, attributes: dict[str, Attribute]) -> FuncOp:
        """A host program with the body `region`."""
        return cls.create(
            properties={"sym_name": StringAttr(name), "function_type": function_type},
            attributes=attributes,
            regions=[region],
        )

    @property
    def function_type(self) -> FunctionType:
        """The types of what comes in and what is returned."""
        return property_of(self, "function_type", FunctionType)

    @classmethod
    def parse(cls, parser: Parser) -> FuncOp:
        """Parses `@main(%x : tensor<4xf32>) -> (tensor<4xf32>) attributes {…} { … }`."""
        name = parser.parse_symbol_name().data
        arguments = parse_arguments(parser)
        parser.parse_punctuation("->")
        results = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        region = parse_body(parser, arguments)
        function_type = FunctionType.from_lists([argument.type for argument in arguments], results)
        return cls.build(name, function_type, region, {} if attributes is None else dict(attributes.data))

    def print_signature(self, printer: Printer) -> None:
        """Prints the arguments, the types of what is returned, and the attributes."""
        print_arguments(printer, self.body.args)
        printer.print_string(" -> (")
        printer.print_list(self.function_type.outputs.data, printer.print_attribute)
        printer.print_string(") ")
        if self.attributes:
            printer.print_string("attributes")
            printer.print_op_attributes(self.attributes)
            printer.print_string(" ")

    def verify_(self) -> None:
        """Checks the signature against the body."""
        self.verify_body()
        if tuple(argument.type for argument in self.body.args) != self.function_type.inputs.data:
            raise VerifyException("host.func: the arguments of the body are not those of the signature")
        last = self.body.last_op
        if not isinstance(last, ReturnOp):
            raise VerifyException("host.func must end in host.return")
        if tuple(operand.type for operand in last.operands) != self.function_type.outputs.data:
            raise VerifyException("host.func: what is returned does not have the types of the signature")


class AllocOp(PlainOperation):
    """A fresh buffer, undefined contents, on the type's device with the type's strides."""

    name = "host.alloc"
    traits = traits_def()

    @classmethod
    def build(cls, buffer: Attribute) -> AllocOp:
        """A buffer of the type `buffer`."""
        return cls.create(result_types=(buffer,))

    @property
    def result(self) -> SSAValue:
        """The buffer."""
        return self.results[0]

    @classmethod
    def parse(cls, parser: Parser) -> AllocOp:
        """Parses `: tensor<4xf32>`."""
        parser.parse_punctuation(":")
        return cls.build(parser.parse_type())

    def print(self, printer: Printer) -> None:
        """Prints the type."""
        printer.print_string(" : ")
        printer.print_attribute(self.results[0].type)

    def verify_(self) -> None:
        """Checks that it makes a tensor."""
        verify_counts(self, operands=0, results=1)
        if not isinstance(self.results[0].type, TensorType):
            raise VerifyException(f"host.alloc makes a tensor, not {self.results[0].type}")


class LaunchOp(PlainOperation):
    """Runs a kernel on buffers: inputs, then outs, in the order of the kernel's arguments.

    One that is `kept` may be left out in a later call, in which its outs are the buffers of an earlier one: as long as
    the arguments that they are computed of are the same tensors, at the same addresses, changed as often. Which launch
    may be, the level's contract says (`kept_launches_may_be_left_out`). Whoever runs it in every call does the same.
    """

    name = "host.launch"
    traits = traits_def()

    @classmethod
    def build(cls, kernel: str, buffers: Sequence[SSAValue], *, kept: bool = False) -> LaunchOp:
        """Launches `@kernel` on `buffers`."""
        properties: dict[str, Attribute] = {"kernel": symbol_attribute(kernel)}
        if kept:
            properties["kept"] = UnitAttr()
        return cls.create(operands=buffers, properties=properties)

    @property
    def kernel(self) -> str:
        """The kernel's name."""
        return symbol_property(self, "kernel")

    @property
    def kept(self) -> bool:
        """Whether what it writes is kept for later calls."""
        return "kept" in self.properties

    @classmethod
    def parse(cls, parser: Parser) -> LaunchOp:
        """Parses `@k(%x, %y) : tensor<4xf32>, tensor<4xf32>`, or `kept @k(…) : …`."""
        kept = parser.parse_optional_keyword("kept") is not None
        name, operands = parse_symbol_and_operands(parser)
        return cls.build(name, parse_types_of(parser, operands), kept=kept)

    def print(self, printer: Printer) -> None:
        """Prints the kernel, the buffers and their types."""
        if self.kept:
            printer.print_string(" kept")
        print_symbol_and_operands(printer, self.kernel, self.operands)
        printer.print_string(" : ")
        print_types(printer, self.operands)

    def verify_(self) -> None:
        """Checks that the operands are buffers; the module's contract checks them against the kernel."""
        name = self.kernel
        if not self.operands:
            raise VerifyException(f"host.launch @{name} needs a buffer to write to")
        verify_counts(self, operands=len(self.operands), results=0)
        for operand in self.operands:
            if not isinstance(operand.type, TensorType):
                raise VerifyException(f"host.launch @{name} takes buffers, not {operand.type}")


class ReinterpretOp(PlainOperation):
    """The same memory as another buffer: torch's `as_strided` with the sizes and strides of the result type; or, from
    its first element on, its words (`loops.words`).

    Units: the offset counts elements of the *source's first element*, as `kernel` pointers do.
    """

    name = "host.reinterpret"
    traits = traits_def()

    @classmethod
    def build(cls, source: SSAValue, offset: sym.IndexExpr, result: Attribute) -> ReinterpretOp:
        """`source`'s memory, from `offset` elements after its first on, as a buffer of type `result`."""
        return cls.create(
            operands=(source,), result_types=(result,), properties={"offset": sym.MapAttr.get(0, (offset,))}
        )

    @property
    def offset(self) -> sym.IndexExpr:
        """Elements between the source's first element and the result's."""
        return property_of(self, "offset", sym.MapAttr).results[0]

    @property
    def axis_of_words(self) -> int | None:
        """The axis along which elements of the source are the words of the result; None where it has the source's."""
        source, result = tensor_type_of(self.source), tensor_type_of(self.results[0])
        return None if source.element_type == result.element_type else axis_of_words(source, result)

    @property
    def source(self) -> SSAValue:
        """The buffer whose memory it is."""
        return self.operands[0]

    @classmethod
    def parse(cls, parser: Parser) -> ReinterpretOp:
        """Parses `%b offset 16 : tensor<4x8xf32> to tensor<32xf32>`."""
        source = parser.parse_unresolved_operand()
        parser.parse_keyword("offset")
        offset = parse_size(parser)
        source_value, result_type = parse_from_to(parser, source)
        return cls.build(source_value, offset, result_type)

    def print(self, printer: Printer) -> None:
        """Prints the source, the offset and both types."""
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        printer.print_string(f" offset {sym.format_expr(self.offset)}")
        print_from_to(printer, self.source, self.results[0])

    def verify_(self) -> None:
        """Checks that both are tensors of one element type, or the one is the words of the other."""
        verify_counts(self, operands=1, results=1)
        offset = property_of(self, "offset", sym.MapAttr)
        if offset.num_dims or len(offset.results) != 1:
            raise VerifyException("host.reinterpret needs one offset, an expression over symbols")
        source, result = self.operands[0].type, self.results[0].type
        if not isinstance(source, TensorType) or not isinstance(result, TensorType):
            raise VerifyException("host.reinterpret makes a buffer of a buffer")
        same = element_type_of(self.operands[0]) == element_type_of(self.results[0])
        if not same and (self.offset != 0 or self.axis_of_words is None):
            raise VerifyException(f"host.reinterpret keeps the element type: {source} to {result}")


class PlaceOp(PlainOperation):
    """A buffer that lies in an arena, a buffer of bytes. What it holds is undefined at first.

    Units: the offset counts bytes.
    """

    name = "host.place"
    traits = traits_def()

    @classmethod
    def build(cls, arena: SSAValue, offset: int, result: Attribute) -> PlaceOp:
        """A buffer of type `result`, `offset` bytes after the start of `arena`."""
        return cls.create(operands=(arena,), result_types=(result,), properties={"offset": integer_attribute(offset)})

    @property
    def offset(self) -> int:
        """Bytes between the arena's start and the buffer's."""
        return integer_property(self, "offset")

    @property
    def arena(self) -> SSAValue:
        """The memory that the buffer is a part of."""
        return self.operands[0]

    @classmethod
    def parse(cls, parser: Parser) -> PlaceOp:
        """Parses `%arena at 64 : tensor<4096xui8> to tensor<4x8xf32>`."""
        arena = parser.parse_unresolved_operand()
        parser.parse_keyword("at")
        offset = parser.parse_integer(allow_boolean=False, allow_negative=False)
        arena_value, result_type = parse_from_to(parser, arena)
        return cls.build(arena_value, offset, result_type)

    def print(self, printer: Printer) -> None:
        """Prints the arena, the offset and both types."""
        printer.print_string(" ")
        printer.print_ssa_value(self.arena)
        printer.print_string(f" at {self.offset}")
        print_from_to(printer, self.arena, self.results[0])

    def verify_(self) -> None:
        """Checks that the buffer fits into the arena, at an address that suits its elements."""
        verify_counts(self, operands=1, results=1)
        arena, result = self.operands[0].type, self.results[0].type
        shape = arena.get_shape() if is_tensor_type(arena) else ()
        if not is_tensor_type(arena) or len(shape) != 1 or arena != arena_type(shape[0], device_of(arena)):
            raise VerifyException(f"host.place takes a place in a tensor of ui8 with one axis, not in {arena}")
        size = buffer_bytes(result)
        if size is None or not is_tensor_type(result):
            raise VerifyException(f"host.place makes a tensor of known size, not {result}")
        if device_of(result) != device_of(arena):
            raise VerifyException(f"host.place makes a tensor on {device_of(arena)}, where the arena is, not {result}")
        (available,) = shape
        if self.offset + size > available or self.offset % ARENA_ALIGNMENT:
            raise VerifyException(
                f"host.place: {size} bytes at {self.offset} are not in {arena}, or not at a multiple of "
                f"{ARENA_ALIGNMENT}"
            )


_BYTE = IntegerType(8, Signedness.UNSIGNED)
ARENA_ALIGNMENT = 64
"""Bytes; places in an arena are multiples of it, as torch's own allocations are."""


def arena_type(size: int, device: str = "cpu") -> Attribute:
    """The type of an arena of `size` bytes."""
    return tensor_type([size], _BYTE, None, device)


def buffer_bytes(buffer: Attribute) -> int | None:
    """The bytes from a buffer's first element to its last; None when they are not known."""
    if not is_tensor_type(buffer) or not isinstance(buffer.element_type, FixedBitwidthType):
        return None
    last = 0
    for size, stride in zip(sizes_of(buffer), strides_of(buffer), strict=True):
        if not isinstance(size, int) or not isinstance(stride, int):
            return None
        if size == 0:
            return 0
        last += (size - 1) * stride
    return (last + 1) * buffer.element_type.size


class ExternOp(NamedCall):
    """Calls an ATen overload on buffers; its results are fresh buffers, or alias operands where the overload says
    so.
    """

    name = "host.extern"


class FreeOp(PlainOperation):
    """The last use of a buffer: its memory may be taken for another from here on."""

    name = "host.free"
    traits = traits_def()

    @classmethod
    def build(cls, buffers: Sequence[SSAValue]) -> FreeOp:
        """Frees `buffers`."""
        return cls.create(operands=buffers)

    @classmethod
    def parse(cls, parser: Parser) -> FreeOp:
        """Parses `%a, %b : tensor<4xf32>, tensor<4xf32>`."""
        operands = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        return cls.build(parse_types_of(parser, operands))

    def print(self, printer: Printer) -> None:
        """Prints the buffers and their types."""
        print_values(printer, self.operands)

    def verify_(self) -> None:
        """Checks that it frees buffers."""
        verify_counts(self, operands=max(1, len(self.operands)), results=0)
        for operand in self.operands:
            if not isinstance(operand.type, TensorType | ObjectType):
                raise VerifyException(f"host.free frees buffers, not {operand.type}")


class ReturnOp(PlainOperation):
    """What the program gives back: buffers, integers, literals."""

    name = "host.return"
    traits = traits_def(IsTerminator())

    @classmethod
    def build(cls, values: Sequence[SSAValue]) -> ReturnOp:
        """Returns `values`."""
        return cls.create(operands=values)

    @classmethod
    def parse(cls, parser: Parser) -> ReturnOp:
        """Parses `%a, %b : tensor<4xf32>, !sym.int<s0>`, or nothing."""
        if (first := parser.parse_optional_unresolved_operand()) is None:
            return cls.build(())
        operands = [first]
        while parser.parse_optional_punctuation(","):
            operands.append(parser.parse_unresolved_operand())
        return cls.build(parse_types_of(parser, operands))

    def print(self, printer: Printer) -> None:
        """Prints the values and their types."""
        if self.operands:
            print_values(printer, self.operands)

    def verify_(self) -> None:
        """Checks that it gives no results; @main checks the types."""
        verify_counts(self, operands=len(self.operands), results=0)


def shared_results(function: FuncOp) -> set[SSAValue]:
    """The aliases that a function returns, or makes what it returns of, and whose memory its caller knows by another
    tensor, too: an argument, or another result.

    Whoever writes to one of the two later has changed both, and autograd has to know.
    """
    chains: dict[SSAValue, list[list[SSAValue]]] = {}
    terminator = function.body.last_op
    for result in terminator.operands if isinstance(terminator, ReturnOp) else ():
        chain = chain_of_views(result)
        chains.setdefault(chain.pop(), []).append(chain)
    shared = [found for root, found in chains.items() if isinstance(root, BlockArgument) or len(found) > 1]
    return {alias for found in shared for chain in found for alias in chain}


def chain_of_views(value: SSAValue) -> list[SSAValue]:
    """A value, what it is a view of, and so on, down to what is no view: its memory."""
    chain = [value]
    while (source := _viewed_by(chain[-1])) is not None:
        chain.append(source)
    return chain


def _viewed_by(value: SSAValue) -> SSAValue | None:
    """What a value is a view of: one of ours, or of a library's."""
    owner = value.owner
    if isinstance(owner, ReinterpretOp):
        return owner.source
    if isinstance(owner, ExternOp) and owner.schema is not None and owner.schema.is_view and owner.operands:
        return owner.operands[0]
    return None


AS_COMPLEX = "aten.view_as_complex.default"


def is_seen_as_complex(memory: SSAValue) -> bool:
    """Whether a complex tensor lies in all of it: one that was computed as pairs of numbers."""
    users = [use.operation for use in memory.uses]
    return any(isinstance(user, ExternOp) and user.overload == AS_COMPLEX for user in users)


def only_launched(buffer: SSAValue) -> bool:
    """Whether only launches use a buffer: then its address is enough, and nobody needs a tensor."""
    return all(isinstance(use.operation, LaunchOp | FreeOp) for use in buffer.uses)


def is_kept(buffer: SSAValue) -> bool:
    """Whether a buffer is one of the program's own that a launch writes which is kept: it outlives the call."""
    return isinstance(buffer.owner, AllocOp) and any(
        isinstance(use.operation, LaunchOp) and use.operation.kept for use in buffer.uses
    )


HOST = Dialect(
    "host",
    [AllocOp, ExternOp, FreeOp, FuncOp, LaunchOp, PlaceOp, ReinterpretOp, ReturnOp, *EAGER_OPS],
    [ObjectType],
)
