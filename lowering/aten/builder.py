"""`LoopBuilder`: appends ops of the `loops` level, with nests, loops and reductions as Python blocks.

    with builder.nest([4, 8], [out_type]) as nest:
        i, j = nest.indices
        builder.store(exp(builder.load(x, [i, j])), nest.handles[0], [i, j])

Indices are expressions over dims, each of which stands for one index value in scope. The rounding policy lives here:
`load` widens f16 and bf16 to f32, `store` rounds once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import NoReturn, TypeGuard, TypeVar

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    IntegerType,
    LocationAttr,
    f32,
    i1,
    i64,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.aten import AtenOp, CallArguments, CallOp, Device, DType, LiteralOp
from cuesta.dialects.core.devices import CPU, DeviceTraits
from cuesta.dialects.core.random_words import RANDOM_WORDS
from cuesta.dialects.core.rounding import rounded
from cuesta.dialects.core.structs import struct
from cuesta.dialects.layout import element_type_of, is_tensor_type, sizes_of, tensor_type, tensor_type_of
from cuesta.lowering.aten import float8
from cuesta.lowering.aten.scalar import Number, Scalar

_T = TypeVar("_T", bound=Number)
Indices = Sequence[sym.IndexExpr]
AtenCall = AtenOp | CallOp
Rule = Callable[[AtenCall, "LoopBuilder"], Sequence[SSAValue]]
"""Lowers one call: appends ops, returns a value per result. Raises `Declined` to leave the call to the library."""


class Declined(Exception):
    """Why a rule leaves a call to the library. What the rule had appended is taken back."""


def decline(reason: str) -> NoReturn:
    """Leaves the call that is being lowered to the library."""
    raise Declined(reason)


def compute_type(element: Attribute) -> Attribute:
    """The type that values of an element type are computed in: f32 for f16, bf16 and floats of 8 bits."""
    return f32 if isinstance(element, (Float16Type, BFloat16Type)) or elem.kind_of(element) == "s" else element


def round_number(value: _T, element: Attribute) -> _T | float:
    """A Python number as torch holds it in f16 or bf16; in other element types as it stands."""
    if isinstance(value, int | float) and isinstance(element, Float16Type | BFloat16Type):
        return rounded(float(value), element)
    return value


def is_integer(value_type: Attribute) -> TypeGuard[IntegerType]:
    """Whether a type is an integer's or i1."""
    return isinstance(value_type, IntegerType)


def wrap_integer(value: int, value_type: Attribute) -> int:
    """The value modulo 2^width, in the range of the type."""
    assert is_integer(value_type)
    width = value_type.width.data
    value &= (1 << width) - 1
    return value - (1 << width) if elem.kind_of(value_type) == "i" and value >> (width - 1) else value


@struct(frozen=False)
class Nest:
    """A nest under construction: an expression for every axis, the handles of its outs, and its results."""

    indices: list[sym.IndexExpr]
    handles: Sequence[BlockArgument]
    results: Sequence[SSAValue]


@struct(frozen=False)
class _Frame:
    block: Block
    constants: dict[tuple[str, Attribute], Scalar] = field(default_factory=dict[tuple[str, Attribute], Scalar])


class LoopBuilder:
    """Appends to a block. Every op gets `location`, which the caller sets to that of the op being lowered."""

    def __init__(self, block: Block, location: LocationAttr, *, deterministic: bool = False, random: str = "device"):
        self.location = location
        self.deterministic = deterministic
        """Whether a result may not depend on the order in which a GPU gets to things."""
        self.random = random
        """Whose random numbers: `eager`, `philox`, or by the device."""
        self._keys: dict[str, SSAValue] = {}
        self._draws = 0
        self.traits: DeviceTraits = CPU
        """What the call that is being lowered runs on."""
        self.stored_type: Attribute = f32
        """What the formula being written is stored as, for the few that depend on it."""
        self.wide_operand = False
        """Whether its second operand is one number, which is not rounded to that type."""
        self._frames = [_Frame(block)]
        self._index_values: list[SSAValue] = []

    # -- structure ----------------------------------------------------------------------------------------------------

    def emit(self, op: Operation) -> SSAValue | None:
        """Appends an op; returns its first result, if it has one."""
        op.location = self.location
        self._frames[-1].block.add_op(op)
        return op.results[0] if op.results else None

    @contextmanager
    def _inside(self, op: loops.DomainOp) -> Generator[list[sym.IndexExpr]]:
        self.emit(op)
        values = self._index_values
        outer = len(values)
        values.extend(op.induction_variables)
        self._frames.append(_Frame(op.body))
        try:
            yield [sym.dim(k) for k in range(outer, len(values))]
        finally:
            self._frames.pop()
            del values[outer:]

    @contextmanager
    def nest(self, sizes: Indices, outs: Sequence[Attribute]) -> Generator[Nest]:
        """A `loops.nest`; the block fills its body."""
        op = loops.NestOp.build(sizes, outs)
        with self._inside(op) as indices:
            yield Nest(indices, op.handles, op.results)

    @contextmanager
    def loop(self, sizes: Indices) -> Generator[list[sym.IndexExpr]]:
        """A `loops.for`; the block fills its body."""
        with self._inside(loops.ForOp.build(sizes)) as indices:
            yield indices

    @contextmanager
    def scan(self, sizes: Indices) -> Generator[list[sym.IndexExpr]]:
        """A `loops.scan`; the block fills its body."""
        with self._inside(loops.ScanOp.build(sizes)) as indices:
            yield indices

    def running(self, kind: str, value: Scalar) -> list[Scalar]:
        """The results of a `loops.running`. Requires: the body being filled is that of a scan."""
        op = loops.RunningOp.build(kind, value.value)
        self.emit(op)
        return [Scalar(self, result) for result in op.results]

    def reduce_all(
        self, kind: str, sizes: Indices, value_type: Attribute, body: Callable[[list[sym.IndexExpr]], Scalar]
    ) -> list[Scalar]:
        """A `loops.reduce` of what `body` gives at the indices it is called with; all of its results."""
        op = loops.ReduceOp.build(kind, sizes, value_type)
        with self._inside(op) as indices:
            self.emit(loops.YieldOp.build(body(indices).value))
        return [Scalar(self, result) for result in op.results]

    def reduce(
        self, kind: str, sizes: Indices, value_type: Attribute, body: Callable[[list[sym.IndexExpr]], Scalar]
    ) -> Scalar:
        """The first result of `reduce_all`."""
        return self.reduce_all(kind, sizes, value_type, body)[0]

    # -- memory -------------------------------------------------------------------------------------------------------

    def load(self, tensor: SSAValue, indices: Indices, to: Attribute | None = None) -> Scalar:
        """An element in its compute type, or as `to`."""
        raw = self.load_raw(tensor, indices)
        return self.convert(raw, compute_type(raw.type) if to is None else to)

    def load_raw(
        self, tensor: SSAValue, indices: Indices, mask: Scalar | None = None, other: Scalar | None = None
    ) -> Scalar:
        """An element as it is stored; where `mask` is false nothing is read and the value is `other`."""
        if mask is None or other is None:
            op = loops.LoadOp.build(tensor, indices, self._index_values)
        else:
            op = loops.LoadOp.build(tensor, indices, self._index_values, mask.value, other.value)
        self.emit(op)
        return Scalar(self, op.results[0])

    def store(self, value: Scalar, handle: SSAValue, indices: Indices, mask: Scalar | None = None) -> None:
        """Writes an element, converted to the handle's element type, where the mask is true."""
        value = self.convert(value, element_type_of(handle))
        where = None if mask is None else mask.value
        self.emit(loops.StoreOp.build(value.value, handle, indices, self._index_values, where))

    def combine(self, kind: str, value: Scalar, handle: SSAValue, indices: Indices, mask: Scalar | None = None) -> None:
        """Changes an element that was stored before, by a value of the handle's element type."""
        where = None if mask is None else mask.value
        self.emit(loops.CombineOp.build(kind, value.value, handle, indices, self._index_values, where))

    def index(self, expression: sym.IndexExpr, to: Attribute = i64) -> Scalar:
        """An index expression as data."""
        if isinstance(expression, int):
            return self.constant(expression, to)
        op = loops.IndexOp.build(expression, self._index_values, i64)
        self.emit(op)
        return self.convert(Scalar(self, op.results[0]), to)

    def bound(self, value: Scalar, size: sym.IndexExpr, *, wrap: bool = False, checked: bool = False) -> sym.IndexExpr:
        """Data as an index into an axis of `size`, checked at run time; not if it is `checked`, by what made it."""
        op = loops.BoundOp.build(value.value, size, wrap=wrap, checked=checked)
        self.emit(op)
        self._index_values.append(op.results[0])
        return sym.dim(len(self._index_values) - 1)

    def check_divisor(self, is_zero: Scalar) -> None:
        """Where integers are divided by zero: an error at run time, on devices that raise any."""
        if self.traits.raises:
            self.emit(loops.BoundOp.build(self.convert(is_zero, i64).value, 1, divisor=True))

    # -- values -------------------------------------------------------------------------------------------------------

    def constant(self, value: Number, value_type: Attribute) -> Scalar:
        """A number as a scalar of a type; one op per distinct constant and scope."""
        if isinstance(value, sym.Expr):
            return self.index(value, value_type)
        kind = elem.kind_of(value_type)
        if kind == "b":
            value = bool(value)
        elif kind in "iu":
            if isinstance(value, float) and not value.is_integer():
                decline(f"{value} is no integer")
            value = wrap_integer(int(value), value_type)
        elif kind == "s" and (value != 0 or math.copysign(1.0, value) < 0):
            if not float8.can_hold(value, value_type):
                decline(f"{value} is no {value_type}")
            return self.convert(self.constant(float(value), f32), value_type)
        key = (repr(value), value_type)
        for frame in self._frames:
            if (found := frame.constants.get(key)) is not None:
                return found
        op = elem.constant(round_number(value, value_type), value_type)
        self.emit(op)
        scalar = self._frames[-1].constants[key] = Scalar(self, op.results[0])
        return scalar

    def elem(self, name: str, *operands: Scalar) -> Scalar:
        """The table op `elem.NAME`, also one that an extension in force has. Declines what it has no meaning for: eager
        says what is wrong with it.
        """
        if operands[0].kind not in elem.op_class_of(name).row.kinds:
            decline(f"there is no {name} of {operands[0].type}")
        op = elem.make(name, *[operand.value for operand in operands])
        self.emit(op)
        return Scalar(self, op.results[0])

    def bitcast(self, value: Scalar, to: Attribute) -> Scalar:
        """`elem.bitcast`."""
        op = elem.BitcastOp.build(value.value, to)
        self.emit(op)
        return Scalar(self, op.results[0])

    def philox(self, word: int, key: Scalar, counter: Scalar) -> Scalar:
        """`elem.philox`."""
        op = elem.PhiloxOp.build(word, key.value, counter.value)
        self.emit(op)
        return Scalar(self, op.results[0])

    def random_word(self, first: int, key: Scalar, place: Scalar) -> Scalar:
        """`elem.random_word`."""
        op = elem.RandomWordOp.build(first, key.value, place.value)
        self.emit(op)
        return Scalar(self, op.results[0])

    def random_key(self, device: str) -> SSAValue:
        """The key of the graph's random numbers on a device, a tensor of one i64: torch's generator gives it.

        Requires: no nest is open.
        """
        if (key := self._keys.get(device)) is None:
            key = self._keys[device] = self.fresh_key(device)
        return key

    def fresh_key(self, device: str) -> SSAValue:
        """A key that is no other's."""
        arguments = CallArguments.of(
            (-(1 << 63), (1 << 63) - 1, (1,)), (("dtype", DType("int64")), ("device", Device(device)))
        )
        op = loops.ExternOp.of("aten.randint.low", (), arguments, [tensor_type((1,), i64, device=device)], pure=False)
        self.emit(op)
        op.results[0].name_hint = "key"
        return op.results[0]

    def random_words(self, count: sym.IndexExpr, element: Attribute) -> SSAValue:
        """So many i32 or i64 of eager's next random words on the CPU. Requires: no nest is open."""
        arguments = CallArguments.of((count, 64 if element == i64 else 32))
        op = loops.ExternOp.of(RANDOM_WORDS, (), arguments, [tensor_type((count,), element)], pure=False)
        self.emit(op)
        op.results[0].name_hint = "words"
        return op.results[0]

    def next_draw(self) -> int:
        """A number that no other draw of the graph has."""
        self._draws += 1
        return self._draws

    def select(self, condition: Scalar, on_true: Scalar, on_false: Scalar) -> Scalar:
        """`elem.select`."""
        op = elem.SelectOp.build(condition.value, on_true.value, on_false.value)
        self.emit(op)
        return Scalar(self, op.results[0])

    def convert(self, value: Scalar, to: Attribute) -> Scalar:
        """`elem.convert`, the value itself when it has that type, or a formula where the device converts no such floats
        of 8 bits.
        """
        if value.value.type == to:
            return value
        for element in (value.value.type, to):
            if elem.kind_of(element) == "s" and str(element) not in self.traits.casts_of_8_bits:
                if element == to:
                    return float8.to_float8(self.convert(value, f32), to)
                return self.convert(float8.from_float8(value), to)
        op = elem.ConvertOp.build(value.value, to)
        self.emit(op)
        return Scalar(self, op.results[0])

    def true(self) -> Scalar:
        """The constant true."""
        return self.constant(True, i1)

    # -- the graph around the nests -----------------------------------------------------------------------------------

    def view(self, source: SSAValue, results: Indices, result_type: Attribute) -> SSAValue:
        """A `loops.view`: result[d] = source[results], d standing for the dims; `source` itself if nothing changes."""
        assert is_tensor_type(result_type)
        view_map = sym.MapAttr.get(len(result_type.get_shape()), tuple(results))
        if source.type == result_type and view_map.is_identity:
            return source
        op = loops.ViewOp.build(source, view_map, result_type)
        self.emit(op)
        return op.results[0]

    def alias(self, source: SSAValue) -> SSAValue:
        """Another tensor that is the same memory: a `loops.view` by the identity."""
        source_type = tensor_type_of(source)
        op = loops.ViewOp.build(source, sym.MapAttr.identity(len(source_type.get_shape())), source_type)
        self.emit(op)
        return op.results[0]

    def copy(self, source: SSAValue, result_type: Attribute) -> SSAValue:
        """The same elements in memory of their own."""
        with self.nest(sizes_of(tensor_type_of(source)), [result_type]) as nest:
            self.store(self.load_raw(source, nest.indices), nest.handles[0], nest.indices)
        return nest.results[0]

    def none(self) -> SSAValue:
        """The value that stands for a result that is None."""
        op = LiteralOp.build(None)
        self.emit(op)
        return op.results[0]

    def checkpoint(self) -> Operation | None:
        """A point to `roll_back` to. Requires: no nest is open."""
        return self._frames[0].block.last_op

    def roll_back(self, point: Operation | None) -> None:
        """Takes back what was appended since."""
        block = self._frames[0].block
        while (last := block.last_op) is not point and last is not None:
            block.erase_op(last)
        self._keys = {device: key for device, key in self._keys.items() if key.owner.parent is not None}
