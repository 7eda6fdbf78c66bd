"""The loops of a kernel: `kernel.for` and `kernel.reduce`, and `kernel.yield`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar, Self

from xdsl.dialects.builtin import (
    IndexType,
    StringAttr,
    VectorType,
)
from xdsl.ir import Attribute, BlockArgument, Region, SSAValue
from xdsl.irdl import traits_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects import sym
from cuesta.dialects.core.bodies import (
    BodyOp,
    ValueYieldOp,
    parse_body,
)
from cuesta.dialects.core.operation import PlainBlock
from cuesta.dialects.core.reductions import REDUCTIONS, ReductionOp, parse_kind, parse_result_types
from cuesta.dialects.core.typed import integer_attribute, integer_property, property_of
from cuesta.dialects.elem import scalar_of
from cuesta.dialects.kernel.shapes import shape_of_type, shaped
from cuesta.dialects.sym.syntax import canonical_operands, parse_expr, print_expr

_INDEX = IndexType()


@lru_cache(maxsize=1024)
def _index_vector(lanes: int, dim: int) -> Attribute:
    return VectorType(_INDEX, [1] * dim + [lanes])


class LoopOp(BodyOp):
    """A loop over a list of axes `lo to hi`; the last may be stepped through in lanes.

    Lane loops nest: the lanes of the outermost are dimension 0 of the vectors in it, those of the next dimension 1.

    With `unroll 8` what so many rounds read may be read before the first of them stores, or is reduced. That is advice,
    and no value depends on it: what is read of memory that the kernel writes is read in its turn.
    """

    traits = traits_def(NoTerminator())
    may_unroll: ClassVar[bool] = False
    """Whether such a loop may say `unroll`."""

    @property
    def lowers(self) -> sym.MapAttr:
        """The first point of each axis, over the operands."""
        return property_of(self, "lowers", sym.MapAttr)

    @property
    def uppers(self) -> sym.MapAttr:
        """One past the last point of each axis, over the operands."""
        return property_of(self, "uppers", sym.MapAttr)

    @property
    def bound_operands(self) -> Sequence[SSAValue]:
        """What the bounds are over: dim k is the k-th."""
        return self.operands

    @property
    def lanes(self) -> int:
        """The lanes of the last axis; 1 when it has none."""
        return integer_property(self, "lanes")

    @property
    def dim(self) -> int:
        """The dimension of vectors that the lanes are: how many lane loops there are around this one."""
        return integer_property(self, "dim") if "dim" in self.properties else 0

    @property
    def unroll(self) -> int:
        """How many points of the last axis, or steps along its lanes, read at a time; 1 where nothing is said."""
        return integer_property(self, "unroll") if "unroll" in self.properties else 1

    @unroll.setter
    def unroll(self, rounds: int) -> None:
        self.properties.pop("unroll", None)
        if rounds != 1:
            self.properties["unroll"] = integer_attribute(rounds)

    @property
    def induction_variables(self) -> tuple[BlockArgument, ...]:
        """One per axis: `index`, or `vector<Lxindex>` for a last axis with lanes, `vector<1xLxindex>` if dim is 1."""
        return self.body.args

    @staticmethod
    def loop_properties(
        lowers: Sequence[sym.IndexExpr],
        uppers: Sequence[sym.IndexExpr],
        operands: Sequence[SSAValue],
        lanes: int,
        dim: int = 0,
    ) -> tuple[Sequence[SSAValue], dict[str, Attribute]]:
        """The operands and properties of a loop, in canonical order."""
        count = len(lowers)
        pairs = zip(lowers, uppers, strict=True)
        used, bounds = canonical_operands(operands, [bound for pair in pairs for bound in pair])
        assert len(bounds) == 2 * count
        return used, {
            "lowers": sym.MapAttr.get(len(used), tuple(bounds[0::2])),
            "uppers": sym.MapAttr.get(len(used), tuple(bounds[1::2])),
            "lanes": integer_attribute(lanes),
            **({"dim": integer_attribute(dim)} if dim else {}),
        }

    @staticmethod
    def variable_types(count: int, lanes: int, dim: int = 0) -> list[Attribute]:
        """The types of the induction variables."""
        types: list[Attribute] = [_INDEX] * count
        if lanes > 1:
            types[-1] = _index_vector(lanes, dim)
        return types

    def lane_loops_around(self) -> int:
        """How many of the loops around this one have lanes."""
        count, parent = 0, self.parent_op()
        while isinstance(parent, LoopOp):
            count += parent.lanes > 1
            parent = parent.parent_op()
        return count

    def verify_loop(self) -> None:
        """Checks the bounds, the lanes and the induction variables."""
        lowers, uppers = self.lowers, self.uppers
        if len(lowers.results) != len(uppers.results) or not (
            lowers.num_dims == uppers.num_dims == len(self.bound_operands)
        ):
            raise VerifyException(f"{self.name}: bounds and operands do not fit")
        if not lowers.results:
            raise VerifyException(f"{self.name} needs an axis")
        if self.lanes < 1:
            raise VerifyException(f"{self.name}: {self.lanes} lanes")
        if self.dim != (around := self.lane_loops_around() if self.lanes > 1 else 0):
            raise VerifyException(f"{self.name}: dim {self.dim}, but {around} lane loops are around these lanes")
        self.verify_body()
        expected = self.variable_types(len(lowers.results), self.lanes, self.dim)
        if [argument.type for argument in self.induction_variables] != expected:
            found = ", ".join(str(argument.type) for argument in self.induction_variables)
            raise VerifyException(f"{self.name}: induction variables are {', '.join(map(str, expected))}, not {found}")
        if any(operand.type != _INDEX for operand in self.bound_operands):
            raise VerifyException(f"{self.name}: bounds are expressions over scalar index values")
        if "unroll" in self.properties:
            if not self.may_unroll or any(isinstance(op, LoopOp) for op in self.body.ops):
                raise VerifyException(f"{self.name}: only a loop without others in it says unroll, and no fold")
            if self.unroll < 2:
                raise VerifyException(f"{self.name}: unroll {self.unroll}, but 2 rounds are the fewest")


def parse_axes(parser: Parser) -> tuple[list[Parser.Argument], Sequence[SSAValue], dict[str, Attribute]]:
    """The induction variables, the operands, and the properties of a loop."""
    names: list[Parser.UnresolvedArgument] = []
    operands: list[UnresolvedOperand] = []
    lowers: list[sym.IndexExpr] = []
    uppers: list[sym.IndexExpr] = []
    lanes, dim = 1, 0

    def axis() -> None:
        nonlocal lanes, dim
        if lanes != 1:
            parser.raise_error("only the last axis has lanes")
        names.append(parser.parse_argument(expect_type=False))
        parser.parse_punctuation("=")
        lowers.append(parse_expr(parser, operands))
        parser.parse_keyword("to")
        uppers.append(parse_expr(parser, operands))
        if parser.parse_optional_keyword("lanes"):
            lanes = parser.parse_integer(allow_boolean=False, allow_negative=False)
            if parser.parse_optional_keyword("dim"):
                dim = parser.parse_integer(allow_boolean=False, allow_negative=False)

    parser.parse_comma_separated_list(parser.Delimiter.PAREN, axis, " in a loop")
    types = LoopOp.variable_types(len(names), lanes, dim)
    arguments = [name.resolve(variable) for name, variable in zip(names, types, strict=True)]
    values = [parser.resolve_operand(operand, _INDEX) for operand in operands]
    used, properties = LoopOp.loop_properties(lowers, uppers, values, lanes, dim)
    if parser.parse_optional_keyword("unroll"):
        properties["unroll"] = integer_attribute(parser.parse_integer(allow_boolean=False, allow_negative=False))
    return arguments, used, properties


def print_axes(printer: Printer, op: LoopOp) -> None:
    """Prints what `parse_axes` reads, and the body."""
    print_head(printer, op)
    printer.print_string(" ")
    printer.print_region(op.regions[0], print_entry_block_args=False, print_empty_block=False)


def print_head(printer: Printer, op: LoopOp) -> None:
    """Prints what `parse_axes` reads."""
    printer.print_string(" (")
    last = len(op.induction_variables) - 1
    for position, variable in enumerate(op.induction_variables):
        printer.print_ssa_value(variable)
        printer.print_string(" = ")
        print_expr(printer, op.bound_operands, op.lowers.results[position])
        printer.print_string(" to ")
        print_expr(printer, op.bound_operands, op.uppers.results[position])
        if position == last and op.lanes > 1:
            printer.print_string(f" lanes {op.lanes}" + (f" dim {op.dim}" if op.dim else ""))
        printer.print_string("" if position == last else ", ")
    printer.print_string(f") unroll {op.unroll}" if "unroll" in op.properties else ")")


class StatementOp(LoopOp):
    """A loop that gives no value: what its body does is all."""

    may_unroll = True

    @classmethod
    def build(
        cls,
        lowers: Sequence[sym.IndexExpr],
        uppers: Sequence[sym.IndexExpr],
        operands: Sequence[SSAValue] = (),
        lanes: int = 1,
    ) -> Self:
        """A loop with an empty body; dim k of the bounds is `operands[k]`."""
        used, properties = cls.loop_properties(lowers, uppers, operands, lanes)
        block = PlainBlock(arg_types=cls.variable_types(len(lowers), lanes))
        return cls.create(operands=used, properties=properties, regions=[Region(block)])

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parses `(%n = 0 to 8, %j = %p * 64 to min(%p * 64 + 64, 1000) lanes 8) unroll 4 { … }`."""
        arguments, used, properties = parse_axes(parser)
        return cls.create(operands=used, properties=properties, regions=[parse_body(parser, arguments)])

    def print(self, printer: Printer) -> None:
        """Prints the axes and the body."""
        printer.enter_scope()
        print_axes(printer, self)
        printer.exit_scope()

    def verify_(self) -> None:
        """Checks the loop."""
        self.verify_loop()
        if self.results:
            raise VerifyException(f"{self.name} has no results")


class ForOp(StatementOp):
    """Runs its body for the points of its axes; the points are independent of one another."""

    name = "kernel.for"


class ReduceOp(LoopOp, ReductionOp):
    """Reduces what the body yields over the axes.

    With lanes it gives scalars; without, what is yielded may itself be a vector.
    """

    name = "kernel.reduce"
    traits: ClassVar = traits_def()
    may_unroll = True

    @classmethod
    def result_types_of(cls, kind: str, yielded: Attribute, lanes: int, dim: int = 0) -> tuple[Attribute, ...]:
        """The result types of reducing values of type `yielded`."""
        shape = shape_of_type(yielded)[: dim if lanes > 1 else None]
        return tuple(shaped(result, shape) for result in REDUCTIONS[kind].results(scalar_of(yielded)))

    @classmethod
    def build(
        cls,
        kind: str,
        yielded: Attribute,
        lowers: Sequence[sym.IndexExpr],
        uppers: Sequence[sym.IndexExpr],
        operands: Sequence[SSAValue] = (),
        lanes: int = 1,
        dim: int = 0,
    ) -> ReduceOp:
        """A reduction with an empty body, which must come to end in `kernel.yield` of a `yielded`."""
        used, properties = cls.loop_properties(lowers, uppers, operands, lanes, dim)
        return cls.create(
            operands=used,
            result_types=cls.result_types_of(kind, yielded, lanes, dim),
            properties={**properties, "kind": StringAttr(kind)},
            regions=[Region(PlainBlock(arg_types=cls.variable_types(len(lowers), lanes, dim)))],
        )

    @classmethod
    def parse(cls, parser: Parser) -> ReduceOp:
        """Parses `sum (%j = 0 to 1024 lanes 8) { … kernel.yield %v : vector<8xf32> } : f32`."""
        kind = parse_kind(parser)
        arguments, used, properties = parse_axes(parser)
        region = parse_body(parser, arguments)
        result_types = parse_result_types(parser)
        properties["kind"] = StringAttr(kind)
        return cls.create(operands=used, result_types=result_types, properties=properties, regions=[region])

    def print(self, printer: Printer) -> None:
        """Prints the kind, the axes, the body and the result types."""
        printer.print_string(f" {self.kind}")
        printer.enter_scope()
        print_axes(printer, self)
        printer.exit_scope()
        self.print_result_types(printer)

    def verify_(self) -> None:
        """Checks the loop, the kind, and that the results follow from what is yielded."""
        self.verify_loop()
        self.verify_kind(YieldOp)
        self.verify_results(self.result_types_of(self.kind, self.yielded.type, self.lanes, self.dim))


class YieldOp(ValueYieldOp):
    """Ends the body of a `kernel.reduce` and gives the value of one point (or of `lanes` points)."""

    name = "kernel.yield"

    def verify_(self) -> None:
        """Checks that it yields one value, from a reduction."""
        parent = self.parent_op()
        if len(self.operands) != 1 or not isinstance(parent, ReduceOp):
            raise VerifyException("kernel.yield gives one value, at the end of a kernel.reduce")
        shape = shape_of_type(self.operands[0].type)
        if parent.lanes > 1 and (len(shape) != parent.dim + 1 or shape[-1] != parent.lanes):
            raise VerifyException(f"kernel.yield: {parent.lanes} lanes yield a vector, not {self.operands[0].type}")
