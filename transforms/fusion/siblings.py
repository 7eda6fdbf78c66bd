"""Siblings: nests with one parallel domain that read one large tensor, and neither of which needs the other; on a GPU
also nests of few points that share nothing but their domain: one launch is less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from xdsl.ir import SSAValue

from cuesta.dialects import loops, sym
from cuesta.dialects.core.operation import ops_of
from cuesta.dialects.layout import device_of, sizes_of, tensor_type_of, traits_of
from cuesta.dialects.loops.surgery import is_pointwise
from cuesta.transforms import thresholds
from cuesta.transforms.fusion.space import volume
from cuesta.transforms.reductions.members import splittable_reductions

_LARGE = 1 << 15
"""The elements of a tensor from which on it is worth reading it once instead of twice.

Source: measured by `make bench-constants ARGS='--only siblings._LARGE'`
"""
_MOST_OUTS = 8
"""The most tensors that a merged pointwise nest stores: more streams than this and the hardware loses track of them.

Source: measured by `make bench-constants ARGS='--only siblings._MOST_OUTS'`
"""

_Key = tuple[SSAValue, tuple[sym.IndexExpr, ...]]


class Siblings:
    """The nests met so far, by what they read and by their parallel domain."""

    def __init__(self) -> None:
        self._known: dict[_Key, list[loops.NestOp]] = {}
        """Those that read one tensor, the latest last; nests that are gone are taken off when they are met."""

    def add(self, nest: loops.NestOp, sources: Iterable[SSAValue]) -> None:
        """Remembers a nest that reads `sources`."""
        for key in _keys(nest, sources):
            self._known.setdefault(key, []).append(nest)

    def of(self, nest: loops.NestOp, sources: Iterable[SSAValue]) -> loops.NestOp | None:
        """The latest nest over the same domain that reads one of `sources`, a large tensor that `nest` reads."""
        for key in _keys(nest, sources):
            known = self._known.get(key, [])
            while known and known[-1].parent is not nest.parent:  # others compute it now
                known.pop()
            if not known or (found := known[-1]) is nest:
                continue
            if is_pointwise(nest) and len(found.results) + len(nest.results) > _MOST_OUTS:
                continue
            if is_pointwise(nest) == is_pointwise(found) and not _keeps_from_splitting(nest, found):
                return found
        return None


def _keys(nest: loops.NestOp, sources: Iterable[SSAValue]) -> list[_Key]:
    return [(source, nest.sizes) for source in sources if _is_worth_sharing(source)]


def small_groups(nests: Iterable[loops.NestOp]) -> list[list[loops.NestOp]]:
    """Nests of few points that may be one launch on a device that is asked for each, by their domain, in order. What
    others are like is left for `join-launches`, which makes one launch of any number.
    """
    groups: dict[tuple[str, tuple[sym.IndexExpr, ...]], list[loops.NestOp]] = {}
    for nest in nests:
        points = volume(nest.sizes)
        is_small = nest.results and isinstance(points, int) and points < _LARGE
        if is_small and traits_of(nest.results[0]).blocks and is_pointwise(nest):
            device = device_of(tensor_type_of(nest.results[0]))
            groups.setdefault((device, nest.sizes), []).append(nest)
    found: list[list[loops.NestOp]] = []
    for group in groups.values():
        if len(group) > 1:
            names = [tuple([op.name for op in ops_of(nest.body)]) for nest in group]
            often = Counter(names)
            found.append([nest for nest, name in zip(group, names, strict=True) if often[name] == 1])
    return found


def may_be_one(first: loops.NestOp, second: loops.NestOp) -> bool:
    """Whether a nest of both would not have too many results."""
    return len(first.results) + len(second.results) <= _MOST_OUTS


def _is_worth_sharing(source: SSAValue) -> bool:
    elements = volume(sizes_of(tensor_type_of(source)))
    return not isinstance(elements, int) or elements >= _LARGE


def are_small(nest: loops.NestOp) -> bool:
    """Whether what a nest stores is so little that it does not matter how long it is kept."""
    return all(not _is_worth_sharing(result) for result in nest.results)


def _keeps_from_splitting(a: loops.NestOp, b: loops.NestOp) -> bool:
    """Whether two nests of a few parallel points would no longer be reductions over one domain, which can be split
    among the threads.
    """
    points = volume(a.sizes)
    if is_pointwise(a) or not isinstance(points, int) or points >= thresholds.FEW:
        return False
    first, second = splittable_reductions(a), splittable_reductions(b)
    return first is None or second is None or first[0].sizes != second[0].sizes
