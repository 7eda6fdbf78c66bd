"""`Rules`: laws and patterns, looked up by what an op is and what its operands are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from xdsl.ir import Block, Operation
from xdsl.pattern_rewriter import RewritePattern

from cuesta.dialects import elem, loops
from cuesta.dialects.core.rewriting import roots_of
from cuesta.transforms.algebra.folding import FoldConstants
from cuesta.transforms.algebra.law import Law
from cuesta.transforms.algebra.matching import LawPattern, patterns_of
from cuesta.transforms.algebra.terms import Apply, Constant, Convert, Number, Reduce, Select, Term, Variable

_Head: TypeAlias = "type[Operation] | type[Block] | None"
_Key: TypeAlias = "tuple[Any, ...]"


class Rules:
    """Chooses, for an op, the laws and patterns that may match it: `apply_patterns` asks.

    An op is looked up by its class, the classes of what its operands come from, and whether two operands are one. What
    is found is remembered: for most ops that is nothing, and costs one look.
    """

    def __init__(self, rules: Iterable[Law | RewritePattern], *, fold: bool = True) -> None:
        self._fold = (FoldConstants(),) if fold else ()
        self._laws: dict[type[Operation], list[Law]] = {}
        self._patterns: dict[type[Operation], list[tuple[tuple[_Head, ...], bool, RewritePattern]]] = {}
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

    def __call__(self, op: Operation) -> tuple[RewritePattern, ...]:
        """The rules that may match an op."""
        op_type = type(op)
        if op_type in self._idle:
            return ()
        if isinstance(op, loops.ReduceOp):
            key: _Key = (op_type, type(op.yielded.owner))
        else:
            operands = op.operands
            owners = [type(operand.owner) for operand in operands]
            key = (op_type, len(owners) == 2 and operands[0] is operands[1], *owners)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._find(op, key)
        return found

    def _find(self, op: Operation, key: _Key) -> tuple[RewritePattern, ...]:
        op_type = type(op)
        general = tuple(pattern for pattern, roots in self._general if issubclass(op_type, roots))
        if op_type not in self._laws and not issubclass(op_type, elem.TableOp | elem.ConvertOp):
            if not general:
                self._idle.add(op_type)
            return general
        is_reduction = op_type is loops.ReduceOp
        owners = key[1:] if is_reduction else key[2:]
        same = not is_reduction and bool(key[1])
        folds = bool(owners) and all(owner is elem.ConstantOp for owner in owners) and not is_reduction
        laws = tuple(
            pattern
            for heads, needs_same, pattern in self._patterns_of(op_type)
            if (same or not needs_same)
            and all(head is None or head is owner for head, owner in zip(heads, owners, strict=True))
        )
        return (*(self._fold if folds else ()), *laws, *general)

    def _patterns_of(self, op_type: type[Operation]) -> list[tuple[tuple[_Head, ...], bool, RewritePattern]]:
        found = self._patterns.get(op_type)
        if found is None:
            patterns = [pattern for law in self._laws.get(op_type, ()) for pattern in patterns_of(law)]
            found = self._patterns[op_type] = [(*_shape(pattern), pattern) for pattern in patterns]
        return found


def _shape(pattern: LawPattern) -> tuple[tuple[_Head, ...], bool]:
    """The classes of what a pattern's operands come from, and whether the two are the same."""
    term = pattern.law.lhs
    parts = term.parts[::-1] if term in pattern.swapped else term.parts
    return tuple(map(_head, parts)), len(parts) == 2 and parts[0] is parts[1]


def _root(term: Term) -> type[Operation]:
    found = _head(term)
    assert found is not None
    return found


def _head(term: Term) -> type[Operation] | None:
    if isinstance(term, Apply):
        return elem.op_class_of(term.row)
    if isinstance(term, Convert):
        return elem.ConvertOp
    if isinstance(term, Select):
        return elem.SelectOp
    if isinstance(term, Reduce):
        return loops.ReduceOp
    assert isinstance(term, Variable | Constant | Number)
    return None if isinstance(term, Variable) else elem.ConstantOp
