"""The gradients of a convolution as calls of their own, each of which may be a product; and as one call again.

%dx, %dw, %db = loops.extern "aten.convolution_backward.default"(%dy, …, [true, true, true])
→
%dx, … = loops.extern "aten.convolution_backward.default"(%dy, …, [true, false, false])
%_, %dw, … = loops.extern "aten.convolution_backward.default"(%dy, …, [false, true, false]), and so on
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import loops
from cuesta.dialects.aten import LITERAL_TYPE, flatten_call
from cuesta.dialects.core.operation import replace_all_uses
from cuesta.dialects.layout import is_tensor
from cuesta.dialects.loops.surgery import remove
from cuesta.transforms.products.windows import GRADIENTS


def gradient_of(call: loops.ExternOp) -> int | None:
    """Which gradient a call gives, where it gives one: 0, of the images, or 1, of the weight."""
    wanted = _wanted(call)
    return wanted[0] if len(wanted) == 1 and wanted[0] < 2 else None


def _wanted(call: loops.ExternOp) -> list[int]:
    """Which gradients a call gives; none where that is not said by position."""
    mask = call.arguments_attr.positional[-1]
    if call.arguments_attr.keywords or not isinstance(mask, tuple):
        return []
    wanted = [which for which, one in enumerate(mask) if one is True]
    given = [which for which, result in enumerate(call.results) if is_tensor(result)]
    return wanted if wanted == given and len(mask) == len(call.results) == 3 else []


def _call_of(call: loops.ExternOp, wanted: Sequence[int], results: Sequence[loops.ExternOp]) -> loops.ExternOp:
    """A call that gives some gradients only, of the types that those in `results` have."""
    positional = call.positional_values()
    positional[-1] = tuple(which in wanted for which in range(3))
    operands, arguments = flatten_call(positional)
    types = [one.results[which].type if which in wanted else LITERAL_TYPE for which, one in enumerate(results)]
    made = loops.ExternOp.of(call.overload, operands, arguments, types, pure="pure" in call.properties)
    made.location = call.location
    return made


def split_gradients(block: Block) -> None:
    """Makes a call of every gradient of the block's convolutions."""
    for call in list(block.ops):
        if not isinstance(call, loops.ExternOp) or call.overload != GRADIENTS or len(wanted := _wanted(call)) < 2:
            continue
        for which in wanted:
            _put(call, _call_of(call, [which], [call] * 3), [which])
        remove(call)


def join_gradients(block: Block) -> None:
    """Makes one call of those that `split_gradients` has left side by side."""
    before: loops.ExternOp | None = None
    for call in list(block.ops):
        if not isinstance(call, loops.ExternOp) or call.overload != GRADIENTS or not (wanted := _wanted(call)):
            before = None
            continue
        if before is not None and not set(wanted) & set(had := _wanted(before)) and _is_same(before, call):
            results = [before if which in had else call for which in range(3)]
            made = _call_of(call, [*had, *wanted], results)
            Rewriter.insert_op(made, InsertPoint.before(before))
            for old, own in ((before, had), (call, wanted)):
                for which in own:
                    made.results[which].name_hint = old.results[which].name_hint
                    replace_all_uses(old.results[which], made.results[which])
                remove(old)
            call = made
        before = call


def _is_same(one: loops.ExternOp, other: loops.ExternOp) -> bool:
    """Whether two calls are of the same convolution."""
    mine, others = one.arguments_attr.positional[:-1], other.arguments_attr.positional[:-1]
    return mine == others and list(one.operands) == list(other.operands)


def _put(old: loops.ExternOp, new: loops.ExternOp, wanted: Sequence[int]) -> None:
    """Puts a call that gives some of the results in the place of another one."""
    Rewriter.insert_op(new, InsertPoint.before(old))
    for which in wanted:
        new.results[which].name_hint = old.results[which].name_hint
        replace_all_uses(old.results[which], new.results[which])


__all__ = ["gradient_of", "join_gradients", "split_gradients"]
