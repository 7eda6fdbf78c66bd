"""A function as captures: what is copied, what is read where it lies, and what is handed out (see `capturing.py`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from cuesta.targets.host.runtime import reinterpreter

Function = Callable[[list[Any]], Any]

MOST_CAPTURES = 64
"""Combinations of sizes and streams of one graph; further ones are not captured."""
_CALLS_BEFORE_PROMOTION = 3
"""After so many calls in a row at which no input moved, those that are copied are read where they lie: once."""
_MOST_GENERATIONS = 3
"""Captures of the same inputs that differ only in where their results lie. A loop that says `y = f(x)` has the results
of one call while it makes the next: two are enough.
"""
_SMALL = 1 / 16
"""The share of the device's memory that a capture may take if there are to be several: the memory of a capture is its
own, what is computed on the way included.
"""


class Refused(Exception):
    """A graph cannot be captured; the message says why."""


@dataclass(frozen=True)
class Capture:
    """What is on the device: `replay` does again what the function did, from and to the same memory."""

    replay: Callable[[], None]
    results: Sequence[Any]
    share: float = 0.0
    """Of the device's memory, what the capture takes."""


class Device(Protocol):
    """Where functions are captured."""

    def stream(self) -> int | None:
        """The stream that calls run on now; None while somebody else captures it, who captures what we launch, too."""
        ...

    def warm_up(self, function: Function, args: list[Any]) -> Any:
        """Runs the function as it is.

        Errors: Refused when it is seen that it cannot be captured, with the results as its second argument.
        """
        ...

    def capture(self, function: Function, args: list[Any]) -> Capture:
        """Captures what the function launches, which does not run yet.

        Errors: Refused.
        """
        ...


@dataclass
class _Output:
    """One result of a call: `value` as it is, or the caller's input number `source`, or a view of that."""

    value: Any
    source: int | None = None
    view: tuple[Sequence[int], Sequence[int], int] | None = None
    copied: bool = True


@dataclass
class _Generation:
    """A capture, and what of its memory is with the caller."""

    replay: Callable[[], None]
    share: float
    outputs: list[_Output] = field(default_factory=list[_Output])
    handed: list[tuple[Any, Sequence[int], Sequence[int]]] = field(default_factory=list["tuple[Any, Any, Any]"])
    """The results that are handed out as they are, in order, with their sizes and strides."""
    others: list[tuple[int, _Output]] = field(default_factory=list["tuple[int, _Output]"])
    """The results that are not, with their positions among all."""
    storages: list[tuple[Any, set[int]]] = field(default_factory=list["tuple[Any, set[int]]"])
    """Memory of results that are handed out as they are, and which they are."""
    addresses: list[int] = field(default_factory=list[int])
    """Of that memory, what torch's own name for it is."""
    usual: list[int] = field(default_factory=list[int])
    """How many refer to that memory when nobody has a result in it."""

    def held(self) -> set[int]:
        """The results that somebody has."""
        found = list(map(_use_count, self.addresses))
        if found == self.usual:
            return set()
        pairs = zip(found, self.usual, self.storages, strict=True)
        return set[int]().union(*(places for count, usual, (_, places) in pairs if count > usual))

    def plan_results(self) -> None:
        """Says how a replay hands the outputs out, once it is known which are copied."""
        for position, output in enumerate(self.outputs):
            value = output.value
            if output.source is None and isinstance(value, torch.Tensor) and not output.copied:
                self.handed.append((value, value.size(), value.stride()))
            else:
                self.others.append((position, output))


@dataclass
class _Entry:
    """The state of one combination of sizes and stream: before there is a capture, only where inputs lay."""

    addresses: list[int]
    """Where inputs that are tensors lay at the last call."""
    copied: set[int] = field(default_factory=set[int])
    """Inputs that are copied, because they lay elsewhere from call to call."""
    moving: set[int] = field(default_factory=set[int])
    """Those that did so after they had seemed to stay: they are copied for good."""
    generations: list[_Generation] = field(default_factory=list[_Generation])
    """What can be replayed, the first that is free."""
    buffers: _Buffers = field(default_factory=lambda: _Buffers({}))
    held: set[int] = field(default_factory=set[int])
    """Results that somebody held for long, which are copied therefore."""
    calm: int = 0
    """For how many calls no copied input moved."""
    promoted: bool = False


class CapturedFunction:
    """A compiled graph's function, as captures. `visible` are the results that a user sees; None says all.

    Of a graph that saves others, those that a user sees are copied: as long as they are alive the next call would lie
    elsewhere with all it saves, and the backward pass would have to copy that.
    """

    def __init__(
        self,
        function: Function,
        device: Device,
        *,
        sized: Sequence[int] = (),
        written: Sequence[int] = (),
        visible: int | None = None,
        tell: Callable[[str], None] = lambda what: None,
    ) -> None:
        self.function = function
        self.device = device
        self.sized = tuple(sized)
        """Inputs whose sizes may differ from call to call."""
        self.written = frozenset(written)
        """Inputs that the graph writes to."""
        self.visible = visible
        self.tell = tell
        self.entries: dict[Any, _Entry] = {}
        self.lock = threading.RLock()
        self.refused = self.full = False
        self.tensors: list[int] = []
        self.others: list[int] = []
        self.captures = 0

    def __call__(self, args: list[Any]) -> Any:
        """The results of the graph. The list of inputs is emptied."""
        if self.refused:
            return self.function(args)
        with self.lock, torch.no_grad():
            return self._call(args)

    def _call(self, args: list[Any]) -> Any:
        if not self.entries:
            self.tensors = [place for place, value in enumerate(args) if isinstance(value, torch.Tensor)]
            self.others = [place for place, value in enumerate(args) if not isinstance(value, torch.Tensor)]
        stream = self.device.stream()
        if stream is None:
            return self.function(args)
        key = (
            stream,
            *[args[place] for place in self.others],
            *[(args[place].size(), args[place].stride()) for place in self.sized],
        )
        entry = self.entries.get(key)
        addresses = [args[place].data_ptr() for place in self.tensors]
        if entry is None:
            return self._first_call(key, addresses, args)
        moved = set[int]()
        if addresses != entry.addresses:
            old = entry.addresses
            moved = {place for k, place in enumerate(self.tensors) if addresses[k] != old[k]}
        if not entry.generations:
            entry.copied = moved
            return self._captured_call(entry, addresses, args)
        if unexpected := moved - entry.copied:
            entry.copied |= unexpected
            entry.moving |= unexpected
            return self._captured_call(entry, addresses, args)
        if entry.copied:
            entry.calm = 0 if moved else entry.calm + 1
            entry.addresses = addresses
            if entry.calm >= _CALLS_BEFORE_PROMOTION and not entry.promoted and entry.copied - entry.moving:
                entry.promoted = True
                entry.copied = set(entry.moving)
                return self._captured_call(entry, addresses, args)
        held: list[set[int]] = []
        for generation in entry.generations:
            held.append(generation.held())
            if not held[-1]:
                return self._replay(entry, generation, args)
        if len(held) < _MOST_GENERATIONS and entry.generations[0].share <= _SMALL:
            return self._captured_call(entry, addresses, args, anew=False)
        entry.held.update(*held)
        return self._captured_call(entry, addresses, args)

    def _first_call(self, key: Any, addresses: list[int], args: list[Any]) -> Any:
        if len(self.entries) >= MOST_CAPTURES:
            if not self.full:
                self.full = True
                self.tell(f"it was called with more than {MOST_CAPTURES} combinations of sizes and streams")
            return self.function(args)
        try:
            results = self.device.warm_up(self.function, args)
        except Refused as error:
            self._refuse(str(error.args[0]))
            return error.args[1]
        self.entries[key] = _Entry(addresses)
        return results

    def _refuse(self, reason: str) -> None:
        self.refused = True
        self.entries.clear()
        self.tell(reason)

    def _captured_call(self, entry: _Entry, addresses: list[int], args: list[Any], *, anew: bool = True) -> Any:
        """A call that is captured, once more perhaps, and then replayed: in place of the captures that there are, or
        beside them.
        """
        if places := entry.copied & self.written:
            self._refuse(f"it writes to its input number {min(places)}, which lies elsewhere from call to call")
            return self.function(args)
        entry.addresses = addresses
        old = list[_Generation]()
        if anew:
            old, entry.generations = entry.generations, []  # may still run; memory of theirs that somebody holds stays
            entry.calm = 0
            entry.buffers = _Buffers({place: _Buffer(args[place]) for place in sorted(entry.copied)})
        buffers = entry.buffers.by_place
        inside = [buffers[place].tensor if place in entry.copied else value for place, value in enumerate(args)]
        try:
            capture = self.device.capture(self.function, list(inside))
        except Refused as error:
            self._refuse(str(error))
            return self.function(args)
        self.captures += 1
        generation = _Generation(capture.replay, capture.share)
        entry.generations.append(generation)
        copied = entry.held | set(range(self.visible or 0))
        storages = self._take_results(generation, copied, list(capture.results), inside)
        del capture, inside, old
        while storages:
            storage, places = storages.pop()
            usual = _references(storage)
            if self.visible is None and usual > 1 + len(places):  # a constant of the graph: nobody may change it
                for position in places:
                    generation.outputs[position].copied = True
            generation.storages.append((storage, places))
            generation.addresses.append(storage._cdata)
            generation.usual.append(usual)
        generation.plan_results()
        return self._replay(entry, generation, args)

    @staticmethod
    def _take_results(
        generation: _Generation, copied: set[int], results: list[Any], inside: list[Any]
    ) -> list[tuple[Any, set[int]]]:
        """Notes where the results of a capture come from, and which are `copied`; gives the memory of those that are
        handed out as they are.
        """
        sources = {
            value.untyped_storage()._cdata: place
            for place, value in enumerate(inside)
            if isinstance(value, torch.Tensor)
        }
        storages: dict[int, tuple[Any, set[int]]] = {}
        for position, value in enumerate(results):
            output = _Output(value)
            generation.outputs.append(output)
            if not isinstance(value, torch.Tensor):
                continue
            storage = value.untyped_storage()
            output.source = sources.get(storage._cdata)
            if output.source is not None:
                source = inside[output.source]
                output.value = None
                if value is not source:
                    offset = value.storage_offset() - source.storage_offset()
                    output.view = tuple(value.size()), tuple(value.stride()), offset
            elif position not in copied and _COUNTS:
                output.copied = False
                storages.setdefault(storage._cdata, (storage, set()))[1].add(position)
        return list(storages.values())

    @staticmethod
    def _replay(entry: _Entry, generation: _Generation, args: list[Any]) -> list[Any]:
        entry.buffers.fill(args)
        generation.replay()
        results: list[Any] = [_reinterpret(value, sizes, strides, 0) for value, sizes, strides in generation.handed]
        for position, output in generation.others:
            value = output.value
            if output.source is not None:
                value = args[output.source]
                if output.view is not None:  # one that autograd knows of: it counts changes of both as one
                    sizes, strides, offset = output.view
                    value = value.as_strided(sizes, strides, value.storage_offset() + offset)
            elif isinstance(value, torch.Tensor):
                value = value.clone()
            results.insert(position, value)
        args.clear()
        return results


_reinterpret = reinterpreter()
_use_count: Callable[[int], int] = getattr(torch._C, "_storage_Use_Count", lambda _: 0)
_COUNTS = hasattr(torch._C, "_storage_Use_Count")
"""Whether this torch says how many refer to memory. Without that, all results are copies."""


def _references(storage: Any) -> int:
    return _use_count(storage._cdata)


class _Buffer:
    """Memory for an input that is copied, and a tensor in it with the same sizes and strides."""

    def __init__(self, value: torch.Tensor) -> None:
        extent = 0
        if value.numel():
            extent = 1 + sum((size - 1) * stride for size, stride in zip(value.size(), value.stride(), strict=True))
        self.flat = torch.empty(extent, dtype=value.dtype, device=value.device)
        self.tensor = self.flat.as_strided(value.size(), value.stride())
        self.dense = _is_dense(value)

    def fill(self, value: torch.Tensor) -> None:
        """Copies all elements, or the memory they lie in: torch copies nothing into elements that share memory."""
        if self.dense:
            self.tensor.copy_(value)
        else:
            self.flat.copy_(value.as_strided(self.flat.size(), (1,), value.storage_offset()))


class _Buffers:
    """The memory of all inputs that are copied, which takes one launch for all that are dense and of one type."""

    def __init__(self, by_place: dict[int, _Buffer]) -> None:
        self.by_place = by_place
        dense: dict[torch.dtype, list[int]] = {}
        for place, buffer in by_place.items():
            if buffer.dense and buffer.flat.numel():
                dense.setdefault(buffer.tensor.dtype, []).append(place)
        self._together = [(places, [by_place[one].tensor for one in places]) for places in dense.values() if places[1:]]
        together = {place for places, _ in self._together for place in places}
        self._alone = [(place, buffer) for place, buffer in by_place.items() if place not in together]

    def fill(self, args: list[Any]) -> None:
        """Copies the inputs."""
        for places, tensors in self._together:
            torch._foreach_copy_(tensors, [args[place] for place in places])  # pyright: ignore[reportPrivateImportUsage]
        for place, buffer in self._alone:
            buffer.fill(args[place])


def _is_dense(value: torch.Tensor) -> bool:
    """Whether every element of the memory between the first and the last is one element of the tensor."""
    expected = 1
    for stride, size in sorted(zip(value.stride(), value.size(), strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True
