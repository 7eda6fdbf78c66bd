"""Programs written by hand, at each level, for tests and for trying things out.

    >>> from cuesta import build
    >>> with build.aten(x="f32[4, 8]", w="f32[8, 2]") as b:
    ...     b.returns(b.op.relu(b.op.mm(b.x, b.w)))
    >>> print(b.program.text.split("builtin.module")[1])
     {
      func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x2xf32>) -> tensor<4x2xf32> {
        %0 = aten.mm.default(%x, %w) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
        %1 = aten.relu.default(%0) : (tensor<4x2xf32>) -> tensor<4x2xf32>
        func.return %1 : tensor<4x2xf32>
      }
    }
    <BLANKLINE>

Types are short texts (`cuesta.programs.building.type_of`). An op comes from the line that asked for it, which errors
name. At the end of the `with` block the program is held to the rules of its level: then it is `b.module`, and
`b.program`.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from xdsl.ir import Attribute, Operation, SSAValue

from cuesta.dialects import sym
from cuesta.dialects.aten import (
    ArgumentOrValue,
    AtenOp,
    CallOp,
    Device,
    DType,
    MemoryFormat,
    flatten_call,
    op_class,
    schemas,
)
from cuesta.dialects.layout import device_of, is_tensor_type, sizes_of, tensor_type
from cuesta.lowering.aten.builder import LoopBuilder, Nest
from cuesta.programs.building import BuildError, ProgramBuilder, Ranges, fail, here, symbols_of_type, type_of

if TYPE_CHECKING:
    from cuesta.programs.building_kernels import HostBuilder, KernelBuilder


def aten(*, symbols: Ranges | None = None, **arguments: str | Attribute) -> AtenBuilder:
    """A program at the level `aten`, with these arguments. `symbols` are the ranges of sizes, from 2 on if not said."""
    return AtenBuilder(arguments, symbols)


def loops(*, symbols: Ranges | None = None, **arguments: str | Attribute) -> LoopsBuilder:
    """A program at the level `loops`.

    >>> from cuesta import build
    >>> with build.loops(x="f32[4, 8]") as b:
    ...     with b.nest("f32[4]") as n:
    ...         total = b.reduce("sum", [8], "f32", lambda k: b.load(b.x, [*n.indices, *k]))
    ...         b.store(total * 2.0, n.handles[0], n.indices)
    ...     b.returns(*n.results)
    >>> import torch
    >>> b.program.run(torch.ones(4, 8))
    (tensor([16., 16., 16., 16.]),)
    """
    return LoopsBuilder(arguments, symbols)


@contextmanager
def nest(*outs: str | Attribute, symbols: Ranges | None = None, **arguments: str | Attribute) -> Generator[NestBuilder]:
    """A program that is one nest over the sizes of its first out, and returns its outs.

    >>> from cuesta import build
    >>> with build.nest("f32[8]", x="f32[8]") as n:
    ...     n.store(n.load(n.x, n.indices).convert(build.type_of("f32")) * 3.0)
    >>> import torch
    >>> n.program.compile()(torch.ones(8))
    (tensor([3., 3., 3., 3., 3., 3., 3., 3.]),)
    """
    with NestBuilder(arguments, symbols) as builder:
        with builder.nest(*outs) as found:
            builder.opened = found
            yield builder
        builder.returns(*found.results)


def kernel(
    outs: Mapping[str, str | Attribute],
    *,
    grid: Sequence[int | str] = (1,),
    choices: Mapping[str, int | str] | None = None,
    symbols: Ranges | None = None,
    **arguments: str | Attribute,
) -> KernelBuilder:
    """A program at the level `kernel`: one kernel, launched once, whose pointers are the arguments and the outs.

    >>> from cuesta import build
    >>> with build.kernel({"y": "f32[4, 60]"}, grid=[4], x="f32[4, 60]") as k:
    ...     row = k.program_id(0)
    ...     with k.loop(0, 60, lanes=16) as j:
    ...         k.store(k.load(k.x, row * 60 + j) + 1.0, k.y, row * 60 + j)
    >>> import torch
    >>> k.program.compile()(torch.zeros(4, 60))[0].sum()
    tensor(240.)
    """
    from cuesta.programs.building_kernels import KernelBuilder

    return KernelBuilder(arguments, outs, grid, choices or {}, symbols)


def host(*kernels: KernelBuilder, symbols: Ranges | None = None, **arguments: str | Attribute) -> HostBuilder:
    """A program at the level `host`, with the kernels of others.

    >>> from cuesta import build
    >>> with build.kernel({"y": "f32[8]"}, x="f32[8]") as k:
    ...     with k.loop(0, 8, lanes=8) as j:
    ...         k.store(k.load(k.x, j) * 2.0, k.y, j)
    >>> with build.host(k, x="f32[8]") as h:
    ...     y = h.alloc("f32[8]")
    ...     h.launch(k, h.x, y)
    ...     h.free(h.x)
    ...     h.returns(y)
    >>> import torch
    >>> h.program.run(torch.ones(8))
    (tensor([2., 2., 2., 2., 2., 2., 2., 2.]),)
    """
    from cuesta.programs.building_kernels import HostBuilder

    return HostBuilder(arguments, kernels, symbols)


class AtenBuilder(ProgramBuilder):
    """Builds a program of calls of ATen. `b.op.mm(b.x, b.w)` is the overload that torch takes for these arguments."""

    @property
    def op(self) -> Operators:
        """The operators of ATen, by name."""
        return Operators(self)

    def call(self, overload: str, /, *arguments: Any, type: str | Sequence[str] = (), **keywords: Any) -> Any:
        """Calls an overload, `aten.add.Tensor`; gives its result, or a list of several. torch knows their types;
        with symbolic sizes, `type` does.

        Errors: BuildError for an overload that there is not, or results whose types nobody says; CuestaError when torch
        refuses the call.
        """
        keywords = {name: _constant(value) for name, value in keywords.items()}
        positional = [_constant(one) for one in arguments]
        types = [type_of(one) for one in ([type] if isinstance(type, str) else type)]
        if overload.startswith("aten.") and not schemas.has_operation(overload):
            fail(f"there is no overload {overload}")
        op = _call_op(overload, positional, keywords, types)
        op.location = here()
        if not types:
            op = _call_op(overload, positional, keywords, self._types(op))
        results = self.emit(op).results
        return results[0] if len(results) == 1 else list(results)

    def _types(self, op: AtenOp | CallOp) -> list[Attribute]:
        import torch

        from cuesta.programs.aten_types import meta_of, torch_gives

        values = {operand: meta_of(operand, {}) for operand in op.operands}
        given = torch_gives(op, values, {}) if None not in values.values() else None
        if given is None:
            fail(f"{op.overload}: what it gives depends on sizes, or data: say it, type='f32[s0, 4]'")
        keywords = dict(op.arguments_attr.keywords)
        devices = [device_of(one.type) for one in op.operands if is_tensor_type(one.type)]
        said = keywords.get("device")
        device = said.name if isinstance(said, Device) else next(iter(devices), "cpu")
        found: list[Attribute] = []
        for one in given:
            if not isinstance(one, torch.Tensor):
                fail(f"{op.overload} gives a {one.__class__.__name__}: say its types")
            dtype = type_of(f"{str(one.dtype).removeprefix('torch.')}[]")
            assert is_tensor_type(dtype)
            found.append(tensor_type(tuple(one.shape), dtype.element_type, one.stride(), device))
        return found


class Operators:
    """The operators of ATen as functions of values of a program."""

    def __init__(self, builder: AtenBuilder) -> None:
        self._builder = builder

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **keywords: Any) -> Any:
            return self._builder.call(f"aten.{name}.{_overload_for(name, arguments, keywords)}", *arguments, **keywords)

        return call


def _overload_for(name: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> str:
    """The overload that torch takes for arguments of these types. Errors: BuildError."""
    import torch

    from cuesta.programs.aten_types import meta_of

    def stand_in(one: Any) -> Any:
        if isinstance(one, list | tuple):
            return [stand_in(element) for element in one]
        return meta_of(one, dict.fromkeys(symbols_of_type(one.type), 6)) if isinstance(one, SSAValue) else one

    given = {key: stand_in(value) for key, value in keywords.items() if key != "type"}
    try:
        return torch._C._jit_resolve_packet(f"aten::{name}", *map(stand_in, arguments), **given)
    except RuntimeError as error:
        said = " ".join(str(error).split())
        fail(f"aten.{name}: {said if len(said) < 300 else said[:300] + ' …'}")


def _constant(value: Any) -> ArgumentOrValue:
    """An argument as a call holds it: lists as tuples, dtypes and devices of torch by name."""
    if isinstance(value, list | tuple):
        return tuple(_constant(one) for one in value)
    kind = value.__class__.__module__, value.__class__.__name__
    if kind == ("torch", "dtype"):
        return DType(str(value).removeprefix("torch."))
    if kind == ("torch", "memory_format"):
        return MemoryFormat(str(value).removeprefix("torch."))
    if kind == ("torch", "device"):
        return Device(str(value))
    return value


def _call_op(
    overload: str,
    positional: Sequence[ArgumentOrValue],
    keywords: Mapping[str, ArgumentOrValue],
    types: Sequence[Attribute],
) -> AtenOp | CallOp:
    if schemas.has_operation(overload):
        return op_class(overload).build(positional, keywords, result_types=types)
    return CallOp.build(overload, positional, keywords, result_types=types)


class LoopsBuilder(ProgramBuilder, LoopBuilder):
    """Builds a program of nests: what rules for ATen are written with (`cuesta.lowering.aten.builder.LoopBuilder`), and
    the program around it.
    """

    def __init__(self, arguments: Mapping[str, str | Attribute], symbols: Ranges | None = None) -> None:
        ProgramBuilder.__init__(self, arguments, symbols)
        LoopBuilder.__init__(self, self.block, here())

    def emit(self, op: Operation) -> Any:
        """Puts an op at the end of the body that is being filled; gives its first result, if it has one."""
        self.location = here()
        return LoopBuilder.emit(self, op)

    @contextmanager
    def nest(self, *outs: Any, sizes: Sequence[sym.IndexExpr] | None = None) -> Generator[Nest]:  # type: ignore[override]
        """A `loops.nest` over `sizes`, or those of the first out; the `with` block fills its body."""
        types = [type_of(one) for one in outs]
        first = types[0] if types else None
        if first is None or not is_tensor_type(first):
            fail("a nest has outs, which are tensors")
        with LoopBuilder.nest(self, sizes_of(first) if sizes is None else sizes, types) as found:
            yield found

    def reduce(self, kind: str, sizes: Any, value_type: Any, body: Any) -> Any:
        """The first result of a `loops.reduce` of what `body` gives at the indices that it is called with."""
        return LoopBuilder.reduce(self, kind, sizes, type_of(value_type), body)

    def extern(self, overload: str, /, *arguments: Any, type: str | Sequence[str], **keywords: Any) -> Any:
        """A library's call, pure; gives its result, or a list of several."""
        from cuesta.dialects.loops import ExternOp

        flat = [(name, _constant(value)) for name, value in keywords.items()]
        operands, call = flatten_call([_constant(one) for one in arguments], tuple(flat))
        types = [type_of(one) for one in ([type] if isinstance(type, str) else type)]
        op = ExternOp.of(overload, operands, call, types, pure=True)
        self.emit(op)
        return op.results[0] if len(op.results) == 1 else list(op.results)


class NestBuilder(LoopsBuilder):
    """Builds a program of one nest."""

    opened: Nest

    @property
    def indices(self) -> list[sym.IndexExpr]:
        """The indices of the point."""
        return self.opened.indices

    def store(self, value: Any, handle: Any = None, indices: Any = None, mask: Any = None) -> None:
        """Writes an element: of the first out at the point itself, if nothing else is said."""
        where = self.opened.handles[0] if handle is None else handle
        LoopBuilder.store(self, value, where, self.opened.indices if indices is None else indices, mask)


__all__ = [
    "AtenBuilder",
    "BuildError",
    "LoopsBuilder",
    "NestBuilder",
    "Operators",
    "aten",
    "host",
    "kernel",
    "loops",
    "nest",
    "type_of",
]
