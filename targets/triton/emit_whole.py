"""Kernels whose programs have all of their points, except for a few: `whole = 1` in the schedule.

    if p * 1024 + 1024 <= 23702125:
        … no masks …
    else:
        … as without …

A mask that is not the same for all elements of a vector makes Triton access one element after the other, and where a
size is odd all masks are such. What is tested here is once for a program, so within the branch there is none: of loops
whose bounds follow from the program's number, and of comparisons of an index with a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.ir import Block, Operation, SSAValue

from cuesta.dialects import elem, kernel, sym
from cuesta.dialects.core.structs import struct
from cuesta.targets.triton.emit_index import index_text

if TYPE_CHECKING:
    from cuesta.targets.triton.emit_kernel import KernelEmitter


@struct
class Whole:
    """A test of the program's number, and what holds at all of its points where it is true."""

    test: str
    loops: frozenset[Operation]
    """Loops whose lanes are all points."""
    conditions: frozenset[Operation]
    """Comparisons that are true."""


def whole_program(emitter: KernelEmitter) -> Whole | None:
    """When a program has all of its points; None where that does not follow from its number."""
    tests: dict[str, None] = {}
    loops: set[Operation] = set()
    conditions: set[Operation] = set()
    for op in emitter.func.walk():
        if isinstance(op, kernel.LoopOp) and op.lanes > 1 and emitter.is_single_tile(op):
            found = _tests_of_loop(emitter, op)
            if found:
                loops.add(op)
                tests |= dict.fromkeys(found)
        elif isinstance(op, elem.TableOp) and op.row.name == "lt":
            test = _test_of_comparison(emitter, op)
            if test:
                conditions.add(op)
                tests[test] = None
    if not tests:
        return None
    text = next(iter(tests)) if len(tests) == 1 else " & ".join(f"({test})" for test in tests)
    return Whole(text, frozenset(loops), frozenset(conditions))


def _tests_of_loop(emitter: KernelEmitter, op: kernel.LoopOp) -> list[str]:
    """When all lanes of a loop of one tile are points; empty where they always are, or that is not known."""
    lower = op.lowers.results[-1]
    limits = [e for e in sym.alternatives(op.uppers.results[-1]) if e - lower != op.lanes]
    end, *texts = [_text(emitter, e, op.operands) for e in (lower + op.lanes, *limits)]
    if not end or not all(texts) or any(isinstance(e - lower, int) for e in limits):
        return []
    return [f"{end} <= {text}" for text in texts]


def _test_of_comparison(emitter: KernelEmitter, op: elem.TableOp) -> str:
    """When an index is less than a constant at all points; empty where that is not known."""
    index, limit = (operand.owner for operand in op.operands)
    if not isinstance(index, kernel.IndexOp) or not isinstance(limit, elem.ConstantOp):
        return ""
    greatest: sym.IndexExpr = index.offset
    for k, operand in enumerate(index.indices):
        if isinstance(operand.owner, Block):
            slope, last = sym.coefficient(greatest, k), _last(operand)
            if not isinstance(slope, int) or slope < 0 or last is None:
                return ""
            greatest = greatest + slope * (last - sym.dim(k))
    text = _text(emitter, greatest, index.indices)
    return f"{text} < {int(limit.value)}" if text else ""


def _last(variable: SSAValue) -> int | None:
    """The last point of a loop, or of its tile; None when that is not one number."""
    loop = variable.owner.parent_op() if isinstance(variable.owner, Block) else None
    if not isinstance(loop, kernel.LoopOp):
        return None
    axis = loop.induction_variables.index(variable)
    lower, upper = loop.lowers.results[axis], loop.uppers.results[axis]
    if not isinstance(lower, int) or not isinstance(upper, int):
        return None
    lanes = loop.lanes if axis + 1 == len(loop.induction_variables) else 1
    return lower + -(-(upper - lower) // lanes) * lanes - 1


def _text(emitter: KernelEmitter, e: sym.IndexExpr, operands: Sequence[SSAValue]) -> str:
    """The text of an expression of the program's coordinates; empty where it is of something else."""
    names: list[str] = []
    for k, operand in enumerate(operands):
        known = isinstance(operand.owner, kernel.ProgramIdOp)
        if not known and k in sym.dims_of(e):
            return ""
        names.append(emitter.coordinate(operand.owner.axis) if isinstance(operand.owner, kernel.ProgramIdOp) else "")
    return index_text(e, names)


__all__ = ["Whole", "whole_program"]
