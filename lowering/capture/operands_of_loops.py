"""What loops are given, each tensor in memory of its own.

    while_loop(…, (i, x[0]), (x,))   →   while_loop(…, (i, x[0].clone()), (x,))
    scan(…, [x[0]], [y], (x,))       →   scan(…, [x[0].clone()], [y], (x,))

AOTAutograd refuses a loop of which two operands share memory, since its body might write to one and read the other, and
eager would run the whole graph. A loop that writes to none of them gives the same for a copy: its results are never its
operands themselves (`while_loop` copies those of no steps at all). A state that begins as a row of what the body reads
is the common case, and the copy is as small as the state.

Source: `has_potential_input_alias_or_mutation` of torch/_higher_order_ops/utils.py; `while_loop_dense` of while_loop.py
beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import torch
from torch.fx import GraphModule, Node

from cuesta.lowering.capture.dynamo_graph import parts_of, value_of, written_by
from cuesta.lowering.capture.memory_ranges import memory_of

_COPIED: Final = {torch.ops.higher_order.while_loop: 2, torch.ops.higher_order.scan: 1}
"""Loops, and which of their arguments is what they carry. The last argument is what bodies read besides."""


def give_memory_to_operands(gm: GraphModule) -> None:
    """Copies operands of loops that share memory with what comes after them, in place: first what is carried, then what
    bodies read.

    Near miss: what a scan goes along (`xs`) may share memory with what it carries; and a body that writes to what it is
    given is left to PyTorch, which refuses it.
    """
    for module in gm.modules():
        if not isinstance(module, GraphModule):
            continue
        loops = [node for node in module.graph.nodes if node.target in _COPIED]
        copied = [loop for loop in loops if not _writes_to_operands(module, loop) and _copied(module, loop)]
        if copied:
            module.recompile()


def _copied(module: GraphModule, loop: Node) -> bool:
    """Whether something of a loop was copied."""
    places = (_COPIED[cast("Any", loop.target)], len(loop.args) - 1)
    groups = {place: list(cast("Sequence[Any]", loop.args[place])) for place in places}
    taken, found = set[int](), False
    for place in reversed(places):  # what is read besides is the larger
        for number, operand in reversed([*enumerate(groups[place])]):
            memory = set(map(memory_of, parts_of(operand))) if isinstance(operand, Node) else set[int]()
            if memory & taken:
                with module.graph.inserting_before(loop):
                    copy = module.graph.call_method("clone", (operand,))
                copy.meta = {**operand.meta, "example_value": cast("torch.Tensor", value_of(operand)).clone()}
                groups[place][number], found = copy, True
            taken |= memory
    if found:
        given = [groups.get(place, one) for place, one in enumerate(loop.args)]
        loop.args = tuple(
            tuple(cast("Any", new)) if isinstance(one, tuple) else new
            for new, one in zip(given, loop.args, strict=True)
        )
    return found


def _writes_to_operands(module: GraphModule, loop: Node) -> bool:
    """Whether a body of a loop, or what that calls, writes to what it is given."""
    for body in _bodies(module, loop):
        given = {memory_of(one) for node in body.graph.nodes if node.op == "placeholder" for one in parts_of(node)}
        for node in body.graph.nodes:
            written = written_by(node) if node.op in ("call_function", "call_method") else ()
            if any(memory_of(one) in given for target in written for one in parts_of(target)):
                return True
    return False


def _bodies(module: GraphModule, loop: Node) -> Iterator[GraphModule]:
    """The graphs that a call is given, and those within them."""
    for one in loop.all_input_nodes:
        body = getattr(module, str(one.target), None) if one.op == "get_attr" else None
        for inner in body.modules() if isinstance(body, GraphModule) else ():
            if isinstance(inner, GraphModule):
                yield inner


__all__ = ["give_memory_to_operands"]
