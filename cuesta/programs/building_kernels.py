"""Builders of kernels and of host programs; `cuesta.build` has the functions that begin one."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from cuesta.dialects import elem, host, kernel, sym
from cuesta.dialects.aten import flatten_call
from cuesta.dialects.func import ReturnOp
from cuesta.dialects.kernel import PointerType
from cuesta.dialects.kernel.shapes import joint_shape, shape_of, shape_of_type
from cuesta.dialects.layout import is_tensor_type
from cuesta.dialects.sym.expr import IndexExpr
from cuesta.lowering.aten.builder import LoopBuilder
from cuesta.lowering.aten.scalar import Scalar
from cuesta.programs.building import ProgramBuilder, Ranges, fail, here, type_of


class KernelBuilder(LoopBuilder):
    """Builds one kernel and the `@main` that launches it. Pointers are attributes, by the names of arguments and outs.

    Addresses are expressions of what `program_id` and loops give; values are those of `LoopBuilder`, whose arithmetic
    repeats a scalar along lanes where it meets a vector.
    """

    def __init__(
        self,
        arguments: Mapping[str, str | Attribute],
        outs: Mapping[str, str | Attribute],
        grid: Sequence[int | str],
        choices: Mapping[str, int | str],
        symbols: Ranges | None,
    ) -> None:
        self._types = {name: type_of(one) for name, one in {**arguments, **outs}.items()}
        pointers: dict[str, PointerType] = {}
        for name, one in self._types.items():
            if not is_tensor_type(one):
                fail(f"{name!r} is a {one}: a kernel takes tensors")
            pointers[name] = PointerType(one.element_type)
        sizes = [sym.symbol(one) if isinstance(one, str) else one for one in grid]
        schedule = kernel.ScheduleAttr.of(tuple(sizes), **{"parallel": 1, "unroll": 1, **choices})
        inputs, written = [pointers[name] for name in arguments], [pointers[name] for name in outs]
        self.function = kernel.FuncOp.build("kernel_0", inputs, written, (), schedule)
        self.pointers = dict(zip(self._types, self.function.body.args, strict=True))
        for name, pointer in self.pointers.items():
            pointer.name_hint = name
        self._main = ProgramBuilder(arguments, symbols)
        self._outs = list(outs)
        super().__init__(self.function.body, here())

    def __getattr__(self, name: str) -> SSAValue:
        """A pointer."""
        pointers = self.__dict__.get("pointers", {})
        if name in pointers:
            return pointers[name]
        raise AttributeError(f"there is no pointer {name!r}; there are: {', '.join(pointers) or 'none'}")

    def emit(self, op: Operation) -> SSAValue | None:
        """Puts an op at the end of the body that is being filled; gives its first result, if it has one."""
        self.location = here()
        return super().emit(op)

    def _index(self, value: SSAValue) -> IndexExpr:
        self._index_values.append(value)
        return sym.dim(len(self._index_values) - 1)

    def program_id(self, axis: int) -> IndexExpr:
        """The program's coordinate along an axis of the grid."""
        op = kernel.ProgramIdOp.build(axis)
        self.emit(op)
        return self._index(op.result)

    @contextmanager
    def _body(self, op: kernel.LoopOp) -> Generator[IndexExpr]:
        outer = len(self._index_values)
        frames = self._frames
        self.emit(op)
        frames.append(type(frames[0])(op.body))
        try:
            yield self._index(op.induction_variables[0])
        finally:
            frames.pop()
            del self._index_values[outer:]

    @contextmanager
    def loop(self, low: IndexExpr, high: IndexExpr, *, lanes: int = 1) -> Generator[IndexExpr]:  # type: ignore[override]
        """A `kernel.for` along one axis, in so many lanes; the `with` block fills its body."""
        with self._body(kernel.ForOp.build([low], [high], self._index_values, lanes)) as index:
            yield index

    def reduce(
        self, kind: str, low: IndexExpr, high: IndexExpr, value_type: Any, body: Any, *, lanes: int = 1
    ) -> Scalar:  # type: ignore[override]
        """The first result of a `kernel.reduce` of what `body` gives at the index that it is called with."""
        scalar = type_of(value_type)
        yielded = elem.with_scalar(kernel.ForOp.variable_types(1, lanes)[0], scalar)
        op = kernel.ReduceOp.build(kind, yielded, [low], [high], self._index_values, lanes)
        with self._body(op) as index:
            value = self._spread(body(index).value, shape_of_type(yielded))
            self.emit(kernel.YieldOp.build(value))
        return Scalar(self, op.results[0])

    def fold(
        self,
        low: IndexExpr,
        high: IndexExpr,
        initials: Sequence[Scalar],
        body: Callable[..., Sequence[Scalar]],
        *,
        lanes: int = 1,
    ) -> list[Scalar]:
        """The results of a `kernel.fold`, for a GPU: `body` is called with the index and what is carried, as many
        values as `initials`, and gives what the next point is given. In a loop, what is carried may have its `lanes`.
        """
        shape = (lanes,) if lanes > 1 else ()
        op = kernel.FoldOp.build(low, high, self._index_values, [self._spread(one.value, shape) for one in initials])
        with self._body(op) as index:
            values = body(index, *(Scalar(self, one) for one in op.carried))
            self.emit(kernel.CarryOp.build([self._spread(one.value, shape) for one in values]))
        return [Scalar(self, one) for one in op.results]

    def load(
        self, pointer: SSAValue, offset: IndexExpr, mask: Scalar | None = None, other: Scalar | None = None
    ) -> Scalar:  # type: ignore[override]
        """The elements at an address, as they are stored: a vector where the address has lanes."""
        masked = () if mask is None or other is None else (mask.value, other.value)
        op = kernel.LoadOp.build(pointer, offset, self._index_values, *masked)
        self.emit(op)
        return Scalar(self, op.results[0])

    def store(self, value: Scalar, pointer: SSAValue, offset: IndexExpr, mask: Scalar | None = None) -> None:  # type: ignore[override]
        """Writes elements at an address."""
        shape = joint_shape([one for at, one in enumerate(self._index_values) if at in sym.dims_of(offset)])
        spread = self._spread(value.value, shape)
        self.emit(
            kernel.StoreOp.build(spread, pointer, offset, self._index_values, None if mask is None else mask.value)
        )

    def elem(self, name: str, *operands: Scalar) -> Scalar:
        """The table op `elem.NAME`, along the lanes of all of its operands."""
        shape = joint_shape([one.value for one in operands])
        return super().elem(name, *(Scalar(self, self._spread(one.value, shape)) for one in operands))

    def constant(self, value: Any, value_type: Attribute) -> Scalar:
        """A number, once for all lanes."""
        return super().constant(value, elem.scalar_of(value_type))

    def _spread(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        if tuple(shape_of(value)) == tuple(shape):
            return value
        op = kernel.BroadcastOp.build(value, *shape)
        self.emit(op)
        return op.result

    def __enter__(self) -> KernelBuilder:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            return
        names = sorted(self.function.symbols_used())
        properties = kernel.FuncOp.properties_of("kernel_0", len(self._outs), names, self.function.schedule)
        self.function.properties.update(properties)
        with self._main as main:
            outs = [self._types[name] for name in self._outs]
            launch = kernel.LaunchOp.build("kernel_0", list(main.arguments.values()), outs)
            main.emit(launch)
            main.emit(ReturnOp.build(launch.results))
            main.add(self.function.clone())

    @property
    def module(self) -> ModuleOp:
        """The program, checked: a copy."""
        return self._main.module

    @property
    def program(self) -> Any:
        """The program as an object that prints, runs and goes on (`cuesta.programs.stages.Program`)."""
        return self._main.program


class HostBuilder(ProgramBuilder):
    """Builds a program of buffers, launches and calls, in order."""

    def __init__(
        self, arguments: Mapping[str, str | Attribute], kernels: Sequence[KernelBuilder], symbols: Ranges | None
    ) -> None:
        super().__init__(arguments, symbols)
        self._names: dict[KernelBuilder, str] = {}
        for number, one in enumerate(kernels):
            function = one.function.clone()
            self._names[one] = f"kernel_{number}"
            function.properties["sym_name"] = StringAttr(f"kernel_{number}")
            self.add(function)

    @property
    def _at_host(self) -> bool:
        return True

    def alloc(self, buffer: str | Attribute) -> SSAValue:
        """A fresh buffer of a type."""
        return self.emit(host.AllocOp.build(type_of(buffer))).results[0]

    def launch(self, launched: KernelBuilder | str, *buffers: SSAValue) -> None:
        """Runs a kernel on buffers: inputs, then outs."""
        if isinstance(launched, KernelBuilder) and launched not in self._names:
            fail("this kernel is not among those that the program was begun with")
        name = launched if isinstance(launched, str) else self._names[launched]
        self.emit(host.LaunchOp.build(name, buffers))

    def extern(self, overload: str, /, *arguments: Any, type: str | Sequence[str], **keywords: Any) -> Any:
        """A library's call, pure; gives its result, or a list of several."""
        operands, call = flatten_call(list(arguments), tuple(keywords.items()))
        types = [type_of(one) for one in ([type] if isinstance(type, str) else type)]
        results = self.emit(host.ExternOp.of(overload, operands, call, types, pure=True)).results
        return results[0] if len(results) == 1 else list(results)

    def reinterpret(self, buffer: SSAValue, result: str | Attribute, *, offset: IndexExpr = 0) -> SSAValue:
        """The same memory with other sizes and strides, from an element on."""
        return self.emit(host.ReinterpretOp.build(buffer, offset, type_of(result))).results[0]

    def free(self, *buffers: SSAValue) -> None:
        """Says that nobody uses these buffers any more."""
        self.emit(host.FreeOp.build(buffers))


__all__ = ["HostBuilder", "KernelBuilder"]
