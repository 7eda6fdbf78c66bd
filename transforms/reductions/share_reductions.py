"""`share-reductions`: what concatenations have in common is reduced once.

%x = a and b, side by side;  nest (%c : 96) { sum (%p : 1024) of %x[%p, %c] }
→
%s = nest (%c : 64) { sum (%p : 1024) of %a[%p, %c] };  %t = nest (%c : 32) { sum (%p : 1024) of %b[%p, %c] }
%r = %s and %t, side by side;  nest (%c : 96) { %r[%c] }

Law: along an axis that is not reduced, the reduction of a concatenation is the concatenation of the reductions of its
parts. Every element is reduced over the same domain in the same order: exact, for each kind of reduction, and for what
is computed between them (the mean that a variance is about).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.fingerprint import fingerprint
from cuesta.dialects.core.machine import Machine, machine_of
from cuesta.dialects.core.operation import PlainBlock, ops_of, replace_all_uses
from cuesta.dialects.core.structs import struct
from cuesta.dialects.layout import device_of, element_type_of, sizes_of, tensor_type, tensor_type_of
from cuesta.dialects.loops.surgery import Substitution, clone_into, loads_of
from cuesta.dialects.loops.writing import leading_to
from cuesta.transforms.dce import clean_block
from cuesta.transforms.devices import DevicePass, traits_for
from cuesta.transforms.loops.concatenations import Concatenation, concatenation_of, join, size_along
from cuesta.transforms.loops.separate_points import is_apart, separate
from cuesta.transforms.reductions.sharing_cost import Site, Work, pays


class ShareReductionsPass(DevicePass):
    """Reduces every part of concatenations once, and joins what comes out, where several nests reduce them in the same
    way and that is less work for all of them together (`sharing_cost.py`). Exact.

    As in a dense block, in which each layer normalises all that came before: what n layers read for statistics grows
    with n, not with its square. Points that the nest computes behind its reductions become a nest of their own.

    Near misses: the concatenated axis is reduced; no two nests have a part in common; the reduction reads something
    else besides, or an index along that axis; a part is converted or read in part; nests are so small that kernels
    more cost more than is saved.
    """

    name = "share-reductions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        ops = ops_of(entry_block(op))
        joined: dict[SSAValue, Concatenation] = {}
        for one in ops:
            if isinstance(one, loops.NestOp) and (found := concatenation_of(one)) is not None:
                joined[one.results[0]] = found
        axes: dict[SSAValue, set[int]] = {}
        for tensor, concatenation in joined.items():
            for member in (tensor, *concatenation.parts):
                axes.setdefault(member, set()).add(concatenation.axis)
        groups: dict[Hashable, list[_Reader]] = {}
        for one in ops:
            if isinstance(one, loops.NestOp) and one.results and not one.operands:
                for reader in _readers(one, axes)[:1]:
                    groups.setdefault((reader.key, reader.axis), []).append(reader)
        for readers in groups.values():
            chosen = _with_common_parts(readers, joined)
            if chosen and self._pays(chosen, joined, machine_of(op)):
                shared = _Shared(joined)
                for reader in chosen:
                    shared.reduce(reader)

    def _pays(self, readers: Sequence[_Reader], joined: dict[SSAValue, Concatenation], machine: Machine) -> bool:
        known: set[SSAValue] = set()
        sites: list[Site] = []
        for reader in readers:
            fresh = sum(size_along(part, reader.axis) for part in _fresh(reader.tensor, reader.axis, joined, known))
            work = reader.work()
            if work is None:
                return False
            sites.append(Site(work, fresh / size_along(reader.tensor, reader.axis)))
        return pays(sites, machine, blocks=traits_for(readers[0].nest, self.target).blocks)


def _fresh(tensor: SSAValue, axis: int, joined: dict[SSAValue, Concatenation], known: set[SSAValue]) -> list[SSAValue]:
    """Those of the parts of a tensor, and of theirs, that are not known yet; now they are."""
    if tensor in known:
        return []
    known.add(tensor)
    if (parts := _parts(tensor, axis, joined)) is None:
        return [tensor]
    return [one for part in parts for one in _fresh(part, axis, joined, known)]


def _parts(tensor: SSAValue, axis: int, joined: dict[SSAValue, Concatenation]) -> tuple[SSAValue, ...] | None:
    found = joined.get(tensor)
    return found.parts if found is not None and (found.axis == axis or len(found.parts) == 1) else None


def _with_common_parts(readers: Sequence[_Reader], joined: dict[SSAValue, Concatenation]) -> list[_Reader]:
    """Those readers of which a part is reduced by another one too."""
    members: list[list[SSAValue]] = []
    own = {reader.tensor for reader in readers}
    count: dict[SSAValue, int] = {}
    for reader in readers:
        found, pending = {reader.tensor}, list(_parts(reader.tensor, reader.axis, joined) or ())
        while pending:
            part = pending.pop()
            if part not in found:
                found.add(part)
                # What another reader reduces as a whole is looked at there.
                pending += () if part in own else _parts(part, reader.axis, joined) or ()
        members.append(list(found))
        for member in found:
            count[member] = count.get(member, 0) + 1
    return [
        reader for reader, found in zip(readers, members, strict=True) if any(count[member] > 1 for member in found)
    ]


@struct(frozen=False)
class _Reader:
    """A nest that reduces a tensor, point by point of an axis."""

    nest: loops.NestOp
    tensor: SSAValue
    axis: int
    """Of the tensor."""
    variable: BlockArgument
    """The nest's index along that axis."""
    reductions: list[loops.ReduceOp]
    """Which read this tensor, and nothing else."""
    key: Hashable = field(default=(), init=False)
    """What is reduced, whatever the tensor and its size along the axis."""

    def __post_init__(self) -> None:
        sizes = list(sizes_of(tensor_type_of(self.tensor)))
        sizes[self.axis] = 1
        kind = tensor_type(sizes, element_type_of(self.tensor), device=device_of(tensor_type_of(self.tensor)))
        one = self.of(PlainBlock(arg_types=[kind]).args[0])
        self.key = fingerprint(one)

    @property
    def place(self) -> int:
        """The axis of the nest."""
        return self.nest.induction_variables.index(self.variable)

    def results(self) -> list[SSAValue]:
        """What the reductions give."""
        return [result for reduction in self.reductions for result in reduction.results]

    def again_in(self, nest: loops.NestOp) -> _Reader:
        """The same in a nest that has the reductions now."""
        variable = nest.induction_variables[self.place]
        reductions = _reductions_of(nest, self.tensor, self.axis, variable, ops_of(nest.body))
        found = _Reader(nest, self.tensor, self.axis, variable, reductions)
        assert found.key == self.key, "a nest of the rows reduces what it did"
        return found

    def _slice(self) -> list[Operation]:
        ops = [op for op in ops_of(self.nest.body) if not isinstance(op, loops.StatementOp)]
        wanted = dict.fromkeys(op for one in self.reductions for op in _needed(one, ops))
        return [op for op in ops if op in wanted]

    def of(self, tensor: SSAValue) -> loops.NestOp:
        """The reductions of another tensor, which differs in its size along the axis. Stands nowhere yet."""
        sizes = list(self.nest.sizes)
        sizes[self.place] = size_along(tensor, self.axis)
        values = self.results()
        device = device_of(tensor_type_of(self.nest.results[0]))
        made = loops.NestOp.build(sizes, [tensor_type(sizes, value.type, device=device) for value in values])
        made.location = self.nest.location
        substitution = Substitution(made.induction_variables)
        for old, new in zip(self.nest.induction_variables, made.induction_variables, strict=True):
            substitution.set_index(old, substitution.axis(new))
            new.name_hint = old.name_hint
        substitution.values[self.tensor] = tensor
        clone_into(self._slice(), InsertPoint.at_end(made.body), substitution)
        everywhere = [sym.dim(axis) for axis in range(len(sizes))]
        for value, handle in zip(values, made.handles, strict=True):
            store = loops.StoreOp.build(substitution.value(value), handle, everywhere, made.induction_variables)
            store.location = self.nest.location
            made.body.add_op(store)
        return made

    def loop(self) -> loops.ForOp | None:
        """The points behind the reductions, where they can be a nest of their own."""
        last = self.nest.body.last_op
        return last if isinstance(last, loops.ForOp) and is_apart(self.nest, last) else None

    def work(self) -> Work | None:
        """What the nest does; None where only a call knows."""
        return Work.of(self.nest, self.tensor, self.reductions, self.loop())


def _needed(reduction: loops.ReduceOp, ops: Sequence[Operation]) -> list[Operation]:
    """Those of the ops of a body that a reduction needs, itself included."""
    found: dict[Operation, None] = {}
    for op in reduction.walk():
        for value in op.operands:
            found.update(dict.fromkeys(leading_to(value, ops)) if value.owner in ops else {})
    for op in list(found):
        if isinstance(op, loops.ReduceOp):
            found.update(dict.fromkeys(_needed(op, ops)))
    return [*found, reduction]


def _readers(nest: loops.NestOp, axes: dict[SSAValue, set[int]]) -> list[_Reader]:
    """How a nest reduces tensors that are parts of concatenations, or such: by the first that it reduces."""
    ops = ops_of(nest.body)
    if not any(isinstance(op, loops.ReduceOp) for op in ops):
        return []
    found: list[_Reader] = []
    for op in ops:
        if isinstance(op, loops.ReduceOp):
            for load in loads_of(op)[:1]:
                for axis in sorted(axes.get(load.source, ())):
                    if (variable := _variable_of(nest, load, axis)) is not None:
                        reductions = _reductions_of(nest, load.source, axis, variable, ops)
                        if reductions:
                            found.append(_Reader(nest, load.source, axis, variable, reductions))
            if found:
                break
    return found


def _variable_of(nest: loops.NestOp, load: loops.LoadOp, axis: int) -> BlockArgument | None:
    """The nest's index that a load has along an axis, and nowhere else, where it goes along all of it."""
    result = load.map.results[axis]
    dims = sym.dims_of(result)
    variable = load.indices[next(iter(dims))] if len(dims) == 1 else None
    if not isinstance(variable, BlockArgument) or variable not in nest.induction_variables:
        return None
    (dim,) = dims
    if result != sym.dim(dim) or nest.sizes[variable.index] != sizes_of(tensor_type_of(load.source))[axis]:
        return None
    elsewhere = any(dim in sym.dims_of(other) for k, other in enumerate(load.map.results) if k != axis)
    return None if elsewhere or not isinstance(nest.sizes[variable.index], int) else variable


def _reductions_of(
    nest: loops.NestOp, tensor: SSAValue, axis: int, variable: BlockArgument, ops: Sequence[Operation]
) -> list[loops.ReduceOp]:
    """The reductions that are made of one tensor alone, each point of the variable by itself."""
    ours: set[SSAValue] = set()
    found: list[loops.ReduceOp] = []

    def is_ours(op: Operation, inside: set[SSAValue]) -> bool:
        if isinstance(op, loops.LoadOp):
            values = op.rest
            if op.source is not tensor or _variable_of(nest, op, axis) is not variable:
                return False
        elif isinstance(op, elem.ElementwiseOp | loops.YieldOp):
            values = op.operands
        elif isinstance(op, loops.IndexOp):
            return variable not in op.indices
        else:
            return False
        return all(value in ours or value in inside for value in values)

    for op in ops:
        if isinstance(op, loops.ReduceOp):
            inside: set[SSAValue] = set()
            for one in ops_of(op.body):
                if not is_ours(one, inside):
                    break
                inside.update(one.results)
            else:
                ours.update(op.results)
                found.append(op)
        elif isinstance(op, elem.ElementwiseOp) and all(value in ours for value in op.operands):
            ours.update(op.results)
    return found


class _Shared:
    """The reductions of parts that there are, and joins of them, of one way to reduce.

    Cost: for each reader, as many steps as its concatenation has parts.
    """

    def __init__(self, joined: dict[SSAValue, Concatenation]) -> None:
        self.joined = joined
        self.reduced: dict[SSAValue, Sequence[SSAValue]] = {}
        self.numbers: dict[tuple[int, SSAValue], int] = {}
        self.first: dict[int, Sequence[SSAValue]] = {}
        """The joined reductions of so many first parts, by their number."""

    def reduce(self, reader: _Reader) -> None:
        """Lets a reader read what is reduced, and reduces what is not yet."""
        if (loop := reader.loop()) is not None:
            reader = reader.again_in(separate(reader.nest, loop))
        nest = reader.nest
        for value, tensor in zip(reader.results(), self.of(reader.tensor, reader), strict=True):
            load = loops.LoadOp.build(tensor, [sym.dim(k) for k in range(len(nest.sizes))], nest.induction_variables)
            load.location = nest.location
            Rewriter.insert_op(load, InsertPoint.at_start(nest.body))
            replace_all_uses(value, load.result)
        clean_block(nest.body)

    def of(self, tensor: SSAValue, reader: _Reader) -> Sequence[SSAValue]:
        """The reductions of a tensor."""
        found = self.reduced.get(tensor)
        if found is None:
            parts = _parts(tensor, reader.axis, self.joined)
            if parts is None:
                made = reader.of(tensor)
                Rewriter.insert_op(made, InsertPoint.before(reader.nest))
                found = made.results
            else:
                found = self.of_parts(parts, reader)
            self.reduced[tensor] = found
        return found

    def of_parts(self, parts: Sequence[SSAValue], reader: _Reader) -> Sequence[SSAValue]:
        """The reductions of parts, joined: what first parts were joined before is taken as it is."""
        number, known, pieces = 0, 0, list[Sequence[SSAValue]]()
        for position, part in enumerate(parts, start=1):
            number = self.numbers.setdefault((number, part), len(self.numbers) + 1)
            if number in self.first:
                known, pieces = position, [self.first[number]]
        pieces += [self.of(part, reader) for part in parts[known:]]
        found = pieces[0] if len(pieces) == 1 else join(pieces, reader.place, reader.nest)
        self.first[number] = found
        return found


__all__ = ["ShareReductionsPass"]
