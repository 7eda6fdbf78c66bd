"""Contracts: what holds of every program at a level, checked where one level ends and the next begins.

A contract is a list of rules. A rule is a function from the module to the ops that break it, with the reason:

    def no_views(module: ModuleOp) -> Iterator[Finding]:
        for op in module.walk():
            if isinstance(op, loops.LoadOp) and isinstance(op.source.owner, loops.ViewOp):
                yield op, "reads a view"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic
from cuesta.dialects.core.dominance import verify_dominance
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.operation import all_ops, ops_of
from cuesta.dialects.core.structs import struct

Finding: TypeAlias = tuple[Operation, str]
Rule: TypeAlias = Callable[[ModuleOp], Iterable[Finding]]

_MOST_SHOWN = 5


@struct
class Contract:
    """What holds when the level begins."""

    level: str
    rules: tuple[Rule, ...]

    def check(self, module: ModuleOp) -> Iterator[Finding]:
        """Every op that breaks a rule, with the reason."""
        for rule in self.rules:
            yield from rule(module)


def check_level(module: ModuleOp, contract: Contract, *, established_by: str) -> None:
    """Check dominance and the contract.

    Errors: CuestaError naming the first few offenders, and the pass that should have established the contract.
    """
    verify_dominance(module)
    findings = list(islice(contract.check(module), _MOST_SHOWN + 1))
    if not findings:
        return
    diagnostics = [
        replace(Diagnostic.on(op, f"{message} (the contract of {contract.level})"), stage=established_by)
        for op, message in findings[:_MOST_SHOWN]
    ]
    if len(findings) > _MOST_SHOWN:
        diagnostics.append(Diagnostic("and more", stage=established_by))
    raise CuestaError(*diagnostics)


def entry_holds_only(*op_types: type[Operation]) -> Rule:
    """The rule that the body of `@main` has no other ops than these (what is inside of them is another matter)."""
    names = ", ".join(sorted(op_type.name for op_type in op_types))

    def rule(module: ModuleOp) -> Iterator[Finding]:
        for op in ops_of(entry_block(module)):
            if not isinstance(op, op_types):
                yield op, f"may not stand in @main; what may: {names}"

    rule.__doc__ = f"`@main` holds only {names}."
    return rule


def nowhere(*op_types: type[Operation], because: str) -> Rule:
    """The rule that these ops are gone from the whole program."""

    def rule(module: ModuleOp) -> Iterator[Finding]:
        for op in all_ops(module):
            if isinstance(op, op_types):
                yield op, because

    return rule
