"""Which integers a program can take as arguments: an index must lie within the axis that it is an index of.

From each argument of integers, the values that it becomes are followed through the program, at whatever level, to the
ops that use them as indices: a bound of `loops` or `kernel`, or a call of an operator that takes indices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from cuesta.dialects import host, kernel, loops, sym
from cuesta.dialects.aten.arguments import Operand
from cuesta.dialects.aten.call import CallLike
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.indexed import ElementReadOp, ElementWriteOp, IndexBoundOp
from cuesta.dialects.elem import kind_of
from cuesta.dialects.layout import is_tensor_type, sizes_of

_INDICES: Mapping[str, tuple[str, str]] = {
    "aten.embedding.default": ("indices", "weight"),
    "aten.embedding_dense_backward.default": ("indices", "num_weights"),
    "aten.gather.default": ("index", "self"),
    "aten.index_add.default": ("index", "self"),
    "aten.index_copy.default": ("index", "self"),
    "aten.index_fill.int_Scalar": ("index", "self"),
    "aten.index_select.default": ("index", "self"),
    "aten.max_pool2d_with_indices_backward.default": ("indices", "self"),
    "aten.max_pool3d_with_indices_backward.default": ("indices", "self"),
    "aten.max_unpool2d.default": ("indices", "self"),
    "aten.nll_loss_backward.default": ("target", "self"),
    "aten.nll_loss_forward.default": ("target", "self"),
    "aten.scatter.src": ("index", "self"),
    "aten.scatter.value": ("index", "self"),
    "aten.scatter_add.default": ("index", "self"),
    "aten.scatter_reduce.two": ("index", "self"),
    "aten.take.default": ("index", "self"),
}
"""Operators that take indices: which argument they are, and of what."""

_LISTS = ("aten.index.Tensor", "aten.index_put.default", "aten._unsafe_index.Tensor", "aten._unsafe_index_put.default")
"""Operators that take a list of indices, one for each axis of `self`."""

_KEEPING = frozenset(
    """
    _to_copy _unsafe_view alias as_strided cat clone constant_pad_nd contiguous detach diagonal expand flip permute
    repeat reshape select slice split split_with_sizes squeeze stack t transpose unbind unsqueeze view where
    """.split()  # noqa: SIM905
)
"""Operators whose results are elements of their arguments."""

_DIVISIONS = ("div", "floor_divide", "fmod", "remainder")
"""Operators that divide by `other`."""

_DATA = frozenset(
    """
    _to_copy abs add bitwise_and bitwise_or bitwise_xor clamp eq ge gt le lt maximum minimum mul ne neg sub where
    """.split()  # noqa: SIM905
)
"""Operators that take any integers."""

_FLAT = frozenset(
    {
        "aten.max_pool2d_with_indices_backward.default",
        "aten.max_pool3d_with_indices_backward.default",
        "aten.max_unpool2d.default",
        "aten.take.default",
    }
)
"""Operators whose indices count elements: of a whole tensor, or of the image that an element is in."""

_SAME, _COMPUTED, _COMPARED = 2, 1, 0
"""What a value is of an argument's elements: one of them, a number made of some, or what a comparison of them gave."""

_ARITHMETIC_LIMIT = 2
_DATA_LIMIT = 8


@dataclass(frozen=True)
class IntegerRange:
    """The integers that an argument may hold, both ends included."""

    low: int
    high: int
    why: str
    """What says so: `an index of an axis of 30522`, or `data`."""

    def __str__(self) -> str:
        return f"[{self.low}, {self.high}], {self.why}"


def integer_ranges(module: ModuleOp, value_of: Callable[[sym.IndexExpr], int]) -> dict[int, IntegerRange]:
    """For every argument of `@main` that is a tensor of integers, the range in which the program can take it, as far as
    the text can tell: within the smallest axis that its elements are indices of. What is computed before it is an index
    stays in [0, 1]; what is no index is in [0, 7], and not 0 where something is divided by it. `value_of` gives the
    sizes of axes. What an operator does with it that eager runs is not known: [0, 1].
    """
    found: dict[int, IntegerRange] = {}
    for position, argument in enumerate(entry_block(module).args):
        if is_tensor_type(argument.type) and _kind(argument) in "iu":
            found[position] = _Uses(module, value_of).range_of(argument)
    return found


def _kind(value: SSAValue) -> str:
    """As `kind_of`, of elements too: `i` or `u` for integers."""
    return kind_of(value.type.element_type if is_tensor_type(value.type) else value.type)


def _made(result: SSAValue, near: int) -> int | None:
    """What the result of some computation is, when one of its operands is `near`; None when it is not followed."""
    kind = _kind(result)
    if kind == "b":
        return _COMPARED
    return min(near, _COMPUTED) if kind in "iu" else None


class _Uses:
    """What becomes of the elements of one argument."""

    def __init__(self, module: ModuleOp, value_of: Callable[[sym.IndexExpr], int]) -> None:
        self.module = module
        self.value_of = value_of
        self.limit: int | None = None
        self.unknown = False
        self.computed = False
        self.divides = False
        self.functions = {
            op.sym_name: op.body.args for op in module.body.ops if isinstance(op, kernel.FuncOp | host.FuncOp)
        }
        for op in module.body.ops:
            if isinstance(op, ModuleOp) and op.sym_name is not None:
                self.functions[op.sym_name.data] = entry_block(op).args

    def range_of(self, argument: SSAValue) -> IntegerRange:
        """Follows the argument to all of its uses."""
        nearness: dict[SSAValue, int] = {argument: _SAME}
        pending = [argument]
        while pending:
            value = pending.pop()
            for use in value.uses:
                for result, near in self._through(use.operation, use.index, nearness[value]):
                    known = nearness.get(result)
                    if known is None or near < known:
                        nearness[result] = near
                        pending.append(result)
        low = 1 if self.divides else 0
        if self.limit is not None:
            if self.limit <= 0:
                return IntegerRange(low, low, "an index of an axis that is empty: no index is right")
            limit = min(self.limit, _ARITHMETIC_LIMIT) if self.computed else self.limit
            how = "computed, then " if self.computed else ""
            return IntegerRange(min(low, limit - 1), limit - 1, f"{how}an index of an axis of {self.limit}")
        if self.unknown:
            return IntegerRange(low, 1, "for an operator of which nothing is known here")
        return IntegerRange(low, _DATA_LIMIT - 1, "data")

    def _through(self, op: Operation, position: int, near: int) -> Iterator[tuple[SSAValue, int]]:
        """The values that an operand's elements go into, and what they are there."""
        if isinstance(op, IndexBoundOp):
            if op.is_of_divisor:
                self.divides = True
            elif near > _COMPARED:
                self._index_of(op.size, near)
        elif isinstance(op, CallLike):
            yield from self._through_call(op, position, near)
        elif isinstance(op, ElementReadOp):
            if position == 0 or op.operands[position] is op.other:
                yield op.result, near
        elif isinstance(op, ElementWriteOp):
            if position == 0:
                yield from self._stored(op.operands[1], near)
        elif isinstance(op, kernel.LaunchOp | host.LaunchOp):
            arguments = self.functions.get(op.kernel, ())
            if position < len(arguments):
                yield arguments[position], near
        elif isinstance(op, host.CallOp):
            arguments = self.functions.get(op.callee, ())
            if position < len(arguments):
                yield arguments[position], near
        elif isinstance(op, loops.ViewOp | loops.WordsOp | loops.JoinOp | host.ReinterpretOp | kernel.BroadcastOp):
            yield op.results[0], near
        elif isinstance(op, loops.YieldOp | kernel.YieldOp):
            parent = op.parent_op()
            for result in () if parent is None else parent.results:
                if (found := _made(result, near)) is not None:
                    yield result, found
        elif op.name.startswith("elem."):
            kept = op.name in ("elem.convert", "elem.select")
            for result in op.results:
                if (found := _made(result, near)) is not None:
                    yield result, near if kept and _kind(result) in "iu" else found

    def _stored(self, target: SSAValue, near: int) -> Iterator[tuple[SSAValue, int]]:
        """Where else what was stored to an out is read: by other loads of it, and by users of the nest or launch."""
        yield target, near
        nest = target.owner.parent_op() if not isinstance(target.owner, Operation) else None
        if isinstance(nest, loops.NestOp):
            yield from (
                (result, near) for handle, result in zip(nest.handles, nest.results, strict=True) if handle is target
            )
        elif isinstance(nest, kernel.FuncOp):
            position = next((at for at, one in enumerate(nest.body.args) if one is target), len(nest.body.args))
            for op in self.module.walk():
                if isinstance(op, host.LaunchOp) and op.kernel == nest.sym_name and position < len(op.operands):
                    yield op.operands[position], near
                elif isinstance(op, kernel.LaunchOp) and op.kernel == nest.sym_name:
                    out = position - len(nest.inputs)
                    if 0 <= out < len(op.results):
                        yield op.results[out], near

    def _through_call(self, op: CallLike, position: int, near: int) -> Iterator[tuple[SSAValue, int]]:
        overload = op.overload
        if overload in _LISTS:
            indices = op.argument("indices")
            for axis, one in enumerate(indices if isinstance(indices, tuple) else ()):
                if isinstance(one, Operand) and one.index == position:
                    self._axis_of(op.tensor("self"), axis, near)
            if op.tensor("self") is op.operands[position]:
                yield op.results[0], near
            return
        if overload in _INDICES:
            name, of = _INDICES[overload]
            if op.optional_tensor(name) is op.operands[position]:
                self._index_in_call(op, of, near)
                return
        family = overload.split(".")[1] if overload.startswith("aten.") and overload.count(".") > 1 else overload
        if family in _DIVISIONS and op.operands[-1] is op.operands[position]:
            self.divides = True
        integers = [result for result in op.results if is_tensor_type(result.type) and _kind(result) in "iu"]
        if not integers and family not in (*_DATA, *_DIVISIONS, *_KEEPING):
            self.unknown = True
        for result in integers:
            yield result, near if family in _KEEPING else min(near, _COMPUTED)

    def _index_in_call(self, op: CallLike, of: str, near: int) -> None:
        if of == "num_weights":
            self._index_of(op.index(of), near)
        elif op.overload in _FLAT:
            count: sym.IndexExpr = 1
            sizes = _sizes(op.tensor(of))
            for size in sizes if op.overload.startswith("aten.take") else sizes[-(3 if "3d" in op.overload else 2) :]:
                count = count * size
            self._index_of(count, near)
        elif op.overload.startswith("aten.nll_loss"):
            self._axis_of(op.tensor(of), -1 if len(_sizes(op.tensor(of))) < 2 else 1, near)
        elif of == "weight":
            self._axis_of(op.tensor(of), 0, near)
        else:
            self._axis_of(op.tensor(of), op.integer("dim"), near)

    def _axis_of(self, tensor: SSAValue, axis: int, near: int) -> None:
        sizes = _sizes(tensor)
        self._index_of(sizes[axis] if sizes else 1, near)

    def _index_of(self, size: sym.IndexExpr, near: int) -> None:
        try:
            limit = self.value_of(size)
        except ArithmeticError:
            return
        self.limit = limit if self.limit is None else min(self.limit, limit)
        self.computed = self.computed or near < _SAME


def _sizes(tensor: SSAValue) -> tuple[sym.IndexExpr, ...]:
    assert is_tensor_type(tensor.type)
    return sizes_of(tensor.type)


__all__ = ["IntegerRange", "integer_ranges"]
