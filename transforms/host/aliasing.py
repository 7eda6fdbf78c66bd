"""Which values may share memory with which: what passes that move or merge tensors must not change for the caller."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue
from xdsl.traits import IsTerminator

from cuesta.dialects import host, loops
from cuesta.dialects.aten.named_call import NamedCall


def escapes(op: Operation) -> bool:
    """Whether the caller gets a result of the op, or something that may share memory with one.

    The caller may write to what it gets: two tensors that it gets must stay two, and none may become part of an input.
    """
    for result in op.results:
        for use in result.uses:
            user = use.operation
            call = user if isinstance(user, NamedCall) else None
            if user.has_trait(IsTerminator) or (call is not None and call.hands_over):
                return True
            lies_in_it = isinstance(user, loops.ViewOp | loops.WordsOp | loops.JoinOp)
            if (lies_in_it or (call is not None and may_alias(call))) and escapes(user):
                return True
    return False


_FRESH = frozenset(
    {
        "aten.mm.default",
        "aten.addmm.default",
        "aten.bmm.default",
        "aten.baddbmm.default",
        "aten.mm.dtype",
        "aten.addmm.dtype",
        "aten.bmm.dtype",
        "aten.baddbmm.dtype",
        "aten.convolution.default",
        "mkldnn::_linear_pointwise.default",
        "aten._scaled_dot_product_flash_attention_for_cpu.default",
    }
)


def gives_fresh_memory(call: NamedCall) -> bool:
    """Whether nobody but the caller has the memory that a call gives back.

    A schema without aliases does not say so (some operators give their operand back when there is nothing to do), so
    this is a list of those that are known to.
    """
    return call.overload in _FRESH


def may_alias(call: NamedCall) -> bool:
    """Whether a call may give back memory of its operands: a view, or an operator nobody knows."""
    return call.may_alias


def memory_of(value: SSAValue) -> set[SSAValue]:
    """The values whose memory a value may lie in, itself included."""
    found: set[SSAValue] = set()
    work = [value]
    while work:
        one = work.pop()
        if one in found:
            continue
        found.add(one)
        if isinstance(one.owner, host.ReinterpretOp):
            work.append(one.owner.source)
        elif isinstance(one.owner, host.ExternOp) and may_alias(one.owner):
            work += one.owner.operands
    return found
