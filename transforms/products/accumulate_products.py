"""`accumulate-products`: the sum of two products of matrices is one product, accumulated onto the other."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from cuesta.dialects import aten
from cuesta.dialects.core.rewriting import apply_patterns, no_match
from cuesta.dialects.elem import kind_of
from cuesta.dialects.layout import element_type_of, is_tensor, strides_of, tensor_type_of

_ACCUMULATED = {
    "aten.mm.default": "aten.addmm.default",
    "aten.bmm.default": "aten.baddbmm.default",
    "aten.mm.dtype": "aten.addmm.dtype",
    "aten.bmm.dtype": "aten.baddbmm.dtype",
}
"""Of a product, the overload that adds it to something."""
_SUMS = {"aten.add.Tensor": 1, "aten.sub.Tensor": -1}
"""By overload, the sign of the second term."""
_PRODUCTS = frozenset([*_ACCUMULATED, *_ACCUMULATED.values()])
_VIEWS = frozenset({"aten.view.default", "aten._unsafe_view.default", "aten.reshape.default"})


class AccumulateProduct(RewritePattern):
    """x + k · mm(a, b) -> addmm(x, a, b, alpha = k), and k · x + mm(a, b) -> addmm(x, a, b, beta = k), where x is a
    product; and the same for differences, for bmm, for products whose results are wider than their factors, and through
    equal views of both.

    Reassociates: a sum begins with x in place of 0, and in f16 and bf16 a product is not rounded before it is added to.
    NaN and infinities come out the same. Each product has no other use, so its memory may take the sum
    (`accumulate-in-place`).
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        """Rewrites a sum of products, of any number of them one after the other."""
        if not isinstance(op, aten.AtenOp) or op.overload not in _SUMS or len(op.operands) != 2:
            return
        left, right = op.operands
        for base, added, name in ((left, right, "alpha"), (right, left, "beta")):
            product, onto = below_view(added), below_view(base)
            if not isinstance(product.owner, aten.AtenOp) or product.owner.overload not in _ACCUMULATED:
                continue
            if not isinstance(onto.owner, aten.AtenOp) or onto.owner.overload not in _PRODUCTS:
                continue
            if (reason := obstacle(op, base, added, onto, product)) is not None:
                no_match(op, reason)
                return
            accumulate(op, base, added, onto, product.owner, {name: factor_of(op)}, rewriter)
            return


def below_view(value: SSAValue) -> SSAValue:
    """What a value is a view of, if it is one that only changes the shape."""
    owner = value.owner
    return owner.operands[0] if isinstance(owner, aten.AtenOp) and owner.overload in _VIEWS else value


def obstacle(op: aten.AtenOp, base: SSAValue, added: SSAValue, onto: SSAValue, product: SSAValue) -> str | None:
    """Why a sum of products stays one."""
    if not factor_of(op):
        return "one product is taken 0 times, or as often as only the call knows"
    if not is_tensor(onto) or kind_of(element_type_of(onto)) != "f":
        return "the products are not of floats"
    if onto.type != product.type or base.type != added.type or op.results[0].type != base.type:
        return "the products, or the sum, have different types"
    if any(value.has_more_than_one_use() for value in (base, added, onto, product)):
        return "a product has another use"
    if (base is onto) != (added is product) or (base is not onto and not same_view(base, added)):
        return "the products are not viewed alike"
    if 0 in strides_of(tensor_type_of(onto)):
        return "the memory of the product cannot take the sum"
    return None


def factor_of(op: aten.AtenOp) -> float:
    """How often a sum, or a difference, takes its second term; 0 where that is not known."""
    value = op.argument("alpha")
    return value * _SUMS[op.overload] if isinstance(value, int | float) else 0


def same_view(a: SSAValue, b: SSAValue) -> bool:
    """Whether two views of one shape say the same."""
    first, second = a.owner, b.owner
    return (
        isinstance(first, aten.AtenOp)
        and isinstance(second, aten.AtenOp)
        and first.overload == second.overload
        and first.arguments_attr == second.arguments_attr
    )


def accumulate(
    op: aten.AtenOp,
    base: SSAValue,
    added: SSAValue,
    onto: SSAValue,
    product: aten.AtenOp,
    factors: Mapping[str, float],
    rewriter: PatternRewriter,
) -> None:
    """Puts one product, which adds to the other, in the place of the sum; `factors` are those of either."""
    overload = aten.op_class(_ACCUMULATED[product.overload])
    wide = (product.argument("out_dtype"),) if product.overload.endswith(".dtype") else ()
    multiplied = (product.tensor("self"), product.tensor("mat2"))
    said = {name: factor for name, factor in factors.items() if factor != 1}
    total: aten.AtenOp = overload.build([onto, *multiplied, *wide], said, result_types=[onto.type])
    total.results[0].name_hint = product.results[0].name_hint
    new: list[Operation] = [total]
    view, viewed = base.owner, added.owner
    if base is not onto:
        assert isinstance(view, aten.AtenOp)
        again = type(view).create(
            operands=[total.results[0], *view.operands[1:]],
            result_types=[base.type],
            properties=view.properties,
        )
        new.append(again)
    rewriter.replace(op, new)
    for old in dict.fromkeys((viewed, view, product)):
        if isinstance(old, Operation) and not any(result.uses for result in old.results):
            rewriter.erase(old)


class AccumulateProductsPass(ModulePass):
    """mm(a, b) + k · mm(c, d) -> addmm(mm(a, b), c, d, alpha = k)."""

    name = "accumulate-products"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        apply_patterns(op, [AccumulateProduct()])
