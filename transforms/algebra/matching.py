"""Laws as rewrites: finding a left-hand side in a program, and making the right-hand side."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations
from math import isfinite

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, loops
from cuesta.dialects.core.operation import all_ops
from cuesta.dialects.core.rewriting import no_match
from cuesta.transforms.algebra.folding import fold, fold_convert
from cuesta.transforms.algebra.law import Law, is_constant, row_named, work
from cuesta.transforms.algebra.terms import (
    BOOL,
    Apply,
    Constant,
    Convert,
    Number,
    Points,
    Reduce,
    Term,
    Type,
    Variable,
    subterms,
)


class Match:
    """What the terms of a law are in a program: values, types, the number of points of the reduction."""

    def __init__(self, law: Law, swapped: frozenset[Term]) -> None:
        self.law = law
        self.swapped = swapped
        self.values: dict[Term, SSAValue] = {}
        self.types: dict[Type, Attribute] = {BOOL: i1}
        self.inner: list[Operation] = []
        """The ops of the left-hand side but for the outermost."""
        self.reduction: loops.ReduceOp | None = None

    # Finding

    def root(self, op: Operation) -> bool:
        """Whether the op is the left-hand side."""
        return self.op(self.law.lhs, op)

    def op(self, term: Term, op: Operation) -> bool:
        if not self.has_type(term, op.results[0]):
            return False
        if isinstance(term, Apply):
            if not isinstance(op, elem.TableOp) or op.row.name != term.row or "precision" in op.properties:
                return False
            terms = term.operands[::-1] if term in self.swapped else term.operands
        elif isinstance(term, Reduce):
            return isinstance(op, loops.ReduceOp) and self.reduce(term, op)
        elif not isinstance(op, elem.ConvertOp if isinstance(term, Convert) else elem.SelectOp):
            return False
        else:
            terms = term.parts
        return all(self.value(part, operand) for part, operand in zip(terms, op.operands, strict=True))

    def value(self, term: Term, value: SSAValue) -> bool:
        known = self.values.get(term)
        if known is not None:
            return known is value or (isinstance(term, Constant) and self.same_number(known, value))
        owner = value.owner
        if isinstance(term, Variable):
            found = self.has_type(term, value) and not (term.invariant and self.is_inside(value))
        elif isinstance(term, Constant):
            found = isinstance(owner, elem.ConstantOp) and self.has_type(term, value)
        elif isinstance(term, Number):
            found = (
                isinstance(owner, elem.ConstantOp)
                and self.has_type(term, value)
                and repr(owner.value) == number_in(term.value, value.type)
            )
        else:
            found = isinstance(owner, Operation) and self.op(term, owner)
            if found and isinstance(owner, Operation):
                self.inner.append(owner)
        if found:
            self.values[term] = value
        return found

    @staticmethod
    def same_number(one: SSAValue, other: SSAValue) -> bool:
        a, b = one.owner, other.owner
        return isinstance(a, elem.ConstantOp) and isinstance(b, elem.ConstantOp) and repr(a.value) == repr(b.value)

    def has_type(self, term: Term, value: SSAValue) -> bool:
        kind = self.law.types[term]
        scalar = elem.scalar_of(value.type)
        known = self.types.setdefault(kind, scalar)
        return (known is scalar or known == scalar) and elem.kind_of(scalar) in self.law.kinds_of(kind)

    def reduce(self, term: Reduce, op: loops.ReduceOp) -> bool:
        if op.kind != term.kind:
            return False
        if any(isinstance(inner, loops.BoundOp | loops.TensorWriteOp) for inner in all_ops(op)):
            no_match(op, "it does more than reduce: it stores, or may fail")
            return False
        if not points_of(term, number_of_points(op)):
            return False
        self.reduction = op
        return self.value(term.body, op.yielded)

    def is_inside(self, value: SSAValue) -> bool:
        """Whether a value is computed in the body of the reduction, and is no constant."""
        if self.reduction is None or isinstance(value.owner, elem.ConstantOp):
            return False
        block = value.owner if isinstance(value.owner, Block) else value.owner.parent
        while block is not None and block is not self.reduction.body:
            block = block.parent_block()
        return block is not None

    # Conditions

    def refused(self) -> str | None:
        """Why the law does not hold here although the left-hand side is there."""
        law = self.law
        for condition in law.conditions:
            if isinstance(condition, Term):
                holds = bool(self.number(condition))
            else:
                holds = condition.holds(*map(self.fact, condition.of))
            if not holds:
                return f"not {condition}"
        if needs_single_use(law) and not all(op.results[0].has_one_use() for op in self.inner):
            return "what it would save has other uses"
        return None

    def fact(self, of: Constant | Points | Type) -> Attribute | float | int | None:
        """What a condition is told: an attribute, a constant's number, or the number of points, in no type."""
        if isinstance(of, Points):
            return None if self.reduction is None else number_of_points(self.reduction)
        return self.types[of] if isinstance(of, Type) else self.number(of)

    def number(self, term: Term) -> float | int | None:
        """What a term made of constants is, if that is defined."""
        if isinstance(term, Constant):
            owner = self.values[term].owner
            return owner.value if isinstance(owner, elem.ConstantOp) else None
        scalar = self.types[self.law.types[term]]
        if isinstance(term, Number):
            constant = elem.constant(term.value, scalar)
            return constant.value
        if isinstance(term, Points):
            points = None if self.reduction is None else number_of_points(self.reduction)
            return None if points is None else elem.constant(points, scalar).value
        numbers = [self.number(part) for part in term.parts]
        known = [number for number in numbers if number is not None]
        if len(known) < len(numbers):
            return None
        source = self.types[self.law.types[term.parts[0]]]
        if isinstance(term, Apply):
            return fold(row_named(term.row), known, source)
        if isinstance(term, Convert):
            return fold_convert(known[0], source, scalar)
        return known[1] if known[0] else known[2]

    # Making

    def make(self, term: Term, ops: list[Operation]) -> SSAValue | None:
        """The value of a term of the right-hand side, made by the ops that are added to the list; None where it would
        be undefined.
        """
        known = self.values.get(term)
        stays = known is not None and self.reduction is not None and isinstance(known.owner, elem.ConstantOp)
        if known is not None and not stays:
            return known
        if known is not None and isinstance(known.owner, elem.ConstantOp) and not is_constant(term):
            # What stood for a variable may be a constant in the body of the reduction: then it is made anew outside.
            made: Operation = elem.constant(known.owner.value, known.type)
        elif is_constant(term):
            number = self.number(term)
            if number is None:
                return None
            made = elem.constant(number, self.type_of(term))
        elif isinstance(term, Reduce):
            return self.make_reduce(term, ops)
        else:
            operands = [self.make(part, ops) for part in term.parts]
            values = [operand for operand in operands if operand is not None]
            if len(values) < len(operands):
                return None
            if isinstance(term, Apply):
                made = elem.make(term.row, *values)
            elif isinstance(term, Convert):
                made = elem.ConvertOp.build(values[0], self.types[self.law.types[term]])
            else:
                made = elem.SelectOp.build(*values)
        ops.append(made)
        return made.results[0]

    def type_of(self, term: Term) -> Attribute:
        """The type that a term has in the program: of scalars, or of vectors, as the others are."""
        scalar = self.types[self.law.types[term]]
        for value in self.values.values():
            return elem.with_scalar(value.type, scalar)
        return scalar

    def make_reduce(self, term: Reduce, ops: list[Operation]) -> SSAValue | None:
        """The same domain with another body, and of another kind perhaps."""
        old = self.reduction
        assert old is not None
        added: list[Operation] = []
        yielded = self.make(term.body, added)
        end = old.body.last_op
        if yielded is None or end is None:
            return None
        for op in added:
            op.location = old.location
        Rewriter.insert_op(added, InsertPoint.before(end))
        Rewriter.replace_op(end, loops.YieldOp.build(yielded), [])
        made = loops.ReduceOp.create(
            result_types=(yielded.type,),
            properties=loops.ReduceOp.build(term.kind, old.sizes, yielded.type).properties,
            attributes=old.attributes.copy(),
            regions=[old.detach_region(0)],
        )
        ops.append(made)
        return made.results[0]


_POINTS = {"any": (0, float("inf")), "some": (1, float("inf")), "one": (1, 1), "none": (0, 0)}


def number_of_points(op: loops.ReduceOp) -> int | None:
    """How many points the domain of a reduction has, if that is known."""
    points = 1
    for size in op.sizes:
        if not isinstance(size, int):
            return None
        points *= size
    return points


def points_of(term: Reduce, points: int | None) -> bool:
    """Whether a law of reductions is about one of so many points; None is a number that is not known."""
    least, most = _POINTS[term.points]
    return term.points == "any" or (points is not None and least <= points <= most)


def number_in(value: float | int, kind: Attribute) -> str | None:
    """How a law's number is written once a type holds it; None where a type of integers cannot."""
    if elem.kind_of(elem.scalar_of(kind)) != "f" and not isfinite(value):
        return None
    return repr(elem.constant(value, kind).value)


def needs_single_use(law: Law) -> bool:
    """Whether the right-hand side is more work than the outermost op of the left-hand side alone."""
    inside = set(subterms(law.lhs)) - {law.lhs}
    return work(law.right, inside) > work(law.lhs, inside)


class LawPattern(RewritePattern):
    """A law, with the operands of some ops that commute the other way round."""

    def __init__(self, law: Law, swapped: frozenset[Term]) -> None:
        self.law = law
        self.swapped = swapped
        self.label = law.name

    @property
    def source(self) -> str:
        """File and line of the law."""
        return self.law.source

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        """Replaces the op, if it is the left-hand side and the conditions hold."""
        match = Match(self.law, self.swapped)
        if not match.root(op):
            return
        refused = match.refused()
        if refused is not None:
            no_match(op, refused)
            return
        ops: list[Operation] = []
        result = match.make(self.law.right, ops)
        if result is None:
            no_match(op, "the right-hand side is undefined here")
            return
        rewriter.replace(op, ops, [result])


def patterns_of(law: Law) -> Iterator[LawPattern]:
    """The law's patterns: one for each way to order the operands of ops that commute."""
    commuting = [term for term in subterms(law.lhs) if _commutes(term)]
    for swapped in chain.from_iterable(combinations(commuting, count) for count in range(len(commuting) + 1)):
        yield LawPattern(law, frozenset(swapped))


def _commutes(term: Term) -> bool:
    return isinstance(term, Apply) and row_named(term.row).commutes and term.operands[0] is not term.operands[1]
