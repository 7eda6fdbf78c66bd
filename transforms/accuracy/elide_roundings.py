"""`elide-roundings`: reduced-precision values that never reach memory are not rounded on the way."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, IntegerType, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from cuesta.dialects import elem, loops
from cuesta.dialects.core.rewriting import apply_patterns, no_match


class ElideRounding(RewritePattern):
    """convert(convert(x : f32 to bf16) : bf16 to f32) -> x, the same for f16; of an integer x -> convert(x).

    Not exact: the result is closer to the real number than eager's, by one rounding. NaN stays NaN. A value beyond
    f16's range stays finite where eager would have made it infinite. Left out under `emulate_precision_casts`.

    A value is one number in a nest: x + (0 - x) is 0, and some x is max x. Near misses: what is read back, rounded,
    from where the nest stored it; what is compared with another value, which may come of the rounded one.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: elem.ConvertOp, rewriter: PatternRewriter, /):
        inner = op.operands[0].owner
        if not isinstance(inner, elem.ConvertOp) or not isinstance(elem.scalar_of(op.result.type), Float32Type):
            return
        narrow = elem.scalar_of(inner.result.type)
        source = elem.scalar_of(inner.operands[0].type)
        if isinstance(narrow, BFloat16Type | Float16Type) and isinstance(source, Float32Type | IntegerType):
            if is_factor_of_contraction(op):
                no_match(op, "it gives a factor of a contraction the type that matrix units take")
                return
            if is_read_back(inner.result):
                no_match(op, "the nest reads it back where it is stored, rounded")
                return
            if is_compared(op.result):
                no_match(op, "it is compared with what may have been rounded")
                return
            if isinstance(source, Float32Type):
                rewriter.replace(op, (), [inner.operands[0]])
            else:
                wide = elem.ConvertOp.build(inner.operands[0], elem.scalar_of(op.result.type))
                wide.location = inner.location
                rewriter.replace(op, (wide,), [wide.result])


def is_factor_of_contraction(op: Operation) -> bool:
    """Whether an op stands in the sum of a nest that is scheduled as a contraction."""
    return isinstance(op.parent_op(), loops.ReduceOp) and "depth" in loops.enclosing_nest(op).choices


def is_read_back(value: SSAValue) -> bool:
    """Whether a nest stores a value where it loads from."""
    stores = [use.operation for use in value.uses if isinstance(use.operation, loops.StoreOp)]
    return any(isinstance(use.operation, loops.LoadOp) for store in stores for use in store.target.uses)


_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})


def is_compared(value: SSAValue) -> bool:
    """Whether a value is compared with one that is no constant."""
    return any(
        isinstance(user := use.operation, elem.TableOp)
        and user.row.name in _COMPARISONS
        and not any(isinstance(operand.owner, elem.ConstantOp) for operand in user.operands)
        for use in value.uses
    )


class ElideRoundingsPass(ModulePass):
    """One rounding on the way out, as docs/levels.md says of reduced precision."""

    name = "elide-roundings"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        apply_patterns(op, [ElideRounding()])
