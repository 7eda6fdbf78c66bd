"""`elide-roundings`: reduced-precision values that never reach memory are not rounded on the way."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from cuesta.dialects import elem, loops
from cuesta.dialects.core.rewriting import apply_patterns, no_match


class ElideRounding(RewritePattern):
    """convert(convert(x : f32 to bf16) : bf16 to f32) -> x, and the same for f16.

    Not exact: the result is closer to the real number than eager's, by one rounding. NaN stays NaN. A value beyond
    f16's range stays finite where eager would have made it infinite. Left out under `emulate_precision_casts`.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: elem.ConvertOp, rewriter: PatternRewriter, /):
        inner = op.operands[0].owner
        if not isinstance(inner, elem.ConvertOp) or not isinstance(elem.scalar_of(op.result.type), Float32Type):
            return
        narrow = elem.scalar_of(inner.result.type)
        if isinstance(narrow, BFloat16Type | Float16Type) and inner.operands[0].type == op.result.type:
            if is_factor_of_contraction(op):
                no_match(op, "it gives a factor of a contraction the type that matrix units take")
                return
            rewriter.replace(op, (), [inner.operands[0]])


def is_factor_of_contraction(op: Operation) -> bool:
    """Whether an op stands in the sum of a nest that is scheduled as a contraction."""
    return isinstance(op.parent_op(), loops.ReduceOp) and "depth" in loops.enclosing_nest(op).choices


class ElideRoundingsPass(ModulePass):
    """One rounding on the way out, as docs/levels.md says of reduced precision."""

    name = "elide-roundings"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        apply_patterns(op, [ElideRounding()])
