"""The rewrite driver: applies patterns to a program until none matches.

It differs from xDSL's walker in what it costs and in what it says: patterns are looked up by the type of the op,
patterns that undo each other are named instead of running forever, locations are carried to what replaces an op,
and a trace can say which rule fired where and why another did not.
"""

from __future__ import annotations

import inspect
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter
from types import UnionType
from typing import Any, TypeAlias, Union, cast, get_args, get_origin

from xdsl.dialects.builtin import UnknownLoc
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.rewriter import InsertPoint
from xdsl.traits import is_side_effect_free

from cuesta.dialects.core.blame import blame, without
from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic
from cuesta.dialects.core.extension import active
from cuesta.dialects.core.locations import format_location, fuse_locations, location_of, stamp_location
from cuesta.dialects.core.operation import all_ops
from cuesta.dialects.core.tracing import Rewrite, active_trace, no_match, pattern_name, pattern_source

__all__ = ["REWRITES_PER_OP", "Lookup", "apply_patterns", "no_match", "roots_of"]

Lookup: TypeAlias = Callable[[Operation], Sequence[RewritePattern]]
"""The patterns that may match an op: a finer choice than by the op's type, for who has many of them."""

REWRITES_PER_OP = 100
"""How often patterns may fire for every op there was at the start, before we say that they undo each other."""

_REWRITES_AT_LEAST = 1000
_RECENT = 64


def apply_patterns(
    root: Operation,
    patterns: Sequence[RewritePattern] | Lookup,
    *,
    ops: Sequence[Operation] | None = None,
    erase_dead: bool = False,
    most_rewrites: int | None = None,
) -> bool:
    """Apply the patterns to the ops inside `root` until none matches; true when something changed.

    With `ops`, only these are visited at first: those that a lookup has patterns for, say. Ops are visited in program
    order, then again when an operand, a user or they themselves change. For one op the patterns are tried in the order
    given. With `erase_dead`, pure ops whose results nobody uses are erased on the way.

    Errors: CuestaError naming the patterns, when they fired more often than `most_rewrites`.
    """
    return _Driver(root, patterns, erase_dead, most_rewrites).run(all_ops(root)[1:] if ops is None else list(ops))


def roots_of(pattern: RewritePattern) -> tuple[type[Operation], ...]:
    """The op types a pattern can match, by the annotation of its `match_and_rewrite`."""
    function = type(pattern).match_and_rewrite
    # op_type_rewrite_pattern wraps the method; the types it read from the annotation are in its closure.
    closure = inspect.getclosurevars(function).nonlocals
    annotation = closure.get("expected_type")
    if annotation is None:
        parameters = list(inspect.signature(function, eval_str=True).parameters.values())
        annotation = parameters[1].annotation
    types: tuple[Any, ...] = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    if all(isinstance(one, type) and issubclass(one, Operation) for one in types):
        return cast("tuple[type[Operation], ...]", types)
    return (Operation,)


class _Driver:
    def __init__(
        self,
        root: Operation,
        patterns: Sequence[RewritePattern] | Lookup,
        erase_dead: bool,
        most_rewrites: int | None,
    ) -> None:
        self.root = root
        self.patterns: tuple[tuple[RewritePattern, tuple[type[Operation], ...]], ...] = ()
        self.choose: Lookup = self.by_root
        if callable(patterns):
            self.choose = patterns
        else:
            self.patterns = tuple((pattern, roots_of(pattern)) for pattern in patterns)
        self.by_type: dict[type[Operation], tuple[RewritePattern, ...]] = {}
        self.erase_dead = erase_dead
        self.most_rewrites = most_rewrites
        self.has_theirs = bool(active().rules)
        self.trace = active_trace()
        self.stack: list[Operation] = []
        self.queued: set[Operation] = set()
        self.inserted: list[Operation] = []
        self.current: Operation = root
        self.rewrites = 0
        self.recent: deque[tuple[RewritePattern, str]] = deque(maxlen=_RECENT)

    def run(self, ops: list[Operation]) -> bool:
        if not ops:
            return False
        self.stack = ops[::-1]
        self.queued = set(ops)
        limit = self.most_rewrites
        if limit is None:
            limit = max(_REWRITES_AT_LEAST, REWRITES_PER_OP * len(ops))
        rewriter = PatternRewriter(ops[0])
        rewriter.operation_insertion_handler.append(self.on_insertion)
        rewriter.operation_removal_handler.append(self.on_removal)
        rewriter.operation_modification_handler.append(self.push)
        rewriter.operation_replacement_handler.append(self.on_replacement)
        changed = False
        stack, queued, choose = self.stack, self.queued, self.choose
        while stack:
            op = stack.pop()
            if op not in queued:
                continue
            queued.remove(op)
            if self.erase_dead and _is_dead(op):
                rewriter.erase(op)
                changed = True
                continue
            for pattern in choose(op):
                if self.apply(pattern, op, rewriter):
                    changed = True
                    if self.rewrites > limit:
                        self.refuse_to_go_on(len(ops))
                    break
        return changed

    def by_root(self, op: Operation) -> tuple[RewritePattern, ...]:
        op_type = type(op)
        found = self.by_type.get(op_type)
        if found is None:
            found = tuple(pattern for pattern, roots in self.patterns if issubclass(op_type, roots))
            self.by_type[op_type] = found
        return found

    def apply(self, pattern: RewritePattern, op: Operation, rewriter: PatternRewriter) -> bool:
        block = op.parent
        if block is None:
            return False
        self.current = op
        rewriter.has_done_action = False
        rewriter.insertion_point = InsertPoint(block, op)
        rewriter._current_operation = op  # pyright: ignore[reportPrivateUsage]  # what its constructor would set
        trace = self.trace
        if trace is None:
            self.rewrite(pattern, op, rewriter)
            if rewriter.has_done_action:
                self.inserted.clear()
                self.count(pattern, op)
                return True
            return False

        name = pattern_name(pattern)
        place = format_location(location_of(op)) if trace.texts else ""
        before = str(op) if trace.texts else ""
        trace.current_pattern = name
        start = perf_counter()
        self.rewrite(pattern, op, rewriter)
        seconds = perf_counter() - start
        trace.current_pattern = ""
        fired = rewriter.has_done_action
        statistics = trace.statistics[name]
        statistics.source = statistics.source or pattern_source(pattern)
        statistics.add(seconds, fired)
        if fired and not trace.texts:
            self.inserted.clear()
            self.count(pattern, op)
        elif fired:
            after = [str(new) for new in self.inserted if new.parent is not None]
            if not after and op.parent is not None:
                after = [str(op)]
            trace.rewrites.append(Rewrite(name, pattern_source(pattern), place, before, "\n".join(after), seconds))
            self.inserted.clear()
            self.count(pattern, op)
        return fired

    def rewrite(self, pattern: RewritePattern, op: Operation, rewriter: PatternRewriter) -> None:
        if not self.has_theirs:
            pattern.match_and_rewrite(op, rewriter)
            return
        with blame(getattr(pattern, "law", pattern), op):
            pattern.match_and_rewrite(op, rewriter)

    def count(self, pattern: RewritePattern, op: Operation) -> None:
        self.rewrites += 1
        self.recent.append((pattern, op.name))

    def refuse_to_go_on(self, op_count: int) -> None:
        counts = Counter(f"{pattern_name(pattern)} (on {name})" for pattern, name in self.recent)
        culprits = ", ".join(name for name, _ in counts.most_common(4))
        place = self.current if self.current.parent is not None else self.root
        message = f"rewriting does not end: {self.rewrites} rewrites for {op_count} ops; lately {culprits}"
        owners = [active().owner(getattr(pattern, "law", pattern)) for pattern, _ in self.recent]
        theirs = list(dict.fromkeys(owner for owner in owners if owner is not None))
        found = Diagnostic.on(place, message, got="")
        if theirs:
            named = ", ".join(f"{owner.name!r} ({owner.place})" for owner in theirs)
            found = replace(found, message=f"{message}; rules of extension {named}", without=without(*theirs))
        raise CuestaError(found)

    # What happens to ops while a pattern runs.

    def push(self, op: Operation) -> None:
        if op is not self.root:
            self.queued.add(op)
            self.stack.append(op)

    def on_insertion(self, op: Operation) -> None:
        self.inserted.append(op)
        stamp_location(op, self.current.location)
        if op.regions:
            for inner in op.walk(reverse=True, region_first=True):
                self.push(inner)
        else:
            self.push(op)

    def on_removal(self, op: Operation) -> None:
        for removed in op.walk() if op.regions else (op,):
            self.queued.discard(removed)
            for operand in removed.operands:
                # Its operands may now be dead, or have the one user that a pattern waits for.
                if isinstance(operand, OpResult):
                    self.push(operand.op)

    def on_replacement(self, op: Operation, new_results: Sequence[SSAValue | None]) -> None:
        for result in op.results:
            for use in result.uses:
                self.push(use.operation)
        if op is self.current or isinstance(op.location, UnknownLoc):
            return
        # The pattern replaces another op besides the matched one: what stands for it comes from both.
        for new in self.inserted:
            if any(isinstance(value, OpResult) and value.op is new for value in new_results):
                new.location = fuse_locations(new.location, op.location)


def _is_dead(op: Operation) -> bool:
    return bool(op.results) and not any(result.first_use for result in op.results) and is_side_effect_free(op)
