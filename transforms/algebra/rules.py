"""`Rules`: laws and patterns, looked up by what an op is and what its operands are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.pattern_rewriter import RewritePattern

from cuesta.dialects import elem, loops
from cuesta.dialects.core.rewriting import roots_of
from cuesta.transforms.algebra.folding import FoldConstants
from cuesta.transforms.algebra.law import Law
from cuesta.transforms.algebra.matching import LawPattern, number_in, number_of_points, patterns_of, points_of
from cuesta.transforms.algebra.terms import Apply, Constant, Convert, Number, Reduce, Select, Term, Variable

_Head: TypeAlias = "type[Operation] | str | None"
"""What a law asks of where an operand comes from: the class of the op, or a number (as the law has it), or nothing."""
_Source: TypeAlias = "type[Operation] | type[Block] | frozenset[str]"
"""Where an operand comes from: the class of the op; of a constant, those of the numbers in the laws that it is."""
_Key: TypeAlias = "tuple[Any, ...]"


class Rules:
    """Chooses, for an op, the laws and patterns that may match it: `apply_patterns` asks.

    An op is looked up by its class, by what its operands come from (a class, or a constant that a law speaks of) and
    by which of them are one; a reduction by its kind, whether it has points, and what it reduces; both by whether they
    are of integers. What is found is remembered: for most ops that is nothing, and costs one look.
    """

    def __init__(self, rules: Iterable[Law | RewritePattern], *, fold: bool = True) -> None:
        self._fold = (FoldConstants(),) if fold else ()
        self._laws: dict[type[Operation], list[Law]] = {}
        self._patterns: dict[type[Operation], list[LawPattern]] = {}
        """Those of an op's class, made when the first such op is seen."""
        self._general: list[tuple[RewritePattern, tuple[type[Operation], ...]]] = []
        for rule in rules:
            if isinstance(rule, Law):
                self._laws.setdefault(_root(rule.lhs), []).append(rule)
            else:
                self._general.append((rule, roots_of(rule)))
        self._known: dict[_Key, tuple[RewritePattern, ...]] = {}
        self._idle: set[type[Operation]] = set()
        """The classes of ops that no rule is for."""
        self._numbers: dict[Attribute, dict[str, frozenset[str]]] = {}
        """By type, and by how a constant of it is written, the numbers in the laws that it is."""

    def __call__(self, op: Operation) -> tuple[RewritePattern, ...]:
        """The rules that may match an op."""
        op_type = type(op)
        if op_type in self._idle:
            return ()
        if isinstance(op, loops.ReduceOp):
            points, reduced = number_of_points(op), op.yielded
            owner = reduced.owner
            inside = isinstance(owner, Operation) and owner.parent is op.body and type(owner) is not elem.ConstantOp
            facts = (None if points is None else min(points, 2), inside, type(reduced.type) is IntegerType)
            key: _Key = (op_type, op.kind, facts, self._source(reduced))
        else:
            operands = tuple(op.operands)
            count = len(operands)
            same = count == 2 and operands[0] is operands[1]
            if count == 3:
                same = (operands[0] is operands[1], operands[0] is operands[2], operands[1] is operands[2])
            integers = tuple([type(value.type) is IntegerType for value in (*op.results, *operands)])
            key = (op_type, same, integers, *map(self._source, operands))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._find(op, key)
        return found

    def _source(self, value: SSAValue) -> _Source:
        owner = value.owner
        if type(owner) is not elem.ConstantOp:
            return type(owner)
        of_type = self._numbers.get(value.type)
        if of_type is None:
            of_type = self._numbers[value.type] = self._numbers_in(value.type)
        return of_type.get(repr(owner.value), _NO_NUMBER)

    def _numbers_in(self, kind: Attribute) -> dict[str, frozenset[str]]:
        parts = (part for laws in self._laws.values() for law in laws for part in law.lhs.parts)
        numbers = {repr(part.value): part.value for part in parts if isinstance(part, Number)}
        found: dict[str, set[str]] = {}
        for name, number in numbers.items():
            if (held := number_in(number, kind)) is not None:
                found.setdefault(held, set()).add(name)
        return {held: frozenset(names) for held, names in found.items()}

    def _find(self, op: Operation, key: _Key) -> tuple[RewritePattern, ...]:
        op_type = type(op)
        general = tuple(pattern for pattern, roots in self._general if issubclass(op_type, roots))
        if op_type not in self._laws and not issubclass(op_type, elem.TableOp | elem.ConvertOp):
            if not general:
                self._idle.add(op_type)
            return general
        if isinstance(op, loops.ReduceOp):
            laws = [one for one in self._patterns_of(op_type) if _may_reduce(one.law, op, key)]
            # A pattern may say in `reduced` which op has to give what is reduced; others are about all reductions.
            return (*laws, *(one for one in general if getattr(one, "reduced", key[3]) is key[3]))
        operands, sources = tuple(op.operands), key[3:]
        folds = bool(sources) and all(isinstance(source, frozenset) for source in sources)
        laws = (one for one in self._patterns_of(op_type) if _may_match(one, operands, sources))
        return (*(self._fold if folds else ()), *laws, *general)

    def _patterns_of(self, op_type: type[Operation]) -> list[LawPattern]:
        found = self._patterns.get(op_type)
        if found is None:
            found = [pattern for law in self._laws.get(op_type, ()) for pattern in patterns_of(law)]
            self._patterns[op_type] = found
        return found


_NO_NUMBER: frozenset[str] = frozenset()


def _may_reduce(law: Law, op: loops.ReduceOp, key: _Key) -> bool:
    """Whether a reduction may be the left-hand side of a law, by all that the key says of it."""
    term = law.lhs
    _, _, (_, inside, _), source = key
    assert isinstance(term, Reduce)
    if term.kind != op.kind or not points_of(term, number_of_points(op)) or not _fits(_head(term.body), source):
        return False
    varies = inside and isinstance(term.body, Variable) and term.body.invariant
    return not varies and _may_be(law, term.body, op.yielded)


def _may_be(law: Law, term: Term, value: SSAValue) -> bool:
    """Whether a value may be what a law says, integers or floats."""
    integer = type(value.type) is IntegerType
    return not set(law.kinds_of(law.types[term])).isdisjoint("iub" if integer else "fsx?")


def _may_match(pattern: LawPattern, operands: tuple[SSAValue, ...], sources: tuple[_Source, ...]) -> bool:
    """Whether an op with such operands may be the left-hand side of a law, by all that the key says of it."""
    term = pattern.law.lhs
    parts = term.parts[::-1] if term in pattern.swapped else term.parts
    for number, (part, operand, source) in enumerate(zip(parts, operands, sources, strict=True)):
        if not _fits(_head(part), source):
            return False
        if any(part is other and operand is not operands[k] for k, other in enumerate(parts[:number])):
            return isinstance(part, Constant)  # of which one number may stand in two places
    return all(_may_be(pattern.law, part, operand) for part, operand in zip(parts, operands, strict=True))


def _fits(head: _Head, source: _Source) -> bool:
    if head is None:
        return True
    if isinstance(source, frozenset):
        return head is elem.ConstantOp or head in source
    return head is source


def _root(term: Term) -> type[Operation]:
    found = _head(term)
    assert isinstance(found, type)
    return found


def _head(term: Term) -> _Head:
    if isinstance(term, Apply):
        return elem.op_class_of(term.row)
    if isinstance(term, Convert):
        return elem.ConvertOp
    if isinstance(term, Select):
        return elem.SelectOp
    if isinstance(term, Reduce):
        return loops.ReduceOp
    if isinstance(term, Number):
        return repr(term.value)
    assert isinstance(term, Variable | Constant)
    return None if isinstance(term, Variable) else elem.ConstantOp
