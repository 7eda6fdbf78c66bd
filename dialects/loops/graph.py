"""Ops of the graph around the nests: `loops.view` and `loops.extern`, and the `LOOPS` dialect object."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects import sym
from cuesta.dialects.aten.named_call import NamedCall
from cuesta.dialects.core.operation import PlainOperation
from cuesta.dialects.core.typed import property_of, verify_counts
from cuesta.dialects.core.value_syntax import parse_from_to, print_from_to
from cuesta.dialects.layout import element_type_of, sizes_of, strided_view, strides_of, tensor_type_of
from cuesta.dialects.loops.access import BoundOp, IndexOp, LoadOp, StoreOp
from cuesta.dialects.loops.folds import CarryOp, FoldOp
from cuesta.dialects.loops.join import JoinOp
from cuesta.dialects.loops.meeting import MeetOp
from cuesta.dialects.loops.scans import AtomicOp, CombineOp, RunningOp, ScanOp
from cuesta.dialects.loops.schedule import ScheduleAttr
from cuesta.dialects.loops.structure import ForOp, NestOp, ReduceOp, YieldOp
from cuesta.dialects.loops.words import WordsOp
from cuesta.dialects.sym.syntax import parse_map, print_map


class ViewOp(PlainOperation):
    """result[d] = source[map(d)]; a name for another way to read, not a computation."""

    name = "loops.view"
    traits = traits_def(Pure())

    @classmethod
    def build(cls, source: SSAValue, map: sym.MapAttr, result: Attribute) -> ViewOp:
        """A view of `source` of type `result`; the map takes an index of the result to one of the source."""
        return cls.create(operands=(source,), result_types=(result,), properties={"map": map})

    @property
    def map(self) -> sym.MapAttr:
        """From an index of the result to one of the source."""
        found = self.properties.get("map")
        if type(found) is sym.MapAttr:
            return found
        return property_of(self, "map", sym.MapAttr)

    @property
    def source(self) -> SSAValue:
        """The tensor viewed."""
        return self.operand(0)

    @property
    def result(self) -> SSAValue:
        """The view."""
        return self.results[0]

    @property
    def is_alias(self) -> bool:
        """Whether it lies in its source's memory with just the strides that its type says, where it has elements.
        Any other is a copy.
        """
        result_type = tensor_type_of(self.result)
        sizes = sizes_of(result_type)
        if 0 in sizes:
            return True
        found = strided_view(self.map, tensor_type_of(self.source), sizes)
        if found is None:
            return False
        promised = zip(sizes, found[0], strides_of(result_type), strict=True)
        # Strides that are symbols may be one number in two spellings: s·((t − 1) // 2) is −s + s·((t + 1) // 2); and
        # max(u, 1) is u where u is a size.
        return all(size == 1 or sym.prove_equal(a, b, sizes) for size, a, b in promised)

    @classmethod
    def parse(cls, parser: Parser) -> ViewOp:
        """Parses `%x by (d0, d1) -> (d1, d0) : tensor<4x8xf32> to tensor<8x4xf32>`."""
        source = parser.parse_unresolved_operand()
        parser.parse_keyword("by")
        view_map = parse_map(parser)
        source_value, result_type = parse_from_to(parser, source)
        return cls.build(source_value, view_map, result_type)

    def print(self, printer: Printer) -> None:
        """Prints the source, the map and both types."""
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        printer.print_string(" by ")
        print_map(printer, self.map)
        print_from_to(printer, self.source, self.result)

    def verify_(self) -> None:
        """Checks the map against both ranks, and the element types."""
        verify_counts(self, operands=1, results=1)
        source, result = self.operands[0].type, self.results[0].type
        if not isinstance(source, TensorType) or not isinstance(result, TensorType):
            raise VerifyException("loops.view makes a tensor of a tensor")
        if element_type_of(self.operands[0]) != element_type_of(self.results[0]):
            raise VerifyException(f"loops.view keeps the element type: {source} to {result}")
        if self.map.num_dims != len(result.get_shape()) or len(self.map.results) != len(source.get_shape()):
            ranks = f"{self.map.num_dims} dims to {len(self.map.results)}"
            raise VerifyException(f"loops.view: a map of {ranks} does not take {result} to {source}")


class ExternOp(NamedCall):
    """A library call, or an operator that runs in eager. Impure ones keep their order and number."""

    name = "loops.extern"


LOOPS = Dialect(
    "loops",
    [
        AtomicOp,
        BoundOp,
        CarryOp,
        CombineOp,
        ExternOp,
        FoldOp,
        ForOp,
        IndexOp,
        JoinOp,
        LoadOp,
        MeetOp,
        NestOp,
        ReduceOp,
        RunningOp,
        ScanOp,
        StoreOp,
        ViewOp,
        WordsOp,
        YieldOp,
    ],
    [ScheduleAttr],
)
