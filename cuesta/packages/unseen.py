"""What torch.export does not see, and a package would leave out in silence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from cuesta.packages.graph import PackageError

_DATA: Any = torch.Tensor.data
_UNSEEN: dict[Any, str] = {
    _DATA.__set__: "a tensor is given other data (`x.data = y`)",
    torch.Tensor.register_hook: "a hook is registered for the gradient of a tensor",
}
"""What a model may do with a tensor while it runs that leaves nothing in an exported program (torch 2.11, 2.13)."""


class Seeing(TorchFunctionMode):
    """In its `with` block a model that does such a thing is refused. Errors: PackageError."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if (said := _UNSEEN.get(func)) is not None:
            raise PackageError(f"what torch.export does not see cannot be packaged: {said}")
        return func(*args, **(kwargs or {}))


__all__ = ["Seeing"]
