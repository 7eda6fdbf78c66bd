"""Where tensors lie in their memory: whether ranges overlap, elements are one, and a tensor fills what it lies in.

Sizes may be symbols; each function says whether it guards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Any, Final

import torch


def known_to_meet(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether the ranges of memory of two of them are known to overlap. (Views that interlace count as such.) Where
    sizes are symbols, neighbours in the order of the list are looked at; where only the data says how large they are,
    those overlap that are not known to be apart.
    """
    alike: dict[int, list[torch.Tensor]] = {}
    for tensor in tensors:
        alike.setdefault(memory_of(tensor), []).append(tensor)
    for one in alike.values():
        ranges = [first_and_last(tensor) for tensor in one if is_known(tensor.numel() > 0)]
        if all(type(first) is int and type(last) is int for first, last in ranges):
            ranges.sort()  # two meet where two neighbours do
        if any(_begins_within(a, b) or _begins_within(b, a) for a, b in pairwise(ranges)):
            return True
        if len(one) > 1 and any(map(_is_of_data, one)) and may_meet(one):
            return True
    return False


def _is_of_data(tensor: torch.Tensor) -> bool:
    """Whether only the data says how a tensor lies."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return bool(free_unbacked_symbols([*tensor.shape, *tensor.stride(), tensor.storage_offset()]))


def may_meet(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether the ranges of two tensors of one memory are not known to be apart. Where that depends on symbols, what
    holds in this call is guarded.
    """
    from torch.fx.experimental.symbolic_shapes import guard_or_false

    ranges = [first_and_last(tensor) for tensor in tensors if not is_known(tensor.numel() == 0)]
    if all(type(first) is int and type(last) is int for first, last in ranges):
        ranges.sort()
        return any(a[1] >= b[0] for a, b in pairwise(ranges))
    return any(not (guard_or_false(a[1] < b[0]) or guard_or_false(b[1] < a[0])) for a, b in combinations(ranges, 2))


_TRIES: Final = 10_000
"""How many indices are tried to find out whether two tensors have an element in common.

Source: a bound on the time of a capture: most layouts are settled by a few.
"""


def meet_now(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of one memory have an element in common, with the sizes of this call: places of one are those
    of the other, offset + sum of index * stride. Not where only the data knows the sizes, or where too many indices
    would have to be tried.
    """
    if any(_is_of_data(one) or any(_now(size) == 0 for size in one.shape) for one in (a, b)):
        return False
    laid = [
        (step, size, sign)
        for one, sign in ((a, 1), (b, -1))
        for step, size in zip(one.stride(), one.shape, strict=True)
    ]
    steps = [(_now(step), _now(size) - 1, sign) for step, size, sign in laid]
    steps = sorted((one for one in steps if one[0] and one[1]), reverse=True)
    return _can_be(_now(b.storage_offset()) - _now(a.storage_offset()), steps, [_TRIES])


def is_changed_by(read: torch.Tensor, written: torch.Tensor, *, copies: bool) -> bool:
    """Whether an update of one tensor, element by element, changes what it has yet to read of another of its type, in
    this call. Near misses: the same elements in the same order; a copy between parts with gaps, c[:, :-1] = c[:, 1:],
    of which eager makes what is meant, as it goes forwards.
    """
    if memory_of(read) != memory_of(written) or read.dtype != written.dtype or lie_alike(read, written):
        return False
    return (not copies or (has_no_gaps(read) and has_no_gaps(written))) and meet_now(read, written)


def _can_be(distance: int, steps: Sequence[tuple[int, int, int]], tries: list[int]) -> bool:
    """Whether a distance is a sum of steps, each taken some times, forwards or backwards; the largest first."""
    if not steps:
        return distance == 0
    (step, most, sign), rest = steps[0], steps[1:]
    if distance % math.gcd(*(one for one, _, _ in steps)):
        return False
    # What the others reach must hold the rest of the distance.
    ahead = sum(one * times for one, times, forwards in rest if forwards > 0)
    back = sum(one * times for one, times, forwards in rest if forwards < 0)
    low, high = -((ahead - distance) // step), (distance + back) // step
    if sign < 0:
        low, high = -high, -low
    for times in range(max(0, low), min(most, high) + 1):
        tries[0] -= 1
        if tries[0] < 0:
            return False
        if _can_be(distance - sign * times * step, rest, tries):
            return True
    return False


def _begins_within(a: tuple[Any, Any], b: tuple[Any, Any]) -> bool:
    return is_known(a[0] >= b[0]) and is_known(a[0] <= b[1])


def first_and_last(tensor: torch.Tensor) -> tuple[Any, Any]:
    """The places of a tensor's first and last element in its storage."""
    first = tensor.storage_offset()
    return first, sum(((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True)), first)


def is_known(fact: Any) -> bool:
    """Whether what sizes are compared to is known to hold, without a guard."""
    if type(fact) is bool:
        return fact
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return statically_known_true(fact)


def overlaps(tensor: torch.Tensor) -> bool:
    """Whether elements are one: along a dim with a stride of 0, or because a dim steps to within what the dims of
    smaller strides extend over. (What interlaces there, and does not meet, counts as well.) Where that depends on
    symbols, what holds in this call is guarded.
    """
    from torch.fx.experimental.symbolic_shapes import guard_or_false

    if any(is_known(size == 0) for size in tensor.shape):
        return False
    pairs = [pair for pair in zip(tensor.stride(), tensor.shape, strict=True) if is_several(pair[1])]
    extent: Any = 0
    for step, size in sorted(pairs, key=lambda pair: _now(pair[0])):
        if guard_or_false(step <= extent):
            return True
        extent = extent + step * (size - 1)
    return False


def fills_memory(tensor: torch.Tensor) -> bool:
    """Whether its elements are known to lie one after the other, from the start of its memory on, dims in any order."""
    return is_known(tensor.storage_offset() == 0) and has_no_gaps(tensor)


def lie_alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of one memory are known to be the same elements in the same order."""
    if a.ndim != b.ndim:
        return False
    pairs = [*zip(a.shape, b.shape, strict=True), *zip(a.stride(), b.stride(), strict=True)]
    return all(is_known(one == other) for one, other in [*pairs, (a.storage_offset(), b.storage_offset())])


def has_no_gaps(tensor: torch.Tensor) -> bool:
    """Whether its elements are known to lie one after the other, dims in any order."""
    extent: Any = 1
    pairs = [pair for pair in zip(tensor.stride(), tensor.shape, strict=True) if not is_known(pair[1] == 1)]
    for step, size in sorted(pairs, key=lambda pair: _now(pair[0])):
        if not is_known(step == extent):
            return False
        extent = extent * size
    return True


def order_in_memory(tensor: torch.Tensor) -> Sequence[int]:
    """The axes in the order in which a tensor lies in memory, the outermost first."""
    from torch._prims_common import (
        compute_elementwise_output_logical_to_physical_perm,  # pyright: ignore[reportUnknownVariableType]
    )

    if tensor.is_contiguous():
        return range(tensor.dim())
    return compute_elementwise_output_logical_to_physical_perm(tensor)[0]


def _now(number: Any) -> int:
    """What a number is in this call; 0 if nobody can say."""
    hint = number if type(number) is int else number.node.hint
    return hint if type(hint) is int else 0


def is_several(size: Any) -> bool:
    """Whether a size is known to be more than 1, without a guard."""
    return is_known(size > 1)


def memory_of(tensor: torch.Tensor) -> int:
    """The storage of a tensor, as a number that tells it apart."""
    return tensor.untyped_storage()._cdata  # pyright: ignore[reportPrivateUsage]
