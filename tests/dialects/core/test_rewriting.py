from __future__ import annotations

import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from cuesta.context import make_context
from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.dialects.core.locations import CuestaParser, format_origin, print_text
from cuesta.dialects.core.rewriting import apply_patterns, no_match, roots_of
from cuesta.dialects.core.tracing import trace_rewrites

CHAIN = """\
func.func @main(%a: i32) -> i32 {
  %b = arith.addi %a, %a : i32 loc("model.py":1:0)
  %c = arith.addi %b, %a : i32 loc("model.py":2:0)
  %d = arith.addi %c, %a : i32 loc("model.py":3:0)
  func.return %d : i32
}
"""


class AddBecomesMultiply(RewritePattern):
    """a + b -> a * b (for the test's sake)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.AddiOp, rewriter: PatternRewriter, /) -> None:
        rewriter.replace(op, arith.MuliOp(op.lhs, op.rhs))


class MultiplyBecomesAdd(RewritePattern):
    """a * b -> a + b"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.MuliOp, rewriter: PatternRewriter, /) -> None:
        rewriter.replace(op, arith.AddiOp(op.lhs, op.rhs))


class FoldIntoProducer(RewritePattern):
    """(a + b) + c -> a * c, replacing the producer too"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.AddiOp, rewriter: PatternRewriter, /) -> None:
        producer = op.lhs.owner
        if not isinstance(producer, arith.AddiOp):
            return no_match(op, "the left side is not a sum")
        new = arith.MuliOp(producer.lhs, op.rhs)
        rewriter.replace(op, new)
        rewriter.replace(producer, [], [new.results[0]])
        return None


class OnEither(RewritePattern):
    """Matches two kinds of ops and does nothing."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.AddiOp | arith.MuliOp, rewriter: PatternRewriter, /) -> None:
        no_match(op, "never")


class OnAny(RewritePattern):
    """Counts what it is shown."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        self.seen.append(op.name)


def parse(text: str = CHAIN) -> ModuleOp:
    context = make_context()
    context.register_dialect("arith", lambda: arith.Arith)
    return CuestaParser(context, text, "program.mlir").parse_module()


def names(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk() if op.name.startswith("arith")]


def test_roots_are_read_from_the_annotation() -> None:
    assert roots_of(AddBecomesMultiply()) == (arith.AddiOp,)
    assert roots_of(OnEither()) == (arith.AddiOp, arith.MuliOp)
    assert roots_of(OnAny()) == (Operation,)


def test_rewrites_until_nothing_matches_and_carries_locations() -> None:
    module = parse()
    assert apply_patterns(module, [AddBecomesMultiply()])
    module.verify()
    assert names(module) == ["arith.muli"] * 3
    places = [format_origin(op.location) for op in module.walk() if op.name == "arith.muli"]
    assert places == ["model.py:1", "model.py:2", "model.py:3"]
    assert not apply_patterns(module, [AddBecomesMultiply()])


def test_every_op_is_visited_once_in_program_order() -> None:
    pattern = OnAny()
    assert not apply_patterns(parse(), [pattern])
    assert pattern.seen == ["func.func", "arith.addi", "arith.addi", "arith.addi", "func.return"]


def test_patterns_that_undo_each_other_are_named() -> None:
    with pytest.raises(CuestaError, match="rewriting does not end") as raised:
        apply_patterns(parse(), [AddBecomesMultiply(), MultiplyBecomesAdd()])
    assert "AddBecomesMultiply (on arith.addi)" in str(raised.value)
    assert "MultiplyBecomesAdd (on arith.muli)" in str(raised.value)


def test_replacing_a_second_op_fuses_its_location() -> None:
    module = parse(
        "func.func @main(%a: i32, %k: i32) -> i32 {\n"
        '  %b = arith.addi %a, %a : i32 loc("model.py":1:0)\n'
        '  %c = arith.addi %b, %k : i32 loc("model.py":2:0)\n'
        "  func.return %c : i32\n}"
    )
    assert apply_patterns(module, [FoldIntoProducer()])
    (new,) = [op for op in module.walk() if op.name == "arith.muli"]
    assert format_origin(new.location) == "model.py:2, model.py:1"


def test_dead_ops_are_erased_on_request_only() -> None:
    text = (
        "func.func @main(%a: i32) {\n  %b = arith.addi %a, %a : i32\n  %c = arith.addi %b, %b : i32\n  func.return\n}"
    )
    kept, cleaned = parse(text), parse(text)
    assert not apply_patterns(kept, [])
    assert apply_patterns(cleaned, [], erase_dead=True)
    assert names(kept) == ["arith.addi", "arith.addi"]
    assert names(cleaned) == []


def test_a_trace_changes_nothing_and_says_what_happened() -> None:
    plain, traced = parse(), parse()
    apply_patterns(plain, [OnEither(), AddBecomesMultiply()])
    with trace_rewrites() as trace:
        apply_patterns(traced, [OnEither(), AddBecomesMultiply()])
    assert print_text(plain) == print_text(traced)
    assert trace.statistics["AddBecomesMultiply"].fired == 3
    assert trace.statistics["OnEither"].fired == 0
    first = trace.rewrites[0]
    assert first.pattern == "AddBecomesMultiply"
    assert first.source.startswith("test_rewriting.py:")
    assert first.place == "program.mlir:2, model.py:1"
    assert "arith.addi" in first.before
    assert "arith.muli" in first.after
    assert {(one.pattern, one.reason) for one in trace.refusals} == {("OnEither", "never")}
    assert "OnEither did not fire: never" in trace.summary()


def test_no_match_is_silent_without_a_trace() -> None:
    module = parse()
    no_match(module, "nobody listens")
    with trace_rewrites() as trace:
        pass
    assert trace.refusals == []
