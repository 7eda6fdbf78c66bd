"""`lower`: traces a function, lowers it to loops, and compares what the program computes with what torch does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_leaves
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from cuesta.dialects import loops
from cuesta.dialects.core.entry import entry_block
from cuesta.lowering.aten_to_loops import AtenToLoopsPass
from cuesta.lowering.fx_to_aten import import_graph
from cuesta.targets import reference


class Lowering:
    """Calling it checks a function; `module` is the program of the last call."""

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
        AtenToLoopsPass().apply(Context(), self.module)
        self.module.verify()
        block = entry_block(self.module)
        assert tuple(op.overload for op in block.ops if isinstance(op, loops.ExternOp)) == externs
        assert not any(op.name.startswith("aten.") and op.name != "aten.literal" for op in block.ops)
        expected = tree_leaves(function(*inputs))
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
        return self.module

    def ops(self) -> list[str]:
        """The names of the ops of @main, without the return."""
        return [op.name for op in entry_block(self.module).ops][:-1]


@pytest.fixture
def lower() -> Lowering:
    torch.manual_seed(0)
    return Lowering()
