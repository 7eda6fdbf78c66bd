"""Sizes, strides and index expressions of a text: numbers that 64 bits hold, divisors that are not zero."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from itertools import chain

from xdsl.dialects.builtin import DYNAMIC_INDEX, FixedBitwidthType, FunctionType, IntegerAttr, ModuleOp
from xdsl.ir import Attribute, Operation

from cuesta.dialects import kernel, loops, sym
from cuesta.dialects.aten.dtypes import type_to_dtype
from cuesta.dialects.core.contracts import Finding
from cuesta.dialects.core.entry import entry_block, entry_function, symbol_ranges
from cuesta.dialects.core.operation import all_ops
from cuesta.dialects.layout import element_count, is_tensor_type, sizes_of, storage_size, strides_of
from cuesta.dialects.sym.nodes import FloorDiv, Function, Mod
from cuesta.dialects.sym.ranges import Space

LARGEST = 1 << 48
"""More than a machine has bytes: a factor or a size that is greater is a mistake, and sums of a few do not overflow."""


def numbers_are_sane(module: ModuleOp) -> Iterator[Finding]:
    """Numbers in expressions fit into 64 bits with room to spare, and every divisor is known to be at least 1."""
    space = Space((), symbol_ranges(module))
    for name, (low, high) in symbol_ranges(module).items():
        if low is not None and high is not None and low > high:
            yield entry_function(module), f"no number is in the range of the symbol {name}"
    known: dict[sym.IndexExpr, str] = {}
    for op in all_ops(module):
        for e in expressions_of(op):
            if e not in known:
                known[e] = _problem(e, space)
            if known[e]:
                yield op, known[e]
        for attr in op.properties.values():
            if isinstance(attr, IntegerAttr) and abs(attr.value.data) > LARGEST and not op.name.startswith("elem."):
                yield op, f"{attr.value.data} is too great a number"


def _problem(e: sym.IndexExpr, space: Space) -> str:
    if isinstance(e, int):
        return f"{e} is too great a number" if abs(e) > LARGEST else ""
    if abs(e.constant) > LARGEST or any(abs(c) > LARGEST for _, c in e.terms):
        return f"{sym.format_expr(e)} has too great a number"
    for monomial, _ in e.terms:
        for atom in monomial.atoms:
            if not isinstance(atom, Function):
                continue
            if isinstance(atom, FloorDiv | Mod):
                divisor = atom.right
                if sym.dims_of(divisor) or not space.is_positive(divisor):
                    return f"the divisor {sym.format_expr(divisor)} may be less than 1"
            for side in (atom.left, atom.right):
                if problem := _problem(side, space):
                    return problem
    return ""


def expressions_of(op: Operation) -> Iterator[sym.IndexExpr]:
    """The index expressions in an op's properties and in the types that it gives or declares."""
    for attr in op.properties.values():
        if isinstance(attr, sym.MapAttr):
            yield from attr.results
        elif isinstance(attr, kernel.ScheduleAttr):
            yield from attr.grid
    arguments = (argument.type for region in op.regions for block in region.blocks for argument in block.args)
    for kind in chain((result.type for result in op.results), arguments):
        yield from expressions_of_type(kind)


def expressions_of_type(kind: Attribute) -> Iterator[sym.IndexExpr]:
    """The sizes and strides of a tensor type, or the expression of a `!sym.int`."""
    if isinstance(kind, sym.IntType):
        yield kind.data
    elif is_tensor_type(kind):
        yield from sizes_of(kind)
        yield from strides_of(kind)


def sizes_fit_in_memory(module: ModuleOp) -> Iterator[Finding]:
    """Tensors have the sizes, strides and elements of tensors, and none alone is more than the machine's memory."""
    main = entry_function(module)
    for op in all_ops(module):
        arguments = op.regions[0].blocks[0].args if op is main and op.regions and op.regions[0].blocks else ()
        for value in (*arguments, *op.results):
            if problem := _problem_of_type(value.type):
                yield op, problem
    outputs = main.properties.get("function_type")
    if isinstance(outputs, FunctionType):
        for kind in outputs.outputs:
            if problem := _problem_of_type(kind):
                yield main, problem


def _problem_of_type(kind: Attribute) -> str:
    if not is_tensor_type(kind):
        return ""
    try:
        sizes, strides = sizes_of(kind), strides_of(kind)
        type_to_dtype(kind.element_type)
    except ValueError as error:
        return str(error)
    if len(sizes) != len(strides) or len(sizes) != len(kind.get_shape()):
        return f"{kind} has {len(kind.get_shape())} axes, its layout {len(sizes)} sizes and {len(strides)} strides"
    for size, written in zip(sizes, kind.get_shape(), strict=True):
        if written != (size if isinstance(size, int) else DYNAMIC_INDEX):
            return f"{kind} does not agree with its layout"
    if any(isinstance(one, int) and one < 0 for one in (*sizes, *strides)):
        return f"{kind} has a negative size or stride"
    width = kind.element_type.size if isinstance(kind.element_type, FixedBitwidthType) else 16
    for elements in (storage_size(kind), element_count(kind)):
        if isinstance(elements, int) and elements * width > machine_memory():
            return f"{kind} has {elements * width} bytes, more than this machine's memory"
    return ""


@cache
def machine_memory() -> int:
    """The bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def symbols_are_declared(module: ModuleOp) -> Iterator[Finding]:
    """A symbol that is used is declared by `@main`, and one of its arguments says what it is."""
    main, declared, bound = entry_function(module), symbol_ranges(module), set[str]()
    for argument in entry_block(module).args:
        for e in expressions_of_type(argument.type):
            if (line := sym.line_of(e)) is not None:
                bound.add(line[0])
    for op in all_ops(module):
        if op is main or isinstance(op, ModuleOp | kernel.FuncOp):
            continue
        for e in expressions_of(op):
            for symbol in sorted(sym.symbols_of(e)):
                if symbol not in declared:
                    yield op, f"uses the symbol {symbol}, which @main does not declare"
                elif symbol not in bound:
                    yield op, f"uses the symbol {symbol}, which no argument of @main has as a size or is"


def domains_are_sane(module: ModuleOp) -> Iterator[Finding]:
    """The points of nests can be counted."""
    for op in all_ops(module):
        if isinstance(op, loops.DomainOp):
            points = sym.product_of(op.sizes)
            if isinstance(points, int) and points > LARGEST:
                yield op, f"{points} points are too many"


__all__ = [
    "LARGEST",
    "domains_are_sane",
    "expressions_of",
    "machine_memory",
    "numbers_are_sane",
    "sizes_fit_in_memory",
    "symbols_are_declared",
]
