"""Values of which a test knows that they are tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp

from cuesta.targets.reference import run


def tensors(values: Iterable[object]) -> list[Tensor]:
    """The values, all tensors. Errors: AssertionError when one is not."""
    found: list[Tensor] = []
    for value in values:
        assert isinstance(value, Tensor), f"{value!r} is no tensor"
        found.append(value)
    return found


def run_tensors(
    module: ModuleOp,
    inputs: Sequence[object],
    *,
    constants: Mapping[str, Tensor] | Sequence[Tensor] | None = None,
    precise: bool = False,
) -> list[Tensor]:
    """What the reference interpreter computes, when it is tensors."""
    return tensors(run(module, inputs, constants=constants, precise=precise))


def special_rows(rows: int, columns: int) -> Tensor:
    """Rows with infinities and NaN, all of it or in one half only, and ordinary ones. Requires: four rows at least."""
    x = torch.randn(rows, columns)
    x[0, 3] = torch.inf
    x[1] = -torch.inf
    x[2, : columns // 2] = -torch.inf
    x[3, 5] = torch.nan
    return x


class FakeOn(Tensor):
    """A tensor that says it is on some device."""

    @staticmethod
    def __new__(cls, device: str) -> FakeOn:
        return Tensor._make_wrapper_subclass(cls, (4,), device=torch.device(device), dtype=torch.float32)  # type: ignore[attr-defined]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError
