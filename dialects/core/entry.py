"""Finding the program in a module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Block, Operation
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects import sym
from cuesta.dialects.core.typed import integer_attribute


def entry_function(module: ModuleOp) -> Operation:
    """The function `@main`, at any level.

    Errors: VerifyException when there is none.
    """
    for op in module.body.ops:
        name = op.properties.get("sym_name")
        if isinstance(name, StringAttr) and name.data == "main":
            return op
    raise VerifyException("the module has no function @main")


def entry_block(module: ModuleOp) -> Block:
    """The body of `@main`."""
    region = entry_function(module).regions[0]
    block = region.first_block
    if block is None:
        raise VerifyException("@main has no body")
    return block


def written_arguments(main: Operation) -> tuple[int, ...]:
    """The positions of the arguments that `@main` changes, in the order of the values they get: `aten.writes_to`.

    Down to `kernel` those values are the last ones returned, and are for the arguments only: the caller does not get
    them. At `host` they are written by ops.
    """
    positions = main.attributes.get("aten.writes_to")
    if not isinstance(positions, ArrayAttr):
        return ()
    entries = cast("ArrayAttr[Attribute]", positions)
    return tuple(entry.value.data for entry in entries if isinstance(entry, IntegerAttr))


def writes_to(positions: Sequence[int]) -> Attribute:
    """The attribute `aten.writes_to` that says so."""
    return ArrayAttr([integer_attribute(position) for position in positions])


def arguments_by_storage(main: Operation) -> tuple[int, ...]:
    """The positions of the arguments that are taken from where their storage begins: `aten.by_storage`.

    Such an argument stands for the tensor of its sizes and strides with the storage offset 0: nothing is read of it but
    by its addresses.
    """
    positions = main.attributes.get("aten.by_storage")
    if not isinstance(positions, ArrayAttr):
        return ()
    entries = cast("ArrayAttr[Attribute]", positions)
    count = len(main.regions[0].block.args)
    return tuple(one.value.data for one in entries if isinstance(one, IntegerAttr) and 0 <= one.value.data < count)


def by_storage(positions: Sequence[int]) -> Attribute:
    """The attribute `aten.by_storage` that says so."""
    return writes_to(positions)


def frozen_arguments(main: Operation) -> tuple[int, ...]:
    """The positions of the arguments that are the same tensors in most calls, and change, if they do, so that the
    tensor's count of changes or its address says so: `aten.frozen`. Of those that `@main` changes itself, or takes from
    where their storage begins, it does not say so.
    """
    positions = main.attributes.get("aten.frozen")
    if not isinstance(positions, ArrayAttr):
        return ()
    entries = cast("ArrayAttr[Attribute]", positions)
    others = {*written_arguments(main), *arguments_by_storage(main)}
    count = len(main.regions[0].block.args)
    found = [one.value.data for one in entries if isinstance(one, IntegerAttr) and 0 <= one.value.data < count]
    return tuple(one for one in found if one not in others)


def frozen(positions: Sequence[int]) -> Attribute:
    """The attribute `aten.frozen` that says so."""
    return writes_to(positions)


def given_results(main: Operation) -> int | None:
    """How many results of `@main`, the first, lie as they did in the graph: `aten.given`. The others are for a backward
    pass, which is told how they lie. None says all.
    """
    given = main.attributes.get("aten.given")
    return given.value.data if isinstance(given, IntegerAttr) else None


def given(count: int) -> Attribute:
    """The attribute `aten.given` that says so."""
    return integer_attribute(count)


def symbol_ranges(module: ModuleOp) -> sym.SymbolRanges:
    """The inclusive range of every symbol, as `@main` declares them: what proofs about sizes need."""
    declared = entry_function(module).attributes.get("sym.symbols")
    return declared.ranges if isinstance(declared, sym.SymbolsAttr) else {}
