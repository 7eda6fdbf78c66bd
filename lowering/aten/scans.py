"""Cumulative functions along one dim: the parallel domain is the other dims, the dim itself is scanned.

On the CPU, f32 is accumulated in f64, as eager does; elsewhere in f32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import Float32Type, f64, i64
from xdsl.ir import Attribute, SSAValue

from cuesta.dialects import sym
from cuesta.dialects.elem import kind_of
from cuesta.dialects.layout import traits_of
from cuesta.lowering.aten.builder import AtenCall, LoopBuilder, Rule, compute_type, decline
from cuesta.lowering.aten.operands import dim_argument, element_of, sizes_of_value
from cuesta.lowering.aten.reductions import Split

TypeOf = Callable[[AtenCall], Attribute]


def _accumulator(op: AtenCall) -> Attribute:
    """The type that a sum or a product of the result's elements is accumulated in."""
    own = element_of(op.results[0])
    if isinstance(own, Float32Type) and traits_of(op.results[0]).wide_sums:
        return f64
    return compute_type(own)


def _compared(op: AtenCall) -> Attribute:
    return compute_type(element_of(op.operands[0]))


def _cumulative(kind: str, type_of: TypeOf = _accumulator, kinds: str = "fiu") -> Rule:
    def lower(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
        source, to = op.operands[0], type_of(op)
        if kind_of(to) not in kinds:
            decline(f"{kind} of {to}")
        sizes = sizes_of_value(source)
        split = Split(sizes, (dim_argument(op, "dim", len(sizes)),) if sizes else ())
        # What is stored on the way counts: integers and f16 wrap and round in the type asked for, before they add up.
        first = element_of(op.results[0]) if type_of is _accumulator else to
        if sym.product_of(split.reduced_sizes) == 1:
            return _of_one(op, builder, first, to)
        with (
            builder.nest(split.kept_sizes, [result.type for result in op.results]) as nest,
            builder.scan(split.reduced_sizes or (1,)) as inner,
        ):
            place = split.index(nest.indices, inner) if sizes else []
            value = builder.load_raw(source, place)
            value = value.convert(compute_type(first) if kind_of(first) == "f" else first).convert(to)
            for handle, result in zip(nest.handles, builder.running(kind, value), strict=True):
                builder.store(result, handle, place)
        return nest.results

    return lower


def _of_one(op: AtenCall, builder: LoopBuilder, first: Attribute, to: Attribute) -> Sequence[SSAValue]:
    """Of an axis with one point, each running value is the value there, and each place 0: no point waits for another,
    and neighbours are taken in one piece, whichever axis it is. A sum is +0 where that is -0, as in eager.
    """
    with builder.nest(sizes_of_value(op.operands[0]), [result.type for result in op.results]) as nest:
        value = builder.load_raw(op.operands[0], nest.indices)
        value = value.convert(compute_type(first) if kind_of(first) == "f" else first).convert(to)
        if op.overload == "aten.cumsum.default" and kind_of(to) == "f":
            value = value + builder.constant(0, to)
        for handle, result in zip(nest.handles, (value, builder.constant(0, i64)), strict=False):
            builder.store(result, handle, nest.indices)
    return nest.results


RULES: dict[str, Rule] = {
    "aten.cumsum.default": _cumulative("sum"),
    "aten.cumprod.default": _cumulative("prod"),
    "aten.logcumsumexp.default": _cumulative("logaddexp", kinds="f"),
    "aten.cummax.default": _cumulative("last_argmax", _compared, "fiub"),
    "aten.cummin.default": _cumulative("last_argmin", _compared, "fiub"),
}
"""Cumulative functions."""
