"""`#aten.arguments`: everything a call passes besides its SSA operands, as one attribute.

A call's arguments form a tree. Its leaves are constants and `Operand(k)`, which stands for the k-th SSA operand of
the op that carries the attribute. Operands are numbered in the order in which they appear in the call, each once
(a value passed twice is two operands), so that printing a call and parsing it gives the same op.

One attribute per call, and that one interned: attributes are what a program at this level would otherwise spend its
time on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from xdsl.ir import Data, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects.core.interning import Memo
from cuesta.dialects.core.structs import struct
from cuesta.dialects.sym.expr import Expr


@struct(repr=False)
class Operand:
    """The k-th SSA operand of the call."""

    index: int

    def __repr__(self) -> str:
        return f"%{self.index}"


@struct(repr=False)
class TorchName:
    """A constant that torch has under a name, printed `torch.NAME`."""

    name: str

    def __repr__(self) -> str:
        return f"torch.{self.name}"


@struct(repr=False)
class DType(TorchName):
    """A dtype by its torch name: `DType("float32")`, printed `torch.float32`."""


@struct(repr=False)
class MemoryFormat(TorchName):
    """A memory format by its torch name: `MemoryFormat("channels_last")`, printed `torch.channels_last`."""


@struct(repr=False)
class LayoutKind(TorchName):
    """What torch calls a layout: `LayoutKind("strided")`, printed `torch.strided`."""


@struct(repr=False)
class Device:
    """A device by its torch name: `Device("cuda:0")`, printed `torch.device("cuda:0")`."""

    name: str

    def __repr__(self) -> str:
        return f'torch.device("{self.name}")'


MEMORY_FORMATS: Final = frozenset(("contiguous_format", "preserve_format", "channels_last", "channels_last_3d"))
LAYOUT_KINDS: Final = frozenset(
    ("strided", "jagged", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "_mkldnn")
)

Constant: TypeAlias = "bool | int | float | complex | str | Expr | DType | Device | MemoryFormat | LayoutKind | None"
Argument: TypeAlias = "Constant | Operand | tuple[Argument, ...]"
"""One argument as the attribute holds it. Every kind of list is a tuple."""
Keywords: TypeAlias = "tuple[tuple[str, Argument], ...]"
ArgumentOrValue: TypeAlias = "Constant | Operand | SSAValue | Sequence[ArgumentOrValue]"
"""One argument as a builder takes it: SSA values stand where `Operand` will."""


class Call:
    """The content of `#aten.arguments`: a pair of trees that knows its identity.

    Python finds 1, 1.0 and True equal, 0.0 and -0.0 too, and nan not even equal to itself; the identity of a call
    is therefore the `repr` of its trees, in which all of these differ as they should.
    """

    __slots__ = ("_hash", "_key", "keywords", "operand_count", "positional")

    def __init__(self, positional: tuple[Argument, ...], keywords: Keywords, key: str):
        self.positional, self.keywords = positional, keywords
        self._key, self._hash = key, hash(key)
        self.operand_count = 0
        for operand in operands_of((positional, tuple([value for _, value in keywords]))):
            if operand.index != self.operand_count:
                raise VerifyException(
                    f"#aten.arguments: %{operand.index} stands where %{self.operand_count} is due: "
                    "operands are numbered in the order in which they appear"
                )
            self.operand_count += 1

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Call) and self._key == other._key)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return self._key


_interned = Memo[str, "CallArguments"](100_000)


@irdl_attr_definition
class CallArguments(Data[Call]):
    """The arguments of a call: `#aten.arguments<(%0, [%1, %2], 1, alpha = 2.0)>`."""

    name = "aten.arguments"

    @classmethod
    def of(cls, positional: tuple[Argument, ...], keywords: Keywords = ()) -> CallArguments:
        """The interned attribute. Lists must already be tuples, and operands numbered; `flatten_call` does both.

        Errors: VerifyException when the operands are not numbered in the order in which they appear.
        """
        key = repr((positional, keywords))
        attr = _interned.get(key)
        return _interned.keep(key, cls(Call(positional, keywords, key))) if attr is None else attr

    @property
    def positional(self) -> tuple[Argument, ...]:
        """The arguments given by position."""
        return self.data.positional

    @property
    def keywords(self) -> Keywords:
        """The arguments given by name, in the order in which they were given."""
        return self.data.keywords

    @property
    def operand_count(self) -> int:
        """How many SSA operands the op that carries this has."""
        return self.data.operand_count

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Call:
        """Parses `<(%0, alpha = 1)>`."""
        from cuesta.dialects.aten.syntax import parse_numbered_arguments

        with parser.in_angle_brackets():
            return parse_numbered_arguments(parser).data

    def print_parameter(self, printer: Printer) -> None:
        """Prints `<(%0, alpha = 1)>`."""
        from cuesta.dialects.aten.syntax import print_arguments

        with printer.in_angle_brackets():
            print_arguments(printer, self, lambda index: printer.print_string(f"%{index}"))


def operands_of(argument: Argument) -> Iterator[Operand]:
    """The operands in an argument, in order."""
    if isinstance(argument, Operand):
        yield argument
    elif isinstance(argument, tuple):
        for element in argument:
            yield from operands_of(element)


def flatten_call(
    positional: Sequence[ArgumentOrValue], keywords: Sequence[tuple[str, ArgumentOrValue]] = ()
) -> tuple[list[SSAValue], CallArguments]:
    """Splits a call written with SSA values in place into its operands and its attribute.

    `flatten_call([x, [a, b], 1], [("alpha", 2)])` is `[x, a, b]` and `#aten.arguments<(%0, [%1, %2], 1, alpha = 2)>`.
    """
    operands: list[SSAValue] = []

    def flatten(argument: ArgumentOrValue) -> Argument:
        if isinstance(argument, SSAValue):
            operands.append(argument)
            return Operand(len(operands) - 1)
        if isinstance(argument, Sequence) and not isinstance(argument, str):
            return tuple([flatten(element) for element in argument])
        return argument

    arguments = CallArguments.of(
        tuple([flatten(argument) for argument in positional]),
        tuple([(name, flatten(argument)) for name, argument in keywords]),
    )
    return operands, arguments
