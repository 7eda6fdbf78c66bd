"""Plain operations are made, unmade and looked at as xDSL does it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import StringAttr, f32, i64
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.irdl import traits_def
from xdsl.rewriter import Rewriter

from cuesta.dialects.core.operation import (
    PlainBlock,
    PlainOperation,
    all_ops,
    is_used,
    ops_of,
    replace_all_uses,
    same_state,
    state_of,
)


class Plain(PlainOperation):
    name = "test.plain"
    traits = traits_def()


class Slow(Operation):
    name = "test.slow"
    traits = traits_def()


def uses_of(value: SSAValue) -> list[tuple[Operation, int]]:
    return [(use.operation, use.index) for use in value.uses]


@pytest.mark.parametrize("kind", [Plain, Slow])
def test_create(kind: type[Operation]) -> None:
    source = kind.create(result_types=(f32, i64))
    properties = {"a": StringAttr("b")}
    region = Region(Block(arg_types=[f32]))
    op = kind.create(
        operands=[source.results[0], source.results[1], source.results[0]],
        result_types=[i64],
        properties=properties,
        attributes=properties,
        regions=[region],
    )
    properties.clear()
    assert tuple(op.operands) == (source.results[0], source.results[1], source.results[0])
    assert uses_of(source.results[0]) == [(op, 2), (op, 0)] and uses_of(source.results[1]) == [(op, 1)]
    assert [(result.op, result.index, result.type) for result in source.results] == [(source, 0, f32), (source, 1, i64)]
    assert op.properties == op.attributes == {"a": StringAttr("b")} and op.properties is not op.attributes
    assert op.regions == (region,) and region.parent is op and op.parent is None
    assert not op.successors and kind.create().location == source.location


def test_an_op_is_erased_only_when_nobody_uses_its_results() -> None:
    source = Plain.create(result_types=(f32,))
    user = Plain.create(operands=source.results)
    with pytest.raises(ValueError, match="still has uses"):
        source.erase()
    user.erase()
    assert not uses_of(source.results[0])
    source.erase()
    block = Block([inside := Plain.create()])
    with pytest.raises(AssertionError, match="detached"):
        inside.erase()
    assert ops_of(block) == [inside]


@pytest.mark.parametrize("replace", [replace_all_uses, SSAValue.replace_all_uses_with])
def test_replacing_uses(replace: object) -> None:
    assert callable(replace)
    old, new = (Plain.create(result_types=(f32,)).results[0] for _ in range(2))
    old.name_hint = "old"
    users: list[Operation] = [Plain.create(operands=operands) for operands in ((old,), (new, old), (old, new, old))]
    replace(old, new)
    assert not uses_of(old) and new.name_hint == "old"
    assert all(operand is new for user in users for operand in user.operands)
    assert sorted(uses_of(new), key=lambda use: (users.index(use[0]), use[1])) == [
        (user, index) for user in users for index in range(len(user.operands))
    ]
    new.name_hint = "mine"
    other = Plain.create(result_types=(f32,)).results[0]
    replace(other, new)
    replace(new, new)
    assert new.name_hint == "mine" and len(uses_of(new)) == 6
    for user in users:  # the lists of uses are sound: every use can be taken out
        user.erase()
    assert not uses_of(new)


def test_operands_of_ops_that_are_not_ours_stay_as_xdsl_has_them() -> None:
    """Its formats ask for the types of a slice."""
    old, new = (Plain.create(result_types=(f32,)).results[0] for _ in range(2))
    users = [Plain.create(operands=(old,)), Slow.create(operands=(old,))]
    replace_all_uses(old, new)
    assert [tuple(user.operands) for user in users] == [(new,), (new,)]
    assert users[1].operands[0:1].types == (f32,)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    assert is_used(new.owner) and not is_used(old.owner) and not is_used(users[0])


def test_a_plain_block() -> None:
    block, slow = PlainBlock(arg_types=(f32, i64)), Block(arg_types=(f32, i64))
    root = Plain.create(regions=[Region(block)])
    for one in (block, slow):
        inserted = one.insert_arg(i64, 1)
        assert [argument.type for argument in one.args] == [f32, i64, i64] and one.args[1] is inserted
        assert [argument.index for argument in one.args] == [0, 1, 2]
        assert all(argument.owner is one for argument in one.args)
        one.erase_arg(one.args[0])
        assert [argument.index for argument in one.args] == [0, 1] and one.args[0] is inserted
    assert len(set(block.args)) == 2 and block.args[0] != block.args[1]
    inside = Plain.create(operands=block.args)
    block.add_op(inside)
    assert inside.operand_values == tuple(inside.operands) == block.args and inside.parent_op() is root
    assert root.parent_op() is None and Plain.create().parent_op() is None
    copied = root.clone().regions[0].block
    assert [argument.type for argument in copied.args] == [i64, i64]


def test_ops_in_order() -> None:
    inner = Block([Plain.create(), Plain.create()])
    block = Block([Plain.create(), Plain.create(regions=[Region(inner)]), Plain.create()])
    root = Plain.create(regions=[Region(block), Region([Block(), Block([Plain.create()])])])
    assert ops_of(block) == list(block.ops) and ops_of(Block()) == []
    assert all_ops(root) == list(root.walk()) and len(all_ops(root)) == 7


def _exchanged(first: Operation, second: Operation) -> None:
    first.detach()
    block_of(second).insert_op_after(first, second)


def _moved_out(first: Operation, second: Operation) -> None:
    """In program order it stands where it stood."""
    second.detach()
    holder = block_of(first).parent_op()
    assert holder is not None
    block_of(holder).add_op(second)


def block_of(op: Operation) -> Block:
    assert op.parent is not None
    return op.parent


CHANGES: dict[str, Callable[[Operation, Operation], object]] = {
    "an operand": lambda first, second: first.operands.__setitem__(0, first.operands[1]),
    "a type": lambda first, second: Rewriter.replace_value_with_new_type(first.results[0], f32),
    "a property": lambda first, second: first.properties.__setitem__("new", i64),
    "an attribute": lambda first, second: second.attributes.__setitem__("new", i64),
    "order": _exchanged,
    "place": _moved_out,
    "an op less": lambda first, second: second.detach(),
    "an argument": lambda first, second: block_of(first).insert_arg(f32, 0),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_state_is_another_after_any_change(name: str) -> None:
    inner = Block(arg_types=[i64, i64])
    first, second = (Plain.create(operands=inner.args, result_types=[i64]) for _ in range(2))
    inner.add_ops([first, second])
    root = Plain.create(regions=[Region(Block([Plain.create(regions=[Region(inner)])]))])
    before = state_of(root)
    assert same_state(before, state_of(root))
    CHANGES[name](first, second)
    assert not same_state(before, state_of(root))
