"""How long a tensor is kept in memory, and whether a move of fusion keeps it longer."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from xdsl.ir import Operation, SSAValue

from cuesta.dialects import loops
from cuesta.dialects.layout import sizes_of, tensor_type_of
from cuesta.dialects.loops.analysis import byte_width
from cuesta.dialects.loops.surgery import top_level_nest
from cuesta.transforms.fusion.space import volume

LARGE: Final = 1 << 25
"""The bytes from which on it matters how long a tensor is kept.

Source: a choice: half of a last cache, which a launch that is saved does not pay for.
"""
_MOST_USES: Final = 100
"""What is read more often is not asked.

Source: a bound against compile-time growth.
"""


def keeps_longer(
    producer: loops.NestOp,
    sources: Iterable[SSAValue],
    consumer: loops.NestOp,
    order: Mapping[Operation, int],
    calls: Sequence[int],
) -> bool:
    """Whether a producer that is computed where its consumer stands keeps something large in memory, one of the
    `sources` that it reads, across a library call, and stores something much smaller where it stands.

    Such as the loss of some rows of logits, of which the last reader would be the loss of all rows: the logits of all
    rows would be there at once. Arguments and results are kept anyway. `calls` are the places of calls in `order`,
    sorted.
    """
    place = order[consumer]
    if not calls or calls[-1] < order[producer]:
        return False
    stored = _bytes(producer.results)
    for source in sources:
        if not isinstance(source.owner, Operation) or _bytes([source]) < max(LARGE, 4 * stored):
            continue
        last = _last_use(source, producer, order)
        if last is not None and (after := bisect_right(calls, last)) < len(calls) and calls[after] < place:
            return True
    return False


def _last_use(source: SSAValue, besides: Operation, order: Mapping[Operation, int]) -> int | None:
    """Where a tensor, or a view of it, is read last but for one reader; None where that is not known."""
    last = order.get(source.owner, 0) if isinstance(source.owner, Operation) else 0
    for number, use in enumerate(source.uses):
        user = top_level_nest(use.operation)
        if number >= _MOST_USES or user not in order:
            return None
        if user is besides:
            continue
        last = max(last, order[user])
        if isinstance(user, loops.ViewOp):
            through = _last_use(user.result, besides, order)
            if through is None:
                return None
            last = max(last, through)
    return last


def _bytes(values: Iterable[SSAValue]) -> int:
    """Their size in all; of sizes that only a call knows, 0."""
    volumes = [(volume(sizes_of(tensor_type_of(one))), byte_width(one)) for one in values]
    return sum(elements * width for elements, width in volumes if isinstance(elements, int))
