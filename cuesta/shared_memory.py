"""Inputs that share memory in another way than when a graph was compiled, where the graph writes to one of them.

AOTAutograd looks at what inputs share in the first call: one that is written to and another in the same memory become
views of one tensor, at the places that they had. Of a later call it asks nothing where sizes are known (torch 2.11 to
2.13): the program for two tensors of their own runs for two views of one, and does not see the update; that for views
writes where those of the first call were, beside what it is given. All of that in silence, with every backend.

    f(x, y): x.add_(1); return y * 2        f(zeros(3), zeros(3)), then f(z, z.view(3))
                                            f(z[1:4], z[:3]), then f(z[:3], z[2:5])

Nor does it ask whether an input still lies where the tensor does that it was made a view of: one that was given other
data (`x.data = y`) does not, and all would be made anew in the old memory.

So a graph that writes to an input looks before each call where its inputs lie, and eager runs what lies otherwise.

Source: `merge_view_inputs` of torch/_functorch/_aot_autograd/runtime_wrappers.py, `compute_overlapping_inputs` of
input_output_analysis.py (its guard is there for symbols alone).
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from operator import add, itemgetter, le
from typing import Any, Final, TypeAlias

import torch
from torch.fx import GraphModule

from cuesta.dialects.core.structs import struct
from cuesta.in_eager import run_in_eager
from cuesta.lowering.capture.dynamo_graph import has_memory, parts_of, value_of, written_by
from cuesta.lowering.capture.memory_ranges import first_and_last, may_meet, memory_of
from cuesta.targets.python_functions import define

KEPT = 8
"""So many sets of places that were found to be right are known again. An optimizer's gradients lie in few places, which
take turns, and to know one of 800 tensors again takes 5 µs, where to look anew takes 55.
Source: `timeit` on a two-core AMD Zen 4, torch 2.13 (sorted starts against sorted ends, a set of tuples).
"""

WRITTEN_OUT = 16
"""The most tensors that a call of its own text looks at: 0.33 µs for three, where `map` takes 0.57; of many they are
equal.
Source: `timeit` on a two-core AMD Zen 4, torch 2.13.
"""


@struct
class Place:
    """A tensor among the inputs of a graph, or a part of one, as it was when the graph was compiled."""

    position: int
    names: tuple[str, ...]
    """Of the part within a tensor subclass, from the outside."""
    written: bool
    memory: int | None
    """The same number for those that shared memory, and may have met there; None for the others."""
    start: int | None
    """Where it begins in its storage, in bytes: AOTAutograd makes those that share memory anew there. None if a symbol
    says so.
    """
    size: int | None
    """Of the memory that it lies in, from its first to its last element, in bytes; None if symbols say so."""

    @property
    def is_looked_at(self) -> bool:
        """Whether its address does not say all that matters."""
        return self.size is None or self.memory is not None

    def of(self, arguments: Sequence[Any]) -> torch.Tensor:
        """The tensor among the arguments of a call."""
        found = arguments[self.position]
        for name in self.names:
            found = getattr(found, name)
        return found


_address = torch.Tensor.data_ptr


def shared_as_before(function: Callable[..., Any], gm: GraphModule, places: Sequence[Place]) -> Callable[..., Any]:
    """A function of a Dynamo graph's inputs: eager, where they share memory otherwise than they did."""
    if not places:
        return function
    eager: list[Callable[..., Any]] = []
    tensors_of, changing = _reader(places), [k for k, place in enumerate(places) if place.is_looked_at]
    sizes = [place.size or 0 for place in places]
    last: Any = None
    known: set[Any] = set()

    def is_right(lies: Any) -> bool:
        if lies in known:
            return True
        if not _lie_as_before(places, sizes, lies, changing):
            return False
        if len(known) >= KEPT:
            known.clear()
        known.add(lies)
        return True

    def in_eager(*args: Any) -> Any:
        if not eager:
            why = "inputs, of which one is written to, share memory otherwise than when it was compiled"
            warnings.warn(f"cuesta runs a graph in eager: {why}", stacklevel=3)
            eager.append(run_in_eager(gm))
        return eager[0](*args)

    if not changing and len(places) <= WRITTEN_OUT and not any(place.names for place in places):
        return _written_out(function, gm, places, is_right, in_eager)

    def call(*args: Any) -> Any:
        nonlocal last
        try:
            tensors = tensors_of(args)
            lies: Any = tuple(map(_address, tensors))
        except RuntimeError:  # somebody traces this call: there is no memory
            return function(*args)
        if changing:
            lies = (lies, *[_seen(places[k], tensors[k], lies[k]) for k in changing])
        if lies != last:
            if not is_right(lies):
                return in_eager(*args)
            last = lies
        return function(*args)

    return call


def _written_out(
    function: Callable[..., Any],
    gm: GraphModule,
    places: Sequence[Place],
    is_right: Callable[[Any], bool],
    in_eager: Callable[..., Any],
) -> Callable[..., Any]:
    """The same call of a few tensors, none of which is looked at more closely, as a text for their number: half the
    time of one for any number.
    """
    given = ", ".join(f"a{k}" for k in range(len(gm.graph.find_nodes(op="placeholder"))))
    lies = "".join(f"address(a{place.position}), " for place in places)
    namespace: dict[str, Any] = {
        "function": function, "address": _address, "is_right": is_right, "in_eager": in_eager, "last": None,
    }  # fmt: skip
    define(_TEXT.format(given=given, lies=lies), "call", namespace)
    return namespace["call"]


_TEXT: Final = """\
def call({given}):
    global last
    try: lies = ({lies})
    except RuntimeError: return function({given})  # somebody traces this call: there is no memory
    if lies != last:
        if not is_right(lies): return in_eager({given})
        last = lies
    return function({given})
"""


def _reader(places: Sequence[Place]) -> Callable[[Sequence[Any]], Sequence[torch.Tensor]]:
    """What takes the tensors of two places or more from the arguments of a call."""
    if any(place.names for place in places):
        return lambda args: [place.of(args) for place in places]
    return itemgetter(*[place.position for place in places])


def places_of_inputs(gm: GraphModule) -> Sequence[Place]:
    """The tensors that a Dynamo graph is given, parts of subclasses for themselves, where it writes to one; none if it
    writes to none, or is given one alone.
    """
    given = [
        (position, names, part)
        for position, node in enumerate(gm.graph.find_nodes(op="placeholder"))
        for names, part in _parts(value_of(node), ())
    ]
    if len(given) < 2:
        return ()
    written = _written(gm) & {memory_of(part) for _, _, part in given}
    if not written:
        return ()
    counts = Counter(memory_of(part) for _, _, part in given)
    together = {
        memory
        for memory in written
        if counts[memory] > 1 and may_meet([part for _, _, part in given if memory_of(part) == memory])
    }
    places: list[Place] = []
    for position, names, part in given:
        memory = memory_of(part)
        first, last = first_and_last(part)
        is_known = all(type(one) is int for one in (first, last, *part.shape))
        places.append(
            Place(
                position=position, names=names, written=memory in written,
                memory=memory if memory in together else None,
                start=first * part.itemsize if type(first) is int else None,
                size=_size_of(part) if is_known else None,
            )
        )  # fmt: skip
    return places


def _parts(value: object, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], torch.Tensor]]:
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    if is_traceable_wrapper_subclass(value):
        inner: Any = value
        for name in inner.__tensor_flatten__()[0]:
            yield from _parts(getattr(inner, name), (*names, name))
    elif isinstance(value, torch.Tensor) and has_memory(value):
        yield names, value


def _written(gm: GraphModule) -> set[int]:
    """The storages of what a graph writes to."""
    nodes = [node for module in gm.modules() if isinstance(module, GraphModule) for node in module.graph.nodes]
    targets = [one for node in nodes if node.op in ("call_method", "call_function") for one in written_by(node)]
    return {memory_of(part) for target in targets for part in parts_of(target)}


Seen: TypeAlias = "tuple[int, int, bool]"
"""Of one that is looked at: the size of its memory, where its storage begins and whether it lies where the tensor does
that it is a view of; 0 where that does not matter. What its place says of its start holds, or the storage begins at
`NOWHERE`.
"""
NOWHERE = -1
"""No address."""


def _seen(place: Place, tensor: torch.Tensor, address: int) -> Seen:
    size = _size_of(tensor) if place.size is None else place.size
    if place.memory is None:
        return size, 0, True
    begin: Any = tensor.storage_offset() * tensor.itemsize
    base = tensor._base  # of which AOTAutograd makes it anew
    is_at_home = base is None or memory_of(base) == memory_of(tensor)
    return size, address - begin if place.start in (None, begin) else NOWHERE, is_at_home


def _lie_as_before(places: Sequence[Place], sizes: Sequence[int], lies: Any, changing: Sequence[int]) -> bool:
    """Whether those that shared memory begin where they did in it, and none of the others meets what is written to.
    `lies` are addresses; if something is changing, those and what was seen of each.
    """
    if changing:
        lies, *seen = lies
        sizes = list(sizes)
        memories: dict[int, int] = {}
        for k, (size, begin, is_at_home) in zip(changing, seen, strict=True):
            sizes[k], memory = size, places[k].memory
            if memory is not None and (
                begin == NOWHERE or not is_at_home or memories.setdefault(memory, begin) != begin
            ):
                return False
    return _lie_apart(lies, sizes) or _meet_as_before(places, lies, sizes)


def _lie_apart(addresses: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether nothing meets: the first k to end have ended when the next begins. (Where two meet, these are among those
    that have begun and not ended.)
    """
    begun, ended = sorted(addresses), sorted(map(add, addresses, sizes))
    return all(map(le, ended[:-1], begun[1:]))


def _meet_as_before(places: Sequence[Place], addresses: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether nothing meets what is written to, but for what it shared memory with."""
    given = zip(places, addresses, sizes, strict=True)
    ranges = [(address, address + size, place) for place, address, size in given if size and address]
    ranges.sort(key=itemgetter(0))
    reached: list[tuple[int, int, Place]] = []
    for one in ranges:
        reached = [other for other in reached if other[1] > one[0]]
        if any(_is_seen_by(one[2], other) for _, _, other in reached):
            return False
        reached.append(one)
    return True


def _is_seen_by(one: Place, other: Place) -> bool:
    """Whether one of two that meet is written to, and did not share memory with the other."""
    return (one.written or other.written) and (one.memory is None or one.memory != other.memory)


def _size_of(tensor: torch.Tensor) -> int:
    first, last = first_and_last(tensor)
    return (last - first + 1) * tensor.itemsize if tensor.numel() else 0


__all__ = ["Place", "places_of_inputs", "shared_as_before"]
