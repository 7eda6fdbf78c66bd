"""`nest-concatenations`: what was joined before is not joined again part by part.

%x = a, b, c, d, side by side;  %y = a, b, c, d, e, side by side
→
%x = a, b, c, d, side by side;  %y = %x and e, side by side
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from cuesta.dialects import loops
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.operation import ops_of, replace_all_uses
from cuesta.dialects.loops.surgery import remove, top_level_nest
from cuesta.transforms.loops.concatenations import MOST_SELECTED, concatenation_of, join


class NestConcatenationsPass(ModulePass):
    """Of more parts than masks tell apart, the first ones are read where an earlier concatenation stored them, where
    few are left then. Exact. Such a nest is one of points, which what reads it can take in; and its text is as long as
    what is new, where that of n layers of a dense block, each of which joins all before it, would grow with n². As many
    bytes are read as before. The earlier one is stored anyway: nobody takes in a nest that writes part after part. Of
    just as many parts as masks tell apart it might not be; then it is read only where the later one need not be written
    and read by itself.

    Near misses: no more parts than masks tell apart; others come first; too many are left; nothing is computed with it.
    """

    name = "nest-concatenations"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        numbers: dict[tuple[int, SSAValue], int] = {}  # of first parts, one after the other
        joined: dict[tuple[int, int], SSAValue] = {}  # the concatenation along an axis of just these
        for nest in ops_of(entry_block(op)):
            found = concatenation_of(nest) if isinstance(nest, loops.NestOp) else None
            if found is None or not isinstance(nest, loops.NestOp):
                continue
            number, known, first = 0, 0, None
            for position, part in enumerate(found.parts, start=1):
                number = numbers.setdefault((number, part), len(numbers) + 1)
                if (number, found.axis) in joined:
                    known, first = position, joined[number, found.axis]
            result = nest.results[0]
            left = found.parts[known:]
            stored = known > MOST_SELECTED or (known == MOST_SELECTED and _is_computed_with(result))
            if first is not None and stored and left and len(left) < MOST_SELECTED:
                (made,) = join([[first], *([part] for part in left)], found.axis, nest)
                made.name_hint = result.name_hint
                replace_all_uses(result, made)
                remove(nest)
                result = made
            joined.setdefault((number, found.axis), result)


def _is_computed_with(tensor: SSAValue) -> bool:
    """Whether a nest reads a tensor, and does more than to join it with others."""
    readers = [top_level_nest(use.operation) for use in tensor.uses]
    return any(isinstance(one, loops.NestOp) and concatenation_of(one) is None for one in readers)


__all__ = ["NestConcatenationsPass"]
