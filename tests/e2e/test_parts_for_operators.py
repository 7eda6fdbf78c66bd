"""Operators of a user's that write to a part of an input, wherever that begins in its storage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.differential import compiled_of

pytestmark = pytest.mark.slow


@torch.library.custom_op("cuesta_parts::write", mutates_args=("out",))
def write(x: Tensor, out: Tensor) -> None:
    out.copy_(x * 2)


@write.register_fake
def _(x: Tensor, out: Tensor) -> None:
    pass


called: Any = torch.ops.cuesta_parts.write
PARTS: dict[str, Callable[[Tensor], Any]] = {
    "rows": lambda x: write(x[:1], x[1:2]),
    "a row": lambda x: write(x[1], x[0]),
    "columns": lambda x: write(x[:, :2], x[:, 1:3]),
    "across": lambda x: write(x[:, 0], x[:, 1]),
    "by its name": lambda x: called(x[1], x[0]),
    "by its overload": lambda x: called.default(x[1], x[0]),
    "all": lambda x: write(x.sin(), x),
}


@pytest.mark.filterwarnings("ignore:cuesta runs a graph in eager. an operator writes to a (view|slice) of an input")
@pytest.mark.parametrize("dynamic", (None, True))
@pytest.mark.parametrize("first", (0, 2))
@pytest.mark.parametrize("name", PARTS)
@pytest.mark.covering(2)
def test_an_operator_that_writes_to_a_part(name: str, first: int, dynamic: bool | None) -> None:
    """PyTorch counts rows from the start of the storage, and nobody guards where an input begins."""

    def program(x: Tensor) -> Tensor:
        PARTS[name](x)
        return x + 1

    torch._dynamo.reset()
    compiled = compiled_of(program, dynamic=dynamic)
    for begins in (first, 1, 2, 0):
        base, mine = (torch.arange(30.0).view(6, 5) for _ in range(2))
        torch.testing.assert_close(compiled(mine[begins : begins + 4]), program(base[begins : begins + 4]))
        torch.testing.assert_close(mine, base)
