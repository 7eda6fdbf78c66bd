"""SSA dominance, which xDSL's own verifier does not check inside of a block."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import IsolatedFromAbove

from cuesta.dialects.core.diagnostics import fail, name_of


def verify_dominance(module: ModuleOp) -> None:
    """Every operand is defined before it is used, in the same block or around it.

    In a region of several blocks, a value of another block of the region counts as defined: no level of ours has one.

    Errors: CuestaError on the first op that uses a value too early.
    """
    visible: set[SSAValue] = set()
    for region in module.regions:
        _check_region(region, visible)


def _check_region(region: Region, visible: set[SSAValue]) -> None:
    first = region.first_block
    if first is None:
        return
    if first is region.last_block:
        _check_block(first, visible, [])
        return
    for block in region.blocks:
        elsewhere: list[SSAValue] = [
            value
            for other in region.blocks
            if other is not block
            for value in (*other.args, *(result for op in other.ops for result in op.results))
        ]
        _check_block(block, visible, elsewhere)


def _check_block(block: Block, visible: set[SSAValue], elsewhere: list[SSAValue]) -> None:
    added: list[SSAValue] = [*elsewhere, *block.args]
    visible.update(added)
    op = block.first_op
    while op is not None:
        # The fields behind the public views: this loop runs over every op of every program.
        operands = op._operands  # pyright: ignore[reportPrivateUsage]
        if not visible.issuperset(operands):
            _fail_on(op, next(operand for operand in operands if operand not in visible))
        for region in op.regions:
            _check_region(region, set() if op.has_trait(IsolatedFromAbove) else visible)
        results = op.results
        visible.update(results)
        added += results
        op = op._next_op  # pyright: ignore[reportPrivateUsage]
    visible.difference_update(added)


def _fail_on(op: Operation, operand: SSAValue) -> None:
    index = tuple(op.operands).index(operand)
    name = f"%{operand.name_hint}" if operand.name_hint else f"operand {index}"
    owner = operand.owner
    if isinstance(owner, Operation) and owner.parent is op.parent and owner.parent is not None:
        fail(op, f"{name} is used before {name_of(owner)} defines it")
    fail(op, f"{name} is not visible here: it is defined in another region, or nowhere in the program")
