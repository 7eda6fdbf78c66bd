"""`eliminate-views`: loads read through views, so that nothing has to be copied to be seen another way."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.traits import IsTerminator

from cuesta.dialects import loops, sym
from cuesta.dialects.core.rewriting import apply_patterns, no_match
from cuesta.dialects.layout import sizes_of, strided_view, tensor_type_of
from cuesta.dialects.loops.surgery import index_ranges, through_views
from cuesta.transforms.host.aliasing import escapes


class ReadThroughView(RewritePattern):
    """load(view(x, m), i) -> load(x, m(i))"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: loops.LoadOp, rewriter: PatternRewriter, /):
        if not isinstance(op.source.owner, loops.ViewOp):
            return
        source, results = through_views(op.source, op.map.results)
        sizes = index_ranges(op, op.indices)
        if sizes is not None:
            results = [sym.simplify(result, sizes) for result in results]
        new = loops.LoadOp.build(source, results, op.indices, op.mask, op.other)
        rewriter.replace(op, new)


class ComposeViews(RewritePattern):
    """view(view(x, m), n) -> view(x, m ∘ n), when strides can still say it.

    Near misses: a reshape that copies, a flip. Composed, it could not be handed to a library call without a copy of its
    own. And a copy of which the caller gets a part: two flips give back no part of x.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: loops.ViewOp, rewriter: PatternRewriter, /):
        inner = op.source.owner
        if not isinstance(inner, loops.ViewOp):
            return
        source_type, result_type = tensor_type_of(inner.source), tensor_type_of(op.result)
        sizes = sizes_of(result_type)
        composed = inner.map.compose(op.map).simplified(sizes)
        if strided_view(composed, source_type, sizes) is None:
            no_match(op, "strides cannot say the composition")
            return
        if not inner.is_alias and escapes(op):
            no_match(op, "the view inside is a copy, and the caller gets a part of it")
            return
        rewriter.replace(op, loops.ViewOp.build(inner.source, composed, result_type))


class DropIdentityView(RewritePattern):
    """view(x, identity) -> x, when the types agree.

    Near miss: a view that is returned. The caller gets a tensor of its own, though its memory is that of x.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: loops.ViewOp, rewriter: PatternRewriter, /):
        if not op.map.is_identity or op.source.type != op.result.type:
            return
        if any(use.operation.has_trait(IsTerminator) for use in op.result.uses):
            no_match(op, "the caller gets it as a tensor of its own")
            return
        rewriter.replace(op, (), [op.source])


class EliminateViewsPass(ModulePass):
    """Afterwards no load reads a view; the views left are read by library calls and by the caller."""

    name = "eliminate-views"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        apply_patterns(op, [ReadThroughView(), DropIdentityView(), ComposeViews()])
