"""Kernels that differ only in numbers share one function, which is told the numbers.

    load %x[%i * 1024 + %k]   and   load %x[%i * 256 + %k]   →   load %x[%i * n0 + %k], launched with 1024 and 256

Products of a model's layers are such, and copies of their factors; LLVM needs as long for each as for the first. What
differs becomes a symbol, as a size is that only the call knows, and whoever launches the kernel passes its value.

Only numbers that leave the code what it is may differ: what an index counts by in an address, how far a loop runs that
goes one by one, and how many programs the grid has. A kernel that may find an index out of range has a function of its
own, as its record says in which kernel that was.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Operation, SSAValue

from cuesta.dialects import kernel, sym
from cuesta.dialects.core.fingerprint import key_of
from cuesta.dialects.core.operation import all_ops
from cuesta.dialects.core.structs import struct
from cuesta.dialects.kernel.shapes import shape_of_type
from cuesta.dialects.kernel.types import ScheduleAttr
from cuesta.dialects.sym.nodes import Dim, monomial_expr
from cuesta.targets.cpu.emit_kernel import holds_lanes, pieces_of

SHORTEST = 128
"""A loop of no more steps keeps its number: short ones are written out, or are no pieces where registers are full.

Source: `_BLOCK` and `WINDOW` of targets/cpu/emit_kernel.py.
"""
NEAREST = 16
"""Lanes that lie nearer keep their distance: they are loaded as vectors, and shuffled.

Source: `is_shuffled` of targets/cpu/emit_strided.py, which takes less.
"""

_Member: TypeAlias = tuple[kernel.FuncOp, tuple[int, ...]]
"""A kernel and its numbers."""


@struct
class Shared:
    """How one of several kernels is called: the function of all, and the values of its symbols, in their order."""

    func: kernel.FuncOp
    values: tuple[int, ...]
    lengths: Mapping[str, int]
    """The values of the first of them."""


def shared(kernels: Iterable[kernel.FuncOp], *, in_pieces: bool = False) -> dict[str, Shared]:
    """The kernels that share a function with others, by name. `in_pieces`, long sums in them are taken to the same
    pieces, wherever they are.
    """
    coarse: dict[Hashable, list[kernel.FuncOp]] = defaultdict(list)
    for func in kernels:
        ops = all_ops(func)
        if not func.symbols and not any(isinstance(op, _REPORTING) for op in ops):
            coarse[tuple([argument.type for argument in func.body.args]), tuple([op.name for op in ops])].append(func)
    found: dict[str, Shared] = {}
    for candidates in coarse.values():
        if len(candidates) == 1:
            continue
        groups: dict[Hashable, list[_Member]] = defaultdict(list)
        for func in candidates:
            kind, numbers = _taken_apart(func, in_pieces)
            groups[kind].append((func, numbers))
        for group in groups.values():
            if len(group) > 1:
                found.update(_joined(group))
    return found


def apart(
    found: Mapping[str, Shared], kernels: Mapping[str, kernel.FuncOp], name: str, symbols: Iterable[str]
) -> dict[str, Shared]:
    """The kernels that share functions, when it is known of that of the first kernel `name` that sums in it are taken
    to pieces by the values of `symbols`: it keeps those whose sums are taken to the same.
    """
    one = found[name]
    places = [one.func.symbols.index(symbol) for symbol in sorted(symbols)]
    same = [pieces_of(one.values[place]) for place in places]
    others = [
        other
        for other, its in found.items()
        if its.func is one.func and [pieces_of(its.values[place]) for place in places] != same
    ]
    left = {other: its for other, its in found.items() if other not in others}
    if sum(its.func is one.func for its in left.values()) == 1:
        del left[name]
    return left | shared([kernels[other] for other in others], in_pieces=True)


def _joined(group: Sequence[_Member]) -> dict[str, Shared]:
    """One function for kernels of one kind. Where several numbers are the same in each kernel, they are one symbol."""
    names: dict[tuple[int, ...], str] = {}
    chosen: list[sym.IndexExpr] = []
    for column in zip(*(numbers for _, numbers in group), strict=True):
        if len(set(column)) == 1:
            chosen.append(column[0])
        else:
            chosen.append(sym.symbol(names.setdefault(column, f"n{len(names)}")))
    first = group[0][0]
    func = first.clone()
    numbers = iter(chosen)
    choices = func.schedule.choices
    schedule = ScheduleAttr.of(tuple([next(numbers) for _ in func.schedule.grid]), **choices)
    for op in all_ops(func)[1:]:
        for name, least in _free_properties(op):
            value = op.properties[name]
            assert isinstance(value, sym.MapAttr)
            op.properties[name] = sym.MapAttr.get(value.num_dims, [_filled(e, least, numbers) for e in value.results])
    symbols = list(names.values())
    func.properties |= kernel.FuncOp.properties_of(first.sym_name, first.num_outs, symbols, schedule, first.updates)
    lengths = {name: column[0] for column, name in names.items()}
    return {
        one.sym_name: Shared(func, tuple([column[place] for column in names]), lengths)
        for place, (one, _) in enumerate(group)
    }


def _taken_apart(func: kernel.FuncOp, in_pieces: bool) -> tuple[Hashable, tuple[int, ...]]:
    """What a kernel is but for some of its numbers, and those, in order. Requires: it has no symbols."""
    ids: dict[SSAValue | Block, int] = {}
    schedule = func.schedule
    choices = [(name, choice) for name, choice in schedule.choices.items() if name not in _OF_LAUNCHES]
    kind: list[Hashable] = [func.num_outs, func.updates, len(schedule.grid), *choices]
    numbers = [size for size in schedule.grid if isinstance(size, int)]
    for op in all_ops(func):
        if op is not func:
            assert op.parent is not None
            kind += [op.name, ids[op.parent], tuple([ids[operand] for operand in op.operands])]
            free = dict(_free_properties(op))
            for name, value in sorted(op.properties.items()):
                if name not in free:
                    kind += [name, key_of(value)]
                    continue
                assert isinstance(value, sym.MapAttr)
                kind += [name, *(_left(e, free[name], numbers, in_pieces) for e in value.results)]
            kind += [(name, key_of(value)) for name, value in sorted(op.attributes.items())]
        blocks = [block for region in op.regions for block in region.blocks]
        for value in (*op.results, *(argument for block in blocks for argument in block.args)):
            ids[value] = len(ids)
            kind.append(key_of(value.type))
        for block in blocks:
            ids[block] = len(ids)
    return tuple(kind), tuple(numbers)


_REPORTING = (kernel.BoundOp, kernel.WithinOp)
"""Ops that write to the record of a call."""
_OF_LAUNCHES = frozenset(("parallel", "grain"))
"""The choices of a schedule that whoever launches a kernel obeys."""

_Least: TypeAlias = Mapping[int, int] | None
"""From which factor on an expression's dims may have any; None: it is how far a loop runs."""


def _free_properties(op: Operation) -> Iterator[tuple[str, _Least]]:
    """The properties in which numbers may differ."""
    if isinstance(op, kernel.LoadOp | kernel.StoreOp):
        value = op.result if isinstance(op, kernel.LoadOp) else op.value
        in_tiles = len(shape_of_type(value.type)) > 1
        yield "map", {k: least for k, one in enumerate(op.indices) if (least := _least_factor(one, in_tiles=in_tiles))}
    elif isinstance(op, kernel.ForOp | kernel.ReduceOp) and op.lanes == 1 and not any(op.lowers.results):
        yield "uppers", None


def _least_factor(index: SSAValue, *, in_tiles: bool) -> int:
    """From which on an index may have any factor in an address; 0: never."""
    if isinstance(index.type, IndexType):
        return 2
    block = index.owner
    loop = block.parent_op() if isinstance(block, Block) else None
    if not isinstance(loop, kernel.LoopOp) or index is not loop.induction_variables[-1]:
        return 0
    if holds_lanes(loop):
        return 2
    return NEAREST if in_tiles else 0


def _left(e: sym.IndexExpr, least: _Least, numbers: list[int], in_pieces: bool) -> Hashable:
    """What an expression is without its free numbers, which are appended."""
    if least is None:
        if isinstance(e, int) and e > SHORTEST:
            numbers.append(e)
            return ("any", pieces_of(e) if in_pieces else None)
        return e
    if isinstance(e, int):
        return e
    kind: list[Hashable] = [e.constant]
    for monomial, factor in e.terms:
        if _is_free(monomial.atoms, factor, least):
            numbers.append(factor)
            kind.append(monomial.key)
        else:
            kind += [monomial.key, factor]
    return tuple(kind)


def _filled(e: sym.IndexExpr, least: _Least, numbers: Iterator[sym.IndexExpr]) -> sym.IndexExpr:
    """An expression with other numbers in the places of those that are free."""
    if isinstance(e, int):
        return next(numbers) if least is None and e > SHORTEST else e
    if least is None:
        return e
    total: sym.IndexExpr = e.constant
    for monomial, factor in e.terms:
        total += monomial_expr(monomial) * (next(numbers) if _is_free(monomial.atoms, factor, least) else factor)
    return total


def _is_free(atoms: Sequence[object], factor: int, least: Mapping[int, int]) -> bool:
    """Whether a term is an index with a factor that may be another."""
    atom = atoms[0]
    return len(atoms) == 1 and isinstance(atom, Dim) and 0 < least.get(atom.index, 0) <= factor
