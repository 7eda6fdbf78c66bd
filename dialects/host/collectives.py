"""Functional collectives: calls that start a communication between processes, and calls that wait for one.

    %s = host.extern "_c10d_functional::all_reduce.default"(%x, "sum", "0")
    …                                            // reads %x, and writes %s
    %w = host.extern "_c10d_functional::wait_tensor.default"(%s)

The result of a start is fresh memory; that of a wait is its operand, without a copy.
Source: torch/csrc/distributed/c10d/Functional.cpp.
"""

from __future__ import annotations

from typing import TypeGuard

from xdsl.ir import Operation, SSAValue

from cuesta.dialects.aten.call import CallLike
from cuesta.dialects.host.ops import ExternOp, ReinterpretOp

NAMESPACE = "_c10d_functional::"
_WAIT = f"{NAMESPACE}wait_tensor.default"
_STARTS = frozenset(
    f"{NAMESPACE}{name}.default"
    for name in (
        "all_gather_into_tensor",
        "all_gather_into_tensor_coalesced",
        "all_reduce",
        "all_reduce_coalesced",
        "all_to_all_single",
        "broadcast",
        "reduce_scatter_tensor",
        "reduce_scatter_tensor_coalesced",
    )
)
"""Those that change no operand."""


def is_start(op: Operation) -> TypeGuard[CallLike]:
    """Whether a call, at any level, starts a communication that somebody has to wait for."""
    return isinstance(op, CallLike) and op.overload in _STARTS


def is_wait(op: Operation) -> TypeGuard[CallLike]:
    """Whether a call waits for the communication that writes its operand."""
    return isinstance(op, CallLike) and op.overload == _WAIT


def is_collective(op: Operation) -> bool:
    """Whether it is a start or a wait."""
    return is_start(op) or is_wait(op)


def start_behind(wait: CallLike) -> ExternOp | None:
    """The start that a wait is for; None when it stands in another program."""
    value: SSAValue = wait.operands[0]
    while isinstance(value.owner, ReinterpretOp):
        value = value.owner.source
    owner = value.owner
    if isinstance(owner, ExternOp):
        return owner if owner.overload in _STARTS else None
    return None
