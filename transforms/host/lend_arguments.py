"""`lend-arguments`: an operator that changes a tensor is given the tensor itself, where nobody reads the old elements.

    %t = host.eager "higher_order.auto_functionalized_v2"(%op, …, _all_bases = [%c])     // clones %c, changes the clone
    %n = host.check … (getitem %t, 1)
    …
    host.eager "aten.copy_.default"(%c, %n)
    →
    %t = host.eager "higher_order.auto_functionalized_v2"(%op, …, _all_bases = [%c], _only_clone_these_bases = [])

%n is %c then, and the copy is of a tensor to itself, which does nothing. AOTAutograd puts the operator between values
because a graph is functional; the clone is what that costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from cuesta.dialects import host
from cuesta.dialects.core.entry import entry_block, entry_function
from cuesta.dialects.core.operation import ops_of
from cuesta.dialects.core.tracing import no_match
from cuesta.dialects.core.whole_program import WholeProgramPass
from cuesta.dialects.host.lending import Changes, bases_of, changes_between, lend
from cuesta.transforms.host.aliasing import may_alias

_COPY = "aten.copy_.default"


class LendArgumentsPass(WholeProgramPass):
    """Operators that change an argument of the program, which holds in the end what the last of them left there.

    Near misses: an argument, or what an operator made of it on the way, that somebody reads afterwards; one that gets
    another value in the end; a result of the program that may be memory of it.
    """

    name = "lend-arguments"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not isinstance(entry_function(op), host.FuncOp):
            return
        functions = {inner.sym_name: inner for inner in op.body.ops if isinstance(inner, host.FuncOp)}
        order = _Order(ops_of(entry_block(op)), functions)
        for inner in order.places:
            if isinstance(inner, host.EagerOp) and inner.overload == _COPY and len(inner.operands) == 2:
                argument, value = inner.operands
                calls = changes_between(argument, value)
                if calls and isinstance(argument, BlockArgument) and order.may_lend(argument, value, calls, inner):
                    for call, number in calls:
                        lend(call, number)


class _Order:
    """The ops of `@main`, in order, and what they give that may lie in memory of what they are given."""

    def __init__(self, ops: Sequence[Operation], functions: Mapping[str, host.FuncOp]) -> None:
        self.places = {op: place for place, op in enumerate(ops)}
        self.functions = functions

    def may_lend(self, argument: SSAValue, value: SSAValue, calls: Changes, copy: Operation) -> bool:
        """Whether the calls may change the argument itself, one after the other, and `copy` find it done."""
        if not all(self.is_read_before(bases_of(call)[number], call, copy) for call, number in calls):
            no_match(copy, "what an operator changes is read afterwards")
            return False
        if any(isinstance(use.operation, host.ReturnOp) for one in self.aliases(value) for use in one.uses):
            no_match(copy, "the caller gets what may be memory of the argument")
            return False
        return True

    def is_read_before(self, base: SSAValue, call: Operation, copy: Operation) -> bool:
        """Whether what a call changes, and all that may lie in its memory, is used before the call, and by it once."""
        if sum(operand is base for operand in call.operands) != 1:
            return False
        users = [use.operation for one in self.aliases(base, but=(call, copy)) for use in one.uses]
        others = [user for user in users if user not in (call, copy) and not isinstance(user, host.FreeOp)]
        return all(self.places[user] < self.places[call] for user in others)

    def aliases(self, value: SSAValue, but: Sequence[Operation] = ()) -> list[SSAValue]:
        """A value, and all that others make of it that may lie in its memory."""
        found: dict[SSAValue, None] = {}
        work = [value]
        while work:
            one = work.pop()
            if one not in found:
                found[one] = None
                for use in one.uses:
                    if use.operation not in but:
                        work += self.results_in(use.operation, use.index)
        return list(found)

    def results_in(self, op: Operation, position: int) -> list[SSAValue]:
        """The results of an op that may lie in the memory of one of its operands."""
        if isinstance(op, host.FreeOp | host.ReturnOp):
            return []
        if not isinstance(op, host.CallOp):
            return list(op.results)
        body = self.functions[op.callee].body
        end, parameter = body.last_op, body.args[position]
        assert isinstance(end, host.ReturnOp)
        inside = _reinterpretations(parameter)
        return [result for result, given in zip(op.results, end.operands, strict=True) if given in inside]


def _reinterpretations(value: SSAValue) -> set[SSAValue]:
    """The names that a function of kernels has for the memory of a value; what its library calls give may be memory of
    theirs.
    """
    found: set[SSAValue] = set()
    work = [value]
    while work:
        one = work.pop()
        found.add(one)
        for use in one.uses:
            user = use.operation
            if isinstance(user, host.ReinterpretOp) or (isinstance(user, host.ExternOp) and may_alias(user)):
                work += [result for result in user.results if result not in found]
    return found


__all__ = ["LendArgumentsPass"]
