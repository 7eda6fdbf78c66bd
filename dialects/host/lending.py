"""Operators of users that change tensors: which tensor a call changes, and whether itself or a clone of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from xdsl.ir import SSAValue

from cuesta.dialects.aten import CallArguments, Operand
from cuesta.dialects.aten.schemas import registered
from cuesta.dialects.host.eager import CheckOp, EagerOp, OperatorOp

CHANGES = "higher_order.auto_functionalized_v2"
"""The operator that calls another on clones of the tensors that this one changes, and gives the clones."""
_BASES, _CLONED = "_all_bases", "_only_clone_these_bases"
"""Source: `auto_functionalized_v2_dense` of torch/_higher_order_ops/auto_functionalize.py."""

Changes: TypeAlias = Sequence[tuple[EagerOp, int]]
"""Calls, and which of its bases each changes."""


def changes_between(first: SSAValue, value: SSAValue) -> Changes:
    """The calls that make `value` of `first` one after the other, the first first; none when there is something else
    between the two.
    """
    found: list[tuple[EagerOp, int]] = []
    while value is not first:
        check = value.owner
        item = check.operands[0].owner if isinstance(check, CheckOp) else None
        if not isinstance(item, EagerOp) or item.overload != "operator.getitem":
            return []
        call, place = item.operands[0].owner, item.arguments_attr.positional[-1]
        if not isinstance(call, EagerOp) or call.overload != CHANGES or not isinstance(place, int):
            return []
        bases, results = bases_of(call), _results_of(call)
        if results is None or not 0 <= place - results < len(bases):
            return []
        found.append((call, place - results))
        value = bases[place - results]
    return found[::-1]


def bases_of(call: EagerOp) -> list[SSAValue]:
    """The tensors that a call changes, or a clone of each."""
    bases = dict(call.arguments_attr.keywords).get(_BASES, ())
    places = [one.index if isinstance(one, Operand) else None for one in bases] if isinstance(bases, tuple) else []
    return [call.operands[place] for place in places if place is not None] if None not in places else []


def lent(call: EagerOp) -> frozenset[int]:
    """Which of its bases a call changes themselves."""
    bases = range(len(bases_of(call)))
    cloned = dict(call.arguments_attr.keywords).get(_CLONED)
    return frozenset(bases) - frozenset(cloned) if isinstance(cloned, tuple) else frozenset()


def lend(call: EagerOp, number: int) -> None:
    """Lets a call clone all bases that it clones but this one."""
    arguments = call.arguments_attr
    cloned = tuple(one for one in range(len(bases_of(call))) if one != number and one not in lent(call))
    call.properties["arguments"] = CallArguments.of(
        arguments.positional, tuple({**dict(arguments.keywords), _CLONED: cloned}.items())
    )


def _results_of(call: EagerOp) -> int | None:
    """How many results stand before the changed tensors: those of the operator, or None if it has none."""
    operator = call.operands[0].owner if call.operands else None
    if not isinstance(operator, OperatorOp):
        return None
    namespace, _, name = operator.operator.partition(".")
    schema = registered(f"{namespace}::{name}")
    return None if schema is None else max(1, len(schema.results))


__all__ = ["CHANGES", "Changes", "bases_of", "changes_between", "lend", "lent"]
