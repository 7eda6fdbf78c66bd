"""Updates in place that Dynamo writes as several operators: nothing of the graph says what eager does.

    x.addcmul_(y, z, value=t)         →   torch 2.13: m = y * z; f = prims.fma(m, t, x); x.copy_(f)
                                          torch 2.11: x.add_(y * z * t)
    torch._foreach_lerp_(xs, ys, w)   →   torch._foreach_add_(xs, torch._foreach_mul(torch._foreach_sub(ys, xs), w))

All is read before anything is written then. Eager reads an element when its turn comes: where elements of x are one
number, or what is read is another part of x, that is what was written before, or an error. Such a frame is left to
Python: the graph itself, run in eager, gives other numbers (with every backend). Factors that are numbers stay where
they are (cuesta/updates_as_written.py).

Source: `method_addcmul_`, `method_addcdiv_`, `method_add_` of torch/_dynamo/variables/tensor.py;
`foreach_lerp_inplace`, `addcmul_inplace` of torch/_dynamo/polyfills.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import torch
from torch._dynamo import polyfills
from torch.fx import GraphModule, Node

from cuesta.lowering.capture.dynamo_graph import name_of, parts_of, views_behind, written_by
from cuesta.lowering.capture.memory_ranges import known_to_meet, lie_alike, memory_of, overlaps


def rewritten_update(gm: GraphModule) -> str | None:
    """The update, if there is one, that Dynamo wrote as several operators, and that writes to what it reads at another
    place, or to elements that are one number in memory.

    Near miss: an update of a user's own that looks the same, x.add_(x * 2) with torch 2.11. Who wrote it nobody knows;
    its frame is left to Python as well.
    """
    for module in gm.modules():
        if not isinstance(module, GraphModule):
            continue
        for node in module.graph.nodes:
            read = list(_read_by(node))
            written = list(written_by(node)) if read else []
            if written and _is_read_where_it_is_written(written, read):
                return (
                    f"{name_of(node)} stands for an update of elements that it reads, which PyTorch's capture rewrote"
                )
    return None


def _read_by(node: Node) -> Iterator[Sequence[Node]]:
    """The operands of the update that a node ends, one for each tensor that is updated; none if it ends none."""
    arguments: list[Any] = list(node.args)
    name, source = name_of(node), arguments[1] if len(arguments) > 1 else None
    if name == "copy_" and isinstance(source, Node) and name_of(source).partition(".")[0] == "fma":
        if source.args[-1] is arguments[0]:
            yield from ([one] for one in _factors(source))
    elif name == "add_" and isinstance(source, Node) and source.target in _PRODUCTS and _WRITES_SUMS:
        yield from ([one] for one in _factors(source))
    elif name in ("_foreach_add_", "_foreach_addcmul_"):
        for argument in arguments[1:]:
            for one in cast("Sequence[Any]", argument) if isinstance(argument, list | tuple) else ():
                if (difference := _difference_behind(one)) is not None:
                    for operand in difference.args:
                        if isinstance(operand, list | tuple):
                            yield [tensor for tensor in cast("Sequence[Any]", operand) if isinstance(tensor, Node)]
                    return


def _factors(product: Node) -> Iterator[Node]:
    """The operands of a product, and of the product or the quotient that is its first factor."""
    for place, one in enumerate(product.args[:2]):
        if isinstance(one, Node):
            yield one
            if place == 0 and one.target in _PRODUCTS:
                yield from (factor for factor in one.args if isinstance(factor, Node))


def _difference_behind(node: object) -> Node | None:
    """`_foreach_sub`, if a tensor is one of its results, or of their products."""
    while isinstance(node, Node):
        if node.target is _SUBTRACT:
            return node
        if node.target not in (operator.getitem, _MULTIPLY):
            return None
        first = node.args[0]
        node = first[0] if isinstance(first, list | tuple) and first else first
    return None


def _is_read_where_it_is_written(written: Sequence[Node], read: Sequence[Sequence[Node]]) -> bool:
    if any(overlaps(one) for target in written for one in views_behind(target)):
        return True
    if known_to_meet([tensor for target in written for tensor in parts_of(target)]):
        return True
    for place, target in enumerate(written):
        for a in parts_of(target):
            for operands in read:
                # What is read before its memory is written is the same in any case.
                for number, one in enumerate(operands[place:]):
                    for b in parts_of(one):
                        alike = number == 0 and lie_alike(a, b)
                        if memory_of(a) == memory_of(b) and not alike and known_to_meet([a, b]):
                            return True
    return False


_SUBTRACT, _MULTIPLY = (cast("object", getattr(torch, f"_foreach_{name}")) for name in ("sub", "mul"))
_PRODUCTS: Final[Sequence[object]] = (operator.mul, cast("Any", operator).truediv, torch.mul, torch.div)
_WRITES_SUMS: Final = hasattr(polyfills, "addcmul_inplace")
"""Whether Dynamo writes x.addcmul_(y, z, value=t) as x.add_(y * z * t)."""


__all__ = ["rewritten_update"]
