"""Which op of one program is which of another: found by fingerprints, whatever values are called.

Blocks are matched op by op. First come ops that compute the same from the same, then those that do so from values that
were matched meanwhile, then those that look most alike. What is matched with a body is matched inside.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from cuesta.dialects.core.fingerprint import fingerprint, key_of

_CANDIDATES = 24
"""How many ops of one name are looked at for one that has changed. Source: a definition."""

_LEAST_ALIKE = 0.4
"""Below that, two ops of one name are different ones: of 1, how much of them agrees. Source: a definition."""


@dataclass
class Match:
    """An op before, the op after that it is, or one of the two alone."""

    before: Operation | None
    after: Operation | None
    kept: bool = False
    """Whether nothing about it changed: the same from the same values, in whatever place."""
    moved: bool = False
    """Whether it stands elsewhere among those that are kept."""
    inside: list[list[Match]] = field(default_factory=list["list[Match]"])
    """Of each block of two ops that are not the same throughout, the ops in it."""


class Matching:
    """Two programs, and the values of one that are values of the other."""

    def __init__(self, before: Operation, after: Operation) -> None:
        self._classes: dict[Hashable, int] = {}
        self._numbers: dict[SSAValue, int] = {}
        self._contents: dict[Region, Counter[Hashable]] = {}
        self.matches = self._ops([before], [after])

    def pairs(self) -> Iterator[tuple[Operation, Operation]]:
        """Every op before that is one after, with it; those inside of ops that are kept are told too."""
        pending = list(self.matches)
        while pending:
            match = pending.pop()
            if match.before is None or match.after is None:
                continue
            if match.kept:
                yield from zip(match.before.walk(), match.after.walk(), strict=True)
                continue
            yield match.before, match.after
            pending += [one for inside in match.inside for one in inside]

    def is_same(self, a: SSAValue, b: SSAValue) -> bool:
        """Whether a value before is a value after."""
        return self._number(a) == self._number(b)

    # -- numbers of values: two have the same when they are the same value ------------------------------------------

    def _class(self, key: Hashable) -> int:
        return self._classes.setdefault(key, len(self._classes))

    def _number(self, value: SSAValue) -> int:
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = self._class(("only", id(value)))
        return found

    def _key(self, op: Operation) -> Hashable:
        """What an op computes, of which numbers."""
        entries = fingerprint(op, by_identity=True)
        return tuple(("value", self._number(one)) if isinstance(one, SSAValue) else one for one in entries)

    def _equate(self, a: Sequence[SSAValue], b: Sequence[SSAValue]) -> None:
        for ours, theirs in zip(a, b, strict=False):
            self._numbers[theirs] = self._number(ours)

    # -- blocks -----------------------------------------------------------------------------------------------------

    def _ops(self, before: Sequence[Operation], after: Sequence[Operation]) -> list[Match]:
        found: dict[Operation, Operation] = {}
        kept: set[Operation] = set()
        waiting = defaultdict[Hashable, deque[Operation]](deque)
        for op in after:
            key = self._key(op)
            waiting[key].append(op)
            self._define(op, key)
        for op in before:
            key = self._key(op)
            self._define(op, key)
            if waiting[key]:
                found[op] = waiting[key].popleft()
                kept.add(op)
        taken = set(found.values())
        left = defaultdict[str, list[Operation]](list)
        for op in after:
            if op not in taken:
                left[op.name].append(op)
        places = {op: at / max(1, len(after)) for at, op in enumerate(after)}
        for at, op in enumerate(before):
            if op in found:
                self._equate(op.results, found[op].results)
                continue
            others = [one for one in before[at + 1 :] if one.name == op.name and one not in found][:_CANDIDATES]
            other = self._best(op, others, at / max(1, len(before)), left, places)
            if other is not None:
                left[other.name].remove(other)
                found[op] = other
                if self._key(op) == self._key(other):
                    kept.add(op)
                self._equate(op.results, other.results)
        moved = _moved([op for op in before if op in found], found, {op: at for at, op in enumerate(after)})
        return self._matches(before, after, found, kept, moved)

    def _define(self, op: Operation, key: Hashable) -> None:
        """Numbers the results of an op by what it computes; equal ops in one program count as one value."""
        for at, result in enumerate(op.results):
            self._numbers.setdefault(result, self._class(("result", at, key)))

    def _best(
        self,
        op: Operation,
        rivals: Sequence[Operation],
        place: float,
        left: dict[str, list[Operation]],
        places: dict[Operation, float],
    ) -> Operation | None:
        """What is left that looks most like an op, unless it looks more like one of its rivals, which come later."""
        named = _symbol_of(op)
        if named is not None:
            every = [one for ops in left.values() for one in ops]
            same = next((one for one in every if _symbol_of(one) == named), None)
            if same is not None:
                return same
        candidates = sorted(left[op.name], key=lambda one: abs(places[one] - place))[:_CANDIDATES]
        scored = [(self._alike(op, one), -abs(places[one] - place), one) for one in candidates]
        for score, _, one in sorted(scored, key=lambda one: one[:2], reverse=True):
            if score < _LEAST_ALIKE:
                return None
            if score == 1.0 or all(self._alike(rival, one) <= score for rival in rivals):
                return one
        return None

    def _alike(self, a: Operation, b: Operation) -> float:
        """How much of two ops of one name agrees, of 1."""
        operands = [self.is_same(x, y) for x, y in zip(a.operands, b.operands, strict=False)]
        types = [key_of(x.type) == key_of(y.type) for x, y in zip(a.results, b.results, strict=False)]
        names = {**a.properties, **a.attributes}.keys() | {**b.properties, **b.attributes}.keys()
        attributes = [_attribute(a, name) == _attribute(b, name) for name in names]
        hints = [x.name_hint == y.name_hint for x, y in zip(a.results, b.results, strict=False) if x.name_hint]
        inner = [self._overlap(x, y) for x, y in zip(a.regions, b.regions, strict=False)]
        longest = max(len(a.operands), len(b.operands))
        parts = [
            (2.0, sum(operands) / longest if longest else 1.0),
            (1.0, _share(types)),
            (1.0, _share(attributes)),
            (1.0 if hints else 0.0, _share(hints)),
            (3.0 if inner else 0.0, sum(inner) / len(inner) if inner else 1.0),
        ]
        return sum(weight * part for weight, part in parts) / sum(weight for weight, _ in parts)

    def _overlap(self, a: Region, b: Region) -> float:
        """How many ops of two regions are alike, of 1."""
        ours, theirs = self._content(a), self._content(b)
        every = ours.total() + theirs.total()
        return 2 * (ours & theirs).total() / every if every else 1.0

    def _content(self, region: Region) -> Counter[Hashable]:
        found = self._contents.get(region)
        if found is None:
            ops = (op for block in region.blocks for outer in block.ops for op in leaves_of(outer))
            found = self._contents[region] = Counter(local_key(op) for op in ops)
        return found

    def _matches(
        self,
        before: Sequence[Operation],
        after: Sequence[Operation],
        found: dict[Operation, Operation],
        kept: set[Operation],
        moved: set[Operation],
    ) -> list[Match]:
        """In the order of `after`, with what is gone where it stood."""
        back = {theirs: ours for ours, theirs in found.items()}
        gone = iter([op for op in before if op not in found])
        pending = next(gone, None)
        positions = {op: at for at, op in enumerate(before)}
        result: list[Match] = []
        for op in after:
            ours = back.get(op)
            if ours is None:
                result.append(Match(None, op))
                continue
            while pending is not None and positions[pending] < positions[ours] and ours not in moved:
                result.append(Match(pending, None))
                pending = next(gone, None)
            match = Match(ours, op, kept=ours in kept, moved=ours in moved)
            if not match.kept:
                match.inside = [self._blocks(x, y) for x, y in zip(ours.regions, op.regions, strict=False)]
            result.append(match)
        while pending is not None:
            result.append(Match(pending, None))
            pending = next(gone, None)
        return result

    def _blocks(self, before: Region, after: Region) -> list[Match]:
        found: list[Match] = []
        a, b = list(before.blocks), list(after.blocks)
        for ours, theirs in zip(a, b, strict=False):
            self._equate_arguments(ours, theirs)
            found += self._ops(list(ours.ops), list(theirs.ops))
        found += [Match(op, None) for block in a[len(b) :] for op in block.ops]
        found += [Match(None, op) for block in b[len(a) :] for op in block.ops]
        return found

    def _equate_arguments(self, a: Block, b: Block) -> None:
        """Arguments are the same in order, as long as their types are; one more or less does not shift the others."""
        rest = list(b.args)
        for argument in a.args:
            at = next((at for at, one in enumerate(rest) if one.type == argument.type), None)
            if at is not None:
                self._equate([argument], [rest[at]])
                del rest[: at + 1]


def leaves_of(op: Operation) -> Iterator[Operation]:
    """The op and all ops in it."""
    yield op
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                yield from leaves_of(inner)


def local_key(op: Operation) -> Hashable:
    """What an op is, wherever its operands come from."""
    properties = tuple(sorted((name, key_of(value)) for name, value in op.properties.items() if name != "map"))
    return (op.name, properties, tuple(key_of(result.type) for result in op.results))


def _moved(
    before: Sequence[Operation], found: dict[Operation, Operation], places: dict[Operation, int]
) -> set[Operation]:
    """The fewest ops without which the others stand in the same order: all but a longest increasing sequence."""
    ends: list[int] = []
    lengths: list[int] = []
    for op in before:
        place = places[found[op]]
        length = bisect_left(ends, place)
        ends[length : length + 1] = [place]
        lengths.append(length)
    moved: set[Operation] = set()
    wanted, limit = len(ends) - 1, len(places)
    for op, length in zip(reversed(before), reversed(lengths), strict=True):
        if length == wanted and places[found[op]] < limit:
            wanted, limit = wanted - 1, places[found[op]]
        else:
            moved.add(op)
    return moved


def _symbol_of(op: Operation) -> str | None:
    name = op.properties.get("sym_name")
    if isinstance(op, ModuleOp) and name is None:
        return ""
    return name.data if isinstance(name, StringAttr) else None


def _attribute(op: Operation, name: str) -> Hashable:
    found = op.properties.get(name) or op.attributes.get(name)
    return None if found is None else key_of(found)


def _share(agreeing: Iterable[bool]) -> float:
    every = list(agreeing)
    return sum(every) / len(every) if every else 1.0


__all__ = ["Match", "Matching", "leaves_of", "local_key"]
