"""`PlainOperation`: what our op classes are made of; the same as xDSL's `Operation`, at half the cost.

A compilation makes and unmakes some ten ops for every ATen op, and changes operands as often. xDSL's own ways go
through checks and views that our ops do not need: they have no successors, and nothing looks at an erased value.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter, is_
from typing import Any, Self

from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr
from xdsl.ir import Attribute, Block, BlockArgument, IRNode, Operation, OpResult, Region, SSAValue, SSAValues, Use

# pyright: reportPrivateUsage=false
# The fields behind xDSL's properties: this file is the one place that writes them.


_item = tuple[SSAValue, ...].__getitem__
_ITEM: Any = tuple[Any, ...].__getitem__
_HASH: Any = object.__hash__
_EQUAL: Any = object.__eq__


class _PlainClass(ABCMeta):
    """Of classes that nothing is registered for: whether an op is one of theirs is asked of its type, and not of tables
    that are kept for that.
    """

    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__


class _Result(OpResult[Any]):
    """A result is itself and no other, as xDSL's; that is not said in Python each time it is looked up, nor is what it
    is of.
    """

    __hash__ = _HASH
    __eq__ = _EQUAL
    type: Any = property(attrgetter("_type"))
    owner: Any = property(attrgetter("op"))


class _Argument(BlockArgument[Any]):
    """An argument, in the same way."""

    __hash__ = _HASH
    __eq__ = _EQUAL
    type: Any = property(attrgetter("_type"))
    owner: Any = property(attrgetter("block"))


class _Values(SSAValues[Any]):
    """As xDSL's, but that a slice of it is any tuple. (Only formats that IRDL reads ask more of one.)"""

    __getitem__ = _ITEM


class PlainBlock(Block):
    """A block as xDSL's, whose arguments cost less."""

    def __init__(self, *, arg_types: Iterable[Attribute] = ()) -> None:
        super().__init__()
        self._args = tuple([_Argument(kind, self, index) for index, kind in enumerate(arg_types)])

    def insert_arg(self, arg_type: Attribute, index: int, location: LocationAttr | None = None) -> BlockArgument:
        """As xDSL's."""
        made = super().insert_arg(arg_type, index, location)
        argument = _Argument(arg_type, self, index, made.location)
        self._args = (*self._args[:index], argument, *self._args[index + 1 :])
        return argument


class PlainOperation(Operation, metaclass=_PlainClass):
    """An op that is made by `create`, not by IRDL."""

    __hash__ = _HASH
    __eq__ = _EQUAL

    @classmethod
    def create(
        cls,
        *,
        operands: Sequence[SSAValue] = (),
        result_types: Sequence[Attribute] = (),
        properties: Mapping[str, Attribute] = {},
        attributes: Mapping[str, Attribute] = {},
        location: LocationAttr | None = None,
        successors: Sequence[Block] = (),
        regions: Sequence[Region] = (),
    ) -> Self:
        """As xDSL's."""
        op = cls.__new__(cls)
        values = op._operands = _Values(operands)
        uses: list[Use] = []
        for index, value in enumerate(values):
            use = Use(op, index, None, first := value.first_use)
            if first is not None:
                first._prev_use = use
            value.first_use = use
            uses.append(use)
        op._operand_uses = tuple(uses)
        op.results = _Values([_Result(kind, op, index) for index, kind in enumerate(result_types)])
        op.properties = dict(properties)
        op.attributes = dict(attributes)
        op.location = UNKNOWN_LOC if location is None else location
        if successors:
            op.successors = successors
        for region in regions:
            op.add_region(region)
        return op

    @property
    def operand_values(self) -> tuple[SSAValue, ...]:
        """The operands as they are now. `operands` is a view, which can be assigned to and costs more to read."""
        return self._operands

    def operand(self, position: int) -> SSAValue:
        """The operand at a position; the same as `operands[position]`."""
        return _item(self._operands, position)

    def parent_op(self) -> Operation | None:
        """As xDSL's."""
        region = None if self.parent is None else self.parent.parent
        return None if region is None else region.parent

    def is_ancestor(self, op: IRNode) -> bool:
        """As xDSL's, which asks it whenever an op is put into a block."""
        return super().is_ancestor(op) if self.regions else op is self

    def drop_all_references(self) -> None:
        """As xDSL's: all in it uses nothing any more, and stands nowhere."""
        self.parent = None
        for operand, use in zip(self._operands, self._operand_uses, strict=False):  # none, the second time
            before, after = use._prev_use, use._next_use
            if after is not None:
                after._prev_use = before
            if before is None:
                operand.first_use = after
            else:
                before._next_use = after
        self._operand_uses = ()
        for region in self.regions:
            region.drop_all_references()

    def erase(self, safe_erase: bool = True, drop_references: bool = True) -> None:
        """As xDSL's."""
        if is_used(self):
            super().erase(safe_erase, drop_references)
            return
        assert self.parent is None, "an op is detached before it is erased"
        if drop_references:
            self.drop_all_references()


def is_used(op: Operation) -> bool:
    """Whether somebody uses a result."""
    for result in op.results:  # noqa: SIM110 - it is asked of all that is looked at, and all that goes
        if result.first_use is not None:
            return True
    return False


def replace_all_uses(old: SSAValue, new: SSAValue) -> None:
    """As xDSL's `replace_all_uses_with`."""
    if old is new:
        return
    use = old.first_use
    while use is not None:
        following = use._next_use
        user = use._operation
        values = list(user._operands)
        values[use._index] = new
        user._operands = user._operands.__class__(values)  # of xDSL's own ops it stays xDSL's
        first = new.first_use
        use._prev_use, use._next_use = None, first
        if first is not None:
            first._prev_use = use
        new.first_use = use
        use = following
    old.first_use = None
    if new._name is None:
        new._name = old._name


def all_ops(root: Operation) -> list[Operation]:
    """`root` and every op inside of it, in program order. The same as `root.walk()`, at a fraction of its cost."""
    found = [root]
    for region in root.regions:
        for block in region.blocks:
            _collect(block, found)
    return found


def _collect(block: Block, found: list[Operation]) -> None:
    op = block._first_op
    while op is not None:
        found.append(op)
        for region in op.regions:
            inner = region._first_block
            while inner is not None:
                _collect(inner, found)
                inner = inner._next_block
        op = op._next_op


def ops_of(block: Block) -> list[Operation]:
    """The ops of a block, as they stand now."""
    found: list[Operation] = []
    op = block._first_op
    while op is not None:
        found.append(op)
        op = op._next_op
    return found


def state_of(root: Operation) -> list[object]:
    """What `root` and all in it are made of now: nothing was done to them between two states of the very same objects
    (`same_state`). To take one costs a fraction of a fingerprint.
    """
    found: list[object] = []
    for op in all_ops(root):
        found += (op, op.parent, *op._operands, *op.successors)
        found += [result.type for result in op.results]
        for entries in (op.properties, op.attributes):
            if entries:
                found += entries
                found += entries.values()
        for region in op.regions:
            for block in region.blocks:
                found += (region, block, *[argument.type for argument in block.args])
    return found


def same_state(one: Sequence[object], other: Sequence[object]) -> bool:
    """Whether two states are of the very same objects."""
    return len(one) == len(other) and all(map(is_, one, other))
