"""`share-slices`: nests that do the same to different parts of tensors become one, which is told where its part begins.

%a = loops.nest (%i : 8) … { load %x[%i] … };  %b = loops.nest (%i : 8) … { load %x[%i + 8] … }
→
%p = loops.view %x by (d0) -> (d0);      %a = loops.nest (%i : 8) … { load %p[%i] … }
%q = loops.view %x by (d0) -> (d0 + 8);  %b = loops.nest (%i : 8) … { load %q[%i] … }

Two such nests are one kernel with another pointer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Final

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from cuesta.dialects import loops, sym
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.fingerprint import Fingerprint, fingerprint, key_of
from cuesta.dialects.core.operation import all_ops, ops_of, replace_all_uses
from cuesta.dialects.core.structs import struct
from cuesta.dialects.core.tracing import no_match
from cuesta.dialects.layout import device_of, element_type_of, sizes_of, strides_of, tensor_type, tensor_type_of
from cuesta.dialects.loops.analysis import byte_width
from cuesta.dialects.loops.surgery import index_ranges, producers_of

_ALIGNMENT: Final = 16
"""Bytes of which a part begins at a multiple.

Source: `POINTER_ALIGNMENT` of targets/program.py: other pointers have a kernel of their own on a GPU.
"""


class ShareSlicesPass(ModulePass):
    """Nests that differ only in where what they read begins read views of the parts, which are alike. Exact.

    Near misses: a nest that nobody is like; a load behind a mask, which may be outside of the tensor where nothing is
    read; sizes that are known at run time only; parts that begin at odd addresses; memory that the nest takes over.
    """

    name = "share-slices"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        nests = [one for one in ops_of(entry_block(op)) if isinstance(one, loops.NestOp)]
        alike: dict[Hashable, list[loops.NestOp]] = defaultdict(list)
        for nest in nests:
            alike[_shape_of(nest)].append(nest)
        for group in alike.values():
            if len(group) > 1 and any(_reads_further_on(nest) for nest in group):
                _share(group)


def _shape_of(nest: loops.NestOp) -> Hashable:
    """What nests that are alike have in common, at a glance."""
    return (
        tuple(nest.sizes),
        tuple([key_of(result.type) for result in nest.results]),
        tuple([one.name for one in all_ops(nest)]),
    )


def _reads_further_on(nest: loops.NestOp) -> bool:
    """Whether an index of a load has a constant in it."""
    return any(_constant(e) for loads in producers_of(nest).values() for load in loads for e in load.map.results)


def _constant(e: sym.IndexExpr) -> int:
    return e if isinstance(e, int) else e.constant


@struct(eq=False)
class _Part:
    """The part of a tensor that a nest reads: a view, which stands nowhere yet, and the loads from it in the places of
    others.
    """

    view: loops.ViewOp
    starts: tuple[int, ...]
    loads: list[tuple[loops.LoadOp, loops.LoadOp]]

    def put(self) -> None:
        """Loads read the view."""
        for old, new in self.loads:
            _exchange(old, new)

    def keep(self, nest: loops.NestOp) -> None:
        """The view stands before the nest, for good."""
        block = nest.parent
        assert block is not None
        block.insert_op_before(self.view, nest)
        self.view.location = nest.location
        for old, _ in self.loads:
            old.erase()

    def take_back(self) -> None:
        """Loads read the tensor, for good."""
        for old, new in self.loads:
            _exchange(new, old)
            new.erase()
        self.view.erase()


def _exchange(old: Operation, new: Operation) -> None:
    block = old.parent
    assert block is not None
    block.insert_op_before(new, old)
    replace_all_uses(old.results[0], new.results[0])
    old.detach()


def _share(nests: Sequence[loops.NestOp]) -> None:
    """Nests that are the same but for where their parts begin, of those that look alike."""
    groups: dict[Fingerprint, list[tuple[loops.NestOp, Fingerprint, list[_Part | None]]]] = defaultdict(list)
    for nest in nests:
        before = fingerprint(nest)
        taken_over = set(nest.operands)
        parts = [
            None if source in taken_over else _part_of(source, loads) for source, loads in producers_of(nest).items()
        ]
        for part in filter(None, parts):
            part.put()
        groups[fingerprint(nest)].append((nest, before, parts))
    for members in groups.values():
        if len({before for _, before, _ in members}) < 2:
            for nest, _, parts in members:
                if any(parts):
                    no_match(nest, "nobody does the same to another part")
                for part in filter(None, parts):
                    part.take_back()
            continue
        for place in range(len(members[0][2])):
            column = [part for _, _, parts in members if (part := parts[place]) is not None]
            same = len({tensor_type_of(part.view.source) for part in column}) == 1 and len(column) == len(members)
            if same and not any(any(part.starts) for part in column):  # nothing is gained
                for part in column:
                    part.take_back()
                for _, _, parts in members:
                    parts[place] = None
        for nest, _, parts in members:
            for part in filter(None, parts):
                part.keep(nest)


def _part_of(source: SSAValue, loads: Sequence[loops.LoadOp]) -> _Part | None:
    """The smallest box that holds all that is read of a tensor; None where that is all of it, or not known."""
    kind = tensor_type_of(source)
    sizes = [size for size in sizes_of(kind) if isinstance(size, int)]
    strides = [stride for stride in strides_of(kind) if isinstance(stride, int)]
    static = len(sizes) == len(strides) == len(sizes_of(kind))
    if not static or 0 in sizes or any(load.rest for load in loads):
        return None
    boxes: list[list[tuple[int | None, int | None]]] = []
    for load in loads:
        ranges = index_ranges(load, load.indices)
        if ranges is None or any(not isinstance(size, int) or size < 1 for size in ranges):
            return None
        boxes.append([sym.bounds(e, ranges) for e in load.map.results])
    starts: list[int] = []
    extents: list[int] = []
    for size, column in zip(sizes, zip(*boxes, strict=True), strict=True):
        lows, highs = [low for low, _ in column if low is not None], [high for _, high in column if high is not None]
        known = len(lows) == len(highs) == len(column) and min(lows) >= 0
        last = max(highs) if known else size
        if not known or last >= size:
            starts.append(0)
            extents.append(size)
        else:
            starts.append(min(lows))
            extents.append(last + 1 - min(lows))
    offset = sum(start * stride for start, stride in zip(starts, strides, strict=True))
    if extents == sizes or offset * byte_width(source) % _ALIGNMENT:
        return None
    result = tensor_type(extents, element_type_of(source), strides, device_of(kind))
    steps = [sym.dim(k) + start for k, start in enumerate(starts)]
    view = loops.ViewOp.build(source, sym.MapAttr.get(len(steps), steps), result)
    return _Part(view, tuple(starts), [(load, _moved(load, view.result, starts)) for load in loads])


def _moved(load: loops.LoadOp, view: SSAValue, starts: Sequence[int]) -> loops.LoadOp:
    indices = [e - start for e, start in zip(load.map.results, starts, strict=True)]
    new = loops.LoadOp.build(view, indices, load.indices)
    new.location = load.location
    new.results[0].name_hint = load.results[0].name_hint
    return new


__all__ = ["ShareSlicesPass"]
