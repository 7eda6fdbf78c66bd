"""`lower`: traces a function, lowers it to loops, and compares what the program computes with what torch does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_leaves
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Block, Region, SSAValue

from cuesta.dialects import loops
from cuesta.dialects.aten import CallOp, DType, MemoryFormat, dtype_to_type, op_class, schemas
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.func import FuncOp, ReturnOp
from cuesta.dialects.layout import tensor_type
from cuesta.lowering.aten.aten_to_loops import AtenToLoopsPass
from cuesta.lowering.capture.fx_to_aten import import_graph
from cuesta.targets import reference


class Lowering:
    """Calling it checks a function, `call` one overload; `module` is the program of the last check."""

    module: ModuleOp

    def __call__(
        self,
        function: Callable[..., Any],
        *inputs: Any,
        externs: tuple[str, ...] = (),
        dynamic: bool = False,
        values: bool = True,
        rtol: float | None = None,
        atol: float | None = None,
    ) -> ModuleOp:
        """`externs` are the calls that must remain, and no others may."""
        graph = make_fx(function, tracing_mode="symbolic" if dynamic else "fake")(*inputs)
        self.module = import_graph(graph).module
        expected = tree_leaves(function(*inputs))
        self._check(expected, inputs, externs, values, rtol, atol)
        return self.module

    def call(
        self,
        overload: str,
        *arguments: Any,
        rtol: float | None = None,
        atol: float | None = None,
        externs: tuple[str, ...] = (),
        expected: Sequence[torch.Tensor] | None = None,
        **keywords: Any,
    ) -> ModuleOp:
        """Checks one call (`add.Tensor`, `prims::iota.default`), built without tracing, which is 30 times faster.

        `expected` is for what eager cannot run on the CPU.
        """
        namespace, _, rest = overload.rpartition("::")
        packet, name = rest.split(".")
        function = getattr(getattr(getattr(torch.ops, namespace or "aten"), packet), name)
        expected = tree_leaves(function(*arguments, **keywords)) if expected is None else expected
        inputs = [value for value in tree_leaves((arguments, keywords)) if isinstance(value, torch.Tensor)]
        block = Block(arg_types=[_type_of(value) for value in inputs])
        values = iter(block.args)
        build = partial(_written, values=values)
        positional = [build(argument) for argument in arguments]
        named = {key: build(argument) for key, argument in keywords.items()}
        result_types = [_type_of(value) for value in expected]
        full = overload if namespace else f"aten.{overload}"
        if schemas.has_operation(full):
            op = op_class(full).build(positional, named, result_types=result_types)
        else:
            op = CallOp.build(full.replace("aten.", "aten::", 1), positional, named, result_types=result_types)
        block.add_ops([op, ReturnOp.build(op.results)])
        main = FuncOp.build("main", [value.type for value in block.args], result_types, Region(block))
        self.module = ModuleOp([main])
        self._check(expected, inputs, externs, True, rtol, atol)
        return self.module

    def _check(
        self,
        expected: Sequence[Any],
        inputs: Sequence[Any],
        externs: tuple[str, ...],
        values: bool,
        rtol: float | None,
        atol: float | None,
    ) -> None:
        AtenToLoopsPass().apply(Context(), self.module)
        self.module.verify()
        block = entry_block(self.module)
        assert tuple(op.overload for op in block.ops if isinstance(op, loops.ExternOp)) == externs
        assert not any(op.name.startswith("aten.") and op.name != "aten.literal" for op in block.ops)
        found = reference.run(self.module, [value for value in inputs if not isinstance(value, int)])
        assert len(found) == len(expected)
        for got, want in zip(found, expected, strict=True):
            if not isinstance(want, torch.Tensor):
                assert got == want
                continue
            assert isinstance(got, torch.Tensor)
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            if values:
                torch.testing.assert_close(got, want, equal_nan=True, rtol=rtol, atol=atol)

    def ops(self) -> list[str]:
        """The names of the ops of @main, without the return."""
        return [op.name for op in entry_block(self.module).ops][:-1]


def _type_of(value: torch.Tensor) -> TensorType:
    return tensor_type(tuple(value.shape), dtype_to_type(str(value.dtype)[6:]), value.stride())


def _written(argument: Any, values: Iterator[SSAValue]) -> Any:
    if isinstance(argument, torch.Tensor):
        return next(values)
    if isinstance(argument, list | tuple):
        return [_written(element, values) for element in argument]
    if isinstance(argument, torch.dtype):
        return DType(str(argument)[6:])
    if isinstance(argument, torch.memory_format):
        return MemoryFormat(str(argument)[6:])
    return argument


@pytest.fixture
def lower() -> Lowering:
    torch.manual_seed(0)
    return Lowering()
