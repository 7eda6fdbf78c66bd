"""Where a value's storage begins, for those who count addresses from there (`as_strided` with an offset).

What a nest gives fills a storage of its own from the first element on, and an argument that is only addressed is given
as what its storage begins with (`aten.by_storage`). What eager gives need not: `slice_scatter` and
its kin copy the whole storage of their operand, of which an argument may be a part anywhere (`x[0].add_(1)`, and then
`x.as_strided(…, 5)`), and `view(dtype)`, which is a nest when it is generated, is a view of that storage.

Source: `clone_preserve_strides`, called in aten/src/ATen/native/TensorShape.cpp and (`copy`) Copy.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import BlockArgument, OpResult, SSAValue

from cuesta.dialects import loops
from cuesta.dialects.aten import AtenOp, CallOp
from cuesta.dialects.core.entry import arguments_by_storage
from cuesta.lowering.aten.builder import AtenCall, LoopBuilder, Rule, decline

KEEP_STORAGE = tuple(
    f"aten.{name}.default"
    for name in ("as_strided_scatter", "copy", "diagonal_scatter", "select_scatter", "slice_scatter")
)
_ADDRESSED_BY = ("aten.as_strided.default", "aten.as_strided_copy.default", "aten.as_strided_scatter.default")


def storage_of(value: SSAValue) -> SSAValue | None:
    """What fills the storage of a value from its first element on, if that is known."""
    while isinstance(value.owner, loops.ViewOp) and value.owner.is_alias:
        value = value.owner.source
    if isinstance(value, BlockArgument):
        main = value.owner.parent_op()
        return value if main is not None and value.index in arguments_by_storage(main) else None
    return value if isinstance(value, OpResult) and isinstance(value.owner, loops.NestOp) else None


def keeping_storage(rule: Rule) -> Rule:
    """A rule for a call that copies or views the storage of `self`, and gives what fills one: where addresses matter to
    anybody, `self` must fill its own.
    """

    def lower(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
        given = op.tensor("self")
        if storage_of(given) is not given and _is_addressed(op.results[0]):
            decline("addresses in the storage of its operand are asked for")
        return rule(op, builder)

    return lower


def _is_addressed(value: SSAValue) -> bool:
    """Whether addresses count from the start of a value's storage, under whatever name."""
    names = [value]
    for name in names:
        for use in name.uses:
            user = use.operation
            if not isinstance(user, AtenOp | CallOp) or user.schema is None or use.index != 0:
                continue
            if user.overload in _ADDRESSED_BY and user.argument("storage_offset") is not None:
                return True
            if user.schema.is_view or user.overload in KEEP_STORAGE:
                names += user.results
    return False


__all__ = ["keeping_storage", "storage_of"]
