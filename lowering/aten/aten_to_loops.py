"""`aten-to-loops`: every call becomes nests and views, or stays a library call (`loops.extern`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Block, OpResult, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import PassFailedException, VerifyException

from cuesta.dialects import loops
from cuesta.dialects.aten import AtenOp, CallOp
from cuesta.dialects.aten.schemas import canonical_name
from cuesta.dialects.core.blame import accuse, blame
from cuesta.dialects.core.devices import traits_of_device
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.extension import active
from cuesta.dialects.core.interning import Memo
from cuesta.dialects.core.operation import ops_of, replace_all_uses
from cuesta.dialects.core.tracing import no_match
from cuesta.dialects.elem import kind_of
from cuesta.dialects.layout import device_of, is_tensor_type, sizes_of, strides_of
from cuesta.lowering.aten import (
    channel_norms,
    convolutions,
    creation,
    distances,
    embedding_bags,
    grid_sampling,
    indexing,
    losses,
    normalization,
    padding,
    pointwise,
    pooling,
    pooling_windows,
    random_numbers,
    reductions,
    scans,
    scatter_rules,
    searching,
    strided_views,
    upsampling,
    views,
    wide_products,
)
from cuesta.lowering.aten.builder import AtenCall, Declined, LoopBuilder, Rule, decline
from cuesta.lowering.aten.complex_numbers import ComplexValues, has_rule, is_complex_call
from cuesta.lowering.aten.operands import tensor_type_of

FAMILIES: Final[tuple[Mapping[str, Rule], ...]] = (
    pointwise.RULES,
    views.RULES,
    strided_views.RULES,
    reductions.RULES,
    normalization.RULES,
    channel_norms.RULES,
    indexing.RULES,
    creation.RULES,
    pooling.RULES,
    losses.RULES,
    scans.RULES,
    random_numbers.RULES,
    scatter_rules.RULES,
    pooling_windows.RULES,
    padding.RULES,
    upsampling.RULES,
    searching.RULES,
    convolutions.RULES,
    distances.RULES,
    embedding_bags.RULES,
    grid_sampling.RULES,
    wide_products.RULES,
)
"""The tables of the families. An overload stands in one of them."""

RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {overload: rule for family in FAMILIES for overload, rule in family.items()}
)
"""Every overload that has a rule. Whatever is not here stays a library call."""

RANDOM_CHOICES: Final = ("device", "eager", "philox")
"""Whose random numbers a graph draws."""


@dataclass(frozen=True)
class AtenToLoopsPass(ModulePass):
    """Rewrites the calls in @main, in order, by the rule of their overload.

    A call without a rule, or whose rule declines, becomes a `loops.extern` with the same arguments; a rewrite trace
    says why (`no_match`). Results keep their types; locations and name hints are carried over. An extension's rule for
    an overload stands in the place of ours.
    """

    name = "aten-to-loops"

    deterministic: bool = False
    """Whether a call whose result would depend on the order in which a GPU gets to things is left to the library."""
    random: str = "device"
    """Random numbers of our own (`philox`), or those of `eager`; by `device`: our own on GPUs."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.random not in RANDOM_CHOICES:
            known = ", ".join(RANDOM_CHOICES)
            raise PassFailedException(
                f"aten-to-loops: there are no random numbers of {self.random!r}; there are {known}"
            )
        lower_block(entry_block(op), deterministic=self.deterministic, random=self.random)


def lower_block(block: Block, *, deterministic: bool = False, random: str = "device") -> None:
    """Lowers the calls that stand in a block."""
    ops = ops_of(block)
    for op in ops:
        op.detach()
    if not ops:
        return
    builder = LoopBuilder(block, ops[0].location, deterministic=deterministic, random=random)
    complex_values = ComplexValues(builder)
    for op in ops:
        if isinstance(op, AtenOp | CallOp):
            builder.location = op.location
            _replace(op, _lower_call(op, builder, complex_values), builder)
        else:
            block.add_op(op)


def _replace(op: AtenCall, values: list[SSAValue], builder: LoopBuilder) -> None:
    for result, value in zip(op.results, values, strict=True):
        if value in op.operands:
            value = _distinct(op, result, value, builder)
        replace_all_uses(result, value)
    op.erase()


def _distinct(op: AtenCall, result: OpResult, value: SSAValue, builder: LoopBuilder) -> SSAValue:
    """What stands for a result that is equal to an operand."""
    if op.schema is None or not op.schema.is_view:
        # Eager gives memory of its own. What is written to an input later must not show in it.
        return builder.copy(value, result.type)
    if any(use.operation.has_trait(IsTerminator) for use in result.uses):
        # The caller gets two tensors, though of one memory: what it does to one (resize it, say) is not done to the
        # other.
        return builder.alias(value)
    return value


def _lower_call(op: AtenCall, builder: LoopBuilder, complex_values: ComplexValues) -> list[SSAValue]:
    name = canonical_name(op.overload)
    added = active().lowerings.get(name)
    rule = RULES.get(name) if added is None else added
    is_complex = added is None and has_rule(name) and is_complex_call(op)
    reason = "there is no rule for it" if rule is None and not is_complex else None if is_complex else _obstacle(op)
    if reason is None:
        start = builder.checkpoint()
        builder.traits = traits_of_device(_device_of(op))
        try:
            if is_complex:
                return complex_values.lower(op, name)
            assert rule is not None
            if added is not None:
                return _lower_by(rule, op, builder)
            values = list(rule(op, builder))
            if _loses_an_alias(op, values):
                decline("sizes that are symbols hide how it lies in the memory that the caller gets")
            return values
        # VerifyException: an argument is of another kind than the rule expects, such as a symbolic dim.
        except (Declined, VerifyException) as refusal:
            builder.roll_back(start)
            complex_values.forget_erased()
            reason = str(refusal)
    no_match(op, f"stays a library call: {reason}")
    return _keep(op, builder)


def _lower_by(rule: Rule, op: AtenCall, builder: LoopBuilder) -> list[SSAValue]:
    """What an extension's rule makes of a call, held to what the call gives.

    Errors: CuestaError, which names the extension.
    """
    with blame(rule, op, passing=(Declined, VerifyException)):
        given: Any = rule(op, builder)
    values = cast("list[Any]", [*given] if isinstance(given, Iterable) else [given])
    if any(not isinstance(value, SSAValue) for value in values):
        accuse(rule, f"must give a list with a value for every result, not {given!r}", op)
    if len(values) != len(op.results):
        accuse(rule, f"gives {len(values)} values for a call with {len(op.results)} results", op)
    for value, result in zip(values, op.results, strict=True):
        if value.type != result.type:
            accuse(rule, f"gives {value.type} for a result of type {result.type}", op)
        if value.owner is op:
            accuse(rule, "gives a result of the call itself, which goes", op)
    return values


def _loses_an_alias(op: AtenCall, values: Iterable[SSAValue]) -> bool:
    """Whether the caller gets a view of eager's, or a view of it, as a copy: only because strides are symbols."""
    schema = op.schema
    if schema is None or not schema.is_view:
        return False
    views = (value.owner for value in values if isinstance(value.owner, loops.ViewOp))
    return any(not _is_static(view) and not view.is_alias for view in views) and _is_given_out(op)


def _is_given_out(op: AtenCall) -> bool:
    users = (use.operation for result in op.results for use in result.uses)
    return any(
        (user.schema is None or user.schema.is_view or user.overload == "aten._unsafe_view.default")
        and _is_given_out(user)
        if isinstance(user, AtenOp | CallOp)
        else user.has_trait(IsTerminator)
        for user in users
    )


def _is_static(view: loops.ViewOp) -> bool:
    kind = tensor_type_of(view.source)
    return all(isinstance(number, int) for number in (*sizes_of(kind), *strides_of(kind)))


def _keep(op: AtenCall, builder: LoopBuilder) -> list[SSAValue]:
    schema = op.schema
    extern = loops.ExternOp.of(
        op.overload,
        op.operands,
        op.arguments_attr,
        [result.type for result in op.results],
        pure=schema is not None and schema.is_pure,
    )
    builder.emit(extern)
    return list(extern.results)


def _obstacle(op: AtenCall) -> str | None:
    """Why no rule can lower the call, whatever it is: element types that are not computed with, several devices."""
    device: str | None = None
    for value in (*op.operands, *op.results):
        value_type = value.type
        if not is_tensor_type(value_type):
            continue
        computable, own = _traits_of(value_type)
        if not computable:
            moved = kind_of(value_type.element_type) == "s" and traits_of_device(own).floats_of_8_bits
            if not moved or op.overload not in MOVES:
                return f"there is no arithmetic on {value_type.element_type}"
        if device is None:
            device = own
        elif own != device:
            return f"its tensors are on several devices, {device} and {own}"
    return None


MOVES: Final = frozenset(
    (
        *views.RULES,
        *indexing.RULES,
        *creation.FILLS,
        "aten.index_put.default",
        "aten._to_copy.default",
        "aten.clone.default",
        "aten.copy.default",
        "prims::convert_element_type.default",
    )
)
"""What is done with floats of 8 bits: they are moved and converted."""


def _device_of(op: AtenCall) -> str:
    """Where a call runs: where its results lie."""
    return next((device_of(value.type) for value in (*op.results, *op.operands) if is_tensor_type(value.type)), "cpu")


_traits = Memo[int, tuple[TensorType, bool, str]](50_000)
"""By the ids of the types, which stay taken as long as the types are held here."""


def _traits_of(tensor: TensorType) -> tuple[bool, str]:
    """Whether its elements are computed with, and the device."""
    found = _traits.get(id(tensor))
    if found is None:
        found = _traits.keep(id(tensor), (tensor, kind_of(tensor.element_type) not in "?s", device_of(tensor)))
    return found[1:]
