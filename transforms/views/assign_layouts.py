"""`assign-layouts`: every image lies as costs least in all, by channels first or channels last.

    %y = loops.nest … outs(%o : tensor<8x64x56x56xf32>)
    %z = loops.extern pure "aten.convolution.default"(%y, %w, …)
    →
    %y = loops.nest … outs(%o : tensor<8x64x56x56xf32, #aten.layout<strides = [200704, 1, 3584, 64]>>)
    %z = loops.extern pure "aten.convolution.default"(%y, %w, …)        and the same strides for %z

A library is faster in one of the layouts, which it brings every tensor into and back where it has to. Our own kernels
read and write any strides, but lanes that lie apart in what they read cost another pass over it. Copies cost what they
move. All of that is in bytes, and a labelling of the program's images has the sum. A call that says how many us it
takes either way (`{times = {channels_first = 31.2 : f64, channels_last = 12.0 : f64}}`) is believed; it ceases to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.ir import Operation, OpResult, SSAValue, Use
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import loops, sym
from cuesta.dialects.core.entry import entry_block, entry_function, given_results, symbol_ranges
from cuesta.dialects.core.machine import machine_of
from cuesta.dialects.core.operation import all_ops, ops_of
from cuesta.dialects.core.tracing import Laid, active_trace, no_match
from cuesta.dialects.func import ReturnOp
from cuesta.dialects.layout import is_tensor, sizes_of, strides_of, tensor_type_of, traits_of
from cuesta.dialects.loops.analysis import byte_width
from cuesta.transforms import thresholds
from cuesta.transforms.tilings.times import CLOCK
from cuesta.transforms.views.convolution_costs import TIMES, Convolution, channels_first_costs, times_of
from cuesta.transforms.views.images import channels_first, channels_last, has_choice
from cuesta.transforms.views.labelling import Labelling
from cuesta.transforms.views.lanes import Lanes, points_of
from cuesta.transforms.views.materialize_views import materialize

Strides: TypeAlias = "Sequence[sym.IndexExpr]"

_COPY = 2.0
"""What a copy moves of each byte.

Source: a definition: it is read, and written.
"""
_ACROSS = 1.0
"""What it costs more to read or write a byte whose neighbours other lanes do not take.

Source: measured by `make bench-constants ARGS='--only assign_layouts._ACROSS'`
"""
_SQUARES_ON_GPU = 0.5
"""The same on a GPU in a nest without long loops, which goes through squares of both axes.

Source: from profiles on an H200: such kernels move 0.7 to 0.9 of what a copy moves.
"""
_ROWS_ON_GPU = 50.0
"""The same in a nest with longer loops. It is to come down with schedules of these that transpose in shared memory.

Source: from a profile on an H200: a kernel that read 460 MB across took 6 ms, in which memory moves 26 GB.
"""

_MOVED_BY_PROCESSORS = 2e4
"""Bytes that the memory of a processor moves in a microsecond.

Source: a copy of 512 MiB on two cores of an EPYC (Zen 3), `make bench`: 19.8 GB/s.
"""


class AssignLayoutsPass(ModulePass):
    """Images, which are what convolutions read and write, and what nests make of them, lie as costs least in all.

    layout law: the elements of a tensor do not depend on its strides. Only library calls and the caller see strides,
    and they keep those they had, by a copy if need be. (A library may add up in another order for another layout.)
    Results that are for a backward pass, behind those that `aten.given` counts, lie as they come: it is told.
    """

    name = "assign-layouts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        found = [(one, Convolution.of(one)) for one in entry_block(op).ops if isinstance(one, loops.ExternOp)]
        convolutions = {call: convolution for call, convolution in found if convolution is not None}
        if convolutions:
            _Images(op, convolutions).assign()
            for call in convolutions:
                call.attributes.pop(TIMES, None)
            tell_caller(op)


class _Images:
    """The images of a program, and what each way to lay them out costs, in bytes. The label 1 is channels last."""

    def __init__(self, module: ModuleOp, convolutions: Mapping[loops.ExternOp, Convolution]) -> None:
        self.ranges, self.machine = symbol_ranges(module), machine_of(module)
        self.convolutions = convolutions
        self.blocks = any(traits_of(one.result).blocks for one in convolutions.values() if is_tensor(one.result))
        self.given = given_results(entry_function(module))
        self.labelling = Labelling()
        # By the identity of a type, of which there is one object, held beside: a type's hash looks into it.
        self._bytes: dict[int, tuple[TensorType, float]] = {}
        self._strides: dict[int, tuple[TensorType, tuple[Strides, Strides]]] = {}
        self.nodes: dict[SSAValue, int] = {}
        """Of the images whose layout is for us to choose."""
        self.copies: dict[SSAValue, int] = {}
        """Of the images that are given: whether there is a copy of it that is channels last."""
        self.given_last: dict[SSAValue, None] = {}
        """Images that are given, and are channels last."""
        self.calls: dict[loops.ExternOp, int] = {}
        """Of the convolutions that may read and write either layout: the node of their result."""
        nests = [op for op in ops_of(entry_block(module)) if isinstance(op, loops.NestOp)]
        for call, convolution in convolutions.items():
            self.add_call(call, convolution)
        for nest in nests:
            for value in () if nest.operands else nest.results:
                if has_choice(value):
                    self.nodes[value] = self.labelling.node()
        for call, node in self.calls.items():
            for image in convolutions[call].images:
                self.read_by_call(image, node)
        for nest in nests:
            self.add_nest(nest)
        for value, node in self.nodes.items():
            if self.particular_uses(value):
                self.labelling.charge(node, one=self.copying(value))

    def bytes(self, value: SSAValue) -> float:
        """The bytes of a tensor, with a guess for every symbol."""
        kind = tensor_type_of(value)
        found = self._bytes.get(id(kind))
        if found is None:
            size = points_of(sizes_of(kind), self.ranges) * byte_width(value)
            found = self._bytes[id(kind)] = kind, size
        return found[1]

    def strides(self, value: SSAValue) -> tuple[Strides, Strides]:
        """As it lies with either label, if it has a choice, or else as it does."""
        kind = tensor_type_of(value)
        found = self._strides.get(id(kind))
        if found is None:
            last = channels_last(kind) if has_choice(value) else kind
            found = self._strides[id(kind)] = kind, (strides_of(kind), strides_of(last))
        return found[1]

    def copying(self, value: SSAValue) -> float:
        return (_COPY + self.across(looped=False)) * self.bytes(value)

    def across(self, *, looped: bool) -> float:
        """What it costs more to read or write a byte across, in a nest with or without long loops."""
        return _ACROSS if not self.blocks else _ROWS_ON_GPU if looped else _SQUARES_ON_GPU

    def reads_image(self, use: Use) -> bool:
        """Whether a use is an image of a convolution with a choice."""
        call = use.operation
        if not isinstance(call, loops.ExternOp) or call not in self.calls:
            return False
        return any(call.operands[use.index] is image for image in self.convolutions[call].images)

    def particular_uses(self, value: SSAValue) -> list[Use]:
        """The uses that see strides, and are no convolutions with a choice."""
        return [
            use
            for use in value.uses
            if not isinstance(use.operation, loops.LoadOp) and not self.reads_image(use) and not self.is_told(use)
        ]

    def is_told(self, use: Use) -> bool:
        """Whether it is the backward pass that gets the value: it is told the strides, where they are numbers."""
        if not self.blocks or self.given is None or not isinstance(use.operation, ReturnOp) or use.index < self.given:
            return False
        return all(isinstance(size, int) for size in sizes_of(tensor_type_of(use.operation.operands[use.index])))

    def add_call(self, call: loops.ExternOp, convolution: Convolution) -> None:
        times = times_of(call)
        if not convolution.has_choice:
            return
        if times is not None:
            of_gpu = CLOCK * self.machine.memory_rate * self.machine.processors
            on_gpu = traits_of(convolution.result).blocks
            cost = (times.first - times.last) * (of_gpu if on_gpu else _MOVED_BY_PROCESSORS)
        else:
            rate = channels_first_costs(convolution, self.machine)
            if rate is None:
                no_match(call, "nobody knows what channels last would cost the library")
                return
            cost = rate * (self.bytes(convolution.image) + self.bytes(convolution.result))
        made = convolution.made
        self.given_last |= dict.fromkeys(convolution.given_last)
        self.calls[call] = node = self.labelling.node(max(0.0, cost), max(0.0, -cost))
        if is_tensor(made):
            self.nodes[made] = node

    def read_by_call(self, value: SSAValue, call: int) -> None:
        """What a convolution is given lies as its result does."""
        if value in self.given_last:
            self.labelling.charge(call, zero=self.copying(value))
            return
        if (node := self.nodes.get(value)) is not None:
            copying = self.copying(value)
            self.labelling.pair(node, call, ((0.0, copying), (copying, 0.0)))
            return
        if (copy := self.copies.get(value)) is None:
            copy = self.copies[value] = self.labelling.node(one=self.copying(value))
        self.labelling.pair(copy, call, ((0.0, math.inf), (0.0, 0.0)))

    def add_nest(self, nest: loops.NestOp) -> None:
        """The lanes of a nest follow what it writes first, or what it makes something smaller of, or a row of that.

        What lies across to those is read or written across.
        """
        tensors: dict[SSAValue, SSAValue] = dict(zip(nest.handles, nest.results, strict=True))
        accesses: dict[SSAValue, list[loops.LoadOp | loops.TensorWriteOp]] = {}
        for op in all_ops(nest):
            if isinstance(op, loops.TensorWriteOp):
                accesses.setdefault(tensors.get(op.target, op.target), []).append(op)
            elif isinstance(op, loops.LoadOp) and op.source not in tensors:
                accesses.setdefault(op.source, []).append(op)
        if not any(value in self.nodes for value in accesses):
            return
        lanes = Lanes(nest, self.ranges)
        written = [value for value in tensors.values() if value in accesses]
        if not written:
            return
        largest = max(accesses, key=self.bytes)
        leader = written[0] if thresholds.SMALL * self.bytes(written[0]) >= self.bytes(largest) else largest
        followed = lanes.indices(accesses[leader][0])
        led = [lanes.led(followed, strides) for strides in self.strides(leader)]
        rate = self.across(looped=lanes.looped)
        for value, ops in accesses.items():
            node = self.nodes.get(value)
            if value is leader or (node is None and leader not in self.nodes):
                continue
            across = self.bytes(value) * rate
            places = [lanes.indices(op) for op in ops]
            near = [[(place, lanes.near(place, strides)) for place in places] for strides in self.strides(value)]
            table = [
                [0.0 if all(lanes.agree(*one, other) for one in accessed) else across for other in led]
                for accessed in near
            ]
            if node is None:
                self.labelling.charge(self.nodes[leader], *table[0])
            elif (other := self.nodes.get(leader)) is None:
                self.labelling.charge(node, table[0][0], table[1][0])
            else:
                self.labelling.pair(node, other, ((table[0][0], table[0][1]), (table[1][0], table[1][1])))

    def assign(self) -> None:
        labels = self.labelling.solve()
        last = {call for call, node in self.calls.items() if labels[node]}
        for call, node in self.calls.items():
            if call not in last:
                more = self.labelling.change(labels, node)
                no_match(call, f"channels last would cost {more:.3g} bytes more, copies and nests around it included")
        if (trace := active_trace()) is not None:
            for value, node in self.nodes.items():
                if isinstance(value.owner, Operation):
                    more = self.labelling.change(labels, node)
                    trace.layouts.append(Laid(value.name_hint or "", bool(labels[node]), more, value.owner))
        for value, node in self.nodes.items():
            calls = [use for use in value.uses if self.reads_image(use)]
            if labels[node]:
                _lay_out(value, self.particular_uses(value) + [use for use in calls if use.operation not in last])
            else:
                _copy(value, channels_last(tensor_type_of(value)), [use for use in calls if use.operation in last])
        for value in self.copies:
            uses = [use for use in value.uses if self.reads_image(use) and use.operation in last]
            _copy(value, channels_last(tensor_type_of(value)), uses)
        for value in self.given_last:
            uses = [use for use in value.uses if self.reads_image(use) and use.operation not in last]
            _copy(value, channels_first(tensor_type_of(value)), uses)


def tell_caller(module: ModuleOp) -> None:
    """Lets `@main` have the types of what it returns."""
    main, returned = entry_function(module), entry_block(module).last_op
    kind = main.properties.get("function_type")
    if isinstance(kind, FunctionType) and isinstance(returned, ReturnOp):
        types = [value.type for value in returned.operands]
        main.properties["function_type"] = FunctionType.from_lists(list(kind.inputs), types)


def _lay_out(value: SSAValue, particular: Sequence[Use]) -> None:
    """Lets a value be channels last, but for these uses."""
    assert isinstance(value, OpResult)
    plain = tensor_type_of(value)
    owner, position = value.owner, value.index
    if isinstance(owner, loops.NestOp):
        Rewriter.replace_value_with_new_type(owner.handles[position], channels_last(plain))
    changed = Rewriter.replace_value_with_new_type(value, channels_last(plain))
    _copy(changed, plain, particular)


def _copy(value: SSAValue, wanted: TensorType, uses: Sequence[Use]) -> None:
    """Lets these uses, all in the entry block, read a copy of the value in the wanted layout."""
    if not uses:
        return
    owner = value.owner
    rank = len(sizes_of(wanted))
    view = loops.ViewOp.build(value, sym.MapAttr.get(rank, tuple(sym.dim(k) for k in range(rank))), wanted)
    if isinstance(owner, Operation):
        view.location = owner.location
        place = InsertPoint.after(owner)
    else:  # an argument: the copy is made for whom reads it
        view.location = uses[0].operation.location
        place = InsertPoint.at_start(owner)
    Rewriter.insert_op(view, place)
    for use in uses:
        use.operation.operands[use.index] = view.results[0]
    materialize(view)


__all__ = ["AssignLayoutsPass"]
