"""Finding the program in a module."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, Operation
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects import sym


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


def symbol_ranges(module: ModuleOp) -> sym.SymbolRanges:
    """The inclusive range of every symbol, as `@main` declares them: what proofs about sizes need."""
    declared = entry_function(module).attributes.get("sym.symbols")
    return declared.ranges if isinstance(declared, sym.SymbolsAttr) else {}
