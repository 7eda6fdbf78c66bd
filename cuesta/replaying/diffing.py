"""What became of a program between two texts, op by op: kept, moved, changed, added, removed. Names do not count."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from cuesta.dialects.core.diagnostics import name_of
from cuesta.dialects.core.fingerprint import key_of
from cuesta.dialects.sym.expr import format_expr
from cuesta.dialects.sym.map import MapAttr
from cuesta.programs.matching_ops import Match, Matching, leaves_of, local_key

Kind = Literal["kept", "moved", "changed", "added", "removed"]
KINDS: tuple[Kind, ...] = ("kept", "moved", "changed", "added", "removed")
_SIGNS: dict[Kind, str] = {"kept": "=", "moved": ">", "changed": "~", "added": "+", "removed": "-"}
_COLOURS: dict[Kind, str] = {"kept": "", "moved": "36", "changed": "33", "added": "32", "removed": "31"}
_MOST = 100
"""So many characters of an op, an attribute or a type are shown."""


@dataclass
class Group:
    """The ops of a function, or of an op with a body, and what became of each."""

    name: str
    """`@main`, or `%y = loops.nest`."""
    kind: Kind
    details: list[str] = field(default_factory=list[str])
    """Which operands, attributes and types changed of it."""
    ops: list[tuple[Kind, Operation, list[str]]] = field(default_factory=list["tuple[Kind, Operation, list[str]]"])
    """In order; of what is changed, the op as it is now, and what changed."""
    groups: list[Group] = field(default_factory=list["Group"])


@dataclass
class Difference:
    """What became of a whole program."""

    counts: Counter[Kind]
    functions: list[Group]
    travels: Counter[tuple[str, str]]
    """How many ops went from the nest of one name to that of another."""

    @property
    def is_empty(self) -> bool:
        """Whether it is the same program."""
        return not any(self.counts[kind] for kind in KINDS if kind != "kept")

    def summary(self) -> str:
        """The counts in a line, without those that are 0."""
        if self.is_empty:
            return "the same program"
        return ", ".join(f"{self.counts[kind]} {kind}" for kind in KINDS if self.counts[kind])


def compare_programs(before: ModuleOp, after: ModuleOp) -> Difference:
    """What became of each op of `before` in `after`. Ops that the one has in a body and the other elsewhere, equal but
    for where their operands come from, are moved.
    """
    matching = Matching(before, after)
    difference = Difference(Counter(), [], Counter())
    top = matching.matches[0]
    functions = [one for inside in top.inside for one in inside] if not top.kept else []
    if top.kept:
        difference.counts["kept"] = sum(1 for _ in leaves_of(before)) - 1
        return difference
    travelled = _travelled(functions)
    difference.travels = Counter(travelled.ways.values())
    for match in functions:
        difference.functions.append(_Grouping(matching, travelled, difference.counts).function(match))
    return difference


@dataclass
class _Travelled:
    """Ops that left one place and are in another."""

    ways: dict[Operation, tuple[str, str]]
    """For what is new in its place, from where to where."""
    gone: dict[Operation, str]
    """For what is gone from its place, where to."""


def _travelled(functions: Sequence[Match]) -> _Travelled:
    """Pairs what is gone with what is new, where both are the same but for their operands. Ops with bodies stay."""
    gone = defaultdict[Hashable, deque[tuple[Operation, str]]](deque)
    new: list[tuple[Operation, str]] = []

    def visit(match: Match, home: str) -> None:
        either = match.after or match.before
        assert either is not None
        home = home if home and not _is_home(either) else _title(either)
        if match.after is None or match.before is None:
            for op in leaves_of(either):
                if not op.regions and len(op.results):
                    if match.after is None:
                        gone[local_key(op)].append((op, home))
                    else:
                        new.append((op, home))
            return
        for inside in match.inside:
            for one in inside:
                visit(one, home)

    for match in functions:
        visit(match, "")
    found = _Travelled({}, {})
    for op, home in new:
        waiting = gone[local_key(op)]
        if waiting:
            old, origin = waiting.popleft()
            found.ways[op] = (origin, home)
            found.gone[old] = home
    return found


def _is_home(op: Operation) -> bool:
    """Whether an op is what others are said to be in: a nest, a kernel, a function."""
    return op.name in ("loops.nest", "kernel.func", "func.func", "host.func", "builtin.module")


class _Grouping:
    """Writes down matches as groups, and counts."""

    def __init__(self, matching: Matching, travelled: _Travelled, counts: Counter[Kind]) -> None:
        self.matching = matching
        self.travelled = travelled
        self.counts = counts

    def function(self, match: Match) -> Group:
        """A function, a kernel or a piece."""
        kind = self._kind(match)
        op = match.after or match.before
        assert op is not None
        group = Group(_title(op), kind, self._details(match))
        if kind in ("changed", "moved") and match.inside:
            self.counts[kind if group.details else "kept"] += 1
            self._fill(group, match)
        else:
            self._whole(op, kind)
        return group

    def _kind(self, match: Match) -> Kind:
        if match.after is None:
            return "removed"
        if match.before is None:
            return "added"
        if match.kept:
            return "moved" if match.moved else "kept"
        return "changed"

    def _whole(self, op: Operation, kind: Kind) -> None:
        for one in leaves_of(op):
            if one in self.travelled.gone:
                continue  # it is counted where it went
            self.counts["moved" if one in self.travelled.ways else kind] += 1

    def _fill(self, group: Group, match: Match) -> None:
        for inside in match.inside:
            for one in inside:
                op = one.after or one.before
                assert op is not None
                kind = self._kind(one)
                if kind == "changed" and op.regions:
                    inner = Group(_title(op), kind, self._details(one))
                    self.counts["changed" if inner.details else "kept"] += 1
                    self._fill(inner, one)
                    group.groups.append(inner)
                    continue
                self._whole(op, kind)
                details = self._details(one)
                if kind in ("added", "removed") and op.regions:
                    details = self._of_body(op, kind)
                elif op in self.travelled.gone:
                    continue
                elif op in self.travelled.ways:
                    kind, details = "moved", [f"from {self.travelled.ways[op][0]}"]
                group.ops.append((kind, op, details))

    def _of_body(self, op: Operation, kind: Kind) -> list[str]:
        inner = list(leaves_of(op))[1:]
        went: Counter[str] = Counter(
            self.travelled.gone[one] if kind == "removed" else self.travelled.ways[one][0]
            for one in inner
            if one in (self.travelled.gone if kind == "removed" else self.travelled.ways)
        )
        where = "now in" if kind == "removed" else "from"
        told = [f"{count} {where} {name}" for name, count in went.most_common(3)]
        return [f"{len(inner)} ops in it" + (f": {', '.join(told)}" if told else "")]

    def _details(self, match: Match) -> list[str]:
        a, b = match.before, match.after
        if a is None or b is None or match.kept:
            return []
        found: list[str] = []
        if a.name != b.name:
            found.append(f"{name_of(a)} → {name_of(b)}")
        if len(a.operands) != len(b.operands):
            found.append(f"{_count(len(a.operands), 'operand')}, now {len(b.operands)}")
        for at, (x, y) in enumerate(zip(a.operands, b.operands, strict=False)):
            if not self.matching.is_same(x, y):
                ours, theirs = _value(x), _value(y)
                found.append(f"operand {at}: " + (f"another {theirs}" if ours == theirs else f"{ours} → {theirs}"))
        if len(a.results) != len(b.results):
            found.append(f"{_count(len(a.results), 'result')}, now {len(b.results)}")
        for at, (x, y) in enumerate(zip(a.results, b.results, strict=False)):
            if key_of(x.type) != key_of(y.type):
                found.append(f"type of result {at}: {_short(x.type)} → {_short(y.type)}")
        ours, theirs = {**a.properties, **a.attributes}, {**b.properties, **b.attributes}
        for name in sorted(ours.keys() | theirs.keys()):
            x, y = ours.get(name), theirs.get(name)
            if (x is None) != (y is None) or (x is not None and y is not None and key_of(x) != key_of(y)):
                found.append(f"{name}: {_short(x)} → {_short(y)}")
        return found


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _value(value: SSAValue) -> str:
    if value.name_hint:
        return f"%{value.name_hint}"
    owner = value.owner
    return f"the {name_of(owner)}" if isinstance(owner, Operation) else "an argument"


def _short(attribute: object) -> str:
    text = "nothing" if attribute is None else str(attribute)
    return text if len(text) <= _MOST else text[: _MOST - 1] + "…"


def _title(op: Operation) -> str:
    """What an op is called in a report: a function by its name, any other by its first result."""
    symbol = op.properties.get("sym_name")
    if symbol is not None:
        return f"@{getattr(symbol, 'data', symbol)}"
    name = name_of(op)
    sizes = op.properties.get("sizes")
    if isinstance(sizes, MapAttr) and op.regions:
        name += f" ({', '.join(format_expr(size) for size in sizes.results)})"
    hint = next((result.name_hint for result in op.results if result.name_hint), None)
    return f"%{hint} = {name}" if hint else name


def lines_of(difference: Difference, *, colours: bool = False, every: bool = False) -> Iterator[str]:
    """The report, line by line: functions, in them what is changed, with how many ops are kept. With `every`, each op
    has its line; otherwise equal ones that follow one another share one.
    """
    for group in difference.functions:
        yield from _lines(group, 0, colours, every)
    for (origin, home), count in difference.travels.most_common():
        if origin != home:
            yield _coloured(
                f"> {_count(count, 'op')} of {origin} {'is' if count == 1 else 'are'} now in {home}", "moved", colours
            )


def _lines(group: Group, depth: int, colours: bool, every: bool) -> Iterator[str]:
    indent = "  " * depth
    kept = sum(1 for kind, _, _ in group.ops if kind == "kept")
    same = _is_same(group)
    if same and depth and not every:
        return
    told = f", {_count(kept, 'op')} kept" if kept and not same else ""
    yield indent + _coloured(f"{_SIGNS['kept' if same else group.kind]} {group.name}", group.kind, colours) + told
    for detail in group.details:
        yield f"{indent}      {detail}"
    waiting: list[tuple[Kind, str]] = []
    moves = defaultdict[str, Counter[str]](Counter)

    def flush() -> Iterator[str]:
        for kind in KINDS:
            if names := Counter(name for one, name in waiting if one == kind):
                yield f"{indent}  " + _coloured(f"{_SIGNS[kind]} {_listed(names)}", kind, colours)
        for origin, names in moves.items():
            yield f"{indent}  " + _coloured(f"{_SIGNS['moved']} {origin}: {_listed(names)}", "moved", colours)
        waiting.clear()
        moves.clear()

    for kind, op, details in group.ops:
        if kind == "kept" and not every:
            continue
        if not details and not op.regions and not every:
            waiting.append((kind, name_of(op)))
            continue
        if kind == "moved" and not op.regions and not every:
            moves[details[0]][name_of(op)] += 1
            continue
        yield from flush()
        said = f": {'; '.join(details)}" if details else ""
        yield f"{indent}  " + _coloured(f"{_SIGNS[kind]} {_title(op)}", kind, colours) + said
    yield from flush()
    for inner in group.groups:
        yield from _lines(inner, depth + 1, colours, every)


def _listed(names: Counter[str]) -> str:
    return ", ".join(name if count == 1 else f"{name} ×{count}" for name, count in names.items())


def _is_same(group: Group) -> bool:
    changed = group.kind == "changed" and (group.details or any(kind != "kept" for kind, _, _ in group.ops))
    return group.kind in ("kept", "changed") and not changed and all(map(_is_same, group.groups))


def _coloured(text: str, kind: Kind, colours: bool) -> str:
    code = _COLOURS[kind]
    return f"\033[{code}m{text}\033[0m" if colours and code else text


__all__ = ["Difference", "Group", "compare_programs", "lines_of"]
