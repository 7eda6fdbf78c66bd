"""Nothing is left out: whatever a program gives, something computes. Asked after passes of extensions, which may drop
what they should not; the stages of ours do not, and a test says so.

What is checked is where elements come from, not which they are: for that there is the interpreter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue

from cuesta.dialects import func, host, kernel, loops, sym
from cuesta.dialects.core.contracts import Finding, Rule
from cuesta.dialects.core.entry import entry_block, entry_function, symbol_ranges, written_arguments
from cuesta.dialects.core.operation import all_ops, ops_of
from cuesta.dialects.core.structs import struct
from cuesta.dialects.layout import is_tensor, sizes_of
from cuesta.dialects.loops.access import StoreOp
from cuesta.dialects.loops.structure import DomainOp
from cuesta.dialects.sym.ranges import Space
from cuesta.dialects.texts.buffers import changed_by, may_alias, name_of_buffer


def nests_write_their_outs(module: ModuleOp) -> Iterator[Finding]:
    """A nest stores every element of its outs, but for those that it updates; an op without a mask is meant to store
    as often as its domains have points.
    """
    space = Space((), symbol_ranges(module))
    for nest in ops_of(entry_block(module)):
        if not isinstance(nest, loops.NestOp):
            continue
        times: dict[SSAValue, sym.IndexExpr] = {}
        for op in all_ops(nest):
            if isinstance(op, StoreOp):
                times[op.target] = times.get(op.target, 0) + _times(op, nest)
        handles = nest.handles
        for number, handle in enumerate(handles[: len(handles) - len(nest.operands)]):
            needed, stored = _elements(handle), times.get(handle, 0)
            if needed != 0 and stored == 0:
                yield nest, f"nothing is stored in out {number}, of type {handle.type}"
            elif space.is_positive(needed - stored):
                what = f"{sym.format_expr(stored)} of the {sym.format_expr(needed)} elements"
                yield nest, f"{what} of out {number} are stored at most"


def _elements(value: SSAValue) -> sym.IndexExpr:
    return sym.product_of(sizes_of(value.type)) if is_tensor(value) else 0


def _times(op: Operation, nest: Operation) -> sym.IndexExpr:
    """How often an op in a nest runs."""
    times: sym.IndexExpr = 1
    around = op.parent_op()
    while around is not None:
        if isinstance(around, DomainOp):
            times = times * sym.product_of(around.sizes)
        if around is nest:
            break
        around = around.parent_op()
    return times


def kernels_write_their_outs(module: ModuleOp) -> Iterator[Finding]:
    """A kernel writes to each of its outs."""
    for function in module.body.ops:
        if isinstance(function, kernel.FuncOp):
            writes = (op for op in all_ops(function) if isinstance(op, kernel.MemoryWriteOp))
            written = {pointer for op in writes for pointer in kernel.picked(op.pointer)}
            for out in function.outs:
                if out not in written:
                    number = out.index - len(function.inputs)
                    yield function, f"@{function.sym_name} writes nothing to its out {number}, of type {out.type}"


def buffers_are_written_first(module: ModuleOp) -> Iterator[Finding]:
    """Somebody has written to a buffer when it is read or returned, and to the arguments that the program changes."""
    kernels = {op.sym_name: op for op in module.body.ops if isinstance(op, kernel.FuncOp)}
    block = entry_block(module)
    roots: dict[SSAValue, SSAValue] = {}
    holds = set[SSAValue](block.args)
    changed = set[SSAValue]()
    for op in ops_of(block):
        reads, writes = list(op.operands), list[SSAValue]()
        if isinstance(op, host.FreeOp | host.PlaceOp):
            continue
        if isinstance(op, host.ReinterpretOp):
            roots[op.results[0]] = roots.get(op.source, op.source)
            continue
        if isinstance(op, host.LaunchOp):
            function = kernels[op.kernel]
            outs = len(op.operands) - function.num_outs
            reads = [*op.operands[:outs], *op.operands[len(op.operands) - function.updates :]]
            writes = list(op.operands[outs:])
        elif isinstance(op, host.ExternOp):
            writes = changed_by(op)
            reads = [operand for operand in op.operands if operand not in writes]
            if may_alias(op) and op.operands:
                roots.update(dict.fromkeys(op.results, roots.get(op.operands[0], op.operands[0])))
        for operand in dict.fromkeys(reads):
            if is_tensor(operand) and roots.get(operand, operand) not in holds and _elements(operand) != 0:
                yield op, f"reads {name_of_buffer(operand)}, which nothing has written to"
        for value in writes:
            changed.add(roots.get(value, value))
        holds |= changed
        if not isinstance(op, host.AllocOp):
            holds.update(roots.get(result, result) for result in op.results)
    for position in written_arguments(entry_function(module)):
        if block.args[position] not in changed and _elements(block.args[position]) != 0:
            yield entry_function(module), f"argument {position} is to be changed, and nothing writes to it"


COMPLETE: Mapping[str, tuple[Rule, ...]] = {
    "loops": (nests_write_their_outs,),
    "kernel": (kernels_write_their_outs,),
    "host": (kernels_write_their_outs, buffers_are_written_first),
}
"""By level."""


@struct
class Promise:
    """What a program takes and gives, which is what its caller relies on. Down to `kernel` it stays as it is."""

    takes: tuple[Attribute, ...]
    gives: tuple[Attribute, ...]
    changes: tuple[int, ...]

    @classmethod
    def of(cls, module: ModuleOp) -> Promise:
        """That of `@main`."""
        main, block = entry_function(module), entry_block(module)
        last = block.last_op
        gives = tuple(last.operand_types) if isinstance(last, func.ReturnOp | host.ReturnOp) else ()
        return cls(tuple(argument.type for argument in block.args), gives, written_arguments(main))

    def broken_by(self, other: Promise) -> str | None:
        """What another program, which should be the same in this, does not keep; None when it keeps all."""
        if self.takes != other.takes:
            return f"@main takes ({_types(other.takes)}) now, and took ({_types(self.takes)})"
        if self.gives != other.gives:
            return f"@main gives ({_types(other.gives)}) now, and gave ({_types(self.gives)})"
        if self.changes != other.changes:
            return f"@main changes its arguments {list(other.changes)} now, and changed {list(self.changes)}"
        return None


def _types(types: tuple[Attribute, ...]) -> str:
    return ", ".join(map(str, types))


__all__ = ["COMPLETE", "Promise"]
