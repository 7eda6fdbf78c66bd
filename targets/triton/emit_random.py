"""`elem.random_word` as Triton text. Four places that follow one another have one call of Philox: a block of them along
which they do is made of a quarter as many calls, whose words are joined.

    w = functions.random_word(key, tl.cast(i * 1024 + j, tl.int64), first)
    →
    w = functions.random_words(key, i * 256 + tl.arange(0, 16)[None, :], first, 1)

The bits are the same. A call takes some 80 instructions, which four elements share, and their words go through shared
memory once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.ir import Block, Operation, SSAValue

from cuesta.dialects import elem, kernel, sym
from cuesta.dialects.core.keyed_draws import IN_A_CALL
from cuesta.dialects.kernel.shapes import shape_of
from cuesta.targets.triton.emit_index import index_text

if TYPE_CHECKING:
    from cuesta.targets.triton.emit_kernel import KernelEmitter


_RANKS = (1, 2)
"""Of blocks whose words are joined."""


def emit_random_word(emitter: KernelEmitter, op: Operation) -> None:
    """The word of each place of a block."""
    assert isinstance(op, elem.RandomWordOp)
    key, place = op.operands
    real = emitter.joint([emitter.real_of(operand) for operand in op.operands])
    if (calls := _calls(emitter, key, place)) is not None:
        text, dim = calls
        emitter.define(op, f"functions.random_words({emitter.name(key)}, {text}, {op.first}, {dim})", real)
        return
    emitter.define(op, f"functions.random_word({emitter.name(key)}, {emitter.name(place)}, {op.first})", real)


def _calls(emitter: KernelEmitter, key: SSAValue, place: SSAValue) -> tuple[str, int] | None:
    """The text of the places divided by four, a quarter as many as there are, and the dimension of blocks along which
    they follow one another; None where they do not, or a call's four are not all in the block.
    """
    index = place.owner
    if not isinstance(index, kernel.IndexOp) or isinstance(index.offset, int) or emitter.real_of(key):
        return None
    if len(emitter.padded(shape_of(index.result))) not in _RANKS:
        return None
    for position, variable in enumerate(index.indices):
        loop = variable.owner.parent_op() if isinstance(variable.owner, Block) else None
        if not isinstance(loop, kernel.LoopOp) or variable is not loop.induction_variables[-1]:
            continue
        if loop.lanes == 1 or loop.lanes % IN_A_CALL:
            continue
        rest = _quotient(index.offset - sym.dim(position))
        first = _quotient(loop.lowers.results[-1]) if emitter.is_single_tile(loop) else None
        if rest is None or first is None or sym.coefficient(index.offset, position) != 1:
            continue
        dim = emitter.place(loop.dim)
        lanes = emitter.lane_text(loop.lanes // IN_A_CALL, dim)
        terms = [_text(emitter, e, indices) for e, indices in ((first, loop.operands), (rest, index.indices))]
        return " + ".join([*(term for term in terms if term != "0"), lanes]), dim
    return None


def _text(emitter: KernelEmitter, e: sym.IndexExpr, indices: Sequence[SSAValue]) -> str:
    return emitter.index(e, indices)[0] if not isinstance(e, int) else index_text(e, ())


def _quotient(e: sym.IndexExpr) -> sym.IndexExpr | None:
    """e / 4, where that is a whole number whatever the dimensions are."""
    if isinstance(e, int):
        return e // IN_A_CALL if e % IN_A_CALL == 0 else None
    if any(factor % IN_A_CALL for _, factor in e.terms) or e.constant % IN_A_CALL:
        return None
    return e // IN_A_CALL


__all__ = ["emit_random_word"]
