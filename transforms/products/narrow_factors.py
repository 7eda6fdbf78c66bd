"""Products whose factors have fewer bits than their results: what type matrix units may take the factors in.

    _scaled_mm(a, b, s, t, out_dtype = bf16)[i, j] = s · t · Σ_k a[i, k] · b[k, j]      of floats of 8 bits
    mm(f32(a), f32(b)) = Σ_k a[i, k] · b[k, j] in f32                                  of whatever a and b are

What was only widened is no wider than it was: its products are exact in f32, as those that matrix units add are. Two
factors of 8 bits are taken as they are only where the library takes them so (`_scaled_mm`); else in 16 bits, in which
they are exact, too, as units add products of 8 bits in fewer bits than f32 has.
"""

from __future__ import annotations

from typing import TypeAlias

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, f32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, loops
from cuesta.dialects.core.tracing import no_match
from cuesta.dialects.elem import scalar_of
from cuesta.dialects.kernel.contract import Eight
from cuesta.dialects.layout import element_type_of, is_tensor_type, sizes_of, tensor_type_of
from cuesta.transforms.products.neighbours import stores_in_order
from cuesta.transforms.products.pieces import points_of

ONE, LISTED = "aten._scaled_mm.default", "aten._scaled_mm_v2.default"
SCALED = (ONE, LISTED)
"""The overloads of products of 8 bits with scales: of one scale for each factor, and of lists of them."""
WIDE = ("aten.mm.dtype", "aten.bmm.dtype")
"""Products that are given the type of their results."""
NARROWED = (*SCALED, *WIDE)
"""Products whose factors have a type of their own."""
Narrow: TypeAlias = BFloat16Type | Float16Type


def factor_type(call: loops.ExternOp, left: SSAValue, right: SSAValue, *, rounded: bool) -> Attribute | None:
    """The type in which matrix units may take both factors of a call, where that is not the type of its result: of 8
    bits for `_scaled_mm`, of 16 for products that give f32 and whose factors are exact so. None for any other.

    Products of factors of 16 bits are exact, but matrix units cut what they add up: off by 2.1e-6 (H200, 2048 points),
    which is ten times what f32 is. So it is done where f32 may be rounded to TF32, too: `rounded`. Of 8 bits it was
    3.8e-8.
    """
    given, result = [element_type_of(value) for value in (left, right)], element_type_of(call.results[0])
    if call.overload in SCALED:
        if not all(isinstance(one, Eight) for one in given):
            return None
        if not _is_scaled_product(call):
            no_match(call, "is not taken for a product: its scales are not of the whole, of rows or of columns")
            return None
        return given[0]
    if not isinstance(result, Float32Type):
        return None
    if call.overload in WIDE:
        return given[0] if given[0] == given[1] and isinstance(given[0], Narrow) else None
    kinds = _exact_in(left), _exact_in(right)
    return _common(*kinds) if rounded or all(isinstance(one, Eight) for one in kinds) else None


def _common(left: Attribute | None, right: Attribute | None) -> Attribute | None:
    """The type of 16 bits that holds the numbers of two."""
    if isinstance(left, Eight) and isinstance(right, Eight):
        return BFloat16Type()
    if isinstance(left, Eight):
        return right if isinstance(right, Narrow) else None
    if isinstance(right, Eight):
        return left if isinstance(left, Narrow) else None
    return left if left == right and isinstance(left, Narrow) else None


def _exact_in(factor: SSAValue) -> Attribute | None:
    """The narrower type that all elements of a tensor of f32 had before a nest widened them."""
    while isinstance(view := factor.owner, loops.ViewOp):
        factor = view.source
    nest = factor.owner
    if not isinstance(nest, loops.NestOp) or not stores_in_order(nest, by_data=True):
        return None
    points = points_of(nest)
    assert points is not None
    value = next(op.value for op in points.ops if isinstance(op, loops.StoreOp))
    between: list[Attribute] = []
    while isinstance(convert := value.owner, elem.ConvertOp):
        between.append(value.type)
        value = convert.operands[0]
    found = scalar_of(value.type)
    if not isinstance(value.owner, loops.LoadOp) or not isinstance(found, Narrow | Eight):
        return None
    return found if all(_holds(one, found) for one in between) else None


def _holds(kind: Attribute, narrow: Attribute) -> bool:
    """Whether a type has all numbers of a narrower one."""
    return kind == narrow or isinstance(kind, Float32Type) or (isinstance(kind, Narrow) and isinstance(narrow, Eight))


def bias_of(call: loops.ExternOp) -> SSAValue | None:
    """What a call adds to a product."""
    if call.overload in SCALED:
        return None if call.argument("bias") is None else call.tensor("bias")
    return call.tensor("self") if "add" in call.overload else None


def may_be_factor(scalar: Attribute, precision: str) -> bool:
    """Whether matrix units take factors of a type: of f32 only with some precision (`kernel.contract`)."""
    return isinstance(scalar, Narrow) or (isinstance(scalar, Float32Type) and precision != "")


def _is_scaled_product(call: loops.ExternOp) -> bool:
    """Whether a call of `_scaled_mm` multiplies by numbers of f32, for the whole, for rows, or for columns."""
    if call.overload == ONE and call.argument("scale_result") is not None:
        return False
    if call.overload == LISTED and not _is_listed_plainly(call):
        return False
    rows, columns = sizes_of(tensor_type_of(call.results[0]))
    allowed = ({(), (1,), (1, 1), (rows, 1)}, {(), (1,), (1, 1), (1, columns)})
    for scale, sizes in zip(scales_of(call), allowed, strict=True):
        if tuple(sizes_of(tensor_type_of(scale))) not in sizes or element_type_of(scale) != f32:
            return False
    return True


def scales_of(call: loops.ExternOp) -> tuple[SSAValue, ...]:
    """The numbers that a product is multiplied by."""
    if call.overload not in SCALED:
        return ()
    names = ("scale_a", "scale_b")
    every = [call.tensors(name) if call.overload == LISTED else (call.tensor(name),) for name in names]
    found = tuple(one for some in every for one in some if one is not None)
    assert all(is_tensor_type(one.type) for one in found)
    return found


def _is_listed_plainly(call: loops.ExternOp) -> bool:
    """Whether a call has one scale for each factor, of the whole or of rows, in the order that any tensor has."""
    if call.argument("contraction_dim") not in ((), None):
        return False
    for name in ("a", "b"):
        recipe, swizzle = (call.argument(f"{what}_{name}") for what in ("recipe", "swizzle"))
        if recipe not in ((0,), (1,)) or swizzle not in ((), (0,)) or len(call.tensors(f"scale_{name}")) != 1:
            return False
    return True


def as_factor(value: SSAValue, narrow: object, like: Operation, place: InsertPoint) -> SSAValue:
    """A value as matrix units take it: rounded to 16 bits, in f32 again."""
    owner = value.owner
    if isinstance(owner, elem.ConvertOp) and owner.operands[0].type == narrow:
        return value
    if not isinstance(narrow, Narrow):
        return value
    for kind in (narrow, f32):
        convert = elem.ConvertOp.build(value, kind)
        convert.location = like.location
        Rewriter.insert_op(convert, place)
        value = convert.result
    return value


__all__ = ["NARROWED", "as_factor", "bias_of", "factor_type", "may_be_factor", "scales_of"]
