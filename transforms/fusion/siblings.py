"""Siblings: nests with one parallel domain that read one large tensor, and neither of which needs the other; on a GPU
also nests of few points that share nothing but their domain: one launch is less.
"""

from __future__ import annotations

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

_Key = tuple[SSAValue | str, tuple[sym.IndexExpr, ...]]
"""What is read, or the device of what is small, and the domain."""


class Siblings:
    """The nests met so far, by what they read and by their parallel domain."""

    def __init__(self) -> None:
        self._known: dict[_Key, list[loops.NestOp]] = {}
        """Those that read one tensor, the latest last; nests that are gone are taken off when they are met."""

    def add(self, nest: loops.NestOp, sources: Iterable[SSAValue]) -> None:
        """Remembers a nest that reads `sources`."""
        for key in (*_keys(nest, sources), *_small(nest)):
            self._known.setdefault(key, []).append(nest)

    def of(self, nest: loops.NestOp, sources: Iterable[SSAValue]) -> loops.NestOp | None:
        """The latest nest over the same domain that reads one of `sources`, a large tensor that `nest` reads; else one
        that is as small.
        """
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
        for key in _small(nest):
            known = [one for one in self._known.get(key, ()) if one.parent is nest.parent and one is not nest]
            self._known[key] = known
            # What is alike is left for `join-launches`, which makes one launch of any number.
            if known and _names(known[-1]) != _names(nest) and len(known[-1].results) + len(nest.results) <= _MOST_OUTS:
                return known[-1]
        return None


def _keys(nest: loops.NestOp, sources: Iterable[SSAValue]) -> list[_Key]:
    return [(source, nest.sizes) for source in sources if _is_worth_sharing(source)]


def _small(nest: loops.NestOp) -> list[_Key]:
    """What nests of points that are small have in common with others, on a device that is asked for each launch."""
    points = volume(nest.sizes)
    if not nest.results or not traits_of(nest.results[0]).blocks or not isinstance(points, int) or points >= _LARGE:
        return []
    return [(device_of(tensor_type_of(nest.results[0])), nest.sizes)] if is_pointwise(nest) else []


def _names(nest: loops.NestOp) -> list[str]:
    return [op.name for op in ops_of(nest.body)]


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
